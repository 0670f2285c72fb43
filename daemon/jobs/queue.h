/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h: waiting jobs in the order in which they go on: by priority, then the users in turn, then first in, first
 * out. [loop]
 */
#pragma once

#include "jobs/job.h"

void queue_init(struct queue *q, struct hash *others, uint64_t *n_all);
void queue_put(struct queue *q, struct job *job, bool front);
void queue_take(struct queue *q, struct job *job);
struct job *queue_first(struct queue *q);
/* In each AGEING_TURNS-th turn: the first job of a lower priority that was accepted before before_usec; the lower
 * priorities take turns. NULL: there is none, or it is not such a turn. */
#define AGEING_TURNS 16u
struct job *queue_aged(struct queue *q, uint64_t before_usec);
struct list *queue_of(struct queue *q, int priority); /* the flows of that priority */
/* job: the first, about to be taken; the next user then has its turn */
void queue_turn(struct queue *q, const struct job *job);

/* How many aged jobs run at once while jobs of higher priorities wait: a quarter of the workers, or one. */
#define AGED_WORKERS(n) ((n) / 4 + ((n) < 4))
