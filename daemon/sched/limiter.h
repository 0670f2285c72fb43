/* SPDX-License-Identifier: Apache-2.0
 *
 * limiter.h: pauses what comes, or lets only so much of it be inside at once. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sched/fair-queue.h"

struct limiter {
    bool paused;
    uint32_t limit;          /* 0: any number */
    uint32_t n_inside;       /* the caller counts them */
    uint32_t n_out;          /* items let go on, and not inside yet; the caller counts down */
    struct fair_queue queue; /* items that wait */
};

void limiter_init(struct limiter *l, struct hash *others, uint64_t *n_all); /* as fair_queue_init() */
/* Whether one more may go on. */
static inline bool limiter_is_open(const struct limiter *l)
{
    return !l->paused && (!l->limit || l->n_inside + l->n_out < l->limit);
}

/* Whether an item may go in. was_let: it is one of n_out, and keeps its place unless the limit went down. */
static inline bool limiter_admits(const struct limiter *l, bool was_let)
{
    return limiter_is_open(l) || (was_let && !l->paused && l->n_inside + l->n_out <= l->limit);
}

static inline bool limiter_is_ready(const struct limiter *l) /* an item may go on */
{
    return l->queue.n && limiter_is_open(l);
}

static inline bool limiter_has_items(const struct limiter *l) /* waiting or let go on */
{
    return l->queue.n || l->n_out;
}

/* The item that may go on next; before_usec, since_usec: as in fair_queue_aged(). NULL: none. */
struct list *limiter_next(struct limiter *l, uint64_t before_usec, uint64_t (*since_usec)(const struct list *item));
void limiter_let(struct limiter *l, struct list *item, struct fair_queue_key key); /* limiter_next() goes on */
