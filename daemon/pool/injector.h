/* SPDX-License-Identifier: Apache-2.0
 *
 * injector.h: the common queue of roots, first in first out.
 *
 *         | push | take | any | close       all [any thread], all at once; one lock
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "pool/pool.h"

struct injector {
    pthread_mutex_t lock;
    struct pool_node *head, **tail; /* [lock] */
    bool closed;                    /* [lock] */
    /* Relaxed: a hint. That no root is overlooked is the business of park.h: a push comes before the pusher's
     * park_wake_*(), and a look after the looker's own RMW there. [atomic: stored under lock] */
    _Atomic bool some;
};

void injector_init(struct injector *i);
void injector_deinit(struct injector *i);

/* 0, or -ESHUTDOWN where closed and not `inside`. */
int injector_push(struct injector *i, struct pool_node *node, bool inside);

/* NULL: empty. *ret_more: not empty yet. */
struct pool_node *injector_take(struct injector *i, bool *ret_more);

bool injector_any(const struct injector *i);
void injector_close(struct injector *i);
