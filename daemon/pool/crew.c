/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c: how many workers run: their threads, their sleep, spare workers for those that block, changes of the number.
 * Owns the threads and the record of retired workers.
 * Keeps: `running` workers are neither blocked nor retired. If they are fewer than `target`, one is added: a retired
 * one, else a new thread, at most POOL_SPARES_MAX more than ever asked for. If they are more, each checks between two
 * tasks whether to retire. So a blocked worker leaves no CPU idle, and a smaller number loses no task.
 * Does not know what workers run. (Compensation as in ForkJoinPool's ManagedBlocker.) */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cpus.h"
#include "pool/worker.h"

#define STACK_DEFAULT ((size_t)8 * 1024 * 1024)
/* The guard below each stack. More than one page, so that a large array does not reach beyond it. Address space
 * only. */
#define STACK_GUARD ((size_t)1024 * 1024)
#define FETCH_MAX   4u /* workers whose cache lines are prefetched */

static void end(struct pool *pool)
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
        end(pool);
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

/* The end of a pool is seen by workers that look everywhere, so none retires then. */
bool crew_surplus(const struct pool *pool)
{
    return atomic_load_explicit(&pool->running, memory_order_relaxed) >
               atomic_load_explicit(&pool->target, memory_order_relaxed) &&
           !atomic_load_explicit(&pool->closing, memory_order_seq_cst);
}

/* True: this worker has left the crew. Done under the lock: hire(), which may be needed from the next moment on, then
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

    if (!leave_surplus(pool))
        return true;
    worker_leave_source(w);
    worker_wake_if_left(w); /* others may have relied on this worker */
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

static void work(struct worker *w)
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
            go_on = park(w);
        }
    }
}

static void *worker_main(void *arg)
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
    if (o->worker_start)
        o->worker_start(&w->public, w->public.index, o->context);
    pthread_cleanup_push(on_unwound, w);
    work(w);
    pthread_cleanup_pop(0);
    if (o->worker_stop)
        o->worker_stop(&w->public, w->public.index, o->context);
    atomic_store_explicit(&w->clock, 0, memory_order_relaxed);
    return NULL;
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
        if (!w)
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
        r = pthread_create(&w->thread, &attr, worker_main, w);
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
    while (r == 0 && crew_short(pool))
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
}

/* --- blocking --- */

void crew_leave(struct worker *w)
{
    if (w->away++ > 0 || w->guest)
        return;
    worker_leave_source(w);
    /* seq_cst: a thread that publishes from now on sees one too few. What was published before is for the spare worker
     * that is added at once: only sleeping workers hear the source's doorbell. */
    atomic_fetch_sub_explicit(&w->pool->running, 1, memory_order_seq_cst);
    if (deque_publish_owner(&w->deque))
        pool_tell_task(w->pool);
    crew_complete(w->pool);
}

void crew_return(struct worker *w)
{
    if (--w->away == 0 && !w->guest)
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
