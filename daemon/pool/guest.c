/* SPDX-License-Identifier: Apache-2.0
 *
 * guest.c: outside threads that help: each is a worker for as long as it runs one root, task or ready piece.
 * Owns the guests' workers; they are made once and lent again.
 * Everything here [any but workers].
 * Keeps: the pool does not end while a guest is in it. */
#include "pool/guest.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>

#include "base/cleanup.h"
#include "pool/crew.h"
#include "pool/find.h"
#include "pool/join.h"
#include "pool/run.h"
#include "pool/worker.h"

static struct worker *guest_borrow(struct pool *pool)
{
    struct worker *w = NULL;

    pthread_mutex_lock(&pool->crew_lock);
    for (uint32_t i = 0; i < pool->options.guests && !w; i++) {
        if (!pool->guests[i]) {
            if (crew_new_worker(&pool->guests[i], pool) < 0)
                break;
            pool->guests[i]->guest = true;
        }
        if (!pool->guests[i]->lent)
            w = pool->guests[i];
    }
    if (w)
        w->lent = true;
    pthread_mutex_unlock(&pool->crew_lock);
    return w;
}

static void guest_return(struct worker *w)
{
    deque_trim_owner(&w->deque);
    pthread_mutex_lock(&w->pool->crew_lock);
    w->lent = false;
    pthread_mutex_unlock(&w->pool->crew_lock);
}

/* Runs what f holds on the calling thread, which is w meanwhile. */
static void guest_run(struct worker *w, const struct found *f)
{
    struct worker *outer = worker_current;

    worker_current = w;
    w->stack_floor = (char *)__builtin_frame_address(0) - GUEST_STACK;
    worker_run(w, f);
    worker_current = outer;
}

bool pool_is_here(const struct pool *pool)
{
    return worker_current && worker_current->pool == pool;
}

bool pool_try_run_one(struct pool *pool)
{
    struct found f = {0};

    assert(!pool_is_here(pool));
    if (!pool_has_roots(pool) && !pool_has_tasks(pool))
        return false;
    struct worker *w = guest_borrow(pool);
    if (!w)
        return false;
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_acq_rel);
    f.root = worker_take_root(w);
    bool found = f.root || worker_steal(w, &f.task) || worker_find(w, &f);
    if (found)
        guest_run(w, &f);
    guest_return(w);
    pool_leave(pool);
    return found;
}

/* A root that a thread waits for. */
struct awaited {
    struct pool_node node; /* first */
    struct pool_node *what;
    struct eventcount event;
    _Atomic uint32_t done; /* 1: it has run; 2: no other thread touches this */
};

static void run_awaited(struct pool_node *node, struct wsd_worker *self)
{
    struct awaited *a = (struct awaited *)(void *)node;

    a->what->run(a->what, self);
    atomic_store_explicit(&a->done, 1, memory_order_seq_cst);
    eventcount_notify(&a->event, 1, false);
    atomic_store_explicit(&a->done, 2, memory_order_release);
}

static int submit_and_wait(struct pool *pool, struct pool_node *node)
{
    struct awaited a = {.node = {.run = run_awaited}, .what = node};
    int r = pool_submit(pool, &a.node);

    if (r < 0)
        return r;
    while (atomic_load_explicit(&a.done, memory_order_seq_cst) == 0) {
        uint32_t epoch = eventcount_prepare(&a.event);
        if (atomic_load_explicit(&a.done, memory_order_seq_cst))
            eventcount_cancel(&a.event);
        else
            eventcount_wait(&a.event, epoch, UINT64_MAX, false);
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
    assert(!pool_is_here(pool));
    struct worker *w = guest_borrow(pool);
    if (!w)
        return submit_and_wait(pool, node);
    /* seq_cst: partner is the closer's store; the pool does not end while this thread is counted. */
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->closing, memory_order_seq_cst))
        r = -ESHUTDOWN;
    else
        guest_run(w, &f);
    guest_return(w);
    pool_leave(pool);
    return r;
}

bool guest_run_ready(struct pool *pool, struct ready *r)
{
    struct found f = {.ready = r};
    struct worker *w = guest_borrow(pool);

    if (!w)
        return false;
    /* No look at `closing`: what belongs to a running root must run. */
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_seq_cst);
    bool there = ready_remove(r);
    if (there)
        guest_run(w, &f);
    guest_return(w);
    pool_leave(pool);
    return there;
}

struct until {
    bool (*over)(const void *arg);
    const void *arg;
};

static bool until_over(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin)
{
    const struct until *u = wait->what;

    return u->over(u->arg);
}

void pool_help_until(struct pool *pool, struct eventcount *event, bool (*over)(const void *arg), const void *arg)
{
    const struct until u = {.over = over, .arg = arg};
    const struct wait wait = {.over = until_over, .what = &u, .event = event, .future = true};

    pool_check_fork();
    if (pool_is_here(pool)) {
        worker_wait(worker_current, &wait);
        return;
    }
    while (!over(arg)) {
        if (pool_try_run_one(pool))
            continue;
        uint32_t epoch = eventcount_prepare(event);
        if (over(arg))
            eventcount_cancel(event);
        else
            eventcount_wait(event, epoch, UINT64_MAX, false);
    }
}
