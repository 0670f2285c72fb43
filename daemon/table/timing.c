/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.c: delayed jobs, and limits of the time in the queue.
 * Owns struct job_time. [loop]
 * Keeps: a delayed job is in no queue and delays no other job. One that has waited too long ends without a run. Spans
 * are of CLOCK_BOOTTIME, times of CLOCK_REALTIME: see due.h.
 * Does not write to the disk (durable.c). */
#include "table/timing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "table/hooks.h"
#include "table/policy.h"
#include "table/state.h"

#define START_USEC 1000000u /* time that an executor may take to start, whatever the --timeout */

static void wait_words(const struct job_time *t, char text[static JOB_TEXT])
{
    snprintf(text, JOB_TEXT, "it waited in the queue for longer than %s = %llu%s%s",
             t->by_configuration ? "max-wait" : "--max-wait",
             (unsigned long long)(t->wait_usec % 1000000 ? t->wait_usec / 1000 : t->wait_usec / 1000000),
             t->wait_usec % 1000000 ? "ms" : "s", t->by_configuration ? " of [limits] in wsd.conf" : "");
}

static uint64_t start_limit(const struct job *job)
{
    uint64_t usec = job->more ? job->more->timeout_usec : 0;

    return usec ? MAX(usec, (uint64_t)START_USEC) : 0;
}

/* NEW: its wait for the plugin counts for --max-wait. Its --timeout is for its run, but also bounds the start of its
 * executor. */
static void waited(struct job *job)
{
    struct job_time *t = job_time(job);
    uint64_t usec = clock_monotonic_usec() - job->accepted_usec, limit = start_limit(job);
    char text[JOB_TEXT];

    if (t->wait_usec && usec >= t->wait_usec) {
        wait_words(t, text);
        job_refuse(job, CODE_TIMED_OUT, text);
    } else if (limit && usec >= limit && !job->domain->jobs->domain_hooks->ready(job->domain)) {
        job_refuse(job, CODE_TIMED_OUT, "its time was up, and its executor had not started");
    } else if (t->wait_usec) {
        due_set(&t->due, &job->domain->jobs->boot, clock_boottime_usec() + t->wait_usec - usec);
    }
}

static void on_due(struct due *due)
{
    struct job *job = container_of(due, struct job_time, due)->job;

    if (job->state == JOB_NEW)
        waited(job);
    else if (job->state == JOB_DELAYED)
        job_enqueue(job);
    else if (job->attempts == (job->state == JOB_RUNNING)) /* it has not run; handed over, it may not have begun */
        job_stop(job, STOP_WAITED);
}

struct job_time *time_make(struct job *job)
{
    struct job_more *m = job_more(job);

    if (!m || m->time)
        return m ? m->time : NULL;
    m->time = calloc(1, sizeof(*m->time));
    if (m->time) {
        m->time->due.call = on_due;
        m->time->job = job;
    }
    return m->time;
}

int time_wanted(struct job *job, const struct job_request *r)
{
    struct job_time *t;

    if (!r->delay_usec && !r->at_usec && !r->queue_usec)
        return 0;
    t = time_make(job);
    if (!t)
        return -ENOMEM;
    t->delay_usec = r->delay_usec;
    t->at_usec = r->at_usec;
    t->wait_usec = r->queue_usec;
    return 0;
}

void time_free(struct job *job)
{
    struct job_time *t = job_time(job);

    if (!t)
        return;
    due_cancel(&t->due);
    free(TAKE(job->more->time));
}

int time_limit_wait(struct job *job)
{
    uint64_t limit = job->domain->jobs->options.limits.max_wait_usec;
    struct job_time *t = job_time(job);

    if (!limit || (t && t->wait_usec && t->wait_usec <= limit))
        return 0;
    t = time_make(job);
    if (!t)
        return -ENOMEM;
    t->wait_usec = limit;
    t->by_configuration = true;
    return 0;
}

void time_accepted(struct job *job)
{
    struct job_time *t = job_time(job);

    if (t && t->delay_usec && !t->until_usec)
        t->until_usec = clock_boottime_usec() + t->delay_usec;
}

bool time_delays(struct job *job)
{
    struct job_time *t = job_time(job);
    struct jobs *jobs = job->domain->jobs;

    if (!t || t->delayed)
        return false;
    t->delayed = true;
    if (t->at_usec && t->at_usec > clock_realtime_usec())
        due_set(&t->due, &jobs->wall, t->at_usec);
    else if (t->until_usec && t->until_usec > clock_boottime_usec())
        due_set(&t->due, &jobs->boot, t->until_usec);
    else
        return false;
    job_move(job, JOB_DELAYED);
    return true;
}

void time_pause(struct job *job, uint64_t usec)
{
    struct job_time *t = job_time(job);

    t->delayed = true;
    due_set(&t->due, &job->domain->jobs->boot, clock_boottime_usec() + usec);
}

/* The span until due_usec, but at most `most`, in case the clock was set. */
static uint64_t span_until(uint64_t due_usec, uint64_t most)
{
    uint64_t now = clock_realtime_usec();

    return due_usec > now ? MIN(due_usec - now, most) : 0;
}

void time_hold(struct job *job, uint64_t due_usec, bool at)
{
    struct job_time *t = job_time(job);

    if (at)
        t->at_usec = due_usec;
    else
        t->until_usec = clock_boottime_usec() + span_until(due_usec, t->delay_usec);
}

void time_resume(struct job *job, uint64_t due_usec, bool at)
{
    struct job_time *t = job_time(job);
    struct policy *p = job_policy(job);

    t->delayed = true;
    if (at) {
        due_set(&t->due, &job->domain->jobs->wall, due_usec);
        return;
    }
    time_pause(job, span_until(due_usec, MAX(MAX(RETRY_MAX_USEC, p->retry_usec), t->delay_usec)));
}

int time_waits(struct job *job)
{
    uint64_t now = clock_monotonic_usec(), limit = start_limit(job), first;

    if (time_limit_wait(job) < 0 || (limit && !time_make(job)))
        return -ENOMEM;
    struct job_time *t = job_time(job);
    first = t && t->wait_usec && (!limit || t->wait_usec < limit) ? t->wait_usec : limit;
    if (first)
        due_set(&t->due, &job->domain->jobs->boot,
                clock_boottime_usec() + first - MIN(now - job->accepted_usec, first));
    return 0;
}

void time_queued(struct job *job, uint64_t waited_usec)
{
    struct job_time *t = job_time(job);

    if (t && t->wait_usec)
        due_set(&t->due, &job->domain->jobs->boot,
                clock_boottime_usec() + (t->wait_usec > waited_usec ? t->wait_usec - waited_usec : 0));
}

void time_begun(struct job *job)
{
    if (job_time(job))
        due_cancel(&job_time(job)->due);
}

void time_out(struct job *job)
{
    struct job_time *t = job_time(job);
    char text[JOB_TEXT];

    t->waited = true;
    wait_words(t, text);
    job_finish(job, JOB_TIMED_OUT, CODE_TIMED_OUT, text, NULL);
}

uint64_t time_due(const struct job *job)
{
    const struct job_time *t = job_time(job);
    uint64_t now;

    if (!t || (job->state != JOB_DELAYED && !t->at_usec && !t->delay_usec))
        return 0;
    now = clock_realtime_usec();
    if (job->state == JOB_DELAYED)
        return t->due.clock == &job->domain->jobs->wall ? t->due.node.key : now + due_left(&t->due);
    if (t->delayed) /* it had its effect */
        return 0;
    return t->at_usec > now ? t->at_usec : t->delay_usec ? now + t->delay_usec : 0;
}
