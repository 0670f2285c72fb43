/* SPDX-License-Identifier: Apache-2.0
 *
 * limiter.c: pauses what comes, or lets only so much of it be inside at once.
 * Owns the queue of what waits. [loop]
 * Keeps: inside and on their way in are no more than the limit, unless that went down. Items go on in the order of
 * their queue.
 * Does not know where an item goes on to. */
#include "sched/limiter.h"

#include <stddef.h>

void limiter_init(struct limiter *l, struct hash *others, uint64_t *n_all)
{
    l->paused = false;
    l->limit = l->n_inside = l->n_out = 0;
    fair_queue_init(&l->queue, others, n_all);
}

struct list *limiter_next(struct limiter *l, uint64_t before_usec, uint64_t (*since_usec)(const struct list *item))
{
    struct list *aged = limiter_is_ready(l) ? fair_queue_aged(&l->queue, before_usec, since_usec) : NULL;

    return aged || !limiter_is_ready(l) ? aged : fair_queue_first(&l->queue);
}

void limiter_let(struct limiter *l, struct list *item, struct fair_queue_key key)
{
    fair_queue_turn(&l->queue, key.priority);
    fair_queue_take(&l->queue, item, key);
    l->n_out++;
}
