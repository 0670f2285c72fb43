/* SPDX-License-Identifier: Apache-2.0
 *
 * ready.c: the lists of ready.h.
 * Owns nothing but the links. Keeps: a piece leaves its list once. */
#include "pool/ready.h"

#include "base/cleanup.h"
#include "pool/crew.h"
#include "pool/worker.h"

void ready_deinit(struct ready_list *l)
{
    pthread_mutex_destroy(&l->lock);
}

void ready_push(struct ready *r, struct eventcount *event)
{
    struct ready_list *l = &r->home->ready;
    struct pool *pool = r->home->pool;

    pthread_mutex_lock(&l->lock);
    list_push_front(&l->list, &r->link);
    atomic_fetch_add_explicit(&l->n, 1, memory_order_seq_cst);
    if (event)
        eventcount_notify(event, UINT32_MAX, false); /* from the unlock on, r may have run and be gone */
    pthread_mutex_unlock(&l->lock);
    pool_tell_root(pool);
}

static void take_out(struct ready_list *l, struct ready *r)
{
    list_remove(&r->link);
    atomic_fetch_sub_explicit(&l->n, 1, memory_order_relaxed);
}

struct ready *ready_take(struct ready_list *l, bool youngest)
{
    struct ready *r = NULL;

    pthread_mutex_lock(&l->lock);
    if (!list_empty(&l->list)) {
        r = container_of(youngest ? l->list.next : l->list.prev, struct ready, link);
        take_out(l, r);
    }
    pthread_mutex_unlock(&l->lock);
    return r;
}

bool ready_remove(struct ready *r)
{
    struct ready_list *l = &r->home->ready;

    pthread_mutex_lock(&l->lock);
    bool there = !list_empty(&r->link);
    if (there)
        take_out(l, r);
    pthread_mutex_unlock(&l->lock);
    return there;
}
