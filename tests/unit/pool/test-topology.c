/* SPDX-License-Identifier: Apache-2.0
 *
 * test-topology.c: order and distances of CPUs, on machines that are made up and on this one; and workers that sit
 * where the order says. */
#include "pool/topology.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "support.h"

#define TWO_NODES "node:2 l3:1 core:4 pu:2" /* CPUs 2c and 2c + 1 are core c; 0 to 7 node 0 */

static struct topology *machine(const char *synthetic)
{
    struct topology *t = NULL;

    ck_assert_int_eq(topology_new(&t, synthetic), 0);
    return t;
}

static uint32_t place_of(const struct topology *t, uint32_t cpu)
{
    for (uint32_t i = 0; i < topology_cpus(t); i++)
        if (topology_cpu(t, i) == cpu)
            return i;
    ck_abort_msg("no CPU %u", cpu);
}

static enum topology_distance between(const struct topology *t, uint32_t cpu, uint32_t other)
{
    return topology_distance(t, place_of(t, cpu), place_of(t, other));
}

START_TEST(one_thread_of_each_core_first_neighbours_together)
{
    static const uint32_t order[] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    struct topology *t = machine(TWO_NODES);

    ck_assert_uint_eq(topology_cpus(t), 16);
    for (uint32_t i = 0; i < 16; i++)
        ck_assert_uint_eq(topology_cpu(t, i), order[i]);
    topology_free(t);
}
END_TEST

START_TEST(distance_is_what_two_cpus_share)
{
    struct topology *t = machine(TWO_NODES);

    ck_assert_int_eq(between(t, 0, 0), TOPOLOGY_SAME_CPU);
    ck_assert_int_eq(between(t, 0, 1), TOPOLOGY_SAME_CORE);
    ck_assert_int_eq(between(t, 0, 2), TOPOLOGY_SAME_L3);
    ck_assert_int_eq(between(t, 7, 0), TOPOLOGY_SAME_L3);
    ck_assert_int_eq(between(t, 0, 8), TOPOLOGY_OTHER_NODE);
    ck_assert_int_eq(between(t, 15, 7), TOPOLOGY_OTHER_NODE);
    topology_free(t);
    t = machine("node:2 l2:2 core:2 pu:1"); /* no L3 */
    ck_assert_int_eq(between(t, 0, 1), TOPOLOGY_SAME_L2);
    ck_assert_int_eq(between(t, 0, 2), TOPOLOGY_SAME_NODE);
    ck_assert_int_eq(between(t, 0, 4), TOPOLOGY_OTHER_NODE);
    topology_free(t);
}
END_TEST

static const struct {
    const char *machine;
    uint32_t workers;
} walks[] = {{TWO_NODES, 16},
             {TWO_NODES, 5},
             {TWO_NODES, 40},
             {TWO_NODES, 1},
             {"node:1 core:1 pu:1", 3},
             {"node:3 l2:2 core:3 pu:1", 18},
             {NULL, 2},
             {NULL, 7}};

START_TEST(each_victim_once_the_nearest_first)
{
    uint32_t n = walks[_i].workers;
    struct topology *t = machine(walks[_i].machine);
    uint32_t seen[64];

    for (uint32_t worker = 0; worker < n; worker++)
        for (uint32_t random = 0; random < 50; random++) {
            enum topology_distance last = TOPOLOGY_SAME_CPU;

            for (uint32_t i = 0; i < n; i++)
                seen[i] = 0;
            for (uint32_t k = 0; k < topology_steps(t, n); k++) {
                uint32_t victim = topology_victim(t, worker, n, k, random * 2654435761u);

                if (victim >= n)
                    continue;
                seen[victim]++;
                enum topology_distance d = topology_distance(t, worker % topology_cpus(t), victim % topology_cpus(t));
                ck_assert_int_ge(d, last);
                last = d;
            }
            for (uint32_t i = 0; i < n; i++)
                ck_assert_uint_eq(seen[i], 1);
        }
    topology_free(t);
}
END_TEST

START_TEST(within_a_distance_the_first_is_chance)
{
    struct topology *t = machine(TWO_NODES);
    uint32_t first[16] = {0}, n = 0;

    /* worker 0: itself, its core's other thread, then the six of its L3 */
    for (uint32_t random = 0; random < 600; random++)
        first[topology_victim(t, 0, 16, 2, random)]++;
    for (uint32_t i = 0; i < 16; i++)
        if (first[i]) {
            ck_assert_int_eq(topology_distance(t, 0, i), TOPOLOGY_SAME_L3);
            ck_assert_uint_eq(first[i], 100);
            n++;
        }
    ck_assert_uint_eq(n, 6);
    topology_free(t);
}
END_TEST

START_TEST(nonsense_is_refused)
{
    struct topology *t = NULL;

    ck_assert_int_eq(topology_new(&t, "core:many"), -ENOTSUP);
    ck_assert_ptr_null(t);
    ck_assert_ptr_null(topology_free(NULL));
}
END_TEST

START_TEST(this_machine_has_the_cpus_of_the_mask)
{
    struct topology *t;
    cpu_set_t set;

    if (_i)
        pin_to_one_cpu();
    t = machine(NULL);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    ck_assert_uint_eq(topology_cpus(t), (unsigned)CPU_COUNT(&set));
    for (uint32_t i = 0; i < topology_cpus(t); i++)
        ck_assert(CPU_ISSET(topology_cpu(t, i), &set));
    topology_free(t);
}
END_TEST

/* --- workers that are pinned --- */

static _Atomic uint32_t wrong, checked;

static void check_cpu(struct wsd_worker *self, uint32_t index, void *context)
{
    cpu_set_t set;

    ck_assert_int_eq(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
    atomic_fetch_add(&wrong, CPU_COUNT(&set) != 1);
    atomic_fetch_add(&checked, 1);
}

static void do_fib(struct wsd_worker *self, void *arg)
{
    ck_assert_int_eq(WSD_CALL(fib, 20), 6765);
}

START_TEST(pinned_workers_sit_where_the_order_says)
{
    static const uint32_t sizes[] = {1, 2, 5};
    struct topology *t = machine(NULL);
    struct pool_options o = {.workers = sizes[_i], .pin = true, .worker_start = check_cpu};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    for (int i = 0; i < 50; i++)
        run_on(pool, do_fib, NULL);
    while (atomic_load(&checked) < o.workers)
        sched_yield();
    ck_assert_uint_eq(wrong, 0);
    for (uint32_t i = 0; i < o.workers; i++)
        ck_assert_int_eq(pool_worker_cpu(pool, i), (int)topology_cpu(t, i % topology_cpus(t)));
    pool_free(pool);
    topology_free(t);
}
END_TEST

START_TEST(others_are_not)
{
    struct pool *pool = new_pool(2);

    run_on(pool, do_fib, NULL);
    ck_assert_int_eq(pool_worker_cpu(pool, 0), -1);
    ck_assert_int_eq(pool_worker_cpu(pool, 1), -1);
    pool_free(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("topology");
    TCase *c = tcase_create("topology");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, one_thread_of_each_core_first_neighbours_together);
    tcase_add_test(c, distance_is_what_two_cpus_share);
    tcase_add_loop_test(c, each_victim_once_the_nearest_first, 0, (int)ARRAY_SIZE(walks));
    tcase_add_test(c, within_a_distance_the_first_is_chance);
    tcase_add_test(c, nonsense_is_refused);
    tcase_add_loop_test(c, this_machine_has_the_cpus_of_the_mask, 0, 2);
    tcase_add_loop_test(c, pinned_workers_sit_where_the_order_says, 0, 3);
    tcase_add_test(c, others_are_not);
    suite_add_tcase(s, c);
    return run_suite(s);
}
