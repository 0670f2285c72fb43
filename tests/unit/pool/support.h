/* SPDX-License-Identifier: Apache-2.0
 *
 * support.h: runs a function as a root and waits for it; for the pool's tests.
 */
#pragma once

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/eventcount.h"
#include "pool/pool.h"
#include "tests/unit/counts.h"
#include "tests/unit/suite.h"
#include "wsd/task.h"

struct root {
    struct pool_node node; /* first */
    wsd_task_fn *fn;
    void *arg;
    struct eventcount event;
    _Atomic uint32_t done; /* 1: it has run; 2: the worker has finished with this */
};

static inline void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;

    r->fn(self, r->arg);
    atomic_store(&r->done, 1);
    eventcount_notify(&r->event, 1, false);
    atomic_store(&r->done, 2);
}

static inline void root_submit(struct pool *pool, struct root *r, wsd_task_fn *fn, void *arg)
{
    *r = (struct root){.node = {.run = root_run}, .fn = fn, .arg = arg};
    ck_assert_int_eq(pool_submit(pool, &r->node), 0);
}

static inline void root_wait(struct root *r)
{
    while (!atomic_load(&r->done)) {
        uint32_t epoch = eventcount_prepare(&r->event);
        if (atomic_load(&r->done))
            eventcount_cancel(&r->event);
        else
            eventcount_wait(&r->event, epoch, UINT64_MAX, false);
    }
    while (atomic_load(&r->done) != 2)
        sched_yield();
}

static inline void run_on(struct pool *pool, wsd_task_fn *fn, void *arg)
{
    struct root r;

    root_submit(pool, &r, fn, arg);
    root_wait(&r);
}

/* What the field spawns at every step. */
WSD_TASK_1(long, fib, int, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);
    long b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

static inline struct pool *new_pool(uint32_t workers)
{
    struct pool_options o = {.workers = workers};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    return pool;
}

static inline void pin_to_one_cpu(void)
{
    cpu_set_t all, one;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}
