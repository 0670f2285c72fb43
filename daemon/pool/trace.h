/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h: records what each worker did when, for people to read; off by default.
 *
 * Off, it costs one relaxed load and a branch in the slow paths, and nothing in the inline fast path of wsd/task.h. On,
 * each worker writes events of a fixed size into its own ring, and overwrites the oldest.
 *
 *                 | event | start | stop | write
 *   trace_event   |  no: the ring's owner; any against the others
 *   start         |  yes  | lock  | lock | lock
 *   stop          |  yes  | lock  | lock | lock
 *   write         |  yes  | lock  | lock | lock
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

/* Events of one worker: 2.5 MiB. With many workers each has fewer, so that all together stay below 64 MiB. */
#define TRACE_EVENTS_MAX 65536u
#define TRACE_EVENTS_MIN 1024u
#define TRACE_EVENTS_ALL (1u << 20)

enum trace_kind {
    TRACE_ROOT = 1,
    TRACE_TASK,   /* a stolen task; other: its victim */
    TRACE_JOIN,   /* waits for a stolen child */
    TRACE_SLEEP,  /* no work, or nothing to help with */
    TRACE_REVOKE, /* published tasks of `other`, which was in a long leaf */
};
#define TRACE_END 0x100u /* or'ed to the first four */

#define TRACE_NOBODY UINT32_MAX

struct trace_ring;
struct worker;

/* What a root or task is about: 128 bits that identify it, and a name that options.subject_name() turns into text. The
 * name must live as long as the pool. */
struct pool_subject {
    uint64_t id[2];
    const void *name;
};

/* What a worker is busy with, told by the host. [owner stores, any loads: name last, with release] */
struct trace_subject {
    _Atomic uint64_t id[2];
    _Atomic(const void *) name; /* NULL: nothing */
};

/* The innermost stolen task that a worker runs. [owner, also its signal handlers: all relaxed, victim is stored first and
 * last] */
struct trace_stolen {
    _Atomic uint32_t victim; /* plus 1; 0: it runs none */
    _Atomic uint64_t origin; /* of the victim when it published the task */
    _Atomic uint64_t since;  /* ticks */
};

/* What is stacked while a stolen task runs. */
struct trace_stolen_before {
    uint32_t victim;
    uint64_t origin, since;
};

/* A worker's part. */
struct trace_worker {
    struct trace_stolen stolen;
    struct trace_subject subject;
    /* [atomic: owner's release at its first event; acquire by readers] */
    _Atomic(struct trace_ring *) ring;
    struct pool_subject at_start, at_end; /* [trace.lock] what it was busy with then */
};

/* The pool's part. */
struct trace {
    _Atomic bool on;         /* [atomic: relaxed; a late look costs one event] */
    _Atomic uint32_t events; /* of a ring made from now on [atomic: relaxed] */
    pthread_mutex_t lock;
    uint64_t from_nsec, to_nsec; /* [lock] CLOCK_MONOTONIC; to 0: it goes on */
};

void trace_init(struct trace *t);
void trace_deinit(struct trace *t);
void trace_worker_deinit(struct trace_worker *t);

/* The root has ended: its worker is busy with nothing. [owner of t] */
static inline void trace_subject_clear(struct trace_worker *t)
{
    atomic_store_explicit(&t->subject.name, NULL, memory_order_relaxed);
}

/* Around a stolen task. [owner of t] */
static inline struct trace_stolen_before trace_stolen_begin(struct trace_worker *t, uint32_t victim, uint64_t origin,
                                                            uint64_t since)
{
    struct trace_stolen *s = &t->stolen;
    const struct trace_stolen_before before = {
        .victim = atomic_load_explicit(&s->victim, memory_order_relaxed),
        .origin = atomic_load_explicit(&s->origin, memory_order_relaxed),
        .since = atomic_load_explicit(&s->since, memory_order_relaxed),
    };

    atomic_store_explicit(&s->victim, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&s->origin, origin, memory_order_relaxed);
    atomic_store_explicit(&s->since, since, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&s->victim, victim, memory_order_relaxed);
    return before;
}

static inline void trace_stolen_end(struct trace_worker *t, const struct trace_stolen_before *before)
{
    (void)trace_stolen_begin(t, before->victim, before->origin, before->since);
}

/* The long way of trace_event(). [owner of w] */
void trace_record(struct worker *w, uint32_t kind, uint32_t other);

/* --- for the pool's owner and the host of its roots --- */

/* Says what this worker is busy with from now on, until its root ends; NULL: nothing. The host of the roots calls it
 * where a root begins, and around stolen tasks (task_enter, task_leave). [worker] */
void pool_subject(struct wsd_worker *self, const struct pool_subject *subject);

/* What the calling worker runs. */
struct pool_standing {
    uint64_t origin; /* of what is on its task stack; numbers are never used again by the same worker */
    uint32_t victim; /* TRACE_NOBODY: the innermost thing that it runs is no stolen task */
    uint64_t victim_origin, since;
};
/* False: the calling thread is no worker. Async-signal-safe. [any] */
bool pool_standing(struct pool_standing *ret);

/* What this worker is busy with now; name NULL: nothing. It may be over at once. [any] */
void pool_worker_subject(const struct pool *pool, uint32_t index, struct pool_subject *ret);

/* From now on each worker keeps its last TRACE_EVENTS_MAX events. Drops those of an earlier trace. [any] */
void pool_trace_start(struct pool *pool);
/* Stops recording; the recorded events stay for pool_trace_write(). [any] */
void pool_trace_stop(struct pool *pool);
/* Stops recording and frees the events. [any] */
void pool_trace_forget(struct pool *pool);

struct pool_trace_output {
    uint32_t number; /* of the process, in the trace */
    /* Gets some whole lines. Returns 0, or a negative errno, which ends the writing. */
    int (*put)(const char *text, size_t size, void *userdata);
    void *userdata;
};

/* Writes the trace in the Chrome trace format: one event, a JSON object, a line. Roots, stolen tasks (cat task, with
 * the victim), joins and sleeps are complete events (X). A steal is a flow (s, f). Names of process and workers are
 * metadata (M). Events that began before the trace or did not end in it are cut off at its edges. May run while the
 * trace goes on. *ret_lost: events that were overwritten by newer ones. 0, -ENOMEM, or what put returned. [any] */
int pool_trace_write(struct pool *pool, const struct pool_trace_output *out, uint64_t *ret_lost);
