/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c: the slow paths of wsd/task.h: publishing, waiting for a stolen child, a full task stack.
 * Owns the results of children that found the stack full. Everything here runs on the worker of its `self`. Keeps: a
 * join returns only when its child is done. It takes no new roots. It takes no unrelated task once half of the stack is
 * used, or if another task may wait for what the join belongs to (futures, locks). It sleeps rather than spins.
 * Does not decide which worker is woken (park.c) or how tasks move (deque.c). */
#include "pool/join.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ticks.h"
#include "pool/crew.h"
#include "pool/find.h"
#include "pool/measure.h"
#include "pool/run.h"

/* How long a join looks for other work before it sleeps: about what a wake-up costs. */
#define JOIN_SPIN_USEC    20
#define JOIN_RELAX_ROUNDS 64

#define OVERFLOW_CHUNK 65536u

struct overflow_chunk {
    struct overflow_chunk *older;
    size_t used;
    _Alignas(OVERFLOW_ALIGN) unsigned char data[OVERFLOW_CHUNK];
};

/* The number of children that ran inside their spawn and lie, in the order of spawns, below slot `at`. */
struct overflow_level {
    struct wsd_task *at;
    uint64_t done;
};

static size_t overflow_room(uint32_t size)
{
    return (size + OVERFLOW_ALIGN - 1) / OVERFLOW_ALIGN * OVERFLOW_ALIGN;
}

/* Copies whole words: cheaper than a call of memcpy() of unknown size. */
static void copy_rooms(unsigned char *to, const unsigned char *from, size_t room)
{
    for (size_t i = 0; i < room; i += OVERFLOW_ALIGN)
        memcpy(to + i, from + i, OVERFLOW_ALIGN);
}

static void overflow_grow(struct worker *w)
{
    struct overflow_chunk *c = w->overflow_spare ? w->overflow_spare : malloc(sizeof(*c));

    if (!c)
        pool_out_of_memory();
    w->overflow_spare = NULL;
    c->older = w->overflow;
    c->used = 0;
    w->overflow = c;
}

static void level_push(struct worker *w, struct wsd_task *at)
{
    if (w->n_levels == w->levels_room) {
        uint32_t room = w->levels_room ? 2 * w->levels_room : 64;
        struct overflow_level *levels = realloc(w->levels, room * sizeof(*levels));
        if (!levels)
            pool_out_of_memory();
        w->levels = levels;
        w->levels_room = room;
    }
    w->levels[w->n_levels++] = (struct overflow_level){.at = w->public.level, .done = w->public.done};
    w->public.done = 0;
    deque_set_level_owner(&w->deque, at);
}

static void level_pop(struct worker *w)
{
    const struct overflow_level *outer = &w->levels[--w->n_levels];

    w->public.done = outer->done;
    deque_set_level_owner(&w->deque, outer->at);
}

/* Keeps the result of a child that ran inside its spawn until the sync. */
static void overflow_push(struct worker *w, struct wsd_task *t, size_t room)
{
    /* While it measures, each child is a level of its own, so that each sync comes here. */
    if (w->public.level != t || w->pool->options.measure)
        level_push(w, t);
    w->public.done++;
    if (room == 0)
        return;
    if (!w->overflow || w->overflow->used + room > OVERFLOW_CHUNK)
        overflow_grow(w);
    copy_rooms(w->overflow->data + w->overflow->used, WSD_DATA_(t), room);
    w->overflow->used += room;
}

/* Returns that result, in the scratch slot. */
static struct wsd_task *overflow_pop(struct worker *w, size_t room)
{
    struct wsd_task *t = (struct wsd_task *)(void *)w->scratch;

    if (room) {
        struct overflow_chunk *c = w->overflow;
        if (!c || c->used < room)
            pool_broken("a sync is not that of the youngest spawn");
        c->used -= room;
        copy_rooms(WSD_DATA_(t), c->data + c->used, room);
        if (c->used == 0) {
            w->overflow = c->older;
            free(w->overflow_spare);
            w->overflow_spare = c;
        }
    }
    if (--w->public.done == 0)
        level_pop(w);
    return t;
}

void worker_free_overflow(struct worker *w)
{
    free(w->levels);
    free(w->overflow_spare);
    while (w->overflow) {
        struct overflow_chunk *c = w->overflow;
        w->overflow = c->older;
        free(c);
    }
}

static void tell_published(struct worker *w)
{
    COUNT(w, published);
    pool_tell_task(w->pool);
}

/* The long form: thieves want tasks, or the stack has room again, or this is the child of a fork. */
__attribute__((noinline)) static bool spawn_pushed(struct worker *w, struct wsd_task *t)
{
    bool published;

    pool_check_fork();
    bool pushed = deque_pushed_owner(&w->deque, t, &published);
    if (published)
        tell_published(w);
    return pushed;
}

/* Runs the child here, as if the stack were full, and says where its strands begin and end. */
__attribute__((noinline)) static void spawn_measured(struct worker *w, struct wsd_task *t,
                                                     const struct wsd_task_type *type)
{
    struct measure *m = w->pool->options.measure;

    pool_check_fork();
    wsd_task_top_(&w->public, t);
    w->public.inside++;
    const struct measure_path from = measure_spawn_begin(m);
    type->run(&w->public, t);
    measure_spawn_end(m, &from);
    w->public.inside--;
    overflow_push(w, t, overflow_room(type->result_size));
}

void task_spawn(struct wsd_worker *self, struct wsd_task *t)
{
    struct worker *w = worker_of(self);
    const struct wsd_task_type *type = (const void *)__atomic_load_n(&t->word, __ATOMIC_RELAXED);

    if (w->pool->options.measure) {
        spawn_measured(w, t, type);
        return;
    }
    if (!deque_refuses_owner(&w->deque, t) && spawn_pushed(w, t))
        return;
    COUNT(w, overflows);
    self->inside++;
    self->refuse = NULL;
    type->run(self, t);
    self->inside--;
    overflow_push(w, t, overflow_room(type->result_size));
    /* If its children have raised the bound. Relaxed: the value is our own, or a trap. */
    if (__atomic_load_n(&self->hi, __ATOMIC_RELAXED) > t)
        deque_lower_owner(&w->deque);
    self->refuse = t;
}

void task_lower(struct wsd_worker *self)
{
    struct worker *w = worker_of(self);
    struct wsd_task *refuse = self->refuse;

    deque_lower_owner(&w->deque);
    self->refuse = refuse;
}

/* Whether this worker may take tasks unrelated to what it waits for. Such tasks pile up on both stacks. They may also
 * wait for a lock that is held across this join, or for a future that this join belongs to, and would then never end.
 * The same holds for what such a holder waits for, so `own` goes with the task. Tasks stolen back from the thief need
 * no such bound. They lie deeper in the tree than the waiting task, so the depth of the tree bounds them. They wait for
 * nothing above it. If more workers run than were asked for, a worker stops at a join: it sleeps until the join is
 * over. The other workers take what it leaves. */
static bool may_take_any(const struct worker *w)
{
    const struct deque *d = &w->deque;

    return (char *)__builtin_frame_address(0) > w->stack_floor && w->public.top - d->base < (d->limit - d->base) / 2 &&
           w->public.own == 0 && atomic_load_explicit(&w->pool->futures, memory_order_relaxed) == 0 &&
           !crew_surplus(w->pool);
}

/* If this join was woken for a task, a publisher of another task may have relied on that wake-up, or have woken a join
 * that had something better to do. So it looks whether something is left, as the last searcher does. */
static void pass_on(struct worker *w)
{
    if (!w->for_task)
        return;
    w->for_task = false;
    worker_wake_if_left(w);
}

/* A task that was stolen by mistake, for another worker to run. */
struct handed {
    struct ready ready; /* first */
    struct stolen stolen;
};

static void run_handed(struct ready *r, struct worker *w)
{
    struct handed *h = (struct handed *)(void *)r;
    struct stolen s = h->stolen;

    free(h);
    worker_run_stolen(w, &s, false);
}

/* Steals only what descends from what the thief began as `origin`. */
static bool steal_descendant(struct worker *w, struct worker *thief, uint64_t origin, struct stolen *ret)
{
    if (!worker_steal_origin(w, thief, origin, ret))
        return false;
    if (ret->entry->origin == origin)
        return true;
    /* The victim has begun something else between the look and the steal. */
    struct handed *h = malloc(sizeof(*h));
    if (!h)
        pool_out_of_memory();
    *h = (struct handed){.ready = {.home = w, .run = run_handed}, .stolen = *ret};
    ready_push(&h->ready, NULL);
    return false;
}

/* Runs one task while the awaited one runs on `thief` as part of `origin`: first what the awaited one spawned. */
static bool help(struct worker *w, const struct wait *wait, struct worker *thief, uint64_t origin)
{
    /* In a join, all that this worker had spawned is stolen. So what it publishes from now on belongs to what it waits
     * for. In a wait for a future that need not hold. */
    bool descendant = !wait->future;
    struct stolen s;

    if (!(thief && steal_descendant(w, thief, origin, &s))) {
        if (wait->future || !may_take_any(w) || !worker_steal(w, &s))
            return false;
        descendant = false;
    }
    pass_on(w);
    COUNT(w, helped);
    worker_run_stolen(w, &s, descendant);
    return true;
}

/* The second look, after all announcements. It finds only what help() may take. Otherwise a worker that keeps looking
 * at what it may not take would neither sleep nor let another worker take its place. */
static bool may_go_on(struct worker *w, const struct wait *wait, bool any)
{
    struct worker *thief = NULL;
    uint64_t origin = 0;

    if (wait->over(wait, &thief, &origin))
        return true;
    if (any)
        return worker_look(w, NULL);
    return thief && atomic_load_explicit(&thief->deque.origin, memory_order_relaxed) == origin &&
           worker_look(w, thief) && deque_has_origin_any(&thief->deque, origin);
}

static void wait_sleep(struct worker *w, const struct wait *wait)
{
    struct park *p = &w->pool->park;
    bool any = may_take_any(w) && !wait->future, go_on = false, slept = false;

    trace_event(w, TRACE_SLEEP, TRACE_NOBODY);
    /* First it sleeps as a running worker, then as a blocked one; another takes its place. */
    for (int blocks = 0; blocks < 2 && !go_on; blocks++) {
        if (blocks)
            crew_leave(w);
        /* Before it is in the list: a notify must reach every joiner that is taken off the list. */
        uint32_t epoch = eventcount_prepare(wait->event);
        if (any)
            park_joiner_add(p, &w->joiner);
        if (may_go_on(w, wait, any)) {
            eventcount_cancel(wait->event);
            go_on = true;
        } else {
            if (!slept)
                COUNT(w, parks);
            slept = true;
            go_on = eventcount_wait(wait->event, epoch, blocks ? UINT64_MAX : POOL_BLOCKS_AFTER_USEC, false);
        }
        if (any && !park_joiner_remove(p, &w->joiner))
            w->for_task = go_on = true;
        if (blocks)
            crew_return(w);
    }
    if (slept)
        COUNT(w, wakeups);
    trace_event(w, TRACE_SLEEP | TRACE_END, TRACE_NOBODY);
}

void worker_wait(struct worker *w, const struct wait *wait)
{
    struct worker *thief = NULL;
    uint64_t deadline = 0, origin = 0;

    trace_event(w, TRACE_JOIN, TRACE_NOBODY);
    if (wait->future) /* not after something with another origin has run here: it would be taken for part of that */
        deque_publish_owner(&w->deque);
    for (uint32_t round = 1; !wait->over(wait, &thief, &origin); round++) {
        if (help(w, wait, thief, origin)) {
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
            wait_sleep(w, wait);
            round = 0;
            deadline = 0;
        }
        thief = NULL;
    }
    pass_on(w);
    trace_event(w, TRACE_JOIN | TRACE_END, TRACE_NOBODY);
}

static bool task_over(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin)
{
    const struct deque_entry *e = wait->what;
    uintptr_t word = __atomic_load_n(&e->task->word, __ATOMIC_ACQUIRE);

    if (word & TASK_STOLEN) {
        *ret_thief = (struct worker *)(word & ~TASK_STOLEN);
        *ret_origin = e->run_origin;
    }
    return word == TASK_DONE;
}

static void join_stolen(struct worker *w, struct wsd_task *t)
{
    const struct wait wait = {.over = task_over, .what = deque_stolen_owner(&w->deque), .event = &w->joiner.event};

    worker_wait(w, &wait);
    deque_joined_owner(&w->deque, t);
}

__attribute__((noinline)) static struct wsd_task *sync_shared(struct worker *w, struct wsd_task *t,
                                                              struct wsd_task *next)
{
    bool published;

    pool_check_fork();
    if (t < w->deque.base)
        pool_broken("a sync without a spawn");
    bool mine = deque_popped_owner(&w->deque, t, next, &published);
    if (published)
        tell_published(w);
    if (mine)
        return NULL;
    join_stolen(w, t);
    return t;
}

struct wsd_task *task_sync(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type)
{
    struct worker *w = worker_of(self);
    struct wsd_task *next = wsd_task_at_(t, (ptrdiff_t)type->size);

    if (self->level != next)
        return sync_shared(w, t, next);
    wsd_task_top_(self, next);
    if (w->pool->options.measure)
        measure_sync(w->pool->options.measure);
    return overflow_pop(w, overflow_room(type->result_size));
}

/* --- the table for other languages --- */

struct word {
    wsd_word_fn *fn;
    uint64_t value; /* the argument, then the result */
};

static void word_run(struct wsd_worker *self, struct wsd_task *t)
{
    struct word *word = WSD_DATA_(t);
    uint64_t value = word->fn(self, word->value);

    word->fn = NULL;
    word->value = value;
}

static const struct wsd_task_type word_type = {word_run, WSD_SLOT_(struct word), sizeof(struct word)};

void task_spawn_word(struct wsd_worker *self, wsd_word_fn *fn, uint64_t arg)
{
    struct wsd_task *t = self->top;
    struct word *word = WSD_DATA_(t);

    word->fn = fn;
    word->value = arg;
    wsd_task_type_(t, &word_type);
    if (WSD_UNLIKELY_(wsd_task_push_(self, t, WSD_SLOT_(struct word))))
        task_spawn(self, t);
}

uint64_t task_sync_word(struct wsd_worker *self)
{
    struct wsd_task *t = wsd_task_at_(self->top, -(ptrdiff_t)WSD_SLOT_(struct word));
    struct word *word = WSD_DATA_(t);

    wsd_task_top_(self, t);
    if (WSD_UNLIKELY_(wsd_task_shared_(self, t))) {
        struct wsd_task *done = task_sync(self, t, &word_type);
        if (done)
            return ((struct word *)WSD_DATA_(done))->value;
    }
    return word->fn(self, word->value);
}

void task_blocking_begin(struct wsd_worker *self)
{
    pool_check_fork();
    crew_leave(worker_of(self));
}

void task_blocking_end(struct wsd_worker *self)
{
    struct worker *w = worker_of(self);

    if (w->away == 0)
        pool_broken("a wsd_blocking_end() without its begin");
    crew_return(w);
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

void task_for(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body, void *arg)
{
    pool_check_fork();
    if (end <= begin)
        return;
    if (grain == 0)
        grain = MAX((end - begin) / (8 * (uint64_t)pool_shown_workers(worker_of(self)->pool)), 1);
    WSD_CALL(for_piece, begin, end, grain, body, arg);
}
