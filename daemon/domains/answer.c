/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c: a job's answer: what its end is.
 * Owns nothing. [loop]
 * Keeps: a job that was told to stop before its answer was sealed (stop_running()) counts as stopped, whatever it
 * returned. One that has run for its whole time counts as timed out.
 * Does not read the rings (completions.c). */
#include "domains/answer.h"

#include "base/log.h"
#include "domains/arena.h"
#include "domains/bundle-cost.h"
#include "domains/domain.h"
#include "domains/job-breaker.h"
#include "domains/runner.h"
#include "table/output.h"

/* What the runner of a job has said of it beyond a status. 0: nothing. */
static enum job_state ended_as(const struct job *job, int exit)
{
    int state = exit - RUN_ENDED_AS;

    return job->domain->priv->runner && state >= JOB_TIMED_OUT && state <= JOB_INTERRUPTED ? (enum job_state)state : 0;
}

/* It ended like that where the runner had it run. The runner is well. */
static void finish_as(struct job *job, enum job_state state, const struct front_completion *c)
{
    int code = state == JOB_TIMED_OUT ? CODE_TIMED_OUT : state == JOB_CRASHED ? CODE_CRASHED : CODE_INTERRUPTED;

    if (state == JOB_CRASHED && job_breaker_suspects(job))
        job_breaker_ended(job, true);
    job_finish(job, state, code, *c->error ? c->error : "says its runner", c);
}

void domain_done(struct job *job, const struct front_completion *c)
{
    struct job_more *m = job->more;
    enum job_stop stop = m ? (enum job_stop)m->stop : STOP_NONE;

    uint64_t usec = c->ended_usec > c->started_usec ? c->ended_usec - c->started_usec : 0;
    bundle_ran(job_function(job), 1, usec, c->output_size);
    bool late = m && m->timeout_usec && usec >= m->timeout_usec;
    enum job_state as = ended_as(job, c->exit);
    int exit = c->exit >= 0 && c->exit <= WSD_STATUS_LAST ? c->exit : WSD_STATUS_LAST;

    if (m)
        output_absorb(job);
    bool rest = output_rest(job, c->data, c->size);
    if (!rest)
        output_add(job, c->data, c->size);
    if (!(job->flags & JOB_TRUNCATED) && !output_adds_up(job, c, rest ? c->size : 0)) {
        domain_distrust(job->domain, "output that does not add up");
        arena_died(job);
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "its output was damaged by the executor", c);
    } else if (stop == STOP_CANCEL)
        job_finish(job, JOB_CANCELLED, CODE_CANCELLED, NULL, c);
    else if (job->flags & JOB_TRUNCATED)
        job_finish(job, JOB_FAILED, WSD_STATUS_LAST, output_lost(job), c);
    else if (stop == STOP_TIMEOUT || late)
        job_finish(job, JOB_TIMED_OUT, CODE_TIMED_OUT, job_time_words(job), c);
    else if (as)
        finish_as(job, as, c);
    else if (exit == 0)
        job_finish(job, JOB_SUCCEEDED, 0, NULL, c);
    else
        job_finish(job, JOB_FAILED, exit, c->error, c);
}
