/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.h: delayed jobs, and limits of the time in the queue. [loop]
 */
#pragma once

#include "table/job.h"

static inline struct job_time *job_time(const struct job *job)
{
    return job->more ? job->more->time : NULL;
}
/* returns the present one or a new one; NULL: no memory */
struct job_time *time_make(struct job *job);
int time_wanted(struct job *job, const struct job_request *r); /* applies the submitter's request; 0 or -ENOMEM */
void time_free(struct job *job);
int time_limit_wait(struct job *job); /* applies the configured limit; 0 or -ENOMEM */
int time_waits(struct job *job);      /* NEW: limits its wait for the plugin; 0 or -ENOMEM */
void time_accepted(struct job *job);  /* starts its delay, unless it has started */
/* HELD again after a restart: once not held, it is delayed until then (CLOCK_REALTIME) */
void time_hold(struct job *job, uint64_t due_usec, bool at);
/* True: the job is not due yet; it becomes DELAYED, and later comes back to job_enqueue(). */
bool time_delays(struct job *job);
/* Delays the job for this span, whatever was requested. The job has a job_time, and is DELAYED or about to be. */
void time_pause(struct job *job, uint64_t usec);
/* DELAYED on disk: delays it until then (CLOCK_REALTIME) */
void time_resume(struct job *job, uint64_t due_usec, bool at);
/* it was queued; waited_usec: its wait before a restart */
void time_queued(struct job *job, uint64_t waited_usec);
void time_begun(struct job *job);         /* it does not wait now, or has ended */
void time_out(struct job *job);           /* in no list: ends it, since it has waited too long */
uint64_t time_due(const struct job *job); /* CLOCK_REALTIME, for the disk; 0: not delayed */
