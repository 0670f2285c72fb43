/* SPDX-License-Identifier: Apache-2.0
 *
 * health.c: checks whether an executor that has work is alive: a process can stop without dying.
 * Owns the timer of each domain. [loop]
 * Keeps: an executor is replaced where, for the configured time, it does not get ready, does not answer, or begins
 * nothing of what it was handed. Without work there is no timer.
 * Does not judge jobs: one that runs long is no hang, its own limits are in job.c. */
#include "jobs/health.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "jobs/query.h"
#include "jobs/domain.h"
#include "jobs/lane.h"
#include "jobs/plugins.h"
#include "jobs/timers.h"

static void on_tick(evutil_socket_t fd, short what, void *userdata);

static void arm(struct domain *d)
{
    uint64_t usec = MAX(d->jobs->options.limits.hang_usec / HEALTH_LOOKS, (uint64_t)1000);

    jobs_timer(d->jobs, d->health.timer, usec);
    d->health.armed = evtimer_pending(d->health.timer, NULL);
}

int health_init(struct domain *d)
{
    d->health.timer = evtimer_new(d->jobs->options.base, on_tick, d);
    return d->health.timer ? 0 : -ENOMEM;
}

void health_deinit(struct domain *d)
{
    if (d->health.timer)
        event_free(d->health.timer);
}

void health_started(struct domain *d)
{
    d->health.usec = clock_monotonic_usec();
    d->health.n_quiet = 0;
    d->health.asked = false;
    *d->health.why = 0;
    arm(d);
}

void health_busy(struct domain *d)
{
    if (!d->health.armed)
        arm(d);
}

void health_idle(struct domain *d)
{
    if (d->health.armed)
        evtimer_del(d->health.timer);
    d->health.armed = false;
}

void health_heard(struct domain *d)
{
    d->health.asked = false;
}

/* Whether jobs were handed to the executor, and none has begun. */
static bool takes_nothing(struct domain *d)
{
    list_for_each_entry (struct job, job, &d->handed, link) {
        if (!front_waiting(&d->executor->front, job->slot))
            return false;
    }
    return !list_empty(&d->handed);
}

static void hangs(struct domain *d, const char *how)
{
    unsigned long long msec = (unsigned long long)d->jobs->options.limits.hang_usec / 1000;

    snprintf(d->health.why, sizeof(d->health.why), "it %s for %llu%s", how, msec % 1000 ? msec : msec / 1000,
             msec % 1000 ? " ms" : " s");
    log_event(LOG_KIND_EXECUTOR_HANGS, LOG_WARNING, NULL,
              "executor %u hangs: %s (executor-answer in wsd.conf): it is replaced", d->executor->number,
              d->health.why);
    executor_kill(d->executor);
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t now = clock_monotonic_usec(), limit = d->jobs->options.limits.hang_usec;

    d->health.armed = false;
    if (d->recycling.standby_of && d->executor && !d->executor->killed) {
        if (now - d->health.usec < limit)
            arm(d);
        else
            hangs(d, "did not get ready");
        return;
    }
    if (!d->executor || d->finishing || d->executor->killed ||
        (d->executor->ready && !d->n_handed && !domain_wanted(d) && !lanes_wait(d)))
        return;
    arm(d);
    if (!d->executor->ready) {
        if (now - d->health.usec >= limit)
            hangs(d, "did not get ready");
        return;
    }
    if (plugin_loading(d)) { /* has a time limit of its own, and keeps the thread that answers */
        d->health.asked = false;
        return;
    }
    d->health.n_quiet = takes_nothing(d) ? d->health.n_quiet + 1 : 0;
    if (d->health.n_quiet > HEALTH_LOOKS) {
        hangs(d, "took none of its jobs");
    } else if (d->health.asked && now - d->health.usec >= limit) {
        hangs(d, "did not answer");
    } else if (!d->health.asked && query_health(d) == 0) {
        d->health.asked = true;
        d->health.usec = now;
    }
}
