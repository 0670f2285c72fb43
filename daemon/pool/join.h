/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h: the slow paths of wsd/task.h, and waiting in general; for the files of this folder only.
 */
#pragma once

#include "pool/worker.h"

/* See wsd/task.h. [owner of the worker] */
void task_spawn(struct wsd_worker *self, struct wsd_task *t);
struct wsd_task *task_sync(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type);
void task_lower(struct wsd_worker *self);
void task_for(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body, void *arg);
void task_spawn_word(struct wsd_worker *self, wsd_word_fn *fn, uint64_t arg);
uint64_t task_sync_word(struct wsd_worker *self);
void task_blocking_begin(struct wsd_worker *self);
void task_blocking_end(struct wsd_worker *self);

/* Something to wait for. */
struct wait {
    /* Whether it is over. If it is not, and this is known: the worker that runs it, and as part of which origin. */
    bool (*over)(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin);
    const void *what;
    struct eventcount *event; /* the thread that ends it notifies this */
    bool future;              /* work taken meanwhile may itself wait for the waiting worker */
};
/* Runs other tasks, its own descendants first, until the wait is over. Sleeps while there is nothing to run. [owner] */
void worker_wait(struct worker *w, const struct wait *wait);
void worker_free_overflow(struct worker *w);
