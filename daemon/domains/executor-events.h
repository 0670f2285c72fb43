/* SPDX-License-Identifier: Apache-2.0
 *
 * executor-events.h: what an executor reports, and its end. [loop]
 */
#pragma once

#include "table/job.h"

extern const struct executor_ops executor_events;
/* See jobs_opened(). The job is RUNNING. */
void domain_opened(const struct job *job, uint32_t serial, int error, int fd);
/* The submitter of a job that goes on has gone: what the job still waits to have opened will not come. */
void domain_forget_opens(const struct job *job);
