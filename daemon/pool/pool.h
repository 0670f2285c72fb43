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

#include "base/eventcount.h"

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
    /* Takes one root, or NULL. *ret_more: there is more to take, which is worth another worker: the taker wakes one. */
    struct pool_node *(*take)(void *context, bool *ret_more);
    /* Whether take would find one; asked between announcing and sleeping. */
    bool (*ready)(void *context);
    /* Whether that is worth another worker, by what the asking one has at hand and will take it after; may be NULL:
     * always. */
    bool (*worth)(void *context);
    /* Other eventcounts that whoever publishes roots notifies instead of options.event; may be NULL. prepare adds them
     * to what a worker is about to sleep on, before the last look; done, when it sleeps no more, tells the same set.
     * Where the set of them changes, options.event is notified for all. */
    void (*prepare)(void *context, struct eventcount_set *set);
    void (*done)(void *context, struct eventcount_set *set);
    /* Whether, by what the asking worker ran last, more may come so soon that it pays to look for it awake; may be
     * NULL. */
    bool (*lively)(void *context);
    /* The asking worker takes no more, for now: it is about to sleep or to block, runs something else, or is one too
     * many. Before its last look; may be NULL. */
    void (*leave)(void *context);
    void *context;
};

struct pool_options {
    uint32_t workers;  /* 1 to POOL_WORKERS_MAX */
    size_t stack_size; /* bytes of a worker's stack, and a guard of 1 MiB below it; 0: 8 MiB */
    bool pin;          /* each worker on a CPU of its own, and victims nearest first; see topology.h */
    struct eventcount
        *event; /* where idle workers sleep; NULL: one of its own. In shared memory where the source's writer
                            is another process (it notifies after publishing) */
    bool event_shared;
    /* with event_shared, in the same memory: who searches, and whom the other side has rung for (park.h); NULL: nobody
     * else asks */
    _Atomic uint32_t *seek;
    struct pool_source source; /* take NULL: none */
    /* Called on each worker before its first and after its last task; may be NULL. */
    void (*worker_start)(struct wsd_worker *self, uint32_t index, void *context);
    void (*worker_stop)(struct wsd_worker *self, uint32_t index, void *context);
    /* Called where a task has ended its worker's thread: by pthread_exit() or a cancel, on that thread while it is
     * unwound; or, `gone`, by the exit system call, on the thread of pool_look(). Must not return, since the pool
     * cannot do without the worker.
     * NULL: the process is aborted. */
    void (*worker_lost)(struct wsd_worker *self, uint32_t index, bool gone, void *context);
    void *context;
    /* Called around each stolen task, and around nothing else: worker and task have another context then than what the
     * worker did before. self->context is the task's, `outer` that of the root or task that waits below it on this
     * worker (NULL where there is none). So a host can charge the thread's CPU time until now to `outer` at enter and
     * to the task's context at leave. The task's root cannot return before leave has. May be NULL. [worker] */
    void (*task_enter)(struct wsd_worker *self, void *task_context, void *outer, void *context);
    void (*task_leave)(struct wsd_worker *self, void *task_context, void *outer, void *context);
    /* For traces: the words for a subject's name, cut off to size; [any thread]. NULL: none has any. */
    void (*subject_name)(const void *name, char *ret, size_t size, void *context);
    size_t task_bytes; /* of task stack before a spawn runs the child at once, 16 to 56 a task; 0: 96 MiB */
    bool eager;        /* make each spawned task stealable at once, as where the kernel has no membarrier: slower */
};

/* Starts the workers. 0, -EINVAL, -ENOMEM, -EAGAIN. [any] */
int pool_new(struct pool **ret_pool, const struct pool_options *options);

/* Puts a root into the injector: first in, first out. Never fails, never drops; 0 or -ESHUTDOWN after pool_close() has
 * begun (calls from inside a running task are still taken). [any thread, also workers] */
int pool_submit(struct pool *pool, struct pool_node *node);

/* The same, before everything that waits, as LIFO. */
int pool_submit_front(struct pool *pool, struct pool_node *node);

/* No new work; everything accepted runs; workers are joined. Safe to call twice and from several threads (all
 * return after the end). Not from a worker. The source is drained too: until take says NULL. [any but workers] */
void pool_close(struct pool *pool);

/* pool_close(), then frees. NULL is fine; returns NULL. */
struct pool *pool_free(struct pool *pool);

/* Runs one root or stolen task on the calling outside thread, common queue first; false where there was none, or where
 * 16 threads do so already. While it runs, the thread is a worker with an index of at least pool_workers(), without
 * worker_start. At least 256 KiB of stack should be free. Not at the same time as pool_free(). [any but workers] */
bool pool_try_run_one(struct pool *pool);

/* Runs the root at once on the calling outside thread, as pool_try_run_one() would, and returns when it has run: no
 * other thread is woken for it, and its children may be stolen. Where 16 threads do so already it is submitted, and the
 * caller sleeps. 0 or -ESHUTDOWN. [any but workers] */
int pool_run(struct pool *pool, struct pool_node *node);

/* Returns when over(arg) says so; whoever makes it true notifies the event afterwards. On a thread that is no worker as
 * pool_try_run_one() until then, asleep where there is nothing; a worker only waits, for what it would take up might
 * wait for whoever waits here, and another one takes its place. [any] */
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
    uint64_t revoked;   /* times that this worker published tasks of another, who was in a long leaf */
    /* of its thread, asked of the kernel by whoever looks; 0: a guest's, or one whose thread has ended */
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
/* The CPU that this worker is pinned to; -1: to none (it may also be that the kernel has refused it). [any] */
int pool_worker_cpu(const struct pool *pool, uint32_t index);
/* Whether options.pin could be met. [any] */
bool pool_is_pinned(const struct pool *pool);
/* Looks whether every worker has its thread still: worker_lost otherwise. A system call a worker. [any] */
void pool_look(struct pool *pool);
/* How many indices have counters: workers, retired ones, guests. [any] */
uint32_t pool_workers_seen(const struct pool *pool);
/* The pool has n workers from now on; what runs goes on. 0, -EINVAL, -ENOMEM, -EAGAIN (threads), -ESHUTDOWN. [any] */
int pool_set_workers(struct pool *pool, uint32_t n);

/* What the root that this worker runs belongs to; stolen children inherit it. `context` is the public field of struct
 * wsd_worker: the host sets it when a root starts. */

/* As wsd_blocking_begin() and wsd_blocking_end(), for calls that are not given `self`: the calling worker waits for
 * something that is not a task. In pairs, on one thread; they nest. Nothing on a thread that is no worker. [any] */
void pool_blocking_begin(void);
void pool_blocking_end(void);
/* A wait that is mostly short is announced so only once it has lasted for so long: it costs some microseconds. */
#define POOL_BLOCKS_AFTER_USEC 200u

/* --- traces: what the workers did when; off by default, and then without cost --- */

/* What a root or task is about: 128 bits that tell it from others, and what options.subject_name() makes words of; that
 * has to live as long as the pool. */
struct pool_subject {
    uint64_t id[2];
    const void *name;
};

/* What this worker is busy with from now on, until its root ends; NULL: nothing. Whoever hosts roots calls it where a
 * root begins, and around stolen tasks (task_enter, task_leave). [worker] */
void pool_subject(struct wsd_worker *self, const struct pool_subject *subject);

/* From now on each worker keeps its last events (TRACE_EVENTS_MAX); those of an earlier trace are forgotten. [any] */
void pool_trace_start(struct pool *pool);
/* No more events; those that are there stay for pool_trace_write(). [any] */
void pool_trace_stop(struct pool *pool);
/* Stops, and gives the events' memory back. [any] */
void pool_trace_forget(struct pool *pool);

struct pool_trace_output {
    uint32_t number; /* of the process, in the trace */
    /* Takes some whole lines. 0, or a negative errno, which ends the writing. */
    int (*put)(const char *text, size_t size, void *userdata);
    void *userdata;
};

/* Writes the trace in the Chrome trace format: one event, a JSON object, a line. Complete events (X) for roots, stolen
 * tasks (cat task, with the victim), joins and sleeps; a flow (s, f) a steal; names of process and workers (M). What
 * had begun before, or has not ended, is cut off at the edges of the trace. Also while it goes on. *ret_lost: events
 * that were overwritten by newer ones. 0, -ENOMEM, or what put said. [any] */
int pool_trace_write(struct pool *pool, const struct pool_trace_output *out, uint64_t *ret_lost);
