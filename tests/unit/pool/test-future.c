/* SPDX-License-Identifier: Apache-2.0
 *
 * test-future.c: futures, in any order; joins that run only their own; workers that block; a number of workers that
 * changes. */
#include "wsd/future.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "pool/worker.h"
#include "support.h"

static const uint32_t sizes[] = {1, 2, 4, 16};

/* --- futures --- */

static int echo(struct wsd_worker *self, void *arg, void **ret_value)
{
    *ret_value = arg;
    return (uintptr_t)arg % 3 == 0 ? (int)(uintptr_t)arg : 0;
}

static void do_values(struct wsd_worker *self, void *arg)
{
    struct wsd_future f[50];
    void *value;

    for (uintptr_t i = 0; i < 50; i++) {
        wsd_future_begin(self, &f[i]);
        ck_assert(!wsd_future_done(&f[i]));
        if (i % 2)
            wsd_future_start(self, &f[i], echo, (void *)i);
        else
            wsd_future_set(&f[i], (void *)i, i % 3 == 0 ? (int)i : 0);
    }
    for (int again = 0; again < 2; again++)
        for (uintptr_t i = 0; i < 50; i++) {
            ck_assert_int_eq(wsd_future_wait(self, &f[i], again ? NULL : &value), i % 3 == 0 ? (int)i : 0);
            ck_assert_ptr_eq(value, again ? (void *)49 : (void *)i);
            ck_assert(wsd_future_done(&f[i]));
        }
}

START_TEST(a_future_has_value_and_error)
{
    struct pool *pool = new_pool(sizes[_i]);
    uint64_t counted = 0;

    run_on(pool, do_values, NULL);
    ck_assert_uint_eq(pool->futures, 0);
    for (uint32_t i = 0; i < pool_workers_seen(pool); i++)
        counted += pool->all[i]->count.ready;
    ck_assert_uint_eq(counted, 25); /* each that was started, once */
    pool_free(pool);
}
END_TEST

static int fib_future(struct wsd_worker *self, void *arg, void **ret_value)
{
    uintptr_t n = (uintptr_t)arg;
    struct wsd_future f;
    void *a, *b;

    if (n < 2) {
        *ret_value = arg;
        return 0;
    }
    wsd_future_begin(self, &f);
    wsd_future_start(self, &f, fib_future, (void *)(n - 1));
    fib_future(self, (void *)(n - 2), &b);
    ck_assert_int_eq(wsd_future_wait(self, &f, &a), 0);
    *ret_value = (void *)((uintptr_t)a + (uintptr_t)b);
    return 0;
}

static void do_fib(struct wsd_worker *self, void *arg)
{
    void *value;

    fib_future(self, (void *)20, &value);
    ck_assert_uint_eq((uintptr_t)value, 6765);
}

START_TEST(futures_nest)
{
    struct pool *pool = new_pool(sizes[_i]);

    run_on(pool, do_fib, NULL);
    pool_free(pool);
}
END_TEST

/* A layered graph: each waits for three of the layer before, in an order of its own, and spawns between its waits. All
 * start in the order from the last to the first. */
enum { LAYERS = 12, WIDTH = 12 };

struct cell {
    struct wsd_future future;
    uint32_t layer, column;
};

static struct cell cells[LAYERS][WIDTH];

static int cell_run(struct wsd_worker *self, void *arg, void **ret_value)
{
    struct cell *c = arg;
    uint64_t sum = 1;
    void *value;

    WSD_SPAWN(fib, 12);
    for (uint32_t k = 0; k < 3 && c->layer > 0; k++) {
        uint32_t at = (c->column * 5 + k * (c->layer % 4 + 1)) % WIDTH;
        ck_assert_int_eq(wsd_future_wait(self, &cells[c->layer - 1][at].future, &value), 0);
        sum += (uintptr_t)value;
        WSD_SPAWN(fib, 10);
        ck_assert_int_eq(WSD_SYNC(fib), 55);
    }
    ck_assert_int_eq(WSD_SYNC(fib), 144);
    *ret_value = (void *)(uintptr_t)sum;
    return 0;
}

static void do_layers(struct wsd_worker *self, void *arg)
{
    uint64_t expected[LAYERS][WIDTH];
    void *value;

    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t c = 0; c < WIDTH; c++) {
            cells[l][c].layer = l;
            cells[l][c].column = c;
            wsd_future_begin(self, &cells[l][c].future);
            expected[l][c] = 1;
            for (uint32_t k = 0; k < 3 && l > 0; k++)
                expected[l][c] += expected[l - 1][(c * 5 + k * (l % 4 + 1)) % WIDTH];
        }
    for (uint32_t l = LAYERS; l-- > 0;)
        for (uint32_t c = 0; c < WIDTH; c++)
            wsd_future_start(self, &cells[l][c].future, cell_run, &cells[l][c]);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t c = 0; c < WIDTH; c++) {
            ck_assert_int_eq(wsd_future_wait(self, &cells[l][c].future, &value), 0);
            ck_assert_uint_eq((uintptr_t)value, expected[l][c]);
        }
}

START_TEST(waits_in_any_order_of_a_graph_end)
{
    if (_i % 2)
        pin_to_one_cpu();
    struct pool *pool = new_pool(sizes[_i / 2]);

    for (int i = 0; i < (SLOW ? 5 : 50); i++)
        run_on(pool, do_layers, NULL);
    ck_assert_uint_eq(pool->futures, 0);
    pool_free(pool);
}
END_TEST

/* All workers, and more roots than workers, wait for what is submitted only when they do. */
static struct wsd_future later;
static _Atomic uint32_t waiting, woken;

static void do_wait(struct wsd_worker *self, void *arg)
{
    void *value;

    atomic_fetch_add(&waiting, 1);
    ck_assert_int_eq(wsd_future_wait(self, &later, &value), 7);
    ck_assert_ptr_eq(value, &later);
    atomic_fetch_add(&woken, 1);
}

static void do_begin(struct wsd_worker *self, void *arg)
{
    wsd_future_begin(self, &later);
}

static int late(struct wsd_worker *self, void *arg, void **ret_value)
{
    *ret_value = arg;
    return 7;
}

static void do_start(struct wsd_worker *self, void *arg)
{
    wsd_future_start(self, &later, late, arg);
}

static bool all_sleep(const struct pool *pool)
{
    struct pool_counters c;

    for (uint32_t i = 0; i < pool_workers_seen(pool); i++) {
        pool_worker_counters(pool, i, &c);
        if (pool_worker_kind(pool, i) == POOL_WORKER && c.parks == c.wakeups)
            return false;
    }
    return true;
}

START_TEST(work_that_is_submitted_later_wakes_all_that_wait_for_it)
{
    uint32_t n = sizes[_i / 3] * 2;
    struct pool *pool = new_pool(sizes[_i / 3]);
    static struct root roots[64];

    run_on(pool, do_begin, NULL);
    waiting = woken = 0;
    for (uint32_t i = 0; i < n; i++)
        root_submit(pool, &roots[i], do_wait, NULL);
    while (atomic_load(&waiting) < n) /* more than there are workers: others came in place of those that wait */
        usleep(100);
    while (!all_sleep(pool))
        usleep(100);
    ck_assert_uint_eq(atomic_load(&woken), 0);
    if (_i % 3 == 0)
        run_on(pool, do_start, &later); /* as a root */
    else if (_i % 3 == 1)
        wsd_future_start(NULL, &later, late, &later); /* from outside */
    else
        wsd_future_set(&later, &later, 7);
    ck_assert_int_eq(wsd_future_wait(NULL, &later, NULL), 7);
    pool_free(pool);
    ck_assert_uint_eq(atomic_load(&woken), n);
}
END_TEST

/* One worker spawns a task that sets a promise, and on top of it starts a future that waits for that promise. The other
 * worker waits for the future. It may not take what it sees in the first one's deque, and no other worker runs. */
static struct wsd_future promise, on_top;
static _Atomic uint32_t begun, gate;

WSD_VOID_TASK_1(keep_policy, struct wsd_future *, f)
{
    wsd_future_set(f, NULL, 3);
}

static int wait_on_top(struct wsd_worker *self, void *arg, void **ret_value)
{
    return wsd_future_wait(self, &promise, NULL);
}

static void come(void)
{
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&gate) == 0)
        sched_yield();
}

static void do_bury(struct wsd_worker *self, void *arg)
{
    wsd_future_begin(self, &promise);
    wsd_future_begin(self, &on_top);
    come();
    WSD_SPAWN(keep_policy, &promise);
    wsd_future_start(self, &on_top, wait_on_top, NULL);
    atomic_store(&gate, 2);
    ck_assert_int_eq(wsd_future_wait(self, &on_top, NULL), 3);
    WSD_SYNC(keep_policy);
}

static void do_watch(struct wsd_worker *self, void *arg)
{
    come();
    while (atomic_load(&gate) == 1)
        sched_yield();
    ck_assert_int_eq(wsd_future_wait(self, &on_top, NULL), 3);
}

START_TEST(a_worker_that_sees_only_what_it_may_not_take_makes_way_for_another)
{
    for (int round = 0; round < (SLOW ? 20 : 200); round++) {
        struct pool *pool = new_pool(2);
        struct root bury, watch;

        atomic_store(&begun, 0);
        atomic_store(&gate, 0);
        root_submit(pool, &bury, do_bury, NULL);
        root_submit(pool, &watch, do_watch, NULL);
        while (atomic_load(&begun) < 2)
            usleep(20);
        ck_assert_int_eq(pool_set_workers(pool, 1), 0);
        atomic_store(&gate, 1);
        root_wait(&bury);
        root_wait(&watch);
        pool_free(pool);
    }
}
END_TEST

/* --- a join that runs only its own --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t held;

WSD_VOID_TASK_1(locked, int, depth)
{
    if (depth > 0) {
        WSD_SPAWN(locked, depth - 1);
        WSD_SPAWN(locked, depth - 1);
        WSD_SYNC(locked);
        WSD_SYNC(locked);
        return;
    }
    /* An ordinary lock: a second one on this stack would hang. */
    ck_assert_int_eq(pthread_mutex_lock(&lock), 0);
    wsd_own_begin(self);
    WSD_SPAWN(fib, 14);
    ck_assert_int_eq(WSD_CALL(fib, 13), 233);
    ck_assert_int_eq(WSD_SYNC(fib), 377);
    wsd_own_end(self);
    atomic_fetch_add(&held, 1);
    pthread_mutex_unlock(&lock);
}

static void do_locked(struct wsd_worker *self, void *arg)
{
    WSD_CALL(locked, 7);
}

START_TEST(a_lock_may_be_held_across_a_join_of_its_own)
{
    struct pool *pool = new_pool(sizes[_i]);

    atomic_store(&held, 0);
    for (int i = 0; i < (SLOW ? 3 : 30); i++)
        run_on(pool, do_locked, NULL);
    ck_assert_uint_eq(atomic_load(&held), (SLOW ? 3 : 30) * 128);
    pool_free(pool);
}
END_TEST

/* --- blocking --- */

static int pipes[2];
static _Atomic uint32_t blocked;

static void do_block(struct wsd_worker *self, void *arg)
{
    char c;

    wsd_blocking_begin(self);
    wsd_blocking_begin(self); /* nested */
    atomic_fetch_add(&blocked, 1);
    ck_assert_int_eq(read(pipes[0], &c, 1), 1);
    wsd_blocking_end(self);
    wsd_blocking_end(self);
    atomic_fetch_sub(&blocked, 1);
}

static void do_unblock(struct wsd_worker *self, void *arg)
{
    static const char bytes[256];

    ck_assert_int_eq(write(pipes[1], bytes, *(size_t *)arg), *(ssize_t *)arg);
}

START_TEST(a_worker_that_blocks_leaves_its_cpu_to_others)
{
    size_t n = sizes[_i] + 20;
    struct pool *pool = new_pool(sizes[_i]);
    static struct root roots[64];

    ck_assert_int_eq(pipe(pipes), 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++)
            root_submit(pool, &roots[i], do_block, NULL);
        while (atomic_load(&blocked) < n)
            usleep(100);
        run_on(pool, do_unblock, &n);
        for (size_t i = 0; i < n; i++)
            root_wait(&roots[i]);
    }
    ck_assert_uint_le(pool_workers_seen(pool), n + sizes[_i] + 1); /* the same ones again */
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

static _Atomic uint64_t ran;

static void do_count(struct wsd_worker *self, void *arg)
{
    ck_assert_int_eq(WSD_CALL(fib, 12), 144);
    atomic_fetch_add(&ran, 1);
}

static uint32_t active(const struct pool *pool)
{
    uint32_t n = 0, seen = pool_workers_seen(pool);

    for_each_active(i, pool, seen) n++;
    return n;
}

START_TEST(a_spare_worker_is_not_asked_for_work_once_it_is_gone)
{
    enum { N = 60, WORKERS = 2 };
    struct pool *pool = new_pool(WORKERS);
    static struct root roots[N];

    ck_assert_int_eq(pipe(pipes), 0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < N; i++)
            root_submit(pool, &roots[i], do_block, NULL);
        while (atomic_load(&blocked) < N)
            usleep(100);
        ck_assert_uint_ge(active(pool), N);
        run_on(pool, do_unblock, &(size_t){N});
        for (size_t i = 0; i < N; i++)
            root_wait(&roots[i]);
        /* Between two tasks, or woken for one: where there is work. The first one is always asked. */
        while (active(pool) > WORKERS + 1)
            run_on(pool, do_count, NULL);
    }
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

/* The bound: below it, above it, at it, far above it. An emulator has the first two only. */
static const int beyond[] = {-1, 1, 0, 60};

START_TEST(where_more_block_than_there_are_spare_workers_the_rest_waits_its_turn)
{
    enum { WORKERS = 2, MOST = WORKERS + POOL_SPARES_MAX };
    uint32_t n = (uint32_t)((int)MOST + beyond[_i]), expected = n < MOST ? n : MOST;
    struct pool *pool = new_pool(WORKERS);
    static struct root roots[MOST + 60], another;
    static const char bytes[MOST + 60];

    ck_assert_int_eq(pipe(pipes), 0);
    atomic_store(&blocked, 0);
    atomic_store(&ran, 0);
    for (uint32_t i = 0; i < n; i++)
        root_submit(pool, &roots[i], do_block, NULL);
    while (atomic_load(&blocked) < expected)
        usleep(100);
    root_submit(pool, &another, do_count, NULL);
    if (n < MOST)
        root_wait(&another); /* there is one more for it */
    usleep(1000);
    ck_assert_uint_eq(atomic_load(&blocked), expected);
    ck_assert_uint_eq(atomic_load(&ran), n < MOST);
    ck_assert_uint_le(pool_workers_seen(pool), MOST);
    /* A number may be asked for all the same: it holds once they come back. */
    ck_assert_int_eq(pool_set_workers(pool, 1), 0);
    ck_assert_uint_eq(pool_workers(pool), 1);
    ck_assert_int_eq(pool_set_workers(pool, WORKERS), 0);
    ck_assert_uint_eq(pool_workers(pool), WORKERS);
    ck_assert_int_eq(write(pipes[1], bytes, n), n);
    for (uint32_t i = 0; i < n; i++)
        root_wait(&roots[i]);
    root_wait(&another);
    ck_assert_uint_eq(atomic_load(&ran), 1);
    ck_assert_uint_eq(atomic_load(&blocked), 0);
    run_on(pool, do_count, NULL);
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

/* --- threads that cannot be had --- */

static _Atomic bool no_threads;
static _Atomic uint32_t refused;
static _Atomic(struct pool *) comes_back; /* pool with a worker that comes back while the next thread is made */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    struct pool *pool = atomic_exchange(&comes_back, NULL);

    if (pool)
        atomic_fetch_add(&pool->running, 1);
    if (!atomic_load(&no_threads))
        return __real_pthread_create(thread, attr, fn, arg);
    atomic_fetch_add(&refused, 1);
    return EAGAIN;
}

static void do_block_often(struct wsd_worker *self, void *arg)
{
    for (int i = 0; i < 3000; i++) {
        wsd_blocking_begin(self);
        wsd_blocking_end(self);
    }
}

START_TEST(a_thread_that_cannot_be_had_costs_nothing_and_is_asked_for_again)
{
    struct pool *pool = new_pool(1);
    static struct root root;
    size_t n = 1;

    atomic_store(&refused, 0);
    atomic_store(&no_threads, true);
    run_on(pool, do_block_often, NULL);
    ck_assert_uint_ge(atomic_load(&refused), 3000);
    ck_assert_uint_le(pool_workers_seen(pool), 2);
    ck_assert_int_eq(pool_set_workers(pool, 5), -EAGAIN);
    ck_assert_uint_eq(pool_workers(pool), 1);
    run_on(pool, do_count, NULL);
    atomic_store(&no_threads, false);
    ck_assert_int_eq(pipe(pipes), 0);
    root_submit(pool, &root, do_block, NULL);
    while (atomic_load(&blocked) == 0)
        usleep(100);
    run_on(pool, do_unblock, &n); /* by another one */
    root_wait(&root);
    ck_assert_int_eq(pool_set_workers(pool, 5), 0);
    run_on(pool, do_count, NULL);
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

START_TEST(a_spare_worker_for_one_that_came_back_goes)
{
    struct pool *pool = new_pool(1);
    static struct root root;

    ck_assert_int_eq(pipe(pipes), 0);
    atomic_store(&comes_back, pool);
    root_submit(pool, &root, do_block, NULL);
    while (atomic_load(&blocked) == 0 || atomic_load(&comes_back) || atomic_load(&pool->running) != 1)
        usleep(100); /* two of one: the one that is not needed leaves without being told of work */
    atomic_fetch_sub(&pool->running, 1);
    ck_assert_int_eq(write(pipes[1], "", 1), 1);
    root_wait(&root);
    run_on(pool, do_count, NULL);
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

/* --- the number of workers --- */

START_TEST(the_number_of_workers_changes_under_load)
{
    static const uint32_t turns[] = {4, 1, 16, 2, 33, 3, 1, 8};
    enum { ROOTS = 2000 };
    struct pool *pool = new_pool(2);
    static struct root roots[ROOTS];
    uint64_t total = 0;

    atomic_store(&ran, 0);
    for (size_t t = 0; t < 8; t++) {
        for (int i = 0; i < ROOTS; i++)
            root_submit(pool, &roots[i], do_count, NULL);
        total += ROOTS;
        ck_assert_int_eq(pool_set_workers(pool, turns[t]), 0);
        ck_assert_uint_eq(pool_workers(pool), turns[t]);
        for (int i = 0; i < ROOTS; i++)
            root_wait(&roots[i]);
        ck_assert_uint_eq(atomic_load(&ran), total);
        /* Surplus workers leave when they next look for work: else this times out. */
        while (pool->running != turns[t])
            usleep(100);
    }
    ck_assert_int_eq(pool_set_workers(pool, 0), -EINVAL);
    ck_assert_int_eq(pool_set_workers(pool, POOL_WORKERS_MAX + 1), -EINVAL);
    pool_close(pool);
    ck_assert_int_eq(pool_set_workers(pool, 3), -ESHUTDOWN);
    pool_free(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("future");
    TCase *t = tcase_create("future");

    tcase_set_timeout(t, SLOW ? 300 : 60);
    tcase_add_loop_test(t, a_future_has_value_and_error, 0, 4);
    tcase_add_loop_test(t, futures_nest, 0, 4);
    tcase_add_loop_test(t, waits_in_any_order_of_a_graph_end, 0, 8);
    tcase_add_loop_test(t, work_that_is_submitted_later_wakes_all_that_wait_for_it, 0, 12);
    tcase_add_test(t, a_worker_that_sees_only_what_it_may_not_take_makes_way_for_another);
    tcase_add_loop_test(t, a_lock_may_be_held_across_a_join_of_its_own, 0, 4);
    tcase_add_loop_test(t, a_worker_that_blocks_leaves_its_cpu_to_others, 0, 4);
    tcase_add_test(t, a_spare_worker_is_not_asked_for_work_once_it_is_gone);
    tcase_add_loop_test(t, where_more_block_than_there_are_spare_workers_the_rest_waits_its_turn, 0,
                        (int)count_for(4, 2));
    tcase_add_test(t, a_thread_that_cannot_be_had_costs_nothing_and_is_asked_for_again);
    tcase_add_test(t, a_spare_worker_for_one_that_came_back_goes);
    tcase_add_test(t, the_number_of_workers_changes_under_load);
    suite_add_tcase(s, t);
    return run_suite(s);
}
