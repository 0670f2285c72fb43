/* SPDX-License-Identifier: Apache-2.0
 *
 * job-breaker.h: what the job table makes of breaker.c: refusals, probes, and whose executor a plugin's jobs go to.
 * [loop]
 */
#pragma once

#include "jobs/job.h"

enum plugin_apart { PLUGIN_TOGETHER = 0, PLUGIN_APART_CONFIGURED = 1, PLUGIN_APART_CRASHED = 2 };
enum plugin_apart plugin_apart(const struct jobs *jobs, uint64_t owner, const char *request);
/* The name by which wsd.conf knows a plugin: its own, or that of its file, in the buffer, as long as nothing else is
 * known. */
const char *job_breaker_name(const struct jobs *jobs, uint64_t owner, const char *request, char buffer[static 64]);
/* Something may be known against a plugin, or its function. Where not, as mostly, nothing below need be asked. */
static inline bool job_breaker_knows(const struct plugin *p, const struct plugin_function *f)
{
    uint64_t n = p->domain->jobs->breakers.n_added;

    return p->innocent != n || f->innocent != n;
}
static inline bool job_breaker_suspects(const struct job *job) /* the same of those of a job, whose function is known */
{
    return job_breaker_knows(job->plugin, job_function(job));
}
/* its function is in quarantine */
bool job_breaker_refuses(struct job *job, char text[static JOB_TEXT], uint64_t *ret_retry_usec);
void job_breaker_try(struct job *job); /* it goes on: perhaps on probe */
/* QUEUED, where its plugin has to run apart: moves it there. False: it stays. */
bool job_breaker_move(struct job *job);
void job_breaker_deaf(struct job *job); /* its executor is killed for its sake */
void job_breaker_crashed(struct job *job, const char *why);
/* Its executor has died without a word while no other function ran; alone: or ever had, in that executor. */
void job_breaker_silent(struct job *job, bool alone, const char *why);
/* The same for what is no job: `call` tells it from others. */
void job_breaker_function(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why);
void job_breaker_ended(struct job *job, bool went_well); /* it is final, and has not crashed */
void job_breaker_describe(const struct plugin *p, const struct plugin_function *f, struct plugin_function_info *ret);
