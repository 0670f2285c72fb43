/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h: one worker, and the pool that it belongs to; for the files of this folder only.
 *
 * Locks, in order: pool.close_lock, pool.crew_lock, and leaves: injector.lock, park.lock, deque.lock, ready.lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/eventcount.h"
#include "pool/deque.h"
#include "pool/injector.h"
#include "pool/park.h"
#include "pool/pool.h"
#include "pool/ready.h"
#include "pool/topology.h"
#include "pool/trace.h"
#include "wsd/task.h"

/* Of an outside thread's stack, whose size is dear to find out. */
#define GUEST_STACK ((ptrdiff_t)256 * 1024)
/* Outside threads that may help at once; workers beside those that were ever asked for, while others block. */
#define POOL_GUESTS_MAX 16u
#define POOL_SPARES_MAX 256u
#define POOL_ALL_MAX    (POOL_WORKERS_MAX + POOL_SPARES_MAX + POOL_GUESTS_MAX)

#define OVERFLOW_ALIGN 8u
struct overflow_chunk;
struct overflow_level;

/* How long the last one awake goes on looking where the source says that it may pay: at most so long, and at first. */
#define WORKER_LINGER_USEC 50u

struct worker {
    struct wsd_worker public; /* first: the pointer that tasks hold is the pointer to this */
    struct pool *pool;        /* [const] */
    pthread_t thread;
    /* [owner] */
    char *stack_floor; /* below it a join takes no unrelated work */
    uint32_t random, last_victim;
    uint32_t n_roots;                                 /* looked for in its batch and the injector */
    uint32_t watched;                                 /* whose batch is looked at to see whether it stands .. */
    uint64_t watched_word;                            /* .. and how it was the last time */
    struct overflow_chunk *overflow, *overflow_spare; /* results of children that ran inside their spawn */
    /* Where on the stack they belong: the youngest is public.level and public.done, the outer ones are here. */
    struct overflow_level *levels;
    uint32_t n_levels, levels_room;
    _Alignas(OVERFLOW_ALIGN) unsigned char scratch[DEQUE_SLOT_MAX + OVERFLOW_ALIGN]; /* a slot for a result of those */
    uint32_t tiny;        /* stolen tasks one after the other that were not worth it */
    uint64_t not_before;  /* in ticks: no stealing until then */
    uint32_t n_misses;    /* of that */
    uint32_t linger_usec; /* how long it pays to look awake where the source is lively */
    bool for_task;        /* its join was woken for a task: it owes a look whether more is left */
    bool guest;           /* an outside thread's [const] */
    bool lent;            /* of a guest: in use. [crew_lock] */
    bool has_thread;      /* [crew_lock] */
    uint32_t away;        /* crew_leave() without its return [owner] */
    uint64_t origins;     /* how many there were [owner] */
    struct trace_worker trace;
    _Atomic int cpu;                           /* that it is pinned to, plus 1 [atomic: relaxed; owner's] */
    _Atomic clockid_t clock;                   /* of its thread's CPU time; 0: none [atomic: relaxed; owner's] */
    _Atomic bool retired;                      /* sleeps until there are too few [atomic: relaxed; owner's] */
    _Alignas(CACHE_LINE) struct joiner joiner; /* [park] */
    struct batch batch;                        /* roots that it took at once; all take from it */
    struct ready_list ready;                   /* pieces that anybody may run */
    _Alignas(CACHE_LINE) struct deque deque;
    /* [owner stores, any loads; relaxed] */
    _Alignas(CACHE_LINE) struct {
        _Atomic uint64_t roots, ready, published, stolen, failed_steals, parks, wakeups, helped, overflows, revoked;
    } count;
};

/* One writer: no locked instruction is needed. */
#define COUNT(w, what)                                                                                                 \
    atomic_store_explicit(&(w)->count.what, atomic_load_explicit(&(w)->count.what, memory_order_relaxed) + 1,          \
                          memory_order_relaxed)

struct pool {
    struct pool_options options; /* [const] */
    struct eventcount own_event;
    bool eager;           /* [const] */
    _Atomic bool crowded; /* more workers than CPUs: a waiting one must not keep a running one off [atomic: relaxed] */
    struct injector injector;
    struct park park;
    /* Workers that run or search, and guests. At 0, while closing, all is done: whoever brings it there has looked
     * everywhere before, and so has everybody else since his last task. [atomic: acq_rel, among themselves; seq_cst
     * load in settle(): who is not counted yet has pushed nothing] */
    _Atomic uint32_t busy;
    _Atomic bool closing; /* [atomic: seq_cst, before the notify-all of the closer] */
    _Atomic bool ended;   /* [atomic: release by the last one, acquire by all] */
    /* Workers that are neither blocked nor retired, and how many there should be. [atomic: seq_cst RMWs of running, see
     * crew_leave(); target: seq_cst by crew_set(), relaxed else] */
    _Atomic uint32_t running, target;
    _Atomic uint32_t futures; /* begun and not done: joins take no unrelated task then [atomic: see future.c] */
    /* How many of `all` are there. [atomic: release by whoever makes one; acquire by thieves] */
    _Atomic uint32_t victims;
    pthread_mutex_t close_lock, crew_lock;
    pthread_cond_t tickets_came;
    uint32_t retired, tickets, threads, most_asked; /* [crew_lock] */
    struct worker *unhired;                         /* among `all`, still without a thread; NULL: none [crew_lock] */
    bool joined;                                    /* [close_lock] */
    /* One bit a worker: it may have something to take. There may be many retired ones after others have blocked, and
     * who looks for work need not ask them. [atomic: seq_cst RMW by the worker itself, or its maker, before it can have
     * anything; seq_cst load after a sleeper's announcement] */
    _Atomic uint64_t active[(POOL_ALL_MAX + 63) / 64];
    /* in the order of their making: workers, spare ones, guests [crew_lock; below victims const] */
    struct worker **all;
    struct worker *guests[POOL_GUESTS_MAX]; /* [crew_lock] */
    struct trace trace;
    struct topology *topology; /* [const] NULL: nobody is pinned */
};

/* The first worker from index `from` on, below n, that may have something; n where there is none. [any] */
static inline uint32_t pool_next_active(const struct pool *pool, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < n; i = (i | 63) + 1) {
        uint64_t bits = atomic_load_explicit(&pool->active[i / 64], memory_order_seq_cst) >> (i % 64);
        if (bits)
            return MIN(i + (uint32_t)__builtin_ctzll(bits), n);
    }
    return n;
}

#define for_each_active(i, pool, n)                                                                                    \
    for (uint32_t i = pool_next_active(pool, 0, n); i < (n); i = pool_next_active(pool, i + 1, n))

static inline void pool_set_active(struct pool *pool, uint32_t index, bool active)
{
    uint64_t bit = (uint64_t)1 << (index % 64);

    if (active)
        atomic_fetch_or_explicit(&pool->active[index / 64], bit, memory_order_seq_cst);
    else
        atomic_fetch_and_explicit(&pool->active[index / 64], ~bit, memory_order_seq_cst);
}

/* One event, where somebody wants to know. For slow paths only. [owner of w] */
static inline void trace_event(struct worker *w, uint32_t kind, uint32_t other)
{
    if (__builtin_expect(atomic_load_explicit(&w->pool->trace.on, memory_order_relaxed), false))
        trace_record(w, kind, other);
}

extern __thread struct worker *worker_current; /* [the thread's own] NULL outside */

/* A task that was taken from somebody's stack. */
struct stolen {
    struct worker *victim;
    struct deque_entry *entry; /* the victim's; good until the task is done */
};

/* What a worker found to do: one of these. */
struct found {
    struct pool_node *root;
    struct ready *ready;
    struct stolen task; /* where the others are NULL */
};

static inline struct worker *worker_of(struct wsd_worker *self)
{
    return (struct worker *)(void *)self;
}

/* pool.c */
int worker_new(struct worker **ret_worker, struct pool *pool, uint32_t index);
/* One fewer in `busy`. [whoever counts there] */
void pool_leave(struct pool *pool);
/* Stops where this is the child of a fork, which has one thread and no pool. [any] */
void pool_check_fork(void);

/* find.c */
bool worker_find(struct worker *w, struct found *f);
/* As a registered searcher, for a moment. */
bool worker_search(struct worker *w, struct found *f);
void worker_run(struct worker *w, const struct found *f);
struct pool_node *worker_take_root(struct worker *w);
/* From anybody: the last victim that had work, then from a random one round. [owner of w] */
bool worker_steal(struct worker *w, struct stolen *ret);
/* Only what descends from what the thief began as `origin`. [owner of w] */
bool worker_steal_descendant(struct worker *w, struct worker *thief, uint64_t origin, struct stolen *ret);
/* The look before sleeping: whether anybody, or only `only`, has a task to steal; publishes for those who hide theirs
 * in a long leaf. [owner of w] */
bool worker_look(struct worker *w, struct worker *only);
/* Wakes the next one where work is left for him. [owner of w] */
void worker_wake_if_left(struct worker *w);
/* It does not take from the source again soon: others rely on whoever does. Before its last look. [w itself] */
void worker_leave_source(struct worker *w);
/* Whether there is a root, or a ready piece; a task. [any] */
bool pool_has_roots(struct pool *pool);
bool pool_has_tasks(struct pool *pool);
/* A root or ready piece is there, or a task: wakes somebody, or adds him, where that is due. After a seq_cst
 * publication. [any] */
void pool_tell_root(struct pool *pool);
void pool_tell_task(struct pool *pool);
void worker_relax(void);
/* pin.c: goes to its CPU, where the pool has it so. [owner of w] */
void worker_pin(struct worker *w);
/* How many ticks (base/ticks.h) a stolen task took, so that thieves leave alone what is not worth their while. [owner
 * of w] */
void worker_weigh(struct worker *w, uint64_t ticks);

/* What this worker runs from now on does not descend from what it waits for. [owner] */
static inline void worker_new_origin(struct worker *w)
{
    atomic_store_explicit(&w->deque.origin, ++w->origins, memory_order_relaxed);
}

/* guest.c */
/* Takes a piece out of its list and runs it on the calling outside thread; false where it was not there, or too many do
 * so already. [any but workers] */
bool guest_run_ready(struct pool *pool, struct ready *r);

/* crew.c */
int crew_new_worker(struct worker **ret_worker, struct pool *pool);
int crew_set(struct pool *pool, uint32_t n);
void crew_join(struct pool *pool);
bool crew_short(const struct pool *pool);
/* More run than were asked for, since some have come back from a wait, or the number has shrunk: a worker that is
 * between two tasks had better stop. */
bool crew_surplus(const struct pool *pool);
/* Adds a worker where there are too few. [any] */
void crew_complete(struct pool *pool);
/* This worker blocks, and goes on. [owner] */
void crew_leave(struct worker *w);
void crew_return(struct worker *w);

/* join.c */
extern const struct wsd_task_ops worker_ops;
/* Runs a stolen task and tells its owner. descendant: of what this worker waits for. [owner of w] */
void worker_run_stolen(struct worker *w, const struct stolen *s, bool descendant);
/* Something to wait for. */
struct wait {
    /* Whether it is over; else, where that is known, who runs it and as part of which origin. */
    bool (*over)(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin);
    const void *what;
    struct eventcount *event; /* whoever ends it notifies */
    bool future;              /* what could be taken meanwhile may wait for whoever waits here */
};
/* Runs other tasks, its own descendants first, until it is over; sleeps where there is nothing to run. [owner] */
void worker_wait(struct worker *w, const struct wait *wait);
void worker_free_overflow(struct worker *w);
bool worker_has_overflow(const struct worker *w);
__attribute__((noreturn)) void pool_broken(const char *what);
__attribute__((noreturn)) void pool_out_of_memory(void);
