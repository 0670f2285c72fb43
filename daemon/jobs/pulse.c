/* SPDX-License-Identifier: Apache-2.0
 *
 * pulse.c: whether an executor that has work is alive: a process can stop without dying.
 * Owns the timer of each domain. [loop]
 * Keeps: an executor is replaced where it does not get ready, does not answer, or takes nothing of what it was handed for
 * the configured time; with no work there is no timer.
 * Does not judge jobs: one that runs long is no hang, its own limits are job.c's. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "jobs/job.h"

static void on_tick(evutil_socket_t fd, short what, void *userdata);

static void arm(struct domain *d)
{
    uint64_t usec = MAX(d->jobs->options.limits.hang_usec / PULSE_LOOKS, (uint64_t)1000);

    jobs_timer(d->jobs, d->pulse_timer, usec);
    d->pulse_armed = evtimer_pending(d->pulse_timer, NULL);
}

int pulse_init(struct domain *d)
{
    d->pulse_timer = evtimer_new(d->jobs->options.base, on_tick, d);
    return d->pulse_timer ? 0 : -1;
}

void pulse_started(struct domain *d)
{
    d->pulse_usec = clock_monotonic_usec();
    d->n_quiet = 0;
    d->pulse_asked = false;
    *d->why = 0;
    arm(d);
}

void pulse_busy(struct domain *d)
{
    if (!d->pulse_armed)
        arm(d);
}

void pulse_idle(struct domain *d)
{
    if (d->pulse_armed)
        evtimer_del(d->pulse_timer);
    d->pulse_armed = false;
}

void pulse_heard(struct domain *d)
{
    d->pulse_asked = false;
}

/* Handed to it, and none of it is being done. */
static bool takes_nothing(struct domain *d)
{
    list_for_each(l, &d->handed)
    {
        struct job *job = container_of(l, struct job, link);

        if (!front_waiting(&d->executor->front, job->slot))
            return false;
    }
    return !list_empty(&d->handed);
}

static void hangs(struct domain *d, const char *how)
{
    unsigned long long msec = (unsigned long long)d->jobs->options.limits.hang_usec / 1000;

    snprintf(d->why, sizeof(d->why), "it %s for %llu%s", how, msec % 1000 ? msec : msec / 1000, msec % 1000 ? " ms" : " s");
    log_event(LOG_KIND_EXECUTOR_HANGS, LOG_WARNING, NULL, "executor %u hangs: %s (executor-answer in wsd.conf): it is replaced",
              d->executor->number, d->why);
    executor_kill(d->executor);
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t now = clock_monotonic_usec(), limit = d->jobs->options.limits.hang_usec;

    d->pulse_armed = false;
    if (d->in_nursery && d->executor && !d->executor->killed) {
        if (now - d->pulse_usec < limit)
            arm(d);
        else
            hangs(d, "did not get ready");
        return;
    }
    if (!d->executor || d->finishing || d->executor->killed || (d->executor->ready && !d->n_handed && !domain_wanted(d) && !lanes_wait(d)))
        return;
    arm(d);
    if (!d->executor->ready) {
        if (now - d->pulse_usec >= limit)
            hangs(d, "did not get ready");
        return;
    }
    if (plugin_loading(d)) { /* has a time limit of its own, and keeps the thread that answers */
        d->pulse_asked = false;
        return;
    }
    d->n_quiet = takes_nothing(d) ? d->n_quiet + 1 : 0;
    if (d->n_quiet > PULSE_LOOKS) {
        hangs(d, "took none of its jobs");
    } else if (d->pulse_asked && now - d->pulse_usec >= limit) {
        hangs(d, "did not answer");
    } else if (!d->pulse_asked && ask_pulse(d) == 0) {
        d->pulse_asked = true;
        d->pulse_usec = now;
    }
}
