/* SPDX-License-Identifier: Apache-2.0
 *
 * job-trace.h: what wsd did with each job and when, for people to read; off by default. [loop]
 *
 * Off, it costs one load where a job changes its state. On, the events of all traces go into one ring of a fixed size,
 * and the oldest are overwritten. CLOCK_MONOTONIC, as the traces of the pools (pool/trace.h).
 */
#pragma once

#include "table/job.h"

#define JOB_TRACE_EVENTS 65536u /* of all jobs together: 15 MiB, as far as they are used; a power of two */
#define JOB_TRACE_NAME   64u    /* with its NUL */

enum job_trace_kind {
    JOB_TRACE_ACCEPTED = 1,
    JOB_TRACE_STATE, /* it has come into `state` */
    JOB_TRACE_GATE,  /* it waits at a gate; it goes on with a QUEUED */
    JOB_TRACE_TOLD,  /* its end was told, or is kept: the last event */
};

struct job_trace_event {
    uint64_t nsec;
    uint64_t from_nsec, to_nsec; /* ACCEPTED: it came; a final state: it began and ended, as its executor says; 0: no */
    uint8_t id[16];
    uint32_t uid;
    uint8_t kind;  /* enum job_trace_kind */
    uint8_t state; /* enum job_state */
    uint8_t exit;  /* of a final state */
    char plugin[JOB_TRACE_NAME], function[JOB_TRACE_NAME];
    char traceparent[JOB_TRACEPARENT]; /* "": none */
};

struct job_trace_ring;

/* One trace: the jobs of a user, or of all users. */
struct job_trace {
    struct list link; /* jobs->traces.all; in none once stopped */
    struct job_traces *traces;
    uint32_t number, by, uid;    /* by: the user that began it; uid 0: of all */
    uint64_t from_nsec, to_nsec; /* to 0: it goes on */
    uint64_t at, end;            /* of the ring: its next event to read, and behind its last */
    uint64_t lost;               /* events that were overwritten before they were read */
};

/* Begins a trace of this user's jobs; 0: of all users'. Returns 0 or -ENOMEM. */
int job_trace_start(struct jobs *jobs, uint32_t number, uint32_t by, uint32_t uid);
/* Ends one that `meant` says yes to. Returns it, for the caller to read and free; NULL: there is none. */
struct job_trace *job_trace_stop(struct jobs *jobs, bool (*meant)(const struct job_trace *t, const void *context),
                                 const void *context);
/* Its next event. False: there is none. */
bool job_trace_next(struct job_trace *t, struct job_trace_event *ret);
struct job_trace *job_trace_free(struct job_trace *t); /* a stopped one, or NULL. Returns NULL */
void job_traces_deinit(struct jobs *jobs);             /* frees those that were not stopped */

/* The long ways of the calls below. */
void job_trace_note(struct job *job, enum job_trace_kind kind);
void job_trace_note_end(struct job *job, int exit, const struct front_completion *c);

static inline bool job_is_traced(const struct job *job)
{
    return job->domain->jobs->traces.ring;
}

/* The job has just come into its state, which is not final. */
static inline void job_trace_state(struct job *job)
{
    if (job_is_traced(job))
        job_trace_note(job, JOB_TRACE_STATE);
}

static inline void job_trace_event(struct job *job, enum job_trace_kind kind)
{
    if (job_is_traced(job))
        job_trace_note(job, kind);
}

/* The job has just come into a final state. c NULL: it has not run, or its executor has not said. */
static inline void job_trace_end(struct job *job, int exit, const struct front_completion *c)
{
    if (job_is_traced(job))
        job_trace_note_end(job, exit, c);
}
