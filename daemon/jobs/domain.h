/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.h: one trust domain: its executor, what is handed over to it and what comes back. [loop]
 */
#pragma once

#include "jobs/job.h"

/* Whose executor a user's jobs go to: his own (his uid), or a number above every uid where he shares one; 0 where all
 * do. */
uint64_t domain_owner(const struct jobs *jobs, uint32_t uid);
/* The one that all share (own NULL), or that of one plugin. NULL: there is none. */
struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own);
uint32_t domain_workers(const struct domain *d);
void domain_memory_words(const struct domain *d, char *text, size_t size); /* the key and its value */
struct domain *domain_get(struct jobs *jobs, uint32_t uid);                /* NULL: no memory */
/* The one for this plugin's jobs; NULL: no memory, or too many that are apart. */
struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request);
struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request);
/* Starts an executor where none runs and no pause is on. 0: there is one, or one will be; -EAGAIN: none can be had. */
int domain_start(struct domain *d);
/* Why none can be started, as far as it is known. */
void domain_fruitless(struct domain *d, const struct executor *e); /* it is dead, and was of no use */
const char *domain_failure(const struct domain *d);
void domain_pump(struct domain *d); /* hands over what fits */
/* Once a turn of the loop, for all that was handed over in it: a wake-up costs more than many jobs. */
bool domain_ring(struct domain *d);   /* true: a worker was woken */
void domain_requeue(struct job *job); /* RUNNING, and with no executor any more: to the head of its queue */
/* The same where no worker has begun it, nor will, in an executor that is there. recalled: its slot was. */
void domain_take_back(struct job *job, bool recalled);
void domain_rearm(struct domain *d);  /* see jobs_rearm() */
void domain_finish(struct domain *d); /* tells the executor to end, and ends it where it does not */
void domain_free(struct domain *d);
struct domain *domain_new(struct jobs *jobs, uint64_t owner); /* in no table; NULL: no memory */
void domain_start_executor(struct domain *d);                 /* at once; d->executor stays NULL where it fails */
/* If it has no work, it is idle from now on. Looked at from time to time as long as there is an executor, from when
 * that is ready: it may have been started for a question only, or what it was started for may be cancelled. */
void domain_rest(struct domain *d);
/* The same where the last job has ended: before wsd sleeps, by when a client that awaited it has sent the next one, and
 * no timer has to be moved for that. */
void domain_settle(struct domain *d);
#define DOMAINS_TAKE 1024u /* completions in a turn of the loop, of all domains; a KiB of output counts as one */
bool domain_poll(struct domain *d); /* takes a batch of completions; true: there may be more */
void domain_complete(struct domain *d, const struct front_completion *c);
void domain_done(struct job *job, const struct front_completion *c); /* the slot is the job's no more */
bool domain_wanted(struct domain *d);                                /* something waits for an executor */
void domain_forget_opens(struct job *job);
void liar(struct domain *d, const char *what); /* nothing more is believed of this executor */
