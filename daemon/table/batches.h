/* SPDX-License-Identifier: Apache-2.0
 *
 * batches.h: batches as their owners see them (batch.c). [loop]
 */
#pragma once

#include "table/interface.h"

struct batch;

#define JOBS_BATCHES_PER_USER 1024u /* open, or ended and kept */

struct batch_info {
    uint8_t id[16];
    uint32_t uid;
    bool closed, ended, stopped; /* stopped: jobs that had not begun end as cancelled */
    bool cancelled;              /* the whole batch was cancelled */
    int exit;                    /* of the first job, in batch order, that has failed so far */
    uint64_t total, queued, running, done, failed;
    uint64_t submitted_usec; /* CLOCK_REALTIME */
    uint64_t looks;          /* at jobs and executors that this took */
};

/* Follows a batch; embedded in the frontend's call. */
struct batch_watch {
    struct list link, progress;
    struct batch *batch; /* NULL: ended */
    bool owner;
    bool cancel_closes; /* owner: a cancel also closes the batch */
    uint64_t told;      /* at the last tell(): number of accepted jobs plus number of ended ones */
    /* The call with info->ended is the last; after it the jobs do not use w. */
    void (*tell)(struct batch_watch *w, const struct batch_info *info);
};

/* Opens a batch. The owner adds jobs (job_request.batch) until it closes the batch or goes. A failed job stops the jobs
 * behind it, unless keep_going. A detached batch is kept as long as a detached job; any other is stopped when its owner
 * goes. Returns 0, -ENOMEM, or -EDQUOT: this user has too many. */
int jobs_batch_open(struct jobs *jobs, uint32_t uid, bool keep_going, bool detached, bool progress,
                    struct batch_watch *owner);
void jobs_batch_close(struct batch_watch *owner);
bool jobs_batch_is_open(const struct batch_watch *owner);      /* jobs may be added */
bool jobs_batch_is_cancelled(const struct batch_watch *owner); /* new jobs are refused */
bool jobs_batch_is_detached(const struct batch_watch *owner);
/* 0 or -ENOENT */
int jobs_batch_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, bool progress, struct batch_watch *w);
void jobs_batch_unwatch(struct batch_watch *w); /* also where w follows no batch */
void jobs_batch_look(const struct batch_watch *w, struct batch_info *ret);
int jobs_batch_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct batch_info *ret); /* 0 or -ENOENT */
/* Cancels every job of the batch that has not ended. No job can be added after that. uid: the call acts with this
 * user's rights. by: the user named in the log. Returns 0; -EALREADY: it had ended; -ENOENT. */
int jobs_batch_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
void jobs_batch_cancel_watched(struct batch_watch *w, uint32_t uid, uint32_t by);
