/* SPDX-License-Identifier: Apache-2.0
 *
 * fair-queue.h: what waits, in the order in which it goes on: by priority, then the owners in turn, then first in,
 * first out. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"

#define PRIORITIES                201 /* from 100, which is first, to -100 */
#define FAIR_QUEUE_LIST(priority) ((uint32_t)(100 - (priority)))

/* One turn of so many is for an item of a lower priority that has waited for long: fair_queue_aged(). */
#define AGEING_TURNS 16u

/* The items of one owner at one priority that wait in one queue. */
struct flow {
    struct list link; /* fair_queue.lists, while it has items */
    struct list items;
    const void *owner; /* NULL: unused */
};

struct fair_queue {
    struct list lists[PRIORITIES];        /* flows with items; the one that has its turn is first */
    struct flow flows[PRIORITIES];        /* the flow of a priority with only one owner */
    uint64_t map[(PRIORITIES + 63) / 64]; /* which lists are not empty; bit 0 is the highest priority */
    uint32_t first;                       /* the first list that is not empty; PRIORITIES: all are empty */
    struct hash *others;                  /* flows of further owners, of all queues */
    uint64_t n, *n_all;                   /* items here, and in all queues */
    uint32_t turns;                       /* turns so far, modulo AGEING_TURNS */
    uint32_t aged;                        /* the list at which the search for aged items begins */
};

/* What decides an item's place. The caller gives the same with put and with take, so that an item is only a link. */
struct fair_queue_key {
    const void *owner;
    uint32_t n; /* for how many the item counts */
    int priority;
};

/* The item that goes on first of these flows, of which there is one at least. */
static inline struct list *flow_first(const struct list *flows)
{
    return container_of(flows->next, struct flow, link)->items.next;
}

static inline struct list *fair_queue_first(const struct fair_queue *q) /* NULL: it is empty */
{
    return q->first == PRIORITIES ? NULL : flow_first(&q->lists[q->first]);
}

static inline struct list *fair_queue_flows(struct fair_queue *q, int priority) /* the flows of that priority */
{
    return &q->lists[FAIR_QUEUE_LIST(priority)];
}

/* others: a hash table for all queues. n_all: counts the items of all queues. */
void fair_queue_init(struct fair_queue *q, struct hash *others, uint64_t *n_all);
/* front: as the first of its owner, and the owner's turn is then next. Without memory, owners may share a turn. */
void fair_queue_put(struct fair_queue *q, struct list *item, struct fair_queue_key key, bool front);
void fair_queue_take(struct fair_queue *q, struct list *item, struct fair_queue_key key); /* any item of the queue */
/* In each AGEING_TURNS-th turn: the first item of a lower priority that waits since before_usec or longer; the lower
 * priorities take turns. NULL: there is none, or it is not such a turn. */
struct list *fair_queue_aged(struct fair_queue *q, uint64_t before_usec,
                             uint64_t (*since_usec)(const struct list *item));
/* Calls `each` with one item after the other, as long as that returns true. The queue stays as it is. */
void fair_queue_each(const struct fair_queue *q, bool (*each)(struct list *item, void *context), void *context);
/* When the item that has waited for longest began to; UINT64_MAX: there is none. Each flow has its oldest first; *budget
 * of them are looked at, at most, and taken from it. */
uint64_t fair_queue_oldest(const struct fair_queue *q, uint64_t (*since_usec)(const struct list *item),
                           uint32_t *budget);
/* The first item of this priority is about to be taken; the next owner then has its turn. */
void fair_queue_turn(struct fair_queue *q, int priority);
