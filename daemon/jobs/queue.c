/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: the backlog of one domain, in the order in which it is handed over: priority, then first in, first out.
 * Owns the lists and the map of those that are not empty. [loop]
 * Keeps: put and take are O(1); the first job is found with at most four words. */
#include "base/cleanup.h"
#include "jobs/job.h"

#define QUEUE_OF(priority) ((uint32_t)(100 - (priority)))

void queue_init(struct domain *d)
{
    for (uint32_t i = 0; i < PRIORITIES; i++)
        list_init(&d->queues[i]);
}

void queue_put(struct domain *d, struct job *job, bool front)
{
    uint32_t q = QUEUE_OF(job->priority);

    if (front)
        list_push_front(&d->queues[q], &job->link);
    else
        list_push_back(&d->queues[q], &job->link);
    d->queue_map[q / 64] |= 1ull << (q % 64);
    d->n_queued++;
    d->jobs->counters.n_queued++;
}

void queue_take(struct domain *d, struct job *job)
{
    uint32_t q = QUEUE_OF(job->priority);

    list_remove(&job->link);
    if (list_empty(&d->queues[q]))
        d->queue_map[q / 64] &= ~(1ull << (q % 64));
    d->n_queued--;
    d->jobs->counters.n_queued--;
}

struct job *queue_first(struct domain *d)
{
    for (uint32_t i = 0; i < (PRIORITIES + 63) / 64; i++)
        if (d->queue_map[i]) {
            uint32_t q = i * 64 + (uint32_t)__builtin_ctzll(d->queue_map[i]);

            return container_of(d->queues[q].next, struct job, link);
        }
    return NULL;
}
