/* SPDX-License-Identifier: Apache-2.0
 *
 * pool-close.c: a pool that is closed under load runs what it has accepted, and nothing twice, and ends. Producers go
 * on until they are refused; roots fork, join and submit more; two threads close at once. */
#include <pthread.h>

#include "pool-stress.h"

#define PRODUCERS 3
#define ROOTS     (SLOW ? 100 : 300)

struct root {
    struct pool_node node; /* first */
    struct pool *pool;
    struct root *next; /* submitted from inside */
    _Atomic uint32_t runs;
    bool accepted;
};

WSD_TASK_1(uint64_t, fib, uint32_t, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);
    uint64_t b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;

    CHECK(atomic_fetch_add(&r->runs, 1) == 0);
    CHECK(WSD_CALL(fib, 10) == 55);
    if (r->next) {
        r->next->accepted = true;
        CHECK(pool_submit(r->pool, &r->next->node) == 0);
    }
}

struct producer {
    pthread_t thread;
    struct pool *pool;
    struct root root[ROOTS], inner[ROOTS];
};

static struct producer producer[PRODUCERS];

static void *produce(void *arg)
{
    struct producer *p = arg;

    for (int i = 0; i < ROOTS; i++) {
        p->inner[i] = (struct root){.node = {.run = root_run}, .pool = p->pool};
        p->root[i] = (struct root){.node = {.run = root_run}, .pool = p->pool, .next = &p->inner[i]};
        p->root[i].accepted = true; /* before it may run */
        if (pool_submit(p->pool, &p->root[i].node) != 0) {
            p->root[i].accepted = false;
            for (; i < ROOTS; i++)
                p->root[i].accepted = p->inner[i].accepted = false;
        }
    }
    return NULL;
}

static void *close_it(void *arg)
{
    pool_close(arg);
    return NULL;
}

static void once(uint32_t workers, uint32_t gap)
{
    struct pool_options o = {.workers = workers};
    struct pool *pool = stress_pool(&o);
    pthread_t closer;

    for (int i = 0; i < PRODUCERS; i++) {
        producer[i] = (struct producer){.pool = pool};
        CHECK(pthread_create(&producer[i].thread, NULL, produce, &producer[i]) == 0);
    }
    stress_burn(gap);
    CHECK(pthread_create(&closer, NULL, close_it, pool) == 0);
    pool_close(pool);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producer[i].thread, NULL);
    pthread_join(closer, NULL);
    for (int i = 0; i < PRODUCERS; i++)
        for (int k = 0; k < ROOTS; k++) {
            CHECK(producer[i].root[k].runs == producer[i].root[k].accepted);
            CHECK(producer[i].inner[k].runs == producer[i].inner[k].accepted);
        }
    pool_free(pool);
}

int main(void)
{
    static const uint32_t sizes[] = {1, 2, 4, 16};
    uint32_t seed = 1;

    stress_start();
    for (int i = 0; i < 4; i++)
        for (uint32_t n = stress_count(300); n > 0; n--)
            once(sizes[i], stress_random(&seed) % 1000000);
    return EXIT_SUCCESS;
}
