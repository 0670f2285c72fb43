/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-loop.c: a worker's thread from its first look to its end: it searches, runs, retires and sleeps.
 * Owns the thread's stack bounds, name and clock. [the worker's thread, but for pool_look()]
 * Keeps: a worker looks everywhere before it sleeps. The last one that finds nothing ends a closing pool.
 * Does not know what to run next (find.c) or how many should (crew.c). */
#include "pool/worker-loop.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/crew.h"
#include "pool/find.h"
#include "pool/pin.h"
#include "pool/run.h"
#include "pool/worker.h"

#define FETCH_MAX 4u /* workers with cache lines that are prefetched */

static void end_workers(struct pool *pool)
{
    atomic_store_explicit(&pool->ended, true, memory_order_release);
    eventcount_notify(pool->park.event, UINT32_MAX, pool->park.shared);
    pthread_mutex_lock(&pool->crew_lock);
    pthread_cond_broadcast(&pool->tickets_came);
    pthread_mutex_unlock(&pool->crew_lock);
}

static void sleep_done(const struct pool_source *source, struct eventcount_set *set)
{
    if (source->done)
        source->done(source->context, set);
}

/* Prefetches what the search will look at. After a sleep each of its cache lines is a miss, so all misses overlap. */
static void fetch(const struct worker *w)
{
    const struct pool *pool = w->pool;
    uint32_t n = MIN(atomic_load_explicit(&pool->victims, memory_order_acquire), FETCH_MAX);

    for (const char *at = (const char *)w; at < (const char *)(w + 1); at += CACHE_LINE)
        __builtin_prefetch(at, 1);
    for (const char *at = (const char *)&pool->injector; at < (const char *)&pool->close_lock; at += CACHE_LINE)
        __builtin_prefetch(at);
    __builtin_prefetch(pool->active);
    for (uint32_t i = 0; i < n; i++) {
        __builtin_prefetch(&pool->all[i]->batch);
        __builtin_prefetch(&pool->all[i]->ready);
        __builtin_prefetch((const void *)&pool->all[i]->deque.word);
    }
}

/* Sleeps until there may be work. False: the pool has ended. The worker is a searcher at entry, and none at return. */
static bool park(struct worker *w)
{
    struct pool *pool = w->pool;
    const struct pool_source *source = &pool->options.source;
    struct park *p = &pool->park;
    struct eventcount_set set;

    worker_leave_source(w);
    eventcount_set_init(&set);
    eventcount_set_add(&set, p->event, NULL);
    if (source->prepare)
        source->prepare(source->context, &set);
    park_search_end(p);
    /* The second look, after both announcements: see park.h. */
    if (pool_has_roots(pool) || worker_look(w, NULL)) {
        eventcount_set_cancel(&set);
        sleep_done(source, &set);
        return true;
    }
    /* No work anywhere. A task that runs elsewhere keeps its own worker busy. The close came before its notify-all, so
     * the last worker here either sees it or is woken by it. */
    bool last = atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1;
    if (last && atomic_load_explicit(&pool->closing, memory_order_seq_cst)) {
        /* No other worker may be left for what was submitted between the look and the close. */
        if (pool_has_roots(pool)) {
            atomic_fetch_add_explicit(&pool->busy, 1, memory_order_acq_rel);
            eventcount_set_cancel(&set);
            sleep_done(source, &set);
            return true;
        }
        end_workers(pool);
    }
    if (atomic_load_explicit(&pool->ended, memory_order_acquire)) {
        eventcount_set_cancel(&set);
        sleep_done(source, &set);
        return false;
    }
    deque_trim_owner(&w->deque);
    COUNT(w, parks);
    trace_event(w, TRACE_SLEEP, TRACE_NOBODY);
    eventcount_set_wait(&set, p->shared);
    fetch(w);
    sleep_done(source, &set);
    trace_event(w, TRACE_SLEEP | TRACE_END, TRACE_NOBODY);
    COUNT(w, wakeups);
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_acq_rel);
    return true;
}

static void find_stack(struct worker *w)
{
    pthread_attr_t attr;
    void *base;
    size_t size;

    w->stack_floor = (char *)__builtin_frame_address(0) - GUEST_STACK;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &base, &size) == 0)
        w->stack_floor = (char *)base + size / 2;
    pthread_attr_destroy(&attr);
}

/* --- retiring --- */

/* True: this worker has left the crew. Done under the lock: crew.c, which may be needed from the next moment on, then
 * asks this worker back instead of making a thread. */
static bool leave_surplus(struct pool *pool)
{
    uint32_t running = atomic_load_explicit(&pool->running, memory_order_relaxed);
    bool left = false;

    pthread_mutex_lock(&pool->crew_lock);
    while (!left && crew_surplus(pool) && running > atomic_load_explicit(&pool->target, memory_order_relaxed))
        left = atomic_compare_exchange_weak_explicit(&pool->running, &running, running - 1, memory_order_seq_cst,
                                                     memory_order_relaxed);
    pool->retired += left;
    pthread_mutex_unlock(&pool->crew_lock);
    return left;
}

/* Leaves the crew if there are too many, until there are too few. False: the pool has ended. The worker is no searcher
 * at entry and return, and has nothing to run. */
static bool retire_if_surplus(struct worker *w)
{
    struct pool *pool = w->pool;
    const struct pool_options *o = &pool->options;

    crew_rest(w);
    if (!leave_surplus(pool)) {
        crew_wake(w);
        return true;
    }
    worker_leave_source(w);
    worker_wake_if_left(w); /* others may have relied on this worker */
    if (o->worker_retire)
        o->worker_retire(&w->public, w->public.index, o->context);
    deque_trim_owner(&w->deque);
    /* It stays active while it has left work, so that others find that; and then until it retires again. The first
     * worker's list also takes pieces from outside. */
    if (w->public.index > 0 && !batch_has_any(&w->batch) && !ready_any(&w->ready))
        pool_set_active(pool, w->public.index, false);
    pthread_mutex_lock(&pool->crew_lock);
    pool_leave(pool);
    atomic_store_explicit(&w->retired, true, memory_order_relaxed);
    trace_event(w, TRACE_SLEEP, TRACE_NOBODY);
    while (pool->tickets == 0 && !atomic_load_explicit(&pool->ended, memory_order_acquire))
        pthread_cond_wait(&pool->tickets_came, &pool->crew_lock);
    trace_event(w, TRACE_SLEEP | TRACE_END, TRACE_NOBODY);
    atomic_store_explicit(&w->retired, false, memory_order_relaxed);
    bool back = pool->tickets > 0;
    if (back)
        pool->tickets--;
    pthread_mutex_unlock(&pool->crew_lock);
    pool_set_active(pool, w->public.index, true);
    crew_wake(w);
    return back;
}

/* Lets others read how much CPU time the thread has used. */
static void show_clock(struct worker *w)
{
    clockid_t clock;

    if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
        atomic_store_explicit(&w->clock, clock, memory_order_relaxed);
}

/* Reports a lost thread. It will not run what it had taken, so a thread that waits for that would wait for ever. */
static void lost(struct worker *w, bool gone)
{
    const struct pool_options *o = &w->pool->options;

    if (o->worker_lost)
        o->worker_lost(&w->public, w->public.index, gone, o->context);
    pool_broken(gone ? "a task has ended the thread of its worker (the exit system call)"
                     : "a task has ended the thread of its worker (pthread_exit() or pthread_cancel())");
}

static void on_unwound(void *w)
{
    lost(w, false);
}

/* A thread that ends in order withdraws its clock. The kernel has no clock of a thread that vanished. */
void pool_look(struct pool *pool)
{
    /* acquire: partner is the release of crew_new_worker() */
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    struct timespec t;

    for (uint32_t i = 0; i < n; i++) {
        clockid_t clock = atomic_load_explicit(&pool->all[i]->clock, memory_order_relaxed);

        /* looked at again: it may have ended in order meanwhile */
        if (clock != 0 && clock_gettime(clock, &t) < 0 &&
            atomic_load_explicit(&pool->all[i]->clock, memory_order_relaxed) != 0)
            lost(pool->all[i], true);
    }
}

static void worker_loop(struct worker *w)
{
    bool go_on = true;
    struct found f;

    while (go_on) {
        /* First as a searcher: that clears the bit of the thread that woke this worker. Between two tasks once without,
         * which is cheaper. */
        for (bool found = worker_search(w, &f); found; found = worker_find(w, &f) || worker_search(w, &f)) {
            worker_run(w, &f);
            if (__builtin_expect(crew_surplus(w->pool), false) && !(go_on = retire_if_surplus(w)))
                break;
        }
        /* Before each sleep. Also for a worker that was hired while another came back, and found nothing to run. */
        if (go_on && crew_surplus(w->pool)) {
            park_search_end(&w->pool->park);
            go_on = retire_if_surplus(w);
        } else if (go_on) {
            crew_rest(w);
            go_on = park(w);
            crew_wake(w);
        }
    }
}

void *worker_main(void *arg)
{
    struct worker *w = arg;
    const struct pool_options *o = &w->pool->options;
    char name[16];

    snprintf(name, sizeof(name), "wsd-w%u", w->public.index);
    pthread_setname_np(pthread_self(), name);
    worker_current = w;
    worker_pin(w);
    find_stack(w);
    show_clock(w);
    w->tid = gettid();
    crew_wake(w);
    if (o->worker_start)
        o->worker_start(&w->public, w->public.index, o->context);
    pthread_cleanup_push(on_unwound, w);
    worker_loop(w);
    pthread_cleanup_pop(0);
    if (o->worker_stop)
        o->worker_stop(&w->public, w->public.index, o->context);
    crew_rest(w);
    atomic_store_explicit(&w->clock, 0, memory_order_relaxed);
    return NULL;
}
