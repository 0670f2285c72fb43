/* SPDX-License-Identifier: Apache-2.0
 *
 * test-crew.c: how many run when those that were blocked come back. */
#include <unistd.h>

#include "support.h"

enum { BLOCKED = 8, STRANGERS = 400, STRANGER_USEC = 300 };

static atomic_uint in_children, in_strangers, most;
static atomic_bool come_back, finish;

/* Waits for something outside. */
static void wait_for(struct wsd_worker *self, atomic_bool *gate)
{
    wsd_blocking_begin(self);
    while (!atomic_load(gate))
        usleep(100);
    wsd_blocking_end(self);
}

static void child(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&in_children, 1);
    wait_for(self, &finish);
}

/* Comes back into the join of a child that was stolen, and waits longer. */
static void parent(struct wsd_worker *self, void *arg)
{
    wsd_spawn(self, child, NULL);
    wait_for(self, &come_back);
    wsd_sync(self);
}

static void stranger(struct wsd_worker *self, void *arg)
{
    unsigned n = atomic_fetch_add(&in_strangers, 1) + 1, before = atomic_load(&most);

    while (n > before && !atomic_compare_exchange_weak(&most, &before, n))
        ;
    usleep(STRANGER_USEC);
    atomic_fetch_sub(&in_strangers, 1);
}

static void others(struct wsd_worker *self, void *arg)
{
    for (int i = 0; i < STRANGERS; i++)
        wsd_spawn(self, stranger, NULL);
    atomic_store(&come_back, true);
    for (int i = 0; i < STRANGERS; i++)
        wsd_sync(self);
    atomic_store(&finish, true);
}

/* One worker, and eight jobs that come back from a wait at once. Each thread stops where it would begin another task,
 * so that one is left, and at most one more until that has ended its current task. */
START_TEST(a_worker_that_comes_back_takes_no_other_task)
{
    struct pool *pool = new_pool(1);
    struct root roots[BLOCKED], last;

    for (int i = 0; i < BLOCKED; i++)
        root_submit(pool, &roots[i], parent, NULL);
    while (atomic_load(&in_children) < BLOCKED)
        usleep(100);
    root_submit(pool, &last, others, NULL);
    root_wait(&last);
    for (int i = 0; i < BLOCKED; i++)
        root_wait(&roots[i]);
    ck_assert_uint_ge(most, 1);
    ck_assert_msg(most <= 2, "%u at once", most);
    pool_free(pool);
}
END_TEST

static atomic_uint retired;

static void count_retired(struct wsd_worker *self, uint32_t index, void *context)
{
    atomic_fetch_add(&retired, 1);
}

/* If it never said so, the case would reach its time limit. */
START_TEST(a_worker_that_retires_says_so)
{
    const struct pool_options options = {.workers = 1, .worker_retire = count_retired};
    struct pool *pool;
    struct root blocked, last;

    ck_assert_int_eq(pool_new(&pool, &options), 0);
    root_submit(pool, &blocked, parent, NULL);
    while (atomic_load(&in_children) == 0)
        usleep(100);
    root_submit(pool, &last, others, NULL);
    root_wait(&last);
    root_wait(&blocked);
    while (atomic_load(&retired) == 0)
        usleep(100);
    pool_free(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crew");
    TCase *t = tcase_create("crew");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_worker_that_comes_back_takes_no_other_task, 0, 10);
    tcase_add_test(t, a_worker_that_retires_says_so);
    suite_add_tcase(s, t);
    return run_suite(s);
}
