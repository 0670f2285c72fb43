/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.c: asks how the jobs of functions have ended, and how long they took.
 * Owns the buckets of the function that is shown. One thread a handle.
 * Does not count: wsd does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/histogram.h"
#include "client.h"
#include "given.h"
#include "proto/records.h"
#include "query.h"

struct each_function {
    int (*each)(const struct wsd_function_stats *stats, void *userdata);
    void *userdata;
};

static struct wsd_histogram *histogram_of(struct wsd_function_stats *stats, uint32_t kind)
{
    return kind == HISTOGRAM_QUEUE ? &stats->queue_usec
           : kind == HISTOGRAM_RUN ? &stats->run_usec
           : kind == HISTOGRAM_CPU ? &stats->cpu_usec
                                   : &stats->output_bytes;
}

/* Takes its buckets off the body. Returns the first one behind them. */
static struct wsd_bucket *read_histogram(const struct msg_histogram *m, struct span *body, struct wsd_bucket *at,
                                         struct wsd_histogram *ret)
{
    struct msg_bucket b;

    *ret = (struct wsd_histogram){.sum = m->sum, .max = m->max, .buckets = at, .n_buckets = m->buckets};
    for (uint32_t i = 0; i < m->buckets && codec_next_bucket(body, &b); i++) {
        *at++ = (struct wsd_bucket){.low = histogram_low(b.index), .high = histogram_high(b.index), .count = b.n};
        ret->count += b.n;
    }
    return at;
}

static int show_function(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_function *user = query->wanted;
    const struct msg_function_stats *m = &msg->function_stats;
    struct span body = {(const char *)query->current->body, query->current->body_size};
    _cleanup_(freep) struct wsd_bucket *buckets = malloc(body.size / CODEC_BUCKET_SIZE * sizeof(*buckets) + 1);
    struct wsd_bucket *at = buckets;
    struct wsd_function_stats stats = {
        .size = sizeof(stats),
        .plugin = m->plugin.data,
        .function = m->function.data,
        .uid = m->uid,
        .succeeded = m->succeeded,
        .failed = m->failed,
        .cancelled = m->cancelled,
        .timed_out = m->timed_out,
        .crashed = m->crashed,
        .interrupted = m->interrupted,
        .refused = m->refused,
        .direct = m->direct,
        .crashes = m->crashes,
        .why = m->why.data,
        .in_quarantine = m->quarantine != 0,
        .on_trial = m->quarantine == 2,
        .quarantine_usec = m->quarantine_usec,
    };

    if (!buckets)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    for (size_t i = 0; i < m->n_histograms; i++)
        at = read_histogram(&m->histograms[i], &body, at, histogram_of(&stats, m->histograms[i].kind));
    return user->each(&stats, user->userdata);
}

int wsd_client_functions(struct wsd_client *client, const struct wsd_filter *filter,
                         int (*each)(const struct wsd_function_stats *stats, void *userdata), void *userdata)
{
    struct wsd_filter room = {.size = sizeof(room)};
    struct each_function user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_FUNCTION_STATS, .end = FRAME_END, .show = show_function, .wanted = &user};
    int r = connection_wants(&client->connection, FEATURE_FUNCTIONS);

    if (r < 0)
        return r;
    const struct wsd_filter *f = filter ? GIVEN(&client->failure, wsd_filter, filter, &room, &r) : &room;
    if (!f)
        return r;
    if (f->states || f->newer_usec || f->older_usec || f->limit || f->batch)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE,
                           "functions are found by plugin, function and user only");
    struct msg msg = {
        .type = FRAME_FUNCTIONS,
        .functions = {.plugin = {.data = f->plugin, .size = f->plugin ? strlen(f->plugin) : 0},
                      .function = {.data = f->function, .size = f->function ? strlen(f->function) : 0},
                      .by_uid = f->by_uid,
                      .uid = f->uid},
    };
    const char *problem = codec_problem(&msg);
    return problem ? failure_set(&client->failure, -EINVAL, CODE_USAGE, "%s: out of range", problem)
                   : query_run(client, &msg, &query);
}

uint64_t wsd_histogram_quantile(const struct wsd_histogram *histogram, double quantile)
{
    double q = quantile >= 0 && quantile <= 1 ? quantile : quantile > 1 ? 1 : 0;
    double part = q * (double)histogram->count;
    uint64_t rank = (uint64_t)part, n = 0;

    rank += rank == 0 || (double)rank < part; /* counts from 1 */
    if (rank >= histogram->count)
        return histogram->max;
    for (size_t i = 0; i < histogram->n_buckets; i++) {
        const struct wsd_bucket *b = &histogram->buckets[i];

        n += b->count;
        if (n >= rank)
            return MIN(b->low + (b->high - b->low) / 2, histogram->max);
    }
    return histogram->max;
}
