/* SPDX-License-Identifier: Apache-2.0
 *
 * follow.h: jobs that are there: followed, shown, given input and cancelled. [loop]
 */
#pragma once

#include "table/job.h"

/* The watch follows this job from now on, and gets what it can now. */
void job_follow(struct job *job, struct watch *w);
/* Whether the job is not accepted yet, and so many follow it that no more may: what becomes of it is told to all in one
 * turn. */
bool job_is_crowded(const struct job *job);
