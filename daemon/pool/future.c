/* SPDX-License-Identifier: Apache-2.0
 *
 * future.c: wsd/future.h over ready lists.
 * Owns nothing: a future is its user's memory.
 * future_begin() [worker]; the others [any thread].
 * Keeps: a future is computed once. A waiting thread sleeps or helps, and is told. Nothing here touches a future once
 * it is OVER.
 *
 * pool.futures counts futures that are begun and not done. A join looks at it before it takes an unrelated task: that
 * task might wait for a future that the join belongs to, and would be on top of it. Relaxed suffices. A future that the
 * join belongs to, or is to set, was begun before, by a task that this one descends from or that handed it the address.
 * The count was raised before that.
 * One case is not covered: a task learns only after its join of a future that it is to set. The task that begins this
 * future and waits for it may be an unrelated task on top of that very join, which could not be known when it was
 * taken. Hence the rule about promises in wsd/future.h. */
#include "pool/future.h"

#include <sched.h>

#include "base/cleanup.h"
#include "pool/guest.h"
#include "pool/join.h"
#include "pool/measure.h"
#include "pool/worker.h"

enum future_state {
    FUTURE_EMPTY,
    FUTURE_QUEUED,
    FUTURE_RUNNING,
    FUTURE_DONE, /* the result is there */
    FUTURE_OVER, /* and the thread that computed it is gone */
};

struct future {
    const struct wsd_task_ops *ops;
    struct ready ready;
    struct pool *pool;
    void *context;
    /* [atomic: release after fn, arg and after value, error; acquire by all; seq_cst against sleepers] */
    _Atomic uint32_t state;
    int error;
    wsd_future_fn *fn;
    void *arg, *value;
    struct eventcount event;
    uint64_t run_origin;             /* of the runner, while it runs [runner] */
    _Atomic(struct worker *) runner; /* [atomic: release after run_origin] */
};

_Static_assert(sizeof(struct future) <= sizeof(struct wsd_future), "the future of wsd/future.h is too small");

static struct future *future_of(struct wsd_future *future)
{
    return (struct future *)(void *)future;
}

void future_begin(struct wsd_worker *self, struct wsd_future *future)
{
    struct worker *w = worker_of(self);
    struct future *f = future_of(future);

    pool_check_fork();
    measure_hidden(w->pool->options.measure);
    *f = (struct future){.ops = self->ops, .pool = w->pool, .context = self->context};
    list_init(&f->ready.link);
    eventcount_init(&f->event);
    atomic_fetch_add_explicit(&w->pool->futures, 1, memory_order_relaxed);
}

static void finish_future(struct future *f, void *value, int error)
{
    f->value = value;
    f->error = error;
    atomic_fetch_sub_explicit(&f->pool->futures, 1, memory_order_relaxed);
    atomic_store_explicit(&f->state, FUTURE_DONE, memory_order_seq_cst);
    eventcount_notify(&f->event, UINT32_MAX, false);
    atomic_store_explicit(&f->state, FUTURE_OVER, memory_order_release);
}

/* inside: in a wait for it, so on top of another task. */
static void compute(struct future *f, struct worker *w, bool inside)
{
    const struct pool_options *o = &w->pool->options;
    void *outer = w->public.context, *context = f->context, *value = NULL;
    uint64_t origin = atomic_load_explicit(&w->deque.origin, memory_order_relaxed);
    struct wsd_task *top = w->public.top;
    bool hooks = !inside || outer != context;

    COUNT(w, ready);
    if (inside) /* what it has spawned has the origin, and perhaps the context, of the task below it */
        deque_publish_owner(&w->deque);
    worker_new_origin(w);
    f->run_origin = w->origins;
    atomic_store_explicit(&f->state, FUTURE_RUNNING, memory_order_relaxed);
    atomic_store_explicit(&f->runner, w, memory_order_release);
    w->public.context = context;
    if (hooks && o->task_enter)
        o->task_enter(&w->public, context, outer, o->context);
    int error = f->fn(&w->public, f->arg, &value);
    if (w->public.top != top)
        pool_broken("a future's function returned without joining its children");
    if (hooks && o->task_leave)
        o->task_leave(&w->public, context, outer, o->context);
    w->public.context = outer;
    atomic_store_explicit(&w->deque.origin, origin, memory_order_relaxed);
    finish_future(f, value, error);
}

static void run_ready(struct ready *r, struct worker *w)
{
    compute(container_of(r, struct future, ready), w, false);
}

static void take_turn(struct future *f, enum future_state to)
{
    uint32_t empty = FUTURE_EMPTY;

    if (!atomic_compare_exchange_strong_explicit(&f->state, &empty, to, memory_order_seq_cst, memory_order_relaxed))
        pool_broken("a future was started or set twice");
}

void future_start(struct wsd_worker *self, struct wsd_future *future, wsd_future_fn *fn, void *arg)
{
    struct future *f = future_of(future);

    pool_check_fork();
    f->fn = fn;
    f->arg = arg;
    f->ready.run = run_ready;
    f->ready.home = self ? worker_of(self) : f->pool->all[0];
    take_turn(f, FUTURE_QUEUED);
    ready_push(&f->ready, &f->event);
}

void future_set(struct wsd_future *future, void *value, int error)
{
    struct future *f = future_of(future);

    take_turn(f, FUTURE_RUNNING);
    finish_future(f, value, error);
}

static bool future_over(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin)
{
    const struct future *f = wait->what;
    uint32_t state = atomic_load_explicit(&f->state, memory_order_seq_cst);

    if (state == FUTURE_RUNNING) {
        *ret_thief = atomic_load_explicit(&f->runner, memory_order_acquire);
        *ret_origin = *ret_thief ? f->run_origin : 0;
    }
    /* QUEUED: to be computed here, or about to run. */
    return state >= FUTURE_DONE || state == FUTURE_QUEUED;
}

static void wait_outside(struct future *f)
{
    while (atomic_load_explicit(&f->state, memory_order_seq_cst) < FUTURE_DONE) {
        if (atomic_load_explicit(&f->state, memory_order_seq_cst) == FUTURE_QUEUED &&
            guest_run_ready(f->pool, &f->ready))
            continue;
        uint32_t epoch = eventcount_prepare(&f->event);
        if (atomic_load_explicit(&f->state, memory_order_seq_cst) >= FUTURE_DONE)
            eventcount_cancel(&f->event);
        else
            eventcount_wait(&f->event, epoch, UINT64_MAX, false);
    }
}

int future_wait(struct wsd_worker *self, struct wsd_future *future, void **ret_value)
{
    struct future *f = future_of(future);

    pool_check_fork();
    if (!self)
        wait_outside(f);
    while (atomic_load_explicit(&f->state, memory_order_acquire) < FUTURE_DONE) {
        const struct wait wait = {.over = future_over, .what = f, .event = &f->event, .future = true};
        if (atomic_load_explicit(&f->state, memory_order_acquire) != FUTURE_QUEUED)
            worker_wait(worker_of(self), &wait);
        else if (ready_remove(&f->ready))
            compute(f, worker_of(self), true);
        else
            sched_yield(); /* a thread is about to run it */
    }
    /* Acquire: partner is the release of the last touch. */
    while (atomic_load_explicit(&f->state, memory_order_acquire) != FUTURE_OVER)
        sched_yield();
    if (ret_value)
        *ret_value = f->value;
    return f->error;
}

bool future_done(const struct wsd_future *future)
{
    const struct future *f = (const struct future *)(const void *)future;

    return atomic_load_explicit(&f->state, memory_order_acquire) == FUTURE_OVER;
}

bool future_help(struct wsd_future *future)
{
    return pool_try_run_one(future_of(future)->pool);
}
