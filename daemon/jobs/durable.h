/* SPDX-License-Identifier: Apache-2.0
 *
 * durable.h: the life of a durable job. Each step that a restart must know of is on disk first. [loop]
 */
#pragma once

#include "jobs/policy.h"

/* Returns a request that belongs to no job yet. NULL: no memory. */
struct disk_request *disk_request_alloc(struct jobs *jobs, enum store_op op, void (*answer)(struct store_request *r));
void disk_request_free(struct disk_request *q);
struct disk_request *disk_request_new(struct job *job, enum store_op op, void (*answer)(struct store_request *r));
/* The answer has come. Takes the request off its job and returns the job; NULL: the job has gone. */
struct job *disk_request_done(struct disk_request *q);
const char *durable_refuses(struct jobs *jobs, const struct job_request *r, int *ret_code, char text[static JOB_TEXT]);
/* The job's input is complete. True: the job first goes to disk, and then comes back to job_enqueue(). */
bool durable_add(struct job *job);
bool durable_unacknowledged(const struct job *job);
/* Stops the job. True: it is stopped, or will be when the store has answered. */
bool durable_stop(struct job *job, enum job_stop why);
enum disk_step { STEP_ON, STEP_AWAITS, STEP_WAIT };
/* Called before the hand-over of the first job of a queue. STEP_ON: it may go; STEP_AWAITS: it was taken out of the
 * queue and comes back; STEP_WAIT: nothing can go now. */
enum disk_step durable_before(struct domain *d, struct job *job);
void durable_retry(struct job *job);   /* DELAYED */
void durable_closing(struct job *job); /* it got its final state */
/* The end is known. True: job_ended() tells it once it is on disk. */
bool durable_end(struct job *job, const struct job_info *info);
/* Removes the job from memory, not from disk, and tells its watches. False: not now, or it is not durable. */
bool durable_defer(struct job *job, bool running);
void durable_save(struct job *job); /* writes its end again, after a failure */
