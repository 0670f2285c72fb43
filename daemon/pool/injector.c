/* SPDX-License-Identifier: Apache-2.0
 *
 * injector.c: the common queue of roots.
 * Owns the order; never the nodes, which are linked through themselves. [any]
 * Keeps: first in, first out; what was taken in comes out; nothing from outside comes in once closed.
 * Does not wake anybody. */
#include "pool/injector.h"

#include <errno.h>

void injector_init(struct injector *i)
{
    pthread_mutex_init(&i->lock, NULL);
    i->head = NULL;
    i->tail = &i->head;
    i->closed = false;
    atomic_init(&i->some, false);
}

void injector_deinit(struct injector *i)
{
    pthread_mutex_destroy(&i->lock);
}

int injector_push(struct injector *i, struct pool_node *node, bool inside)
{
    node->next = NULL;
    pthread_mutex_lock(&i->lock);
    if (i->closed && !inside) {
        pthread_mutex_unlock(&i->lock);
        return -ESHUTDOWN;
    }
    *i->tail = node;
    i->tail = &node->next;
    atomic_store_explicit(&i->some, true, memory_order_relaxed);
    pthread_mutex_unlock(&i->lock);
    return 0;
}

struct pool_node *injector_take(struct injector *i, bool *ret_more)
{
    if (!injector_any(i))
        return NULL;
    pthread_mutex_lock(&i->lock);
    struct pool_node *node = i->head;
    if (node) {
        i->head = node->next;
        if (!i->head)
            i->tail = &i->head;
        *ret_more = i->head != NULL;
        atomic_store_explicit(&i->some, *ret_more, memory_order_relaxed);
    }
    pthread_mutex_unlock(&i->lock);
    return node;
}

bool injector_any(const struct injector *i)
{
    return atomic_load_explicit(&i->some, memory_order_relaxed);
}

void injector_close(struct injector *i)
{
    pthread_mutex_lock(&i->lock);
    i->closed = true;
    pthread_mutex_unlock(&i->lock);
}
