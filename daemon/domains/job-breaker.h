/* SPDX-License-Identifier: Apache-2.0
 *
 * job-breaker.h: breaker.c for the job table: refusals and probes. [loop]
 */
#pragma once

#include "domains/plugin-query.h"
#include "table/job.h"

/* its function is in quarantine */
bool job_breaker_refuses(struct job *job, char text[static JOB_TEXT], uint64_t *ret_retry_usec);
void job_breaker_try(struct job *job); /* the job goes on, possibly as a probe */
/* The job's plugin has crashed of late: it runs apart for some time. */
bool job_breaker_apart(const struct job *job);
void job_breaker_deaf(struct job *job); /* its executor is killed to stop it */
void job_breaker_crashed(struct job *job, const char *why);
/* Its executor died without a note while no other function ran. alone: nor had any ever run in that executor. */
void job_breaker_silent(struct job *job, bool alone, const char *why);
/* The same for a direct call, which `call` identifies. */
void job_breaker_function(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why);
void job_breaker_ended(struct job *job, bool went_well); /* it is final and has not crashed */
void job_breaker_describe(const struct plugin *p, const struct plugin_function *f, struct plugin_function_info *ret);
