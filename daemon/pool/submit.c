/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c: roots that any thread submits.
 * Owns nothing. [any]
 * Keeps: what was accepted is seen by a worker, or wakes one. */
#include "pool/pool.h"

#include "pool/crew.h"
#include "pool/worker.h"

static int tell_submitted(struct pool *pool, int r)
{
    /* The loads in there suffice: the push is a seq_cst CAS, as a sleeper's announcement is. */
    if (r == 0)
        pool_tell_root(pool);
    return r;
}

static bool is_inside(const struct pool *pool)
{
    return worker_current && worker_current->pool == pool;
}

int pool_submit(struct pool *pool, struct pool_node *node)
{
    pool_check_fork();
    return tell_submitted(pool, injector_push(&pool->injector, node, is_inside(pool)));
}

int pool_submit_front(struct pool *pool, struct pool_node *node)
{
    pool_check_fork();
    return tell_submitted(pool, injector_push_front(&pool->injector, node, is_inside(pool)));
}
