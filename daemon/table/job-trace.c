/* SPDX-License-Identifier: Apache-2.0
 *
 * job-trace.c: the ring of events of jobs that are traced.
 * Owns the ring. It is there from the first trace on until the last one was read. [loop]
 * Keeps: a job of a user that is not traced leaves no event. A reader sees events of its own trace only, in their
 * order. Those that were overwritten are counted.
 * Does not make text of them (domains/job-trace-text.c). */
#include "table/job-trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/plugin-names.h"

struct job_trace_ring {
    uint64_t head; /* events so far */
    struct job_trace_event events[JOB_TRACE_EVENTS];
};

static uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- noting ------------------------------------------------------------------------------------------------------- */

static bool is_of(const struct job_trace *t, uint32_t uid)
{
    return t->uid == 0 || t->uid == uid;
}

static bool is_wanted(const struct job *job)
{
    const struct list *all = &job->domain->jobs->traces.all;

    list_for_each_entry (const struct job_trace, t, all, link) {
        if (is_of(t, job->user->uid))
            return true;
    }
    return false;
}

/* A new event of the job; NULL: no trace wants it. */
static struct job_trace_event *event_of(const struct job *job, enum job_trace_kind kind)
{
    struct job_trace_ring *ring = job->domain->jobs->traces.ring;

    if (job->bundled || !is_wanted(job)) /* bundles that were handed over before the trace began */
        return NULL;
    struct job_trace_event *e = &ring->events[ring->head++ & (JOB_TRACE_EVENTS - 1)];
    *e =
        (struct job_trace_event){.nsec = now_nsec(), .uid = job->user->uid, .kind = (uint8_t)kind, .state = job->state};
    memcpy(e->id, job->id, sizeof(e->id));
    snprintf(e->plugin, sizeof(e->plugin), "%s", plugin_title(job->plugin));
    snprintf(e->function, sizeof(e->function), "%s", job_function(job) ? job_function(job)->name : "");
    if (job->more && job->more->traceparent)
        snprintf(e->traceparent, sizeof(e->traceparent), "%s", job->more->traceparent);
    return e;
}

void job_trace_note(struct job *job, enum job_trace_kind kind)
{
    struct job_trace_event *e = event_of(job, kind);

    if (e && kind == JOB_TRACE_ACCEPTED)
        e->from_nsec = job->accepted_usec * 1000;
}

void job_trace_note_end(struct job *job, int exit, const struct front_completion *c)
{
    struct job_trace_event *e = event_of(job, JOB_TRACE_STATE);

    if (!e)
        return;
    e->exit = (uint8_t)exit;
    if (c && c->started_usec && c->ended_usec >= c->started_usec) { /* the executor's word only: to be shown */
        e->from_nsec = c->started_usec * 1000;
        e->to_nsec = c->ended_usec * 1000;
    }
}

/* --- traces ------------------------------------------------------------------------------------------------------- */

int job_trace_start(struct jobs *jobs, uint32_t number, uint32_t by, uint32_t uid)
{
    struct job_traces *traces = &jobs->traces;
    struct job_trace *t = calloc(1, sizeof(*t));

    if (t && !traces->ring)
        traces->ring = calloc(1, sizeof(*traces->ring)); /* so large that it is touched only as far as it is used */
    if (!t || !traces->ring) {
        free(t);
        return -ENOMEM;
    }
    *t = (struct job_trace){.traces = traces, .number = number, .by = by, .uid = uid};
    t->from_nsec = now_nsec();
    t->at = traces->ring->head;
    traces->n++;
    list_push_back(&traces->all, &t->link);
    return 0;
}

struct job_trace *job_trace_stop(struct jobs *jobs, bool (*meant)(const struct job_trace *t, const void *context),
                                 const void *context)
{
    struct job_traces *traces = &jobs->traces;

    list_for_each_entry (struct job_trace, t, &traces->all, link) {
        if (!meant(t, context))
            continue;
        list_remove(&t->link);
        t->to_nsec = now_nsec();
        t->end = traces->ring->head;
        if (t->end - t->at > JOB_TRACE_EVENTS) {
            t->lost = t->end - t->at - JOB_TRACE_EVENTS;
            t->at += t->lost;
        }
        return t;
    }
    return NULL;
}

bool job_trace_next(struct job_trace *t, struct job_trace_event *ret)
{
    const struct job_trace_ring *ring = t->traces->ring;

    while (t->at < t->end) {
        const struct job_trace_event *e = &ring->events[t->at & (JOB_TRACE_EVENTS - 1)];
        bool is_gone = ring->head - t->at > JOB_TRACE_EVENTS; /* by another trace, since this one was stopped */

        t->at++;
        t->lost += is_gone;
        if (is_gone || !is_of(t, e->uid))
            continue;
        *ret = *e;
        return true;
    }
    return false;
}

struct job_trace *job_trace_free(struct job_trace *t)
{
    if (!t)
        return NULL;
    struct job_traces *traces = t->traces;
    list_remove(&t->link);
    free(t);
    if (--traces->n == 0) {
        free(traces->ring);
        traces->ring = NULL;
    }
    return NULL;
}

void job_traces_deinit(struct jobs *jobs)
{
    list_for_each_safe (l, n, &jobs->traces.all)
        job_trace_free(container_of(l, struct job_trace, link));
}
