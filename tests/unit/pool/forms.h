/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.h: what the tests of wsd/forms.h share.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "support.h"
#include "wsd/forms.h"

static const uint32_t sizes[] = {1, 2, 4, 16};
#define N_SIZES 4

/* Composition of x -> a x + b, modulo 2^64: associative, and does not commute. */
struct affine {
    uint64_t a, b;
};

static inline struct affine affine_after(struct affine first, struct affine then)
{
    return (struct affine){first.a * then.a, first.b * then.a + then.b};
}

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A thread that cancels a group once *count has reached a number. */
struct canceller {
    pthread_t thread;
    struct wsd_group *group;
    _Atomic uint64_t *count;
    uint64_t enough;
};

static inline void *cancel_later(void *arg)
{
    struct canceller *c = arg;

    while (atomic_load(c->count) < c->enough)
        sched_yield();
    wsd_group_cancel(c->group);
    return NULL;
}

static inline void canceller_start(struct canceller *c)
{
    ck_assert_int_eq(pthread_create(&c->thread, NULL, cancel_later, c), 0);
}

static inline void canceller_join(struct canceller *c)
{
    ck_assert_int_eq(pthread_join(c->thread, NULL), 0);
}

/* Runs fn on a pool of the size that _i stands for. */
static inline void on_workers(int i, wsd_task_fn *fn, void *arg)
{
    struct pool *pool = new_pool(sizes[i]);

    run_on(pool, fn, arg);
    pool_free(pool);
}
