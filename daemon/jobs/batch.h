/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h: many jobs as a unit: counted, followed, stopped and cancelled together. [loop]
 */
#pragma once

#include "jobs/job.h"

const char *batch_refuses(const struct batch_watch *owner); /* nothing is added to it: why; NULL */
void batch_add(struct batch_watch *owner, struct job *job); /* NEW */
void batch_accepted(struct job *job);                       /* here and below also where it belongs to none */
void batch_left(struct job *job, int exit);                 /* it is final, or was refused while NEW */
void batch_forget(struct job *job);                         /* it goes */
/* the i-th of a bundle is there by itself, before the bundle */
void batch_divide(struct job *bundle, struct job *job, uint32_t i);
const uint8_t *batch_id(const struct job *job); /* NULL: it belongs to none */
/* For after.c. NULL: there is none, or none that this user may see. */
struct batch *batch_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* a final one when it has ended: that of its first failure, or SUCCEEDED; else RUNNING */
enum job_state batch_state(const struct batch *b);
struct awaited **batch_awaited(struct batch *b); /* what waits for it */
bool batch_is(const struct batch_watch *owner, const struct batch *b);
void batches_turn(struct jobs *jobs); /* once a turn of the loop */
void batches_progress(struct jobs *jobs);
void batches_free(struct jobs *jobs); /* there are no jobs */
