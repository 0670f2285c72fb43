/* SPDX-License-Identifier: Apache-2.0
 *
 * recall-timer.c: when a domain looks for jobs to take back (recall.c).
 * Owns nothing. [loop]
 * Keeps: the timer runs only where jobs are handed ahead, and others may have to wait for them. */
#include "domains/recall-timer.h"

#include "domains/domain.h"
#include "table/timers.h"

#define RECALL_USEC 20000u /* what one may wait because others were there before */

static bool is_alike(const struct domain *d, const struct job *job)
{
    return d->priv->recall.user == job->user && d->priv->recall.priority == job->priority;
}

void recall_waits(struct domain *d, const struct domain *other)
{
    if (d != other && d->n_handed > domain_workers(d) && !d->successor && !evtimer_pending(d->priv->recall.timer, NULL))
        jobs_timer(d->jobs, d->priv->recall.timer, RECALL_USEC);
}

void recall_came(struct domain *d, const struct job *job)
{
    if (d->n_handed > domain_workers(d) && (d->priv->recall.mixed || !is_alike(d, job)) &&
        !evtimer_pending(d->priv->recall.timer, NULL))
        jobs_timer(d->jobs, d->priv->recall.timer, RECALL_USEC);
}

void recall_handed(struct domain *d, const struct job *job)
{
    if (d->n_handed == 0) {
        d->priv->recall.user = job->user;
        d->priv->recall.priority = job->priority;
        d->priv->recall.mixed = false;
    } else if (!is_alike(d, job)) {
        d->priv->recall.mixed = true;
    }
}
