/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c: jobs that the server takes for held, and that are gone.
 * Owns nothing.
 * Keeps: nothing is acknowledged but a number that the server has no message for. One question is under way at a time.
 * Does not touch jobs that are there (renew.c has those that its consumer does not hand out). */
#include "fleet/sweep.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "fleet/letter.h"

static void answered(struct bus_question *q, natsMsg *msg);

static void ask(struct sweep *s)
{
    char request[32];
    int n = snprintf(request, sizeof(request), "{\"seq\":%" PRIu64 "}", s->at);

    s->question.answered = answered;
    bus_ask(s->bus, &s->question, "$JS.API.STREAM.MSG.GET." STREAM_JOBS, NULL, request, (size_t)n);
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct sweep *s = container_of(q, struct sweep, question);
    char subject[BUS_SUBJECT];

    if (!msg || bus_status(msg))
        return;                                 /* the next look goes on */
    if (bus_says(msg, "\"err_code\":10037,")) { /* no message found */
        snprintf(subject, sizeof(subject), "$JS.ACK." STREAM_JOBS ".%s.1.%" PRIu64 ".1.0.0", s->consumer, s->at);
        (void)bus_tell(s->bus, subject, NULL, "+ACK", 4);
    } else if (bus_says(msg, "\"error\":")) {
        return; /* likewise */
    }
    s->at++;
    if (s->at <= s->to)
        ask(s);
}

void sweep_look(struct sweep *s, const struct sweep_look *look)
{
    bool is_new = s->to == 0 || look->floor >= s->to;

    if (look->held == 0) {
        sweep_reset(s);
    } else if (is_new) {
        sweep_reset(s);
        s->at = look->floor + 1;
        s->to = MIN(look->delivered, look->floor + SWEEP_MAX);
    } else if (look->redelivered > 0 && !s->question.bus) {
        s->at = MAX(s->at, look->floor + 1);
        if (s->at <= s->to)
            ask(s);
    }
}

void sweep_reset(struct sweep *s)
{
    bus_forget(&s->question);
    s->at = s->to = 0;
}
