/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c: a pool from its making to its end, and what is counted.
 * Owns the workers' memory; never the nodes or what they belong to.
 * pool_* as pool.h says.
 * Keeps: everything accepted has run when pool_close() returns.
 * Does not know what a root is, what a worker does next (find.c) or how many there are (crew.c). */
#include "pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/crew.h"
#include "pool/join.h"
#include "pool/monitor.h"
#include "pool/ops.h"
#include "pool/worker-loop.h"
#include "pool/worker.h"

static struct worker *worker_free(struct worker *w)
{
    if (!w)
        return NULL;
    worker_free_overflow(w);
    trace_worker_deinit(&w->trace);
    ready_deinit(&w->ready);
    deque_deinit(&w->deque);
    free(w);
    return NULL;
}

static void pool_destroy(struct pool *pool)
{
    for (uint32_t i = 0; i < atomic_load_explicit(&pool->victims, memory_order_acquire); i++)
        worker_free(pool->all[i]);
    free(pool->all);
    topology_free(pool->topology);
    trace_deinit(&pool->trace);
    injector_deinit(&pool->injector);
    park_deinit(&pool->park);
    pthread_mutex_destroy(&pool->close_lock);
    pthread_mutex_destroy(&pool->crew_lock);
    pthread_cond_destroy(&pool->tickets_came);
    free(pool);
}

int pool_new(struct pool **ret_pool, const struct pool_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint32_t n = options->workers;
    struct pool *pool;
    int r = 0;

    if (n < 1 || n > POOL_WORKERS_MAX || options->guests > POOL_GUESTS_MAX ||
        !options->source.take != !options->source.ready)
        return -EINVAL;
    pthread_once(&once, pool_watch_forks);
    if (!pool_forget_fork())
        return -ECHILD;
    pool = aligned_alloc(CACHE_LINE, (sizeof(*pool) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!pool)
        return -ENOMEM;
    *pool = (struct pool){.options = *options,
                          .worker_main = worker_main,
                          .monitor_main = monitor_main,
                          .ops = &worker_ops,
                          .eager = options->eager || options->measure || !deque_revoke_available()};
    pthread_sigmask(SIG_SETMASK, NULL, &pool->signals);
    pool->options.guests = options->guests ? options->guests : POOL_GUESTS;
    eventcount_init(&pool->own_event);
    eventcount_init(&pool->monitor.event);
    injector_init(&pool->injector);
    park_init(&pool->park, options->event ? options->event : &pool->own_event, options->event && options->event_shared,
              options->searchers);
    pthread_mutex_init(&pool->close_lock, NULL);
    pthread_mutex_init(&pool->crew_lock, NULL);
    pthread_cond_init(&pool->tickets_came, NULL);
    trace_init(&pool->trace);
    if (options->pin)
        (void)topology_new(&pool->topology, NULL); /* without it no worker is pinned: pool_worker_cpu() tells */
    pool->all = calloc(POOL_ALL_MAX, sizeof(struct worker *));
    r = pool->all ? crew_set(pool, n) : -ENOMEM;
    if (r < 0) {
        if (pool->all)
            crew_join(pool);
        pool_destroy(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

void pool_close(struct pool *pool)
{
    pool_check_fork();
    assert(!worker_current || worker_current->pool != pool);
    pthread_mutex_lock(&pool->close_lock);
    if (!pool->joined) {
        injector_close(&pool->injector);
        crew_join(pool);
    }
    pool->joined = true;
    pthread_mutex_unlock(&pool->close_lock);
}

struct pool *pool_free(struct pool *pool)
{
    if (!pool)
        return NULL;
    pool_close(pool);
    pool_destroy(pool);
    return NULL;
}

/* --- counters --- */

int pool_set_workers(struct pool *pool, uint32_t n)
{
    pool_check_fork();
    return n < 1 || n > POOL_WORKERS_MAX ? -EINVAL : crew_set(pool, n);
}

void pool_worker_counters(const struct pool *pool, uint32_t index, struct pool_counters *ret)
{
    const struct worker *w = pool->all[index];

#define READ(what) .what = atomic_load_explicit(&w->count.what, memory_order_relaxed)
    *ret = (struct pool_counters){READ(roots), READ(ready),   READ(published), READ(stolen),    READ(failed_steals),
                                  READ(parks), READ(wakeups), READ(helped),    READ(overflows), READ(revoked)};
#undef READ
    ret->blocked = atomic_load_explicit(&w->blocked, memory_order_relaxed);
    /* A thread that ends takes its clock back, and the kernel refuses the clock of one that is gone. */
    clockid_t clock = atomic_load_explicit(&w->clock, memory_order_relaxed);
    struct timespec t;

    if (clock != 0 && clock_gettime(clock, &t) == 0)
        ret->cpu_usec = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}
