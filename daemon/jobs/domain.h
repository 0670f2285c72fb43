/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.h: one trust domain: its executor, the hand-over of jobs, and their completions. [loop]
 */
#pragma once

#include "jobs/job.h"

/* The owner of the executor for a user's jobs: the uid; a number above every uid where the user shares one; 0 where all
 * users do. */
uint64_t domain_owner(const struct jobs *jobs, uint32_t uid);
/* The owner's shared domain (own NULL), or that of one plugin. NULL: there is none. */
struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own);
/* the workers of its executor */
static inline uint32_t domain_workers(const struct domain *d)
{
    return d->settings.workers ? d->settings.workers : d->jobs->options.workers;
}
/* the configuration key of its memory limit, and the value */
void domain_memory_words(const struct domain *d, char *text, size_t size);
struct domain *domain_get(struct jobs *jobs, uint32_t uid); /* NULL: no memory */
/* The domain for this plugin's jobs. NULL: no memory, or too many plugins are apart. */
struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request);
struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request);
/* Starts an executor if none runs and no pause is on. Returns 0: there is one, or will be; -EAGAIN: none can be had. */
int domain_start(struct domain *d);
void domain_fruitless(struct domain *d, const struct executor *e); /* the executor died before it was `useful` */
const char *domain_failure(const struct domain *d);
void domain_pump(struct domain *d); /* hands over as many jobs as fit */
/* Rings the executor's doorbell. Once a turn of the loop, since a wake-up costs more than many jobs. */
bool domain_ring(struct domain *d);   /* true: a worker was woken */
void domain_requeue(struct job *job); /* RUNNING, and the executor is gone: puts it at the head of its queue */
/* The same for a job of a living executor that no worker has begun or will begin. recalled: its slot was taken back. */
void domain_take_back(struct job *job, bool recalled);
void domain_rearm(struct domain *d);  /* see jobs_rearm() */
void domain_finish(struct domain *d); /* tells the executor to end; kills it if it does not */
void domain_free(struct domain *d);
struct domain *domain_new(struct jobs *jobs, uint64_t owner); /* in no table; NULL: no memory */
void domain_start_executor(struct domain *d);                 /* at once; d->executor stays NULL on failure */
/* Starts the idle time if the executor has no work. Checked from time to time while there is an executor, from its
 * readiness on: it may have been started for a query only, or its job may have been cancelled. */
void domain_rest(struct domain *d);
/* The same after the last job has ended. Called before wsd sleeps, since by then a client may have sent the next job,
 * so that no timer has to be moved. */
void domain_settle(struct domain *d);
#define DOMAINS_TAKE 1024u /* completions taken in one turn of the loop, all domains; a KiB of output counts as one */
bool domain_poll(struct domain *d); /* takes a batch of completions; true: there may be more */
void domain_complete(struct domain *d, const struct front_completion *c);
void domain_done(struct job *job, const struct front_completion *c); /* the job has no slot now */
bool domain_wanted(struct domain *d);                                /* something waits for its executor */
void domain_forget_opens(struct job *job);
void domain_distrust(struct domain *d, const char *what); /* the executor sent invalid data: distrusts and ends it */
