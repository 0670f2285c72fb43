/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c: the slow paths of wsd/task.h: publishing, waiting for a stolen child, a full task stack.
 * Owns the results of children that found the stack full. Everything here runs on the worker whose `self` it is given.
 * Keeps: a join returns only when its child is done; it takes no new roots, and no unrelated task once half of the
 * stack is used; it sleeps rather than burn.
 * Does not decide who is woken (park.c) or how tasks move (deque.c). */
#include "pool/worker.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* How long a join looks for other work before it sleeps: about what a wake-up costs. */
#define JOIN_SPIN_USEC    20
#define JOIN_RELAX_ROUNDS 64

#define OVERFLOW_CHUNK 65536u
#define OVERFLOW_ALIGN 16u

struct overflow_chunk {
    struct overflow_chunk *older;
    size_t used;
    _Alignas(OVERFLOW_ALIGN) unsigned char data[OVERFLOW_CHUNK];
};

void pool_broken(const char *what)
{
    fprintf(stderr, "wsd: a task broke the rules of wsd/task.h: %s\n", what);
    abort();
}

static struct worker *worker_of(struct wsd_worker *self)
{
    return (struct worker *)(void *)self;
}

/* Keeps the result of a child that ran inside its spawn until the sync. */
static void overflow_push(struct worker *w, const struct wsd_task *t, uint32_t size)
{
    size_t room = (size + OVERFLOW_ALIGN - 1) / OVERFLOW_ALIGN * OVERFLOW_ALIGN;
    struct overflow_chunk *c = w->overflow;

    if (w->overflow_count++ == 0)
        deque_set_overflowed_owner(&w->deque, true);
    if (room == 0)
        return;
    if (!c || c->used + room > OVERFLOW_CHUNK) {
        c = malloc(sizeof(*c));
        if (!c) {
            /* The result has no other place, and a spawn cannot fail. */
            fputs("wsd: out of memory for the results of spawned tasks\n", stderr);
            abort();
        }
        c->older = w->overflow;
        c->used = 0;
        w->overflow = c;
    }
    memcpy(c->data + c->used, t->data, size);
    c->used += room;
}

/* Gives back the youngest such result, in the scratch slot. */
static struct wsd_task *overflow_pop(struct worker *w, uint32_t size)
{
    size_t room = (size + OVERFLOW_ALIGN - 1) / OVERFLOW_ALIGN * OVERFLOW_ALIGN;
    struct wsd_task *t = w->deque.limit;

    if (room) {
        struct overflow_chunk *c = w->overflow;
        if (!c || c->used < room)
            pool_broken("a sync is not that of the youngest spawn");
        c->used -= room;
        memcpy(t->data, c->data + c->used, size);
        if (c->used == 0) {
            w->overflow = c->older;
            free(c);
        }
    }
    if (--w->overflow_count == 0)
        deque_set_overflowed_owner(&w->deque, false);
    return t;
}

void worker_free_overflow(struct worker *w)
{
    while (w->overflow) {
        struct overflow_chunk *c = w->overflow;
        w->overflow = c->older;
        free(c);
    }
}

static void task_spawn(struct wsd_worker *self, struct wsd_task *t, uint32_t result_size)
{
    struct worker *w = worker_of(self);
    bool published;

    if (!deque_pushed_owner(&w->deque, t, &published)) {
        COUNT(w, overflows);
        t->run(self, t);
        overflow_push(w, t, result_size);
        return;
    }
    if (published) {
        COUNT(w, published);
        park_wake_task(&w->pool->park);
    }
}

void worker_run_stolen(struct worker *w, struct worker *victim, struct wsd_task *t, void *context)
{
    const struct pool_options *o = &w->pool->options;
    struct wsd_task *top = w->public.top;
    void *outer = w->public.context;

    /* Release: partner is the owner's acquire in his join, who steals back from us. */
    __atomic_store_n(&t->state, (uintptr_t)w, __ATOMIC_RELEASE);
    w->public.context = context;
    if (o->task_enter)
        o->task_enter(&w->public, context, outer, o->context);
    t->run(&w->public, t);
    if (w->public.top != top)
        pool_broken("a task returned without joining its children");
    if (o->task_leave)
        o->task_leave(&w->public, context, outer, o->context);
    w->public.context = outer;
    /* Release: partner is the owner's acquire in his join, who then reads the result. The slot is his from here on. */
    __atomic_store_n(&t->state, TASK_DONE, __ATOMIC_RELEASE);
    event_notify(&victim->joiner.event, 1, false);
}

static bool is_done(const struct wsd_task *t)
{
    return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == TASK_DONE;
}

/* Who runs t, or NULL where he has not said so yet. */
static struct worker *thief_of(const struct wsd_task *t)
{
    uintptr_t state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);

    return state == TASK_DONE || state == TASK_FREE ? NULL : (struct worker *)state;
}

/* Whether this worker may take tasks that have nothing to do with what it waits for: they pile up on both stacks. What
 * is stolen back from the thief needs no such bound: it lies deeper in the tree than the waiting task, so the depth of
 * the tree bounds it. */
static bool has_room(const struct worker *w)
{
    const struct deque *d = &w->deque;

    return (char *)__builtin_frame_address(0) > w->stack_floor && w->public.top - d->base < (d->limit - d->base) / 2;
}

/* Runs one task while t is not done: its thief's first. */
static bool help(struct worker *w, const struct wsd_task *t)
{
    struct worker *victim = thief_of(t);
    struct wsd_task *other = NULL;
    void *context;

    if (victim)
        other = worker_steal_from(w, victim, &context);
    if (!other && has_room(w))
        other = worker_steal(w, &victim, &context);
    if (!other)
        return false;
    COUNT(w, helped);
    worker_run_stolen(w, victim, other, context);
    return true;
}

/* Sleeps until t is done or, where there is room, a task may be there to help with. */
static void join_sleep(struct worker *w, const struct wsd_task *t)
{
    struct park *p = &w->pool->park;
    bool any = has_room(w);

    if (any)
        park_joiner_add(p, &w->joiner);
    uint32_t epoch = event_prepare(&w->joiner.event);
    /* The second look, after both announcements. */
    struct worker *thief = thief_of(t);
    if (is_done(t) || (any && worker_look(w, NULL)) || (!any && thief && worker_look(w, thief))) {
        event_cancel(&w->joiner.event);
    } else {
        COUNT(w, parks);
        event_wait(&w->joiner.event, epoch, UINT64_MAX, false);
    }
    if (any)
        park_joiner_remove(p, &w->joiner);
}

static void join_stolen(struct worker *w, struct wsd_task *t)
{
    uint64_t deadline = 0;

    for (uint32_t round = 1; !is_done(t); round++) {
        if (help(w, t)) {
            round = 0;
            deadline = 0;
        } else if (round < JOIN_RELAX_ROUNDS) {
            worker_relax();
        } else {
            uint64_t now = clock_monotonic_usec();
            if (deadline == 0)
                deadline = now + JOIN_SPIN_USEC;
            if (now < deadline) {
                sched_yield(); /* the thief may be waiting for this CPU */
                continue;
            }
            join_sleep(w, t);
            round = 0;
            deadline = 0;
        }
    }
    deque_joined_owner(&w->deque, t);
}

static struct wsd_task *task_sync(struct wsd_worker *self, struct wsd_task *t, uint32_t result_size)
{
    struct worker *w = worker_of(self);
    bool published;

    if (w->overflow_count) {
        __atomic_store_n(&self->top, t + 1, __ATOMIC_RELEASE);
        return overflow_pop(w, result_size);
    }
    if (t < w->deque.base)
        pool_broken("a sync without a spawn");
    bool mine = deque_popped_owner(&w->deque, t, &published);
    if (published) {
        COUNT(w, published);
        park_wake_task(&w->pool->park);
    }
    if (mine)
        return NULL;
    join_stolen(w, t);
    return t;
}

WSD_VOID_TASK_5(for_piece, uint64_t, begin, uint64_t, end, uint64_t, grain, wsd_for_fn *, body, void *, arg)
{
    uint32_t spawned = 0;

    /* The far halves first, so that thieves get the largest. At most 64. */
    while (end - begin > grain) {
        uint64_t middle = begin + (end - begin) / 2;
        WSD_SPAWN(for_piece, middle, end, grain, body, arg);
        spawned++;
        end = middle;
    }
    body(self, begin, end, arg);
    while (spawned--)
        WSD_SYNC(for_piece);
}

static void task_for(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body, void *arg)
{
    if (end <= begin)
        return;
    if (grain == 0)
        grain = MAX((end - begin) / (8 * (uint64_t)pool_workers(worker_of(self)->pool)), 1);
    WSD_CALL(for_piece, begin, end, grain, body, arg);
}

const struct wsd_task_ops worker_ops = {
    .size = sizeof(struct wsd_task_ops),
    .spawn = task_spawn,
    .sync = task_sync,
    .for_range = task_for,
};
