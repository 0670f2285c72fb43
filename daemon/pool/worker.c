/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c: one worker and its place in the pool, and the child of a fork.
 * Owns what a thread knows of itself. [each as worker.h says]
 * Keeps: a call into the pool in the child of a fork does not hang. It ends the child with words.
 * Does not know what a worker does (find.c) or how many there are (crew.c). */
#include "pool/worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/measure.h"

__thread struct worker *worker_current;

/* --- fork --- */

static _Atomic bool forked; /* and no pool was made since [atomic: relaxed; the child begins with one thread] */

static void in_child(void)
{
    atomic_store_explicit(&forked, true, memory_order_relaxed);
    if (!worker_current)
        return;
    /* So that its next spawn or sync asks. */
    __atomic_store_n(&worker_current->public.hi, DEQUE_TRAP_HI, __ATOMIC_RELAXED);
    __atomic_store_n(&worker_current->public.lo, DEQUE_TRAP_LO, __ATOMIC_RELAXED);
}

void pool_watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void pool_check_fork(void)
{
    if (!atomic_load_explicit(&forked, memory_order_relaxed))
        return;
    fputs("wsd: a child of fork() called into the pool, which it does not have: exec, or start a job instead\n",
          stderr);
    abort();
}

bool pool_forget_fork(void)
{
    if (!atomic_load_explicit(&forked, memory_order_relaxed))
        return true;
    if (worker_current)
        return false;
    atomic_store_explicit(&forked, false, memory_order_relaxed);
    return true;
}

/* --- workers --- */

/* The last call of a thread counted in `busy` that has not looked everywhere before. */
void pool_leave(struct pool *pool)
{
    bool last = atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1;

    /* A worker that found nothing while we were busy may be the one to end the pool. */
    if (last && atomic_load_explicit(&pool->closing, memory_order_seq_cst))
        eventcount_notify(pool->park.event, UINT32_MAX, pool->park.shared);
}

uint32_t pool_workers(const struct pool *pool)
{
    return atomic_load_explicit(&pool->target, memory_order_relaxed);
}

uint32_t pool_shown_workers(const struct pool *pool)
{
    return pool->options.measure ? pool->options.measure->workers : pool_workers(pool);
}

uint32_t pool_workers_seen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->victims, memory_order_acquire);
}

enum pool_worker_kind pool_worker_kind(const struct pool *pool, uint32_t index)
{
    const struct worker *w = pool->all[index];

    if (w->guest)
        return POOL_GUEST;
    return atomic_load_explicit(&w->retired, memory_order_relaxed) ? POOL_RETIRED : POOL_WORKER;
}

/* --- broken rules --- */

void pool_broken(const char *what)
{
    /* a task may hold the lock of stderr */
    dprintf(STDERR_FILENO, "wsd: a task broke the rules of wsd/task.h: %s\n", what);
    abort();
}

_Noreturn void pool_out_of_memory(void)
{
    /* The result has no other place, and a spawn cannot fail. */
    fputs("wsd: out of memory for the results of spawned tasks\n", stderr);
    abort();
}
