/* SPDX-License-Identifier: Apache-2.0
 *
 * fair-queue.c: what waits, in the order in which it goes on: priority, then the owners in turn, then first in, first
 * out.
 * Owns the flows: the items of one owner at one priority. [loop]
 * Keeps: put and take are O(1). Where the first list has become empty, they look at four words. An owner's turn comes
 * after at most one item of each other owner, however many those have queued. No priority waits for ever behind a
 * higher one (fair_queue_aged()).
 * Does not know what waits: an item is a link. */
#include "sched/fair-queue.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* The flow of a further owner at a priority. */
struct other_flow {
    struct flow flow; /* first */
    struct hash_link by_key;
    const struct fair_queue *queue;
    int priority;
};

void fair_queue_init(struct fair_queue *q, struct hash *others, uint64_t *n_all)
{
    *q = (struct fair_queue){.others = others, .n_all = n_all, .first = PRIORITIES};
    for (uint32_t i = 0; i < PRIORITIES; i++) {
        list_init(&q->lists[i]);
        list_init(&q->flows[i].link);
        list_init(&q->flows[i].items);
    }
}

static uint64_t hash_of(const struct fair_queue *q, struct fair_queue_key key)
{
    return hash_number((uint64_t)(uintptr_t)q ^
                       hash_number((uint64_t)(uintptr_t)key.owner << 8 | FAIR_QUEUE_LIST(key.priority)));
}

static struct flow *flow_find(struct fair_queue *q, struct fair_queue_key key)
{
    struct flow *own = &q->flows[FAIR_QUEUE_LIST(key.priority)];

    if (own->owner == key.owner)
        return own;
    if (q->others->n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(q->others, hash_of(q, key)); l; l = hash_next(l)) {
        struct other_flow *other = container_of(l, struct other_flow, by_key);

        if (other->queue == q && other->flow.owner == key.owner && other->priority == key.priority)
            return &other->flow;
    }
    return NULL;
}

/* The first owner of a priority gets the queue's own flow, so that most owners need no other. */
static struct flow *find_or_make(struct fair_queue *q, struct fair_queue_key key)
{
    struct flow *own = &q->flows[FAIR_QUEUE_LIST(key.priority)], *flow = flow_find(q, key);

    if (flow)
        return flow;
    if (list_empty(&own->items)) {
        own->owner = key.owner;
        return own;
    }
    struct other_flow *other = malloc(sizeof(*other));
    if (!other)
        return own; /* then they share a turn */
    *other = (struct other_flow){.flow = {.owner = key.owner}, .queue = q, .priority = key.priority};
    list_init(&other->flow.link);
    list_init(&other->flow.items);
    if (hash_insert(q->others, &other->by_key, hash_of(q, key)) < 0) {
        free(other);
        return own;
    }
    return &other->flow;
}

void fair_queue_put(struct fair_queue *q, struct list *item, struct fair_queue_key key, bool front)
{
    uint32_t p = FAIR_QUEUE_LIST(key.priority);
    struct flow *flow = find_or_make(q, key);

    if (list_empty(&flow->items)) {
        if (front)
            list_push_front(&q->lists[p], &flow->link);
        else
            list_push_back(&q->lists[p], &flow->link);
    }
    if (front)
        list_push_front(&flow->items, item);
    else
        list_push_back(&flow->items, item);
    q->map[p / 64] |= 1ull << (p % 64);
    q->first = MIN(q->first, p);
    q->n += key.n;
    *q->n_all += key.n;
}

/* The first list from this one on that has flows; PRIORITIES: none. */
static uint32_t list_from(const struct fair_queue *q, uint32_t from)
{
    uint64_t without = from % 64;

    for (uint32_t i = from / 64; i < ARRAY_SIZE(q->map); i++, without = 0) {
        uint64_t map = q->map[i] >> without << without;

        if (map)
            return i * 64 + (uint32_t)__builtin_ctzll(map);
    }
    return PRIORITIES;
}

void fair_queue_take(struct fair_queue *q, struct list *item, struct fair_queue_key key)
{
    uint32_t p = FAIR_QUEUE_LIST(key.priority);
    struct list *around = item->next; /* its flow's list, where it is the last one there */

    list_remove(item);
    q->n -= key.n;
    *q->n_all -= key.n;
    if (!list_empty(around))
        return;
    struct flow *flow = container_of(around, struct flow, items);
    list_remove(&flow->link);
    if (list_empty(&q->lists[p])) {
        q->map[p / 64] &= ~(1ull << (p % 64));
        if (p == q->first)
            q->first = q->n ? list_from(q, p) : PRIORITIES;
    }
    flow->owner = NULL;
    if (flow != &q->flows[p]) {
        struct other_flow *other = (struct other_flow *)(void *)flow;
        hash_remove(q->others, &other->by_key);
        free(other);
    }
}

struct list *fair_queue_aged(struct fair_queue *q, uint64_t before_usec,
                             uint64_t (*since_usec)(const struct list *item))
{
    if (q->turns != AGEING_TURNS - 1)
        return NULL;
    for (int part = 0; part < 2; part++) { /* from where the last one was on, then those before */
        uint32_t end = part == 0 ? PRIORITIES : q->aged;

        for (uint32_t p = list_from(q, part == 0 ? q->aged : 0); p < end; p = list_from(q, p + 1)) {
            struct list *item = flow_first(&q->lists[p]);

            if (p != q->first && since_usec(item) <= before_usec)
                return item;
        }
    }
    return NULL;
}

void fair_queue_each(const struct fair_queue *q, bool (*each)(struct list *item, void *context), void *context)
{
    for (uint32_t p = q->first; p < PRIORITIES; p = list_from(q, p + 1))
        list_for_each_entry (struct flow, flow, &q->lists[p], link) {
            list_for_each (item, &flow->items)
                if (!each(item, context))
                    return;
        }
}

uint64_t fair_queue_oldest(const struct fair_queue *q, uint64_t (*since_usec)(const struct list *item),
                           uint32_t *budget)
{
    uint64_t oldest = UINT64_MAX;

    for (uint32_t p = q->first; p < PRIORITIES; p = list_from(q, p + 1))
        list_for_each_entry (struct flow, flow, &q->lists[p], link) {
            if (*budget == 0)
                return oldest;
            --*budget;
            oldest = MIN(oldest, since_usec(flow->items.next));
        }
    return oldest;
}

void fair_queue_turn(struct fair_queue *q, int priority)
{
    if (FAIR_QUEUE_LIST(priority) != q->first)
        q->aged = FAIR_QUEUE_LIST(priority) + 1;
    q->turns = (q->turns + 1) % AGEING_TURNS;
    struct list *list = fair_queue_flows(q, priority), *first = list->next;

    if (first == list->prev) /* the only one */
        return;
    list_remove(first);
    list_push_back(list, first);
}
