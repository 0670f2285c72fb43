/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h: the work-stealing engine: N workers, a deque each, a common queue (the injector), parking.
 *
 * The pool runs a function on a node that is embedded in the caller's object, and knows nothing more. Fork/join inside
 * such a function is wsd/task.h, whose slow paths are here. README.md has the protocols.
 *
 * Order of a worker: own deque, then steal, then the injector, then the source, then park.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"

struct pool;
struct wsd_worker; /* wsd/task.h */

#define POOL_WORKERS_MAX 1024u

/* Work for the pool, embedded in its object. [owner until submitted, then the pool until run is called] */
struct pool_node {
    struct pool_node *next;
    void (*run)(struct pool_node *node, struct wsd_worker *self);
};

/* Where roots come from beside pool_submit(): upward calls, because the pool is below the rings. Both [any worker,
 * several at once]. */
struct pool_source {
    /* Takes one root, or NULL. *ret_more: there is more to take, so that the taker wakes the next worker. */
    struct pool_node *(*take)(void *context, bool *ret_more);
    /* Whether take would find one; asked between announcing and sleeping. */
    bool (*ready)(void *context);
    void *context;
};

struct pool_options {
    uint32_t workers;    /* 1 to POOL_WORKERS_MAX */
    size_t stack_size;   /* bytes of a worker's stack, a guard page beside; 0: 8 MiB */
    struct event *event; /* where idle workers sleep; NULL: one of its own. In shared memory where the source's writer
                            is another process (it notifies after publishing) */
    bool event_shared;
    struct pool_source source; /* take NULL: none */
    /* Called on each worker before its first and after its last task; may be NULL. */
    void (*worker_start)(struct wsd_worker *self, uint32_t index, void *context);
    void (*worker_stop)(struct wsd_worker *self, uint32_t index, void *context);
    void *context;
};

/* Starts the workers. 0, -EINVAL, -ENOMEM, -EAGAIN. [any] */
int pool_new(struct pool **ret_pool, const struct pool_options *options);

/* Puts a root into the injector: first in, first out. Never fails, never drops; 0 or -ESHUTDOWN after pool_close() has
 * begun (calls from inside a running task are still taken). [any thread, also workers] */
int pool_submit(struct pool *pool, struct pool_node *node);

/* No new work; everything accepted runs; workers are joined. Safe to call twice and from several threads (all
 * return after the end). Not from a worker. The source is drained too: until take says NULL. [any but workers] */
void pool_close(struct pool *pool);

/* pool_close(), then frees. NULL is fine; returns NULL. */
struct pool *pool_free(struct pool *pool);

/* Runs one root or stolen task on the calling outside thread, common queue first; false where there was none. [any but workers] */
bool pool_try_run_one(struct pool *pool);

/* Per-worker counters; each is a relaxed load, the owner's store is relaxed too. [any] */
struct pool_counters {
    uint64_t roots, spawned, stolen, failed_steals, parks, wakeups, helped, overflows;
};
void pool_worker_counters(const struct pool *pool, uint32_t index, struct pool_counters *ret);
uint32_t pool_workers(const struct pool *pool);

/* What the root that this worker runs belongs to; stolen children inherit it. `context` is the public field of struct
 * wsd_worker: the host sets it when a root starts. */
