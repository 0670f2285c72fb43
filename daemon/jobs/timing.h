/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.h: jobs that go on later, and jobs that may not wait for long. [loop]
 */
#pragma once

#include "jobs/job.h"

static inline struct job_time *job_time(const struct job *job)
{
    return job->more ? job->more->time : NULL;
}
struct job_time *time_make(struct job *job);                   /* or the one that it has; NULL: no memory */
int time_wanted(struct job *job, const struct job_request *r); /* what its submitter says; 0 or -ENOMEM */
void time_free(struct job *job);
int time_limit_wait(struct job *job); /* as the configuration says; 0 or -ENOMEM */
int time_waits(struct job *job);      /* NEW, for its plugin: not longer than it may; 0 or -ENOMEM */
void time_accepted(struct job *job);  /* its delay begins, where that has not */
/* HELD again after a restart, and then until then (CLOCK_REALTIME) */
void time_hold(struct job *job, uint64_t due_usec, bool at);
/* It is not to go on yet: DELAYED, and comes back to job_enqueue(). */
bool time_delays(struct job *job);
/* It waits for a span, whatever was asked for: has a job_time, is DELAYED or about to be. */
void time_pause(struct job *job, uint64_t usec);
void time_resume(struct job *job, uint64_t due_usec, bool at); /* DELAYED on disk, until then (CLOCK_REALTIME) */
void time_queued(struct job *job, uint64_t waited_usec);       /* it waits, and may have waited before a restart */
void time_begun(struct job *job);                              /* it has an end, or waits no more */
void time_out(struct job *job);                                /* in no list: it has waited too long */
uint64_t time_due(const struct job *job);                      /* CLOCK_REALTIME, for the disk; 0: it is not delayed */

void job_id_of(uint8_t ret[16], const uint8_t first[16], uint32_t i); /* of an array's i-th job, by that of the first */
void id_make(struct jobs *jobs, uint64_t now_usec, uint8_t ret[16]);  /* a new one; CLOCK_REALTIME */
/* What it is by CLOCK_REALTIME, at this time of CLOCK_MONOTONIC, which is now. A clock that is set is noticed within
 * REALTIME_USEC. */
uint64_t jobs_realtime(struct jobs *jobs, uint64_t now_usec);
