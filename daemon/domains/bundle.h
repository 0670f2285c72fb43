/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.h: brief jobs of an array that share one entry of the queue, of the table and of the executor's slots, and are
 * told of their ends together. Bundling is invisible: code that addresses, counts or stops one member splits the bundle
 * first. [loop]
 */
#pragma once

#include "table/interface.h"

struct domain;
struct front_completion;
struct front_job;
struct job;
struct job_place;

int bundle_init(struct domain *d); /* 0 or a negative errno */
void bundle_deinit(struct domain *d);
/* Bundles the next job of an array, which is in *r, and some jobs behind it. Returns how many it took; *r then has the
 * one behind them. 0: the job must be submitted by itself. */
uint32_t bundle_take(struct jobs *jobs, struct job_request *r, const struct job_place *place, struct array_watch *w);
/* a gate, a limit or the like counts single jobs or looks at each, so this job cannot be bundled */
bool bundle_counts(const struct domain *d, const struct job *job);
/* Replaces the bundle by a job for each member. In a bundle that was handed over, the ends of finished members are
 * told. The member that has its turn keeps the slot. The others go back to the head of the queue. Without memory for
 * that, all members end. */
void bundle_split(struct job *job);
void bundle_describe(const struct job *job, struct front_job *ret);
void bundles_split(struct jobs *jobs); /* splits all bundles, for code that looks at every job */
/* The same in pieces, for one user's jobs (0: all): *cursor is 0 at first, and *looks is how many jobs and buckets may be
 * looked at. True: those that were there at first are split. */
bool bundles_split_some(struct jobs *jobs, uint32_t uid, size_t *cursor, uint32_t *looks);
bool bundles_find(struct jobs *jobs, const uint8_t id[16]); /* true: a bundle had this id, and was split */
void bundles_watch(struct domain *d);                       /* bundles were handed over: starts watching them */
/* Splits the bundle in a slot that reported more than bundles do, and returns the job that keeps the slot. NULL:
 * invalid data, or no memory. */
struct job *bundle_alone(struct domain *d, uint32_t slot);
/* The slot is DONE. Returns the bundle where every member has ended with nothing but output that was taken; else as
 * bundle_alone(). */
struct job *bundle_settled(struct domain *d, const struct front_completion *c);
void bundle_done(struct domain *d, struct job *job, const struct front_completion *c); /* the slot is free */
