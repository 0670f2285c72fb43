/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: what waits, in the order in which it goes on: priority, then the users in turn, then first in, first out.
 * Owns the flows: the jobs of one user at one priority. [loop]
 * Keeps: put and take are O(1), with a look at four words where the first list has become empty; a user's turn comes
 * after at most one job of each other user, however many those have queued; no priority waits for ever behind a higher
 * one: queue_aged(). */
#include "jobs/queue.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define QUEUE_OF(priority) ((uint32_t)(100 - (priority)))

struct list *queue_of(struct queue *q, int priority)
{
    return &q->lists[QUEUE_OF(priority)];
}

/* The flow of a further user at a priority. */
struct other_flow {
    struct flow flow; /* first */
    struct hash_link by_key;
    const struct queue *queue;
    int8_t priority;
};

void queue_init(struct queue *q, struct hash *others, uint64_t *n_all)
{
    *q = (struct queue){.others = others, .n_all = n_all, .first = PRIORITIES};
    for (uint32_t i = 0; i < PRIORITIES; i++) {
        list_init(&q->lists[i]);
        list_init(&q->flows[i].link);
        list_init(&q->flows[i].jobs);
    }
}

static uint64_t key_of(const struct queue *q, const struct job *job)
{
    return hash_number((uint64_t)(uintptr_t)q ^ hash_number((uint64_t)job->user->uid << 8 | QUEUE_OF(job->priority)));
}

static struct flow *find(struct queue *q, const struct job *job)
{
    struct flow *own = &q->flows[QUEUE_OF(job->priority)];

    if (own->user == job->user)
        return own;
    if (q->others->n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(q->others, key_of(q, job)); l; l = hash_next(l)) {
        struct other_flow *other = container_of(l, struct other_flow, by_key);

        if (other->queue == q && other->flow.user == job->user && other->priority == job->priority)
            return &other->flow;
    }
    return NULL;
}

/* The first user of a priority gets the queue's own flow, so that most users need no other. */
static struct flow *find_or_make(struct queue *q, const struct job *job)
{
    struct flow *own = &q->flows[QUEUE_OF(job->priority)], *flow = find(q, job);

    if (flow)
        return flow;
    if (list_empty(&own->jobs)) {
        own->user = job->user;
        return own;
    }
    struct other_flow *other = malloc(sizeof(*other));
    if (!other)
        return own; /* then they share a turn */
    *other = (struct other_flow){.flow = {.user = job->user}, .queue = q, .priority = job->priority};
    list_init(&other->flow.link);
    list_init(&other->flow.jobs);
    if (hash_insert(q->others, &other->by_key, key_of(q, job)) < 0) {
        free(other);
        return own;
    }
    return &other->flow;
}

void queue_put(struct queue *q, struct job *job, bool front)
{
    uint32_t p = QUEUE_OF(job->priority);
    struct flow *flow = find_or_make(q, job);

    if (list_empty(&flow->jobs)) {
        if (front)
            list_push_front(&q->lists[p], &flow->link);
        else
            list_push_back(&q->lists[p], &flow->link);
    }
    if (front)
        list_push_front(&flow->jobs, &job->link);
    else
        list_push_back(&flow->jobs, &job->link);
    q->map[p / 64] |= 1ull << (p % 64);
    q->first = MIN(q->first, p);
    q->n += job_count(job);
    *q->n_all += job_count(job);
}

/* The first list from this one on that has waiting jobs; PRIORITIES: none. */
static uint32_t list_from(const struct queue *q, uint32_t from)
{
    uint64_t without = from % 64;

    for (uint32_t i = from / 64; i < ARRAY_SIZE(q->map); i++, without = 0) {
        uint64_t map = q->map[i] >> without << without;

        if (map)
            return i * 64 + (uint32_t)__builtin_ctzll(map);
    }
    return PRIORITIES;
}

void queue_take(struct queue *q, struct job *job)
{
    uint32_t p = QUEUE_OF(job->priority);
    struct list *around = job->link.next; /* its flow's list, where it is the last one there */

    list_remove(&job->link);
    q->n -= job_count(job);
    *q->n_all -= job_count(job);
    if (!list_empty(around))
        return;
    struct flow *flow = container_of(around, struct flow, jobs);
    list_remove(&flow->link);
    if (list_empty(&q->lists[p])) {
        q->map[p / 64] &= ~(1ull << (p % 64));
        if (p == q->first)
            q->first = q->n ? list_from(q, p) : PRIORITIES;
    }
    flow->user = NULL;
    if (flow != &q->flows[p]) {
        struct other_flow *other = (struct other_flow *)(void *)flow;
        hash_remove(q->others, &other->by_key);
        free(other);
    }
}

struct job *queue_first(struct queue *q)
{
    if (q->first == PRIORITIES)
        return NULL;
    struct flow *flow = container_of(q->lists[q->first].next, struct flow, link);
    return container_of(flow->jobs.next, struct job, link);
}

struct job *queue_aged(struct queue *q, uint64_t before_usec)
{
    if (q->turns != AGEING_TURNS - 1)
        return NULL;
    for (int part = 0; part < 2; part++) { /* from where the last one was on, then those before */
        uint32_t end = part == 0 ? PRIORITIES : q->aged;

        for (uint32_t p = list_from(q, part == 0 ? q->aged : 0); p < end; p = list_from(q, p + 1)) {
            struct flow *flow = container_of(q->lists[p].next, struct flow, link);
            struct job *job = container_of(flow->jobs.next, struct job, link);

            if (p != q->first && job->accepted_usec <= before_usec)
                return job;
        }
    }
    return NULL;
}

void queue_turn(struct queue *q, const struct job *job)
{
    if (QUEUE_OF(job->priority) != q->first)
        q->aged = QUEUE_OF(job->priority) + 1;
    q->turns = (q->turns + 1) % AGEING_TURNS;
    struct list *list = queue_of(q, job->priority), *first = list->next;

    if (first == list->prev) /* the only one */
        return;
    list_remove(first);
    list_push_back(list, first);
}
