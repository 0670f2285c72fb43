/* SPDX-License-Identifier: Apache-2.0
 *
 * follow.h: jobs that are there: followed, shown, given input and cancelled. [loop]
 */
#pragma once

#include "table/job.h"

/* The watch follows this job from now on, and gets what it can now. */
void job_follow(struct job *job, struct watch *w);
