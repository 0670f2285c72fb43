/* SPDX-License-Identifier: Apache-2.0
 *
 * injector.c: the common queue of roots.
 * Owns the order; never the nodes, which are linked through themselves. [any]
 * Keeps: first in, first out, except for what is put to the front. What was taken in comes out once. Nothing from
 * outside comes in once closed.
 * Does not wake workers. */
#include "pool/injector.h"

#include <errno.h>

#define CLOSED ((uintptr_t)1)

static struct pool_node *node_of(uintptr_t tail)
{
    return (struct pool_node *)(tail & ~CLOSED);
}

void injector_init(struct injector *i)
{
    pthread_mutex_init(&i->lock, NULL);
    i->stub.next = NULL;
    atomic_init(&i->head, &i->stub);
    atomic_init(&i->tail, (uintptr_t)&i->stub);
    atomic_init(&i->front, 0);
}

void injector_deinit(struct injector *i)
{
    pthread_mutex_destroy(&i->lock);
}

int injector_push(struct injector *i, struct pool_node *node, bool inside)
{
    uintptr_t tail = atomic_load_explicit(&i->tail, memory_order_relaxed);

    __atomic_store_n(&node->next, NULL, __ATOMIC_RELAXED);
    do {
        if ((tail & CLOSED) && !inside)
            return -ESHUTDOWN;
        /* It does no harm if a tail was taken and pushed again meanwhile: it is the tail now. */
    } while (!atomic_compare_exchange_weak_explicit(&i->tail, &tail, (uintptr_t)node | (tail & CLOSED),
                                                    memory_order_seq_cst, memory_order_relaxed));
    /* Release: partner is the taker's acquire, after which it reads the node. */
    __atomic_store_n(&node_of(tail)->next, node, __ATOMIC_RELEASE);
    return 0;
}

int injector_push_front(struct injector *i, struct pool_node *node, bool inside)
{
    uintptr_t front = atomic_load_explicit(&i->front, memory_order_relaxed);

    do {
        if ((front & CLOSED) && !inside)
            return -ESHUTDOWN;
        node->next = node_of(front);
    } while (!atomic_compare_exchange_weak_explicit(&i->front, &front, (uintptr_t)node | (front & CLOSED),
                                                    memory_order_seq_cst, memory_order_relaxed));
    return 0;
}

struct pool_node *injector_take_front(struct injector *i, bool *ret_more)
{
    if (!node_of(atomic_load_explicit(&i->front, memory_order_relaxed)))
        return NULL;
    pthread_mutex_lock(&i->lock);
    /* Acquire: partner is the push. */
    uintptr_t front = atomic_load_explicit(&i->front, memory_order_acquire);
    while (node_of(front) &&
           !atomic_compare_exchange_weak_explicit(&i->front, &front, (uintptr_t)node_of(front)->next | (front & CLOSED),
                                                  memory_order_acq_rel, memory_order_acquire))
        ;
    struct pool_node *node = node_of(front);
    if (node)
        *ret_more = injector_any(i);
    pthread_mutex_unlock(&i->lock);
    return node;
}

static struct pool_node *next_of(const struct pool_node *node)
{
    return __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
}

/* One node, or NULL: empty, or the oldest one's successor is being linked. [lock] */
static struct pool_node *take_one(struct injector *i)
{
    struct pool_node *head = atomic_load_explicit(&i->head, memory_order_relaxed), *next = next_of(head);

    if (head == &i->stub) {
        if (!next)
            return NULL;
        atomic_store_explicit(&i->head, next, memory_order_relaxed);
        head = next;
        next = next_of(head);
    }
    if (!next) {
        /* The last node leaves once the stub is after it. */
        if (node_of(atomic_load_explicit(&i->tail, memory_order_acquire)) != head)
            return NULL;
        injector_push(i, &i->stub, true);
        next = next_of(head);
        if (!next)
            return NULL;
    }
    atomic_store_explicit(&i->head, next, memory_order_relaxed);
    return head;
}

uint32_t injector_take(struct injector *i, struct pool_node **nodes, uint32_t max, uint32_t sharers, bool *ret_more)
{
    uint32_t n = 0, there = 1;

    if (!injector_any(i))
        return 0;
    pthread_mutex_lock(&i->lock);
    /* Counts the nodes, up to max. */
    for (struct pool_node *p = atomic_load_explicit(&i->head, memory_order_relaxed); there < max && (p = next_of(p));)
        there++;
    if (there < max)
        max = (there + sharers - 1) / sharers;
    while (n < max && (nodes[n] = take_one(i)))
        n++;
    *ret_more = injector_any(i);
    pthread_mutex_unlock(&i->lock);
    return n;
}

bool injector_any(const struct injector *i)
{
    /* The stub may be the tail while others are still before it: then it is not the head. */
    return node_of(atomic_load_explicit(&i->front, memory_order_seq_cst)) ||
           node_of(atomic_load_explicit(&i->tail, memory_order_seq_cst)) != &i->stub ||
           atomic_load_explicit(&i->head, memory_order_relaxed) != &i->stub;
}

void injector_close(struct injector *i)
{
    atomic_fetch_or_explicit(&i->front, CLOSED, memory_order_seq_cst);
    atomic_fetch_or_explicit(&i->tail, CLOSED, memory_order_seq_cst);
}

/* --- batches --- */

static uint64_t batch_word(uint64_t generation, uint32_t next, uint32_t end)
{
    return generation << 32 | (uint64_t)next << 16 | end;
}

static uint32_t batch_next(uint64_t word)
{
    return (uint32_t)(word >> 16) & 0xffffu;
}

static uint32_t batch_end(uint64_t word)
{
    return (uint32_t)word & 0xffffu;
}

void batch_init(struct injector_batch *b)
{
    atomic_init(&b->word, 0);
}

void batch_fill_owner(struct injector_batch *b, struct pool_node *const *nodes, uint32_t n)
{
    /* Relaxed: no other thread changes an empty word. */
    uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed);

    for (uint32_t k = 0; k < n; k++)
        atomic_store_explicit(&b->nodes[k], nodes[k], memory_order_relaxed);
    /* seq_cst: the taker makes roots visible again that were in the injector; partner is a look, as for a push. */
    atomic_store_explicit(&b->word, batch_word((word >> 32) + 1, 0, n), memory_order_seq_cst);
}

struct pool_node *batch_take_any(struct injector_batch *b, bool *ret_more)
{
    /* Acquire: partner is the fill. */
    uint64_t word = atomic_load_explicit(&b->word, memory_order_acquire);

    while (batch_next(word) < batch_end(word)) {
        struct pool_node *node = atomic_load_explicit(&b->nodes[batch_next(word)], memory_order_relaxed);
        /* The generation ties the node that was read to this batch. */
        if (atomic_compare_exchange_weak_explicit(&b->word, &word,
                                                  batch_word(word >> 32, batch_next(word) + 1, batch_end(word)),
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *ret_more = batch_next(word) + 1 < batch_end(word);
            return node;
        }
    }
    return NULL;
}

bool batch_stands_any(const struct injector_batch *b, uint64_t *seen)
{
    /* Relaxed: what is taken on this answer is taken by batch_take_any(). The generation is part of the comparison. */
    uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed), before = *seen;

    *seen = word;
    return word == before && batch_next(word) < batch_end(word);
}

bool batch_has_any(const struct injector_batch *b)
{
    uint64_t word = atomic_load_explicit(&b->word, memory_order_seq_cst);

    return batch_next(word) < batch_end(word);
}
