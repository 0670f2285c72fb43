/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c: how many workers run: spare workers for those that block, changes of the number, a wake-up for new work.
 * Owns the threads and the record of retired workers.
 * Keeps: `running` workers are neither blocked nor retired. If they are fewer than `target`, one is added: a retired
 * one, else a new thread, at most POOL_SPARES_MAX more than ever asked for. If they are more, each checks between two
 * tasks whether to retire. So a blocked worker leaves no CPU idle, and a smaller number loses no task.
 * Does not know what a thread does (worker-loop.c), or what workers run. (Compensation as in ForkJoinPool's
 * ManagedBlocker.) */
#include "pool/crew.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cpus.h"

#define STACK_DEFAULT ((size_t)8 * 1024 * 1024)
/* The guard below each stack. More than one page, so that a large array does not reach beyond it. Address space
 * only. */
#define STACK_GUARD ((size_t)1024 * 1024)

/* The end of a pool is seen by workers that look everywhere, so none retires then. */
bool crew_surplus(const struct pool *pool)
{
    return atomic_load_explicit(&pool->running, memory_order_relaxed) >
               atomic_load_explicit(&pool->target, memory_order_relaxed) &&
           !atomic_load_explicit(&pool->closing, memory_order_seq_cst);
}

/* --- hiring --- */

static int worker_new(struct worker **ret_worker, struct pool *pool, uint32_t index)
{
    struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    *w = (struct worker){.pool = pool, .random = index * 2654435761u + 1, .spin_usec = WORKER_LINGER_USEC};
    w->public = (struct wsd_worker){.size = sizeof(w->public), .index = index, .ops = pool->ops};
    list_init(&w->joiner.link);
    eventcount_init(&w->joiner.event);
    batch_init(&w->batch);
    ready_init(&w->ready);
    r = deque_init(&w->deque, &w->public, pool->options.task_bytes, pool->eager);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret_worker = w;
    return 0;
}

/* A new worker, its thread not yet running. [crew_lock] */
int crew_new_worker(struct worker **ret_worker, struct pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_relaxed);
    int r = n < POOL_ALL_MAX ? worker_new(&pool->all[n], pool, n) : -EAGAIN;

    if (r < 0)
        return r;
    *ret_worker = pool->all[n];
    pool_set_active(pool, n, true);
    /* Release: partner is the thieves' acquire, after which they read all[n]. */
    atomic_store_explicit(&pool->victims, n + 1, memory_order_release);
    return 0;
}

/* Starts the monitor, which leaves every signal to others. [crew_lock] */
static int start_monitor(struct pool *pool)
{
    pthread_attr_t attr;
    sigset_t all;

    if (pool->monitor.has_thread || pool->options.measure)
        return 0;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_DEFAULT); /* as large as a worker's, since static TLS comes from it */
    pthread_attr_setsigmask_np(&attr, &all);
    int r = -pthread_create(&pool->monitor.thread, &attr, pool->monitor_main, pool);
    pthread_attr_destroy(&attr);
    pool->monitor.has_thread = r == 0;
    return r;
}

/* After the workers have ended. */
static void stop_monitor(struct pool *pool)
{
    if (!pool->monitor.has_thread)
        return;
    atomic_store_explicit(&pool->monitor.stop, true, memory_order_seq_cst);
    eventcount_notify(&pool->monitor.event, 1, false);
    eventcount_wake_watch(pool->park.event, pool->park.shared);
    pthread_join(pool->monitor.thread, NULL);
}

/* So many workers block that no spare is left: one must come back before another is hired. */
#define HIRE_E_BOUND 1

/* 0, a negative errno, or HIRE_E_BOUND. [crew_lock] */
static int hire(struct pool *pool)
{
    struct worker *w = NULL;
    pthread_attr_t attr;
    int r = 0;

    if (pool->retired > 0) {
        pool->retired--;
        pool->tickets++;
    } else if (pool->threads >= pool->most_asked + POOL_SPARES_MAX) {
        return HIRE_E_BOUND;
    } else {
        w = pool->unhired;
        r = start_monitor(pool);
        if (r == 0 && !w)
            r = crew_new_worker(&w, pool);
        if (r < 0)
            return r;
    }
    atomic_fetch_add_explicit(&pool->running, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_seq_cst);
    if (!w) {
        pthread_cond_signal(&pool->tickets_came);
        return 0;
    }
    pthread_attr_init(&attr);
    r = pthread_attr_setstacksize(&attr, pool->options.stack_size ? pool->options.stack_size : STACK_DEFAULT);
    if (r == 0)
        r = pthread_attr_setguardsize(&attr, STACK_GUARD);
    if (r == 0)
        r = pthread_attr_setsigmask_np(&attr, &pool->signals); /* whatever the mask of this thread is */
    if (r == 0)
        r = pthread_create(&w->thread, &attr, pool->worker_main, w);
    pthread_attr_destroy(&attr);
    if (r == 0) {
        w->has_thread = true;
        pool->unhired = NULL;
        pool->threads++;
        return 0;
    }
    pool->unhired = w; /* other threads can see it already; each that is told of work may try again */
    atomic_fetch_sub_explicit(&pool->running, 1, memory_order_seq_cst);
    pool_leave(pool);
    return -r;
}

bool crew_short(const struct pool *pool)
{
    /* seq_cst: after the caller's publication; partner is the RMW of crew_leave(), after which that worker looks. */
    return atomic_load_explicit(&pool->running, memory_order_seq_cst) <
           atomic_load_explicit(&pool->target, memory_order_relaxed);
}

void crew_complete(struct pool *pool)
{
    if (__builtin_expect(!crew_short(pool), true))
        return;
    pthread_mutex_lock(&pool->crew_lock);
    /* If none can be had, the running workers must do. */
    if (crew_short(pool) && !atomic_load_explicit(&pool->ended, memory_order_acquire))
        hire(pool);
    pthread_mutex_unlock(&pool->crew_lock);
}

int crew_set(struct pool *pool, uint32_t n)
{
    int r = 0;

    pthread_mutex_lock(&pool->crew_lock);
    if (atomic_load_explicit(&pool->closing, memory_order_seq_cst)) {
        pthread_mutex_unlock(&pool->crew_lock);
        return -ESHUTDOWN;
    }
    uint32_t before = atomic_load_explicit(&pool->target, memory_order_relaxed), most = pool->most_asked;
    atomic_store_explicit(&pool->target, n, memory_order_seq_cst);
    pool->most_asked = MAX(pool->most_asked, n);
    atomic_store_explicit(&pool->crowded, n > cpus_affinity(), memory_order_relaxed);
    while (r == 0 && !pool->options.lazy && crew_short(pool))
        r = hire(pool);
    /* As many as before, so that the caller can report it. A new pool keeps one worker, which ends it. */
    if (r < 0) {
        atomic_store_explicit(&pool->target, MAX(MIN(before, n), 1u), memory_order_seq_cst);
        pool->most_asked = most;
    }
    pthread_mutex_unlock(&pool->crew_lock);
    if (crew_surplus(pool)) /* sleeping workers retire first */
        eventcount_notify(pool->park.event, UINT32_MAX, pool->park.shared);
    return MIN(r, 0);
}

void crew_join(struct pool *pool)
{
    atomic_store_explicit(&pool->closing, true, memory_order_seq_cst);
    eventcount_notify(pool->park.event, UINT32_MAX, pool->park.shared);
    /* Spare workers may be added during this wait, above those that exist. */
    for (uint32_t i = 0; i < atomic_load_explicit(&pool->victims, memory_order_acquire); i++) {
        pthread_mutex_lock(&pool->crew_lock);
        bool has_thread = pool->all[i]->has_thread;
        pthread_mutex_unlock(&pool->crew_lock);
        if (has_thread)
            pthread_join(pool->all[i]->thread, NULL);
    }
    stop_monitor(pool);
}

/* --- telling --- */

void pool_tell_root(struct pool *pool)
{
    if (park_has_sleepers(&pool->park) && park_wake_root(&pool->park))
        return;
    crew_complete(pool);
}

void pool_tell_task(struct pool *pool)
{
    if (park_has_sleepers(&pool->park) && park_wake_task(&pool->park))
        return;
    crew_complete(pool);
}

/* --- blocking --- */

void crew_leave(struct worker *w)
{
    if (w->away++ > 0 || w->guest)
        return;
    worker_leave_source(w);
    /* seq_cst: a thread that publishes from now on sees one too few. What was published before is for the spare worker
     * that is added at once: only sleeping workers hear the source's doorbell. */
    if (atomic_exchange_explicit(&w->presence, WORKER_ELSEWHERE, memory_order_acq_rel) == WORKER_HERE)
        atomic_fetch_sub_explicit(&w->pool->running, 1, memory_order_seq_cst);
    if (deque_publish_owner(&w->deque))
        pool_tell_task(w->pool);
    crew_complete(w->pool);
}

void crew_return(struct worker *w)
{
    if (--w->away > 0 || w->guest)
        return;
    atomic_fetch_add_explicit(&w->pool->running, 1, memory_order_seq_cst);
    crew_wake(w);
}

void crew_rest(struct worker *w)
{
    if (atomic_exchange_explicit(&w->presence, WORKER_ELSEWHERE, memory_order_acq_rel) == WORKER_MISSED)
        atomic_fetch_add_explicit(&w->pool->running, 1, memory_order_seq_cst);
}

void crew_wake(struct worker *w)
{
    atomic_store_explicit(&w->presence, WORKER_HERE, memory_order_release);
}

void crew_miss(struct worker *w)
{
    enum worker_presence here = WORKER_HERE;

    if (!atomic_compare_exchange_strong_explicit(&w->presence, &here, WORKER_MISSED, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    atomic_store_explicit(&w->blocked, atomic_load_explicit(&w->blocked, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_fetch_sub_explicit(&w->pool->running, 1, memory_order_seq_cst);
    crew_complete(w->pool); /* also makes good for a worker that has come back between the two and sent another away */
}

void crew_found(struct worker *w)
{
    enum worker_presence missed = WORKER_MISSED;

    if (atomic_compare_exchange_strong_explicit(&w->presence, &missed, WORKER_HERE, memory_order_acq_rel,
                                                memory_order_relaxed))
        atomic_fetch_add_explicit(&w->pool->running, 1, memory_order_seq_cst);
}

void pool_blocking_begin(void)
{
    pool_check_fork();
    if (worker_current)
        crew_leave(worker_current);
}

void pool_blocking_end(void)
{
    if (worker_current)
        crew_return(worker_current);
}
