/* SPDX-License-Identifier: Apache-2.0
 *
 * durable.h: the life of a durable job. Each step that a restart must know of is on disk first. [loop]
 */
#pragma once

#include "base/slab.h"
#include "base/hash.h"
#include "durable/dead.h"
#include "durable/results.h"
#include "store/store.h"
#include "table/hooks.h"
#include "table/policy.h"

#define STORE_OVERHEAD   1024u    /* bytes counted for a job on disk beside its own */
#define STORE_RECORDS    100000u  /* ended jobs that are kept; each has a record in memory, too */
#define STORE_AGAIN_USEC 1000000u /* between two attempts to write what the disk refused */
#define STORE_READS      64u      /* inputs of one domain that are being read back */

/* What the jobs have of the disk, and of keys. */
struct durable {
    struct store *store; /* NULL: not open yet */
    struct event *store_event;
    struct slab request_cells; /* requests to the store */
    struct hash keys;          /* struct policy by_key */
    struct results results;
    uint64_t last_number; /* the last number given to a job on disk */
    bool has_deferred;    /* some job is only on disk, for the next wsd */
};

struct disk_request {
    struct list link; /* policy->requests */
    struct jobs *jobs;
    struct job *job;           /* NULL: it has gone */
    struct dead_query *query;  /* NULL: none, or gone */
    struct schedule *schedule; /* NULL: the request is a job's */
    struct store_request r;
    char error[JOB_TEXT];
};

/* Returns a request that belongs to no job yet. NULL: no memory. */
struct disk_request *disk_request_alloc(struct jobs *jobs, enum store_op op, void (*answer)(struct store_request *r));
void disk_request_free(struct disk_request *q);
struct disk_request *disk_request_new(struct job *job, enum store_op op, void (*answer)(struct store_request *r));
/* The answer has come. Takes the request off its job and returns the job; NULL: the job has gone. */
struct job *disk_request_done(struct disk_request *q);
const char *durable_refuses(struct jobs *jobs, const struct job_request *r, int *ret_code, char text[static JOB_TEXT]);
/* The job's input is complete. True: the job first goes to disk, and then comes back to job_enqueue(). */
bool durable_add(struct job *job);
/* Stops the job. True: it is stopped, or will be when the store has answered. */
bool durable_stop(struct job *job, enum job_stop why);
/* Called before the hand-over of the first job of a queue. STEP_ON: it may go; STEP_AWAITS: it was taken out of the
 * queue and comes back; STEP_WAIT: nothing can go now. */
enum disk_step durable_before(struct domain *d, struct job *job);
void durable_health(const struct jobs *jobs,
                    struct jobs_counters *ret); /* adds what the transactions of the store took */
void durable_retry(struct job *job);            /* DELAYED */
void durable_closing(struct job *job);          /* it got its final state */
/* The end is known. True: job_ended() tells it once it is on disk. */
bool durable_end(struct job *job, const struct job_info *info);
/* Removes the job from memory, not from disk, and tells its watches. False: not now, or it is not durable. */
bool durable_defer(struct job *job, bool running);
void durable_save(struct job *job); /* writes its end again, after a failure */
