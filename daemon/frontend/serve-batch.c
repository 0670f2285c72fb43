/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-batch.c: batches: BATCH.
 * Owns nothing beyond the calls. [loop]
 * Keeps: a batch that is open ends with its connection, unless it is detached. A request that crossed the end of a
 * cancelled batch on its way is told so. */
#include "frontend/serve-batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/serve-await.h"
#include "frontend/share.h"

#define COST_LOOK 20u /* units of share.h: at a job or an executor, to count those that run */

struct call_batch {
    struct call *call;
    struct batch_watch watch;
};

static void send_state(struct peer *p, uint32_t tag, const struct batch_info *info)
{
    struct msg m = {.type = FRAME_BATCH_STATE,
                    .batch_state = {.uid = info->uid,
                                    .flags = (info->closed ? BATCH_CLOSED : 0u) | (info->ended ? BATCH_ENDED : 0u) |
                                             (info->stopped ? BATCH_STOPPED : 0u),
                                    .exit = (uint32_t)info->exit,
                                    .total = info->total,
                                    .queued = info->queued,
                                    .running = info->running,
                                    .done = info->done,
                                    .failed = info->failed,
                                    .submitted_usec = info->submitted_usec}};

    memcpy(m.batch_state.id, info->id, sizeof(m.batch_state.id));
    peer_send(p, &m, tag, NULL, 0);
}

static void on_batch(struct batch_watch *w, const struct batch_info *info)
{
    struct call *c = container_of(w, struct call_batch, watch)->call;

    if (info->ended && info->cancelled && w->owner)
        c->peer->cancelled[c->peer->n_cancelled++ % ARRAY_SIZE(c->peer->cancelled)] = c->tag;
    if (info->ended || !peer_full(c->peer))
        send_state(c->peer, c->tag, info);
    if (info->ended)
        call_free(c);
}

static void batch_cancel(struct call *c, uint32_t item)
{
    jobs_batch_cancel_watched(&c->batch->watch, access_cancels(c->peer), c->peer->uid);
}

static void batch_forget(struct call *c)
{
    if (c->batch)
        jobs_batch_unwatch(&c->batch->watch);
    free(c->batch);
}

static const struct call_ops ops = {.forget = batch_forget, .cancel = batch_cancel, .leaves = true};

static struct call *batch_begin(const struct request *r)
{
    struct call *c = call_new(r, &ops);

    if (!c)
        return NULL;
    c->batch = calloc(1, sizeof(*c->batch));
    if (!c->batch) {
        call_refuse(c, CODE_BUSY, "out of memory");
        return NULL;
    }
    c->batch->call = c;
    c->batch->watch.tell = on_batch;
    c->batch->watch.cancel_closes = r->peer->features & FEATURE_ENDS;
    list_init(&c->batch->watch.link);
    list_init(&c->batch->watch.progress);
    return c;
}

static void batch_open(const struct request *r)
{
    uint32_t flags = r->msg->batch.flags;
    struct peer *p = r->peer;
    const char *refusal = access_submit(p);
    struct call *c = refusal ? NULL : batch_begin(r);
    struct batch_info info;

    if (refusal)
        peer_error(p, r->tag, CODE_DENIED, refusal);
    if (!c)
        return;
    int result = jobs_batch_open(p->frontend->options.jobs, p->uid, flags & BATCH_KEEP_GOING, flags & BATCH_DETACH,
                                 flags & BATCH_PROGRESS, &c->batch->watch);
    if (result < 0) {
        call_refuse(c, CODE_BUSY,
                    result == -EDQUOT ? "too many batches of this user are open: try again later" : strerror(-result));
        return;
    }
    jobs_batch_look(&c->batch->watch, &info);
    send_state(p, r->tag, &info);
}

static void batch_close(const struct request *r)
{
    struct call *c = call_find(r->peer, r->tag);

    if (c && c->ops == &ops && jobs_batch_is_open(&c->batch->watch))
        jobs_batch_close(&c->batch->watch);
}

static void batch_await(const struct request *r)
{
    const struct msg_batch *m = &r->msg->batch;
    struct peer *p = r->peer;
    struct call *c = batch_begin(r);

    if (c && jobs_batch_watch(p->frontend->options.jobs, m->id.id, access_sees(p), m->flags & BATCH_PROGRESS,
                              &c->batch->watch) < 0)
        call_refuse(c, CODE_NOT_FOUND, "no such batch");
}

void serve_batch(struct request *r)
{
    const struct msg_batch *m = &r->msg->batch;
    struct peer *p = r->peer;
    struct jobs *jobs = p->frontend->options.jobs;
    struct batch_info info;

    switch (m->action) {
    case BATCH_OPEN:
        batch_open(r);
        break;
    case BATCH_CLOSE:
        batch_close(r);
        break;
    case BATCH_AWAIT:
        batch_await(r);
        break;
    case BATCH_STATUS:
        if (jobs_batch_info(jobs, m->id.id, access_sees(p), &info) < 0) {
            peer_error(p, r->tag, CODE_NOT_FOUND, "no such batch");
            break;
        }
        share_charge(p, (uint32_t)MIN(info.looks, UINT32_MAX / COST_LOOK) * COST_LOOK);
        send_state(p, r->tag, &info);
        break;
    default:
        send_cancelled(r, jobs_batch_cancel(jobs, m->id.id, access_cancels(p), p->uid), "no such batch");
    }
}

static bool was_cancelled(const struct peer *p, uint32_t tag)
{
    for (size_t i = 0; i < ARRAY_SIZE(p->cancelled); i++)
        if (p->cancelled[i] == tag)
            return true;
    return false;
}

const char *batch_join(struct peer *p, uint32_t tag, struct job_request *job, uint32_t *ret_code)
{
    struct call *c = call_find(p, tag);
    const struct batch_watch *w = c && c->ops == &ops ? &c->batch->watch : NULL;

    *ret_code = CODE_USAGE;
    if (!c && was_cancelled(p, tag)) { /* it crossed the end of the batch */
        *ret_code = CODE_CANCELLED;
        return "its batch was cancelled";
    }
    if (!w || !(jobs_batch_is_open(w) || jobs_batch_is_cancelled(w)))
        return "no such batch is open";
    if (p->features & FEATURE_ENDS && jobs_batch_is_detached(w) && !job->detached)
        return "a job of a detached batch has the flag 1, too";
    job->batch = &c->batch->watch;
    return NULL;
}
