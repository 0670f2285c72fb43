/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h: many jobs as a unit: counted, followed, stopped and cancelled together. [loop]
 */
#pragma once

#include "base/hash.h"
#include "base/list.h"
#include "table/interface.h"

struct batch;
struct job;

struct batches {
    struct hash by_id;        /* by the second half of the id */
    struct list due;          /* batches that batches_turn() has to serve */
    struct list kept;         /* batches that have ended, the oldest end first */
    struct list progress;     /* batch watches that want progress */
    struct list progress_due; /* of those, the ones to be looked at in this round */
};

const char *batch_refuses(const struct batch_watch *owner); /* why no job can be added; NULL: one can */
void batch_add(struct batch_watch *owner, struct job *job); /* NEW */
/* The batch does not end while jobs of the array may come. batch_let_go() is allowed where it was not held. */
void batch_hold(const struct batch_watch *owner, struct array_watch *w);
void batch_let_go(struct array_watch *w);
void batch_accepted(struct job *job);       /* here and below: does nothing for a job of no batch */
void batch_left(struct job *job, int exit); /* the job is final, or was refused while NEW */
bool batch_stops(const struct job *job);    /* it is to be stopped before it begins */
void batch_forget(struct job *job);         /* the job is being freed */
/* the i-th member of a bundle became a job, before the bundle */
void batch_divide(struct job *bundle, struct job *job, uint32_t i);
const uint8_t *batch_id(const struct job *job); /* NULL: it belongs to no batch */
/* For after.c. NULL: there is no such batch, or this user may not see it. */
struct batch *batch_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* once ended: the state of its first failure, or SUCCEEDED; else RUNNING */
enum job_state batch_state(const struct batch *b);
struct awaited **batch_awaited(struct batch *b); /* the jobs that run after it */
bool batch_is(const struct batch_watch *owner, const struct batch *b);
void batches_turn(struct jobs *jobs); /* once a turn of the loop */
/* Tells watches in progress_due of what has changed. Takes what that costs from *left, and stops at 0. */
void batches_progress(struct jobs *jobs, uint32_t *left);
void batches_free(struct jobs *jobs); /* there must be no jobs */
