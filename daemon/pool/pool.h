/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h: the work-stealing engine: N workers, a deque each, a common queue (the injector), parking.
 *
 * The pool runs a function on a node that is embedded in the caller's object, and knows nothing more. Fork/join inside
 * such a function is wsd/task.h; its slow paths are here. README.md has the protocols.
 *
 * A worker takes from its own deque first, then it steals, then it asks the injector, then the source, then it parks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/eventcount.h"

struct measure; /* measure.h */
struct pool;
struct wsd_worker; /* wsd/task.h */

#define POOL_WORKERS_MAX 1024u
#define POOL_GUESTS_MAX  256u

/* Work for the pool, embedded in its object. [owner until submitted, then the pool until run is called] */
struct pool_node {
    struct pool_node *next;
    void (*run)(struct pool_node *node, struct wsd_worker *self);
};

/* Where roots come from besides pool_submit(). These are upward calls, because the pool is below the rings. [any
 * worker, several at once] */
struct pool_source {
    /* Takes one root, or NULL. *ret_more: there is more, worth another worker, which the taker wakes. */
    struct pool_node *(*take)(void *context, bool *ret_more);
    /* Whether take would find a root. Called between announcing and sleeping. */
    bool (*ready)(void *context);
    /* Whether what is left is worth another worker, given what the calling worker has at hand and takes first. NULL:
     * always. */
    bool (*worth_waking)(void *context);
    /* Eventcounts that publishers of roots notify instead of options.event. A worker calls prepare before its last
     * look. It adds them to the set that the worker is about to sleep on. When the worker has woken, done gets the same
     * set. When the set of eventcounts changes, options.event is notified for all. Both may be NULL. */
    void (*prepare)(void *context, struct eventcount_set *set);
    void (*done)(void *context, struct eventcount_set *set);
    /* The same, for the monitor, which sleeps on the set as a watch. NULL if prepare is. [monitor] */
    void (*watch)(void *context, struct eventcount_set *set);
    void (*watched)(void *context, struct eventcount_set *set);
    /* Whether more roots may come so soon, judging by what the calling worker ran last, that looking for them awake
     * pays. May be NULL. */
    bool (*may_spin)(void *context);
    /* The calling worker stops taking for now: it is about to sleep or to block, runs something else, or is one too
     * many. Called before its last look. May be NULL. */
    void (*leave)(void *context);
    void *context;
};

struct pool_options {
    uint32_t workers;  /* 1 to POOL_WORKERS_MAX */
    uint32_t guests;   /* outside threads that may be workers at once, at most POOL_GUESTS_MAX; 0: 16 */
    bool lazy;         /* no thread is started before there is work for it */
    size_t stack_size; /* bytes of a worker's stack, plus a guard of 1 MiB below it; 0: 8 MiB */
    bool pin;          /* each worker on a CPU of its own, and victims nearest first; see topology.h */
    struct eventcount
        /* Where idle workers sleep; NULL: the pool has one of its own. It is in shared memory if the source's writer is
         * another process, which notifies it after publishing. */
        *event;
    bool event_shared;
    /* With event_shared, in the same memory: the count of searching workers, and a bit that the other side sets when it
     * has woken one (park.h). NULL: no other process reads it. */
    _Atomic uint32_t *searchers;
    struct pool_source source; /* take NULL: none */
    /* Called on each worker before its first and after its last task; may be NULL. */
    void (*worker_start)(struct wsd_worker *self, uint32_t index, void *context);
    void (*worker_stop)(struct wsd_worker *self, uint32_t index, void *context);
    /* Called on a worker that is one too many, before it sleeps for as long as that is so. It runs nothing. May be
     * NULL. */
    void (*worker_retire)(struct wsd_worker *self, uint32_t index, void *context);
    /* Called if a task has ended its worker's thread. After pthread_exit() or a cancel, it is called on that thread
     * during unwinding. After the exit system call, `gone` is true and it is called on the thread of pool_look(). Must
     * not return, since the pool cannot do without the worker. NULL: the process is aborted. */
    void (*worker_lost)(struct wsd_worker *self, uint32_t index, bool gone, void *context);
    void *context;
    /* Called around each stolen task, and around nothing else. The task's context then differs from that of the
     * worker's other work. The task's is self->context. The argument `outer` is the context of the root or task that
     * waits below it on this worker, or NULL. So a host can charge the thread's CPU time so far to `outer` at enter,
     * and to the task's context at leave. The task's root cannot return before leave has returned. May be NULL.
     * [worker] */
    void (*task_enter)(struct wsd_worker *self, void *task_context, void *outer, void *context);
    void (*task_leave)(struct wsd_worker *self, void *task_context, void *outer, void *context);
    /* For traces: writes the text for a subject's name, cut off to size. NULL: subjects have no text. [any thread] */
    void (*subject_name)(const void *name, char *ret, size_t size, void *context);
    /* bytes of task stack, 16 to 56 a task; when it is full, a spawn runs the child at once; 0: 96 MiB */
    size_t task_bytes;
    /* Measures work and span of what roots spawn; workers is 1 then. It outlives the pool. NULL: does not. */
    struct measure *measure;
    bool eager; /* make each spawned task stealable at once, as without membarrier in the kernel: slower */
};

/* Starts the workers. 0, -EINVAL, -ENOMEM, -EAGAIN. -ECHILD: in a task that has forked this process. [any] */
int pool_new(struct pool **ret_pool, const struct pool_options *options);

/* Puts a root into the injector: first in, first out. Never drops it. 0, or -ESHUTDOWN once pool_close() has begun
 * (calls from inside a running task are still taken). [any thread, also workers] */
int pool_submit(struct pool *pool, struct pool_node *node);

/* The same, but ahead of everything that waits: last in, first out. */
int pool_submit_front(struct pool *pool, struct pool_node *node);

/* Refuses new work, runs everything accepted, and joins the workers. The source is drained too, until take returns
 * NULL. May be called twice and from several threads; all return after the end. Not from a worker. [any but workers] */
void pool_close(struct pool *pool);

/* pool_close(), then frees. NULL is fine; returns NULL. */
struct pool *pool_free(struct pool *pool);

/* Runs one root or stolen task on the calling outside thread, from the common queue first. False: there was none, or as many
 * threads as may already do so. Meanwhile the thread is a worker with an index of at least pool_workers(), without
 * worker_start. At least 256 KiB of stack should be free. Not at the same time as pool_free(). [any but workers] */
bool pool_try_run_one(struct pool *pool);

/* Runs the root at once on the calling outside thread, as pool_try_run_one() would, and returns when it has run. No
 * other thread is woken for it; its children may be stolen. If as many threads as may already do so, the root is
 * submitted and the caller sleeps. 0 or -ESHUTDOWN. [any but workers] */
int pool_run(struct pool *pool, struct pool_node *node);

/* Whether the calling thread is a worker of this pool now. [any] */
bool pool_is_here(const struct pool *pool);

/* Returns when over(arg) is true. The thread that makes it true must notify the event afterwards. A thread that is no
 * worker acts as in pool_try_run_one() until then, and sleeps while there is nothing to run. A worker only waits: work
 * that it took up might wait for the caller. Another worker takes its place. [any] */
void pool_help_until(struct pool *pool, struct eventcount *event, bool (*over)(const void *arg), const void *arg);

/* Per-worker counters; each is a relaxed load, the owner's store is relaxed too. [any] */
struct pool_counters {
    uint64_t roots;
    uint64_t ready;         /* futures and nodes of graphs */
    uint64_t published;     /* times that tasks became stealable; a spawn as such is too cheap to count */
    uint64_t stolen;        /* by this worker */
    uint64_t failed_steals; /* lost to another thief */
    uint64_t parks, wakeups;
    uint64_t helped;    /* of the stolen: run while waiting in a join */
    uint64_t overflows; /* children that ran inside their spawn because the task stack was full */
    uint64_t revoked;   /* times that this worker published tasks of another, which was in a long leaf */
    uint64_t blocked;   /* times that it was found asleep in what it ran, and left its place to another */
    /* of its thread; read from the kernel at each call; 0: a guest's, or a worker without a thread */
    uint64_t cpu_usec;
};
void pool_worker_counters(const struct pool *pool, uint32_t index, struct pool_counters *ret);
uint32_t pool_workers(const struct pool *pool);
enum pool_worker_kind {
    POOL_WORKER = 1,
    POOL_RETIRED = 2, /* without a thread now */
    POOL_GUEST = 3,   /* an outside thread's */
};
enum pool_worker_kind pool_worker_kind(const struct pool *pool, uint32_t index);
/* The CPU that this worker is pinned to; -1: none (also if the kernel has refused). [any] */
int pool_worker_cpu(const struct pool *pool, uint32_t index);
/* Whether options.pin could be met. [any] */
bool pool_is_pinned(const struct pool *pool);
/* Checks that every worker still has its thread, and calls worker_lost if not. One system call per worker. [any] */
void pool_look(struct pool *pool);
/* How many indices have counters: workers, retired ones, guests. [any] */
uint32_t pool_workers_seen(const struct pool *pool);
/* Sets the number of workers; running work goes on. 0, -EINVAL, -ENOMEM, -EAGAIN (threads), -ESHUTDOWN. [any] */
int pool_set_workers(struct pool *pool, uint32_t n);

/* What the root that this worker runs belongs to; stolen children inherit it. `context` is the public field of struct
 * wsd_worker: the host sets it when a root starts. */

/* As wsd_blocking_begin() and wsd_blocking_end(), for code that has no `self`: the calling worker waits for something
 * that is not a task. Call in pairs on one thread; pairs nest. No effect on a thread that is no worker. [any] */
void pool_blocking_begin(void);
void pool_blocking_end(void);
/* Where work waits and no worker is idle, a worker counts as blocked, as between these two calls, when its thread has
 * slept for so long in what it runs. It counts as running again when it is seen to have run, at the latest after what
 * it runs. */
#ifndef POOL_MISSED_AFTER_USEC
#define POOL_MISSED_AFTER_USEC 10000u
#endif
/* A wait that is mostly short is announced only after this time: announcing costs some microseconds. */
#define POOL_BLOCKS_AFTER_USEC 200u
