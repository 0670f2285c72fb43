/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c: a key that belongs to one job of the fleet.
 * Owns nothing.
 * Keeps: a record that another job has made is never replaced, but for one that was released.
 * Does not look for ends (out.c). */
#include "fleet/claim.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define AGAIN_USEC 500000u
#define PAUSE_USEC 1000000u /* between two looks for another job's end, at first */
#define PAUSE_MAX  10000000u
#define RELEASED   "-"

static void again(struct claim *c, uint64_t pause_usec)
{
    c->due_usec = clock_monotonic_usec() + pause_usec;
}

static void ask_for_it(struct claim *c, uint64_t behind)
{
    c->asks = false;
    c->due_usec = UINT64_MAX;
    bus_ask_behind(c->bus, &c->question, c->subject, behind, c->owner, strlen(c->owner));
}

/* What the record says. False: it is none that a wsd-fleet has made. */
static bool read_record(struct claim *c, natsMsg *msg)
{
    char text[sizeof(c->owner)];

    snprintf(text, sizeof(text), "%.*s", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    return sscanf(text, "%31s %32s", c->node, c->id) == 2 && letter_is_name(c->node, strlen(c->node), LETTER_NAME) &&
           letter_is_name(c->id, strlen(c->id), LETTER_ID);
}

static void who_has_it(struct claim *c, natsMsg *msg)
{
    char own[sizeof(c->owner)];

    if (bus_found(msg) == BUS_UNKNOWN) {
        again(c, AGAIN_USEC);
        return;
    }
    if (bus_found(msg) == BUS_NONE) { /* it was there, and is too old now */
        ask_for_it(c, 0);
        return;
    }
    if (!read_record(c, msg)) {
        ask_for_it(c, bus_number(msg));
        return;
    }
    snprintf(own, sizeof(own), "%s %s", c->node, c->id);
    c->is_own = strcmp(own, c->owner) == 0;
    c->told(c);
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct claim *c = container_of(q, struct claim, question);

    if (!msg) {
        again(c, AGAIN_USEC);
    } else if (c->asks) {
        who_has_it(c, msg);
    } else if (bus_is_stored(msg)) {
        c->is_own = true;
        c->told(c);
    } else if (bus_is_outdated(msg)) {
        c->asks = true;
        c->due_usec = UINT64_MAX;
        bus_ask_last(c->bus, &c->question, STREAM_RESULTS, c->subject);
    } else {
        again(c, AGAIN_USEC);
    }
}

void claim_begin(struct claim *c, struct bus *bus, const char *user, const char *key, const char *node, const char *id,
                 void (*told)(struct claim *c))
{
    char text[CODEC_TEXT_MAX + CODEC_KEY_MAX];
    uint8_t digest[EVP_MAX_MD_SIZE] = {0};
    char hex[2 * LETTER_DIGEST + 1];
    int n = snprintf(text, sizeof(text), "%s%c%s", user, 0, key);

    (void)EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha256(), NULL);
    for (size_t i = 0; i < LETTER_DIGEST; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    *c = (struct claim){.bus = bus, .question.answered = answered, .pause_usec = PAUSE_USEC, .told = told};
    letter_end_subject(c->subject, CLAIM_NODE, hex);
    snprintf(c->owner, sizeof(c->owner), "%s %s", node, id);
    ask_for_it(c, 0);
}

void claim_again_later(struct claim *c)
{
    again(c, c->pause_usec);
    c->pause_usec = MIN(2 * c->pause_usec, (uint64_t)PAUSE_MAX);
}

void claim_tick(struct claim *c, uint64_t now_usec)
{
    if (c->bus && !c->question.bus && now_usec >= c->due_usec)
        ask_for_it(c, 0);
}

void claim_release(struct claim *c)
{
    if (c->is_own)
        (void)bus_tell(c->bus, c->subject, NULL, RELEASED, strlen(RELEASED));
    claim_forget(c);
}

void claim_forget(struct claim *c)
{
    bus_forget(&c->question);
    *c = (struct claim){0};
}
