/* SPDX-License-Identifier: Apache-2.0
 *
 * injector.h: the common queue of roots, first in first out, and the batch that a worker took of it at once.
 *
 * Pushing is one compare-and-swap, as in Vyukov's intrusive queue of many producers: the new node becomes the tail,
 * then its predecessor is linked to it. Taking is under a lock, many nodes at a time. They go into the taker's batch.
 * Every worker takes from it, the oldest first, so that no root hides behind a long one. Workers other than the batch's
 * owner take from it when the queue is empty, and earlier if the owner is seen to stand still.
 *
 *              | push | take | any | close | batch_take | batch_fill
 *   push       | yes  | yes  | yes |  yes  |    yes     |    yes         [any thread]
 *   take       | yes  | lock | yes |  yes  |    yes     |    yes         [worker]
 *   batch_take | yes  | yes  | yes |  yes  |    yes     |  yes, by generation
 *   batch_fill | yes  | yes  | yes |  yes  |    yes     |  no: the batch's owner, when it is empty
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

/* Roots that a worker takes at once. */
#define BATCH_MAX 64u

struct injector {
    /* The youngest node, or the stub. The lowest bit says "closed to the outside". [atomic: push's seq_cst CAS
     * publishes the node and is the publication that park.h asks for. Its partner is the seq_cst load of a look] */
    _Alignas(64) _Atomic uintptr_t tail;
    /* Nodes that were put to the front, the youngest first. On a cache line of its own, since takers look at it each
     * time. The lowest bit says "closed to the outside". [atomic: as tail; taken off under lock, so no node comes back
     * while it is looked at] */
    _Alignas(64) _Atomic uintptr_t front;
    _Alignas(64) pthread_mutex_t lock;
    /* The oldest, or the stub. [stored under lock; relaxed load by a look] */
    _Atomic(struct pool_node *) head;
    struct pool_node stub;
};

struct injector_batch {
    /* generation << 32 | next << 16 | end. [atomic: the owner's release makes the nodes visible, CAS by takers] */
    _Alignas(64) _Atomic uint64_t word;
    /* relaxed: the word's generation says whether a node that was read counts */
    _Atomic(struct pool_node *) nodes[BATCH_MAX];
};

void injector_init(struct injector *i);
void injector_deinit(struct injector *i);

/* Returns 0, or -ESHUTDOWN if the queue is closed and `inside` is false. */
int injector_push(struct injector *i, struct pool_node *node, bool inside);

/* As injector_push(), but ahead of all that is there. */
int injector_push_front(struct injector *i, struct pool_node *node, bool inside);
/* Takes the youngest node that was put to the front, or NULL. */
struct pool_node *injector_take_front(struct injector *i, bool *ret_more);

/* Takes at most max of the oldest nodes. If there are fewer than max, takes only one share of `sharers`. Returns how
 * many. *ret_more: the queue is not empty yet. 0 with *ret_more: a push is under way. */
uint32_t injector_take(struct injector *i, struct pool_node **nodes, uint32_t max, uint32_t sharers, bool *ret_more);

bool injector_any(const struct injector *i);
void injector_close(struct injector *i);

void batch_init(struct injector_batch *b);
/* Puts n nodes into an empty batch. [owner of the batch] */
void batch_fill_owner(struct injector_batch *b, struct pool_node *const *nodes, uint32_t n);
/* Takes the oldest node, or NULL. */
struct pool_node *batch_take_any(struct injector_batch *b, bool *ret_more);
bool batch_has_any(const struct injector_batch *b);
/* Whether the batch has nodes and none was taken since *seen was stored here. Stores *seen. */
bool batch_stands_any(const struct injector_batch *b, uint64_t *seen);
