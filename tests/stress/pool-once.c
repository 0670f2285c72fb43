/* SPDX-License-Identifier: Apache-2.0
 *
 * pool-once.c: every spawned item is run exactly once and joined by the task that spawned it, with its own result.
 * Items are poisoned when taken: a double take shows at once, and a lost item when it is joined. Random trees, leaves
 * from nothing to some microseconds, several roots with contexts of their own, pools of all sizes. */
#include "pool-stress.h"

#define READY  0x600d600dU
#define POISON 0xdeadU

struct item {
    _Atomic uint32_t state;
    uint32_t seed;
    struct item *parent;
    uint64_t result;
};

static _Atomic uint64_t n_items;

WSD_TASK_3(uint64_t, visit, struct item *, i, uint32_t, depth, void *, context)
{
    struct item child[12];
    uint64_t result[12], sum = i->seed;
    uint32_t seed = i->seed, n;

    CHECK(atomic_exchange(&i->state, POISON) == READY);
    CHECK(self->context == context);
    atomic_fetch_add_explicit(&n_items, 1, memory_order_relaxed);
    n = depth == 0 ? 0 : stress_random(&seed) % 12;
    if (stress_random(&seed) % 64 == 0)
        stress_burn(stress_random(&seed) % 20000);
    for (uint32_t c = 0; c < n; c++) {
        child[c].seed = stress_random(&seed) | 1;
        child[c].parent = i;
        atomic_store_explicit(&child[c].state, READY, memory_order_relaxed);
        WSD_SPAWN(visit, &child[c], depth - 1, context);
        if (stress_random(&seed) % 128 == 0)
            stress_burn(stress_random(&seed) % 5000);
    }
    for (uint32_t c = n; c-- > 0;) {
        result[c] = WSD_SYNC(visit);
        CHECK(atomic_load(&child[c].state) == POISON);
        CHECK(result[c] == child[c].result);
        CHECK(child[c].parent == i);
        sum += result[c] * (c + 1);
    }
    CHECK(self->context == context);
    i->result = sum;
    return sum;
}

static uint64_t expected(uint32_t own_seed, uint32_t depth)
{
    uint64_t sum = own_seed;
    uint32_t seed = own_seed, n = depth == 0 ? (uint32_t)0 : stress_random(&seed) % 12;

    if (stress_random(&seed) % 64 == 0)
        stress_random(&seed);
    for (uint32_t c = 0; c < n; c++) {
        uint32_t s = stress_random(&seed) | 1;
        if (stress_random(&seed) % 128 == 0)
            stress_random(&seed);
        sum += expected(s, depth - 1) * (c + 1);
    }
    return sum;
}

struct root {
    struct pool_node node; /* first */
    struct item item;
    uint32_t depth;
};

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;

    self->context = r;
    WSD_CALL(visit, &r->item, r->depth, r);
}

static void rounds(const struct pool_options *o, uint32_t n, uint32_t *seed)
{
    enum { ROOTS = 8 };
    struct root root[ROOTS];
    struct pool *pool = stress_pool(o);

    for (uint32_t k = 0; k < n; k++) {
        for (int i = 0; i < ROOTS; i++) {
            root[i] = (struct root){.node = {.run = root_run}, .depth = 4};
            root[i].item.seed = stress_random(seed) | 1;
            root[i].item.state = READY;
        }
        if (k)
            pool = stress_pool(o);
        for (int i = 0; i < ROOTS; i++)
            CHECK(pool_submit(pool, &root[i].node) == 0);
        if (k % 2)
            while (pool_try_run_one(pool))
                ;
        pool = pool_free(pool);
        for (int i = 0; i < ROOTS; i++)
            CHECK(root[i].item.result == expected(root[i].item.seed, root[i].depth));
    }
}

int main(void)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 16}, slots[] = {0, 3, 20};
    uint32_t seed = (uint32_t)time(NULL) | 1;

    stress_start();
    printf("seed %u\n", seed);
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 3; t++)
            for (int eager = 0; eager < 2; eager++) {
                struct pool_options o = {.workers = sizes[s], .task_bytes = slots[t] * 16, .eager = eager};
                rounds(&o, stress_count(50), &seed);
            }
    printf("%llu items\n", (unsigned long long)n_items);
    return EXIT_SUCCESS;
}
