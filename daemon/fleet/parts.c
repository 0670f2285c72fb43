/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.c: large inputs and outputs on their way.
 * Owns the digest of a transfer.
 * Keeps: a part is sent until the server has it, and only then the next one. What a receiver gets has the size and the
 * digest of the seal, or is said to be wrong. A repeated part replaces its like in the stream, so it needs no id.
 * Does not know jobs, but for the name that their parts have. */
#include "fleet/parts.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define PAUSE_USEC 500000u

/* --- sizes -------------------------------------------------------------------------------------------------------- */

uint32_t parts_count(uint64_t size)
{
    return (uint32_t)((size + PARTS_SIZE - 1) / PARTS_SIZE);
}

size_t parts_size(uint64_t size, uint32_t n)
{
    return (size_t)MIN(size - (uint64_t)n * PARTS_SIZE, (uint64_t)PARTS_SIZE);
}

/* --- both ways ---------------------------------------------------------------------------------------------------- */

void parts_forget(struct parts *p)
{
    bus_forget(&p->question);
    EVP_MD_CTX_free(p->digest);
    p->digest = NULL;
    p->due_usec = UINT64_MAX;
}

static void end(struct parts *p, int error)
{
    parts_forget(p);
    p->done(p, error);
}

static int wrong(struct parts *p, const char *what)
{
    snprintf(p->why, sizeof(p->why), "part %u of %u %s", p->n + 1, parts_count(p->seal.size), what);
    return -EBADMSG;
}

static bool is_last(const struct parts *p)
{
    return p->n + 1 == parts_count(p->seal.size);
}

/* Publishes the part that is next, or asks for it. */
static void ask(struct parts *p)
{
    char subject[LETTER_SUBJECT + 12];

    p->due_usec = UINT64_MAX;
    snprintf(subject, sizeof(subject), "%s.%u", p->subject, p->n);
    if (p->from)
        bus_ask(p->bus, &p->question, subject, NULL, p->from + (size_t)p->n * PARTS_SIZE,
                parts_size(p->seal.size, p->n));
    else
        bus_ask_last(p->bus, &p->question, STREAM_PARTS, subject);
}

static void ask_next(struct parts *p)
{
    p->n++;
    p->n_silent = p->n_gone = 0;
    ask(p);
}

static void ask_later(struct parts *p)
{
    p->due_usec = clock_monotonic_usec() + PAUSE_USEC;
}

/* No server could answer. */
static void wait_for_server(struct parts *p)
{
    if (++p->n_silent == PARTS_TRIES && bus_is_up(p->bus))
        log_warning("wsd-fleet: %s: no server %s it, and it is %s again. Is there no stream " STREAM_PARTS
                    "? `wsctl fleet init` makes it",
                    p->subject, p->from ? "stores" : "has", p->from ? "sent" : "asked for");
    ask_later(p);
}

void parts_tick(struct parts *p, uint64_t now_usec)
{
    if (p->digest && now_usec >= p->due_usec)
        ask(p);
}

/* Adds a part to the digest. Returns 0 or -ENOMEM. */
static int digest(struct parts *p, const void *data, size_t size)
{
    return EVP_DigestUpdate(p->digest, data, size) == 1 ? 0 : -ENOMEM;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void on_stored(struct bus_question *q, natsMsg *msg)
{
    struct parts *p = container_of(q, struct parts, question);

    if (!bus_is_stored(msg)) {
        wait_for_server(p);
        return;
    }
    int r = digest(p, p->from + (size_t)p->n * PARTS_SIZE, parts_size(p->seal.size, p->n));
    if (r < 0)
        end(p, r);
    else if (!is_last(p))
        ask_next(p);
    else
        end(p, EVP_DigestFinal_ex(p->digest, p->seal.digest, NULL) == 1 ? 0 : -ENOMEM);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

/* Whether all that came is what was sealed. */
static int check_digest(struct parts *p)
{
    uint8_t is[LETTER_DIGEST];

    if (EVP_DigestFinal_ex(p->digest, is, NULL) != 1)
        return -ENOMEM;
    if (memcmp(is, p->seal.digest, sizeof(is)) == 0)
        return 0;
    snprintf(p->why, sizeof(p->why), "its parts have another SHA-256 than its letter says");
    return -EBADMSG;
}

static int take(struct parts *p, natsMsg *msg)
{
    size_t size = (size_t)natsMsg_GetDataLength(msg);

    if (size != parts_size(p->seal.size, p->n))
        return wrong(p, "has another size");
    if (buffer_put(p->to, natsMsg_GetData(msg), size) < 0)
        return -ENOMEM;
    return digest(p, natsMsg_GetData(msg), size);
}

static void on_part(struct bus_question *q, natsMsg *msg)
{
    struct parts *p = container_of(q, struct parts, question);
    enum bus_found found = bus_found(msg);

    if (found == BUS_UNKNOWN) {
        wait_for_server(p);
        return;
    }
    if (found == BUS_NONE && ++p->n_gone < PARTS_TRIES) { /* a server of a cluster may not have it yet */
        ask_later(p);
        return;
    }
    if (found == BUS_NONE) {
        (void)wrong(p, "is not there");
        end(p, -ENOENT);
        return;
    }
    int r = take(p, msg);
    if (r < 0)
        end(p, r);
    else if (!is_last(p))
        ask_next(p);
    else
        end(p, check_digest(p));
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

static int begin(struct parts *p, const struct parts_name *name, void (*done)(struct parts *p, int error))
{
    p->bus = name->bus;
    p->done = done;
    p->n = p->n_silent = p->n_gone = 0;
    *p->why = 0;
    letter_parts_subject(p->subject, name->home, name->id, name->attempt, name->way, p->seal.mark);
    p->digest = EVP_MD_CTX_new();
    if (!p->digest || EVP_DigestInit_ex(p->digest, EVP_sha256(), NULL) != 1) {
        parts_forget(p);
        return -ENOMEM;
    }
    ask(p);
    return 0;
}

int parts_send(struct parts *p, const struct parts_name *name, const void *data, size_t size,
               void (*done)(struct parts *p, int error))
{
    p->seal = (struct letter_seal){.size = size};
    p->from = data;
    p->to = NULL;
    p->question.answered = on_stored;
    if (getrandom(p->seal.mark, sizeof(p->seal.mark), 0) < 0)
        return -errno;
    return begin(p, name, done);
}

int parts_fetch(struct parts *p, const struct parts_name *name, const struct letter_seal *seal, struct buffer *to,
                void (*done)(struct parts *p, int error))
{
    p->seal = *seal;
    p->from = NULL;
    p->to = to;
    p->question.answered = on_part;
    return begin(p, name, done);
}

/* before: the id, in the subjects. */
static void purge(struct bus *bus, const char *before, const char *dot, const char *id, uint32_t attempt)
{
    char request[160];
    int n = snprintf(request, sizeof(request), "{\"filter\":\"wsd.part.%s%s%s-%u.>\"}", before, dot, id, attempt);

    (void)bus_tell(bus, "$JS.API.STREAM.PURGE." STREAM_PARTS, NULL, request, (size_t)n);
}

void parts_purge(struct bus *bus, const char *home, const char *id, uint32_t attempt)
{
    purge(bus, "", "", id, attempt);
    purge(bus, home, ".", id, attempt);
}
