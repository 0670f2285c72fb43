/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.h: a job's answer: what its end is. [loop]
 */
#pragma once

#include "table/job.h"

void domain_done(struct job *job, const struct front_completion *c); /* the job has no slot now */
