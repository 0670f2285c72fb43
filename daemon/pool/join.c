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
#include "pool/forms.h"

/* How long a join looks for other work before it sleeps: about what a wake-up costs. */
#define JOIN_SPIN_USEC    20
#define JOIN_RELAX_ROUNDS 64

#define OVERFLOW_CHUNK 65536u

struct overflow_chunk {
    struct overflow_chunk *older;
    size_t used;
    _Alignas(OVERFLOW_ALIGN) unsigned char data[OVERFLOW_CHUNK];
};

/* So many children that ran inside their spawn lie, in the order of spawns, below slot `at`. */
struct overflow_level {
    struct wsd_task *at;
    uint64_t done;
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

static _Noreturn void out_of_memory(void)
{
    /* The result has no other place, and a spawn cannot fail. */
    fputs("wsd: out of memory for the results of spawned tasks\n", stderr);
    abort();
}

static size_t overflow_room(uint32_t size)
{
    return (size + OVERFLOW_ALIGN - 1) / OVERFLOW_ALIGN * OVERFLOW_ALIGN;
}

/* Whole rooms: less than a call of memcpy() where the size is not known before. */
static void copy_rooms(unsigned char *to, const unsigned char *from, size_t room)
{
    for (size_t i = 0; i < room; i += OVERFLOW_ALIGN)
        memcpy(to + i, from + i, OVERFLOW_ALIGN);
}

static void overflow_grow(struct worker *w)
{
    struct overflow_chunk *c = w->overflow_spare ? w->overflow_spare : malloc(sizeof(*c));

    if (!c)
        out_of_memory();
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
            out_of_memory();
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

bool worker_has_overflow(const struct worker *w)
{
    return w->public.level;
}

/* Keeps the result of a child that ran inside its spawn until the sync. */
static void overflow_push(struct worker *w, struct wsd_task *t, size_t room)
{
    if (w->public.level != t)
        level_push(w, t);
    w->public.done++;
    if (room == 0)
        return;
    if (!w->overflow || w->overflow->used + room > OVERFLOW_CHUNK)
        overflow_grow(w);
    copy_rooms(w->overflow->data + w->overflow->used, WSD_DATA_(t), room);
    w->overflow->used += room;
}

/* Gives it back, in the scratch slot. */
static struct wsd_task *overflow_pop(struct worker *w, size_t room)
{
    struct wsd_task *t = (struct wsd_task *)w->scratch;

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
    /* The loads suffice: the CAS that published is seq_cst, as a sleeper's announcement is. */
    if (park_has_sleepers(&w->pool->park))
        park_wake_task(&w->pool->park);
}

/* The long form: thieves want some, or the stack has room again, or this is the child of a fork. */
__attribute__((noinline)) static bool spawn_pushed(struct worker *w, struct wsd_task *t)
{
    bool published;

    pool_check_fork();
    bool pushed = deque_pushed_owner(&w->deque, t, &published);
    if (published)
        tell_published(w);
    return pushed;
}

static void task_spawn(struct wsd_worker *self, struct wsd_task *t)
{
    struct worker *w = worker_of(self);
    const struct wsd_task_type *type = (const void *)__atomic_load_n(&t->word, __ATOMIC_RELAXED);

    if (!deque_refuses_owner(&w->deque, t) && spawn_pushed(w, t))
        return;
    COUNT(w, overflows);
    self->inside++;
    self->refuse = NULL;
    type->run(self, t);
    self->inside--;
    overflow_push(w, t, overflow_room(type->result_size));
    /* Where its children have raised the bound. Relaxed: our own, or a trap. */
    if (__atomic_load_n(&self->hi, __ATOMIC_RELAXED) > t)
        deque_lower_owner(&w->deque);
    self->refuse = t;
}

static void task_lower(struct wsd_worker *self)
{
    struct worker *w = worker_of(self);
    struct wsd_task *refuse = self->refuse;

    deque_lower_owner(&w->deque);
    self->refuse = refuse;
}

static bool is_done(const struct wsd_task *t)
{
    return __atomic_load_n(&t->word, __ATOMIC_ACQUIRE) == TASK_DONE;
}

/* Who runs t, or NULL where he has not said so yet. */
static struct worker *thief_of(const struct wsd_task *t)
{
    uintptr_t word = __atomic_load_n(&t->word, __ATOMIC_ACQUIRE);

    return word & TASK_STOLEN ? (struct worker *)(word & ~TASK_STOLEN) : NULL;
}

void worker_run_stolen(struct worker *w, const struct stolen *s)
{
    const struct pool_options *o = &w->pool->options;
    struct wsd_task *t = s->entry.task, *top = w->public.top;
    const struct wsd_task_type *type = (const void *)__atomic_load_n(&t->word, __ATOMIC_RELAXED);
    void *outer = w->public.context;

    /* Release: partner is the owner's acquire in his join, who steals back from us. */
    __atomic_store_n(&t->word, (uintptr_t)w | TASK_STOLEN, __ATOMIC_RELEASE);
    w->public.context = s->entry.context;
    if (o->task_enter)
        o->task_enter(&w->public, s->entry.context, outer, o->context);
    trace_event(w, TRACE_TASK, s->victim->public.index);
    uint64_t begin = worker_ticks();
    type->run(&w->public, t);
    worker_weigh(w, worker_ticks() - begin);
    if (w->public.top != top)
        pool_broken("a task returned without joining its children");
    trace_event(w, TRACE_TASK | TRACE_END, s->victim->public.index);
    if (o->task_leave)
        o->task_leave(&w->public, s->entry.context, outer, o->context);
    w->public.context = outer;
    /* Release: partner is the owner's acquire in his join, who then reads the result. The slot is his from here on. */
    __atomic_store_n(&t->word, TASK_DONE, __ATOMIC_RELEASE);
    event_notify(&s->victim->joiner.event, 1, false);
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
    struct worker *thief = thief_of(t);
    struct stolen s;

    if (!(thief && worker_steal_from(w, thief, &s)) && !(has_room(w) && worker_steal(w, &s)))
        return false;
    COUNT(w, helped);
    worker_run_stolen(w, &s);
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
        trace_event(w, TRACE_SLEEP, TRACE_NOBODY);
        event_wait(&w->joiner.event, epoch, UINT64_MAX, false);
        trace_event(w, TRACE_SLEEP | TRACE_END, TRACE_NOBODY);
    }
    if (any)
        park_joiner_remove(p, &w->joiner);
}

static void join_stolen(struct worker *w, struct wsd_task *t)
{
    uint64_t deadline = 0;

    trace_event(w, TRACE_JOIN, TRACE_NOBODY);
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
    trace_event(w, TRACE_JOIN | TRACE_END, TRACE_NOBODY);
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

static struct wsd_task *task_sync(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type)
{
    struct worker *w = worker_of(self);
    struct wsd_task *next = wsd_task_at_(t, (ptrdiff_t)type->size);

    if (self->level != next)
        return sync_shared(w, t, next);
    wsd_task_top_(self, next);
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

static void task_spawn_word(struct wsd_worker *self, wsd_word_fn *fn, uint64_t arg)
{
    struct wsd_task *t = self->top;
    struct word *word = WSD_DATA_(t);

    word->fn = fn;
    word->value = arg;
    if (WSD_UNLIKELY_(wsd_task_push_(self, t, &word_type, WSD_SLOT_(struct word))))
        task_spawn(self, t);
}

static uint64_t task_sync_word(struct wsd_worker *self)
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
    pool_check_fork();
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
    .lower = task_lower,
    .for_range = task_for,
    .spawn_word = task_spawn_word,
    .sync_word = task_sync_word,
    .group_begin = group_begin,
    .group_spawn = group_spawn,
    .group_end = group_end,
    .group_cancel = group_cancel,
    .group_cancelled = group_cancelled,
    .for_each = form_for_each,
    .reduce = form_reduce,
    .scan = form_scan,
    .sort = form_sort,
    .find_first = form_find_first,
    .pipeline = form_pipeline,
};
