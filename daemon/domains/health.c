/* SPDX-License-Identifier: Apache-2.0
 *
 * health.c: checks whether an executor that has work is alive: a process can stop without dying.
 * Owns the timer of each domain. [loop]
 * Keeps: an executor gets ready, answers, and begins something of what it was handed, each within the configured time.
 * An executor that fails one of the three is replaced. Without work there is no timer.
 * Does not judge jobs: one that runs long is no hang, its own limits are in stop.c. */
#include "domains/health.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/lifetime.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "table/timers.h"

static void on_tick(evutil_socket_t fd, short what, void *userdata);

static void arm(struct domain *d)
{
    uint64_t usec = MAX(d->jobs->options.limits.hang_usec / HEALTH_LOOKS, (uint64_t)1000);

    jobs_timer(d->jobs, d->priv->health.timer, usec);
    d->priv->health.armed = evtimer_pending(d->priv->health.timer, NULL);
}

int health_init(struct domain *d)
{
    d->priv->health.timer = evtimer_new(d->jobs->options.base, on_tick, d);
    return d->priv->health.timer ? 0 : -ENOMEM;
}

void health_deinit(struct domain *d)
{
    event_free(d->priv->health.timer);
}

void health_started(struct domain *d)
{
    d->priv->health.usec = clock_monotonic_usec();
    d->priv->health.n_quiet = 0;
    d->priv->health.asked = false;
    *d->priv->health.why = 0;
    arm(d);
}

void health_busy(struct domain *d)
{
    if (!d->priv->health.armed)
        arm(d);
}

void health_idle(struct domain *d)
{
    if (d->priv->health.armed)
        evtimer_del(d->priv->health.timer);
    d->priv->health.armed = false;
}

void health_heard(struct domain *d)
{
    d->priv->health.asked = false;
}

/* Whether jobs were handed to the executor, and none has begun. */
static bool takes_nothing(struct domain *d)
{
    list_for_each_entry (struct job, job, &d->handed, link) {
        if (!front_waiting(d->front, job->slot))
            return false;
    }
    return !list_empty(&d->handed);
}

static void hangs(struct domain *d, const char *how)
{
    unsigned long long msec = (unsigned long long)d->jobs->options.limits.hang_usec / 1000;

    snprintf(d->priv->health.why, sizeof(d->priv->health.why), "it %s for %llu%s", how,
             msec % 1000 ? msec : msec / 1000, msec % 1000 ? " ms" : " s");
    log_event(LOG_KIND_EXECUTOR_HANGS, LOG_WARNING, NULL,
              "executor %u hangs: %s (executor-answer in wsd.conf): it is replaced", d->priv->executor->number,
              d->priv->health.why);
    executor_kill(d->priv->executor);
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t now = clock_monotonic_usec(), limit = d->jobs->options.limits.hang_usec;

    d->priv->health.armed = false;
    if (d->priv->recycling.standby_of && d->priv->executor && !d->priv->executor->killed) {
        if (now - d->priv->health.usec < limit)
            arm(d);
        else
            hangs(d, "did not get ready");
        return;
    }
    if (!d->priv->executor || d->priv->finishing || d->priv->executor->killed ||
        (d->priv->executor->ready && !d->n_handed && !domain_wanted(d) && !lanes_wait(d)))
        return;
    arm(d);
    if (!d->priv->executor->ready) {
        if (now - d->priv->health.usec >= limit)
            hangs(d, "did not get ready");
        return;
    }
    if (plugin_loading(d)) { /* has a time limit of its own, and keeps the thread that answers */
        d->priv->health.asked = false;
        return;
    }
    d->priv->health.n_quiet = takes_nothing(d) ? d->priv->health.n_quiet + 1 : 0;
    if (d->priv->health.n_quiet > HEALTH_LOOKS) {
        hangs(d, "took none of its jobs");
    } else if (d->priv->health.asked && now - d->priv->health.usec >= limit) {
        hangs(d, "did not answer");
    } else if (!d->priv->health.asked && query_health(d) == 0) {
        d->priv->health.asked = true;
        d->priv->health.usec = now;
    }
}
