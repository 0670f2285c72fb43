/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.h: brief jobs of an array, which are one entry of the queue, of the table and of the executor's slots, and
 * are told their ends in one breath. [loop]
 */
#pragma once

#include "jobs/job.h"

int bundle_init(struct domain *d);
/* The i-th of n jobs of an array, which the request says, and some behind it: how many there are in it now; the request
 * says the next one. 0: it has to be a job of its own. */
uint32_t bundle_take(struct jobs *jobs, struct job_request *r, const struct job_place *place, struct array_watch *w,
                     const uint8_t first_id[16], uint32_t i, uint32_t n);
/* something that counts jobs, or looks at each, is in its way */
bool bundle_counts(const struct domain *d, const struct job *job);
/* Has each of them as a job of its own, in its place. Of one that was handed over, what has ended is told so, the one
 * that has its turn keeps the slot, and the others go back to the head of the queue. Where there is no memory for that,
 * all have ended. */
void bundle_split(struct job *job);
void bundle_describe(const struct job *job, struct front_job *ret);
void bundles_split(struct jobs *jobs);                      /* all: somebody looks at every job */
bool bundles_find(struct jobs *jobs, const uint8_t id[16]); /* splits the one that has this id: true */
void bundles_watch(struct domain *d);                       /* some were handed over */
/* How long it is expected to take; UINT32_MAX: nobody knows. */
uint32_t bundle_usec(const struct job *job);
/* The executor has nothing but bundles, which together take less than to wake another worker for, and one is awake: it
 * takes them all. */
bool bundles_brief(struct domain *d);
/* The job of a slot that says more than what it was asked for. NULL: a lie, or there was no memory. */
struct job *bundle_alone(struct domain *d, uint32_t slot);
/* The slot is DONE: the bundle, where all have ended with nothing but output that is taken; else as bundle_alone(). */
struct job *bundle_settled(struct domain *d, const struct front_completion *c);
void bundle_done(struct domain *d, struct job *job, const struct front_completion *c); /* the slot is its no more */
/* So many jobs of the function have ended: so long all of them took, and so much output the largest had. */
void bundle_ran(struct plugin_function *f, uint32_t n, uint64_t usec, uint64_t output);
