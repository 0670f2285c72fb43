/* SPDX-License-Identifier: Apache-2.0
 *
 * durable.h: a durable job's way through its life, with the disk before each step that a restart must know of.
 * [loop]
 */
#pragma once

#include "jobs/policy.h"

/* Of nobody yet; NULL: no memory. */
struct disk_request *disk_request_alloc(struct jobs *jobs, enum store_op op, void (*answer)(struct store_request *r));
void disk_request_free(struct disk_request *q);
struct disk_request *disk_request_new(struct job *job, enum store_op op, void (*answer)(struct store_request *r));
/* The answer has come: gives the job (NULL: it has gone) and takes the request off it. */
struct job *disk_request_done(struct disk_request *q);
const char *durable_refuses(struct jobs *jobs, const struct job_request *r, int *ret_code, char text[static JOB_TEXT]);
/* Its input is there: true where it first has to go to the disk, and comes back to job_enqueue(). */
bool durable_add(struct job *job);
bool durable_unacknowledged(const struct job *job);
/* It is to be stopped: true where that is done, or will be when the store has answered. */
bool durable_stop(struct job *job, enum job_stop why);
enum disk_step { STEP_ON, STEP_ASIDE, STEP_WAIT };
/* Before it is handed over, the first of its queue: it may go, or it was taken out and comes back, or nothing goes
 * now. */
enum disk_step durable_before(struct domain *d, struct job *job);
void durable_retry(struct job *job);   /* DELAYED */
void durable_closing(struct job *job); /* it has its final state */
/* Its end is known: true where it is told when that is on disk, by job_ended(). */
bool durable_end(struct job *job, const struct job_info *info);
/* Leaves the memory and stays on disk; its watches are told so. False: not now, or it is none of those. */
bool durable_defer(struct job *job, bool running);
void durable_save(struct job *job); /* its end, which could not be written */
