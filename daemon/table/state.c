/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c: the table of legal moves of a job.
 * Owns the table and nothing else. [loop]
 * Keeps: a final state is never left. */
#include "table/state.h"

#include <assert.h>

#include "table/gate.h"
#include "table/job-trace.h"

#define M(state) (1u << (state))
#define ENDS     (M(JOB_CANCELLED) | M(JOB_FAILED) | M(JOB_INTERRUPTED))

static const uint32_t legal[] = {
    [JOB_NEW] = M(JOB_HELD) | M(JOB_QUEUED) | M(JOB_DELAYED),
    [JOB_HELD] = M(JOB_QUEUED) | M(JOB_DELAYED) | ENDS,
    /* delayed, or to be retried; where it is not retried after all, its last end is its end */
    [JOB_DELAYED] = M(JOB_QUEUED) | M(JOB_TIMED_OUT) | M(JOB_CRASHED) | ENDS,
    /* it may have waited too long */
    [JOB_QUEUED] = M(JOB_RUNNING) | M(JOB_DELAYED) | M(JOB_TIMED_OUT) | ENDS,
    /* back to the queue: untouched, or to run again */
    [JOB_RUNNING] = M(JOB_QUEUED) | M(JOB_DELAYED) | M(JOB_SUCCEEDED) | M(JOB_TIMED_OUT) | M(JOB_CRASHED) | ENDS,
    [JOB_INTERRUPTED] = 0,
};

void job_move(struct job *job, enum job_state state)
{
    assert(legal[job->state] & M(state));
    if (job->state == JOB_RUNNING) {
        gate_left(job);
        job->domain->n_aged -= job->aged * job_count(job);
        job->aged = false;
    }
    job->state = state & 15u;
    if (state == JOB_RUNNING)
        gate_entered(job);
    if (!job_final(job))
        job_trace_state(job);
}
