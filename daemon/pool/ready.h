/* SPDX-License-Identifier: Apache-2.0
 *
 * ready.h: pieces of work that any worker may run and that are joined in any order: futures, nodes of graphs. Each
 * worker has a list. It takes the youngest of its own; others take the oldest; a thread that waits for one takes out
 * that one.
 *
 *             | push | take_* | remove | any
 *   push      | lock |  lock  |  lock  | yes       [any thread]
 *   take_*    | lock |  lock  |  lock  | yes
 *   remove    | lock |  lock  |  lock  | yes
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "base/list.h"

struct worker;

/* Embedded in its object. */
struct ready {
    struct list link;    /* self-linked while in no list [home's lock] */
    struct worker *home; /* [const before other threads can reach it] */
    void (*run)(struct ready *r, struct worker *w);
};

struct ready_list {
    pthread_mutex_t lock;
    struct list list;   /* the youngest first [lock] */
    _Atomic uint32_t n; /* [atomic: seq_cst RMW under lock, partner is a sleeper's announcement; relaxed as a hint] */
};

static inline void ready_init(struct ready_list *l)
{
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->list);
    atomic_init(&l->n, 0);
}
void ready_deinit(struct ready_list *l);

/* Puts it into its home's list, notifies all waiters on the event (NULL: none), and tells the pool. [any] */
void ready_push(struct ready *r, struct eventcount *event);

struct ready *ready_take(struct ready_list *l, bool youngest);

/* NULL where there is none. Relaxed: a look before sleeping is ready_any(). [any] */
static inline struct ready *ready_take_youngest(struct ready_list *l)
{
    return atomic_load_explicit(&l->n, memory_order_relaxed) ? ready_take(l, true) : NULL;
}
static inline struct ready *ready_take_oldest(struct ready_list *l)
{
    return atomic_load_explicit(&l->n, memory_order_relaxed) ? ready_take(l, false) : NULL;
}

/* Takes it out of its list. False: it was not there any longer. True: it is the caller's. [any] */
bool ready_remove(struct ready *r);

static inline bool ready_any(const struct ready_list *l)
{
    /* seq_cst: after a sleeper's announcement; partner is the RMW of a push. */
    return atomic_load_explicit(&l->n, memory_order_seq_cst) > 0;
}
