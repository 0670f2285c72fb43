/* SPDX-License-Identifier: Apache-2.0
 *
 * mark.c: that a job has begun.
 * Owns nothing but its own question.
 * Keeps: a mark is renewed behind itself only, so it never replaces another node's. One that is gone, as its servers
 * were away for longer than they keep it, is made again where no other has been made.
 * Does not decide whether a job may begin (guest.c). */
#include "fleet/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static void subject_of(const struct mark *m, char ret[static LETTER_SUBJECT])
{
    letter_end_subject(ret, MARK_NODE, m->id);
}

static size_t write_record(const struct mark *m, char ret[static 64])
{
    return (size_t)snprintf(ret, 64, "%" PRIu32 " %s %" PRIu32, m->attempt, m->tag, m->times);
}

void mark_read(natsMsg *msg, struct mark_record *ret)
{
    char text[64];

    *ret = (struct mark_record){.times = 1};
    snprintf(text, sizeof(text), "%.*s", bus_status(msg) ? 0 : natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    (void)sscanf(text, "%" SCNu32 " %16s %" SCNu32, &ret->attempt, ret->tag, &ret->times);
    if (ret->times == 0)
        ret->times = 1;
}

void mark_look(const struct mark *m, struct bus_question *q)
{
    char subject[LETTER_SUBJECT];

    subject_of(m, subject);
    bus_ask_last(m->bus, q, STREAM_RESULTS, subject);
}

void mark_put(const struct mark *m, struct bus_question *q, uint64_t behind)
{
    char subject[LETTER_SUBJECT], text[64];

    subject_of(m, subject);
    bus_ask_behind(m->bus, q, subject, behind, text, write_record(m, text));
}

void mark_count(const struct mark *m, struct bus_question *q)
{
    char subject[LETTER_SUBJECT], text[64];

    subject_of(m, subject);
    bus_ask(m->bus, q, subject, NULL, text, write_record(m, text));
}

/* --- renewing ----------------------------------------------------------------------------------------------------- */

static void due_in(struct mark *m, uint64_t usec)
{
    m->due_usec = clock_boottime_usec() + usec;
}

static void renew(struct mark *m)
{
    if (m->looks)
        mark_look(m, &m->question);
    else
        mark_put(m, &m->question, m->number);
}

/* An answer was lost, or the record is gone, or is another node's. */
static void seen(struct mark *m, natsMsg *msg)
{
    struct mark_record r;

    mark_read(msg, &r);
    m->looks = false;
    if (bus_found(msg) == BUS_NONE) {
        m->number = 0;
        renew(m);
    } else if (r.attempt == m->attempt && strcmp(r.tag, m->tag) == 0) {
        mark_stands(m, bus_number(msg));
    } else {
        log_warning("wsd-fleet: job %s runs here, and another node has marked it as begun", m->id);
        m->stands = false;
    }
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct mark *m = container_of(q, struct mark, question);

    due_in(m, MARK_AGAIN_USEC);
    if (m->looks && bus_found(msg) != BUS_UNKNOWN) {
        seen(m, msg);
    } else if (!m->looks && bus_is_stored(msg)) {
        mark_stands(m, bus_sequence(msg));
    } else if (!m->looks && msg && bus_is_outdated(msg)) {
        m->looks = true;
        renew(m);
    }
}

void mark_init(struct mark *m, struct bus *bus, const char *id, const char *tag, uint32_t attempt)
{
    *m = (struct mark){.bus = bus, .id = id, .tag = tag, .attempt = attempt, .times = 1, .question.answered = answered};
}

void mark_stands(struct mark *m, uint64_t number)
{
    m->stands = true;
    m->looks = false;
    m->number = number;
    due_in(m, MARK_RENEW_USEC);
}

void mark_tick(struct mark *m, uint64_t now_usec)
{
    if (m->stands && !m->question.bus && now_usec >= m->due_usec)
        renew(m);
}

void mark_release(struct mark *m)
{
    char subject[LETTER_SUBJECT];

    if (m->stands) {
        subject_of(m, subject);
        (void)bus_tell(m->bus, subject, NULL, "0", 1);
    }
    mark_forget(m);
}

void mark_forget(struct mark *m)
{
    bus_forget(&m->question);
    m->stands = false;
}
