/* SPDX-License-Identifier: Apache-2.0
 *
 * recall.c: takes back jobs that were handed ahead, when another user's or priority's turn comes.
 * Owns the timer. [loop]
 * The queue is in the right order, but up to RING_SLOTS jobs are with the executor already, first in, first out. While
 * these are short, that does no harm. While they are long, a new job would wait for all of them. So a moment after a
 * job came, those handed over that have not begun are checked. If the queue's order would now be another one, they go
 * back to the queue.
 * Keeps: a job stays with the executor if it has begun, if it got its turn by age (queue_aged()), or if its input went
 * by descriptor. Each other one keeps its place in its flow.
 * Does not choose the order (sched/fair-queue.c). */
#include "domains/recall.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/requeue.h"
#include "sched/ahead.h"
#include "table/input.h"
#include "table/queue.h"

static bool waits(struct domain *d, const struct job *job)
{
    return !job->aged && !job_received(job) && !(job->more && (job->more->held_chunks || job->more->stop)) &&
           front_waiting(d->front, job->slot);
}

/* Whether a user waits unfairly. One case: more jobs are before it than the order puts there, and than the workers have
 * begun meanwhile. The other: it is at the queue's highest priority and has no job in the executor. */
static bool is_unfair(struct domain *d)
{
    uint32_t slack = domain_workers(d);
    struct ahead all = {0}, ahead = {0};

    list_for_each_entry (const struct job, job, &d->handed, link) {
        if (waits(d, job))
            ahead_note(&all, job->user, job->priority);
    }
    list_for_each_entry (const struct job, job, &d->handed, link) {
        if (waits(d, job) && ahead_is_unfair(&ahead, &all, job->user, job->priority, job_count(job), slack))
            return true;
    }
    const struct job *first = queue_first(&d->queue);
    return first && ahead_lacks(&ahead, &d->queue, first->priority, slack);
}

/* Whether the domain has work ahead while another domain runs less than it could, for want of a run slot
 * (run-slots.c). */
static bool hogs_places(struct domain *d)
{
    uint32_t n = 0;
    int least = 0;

    list_for_each_entry (const struct job, job, &d->handed, link) {
        if (!waits(d, job))
            continue;
        least = n ? MIN(least, (int)job->priority) : job->priority;
        n += job_count(job);
    }
    if (n == 0 || d->n_handed <= domain_workers(d))
        return false;
    list_for_each_entry (struct domain, other, &d->jobs->run_slots.waiting, run_slot.waiting) {
        const struct job *first = queue_first(&other->queue);

        if (other != d && first && first->priority >= least && other->n_handed < domain_workers(other))
            return true;
    }
    return false;
}

/* It was sent ahead of the job, and cannot be taken back. */
static bool job_sends_descriptor(const struct domain *d, const struct job *job)
{
    return job_by_descriptor(job) || (d->priv->runner && job->more && job->more->arena);
}

uint32_t recall_behind(struct domain *d, const struct list *behind)
{
    uint32_t n = 0;

    for (struct list *l = d->handed.prev, *before; l != behind; l = before) {
        struct job *job = container_of(l, struct job, link);

        before = l->prev;
        if (!waits(d, job) || job_sends_descriptor(d, job) || !front_recall(d->front, job->slot))
            continue;
        n += job_count(job);
        domain_take_back(job, true);
    }
    return n;
}

static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;

    if (!d->priv->executor || d->priv->finishing || d->priv->distrusted || d->priv->executor->killed ||
        (!is_unfair(d) && !hogs_places(d)))
        return;
    log_debug("executor %u: %u jobs that had not begun make room for others", d->priv->executor->number,
              recall_behind(d, &d->handed));
    d->priv->unpumped = true;
}

int recall_init(struct domain *d)
{
    d->priv->recall.timer = evtimer_new(d->jobs->options.base, on_timer, d);
    return d->priv->recall.timer ? 0 : -ENOMEM;
}

void recall_deinit(struct domain *d)
{
    event_free(d->priv->recall.timer);
}
