/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-await.c: what is open, or was: AWAIT, STATUS, CANCEL; FORGET, CREDIT and OPENED of a call.
 * Owns nothing beyond the calls. [loop]
 * Keeps: a job of another user is one that does not exist, unless a right says more. */
#include "frontend/serve-await.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/job-watch.h"
#include "frontend/share.h"

/* Units of share.h: a job that its client does not want any more, which is cancelled. Among many others that are not due
 * it is in no cache, and neither are its neighbours in the heap. */
#define COST_FORGET 3000u
#define COST_LEAVE  100u /* a detached one, which only loses a follower */
#define FORGET_STEP 8u   /* jobs of an array, between two looks at the share */

/* It may be one of those on disk, where these cannot be read. */
static void no_such_job(const struct request *r, const uint8_t id[16])
{
    struct peer *p = r->peer;
    struct jobs *jobs = p->frontend->options.jobs;
    const char *why = jobs_unreadable(jobs);
    char text[256];
    struct batch_info batch;

    if (!why || jobs_batch_info(jobs, id, access_sees(p), &batch) == 0) {
        request_refuse(r, CODE_NOT_FOUND, "no such job");
        return;
    }
    snprintf(text, sizeof(text), "it is not one of those since wsd began, and the durable ones cannot be read: %.160s",
             why);
    request_refuse(r, CODE_IO, text);
}

void serve_status(struct request *r)
{
    struct call c = {.peer = r->peer, .tag = r->tag};

    if (jobs_info(r->peer->frontend->options.jobs, r->msg->id.id, access_watches(r->peer), send_job, &c) < 0)
        no_such_job(r, r->msg->id.id);
}

void serve_await(struct request *r)
{
    const struct msg_id *m = &r->msg->id;
    struct peer *p = r->peer;
    struct jobs *jobs = p->frontend->options.jobs;
    struct call *c = job_call_new(p, r->tag, false, m->flags & SUBMIT_PROGRESS);

    if (!c)
        return;
    c->job.accepted = jobs_accepted(jobs, m->id, access_sees(p));
    c->job.quiet = true; /* where it is accepted only then */
    int result = jobs_watch(jobs, m->id, access_sees(p), &c->job.watch);
    if (result == -EAGAIN && job_call_defer(c, m->id))
        return; /* the next wsd checks its owner */
    if (result == -EAGAIN) {
        call_refuse(c, CODE_BUSY, "wsd is ending: ask the next one");
    } else if (result == -EUSERS) {
        call_refuse(c, CODE_BUSY, "too many follow this job, which is not accepted yet: try again later");
    } else if (result < 0) {
        no_such_job(r, m->id);
        call_free(c);
    }
}

void send_cancelled(const struct request *r, int result, const char *none)
{
    if (result == -EALREADY && r->peer->features & FEATURE_ENDS)
        request_refuse(r, CODE_NOT_FOUND, "it has ended: there is nothing to cancel");
    else if (result < 0 && result != -EALREADY)
        request_refuse(r, CODE_NOT_FOUND, none);
    else
        send_end(r);
}

static void on_written(struct cancels *k)
{
    struct call *c = container_of(k, struct call, cancel);

    if (k->n_unwritten)
        call_refuse(c, CODE_BUSY, cancels_words(k));
    else
        call_end(c);
}

static void cancel_forget(struct call *c)
{
    cancels_deinit(&c->cancel);
}

static const struct call_ops cancel_ops = {.forget = cancel_forget};

/* The answer comes when it is on disk. */
static void cancel_await(const struct request *r)
{
    struct peer *p = r->peer;
    struct call *c = call_new(r, &cancel_ops);

    if (!c)
        return;
    cancels_init(&c->cancel, on_written);
    cancels_add(&c->cancel, p->frontend->options.jobs, r->msg->id.id, access_cancels(p));
    if (list_empty(&c->cancel.waiting))
        on_written(&c->cancel);
}

void serve_cancel(struct request *r)
{
    const struct msg_id *m = &r->msg->id;
    struct peer *p = r->peer;

    if (!m->has_id) {
        struct call *c = call_find(p, r->tag);

        if (c && c->ops->cancel)
            c->ops->cancel(c, m->item);
        return;
    }
    struct jobs *jobs = p->frontend->options.jobs;
    int result = jobs_cancel(jobs, m->id, access_cancels(p), p->uid);
    if (result == -ENOENT)
        no_such_job(r, m->id);
    else if (result == 0 && jobs_watch_cancelled(jobs, m->id, access_cancels(p), NULL))
        cancel_await(r);
    else
        send_cancelled(r, result, "no such job");
}

static uint32_t forget_cost(const struct call *c)
{
    return c->detached ? COST_LEAVE : COST_FORGET;
}

/* False: the share is spent before all is shed. */
static bool forget_some(struct call *c)
{
    uint32_t budget = FORGET_STEP;

    for (bool all = !c->ops->shed; !all; budget = FORGET_STEP) {
        all = c->ops->shed(c, &budget);
        share_charge(c->peer, forget_cost(c) * (FORGET_STEP - budget));
        if (!all && share_spent(c->peer))
            return false;
    }
    return true;
}

void serve_forget(struct request *r)
{
    struct call *c = call_find(r->peer, r->tag);

    r->begun = c && c->ops->leaves && !forget_some(c);
    if (!c || !c->ops->leaves || r->begun)
        return;
    share_charge(r->peer, forget_cost(c) + (c->ops->weight ? c->ops->weight(c) * COST_FORGET : 0));
    call_free(c); /* what that ends is told before the END */
    send_end(r);
}

void serve_credit(struct request *r)
{
    struct call *c = call_find(r->peer, r->tag);

    if (c && c->ops->credit)
        c->ops->credit(c, &r->msg->credit);
}

void serve_opened(struct request *r)
{
    const struct msg_opened *m = &r->msg->opened;
    struct peer *p = r->peer;
    struct call *c = call_find(p, r->tag);

    if (p->n_opens == 0 || m->error > 4095) {
        peer_fail(p, "OPENED that was not asked for");
        return;
    }
    p->n_opens--;
    struct watch *w = c && c->ops->opener ? c->ops->opener(c, m->item) : NULL;
    if (w)
        jobs_opened(w, m->serial, (int)m->error, *r->fd);
}

void await_take(struct peer *p, const struct handover_call *k)
{
    bool submits = k->flags & HANDOVER_SUBMIT;
    struct call *c = p->greeted ? job_call_new(p, k->tag, submits, k->flags & HANDOVER_PROGRESS) : NULL;

    if (!c)
        return;
    c->job.out_allowed = k->out_allowed;
    c->job.accepted = true;
    c->job.watch.owner = submits; /* the job asks this client for its files */
    int r = jobs_watch(p->frontend->options.jobs, k->id, submits ? p->uid : access_sees(p), &c->job.watch);
    if (r < 0) {
        const struct msg m = {
            .type = FRAME_ERROR,
            .error = {.code = CODE_INTERRUPTED,
                      .text = span("the job is not in the store any more: it is not known how it ended"),
                      .accepted = p->features & FEATURE_ENDS}};

        peer_send(p, &m, k->tag, NULL, 0);
        call_free(c);
        return;
    }
    c = call_find(p, k->tag); /* NULL: it had ended */
    if (c && k->flags & HANDOVER_CANCEL)
        c->ops->cancel(c, 0);
}
