/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h: one worker, and the pool that it belongs to; for the files of this folder only.
 *
 * Locks, in order, each a leaf in fact: pool.close_lock, injector.lock, park.lock, deque.lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/event.h"
#include "pool/deque.h"
#include "pool/injector.h"
#include "pool/park.h"
#include "pool/pool.h"
#include "pool/trace.h"
#include "wsd/task.h"

/* Outside threads that may help at once. */
#define POOL_GUESTS_MAX 16u

#define OVERFLOW_ALIGN 8u
struct overflow_chunk;
struct overflow_level;

struct worker {
    struct wsd_worker public; /* first: the pointer that tasks hold is the pointer to this */
    struct pool *pool;        /* [const] */
    pthread_t thread;
    /* [owner] */
    char *stack_floor; /* below it a join takes no unrelated work */
    uint32_t random, last_victim;
    struct overflow_chunk *overflow, *overflow_spare; /* results of children that ran inside their spawn */
    /* Where on the stack they belong: the youngest is public.level and public.done, the outer ones are here. */
    struct overflow_level *levels;
    uint32_t n_levels, levels_room;
    _Alignas(OVERFLOW_ALIGN) unsigned char scratch[DEQUE_SLOT_MAX + OVERFLOW_ALIGN]; /* a slot for a result of those */
    uint32_t tiny;       /* stolen tasks one after the other that were not worth it */
    uint64_t not_before; /* in ticks: no stealing until then */
    bool lent;           /* of a guest: in use. [guests_lock] */
    struct trace_worker trace;
    _Alignas(CACHE_LINE) struct joiner joiner; /* [park] */
    struct batch batch;                        /* roots that it took at once; all take from it */
    _Alignas(CACHE_LINE) struct deque deque;
    /* [owner stores, any loads; relaxed] */
    _Alignas(CACHE_LINE) struct {
        _Atomic uint64_t roots, published, stolen, failed_steals, parks, wakeups, helped, overflows, revoked;
    } count;
};

/* One writer: no locked instruction is needed. */
#define COUNT(w, what)                                                                                                 \
    atomic_store_explicit(&(w)->count.what, atomic_load_explicit(&(w)->count.what, memory_order_relaxed) + 1,          \
                          memory_order_relaxed)

struct pool {
    struct pool_options options; /* [const] */
    struct event own_event;
    bool eager;   /* [const] */
    bool crowded; /* more workers than CPUs: a waiting one must not keep a running one off [const] */
    struct injector injector;
    struct park park;
    /* Workers that run or search, and guests. At 0, while closing, all is done: whoever brings it there has looked
     * everywhere before, and so has everybody else since his last task. [atomic: acq_rel, among themselves; seq_cst
     * load in settle(): who is not counted yet has pushed nothing] */
    _Atomic uint32_t busy;
    _Atomic bool closing; /* [atomic: seq_cst, before the notify-all of the closer] */
    _Atomic bool ended;   /* [atomic: release by the last one, acquire by all] */
    /* How many of `all` are there. [atomic: release by pool_new() and guests; acquire by thieves] */
    _Atomic uint32_t victims;
    pthread_mutex_t close_lock, guests_lock;
    bool joined;           /* [close_lock] */
    struct worker **all;   /* the workers, then the guests */
    struct trace trace;
};

/* One event, where somebody wants to know. For slow paths only. [owner of w] */
static inline void trace_event(struct worker *w, uint32_t kind, uint32_t other)
{
    if (__builtin_expect(atomic_load_explicit(&w->pool->trace.on, memory_order_relaxed), false))
        trace_record(w, kind, other);
}

extern __thread struct worker *worker_current; /* [the thread's own] NULL outside */

/* pool.c */
/* A task that was taken from somebody's stack. */
struct stolen {
    struct worker *victim;
    struct deque_entry entry;
};
/* Takes one task from `victim`, or says no. [owner of w] */
bool worker_steal_from(struct worker *w, struct worker *victim, struct stolen *ret);
/* From anybody: the last victim that had work, then from a random one round. [owner of w] */
bool worker_steal(struct worker *w, struct stolen *ret);
/* The look before sleeping: whether anybody, or only `only`, has a task to steal; publishes for those who hide theirs
 * in a long leaf. [owner of w] */
bool worker_look(struct worker *w, struct worker *only);
void worker_relax(void);
/* How long a stolen task took, so that thieves leave alone what is not worth their while. [owner of w] */
uint64_t worker_ticks(void);
void worker_weigh(struct worker *w, uint64_t ticks);

/* join.c */
extern const struct wsd_task_ops worker_ops;
/* Runs a stolen task and tells its owner. [owner of w] */
void worker_run_stolen(struct worker *w, const struct stolen *s);
void worker_free_overflow(struct worker *w);
bool worker_has_overflow(const struct worker *w);
/* Stops where this is the child of a fork, which has one thread and no pool. [any] */
void pool_check_fork(void);
_Noreturn void pool_broken(const char *what);
