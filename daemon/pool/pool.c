/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c: the workers: what they run next, when they sleep, how they end.
 * Owns threads, workers and guests; never the nodes or what they belong to.
 * pool_* as pool.h says; the static functions on the worker that they are given.
 * Keeps: own deque, steal, injector, source, park, in this order; everything accepted has run when pool_close()
 * returns.
 * Does not know what a root is, or how a join waits (join.c). */
#include "pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pool/worker.h"

#define STACK_DEFAULT ((size_t)8 * 1024 * 1024)
/* Of an outside thread's stack, whose size is dear to find out. */
#define GUEST_STACK ((ptrdiff_t)256 * 1024)
/* Ticks are nanoseconds, or a third of one. A task below the first is tiny; after so many in a row a thief holds back
 * for so long. */
#define TINY_TICKS     600u
#define TINY_STREAK    8u
#define HOLD_TICKS_MIN 1000u
#define HOLD_TICKS_MAX 40000u
/* How long the one searching worker goes on while others run tasks. */
#define SEARCH_SPIN_USEC 20

__thread struct worker *worker_current;

void worker_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t worker_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

/* A steal costs thief and owner about a hundred nanoseconds each, in lines that move between their caches. Where task
 * after task is not worth that, the thief holds back, longer each time: the owner is faster alone. Below what issue and
 * README promise for hidden tasks. */
void worker_weigh(struct worker *w, uint64_t ticks)
{
    if (ticks >= TINY_TICKS) {
        w->tiny = 0;
        return;
    }
    if (++w->tiny >= TINY_STREAK)
        w->not_before = worker_ticks() + MIN(HOLD_TICKS_MIN << MIN(w->tiny - TINY_STREAK, 16u), HOLD_TICKS_MAX);
}

static bool holds_back(const struct worker *w)
{
    return w->tiny >= TINY_STREAK && worker_ticks() < w->not_before;
}

static uint32_t next_random(struct worker *w)
{
    /* xorshift32: one state a worker, never 0 */
    uint32_t x = w->random;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return w->random = x;
}

/* --- fork --- */

static bool forked; /* [the child's only thread] */

static void in_child(void)
{
    forked = true;
    if (!worker_current)
        return;
    /* So that its next spawn or sync asks. */
    __atomic_store_n(&worker_current->public.hi, DEQUE_TRAP_HI, __ATOMIC_RELAXED);
    __atomic_store_n(&worker_current->public.lo, DEQUE_TRAP_LO, __ATOMIC_RELAXED);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void pool_check_fork(void)
{
    if (!forked)
        return;
    fputs("wsd: a child of fork() called into the pool, which it does not have: exec, or start a job instead\n", stderr);
    abort();
}

/* --- stealing --- */

static bool has_roots(struct pool *pool)
{
    const struct pool_source *s = &pool->options.source;

    if (injector_any(&pool->injector) || (s->take && s->ready(s->context)))
        return true;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (batch_has_any(&pool->all[i]->batch))
            return true;
    return false;
}

static bool has_tasks(struct pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++)
        if (deque_has_public_any(&pool->all[i]->deque))
            return true;
    return false;
}

/* Makes the hints about private tasks exact, where anybody but the caller may have some. */
static void settle(struct pool *pool)
{
    if (!pool->eager && atomic_load_explicit(&pool->busy, memory_order_seq_cst) > 1)
        deque_settle();
}

/* Whether the victim has tasks, public or not; the caller has settled. */
static bool has_any(const struct worker *victim)
{
    return deque_has_public_any(&victim->deque) || deque_has_private_any(&victim->deque);
}

/* Wakes the next one where work is left for him; others have relied on us. */
static void wake_if_left(struct worker *w)
{
    struct pool *pool = w->pool;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    bool any = false;

    if (!park_has_sleepers(&pool->park))
        return;
    settle(pool);
    for (uint32_t i = 0; i < n && !any; i++)
        any = pool->all[i] != w && has_any(pool->all[i]);
    if (any)
        park_wake_task(&pool->park);
    else if (has_roots(pool))
        park_wake_root(&pool->park);
}

bool worker_steal_from(struct worker *w, struct worker *victim, struct stolen *ret)
{
    bool more;

    if (!deque_steal_any(&victim->deque, &ret->entry, &more)) {
        COUNT(w, failed_steals);
        return false;
    }
    COUNT(w, stolen);
    ret->victim = victim;
    w->last_victim = victim->public.index;
    if (!more && park_has_sleepers(&w->pool->park)) {
        /* The owner was just told to publish, but may be in a long leaf by now, with more that nobody sees. */
        settle(w->pool);
        more = deque_has_private_any(&victim->deque);
    }
    if (more && park_has_sleepers(&w->pool->park))
        park_wake_task(&w->pool->park);
    return true;
}

bool worker_steal(struct worker *w, struct stolen *ret)
{
    struct pool *pool = w->pool;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    uint32_t start = next_random(w) % n;

    for (uint32_t i = 0; i <= n; i++) {
        struct worker *victim = pool->all[i == 0 ? w->last_victim : (start + i) % n];
        if (victim != w && deque_has_public_any(&victim->deque) && worker_steal_from(w, victim, ret))
            return true;
    }
    return false;
}

/* Whether there is something to steal, having published what the owner hides. */
static bool look_at(struct worker *w, struct worker *victim)
{
    if (victim == w)
        return false;
    if (deque_has_public_any(&victim->deque))
        return true;
    if (!deque_has_private_any(&victim->deque) || !deque_revoke_any(&victim->deque))
        return false;
    COUNT(w, revoked);
    trace_event(w, TRACE_REVOKE, victim->public.index);
    return true;
}

bool worker_look(struct worker *w, struct worker *only)
{
    uint32_t n = atomic_load_explicit(&w->pool->victims, memory_order_acquire);

    settle(w->pool);
    if (only)
        return look_at(w, only);
    for (uint32_t i = 0; i < n; i++)
        if (look_at(w, w->pool->all[i]))
            return true;
    return false;
}

/* --- a worker's life --- */

/* From its own batch, from what another took and has not come to, then a new batch. */
static struct pool_node *take_injected(struct worker *w, bool *ret_more)
{
    struct pool *pool = w->pool;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    struct pool_node *nodes[BATCH_MAX], *node = batch_take_any(&w->batch, ret_more);

    for (uint32_t i = 0; i < n && !node; i++)
        node = batch_take_any(&pool->all[i]->batch, ret_more);
    if (node)
        return node;
    /* A guest takes one: he runs no more. */
    uint32_t took = injector_take(&pool->injector, nodes, w->public.index < pool->options.workers ? BATCH_MAX : 1,
                                  pool->options.workers, ret_more);
    if (took > 1) {
        batch_fill_owner(&w->batch, nodes + 1, took - 1);
        *ret_more = true;
    } else if (took == 0 && *ret_more) {
        sched_yield(); /* a push is under way, perhaps on this CPU */
    }
    return took ? nodes[0] : NULL;
}

static struct pool_node *take_root(struct worker *w)
{
    struct pool *pool = w->pool;
    const struct pool_source *s = &pool->options.source;
    bool more = false;
    struct pool_node *node = take_injected(w, &more);

    if (node) {
        if (more && park_has_sleepers(&pool->park))
            park_wake_root(&pool->park);
        return node;
    }
    if (s->take)
        node = s->take(s->context, &more);
    if (node && more)
        park_wake_root(&pool->park);
    return node;
}

static void run_root(struct worker *w, struct pool_node *node)
{
    COUNT(w, roots);
    w->public.context = NULL;
    trace_event(w, TRACE_ROOT, TRACE_NOBODY);
    node->run(node, &w->public); /* node is its owner's again from here on, and may be gone */
    trace_event(w, TRACE_ROOT | TRACE_END, TRACE_NOBODY);
    trace_subject_clear(&w->trace);
    w->public.context = NULL;
    if (w->public.top != w->deque.base || worker_has_overflow(w))
        pool_broken("a root returned without joining its children");
}

/* What a worker found to do. */
struct found {
    struct pool_node *root; /* or, where it is NULL: */
    struct stolen task;
};

static bool find_once(struct worker *w, struct found *f)
{
    f->root = NULL;
    if (!holds_back(w) && worker_steal(w, &f->task))
        return true;
    f->root = take_root(w);
    return f->root;
}

static void run_found(struct worker *w, const struct found *f)
{
    if (f->root)
        run_root(w, f->root);
    else
        worker_run_stolen(w, &f->task);
}

/* Looks for work as a registered searcher; goes on for a moment while others run tasks, which may spawn. */
static bool search(struct worker *w, struct found *f)
{
    struct pool *pool = w->pool;
    uint64_t deadline = 0;
    bool found;

    park_search_begin(&pool->park);
    while (!(found = find_once(w, f))) {
        if (holds_back(w)) {
            if (pool->crowded)
                sched_yield();
            for (int i = 0; i < 16; i++)
                worker_relax();
            continue;
        }
        /* One spinner at most, and none where nobody else is awake. Relaxed: only a guess. */
        if (atomic_load_explicit(&pool->busy, memory_order_relaxed) <= 1 ||
            atomic_load_explicit(&pool->park.seek, memory_order_relaxed) != 1)
            break;
        uint64_t now = clock_monotonic_usec();
        if (deadline == 0)
            deadline = now + SEARCH_SPIN_USEC;
        if (now >= deadline)
            break;
        for (int i = 0; i < 16; i++)
            worker_relax();
    }
    if (!found)
        return false;
    if (park_search_end(&pool->park))
        wake_if_left(w);
    return true;
}

/* Sleeps until there may be work. False: the pool has ended. Comes in as a searcher, goes out as none. */
static bool park(struct worker *w)
{
    struct pool *pool = w->pool;
    struct park *p = &pool->park;
    uint32_t epoch = event_prepare(p->event);

    park_search_end(p);
    /* The second look, after both announcements: see park.h. */
    if (has_roots(pool) || worker_look(w, NULL)) {
        event_cancel(p->event);
        return true;
    }
    /* Nothing anywhere. Had a task that runs elsewhere more to say, its worker would be busy. The close came before its
     * notify-all, so the last one here either sees it or is woken by it. */
    bool last = atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1;
    if (last && atomic_load_explicit(&pool->closing, memory_order_seq_cst)) {
        atomic_store_explicit(&pool->ended, true, memory_order_release);
        event_notify(p->event, UINT32_MAX, p->shared);
    }
    if (atomic_load_explicit(&pool->ended, memory_order_acquire)) {
        event_cancel(p->event);
        return false;
    }
    deque_trim_owner(&w->deque);
    COUNT(w, parks);
    trace_event(w, TRACE_SLEEP, TRACE_NOBODY);
    event_wait(p->event, epoch, UINT64_MAX, p->shared);
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

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    const struct pool_options *o = &w->pool->options;
    struct found f;
    char name[16];

    snprintf(name, sizeof(name), "wsd-w%u", w->public.index);
    pthread_setname_np(pthread_self(), name);
    worker_current = w;
    find_stack(w);
    if (o->worker_start)
        o->worker_start(&w->public, w->public.index, o->context);
    do {
        /* As a searcher first: that takes back the bit of whoever woke us. Between two tasks once without, which is
         * cheaper. */
        for (bool found = search(w, &f); found; found = find_once(w, &f) || search(w, &f))
            run_found(w, &f);
    } while (park(w));
    if (o->worker_stop)
        o->worker_stop(&w->public, w->public.index, o->context);
    return NULL;
}

/* --- the pool --- */

static struct worker *worker_free(struct worker *w)
{
    if (!w)
        return NULL;
    worker_free_overflow(w);
    trace_worker_deinit(&w->trace);
    deque_deinit(&w->deque);
    free(w);
    return NULL;
}

static int worker_new(struct worker **ret_worker, struct pool *pool, uint32_t index)
{
    struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    *w = (struct worker){.pool = pool, .random = index * 2654435761u + 1};
    w->public = (struct wsd_worker){.size = sizeof(w->public), .index = index, .ops = &worker_ops};
    list_init(&w->joiner.link);
    event_init(&w->joiner.event);
    batch_init(&w->batch);
    r = deque_init(&w->deque, &w->public, pool->options.task_bytes, pool->eager);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret_worker = w;
    return 0;
}

static void pool_destroy(struct pool *pool)
{
    if (pool->all)
        for (uint32_t i = 0; i < pool->options.workers + POOL_GUESTS_MAX; i++)
            worker_free(pool->all[i]);
    free(pool->all);
    trace_deinit(&pool->trace);
    injector_deinit(&pool->injector);
    park_deinit(&pool->park);
    pthread_mutex_destroy(&pool->close_lock);
    pthread_mutex_destroy(&pool->guests_lock);
    free(pool);
}

/* Ends the n workers that were started. */
static void stop_workers(struct pool *pool, uint32_t n)
{
    injector_close(&pool->injector);
    atomic_store_explicit(&pool->closing, true, memory_order_seq_cst);
    event_notify(pool->park.event, UINT32_MAX, pool->park.shared);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(pool->all[i]->thread, NULL);
}

static int start_workers(struct pool *pool)
{
    uint32_t n = pool->options.workers;
    pthread_attr_t attr;
    int r;

    pthread_attr_init(&attr);
    r = pthread_attr_setstacksize(&attr, pool->options.stack_size ? pool->options.stack_size : STACK_DEFAULT);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        r = pthread_create(&pool->all[i]->thread, &attr, worker_main, pool->all[i]);
        if (r != 0) {
            /* The missing ones will never sleep. */
            atomic_fetch_sub_explicit(&pool->busy, n - i, memory_order_acq_rel);
            stop_workers(pool, i);
        }
    }
    pthread_attr_destroy(&attr);
    return -r;
}

/* That this process may use. */
static int cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

int pool_new(struct pool **ret_pool, const struct pool_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint32_t n = options->workers;
    struct pool *pool;
    int r = 0;

    if (n < 1 || n > POOL_WORKERS_MAX || (options->source.take && !options->source.ready))
        return -EINVAL;
    pthread_once(&once, watch_forks);
    pool = aligned_alloc(CACHE_LINE, (sizeof(*pool) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!pool)
        return -ENOMEM;
    *pool = (struct pool){.options = *options, .eager = options->eager || !deque_revoke_available()};
    event_init(&pool->own_event);
    injector_init(&pool->injector);
    park_init(&pool->park, options->event ? options->event : &pool->own_event, options->event && options->event_shared);
    pthread_mutex_init(&pool->close_lock, NULL);
    pthread_mutex_init(&pool->guests_lock, NULL);
    trace_init(&pool->trace);
    pool->crowded = n > (uint32_t)cpus();
    atomic_init(&pool->busy, n);
    atomic_init(&pool->victims, n);
    pool->all = calloc(n + POOL_GUESTS_MAX, sizeof(struct worker *));
    if (!pool->all)
        r = -ENOMEM;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = worker_new(&pool->all[i], pool, i);
    if (r == 0)
        r = start_workers(pool);
    if (r < 0) {
        pool_destroy(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

int pool_submit(struct pool *pool, struct pool_node *node)
{
    pool_check_fork();
    int r = injector_push(&pool->injector, node, worker_current && worker_current->pool == pool);

    /* The loads suffice: the push is a seq_cst CAS, as a sleeper's announcement is. */
    if (r == 0 && park_has_sleepers(&pool->park))
        park_wake_root(&pool->park);
    return r;
}

void pool_close(struct pool *pool)
{
    pool_check_fork();
    assert(!worker_current || worker_current->pool != pool);
    pthread_mutex_lock(&pool->close_lock);
    if (!pool->joined)
        stop_workers(pool, pool->options.workers);
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

/* --- guests --- */

static struct worker *guest_borrow(struct pool *pool)
{
    struct worker *w = NULL;

    pthread_mutex_lock(&pool->guests_lock);
    for (uint32_t i = pool->options.workers; i < pool->options.workers + POOL_GUESTS_MAX; i++) {
        if (!pool->all[i]) {
            if (worker_new(&pool->all[i], pool, i) < 0)
                break;
            /* Release: partner is the thieves' acquire, who then read all[i]. */
            atomic_store_explicit(&pool->victims, i + 1, memory_order_release);
        }
        if (!pool->all[i]->lent) {
            w = pool->all[i];
            w->lent = true;
            break;
        }
    }
    pthread_mutex_unlock(&pool->guests_lock);
    return w;
}

static void guest_return(struct worker *w)
{
    deque_trim_owner(&w->deque);
    pthread_mutex_lock(&w->pool->guests_lock);
    w->lent = false;
    pthread_mutex_unlock(&w->pool->guests_lock);
}

/* Runs what f holds on the calling thread, which is w meanwhile. */
static void guest_run(struct worker *w, const struct found *f)
{
    struct worker *outer = worker_current;

    worker_current = w;
    w->stack_floor = (char *)__builtin_frame_address(0) - GUEST_STACK;
    run_found(w, f);
    worker_current = outer;
}

/* The last thing that a guest does. A worker that found nothing while we were busy may be the one to end the pool. */
static void guest_leave(struct pool *pool)
{
    bool last = atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1;

    if (last && atomic_load_explicit(&pool->closing, memory_order_seq_cst))
        event_notify(pool->park.event, UINT32_MAX, pool->park.shared);
}

bool pool_try_run_one(struct pool *pool)
{
    struct found f = {0};

    assert(!worker_current || worker_current->pool != pool);
    if (!has_roots(pool) && !has_tasks(pool))
        return false;
    struct worker *w = guest_borrow(pool);
    if (!w)
        return false;
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_acq_rel);
    f.root = take_root(w);
    bool found = f.root || worker_steal(w, &f.task);
    if (found)
        guest_run(w, &f);
    guest_return(w);
    guest_leave(pool);
    return found;
}

/* A root that somebody waits for. */
struct awaited {
    struct pool_node node; /* first */
    struct pool_node *what;
    struct event event;
    _Atomic uint32_t done; /* 1: it has run; 2: nobody touches this any more */
};

static void run_awaited(struct pool_node *node, struct wsd_worker *self)
{
    struct awaited *a = (struct awaited *)(void *)node;

    a->what->run(a->what, self);
    atomic_store_explicit(&a->done, 1, memory_order_seq_cst);
    event_notify(&a->event, 1, false);
    atomic_store_explicit(&a->done, 2, memory_order_release);
}

static int submit_and_wait(struct pool *pool, struct pool_node *node)
{
    struct awaited a = {.node = {.run = run_awaited}, .what = node};
    int r = pool_submit(pool, &a.node);

    if (r < 0)
        return r;
    while (atomic_load_explicit(&a.done, memory_order_seq_cst) == 0) {
        uint32_t epoch = event_prepare(&a.event);
        if (atomic_load_explicit(&a.done, memory_order_seq_cst))
            event_cancel(&a.event);
        else
            event_wait(&a.event, epoch, UINT64_MAX, false);
    }
    while (atomic_load_explicit(&a.done, memory_order_acquire) != 2)
        sched_yield();
    return 0;
}

int pool_run(struct pool *pool, struct pool_node *node)
{
    struct found f = {.root = node};
    int r = 0;

    pool_check_fork();
    assert(!worker_current || worker_current->pool != pool);
    struct worker *w = guest_borrow(pool);
    if (!w)
        return submit_and_wait(pool, node);
    /* seq_cst: partner is the closer's store; the pool does not end while we are counted. */
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->closing, memory_order_seq_cst))
        r = -ESHUTDOWN;
    else
        guest_run(w, &f);
    guest_return(w);
    guest_leave(pool);
    return r;
}

/* --- counters --- */

uint32_t pool_workers(const struct pool *pool)
{
    return pool->options.workers;
}

uint32_t pool_workers_seen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->victims, memory_order_acquire);
}

int pool_set_workers(struct pool *pool, uint32_t n)
{
    if (n < 1 || n > POOL_WORKERS_MAX)
        return -EINVAL;
    return n == pool->options.workers ? 0 : -ENOSYS;
}

void pool_worker_counters(const struct pool *pool, uint32_t index, struct pool_counters *ret)
{
    const struct worker *w = pool->all[index];

#define READ(what) .what = atomic_load_explicit(&w->count.what, memory_order_relaxed)
    *ret = (struct pool_counters){READ(roots),  READ(published), READ(stolen), READ(failed_steals), READ(parks),
                                  READ(wakeups), READ(helped),   READ(overflows), READ(revoked)};
#undef READ
}
