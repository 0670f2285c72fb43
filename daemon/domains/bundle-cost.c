/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle-cost.c: how long the jobs of a bundle are expected to take, and so when their executor is woken.
 * Owns the statistics of how long a function takes. [loop]
 * Does not make or split a bundle (bundle.c). */
#include "domains/bundle-cost.h"

#include "base/cleanup.h"
#include "domains/domain.h"
#include "domains/runner.h"
#include "ring/front.h"
#include "supervisor/executor.h"

void bundle_ran(struct plugin_function *f, uint32_t n, uint64_t usec, uint64_t output)
{
    /* the executor's word: nothing but speed hangs on it */
    cost_learn(&f->cost, n, usec);
    f->output = cost_largest(f->output, (uint32_t)MIN(output, (uint64_t)RING_SMALL) * 64, n);
}

uint64_t bundle_nsec(const struct job *job)
{
    return cost_nsec(&job_function(job)->cost, job_count(job));
}

uint32_t bundle_usec(const struct job *job)
{
    return job->bundled ? (uint32_t)(bundle_nsec(job) / 1000 + 1) : UINT32_MAX;
}

bool bundles_brief(struct domain *d)
{
    uint64_t nsec = 0, started;
    bool awake = false;

    front_submitted(d->front);
    list_for_each_entry (const struct job, job, &d->handed, link) {
        nsec += bundle_nsec(job);
        if (!job->bundled || nsec >= RING_WORTH_USEC * 1000)
            return false;
        awake = awake || front_running(d->front, job->slot, &started);
    }
    return awake;
}

bool domain_ring(struct domain *d)
{
    if (d->priv->runner) {
        d->priv->n_unrung = 0;
        return runner_turn(d->priv->runner);
    }
    bool woken = d->priv->n_unrung && d->priv->executor && !bundles_brief(d) && front_ring(d->front);

    d->priv->n_unrung = 0;
    return woken;
}
