/* SPDX-License-Identifier: Apache-2.0
 *
 * recall-timer.c: when a domain looks for jobs to take back (recall.c).
 * Owns nothing. [loop]
 * Keeps: the timer runs only where jobs are handed ahead, and others may have to wait for them. */
#include "jobs/recall-timer.h"

#include "jobs/domain.h"
#include "jobs/timers.h"

#define RECALL_USEC 20000u /* what one may wait because others were there before */

static bool is_alike(const struct domain *d, const struct job *job)
{
    return d->recall.user == job->user && d->recall.priority == job->priority;
}

void recall_waits(struct domain *d, const struct domain *other)
{
    if (d != other && d->n_handed > domain_workers(d) && !d->recycling.successor &&
        !evtimer_pending(d->recall.timer, NULL))
        jobs_timer(d->jobs, d->recall.timer, RECALL_USEC);
}

void recall_came(struct domain *d, const struct job *job)
{
    if (d->n_handed > domain_workers(d) && (d->recall.mixed || !is_alike(d, job)) &&
        !evtimer_pending(d->recall.timer, NULL))
        jobs_timer(d->jobs, d->recall.timer, RECALL_USEC);
}

void recall_handed(struct domain *d, const struct job *job)
{
    if (d->n_handed == 0) {
        d->recall.user = job->user;
        d->recall.priority = job->priority;
        d->recall.mixed = false;
    } else if (!is_alike(d, job)) {
        d->recall.mixed = true;
    }
}
