/* SPDX-License-Identifier: Apache-2.0
 *
 * job-breaker.h: breaker.c for the job table: refusals, probes, and the choice of a plugin's executor. [loop]
 */
#pragma once

#include "jobs/job.h"

enum plugin_apart { PLUGIN_TOGETHER = 0, PLUGIN_APART_CONFIGURED = 1, PLUGIN_APART_CRASHED = 2 };
enum plugin_apart plugin_apart(const struct jobs *jobs, uint64_t owner, const char *request);
/* The name of a plugin in wsd.conf: its own name; as long as that is not known, the name of its file, in the buffer. */
const char *job_breaker_name(const struct jobs *jobs, uint64_t owner, const char *request, char buffer[static 64]);
/* Whether there may be a breaker entry for a plugin or its function. Mostly false: then nothing below need be
 * called. */
static inline bool job_breaker_knows(const struct plugin *p, const struct plugin_function *f)
{
    uint64_t n = p->domain->jobs->breakers.n_added;

    return p->innocent != n || f->innocent != n;
}
static inline bool job_breaker_suspects(const struct job *job) /* the same for a job that has its function */
{
    return job_breaker_knows(job->plugin, job_function(job));
}
/* its function is in quarantine */
bool job_breaker_refuses(struct job *job, char text[static JOB_TEXT], uint64_t *ret_retry_usec);
void job_breaker_try(struct job *job); /* the job goes on, possibly as a probe */
/* If the plugin of this QUEUED job has to run apart: moves the job there. False: it stays. */
bool job_breaker_move(struct job *job);
void job_breaker_deaf(struct job *job); /* its executor is killed to stop it */
void job_breaker_crashed(struct job *job, const char *why);
/* Its executor died without a note while no other function ran. alone: nor had any ever run in that executor. */
void job_breaker_silent(struct job *job, bool alone, const char *why);
/* The same for a direct call, which `call` identifies. */
void job_breaker_function(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why);
void job_breaker_ended(struct job *job, bool went_well); /* it is final and has not crashed */
void job_breaker_describe(const struct plugin *p, const struct plugin_function *f, struct plugin_function_info *ret);
