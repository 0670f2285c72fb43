/* SPDX-License-Identifier: Apache-2.0
 *
 * graph-run.c: runs the graphs of wsd/graph.h.
 * graph_run() [worker: the caller]; graph_cancel() [any]; the rest on any worker that runs nodes.
 * Keeps: a node runs when its strong predecessors have ended or a condition chooses it, and never twice at once. The
 * first error stays, and no node begins after it. No thread touches the graph once graph_run() has returned.
 *
 * Nodes that are to run lie in a list of the graph's own. So the waiting caller can take them and nothing else. Other
 * work might wait for what the caller is part of. Other workers reach the list by a ticket, a piece in the pool's ready
 * lists (ready.h). One ticket is out while the list is not empty; a worker that takes it puts it out again if it leaves
 * nodes behind. So each worker wakes the next, and no node in the list is hidden behind a running one. The pool's sleep
 * and shutdown need no knowledge of graphs.
 *
 * pool.futures is raised during a run, as by a future that is begun and not done: see future.c. */
#include "pool/graph-run.h"

#include <errno.h>
#include <sched.h>

#include "base/cleanup.h"
#include "pool/find.h"
#include "pool/graph.h"
#include "pool/group.h"
#include "pool/join.h"
#include "pool/measure.h"
#include "pool/worker.h"

#define HINT_SHIFT 48

/* How often a worker that found the list empty looks again: cheaper than getting another ticket. */
#define RELAX_ROUNDS 128

void graph_cancel(struct wsd_graph *graph)
{
    wsd_group_cancel(&graph_of(graph)->group);
}

/* --- the list --- */

/* Takes the ticket out. True: the caller must push it. [lock] */
static bool take_ticket_out(struct graph *g)
{
    if (!g->list || g->ticket_out)
        return false;
    g->ticket_out = true;
    /* Relaxed: the graph's caller, or a worker that is present already, keeps it above 0 or waits for us. */
    atomic_fetch_add_explicit(&g->present, 1, memory_order_relaxed);
    return true;
}

/* Hands on n nodes, from first to last. [a worker counted in `active`, or the caller] */
static void hand_on(struct graph *g, struct worker *w, struct node *first, struct node *last, uint32_t n)
{
    pthread_mutex_lock(&g->lock);
    last->link = g->list;
    g->list = first;
    /* seq_cst: partner is the announcement of a sleeping caller, in eventcount_notify() below. */
    atomic_store_explicit(&g->n_list, atomic_load_explicit(&g->n_list, memory_order_relaxed) + n, memory_order_seq_cst);
    bool ticket = take_ticket_out(g);
    pthread_mutex_unlock(&g->lock);
    if (ticket)
        ready_push(&g->ticket, NULL);
    if (w != g->caller)
        eventcount_notify(&g->event, 1, false);
}

static struct node *take_node(struct graph *g)
{
    struct node *n;

    /* Relaxed: the look before sleeping is run_over(). */
    if (atomic_load_explicit(&g->n_list, memory_order_relaxed) == 0)
        return NULL;
    pthread_mutex_lock(&g->lock);
    n = g->list;
    if (n) {
        g->list = n->link;
        atomic_store_explicit(&g->n_list, atomic_load_explicit(&g->n_list, memory_order_relaxed) - 1,
                              memory_order_relaxed);
    }
    bool ticket = take_ticket_out(g);
    pthread_mutex_unlock(&g->lock);
    if (ticket)
        ready_push(&g->ticket, NULL);
    return n;
}

/* --- a node --- */

/* Counts one strong edge, or the choice of a condition. True: the node is to run, and is ours to hand on. */
static bool count_edge(struct graph *g, struct node *n, bool chosen)
{
    int32_t left;

    if (n->single) {
        /* Acquire: partner is the release at the end of the node's last run. */
        left = atomic_load_explicit(&n->pending, memory_order_acquire);
        atomic_store_explicit(&n->pending, left - 1, memory_order_relaxed);
    } else if (chosen) {
        left = MIN(atomic_exchange_explicit(&n->pending, 0, memory_order_acq_rel), 1);
    } else {
        left = atomic_fetch_sub_explicit(&n->pending, 1, memory_order_acq_rel);
    }
    if (left <= 0)
        group_fail(&g->group, -EALREADY);
    return left == 1;
}

/* Counts one node fewer in `active`. [the worker that ran it] */
static void ended(struct graph *g, struct worker *w)
{
    /* acq_rel among the threads that count down; seq_cst: partner is the announcement of a sleeping caller. */
    if (atomic_fetch_sub_explicit(&g->active, 1, memory_order_seq_cst) == 1 && w != g->caller)
        eventcount_notify(&g->event, 1, false);
}

/* Hands on the nodes that are to run after n, but the first, which it returns to be run next. */
static struct node *go_on(struct graph *g, struct worker *w, struct node *n)
{
    struct node *next = NULL, *first = NULL, *last = NULL;
    uint32_t others = 0;

    for (uint32_t i = 0; i < n->n_after; i++) {
        struct node *a = n->after[i];
        if (!count_edge(g, a, false))
            continue;
        if (!next) {
            next = a;
            continue;
        }
        if (last)
            last->link = a;
        else
            first = a;
        last = a;
        others++;
    }
    if (others > 0) {
        /* Relaxed: n still counts, and a worker that takes them from the list comes after. */
        atomic_fetch_add_explicit(&g->active, others, memory_order_relaxed);
        hand_on(g, w, first, last, others);
    }
    return next;
}

/* Runs a node. Returns the one that this worker is to run next, or NULL. */
static struct node *run_node(struct graph *g, struct worker *w, struct node *n)
{
    struct wsd_task *top = w->public.top;
    struct node *next = NULL;

    if (!wsd_group_cancelled(&g->group)) {
        COUNT(w, ready);
        int r = n->fn ? n->fn(&w->public, &g->group, n->arg) : graph_run(&w->public, &g->group, n->arg, 1, NULL, NULL);
        if (w->public.top != top)
            pool_broken("a node's function returned without joining its children");
        /* Release: partner is the next thread to count down, if that is not this one. */
        atomic_store_explicit(&n->pending, n->strong, memory_order_release);
        if (n->condition ? r < 0 : r != 0)
            group_fail(&g->group, r);
        else if (!n->condition)
            next = go_on(g, w, n);
        else if ((uint32_t)r < n->n_after && count_edge(g, n->after[r], true))
            next = n->after[r];
    }
    if (!next)
        ended(g, w);
    return next;
}

static bool run_some(struct graph *g, struct worker *w)
{
    struct node *n = take_node(g);

    if (!n)
        return false;
    while (n)
        n = run_node(g, w, n);
    return true;
}

/* --- other workers --- */

static bool comes_more(struct graph *g)
{
    for (int i = 0; i < RELAX_ROUNDS && !g->caller->pool->crowded; i++) {
        if (atomic_load_explicit(&g->n_list, memory_order_relaxed) > 0)
            return true;
        if (atomic_load_explicit(&g->active, memory_order_relaxed) == 0)
            return false;
        worker_relax();
    }
    return false;
}

static void run_ticket(struct ready *r, struct worker *w)
{
    struct graph *g = container_of(r, struct graph, ticket);
    const struct pool_options *o = &w->pool->options;
    void *outer = w->public.context, *context = g->context;
    uint64_t origin = atomic_load_explicit(&w->deque.origin, memory_order_relaxed);
    _Atomic uint64_t *hint = &g->hints[w->public.index % GRAPH_HINTS];

    pthread_mutex_lock(&g->lock);
    g->ticket_out = false;
    pthread_mutex_unlock(&g->lock);
    worker_new_origin(w);
    /* Release: partner is the acquire of the caller, which has to find this worker in pool.all. */
    atomic_store_explicit(hint, (uint64_t)w->public.index << HINT_SHIFT | w->origins, memory_order_release);
    w->public.context = context;
    if (o->task_enter)
        o->task_enter(&w->public, context, outer, o->context);
    /* A guest runs only one piece. */
    do
        while (run_some(g, w) && !w->guest)
            ;
    while (!w->guest && comes_more(g));
    if (o->task_leave)
        o->task_leave(&w->public, context, outer, o->context);
    w->public.context = outer;
    atomic_store_explicit(&w->deque.origin, origin, memory_order_relaxed);
    atomic_store_explicit(hint, 0, memory_order_relaxed);
    /* Release: the graph may be gone from here on; partner is the caller's acquire in dismiss(). */
    atomic_fetch_sub_explicit(&g->present, 1, memory_order_release);
}

/* --- the caller --- */

/* What worker_wait() is given. */
struct waited {
    struct graph *graph;
};

static bool run_over(const struct wait *wait, struct worker **ret_thief, uint64_t *ret_origin)
{
    struct graph *g = ((const struct waited *)wait->what)->graph;

    if (atomic_load_explicit(&g->n_list, memory_order_seq_cst) > 0 ||
        atomic_load_explicit(&g->active, memory_order_seq_cst) == 0)
        return true;
    for (uint32_t i = 0; i < GRAPH_HINTS; i++) {
        uint64_t hint = atomic_load_explicit(&g->hints[g->turn++ % GRAPH_HINTS], memory_order_acquire);
        if (hint) {
            *ret_thief = g->caller->pool->all[hint >> HINT_SHIFT];
            *ret_origin = hint & ((1ull << HINT_SHIFT) - 1);
            break;
        }
    }
    return false;
}

static void run_once(struct graph *g, struct worker *w)
{
    const struct waited waited = {.graph = g};
    const struct wait wait = {.over = run_over, .what = &waited, .event = &g->event, .future = true};

    if (g->dirty)
        graph_reset(g);
    if (g->n_first == 0)
        return;
    /* Counts must be set anew if a run may leave some behind: a predecessor was not chosen, or has failed. */
    g->dirty = g->n_conditions > 0;
    for (uint32_t i = 1; i < g->n_first; i++)
        g->first[i - 1]->link = g->first[i];
    atomic_store_explicit(&g->active, g->n_first, memory_order_relaxed);
    hand_on(g, w, g->first[0], g->first[g->n_first - 1], g->n_first);
    /* seq_cst load, at least acquire: partner is the last thread to count down. */
    while (atomic_load_explicit(&g->active, memory_order_seq_cst) > 0)
        if (!run_some(g, w))
            worker_wait(w, &wait);
    if (wsd_group_cancelled(&g->group))
        g->dirty = true;
}

/* Waits until no other thread touches the graph. */
static void dismiss(struct graph *g)
{
    while (atomic_load_explicit(&g->present, memory_order_acquire) > 0) {
        if (!ready_remove(&g->ticket)) {
            sched_yield(); /* a thread is about to push it, or about to leave */
            continue;
        }
        atomic_fetch_sub_explicit(&g->present, 1, memory_order_relaxed);
        g->ticket_out = false;
    }
}

static int run_all(struct graph *g, struct worker *w, uint64_t times, wsd_until_fn *until, void *arg)
{
    int r = graph_check(g);

    if (r < 0)
        return r;
    /* Relaxed: no run is on, so at most a late wsd_graph_cancel() comes between, which belongs to no run. */
    __atomic_store_n(&g->group.error, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->group.cancelled, 0u, __ATOMIC_RELAXED);
    atomic_fetch_add_explicit(&w->pool->futures, 1, memory_order_relaxed);
    for (uint64_t i = 0; !wsd_group_cancelled(&g->group); i++) {
        if (until ? until(&w->public, i, arg) : i == times)
            break;
        run_once(g, w);
    }
    dismiss(g);
    atomic_fetch_sub_explicit(&w->pool->futures, 1, memory_order_relaxed);
    /* Relaxed: all threads that write it have gone. */
    r = __atomic_load_n(&g->group.error, __ATOMIC_RELAXED);
    return r == 0 && wsd_group_cancelled(&g->group) ? -ECANCELED : r;
}

int graph_run(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph, uint64_t times,
              wsd_until_fn *until, void *arg)
{
    struct graph *g = graph_of(graph);
    struct worker *w = worker_of(self);
    bool none = false;

    pool_check_fork();
    measure_hidden(w->pool->options.measure);
    /* Acquire: partner is the release of the run before. */
    if (!atomic_compare_exchange_strong_explicit(&g->running, &none, true, memory_order_acquire, memory_order_relaxed))
        return -EBUSY;
    g->caller = w;
    g->context = self->context;
    g->group.owner = NULL;
    g->group.parent = group;
    g->group.ops = self->ops;
    g->ticket.home = w;
    g->ticket.run = run_ticket;
    int r = run_all(g, w, times, until, arg);
    atomic_store_explicit(&g->running, false, memory_order_release);
    return r;
}
