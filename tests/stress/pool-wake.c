/* SPDX-License-Identifier: Apache-2.0
 *
 * pool-wake.c: no wake-up is lost. A lost one hangs, and SIGALRM ends the program.
 *   1. One root at a time from outside with random gaps, so that workers are met at each point of going to sleep.
 *   2. The same from many producers, each with one root in flight.
 *   3. The same through a source on a shared event, as wsd feeds it.
 *   4. Tasks that only return when n of them run at once. A worker spawns them at random distances, and then stays in a
 *      leaf. Nothing that was spawned may stay hidden while a worker sleeps. */
#include <pthread.h>
#include <sched.h>

#include "pool-stress.h"

struct root {
    struct pool_node node; /* first */
    _Atomic uint32_t done;
};

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    atomic_store(&((struct root *)(void *)node)->done, 1);
}

/* Every third wait yields its CPU, as a blocked client would; the others meet the worker on the other CPU. */
static void await(_Atomic uint32_t *flag, uint32_t value, uint32_t k)
{
    for (uint32_t i = 0; atomic_load(flag) < value; i++)
        if (k % 3 == 0 || i > 1000)
            sched_yield();
}

static void one_at_a_time(struct pool *pool, uint32_t n, uint32_t seed)
{
    struct root r = {.node = {.run = root_run}};

    for (uint32_t k = 0; k < n; k++) {
        atomic_store(&r.done, 0);
        CHECK(pool_submit(pool, &r.node) == 0);
        await(&r.done, 1, k);
        stress_burn(stress_random(&seed) % (k % 16 ? 3000 : 60000));
    }
}

struct producer {
    pthread_t thread;
    struct pool *pool;
    uint32_t n, seed;
};

static void *produce(void *arg)
{
    struct producer *p = arg;

    one_at_a_time(p->pool, p->n, p->seed);
    return NULL;
}

static void many_producers(struct pool *pool, uint32_t n)
{
    struct producer p[8];

    for (uint32_t i = 0; i < 8; i++) {
        p[i] = (struct producer){.pool = pool, .n = n, .seed = i * 7919 + 1};
        CHECK(pthread_create(&p[i].thread, NULL, produce, &p[i]) == 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(p[i].thread, NULL);
}

/* --- source --- */

static struct {
    struct eventcount event;
    struct root root;
    _Atomic bool full;
} cell;

static struct pool_node *cell_take(void *context, bool *ret_more)
{
    *ret_more = false;
    return atomic_exchange(&cell.full, false) ? &cell.root.node : NULL;
}

static bool cell_ready(void *context)
{
    /* Relaxed: that it is seen is the eventcount's promise, not this load's. */
    return atomic_load_explicit(&cell.full, memory_order_relaxed);
}

static void from_source(uint32_t workers, uint32_t n)
{
    struct pool_options o = {.workers = workers,
                             .event = &cell.event,
                             .event_shared = true,
                             .source = {.take = cell_take, .ready = cell_ready}};
    uint32_t seed = workers;

    eventcount_init(&cell.event);
    cell.root.node.run = root_run;
    struct pool *pool = stress_pool(&o);
    for (uint32_t k = 0; k < n; k++) {
        atomic_store(&cell.root.done, 0);
        atomic_store_explicit(&cell.full, true, memory_order_release);
        eventcount_notify(&cell.event, 1, true);
        await(&cell.root.done, 1, k);
        stress_burn(stress_random(&seed) % (k % 16 ? 3000 : 60000));
    }
    pool_free(pool);
}

/* --- hidden tasks --- */

static _Atomic uint32_t inside;

struct meeting {
    struct root root; /* first */
    uint32_t n, seed;
};

static void meet(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&inside, 1);
    await(&inside, ((struct meeting *)arg)->n, 0);
}

static void meeting_run(struct pool_node *node, struct wsd_worker *self)
{
    struct meeting *m = (struct meeting *)(void *)node;

    for (uint32_t i = 1; i < m->n; i++) {
        wsd_spawn(self, meet, m);
        stress_burn(stress_random(&m->seed) % 2000);
    }
    meet(self, m);
    for (uint32_t i = 1; i < m->n; i++)
        wsd_sync(self);
    root_run(node, self);
}

static void meetings(struct pool *pool, uint32_t workers, uint32_t n)
{
    struct meeting m = {.root = {.node = {.run = meeting_run}}, .n = workers, .seed = workers};

    for (uint32_t k = 0; k < n; k++) {
        atomic_store(&inside, 0);
        atomic_store(&m.root.done, 0);
        CHECK(pool_submit(pool, &m.root.node) == 0);
        await(&m.root.done, 1, 0);
    }
}

int main(void)
{
    static const uint32_t sizes[] = {1, 2, 3, 16};

    stress_start();
    for (int i = 0; i < 4; i++) {
        struct pool_options o = {.workers = sizes[i]};
        struct pool *pool = stress_pool(&o);
        one_at_a_time(pool, stress_count(20000), 1);
        many_producers(pool, stress_count(1000));
        meetings(pool, sizes[i], stress_count(1000));
        pool_free(pool);
        from_source(sizes[i], stress_count(10000));
    }
    return EXIT_SUCCESS;
}
