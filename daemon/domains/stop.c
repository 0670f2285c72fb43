/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c: stops jobs that an executor has: told to, or because their time is up.
 * Owns nothing. [loop]
 * Keeps: an answer that was sealed before its job was told to stop counts as it is. An executor with a job that does
 * not heed its cancel flag is replaced.
 * Does not end a job that has begun: its executor's answer does, or its death (recover.c). */
#include "domains/stop.h"

#include "base/clock.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/job-breaker.h"
#include "domains/runner.h"
#include "table/plugin-names.h"

void stop_running(struct job *job, enum job_stop why)
{
    struct domain *d = job->domain;
    struct job_more *m = job_more(job);

    /* a job that has written output has begun, whatever its slot says now; it must not end while that output is being
     * taken */
    if (why != STOP_OUTPUT && front_recall(d->front, job->slot)) {
        d->slots[job->slot] = NULL; /* its completion RECALLED gives the slot back */
        job_stop_unbegun(job, why);
        return;
    }
    if (why == STOP_WAITED)
        return; /* it waits no more */
    /* The line between the two ends of a job: an answer that was sealed before the flag is raised counts as it is. A
     * later one counts as stopped. */
    if (why != STOP_OUTPUT && front_sealed(d->front, job->slot)) {
        if (!m)
            return;
        m->no_retry |= why == STOP_CANCEL;
        if (m->sealed == STOP_NONE)
            job_timer(job, d->jobs->options.limits.grace_usec);
        if (m->sealed == STOP_NONE || why == STOP_CANCEL)
            m->sealed = (uint8_t)why;
        return;
    }
    bool on_its_way = m && m->stop != STOP_NONE;
    /* a job stopped for another reason may be retried, but not a cancelled one */
    if (m && (!on_its_way || why == STOP_CANCEL))
        m->stop = (uint8_t)why;
    if (on_its_way)
        return;
    front_cancel(d->front, job->slot);
    if (d->priv->runner)
        runner_stop(d->priv->runner, job->slot, why);
    job_timer(job, d->jobs->options.limits.grace_usec);
}

#define AHEAD_USEC 1000u /* the executor's clock is never ahead by so much */

static void check_deadline(struct job *job)
{
    uint64_t started, timeout = job->more->timeout_usec, ran = 0;
    bool running = front_running(job->domain->front, job->slot, &started);
    uint64_t now = clock_monotonic_usec(); /* after the look: it may have begun just now */

    if (running && started <= now)
        ran = now - started;
    else if (running && started - now >= AHEAD_USEC) /* nonsense */
        ran = timeout;
    /* a job with a sealed answer does not run */
    if (ran >= timeout || front_sealed(job->domain->front, job->slot))
        job_stop(job, STOP_TIMEOUT);
    else
        job_timer(job, timeout - ran);
}

void stop_timer(struct job *job)
{
    if (job->more->sealed != STOP_NONE) {
        job->more->stop = job->more->sealed;
        domain_distrust(job->domain, "an answer that does not come");
        return;
    }
    if (job->more->stop == STOP_NONE) {
        check_deadline(job);
        return;
    }
    const struct log_about about = job_about(job);

    log_event(LOG_KIND_JOB_DEAF, LOG_NOTICE, &about, "%s:%s does not heed its cancel flag: its executor %u is replaced",
              plugin_title(job->plugin), job_function(job)->name, job->domain->priv->executor->number);
    job->flags |= JOB_KILLED;
    job_breaker_deaf(job);
    executor_kill(job->domain->priv->executor);
}
