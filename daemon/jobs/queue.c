/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: the backlog of one domain, in the order in which it is handed over: priority, then the users in turn, then
 * first in, first out.
 * Owns the lanes: the jobs of one user at one priority. [loop]
 * Keeps: put and take are O(1); the first job is found with at most four words; a user's turn comes after at most one job
 * of each other user, however many those have queued. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "jobs/job.h"

#define QUEUE_OF(priority) ((uint32_t)(100 - (priority)))

struct list *queue_of(struct domain *d, int priority)
{
    return &d->queues[QUEUE_OF(priority)];
}

/* Where more than one user has jobs of that priority. */
struct other_lane {
    struct lane lane; /* first */
    struct hash_link by_key;
    const struct domain *domain;
    int8_t priority;
};

void queue_init(struct domain *d)
{
    for (uint32_t i = 0; i < PRIORITIES; i++) {
        list_init(&d->queues[i]);
        list_init(&d->lanes[i].link);
        list_init(&d->lanes[i].jobs);
    }
}

static uint64_t key_of(const struct domain *d, const struct job *job)
{
    return hash_mix((uint64_t)(uintptr_t)d ^ hash_mix((uint64_t)job->user->uid << 8 | QUEUE_OF(job->priority)));
}

static struct lane *find(struct domain *d, const struct job *job)
{
    struct lane *own = &d->lanes[QUEUE_OF(job->priority)];

    if (own->user == job->user)
        return own;
    for (struct hash_link *l = hash_first(&d->jobs->lanes, key_of(d, job)); l; l = hash_next(l)) {
        struct other_lane *other = container_of(l, struct other_lane, by_key);

        if (other->domain == d && other->lane.user == job->user && other->priority == job->priority)
            return &other->lane;
    }
    return NULL;
}

/* The domain's own is whose it is first, so that most need no other. */
static struct lane *find_or_make(struct domain *d, const struct job *job)
{
    struct lane *own = &d->lanes[QUEUE_OF(job->priority)], *lane = find(d, job);

    if (lane)
        return lane;
    if (list_empty(&own->jobs)) {
        own->user = job->user;
        return own;
    }
    struct other_lane *other = malloc(sizeof(*other));
    if (!other)
        return own; /* then they share a turn */
    *other = (struct other_lane){.lane = {.user = job->user}, .domain = d, .priority = job->priority};
    list_init(&other->lane.link);
    list_init(&other->lane.jobs);
    if (hash_insert(&d->jobs->lanes, &other->by_key, key_of(d, job)) < 0) {
        free(other);
        return own;
    }
    return &other->lane;
}

void queue_put(struct domain *d, struct job *job, bool front)
{
    uint32_t q = QUEUE_OF(job->priority);
    struct lane *lane = find_or_make(d, job);

    if (list_empty(&lane->jobs)) {
        if (front)
            list_push_front(&d->queues[q], &lane->link);
        else
            list_push_back(&d->queues[q], &lane->link);
    }
    if (front)
        list_push_front(&lane->jobs, &job->link);
    else
        list_push_back(&lane->jobs, &job->link);
    d->queue_map[q / 64] |= 1ull << (q % 64);
    d->n_queued++;
    d->jobs->counters.n_queued++;
}

void queue_take(struct domain *d, struct job *job)
{
    uint32_t q = QUEUE_OF(job->priority);
    struct list *around = job->link.next; /* its lane's list, where it is the last one there */

    list_remove(&job->link);
    d->n_queued--;
    d->jobs->counters.n_queued--;
    if (!list_empty(around))
        return;
    struct lane *lane = container_of(around, struct lane, jobs);
    list_remove(&lane->link);
    if (list_empty(&d->queues[q]))
        d->queue_map[q / 64] &= ~(1ull << (q % 64));
    lane->user = NULL;
    if (lane != &d->lanes[q]) {
        struct other_lane *other = (struct other_lane *)(void *)lane;
        hash_remove(&d->jobs->lanes, &other->by_key);
        free(other);
    }
}

struct job *queue_first(struct domain *d)
{
    for (uint32_t i = 0; i < (PRIORITIES + 63) / 64; i++)
        if (d->queue_map[i]) {
            uint32_t q = i * 64 + (uint32_t)__builtin_ctzll(d->queue_map[i]);
            struct lane *lane = container_of(d->queues[q].next, struct lane, link);

            return container_of(lane->jobs.next, struct job, link);
        }
    return NULL;
}

void queue_turn(struct domain *d, const struct job *job)
{
    struct list *queue = &d->queues[QUEUE_OF(job->priority)], *first = queue->next;

    list_remove(first);
    list_push_back(queue, first);
}
