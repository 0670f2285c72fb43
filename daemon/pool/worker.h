/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h: one worker, and the pool that it belongs to; for the files of this folder only.
 *
 * Locks, in order: pool.close_lock, pool.crew_lock, and leaves: injector.lock, park.lock, deque.lock, ready.lock.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
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

/* Bytes of an outside thread's stack that are assumed; its true size is expensive to find out. */
#define GUEST_STACK     ((ptrdiff_t)256 * 1024)
#define POOL_GUESTS     16u  /* outside threads that may be workers at once, unless the options say otherwise */
#define POOL_SPARES_MAX 256u /* workers beyond the highest number asked for, which stand in while others block */
#define POOL_ALL_MAX    (POOL_WORKERS_MAX + POOL_SPARES_MAX + POOL_GUESTS_MAX)

#define OVERFLOW_ALIGN 8u
struct overflow_chunk;
struct overflow_level;

/* How long, at most and at first, the last awake worker keeps looking if the source says that this may pay. */
#define WORKER_LINGER_USEC 50u

/* Where a worker's thread is, for the monitor. */
enum worker_presence {
    WORKER_ELSEWHERE, /* it sleeps in the pool, or has said that it blocks: not in `running` for a wait's sake */
    WORKER_HERE,      /* it runs or searches, and is counted in `running` */
    WORKER_MISSED,    /* the monitor has found it asleep in what it runs, and has taken it out of `running` */
};

struct worker {
    struct wsd_worker public; /* first: the pointer that tasks hold is the pointer to this */
    struct pool *pool;        /* [const] */
    pthread_t thread;
    /* [owner] */
    char *stack_floor; /* a join takes no unrelated work once the stack is below it */
    uint32_t random, last_victim;
    uint32_t n_roots;      /* takes from its batch or the injector, counted */
    uint32_t watched;      /* the worker with the batch that is watched for standing still .. */
    uint64_t watched_word; /* .. and that batch's word at the last look */
    struct overflow_chunk *overflow, *overflow_spare; /* results of children that ran inside their spawn */
    /* Where on the stack those children belong. public.level and public.done describe the youngest; the outer ones are
     * here. */
    struct overflow_level *levels;
    uint32_t n_levels, levels_room;
    /* a slot for one of those results */
    _Alignas(OVERFLOW_ALIGN) unsigned char scratch[DEQUE_SLOT_MAX + OVERFLOW_ALIGN];
    uint32_t tiny;       /* consecutive stolen tasks that were too short */
    uint64_t not_before; /* in ticks: no stealing until then */
    uint32_t n_misses;   /* lookings awake that found nothing */
    uint32_t n_calm;     /* searches that do not look awake, since others want the CPU */
    uint32_t spin_usec;  /* how long looking awake pays if the source may spin */
    bool for_task;       /* its join was woken for a task: it must look whether more is left */
    bool guest;          /* an outside thread's [const] */
    bool lent;           /* of a guest: in use. [crew_lock] */
    bool has_thread;     /* [crew_lock] */
    uint32_t away;       /* depth of crew_leave() without crew_return() [owner] */
    pid_t tid;           /* of its thread [const once HERE] */
    /* [monitor] its thread's CPU time at the last look, 0 for none, and since when it is that */
    uint64_t watched_cpu_nsec, watched_since_usec;
    /* [atomic: RMWs, acq_rel, the owner's against the monitor's. The one that takes MISSED away puts it back into
     * `running`. Release by the owner when it becomes HERE, acquire by the monitor, which then reads tid] */
    _Atomic enum worker_presence presence;
    _Atomic uint64_t blocked; /* how often it was missed [atomic: relaxed; monitor's] */
    uint64_t origins;         /* how many there were [owner] */
    struct trace_worker trace;
    _Atomic int cpu;                           /* CPU that it is pinned to, plus 1 [atomic: relaxed; owner's] */
    _Atomic clockid_t clock;                   /* of its thread's CPU time; 0: none [atomic: relaxed; owner's] */
    _Atomic bool retired;                      /* sleeps until there are too few [atomic: relaxed; owner's] */
    _Alignas(CACHE_LINE) struct joiner joiner; /* [park] */
    struct injector_batch batch;               /* roots that it took at once; all workers take from it */
    struct ready_list ready;                   /* pieces that any worker may run */
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

/* The thread that finds workers that block without saying so (monitor.c). */
struct monitor {
    pthread_t thread;
    bool has_thread;         /* [crew_lock] */
    struct eventcount event; /* where it sleeps between two looks */
    _Atomic bool stop;       /* [atomic: seq_cst store before a notify; acquire loads after an announcement's RMW] */
};

struct pool {
    struct pool_options options;    /* [const] */
    const struct wsd_task_ops *ops; /* [const] of each worker */
    struct eventcount own_event;
    bool eager; /* [const] */
    /* more workers than CPUs: a waiting worker must not displace a running one [atomic: relaxed] */
    _Atomic bool crowded;
    struct injector injector;
    struct park park;
    /* Workers that run or search, and guests. At 0 while closing, all work is done. The last worker to leave has looked
     * everywhere before. Each of the others has looked since its last task. [atomic: acq_rel, among themselves; seq_cst
     * load in settle_hints(): a worker that is not counted yet has pushed nothing] */
    _Atomic uint32_t busy;
    _Atomic bool closing; /* [atomic: seq_cst, before the notify-all of the closer] */
    _Atomic bool ended;   /* [atomic: release by the last one, acquire by all] */
    /* Workers that are neither blocked nor retired, and how many there should be. [atomic: seq_cst RMWs of running, see
     * crew_leave(); target: seq_cst by crew_set(), relaxed else] */
    _Atomic uint32_t running, target;
    _Atomic uint32_t futures; /* begun and not done: joins take no unrelated task then [atomic: see future.c] */
    /* How many entries of `all` are in use. [atomic: release by the maker of a new one; acquire by thieves] */
    _Atomic uint32_t victims;
    pthread_mutex_t close_lock, crew_lock;
    pthread_cond_t tickets_came;
    uint32_t retired, tickets, threads, most_asked; /* [crew_lock] */
    struct worker *unhired;                         /* among `all`, still without a thread; NULL: none [crew_lock] */
    bool joined;                                    /* [close_lock] */
    /* One bit per worker: it may have something to take. After workers have blocked there may be many retired ones. A
     * look for work skips these. [atomic: seq_cst RMW by the worker itself, or its maker, before it can have anything;
     * seq_cst load after a sleeper's announcement] */
    _Atomic uint64_t active[(POOL_ALL_MAX + 63) / 64];
    /* in the order in which they were made: workers, spare ones, guests [crew_lock; const below victims] */
    struct worker **all;
    struct worker *guests[POOL_GUESTS_MAX]; /* [crew_lock] */
    struct trace trace;
    struct topology *topology; /* [const] NULL: no worker is pinned */
    struct monitor monitor;
    sigset_t signals;                   /* [const] the mask of its workers: that of the thread that made the pool */
    void *(*worker_main)(void *worker); /* [const] what the thread of a worker does */
    void *(*monitor_main)(void *pool);  /* [const] what the monitor's does */
};

/* The first worker in [from, n) that may have something to take; n if there is none. [any] */
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

/* Records one event if the trace is on. For slow paths only. [owner of w] */
static inline void trace_event(struct worker *w, uint32_t kind, uint32_t other)
{
    if (__builtin_expect(atomic_load_explicit(&w->pool->trace.on, memory_order_relaxed), false))
        trace_record(w, kind, other);
}

/* How many workers a program is told of. [any] */
uint32_t pool_shown_workers(const struct pool *pool);
extern __thread struct worker *worker_current; /* [the thread's own] NULL outside */

static inline struct worker *worker_of(struct wsd_worker *self)
{
    return (struct worker *)(void *)self;
}

void pool_watch_forks(void); /* once a process: has pool_check_fork() see a fork */
/* Counts one fewer in `busy`. [a thread counted there] */
void pool_leave(struct pool *pool);
/* Aborts in the child of a fork, which has one thread and no pool. [any] */
void pool_check_fork(void);
/* A pool is about to be made, so that the child of a fork has one. False: not there, in a task of its parent's pool. */
bool pool_forget_fork(void);
__attribute__((noreturn)) void pool_broken(const char *what);
__attribute__((noreturn)) void pool_out_of_memory(void);

/* Marks that what this worker runs from now on does not descend from what it waits for. [owner] */
static inline void worker_new_origin(struct worker *w)
{
    atomic_store_explicit(&w->deque.origin, ++w->origins, memory_order_relaxed);
}

/* Whether children that ran inside their spawn wait for their sync. [owner] */
static inline bool worker_has_overflow(const struct worker *w)
{
    return w->public.level;
}

/* This worker will not take from the source soon; others rely on it to do so. Call before its last look. [w itself] */
static inline void worker_leave_source(struct worker *w)
{
    const struct pool_source *s = &w->pool->options.source;

    if (s->leave)
        s->leave(s->context);
}
