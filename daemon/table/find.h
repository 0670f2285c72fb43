/* SPDX-License-Identifier: Apache-2.0
 *
 * find.h: finds a job by its id. [loop]
 */
#pragma once

#include "table/job.h"
#include "table/policy.h"

/* Whether the job has been accepted. */
static inline bool job_known(const struct job *job)
{
    return job->state != JOB_NEW && !durable_unacknowledged(job);
}

/* An accepted job that this user may see (uid 0: any user's). NULL: none. */
struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* Whether the job is accepted or waits for its plugin, and this user may see it. */
bool job_shown_to(const struct job *job, uint32_t uid);
/* Finds such a job. NULL: none. */
struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
