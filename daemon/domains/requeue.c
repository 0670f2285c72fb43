/* SPDX-License-Identifier: Apache-2.0
 *
 * requeue.c: jobs that go back from an executor to their queue.
 * Owns nothing. [loop]
 * Keeps: a job goes to the head of its queue; of a retiring executor, to that of its successor.
 * Does not choose the jobs (recall.c, recover.c). */
#include "domains/requeue.h"

#include "domains/arena.h"
#include "table/queue.h"
#include "table/state.h"

void domain_requeue(struct job *job)
{
    arena_returned(job);
    list_remove(&job->link);
    if (job->more && job->more->timer)
        evtimer_del(job->more->timer);
    job_move(job, JOB_QUEUED);
    if (job->domain->successor)
        job->domain = job->domain->successor;
    queue_put(&job->domain->queue, job, true);
}

void domain_take_back(struct job *job, bool recalled)
{
    struct domain *d = job->domain;
    uint32_t n = job_count(job) - recalled; /* one is with the slot, which its completion RECALLED gives back */

    if (recalled)
        d->slots[job->slot] = NULL;
    d->n_handed -= n;
    d->jobs->counters.n_handed -= n;
    job->attempts--;
    domain_requeue(job);
}
