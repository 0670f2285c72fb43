/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c: runs what a worker has found: a root, a ready piece, a stolen task.
 * Owns nothing. [owner of the worker]
 * Keeps: what runs ends with the task stack as it was, else the process ends. The owner of a stolen task is told of its
 * end.
 * Does not find (find.c) or wait (join.c). */
#include "pool/run.h"

#include "base/cleanup.h"
#include "base/ticks.h"
#include "pool/crew.h"
#include "pool/find.h"
#include "pool/measure.h"
#include "pool/worker.h"

static void run_root(struct worker *w, struct pool_node *node)
{
    struct measure *measure = w->pool->options.measure;

    COUNT(w, roots);
    w->public.context = NULL;
    worker_new_origin(w);
    trace_event(w, TRACE_ROOT, TRACE_NOBODY);
    if (measure)
        measure_root_begin(measure);
    node->run(node, &w->public); /* node is its owner's again from here on, and may be gone */
    if (measure)
        measure_root_end(measure);
    trace_event(w, TRACE_ROOT | TRACE_END, TRACE_NOBODY);
    trace_subject_clear(&w->trace);
    w->public.context = NULL;
    if (w->public.top != w->deque.base || worker_has_overflow(w))
        pool_broken("a root returned without joining its children");
}

void worker_run_stolen(struct worker *w, const struct stolen *s, bool descendant)
{
    const struct pool_options *o = &w->pool->options;
    struct wsd_task *t = s->entry->task, *top = w->public.top;
    const struct wsd_task_type *type = (const void *)__atomic_load_n(&t->word, __ATOMIC_RELAXED);
    uint64_t origin = atomic_load_explicit(&w->deque.origin, memory_order_relaxed);
    void *context = s->entry->context, *outer = w->public.context;
    uint32_t own = w->public.own;

    if (!descendant)
        worker_new_origin(w);
    s->entry->run_origin = atomic_load_explicit(&w->deque.origin, memory_order_relaxed);
    /* Release: partner is the owner's acquire in its join, which steals back from this worker. */
    __atomic_store_n(&t->word, (uintptr_t)w | TASK_STOLEN, __ATOMIC_RELEASE);
    __atomic_store_n(&w->public.own, MAX(own, s->entry->own), __ATOMIC_RELAXED);
    w->public.context = context;
    if (o->task_enter)
        o->task_enter(&w->public, context, outer, o->context);
    trace_event(w, TRACE_TASK, s->victim->public.index);
    uint64_t begin = ticks_now();
    const struct trace_stolen_before before =
        trace_stolen_begin(&w->trace, s->victim->public.index + 1, s->entry->origin, begin);
    type->run(&w->public, t);
    trace_stolen_end(&w->trace, &before);
    worker_weigh(w, ticks_now() - begin);
    if (w->public.top != top)
        pool_broken("a task returned without joining its children");
    trace_event(w, TRACE_TASK | TRACE_END, s->victim->public.index);
    if (o->task_leave)
        o->task_leave(&w->public, context, outer, o->context);
    w->public.context = outer;
    __atomic_store_n(&w->public.own, own, __ATOMIC_RELAXED);
    atomic_store_explicit(&w->deque.origin, origin, memory_order_relaxed);
    /* Release: partner is the owner's acquire in its join, which then reads the result. Slot and entry are the owner's
     * from here on. */
    __atomic_store_n(&t->word, TASK_DONE, __ATOMIC_RELEASE);
    eventcount_notify(&s->victim->joiner.event, 1, false);
    crew_between(w);
}

void worker_run(struct worker *w, const struct found *f)
{
    if (f->root) {
        run_root(w, f->root);
    } else {
        worker_leave_source(w);
        if (f->ready)
            f->ready->run(f->ready, w);
        else
            worker_run_stolen(w, &f->task, false);
    }
    crew_between(w);
}
