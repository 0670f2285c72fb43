/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-functions.c: how the jobs of functions have ended, and how long they took: FUNCTIONS.
 * Owns what was asked for. [loop]
 * Keeps: a user sees its own functions. Administrators, and users that see or watch all jobs, see those of all. A list
 * waits for a client that does not read.
 * Does not count (table/function-stats.c). */
#include "frontend/serve-functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "proto/records.h"

#define ROWS      64u  /* looked at, before what else its connection wants has its turn */
#define LANE_COST 500u /* in units of share.h, for a function of a direct lane */
#define ROW_COST  50u  /* in units of share.h, for one that is not shown */

_Static_assert(HISTOGRAM_BUCKETS <= CODEC_BUCKETS, "all buckets find room");
_Static_assert(FUNCTION_MEASURES == CODEC_HISTOGRAM_KIND && HISTOGRAM_QUEUE == FUNCTION_QUEUE + 1 &&
                   HISTOGRAM_OUTPUT == FUNCTION_OUTPUT + 1,
               "the kinds are the measures");

/* name NULL: of the others. wanted NULL: all are wanted. */
static bool is_named(const char *name, const char *wanted)
{
    return !wanted || (name && strcmp(name, wanted) == 0);
}

static bool is_wanted(const struct call_functions *own, const struct function_stats *s)
{
    return (own->all || s->uid == own->uid) && is_named(s->plugin, own->plugin) && is_named(s->function, own->function);
}

/* Writes the buckets of a histogram. Returns their number. */
static uint32_t put_buckets(const struct histogram *h, uint8_t *at)
{
    uint32_t n = 0;

    for (uint32_t b = 0; (b = histogram_next(h, b)) < HISTOGRAM_BUCKETS; b++, n++)
        codec_put_bucket(&(struct msg_bucket){.index = b, .n = histogram_at(h, b)}, at + n * CODEC_BUCKET_SIZE);
    return n;
}

static void send_stats(struct call *c, const struct function_stats *s)
{
    static uint8_t body[FUNCTION_MEASURES * HISTOGRAM_BUCKETS * CODEC_BUCKET_SIZE];
    struct msg_histogram histograms[FUNCTION_MEASURES];
    struct msg m = {.type = FRAME_FUNCTION_STATS,
                    .function_stats = {.plugin = span_within(s->plugin ? s->plugin : "", CODEC_PATH_MAX),
                                       .function = span_within(s->function ? s->function : "", CODEC_NAME_MAX),
                                       .uid = s->uid,
                                       .succeeded = s->ended[FUNCTION_SUCCEEDED],
                                       .failed = s->ended[FUNCTION_FAILED],
                                       .cancelled = s->ended[FUNCTION_CANCELLED],
                                       .timed_out = s->ended[FUNCTION_TIMED_OUT],
                                       .crashed = s->ended[FUNCTION_CRASHED],
                                       .interrupted = s->ended[FUNCTION_INTERRUPTED],
                                       .refused = s->ended[FUNCTION_REFUSED],
                                       .direct = s->direct,
                                       .histograms = histograms,
                                       .n_histograms = FUNCTION_MEASURES}};
    struct plugin_function_info breaker = {.why = ""};
    size_t size = 0;

    if (s->plugin && jobs_breaker(c->peer->frontend->options.jobs, s->uid, s->plugin, s->function, &breaker)) {
        m.function_stats.crashes = breaker.crashes;
        m.function_stats.why = span(breaker.why);
        m.function_stats.quarantine = breaker.on_probe ? 2 : breaker.in_quarantine;
        m.function_stats.quarantine_usec = breaker.quarantine_usec;
    }
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++) {
        uint32_t n = put_buckets(&s->of[i], body + size);

        histograms[i] = (struct msg_histogram){.kind = i + 1, .sum = s->of[i].sum, .max = s->of[i].max, .buckets = n};
        size += n * CODEC_BUCKET_SIZE;
    }
    peer_send(c->peer, &m, c->tag, body, size);
}

static void send_some(struct call *c)
{
    struct call_functions *own = &c->functions;
    struct peer *p = c->peer;

    for (uint32_t left = ROWS; left > 0; left--) {
        const struct function_stats *s;

        if (peer_full(p)) {
            call_stall(c);
            return;
        }
        s = function_stats_next(p->frontend->options.jobs, &own->cursor);
        if (!s || p->failed) {
            call_end(c);
            return;
        }
        share_charge(p, ROW_COST);
        if (is_wanted(own, s))
            send_stats(c, s);
        if (share_spent(p))
            break;
    }
    call_later(c);
}

static void forget(struct call *c)
{
    free(c->functions.plugin);
    free(c->functions.function);
}

static const struct call_ops ops = {.forget = forget, .room = call_later, .later = send_some};

/* A name that was given. False: no memory. */
static bool take_name(struct span name, char **ret)
{
    *ret = name.size ? strdup(name.data) : NULL;
    return *ret || !name.size;
}

void serve_functions(struct request *r)
{
    const struct msg_functions *m = &r->msg->functions;
    struct call *c = call_new(r, &ops);

    if (!c)
        return;
    uint32_t sees = access_counts(c->peer);
    struct call_functions *own = &c->functions;
    if (!take_name(m->plugin, &own->plugin) || !take_name(m->function, &own->function)) {
        call_refuse(c, CODE_BUSY, "out of memory");
        return;
    }
    own->all = sees == ACCESS_ALL && !m->by_uid;
    own->uid = m->by_uid ? m->uid : sees;
    if (m->by_uid && sees != ACCESS_ALL && m->uid != sees) { /* as for a list of jobs: there is nothing to see */
        call_end(c);
        return;
    }
    share_charge(c->peer, jobs_lanes_called(c->peer->frontend->options.jobs, sees) * LANE_COST);
    call_later(c);
}
