/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h: waiting jobs in the order in which they go on: by priority, then the users in turn, then first in, first
 * out. [loop]
 */
#pragma once

#include "sched/fair-queue.h"
#include "table/job.h"

static inline struct fair_queue_key queue_key(const struct job *job)
{
    return (struct fair_queue_key){.owner = job->user, .n = job_count(job), .priority = job->priority};
}

static inline struct job *queue_job(struct list *item)
{
    return item ? container_of(item, struct job, link) : NULL;
}

static inline uint64_t queue_accepted_usec(const struct list *item)
{
    return container_of(item, const struct job, link)->accepted_usec;
}

static inline void queue_put(struct fair_queue *q, struct job *job, bool front)
{
    fair_queue_put(q, &job->link, queue_key(job), front);
}

static inline void queue_take(struct fair_queue *q, struct job *job)
{
    fair_queue_take(q, &job->link, queue_key(job));
}

static inline struct job *queue_first(const struct fair_queue *q)
{
    return queue_job(fair_queue_first(q));
}

/* fair_queue_aged(): before_usec is compared with the time when a job was accepted. */
static inline struct job *queue_aged(struct fair_queue *q, uint64_t before_usec)
{
    return queue_job(fair_queue_aged(q, before_usec, queue_accepted_usec));
}

/* job: the first, about to be taken */
static inline void queue_turn(struct fair_queue *q, const struct job *job)
{
    fair_queue_turn(q, job->priority);
}

/* How many aged jobs run at once while jobs of higher priorities wait: a quarter of the workers, or one. */
#define AGED_WORKERS(n) ((n) / 4 + ((n) < 4))
