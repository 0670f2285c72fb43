/* SPDX-License-Identifier: Apache-2.0
 *
 * renew.c: consumers that do not fit their stream.
 * Owns nothing.
 * Keeps: no job is taken from the stream. A consumer that is ahead of its stream goes at once. One that has a job behind
 * it goes when the job is there at two looks: it may have been acknowledged a moment ago.
 * Does not make consumers (in.c), or look for numbers without a job (sweep.c). */
#include "fleet/renew.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"

/* Codes of the servers' errors. */
#define NO_MESSAGE  "10037"
#define NO_CONSUMER "10014"

static void tell(struct renew *r, enum renewal what)
{
    if (what != RENEW_AGAIN)
        r->left = 0;
    r->told(r->context, what);
}

static void removed(struct bus_question *q, natsMsg *msg)
{
    struct renew *r = container_of(q, struct renew, question);

    tell(r, msg && !bus_status(msg) && (!bus_says(msg, "\"error\":") || bus_says(msg, NO_CONSUMER))
                ? RENEW_GONE
                : RENEW_AGAIN); /* another node may have removed it */
}

static void take_away(struct renew *r, const char *why)
{
    char subject[BUS_SUBJECT];

    log_notice("wsd-fleet: consumer %s is made anew: %s", r->consumer, why);
    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DELETE." STREAM_JOBS ".%s", r->consumer);
    r->question.answered = removed;
    bus_ask(r->bus, &r->question, subject, NULL, NULL, 0);
}

/* The number at these names; 0: there is none. */
static uint64_t number_at(natsMsg *msg, const char *object, const char *name)
{
    json_error_t error;
    json_t *j = json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, &error);
    uint64_t n = (uint64_t)json_integer_value(json_object_get(json_object_get(j, object), name));

    json_decref(j);
    return n;
}

/* Its first job in the stream. */
static void on_job(struct bus_question *q, natsMsg *msg)
{
    struct renew *r = container_of(q, struct renew, question);
    uint64_t before = r->left;

    if (!msg || bus_status(msg) || (bus_says(msg, "\"error\":") && !bus_says(msg, NO_MESSAGE))) {
        tell(r, RENEW_AGAIN);
        return;
    }
    r->left = number_at(msg, "message", "seq");
    if (r->left == 0 || r->left > r->delivered)
        tell(r, RENEW_RIGHT);
    else if (r->left == before)
        take_away(r, "the stream has jobs that it takes for ended");
    else
        tell(r, RENEW_AGAIN);
}

static void on_stream(struct bus_question *q, natsMsg *msg)
{
    struct renew *r = container_of(q, struct renew, question);
    char request[LETTER_SUBJECT + 64];

    if (!msg || bus_status(msg) || bus_says(msg, "\"error\":")) {
        tell(r, RENEW_AGAIN);
        return;
    }
    if (r->delivered > number_at(msg, "state", "last_seq")) {
        take_away(r, "the stream has forgotten jobs that it has handed out");
    } else if (r->is_idle && number_at(msg, "state", "messages") > 0) {
        int n = snprintf(request, sizeof(request), "{\"seq\":1,\"next_by_subj\":\"%s\"}", r->subjects);

        r->question.answered = on_job;
        bus_ask(r->bus, &r->question, "$JS.API.STREAM.MSG.GET." STREAM_JOBS, NULL, request, (size_t)n);
    } else {
        tell(r, RENEW_RIGHT);
    }
}

void renew_look(struct renew *r, const char *subjects, uint64_t delivered, bool is_idle)
{
    r->delivered = delivered;
    r->is_idle = is_idle;
    snprintf(r->subjects, sizeof(r->subjects), "%s", subjects);
    if (delivered == 0) {
        tell(r, RENEW_RIGHT);
        return;
    }
    r->question.answered = on_stream;
    bus_ask(r->bus, &r->question, "$JS.API.STREAM.INFO." STREAM_JOBS, NULL, NULL, 0);
}

bool renew_looks(const struct renew *r)
{
    return r->question.bus;
}

void renew_reset(struct renew *r)
{
    bus_forget(&r->question);
    r->left = 0;
}
