/* SPDX-License-Identifier: Apache-2.0
 *
 * park.c: which worker to wake, and when to wake none.
 * Owns the count of searchers and the list of sleeping joins.
 * wake_* [any]; the others [worker].
 * Keeps: while work worth a worker is visible and no worker searches, no worker sleeps. A wake-up makes at most one
 * system call, and none while a worker searches or is being woken.
 * Does not know where work is. */
#include "pool/park.h"

#include "base/cleanup.h"

#define WAKING (1u << 31)
#define RELIED (1u << 30) /* with WAKING: a waker for a task relies on it, and joins may be asleep */
#define FLAGS  (WAKING | RELIED)
_Static_assert((FLAGS | PARK_WAKE_PENDING) == ~PARK_SEARCHERS, "all of it");

void park_init(struct park *p, struct eventcount *event, bool shared, _Atomic uint32_t *searchers)
{
    atomic_init(&p->own_searchers, 0);
    p->searchers = searchers ? searchers : &p->own_searchers;
    p->event = event;
    p->shared = shared;
    pthread_mutex_init(&p->lock, NULL);
    list_init(&p->joiners);
    atomic_init(&p->n_joiners, 0);
}

void park_deinit(struct park *p)
{
    pthread_mutex_destroy(&p->lock);
}

/* False: no idle worker sleeps, and none searches. *ret_left: a waker for a task relied on this call. */
static bool wake_idle(struct park *p, bool task, bool *ret_left)
{
    *ret_left = false;
    for (;;) {
        /* An RMW of zero, not a load: it has its place before or after the RMW of each searcher. */
        uint32_t searchers = atomic_fetch_add_explicit(p->searchers, 0, memory_order_acq_rel);
        bool waking = searchers & WAKING;
        uint32_t flags = waking && (task || *ret_left) ? WAKING | RELIED : WAKING;
        if (searchers & PARK_SEARCHERS || (searchers & flags) == flags)
            return true;
        if (!atomic_compare_exchange_strong_explicit(p->searchers, &searchers, searchers | flags, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        if (waking || eventcount_notify(p->event, 1, p->shared))
            return true;
        *ret_left |= (atomic_fetch_and_explicit(p->searchers, ~FLAGS, memory_order_acq_rel) & RELIED) != 0;
        /* Did a worker, or the monitor, go to sleep after the notify, over work of a waker that relied on the bit? */
        if (atomic_fetch_add_explicit(&p->event->waiters, 0, memory_order_seq_cst) == 0)
            return false;
    }
}

static bool wake_joiner(struct park *p)
{
    struct joiner *j = NULL;

    /* seq_cst RMW: partner is park_joiner_add(), after which the join looks everywhere. */
    if (atomic_fetch_add_explicit(&p->n_joiners, 0, memory_order_seq_cst) == 0)
        return false;
    pthread_mutex_lock(&p->lock);
    struct list *l = list_pop_front(&p->joiners);
    if (l) {
        j = container_of(l, struct joiner, link);
        atomic_fetch_sub_explicit(&p->n_joiners, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&p->lock);
    /* A joiner lives as long as its pool. If its worker has left the join meanwhile, this is one wake-up too many. */
    return j && eventcount_notify(&j->event, 1, false);
}

bool park_wake_root(struct park *p)
{
    bool left, found = wake_idle(p, false, &left);

    if (!found && left)
        wake_joiner(p); /* for the task; the root still has no worker */
    return found;
}

bool park_wake_task(struct park *p)
{
    bool left;

    return wake_idle(p, true, &left) || wake_joiner(p);
}

bool park_has_sleepers(const struct park *p)
{
    /* seq_cst: after the caller's trap or RMW on searchers. Partners are the RMWs of eventcount_prepare(), of
     * eventcount_set_add() and of joiner_add. */
    return atomic_load_explicit(&p->event->waiters, memory_order_seq_cst) ||
           atomic_load_explicit(&p->n_joiners, memory_order_seq_cst);
}

bool park_has_idle(const struct park *p)
{
    return atomic_load_explicit(&p->event->waiters, memory_order_relaxed) & EVENTCOUNT_WAITERS ||
           atomic_load_explicit(p->searchers, memory_order_relaxed) & PARK_SEARCHERS;
}

void park_forget_pending(struct park *p)
{
    atomic_fetch_and_explicit(p->searchers, ~PARK_WAKE_PENDING, memory_order_acq_rel);
}

void park_search_begin(struct park *p)
{
    uint32_t searchers = atomic_load_explicit(p->searchers, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(p->searchers, &searchers, (searchers & PARK_SEARCHERS) + 1,
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
}

bool park_search_end(struct park *p)
{
    return (atomic_fetch_sub_explicit(p->searchers, 1, memory_order_acq_rel) & PARK_SEARCHERS) == 1;
}

void park_joiner_add(struct park *p, struct joiner *j)
{
    pthread_mutex_lock(&p->lock);
    list_push_back(&p->joiners, &j->link);
    atomic_fetch_add_explicit(&p->n_joiners, 1, memory_order_seq_cst);
    pthread_mutex_unlock(&p->lock);
}

bool park_joiner_remove(struct park *p, struct joiner *j)
{
    pthread_mutex_lock(&p->lock);
    bool listed = !list_empty(&j->link);
    if (listed) {
        list_remove(&j->link);
        atomic_fetch_sub_explicit(&p->n_joiners, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&p->lock);
    return listed;
}
