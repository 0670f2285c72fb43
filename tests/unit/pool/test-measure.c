/* SPDX-License-Identifier: Apache-2.0
 *
 * test-measure.c: work and span in strands, of programs with known trees; and that a pool that measures runs them
 * right. */
#include "pool/measure.h"

#include "support.h"
#include "wsd/forms.h"
#include "wsd/future.h"

static struct measure run_measured(wsd_task_fn *fn, void *arg, uint32_t workers)
{
    struct measure m = {.workers = workers};
    struct pool_options o = {.workers = 1, .measure = &m};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, fn, arg);
    pool_free(pool);
    ck_assert_int_eq(m.error, 0);
    ck_assert(m.work.nsec >= m.span.nsec && m.burdened_nsec >= m.span.nsec);
    return m;
}

static void run_fib(struct wsd_worker *self, void *arg)
{
    *(long *)arg = WSD_CALL(fib, (int)*(long *)arg);
}

START_TEST(fib_has_the_strands_of_its_tree)
{
    uint64_t ends[26] = {0, 0}; /* strands but for the last */

    for (int n = 2; n < 26; n++)
        ends[n] = ends[n - 1] + ends[n - 2] + 3;
    for (int n = 1; n < 26; n += 4) {
        long value = n, a = 0, b = 1;
        struct measure m = run_measured(run_fib, &value, 1);

        for (int i = 0; i < n; i++) {
            long next = a + b;

            a = b;
            b = next;
        }
        ck_assert_int_eq(value, a);
        ck_assert_uint_eq(m.work.strands, ends[n] + 1);
        ck_assert_uint_eq(m.span.strands, 2 * (uint64_t)(n - 1) + 1);
        ck_assert_uint_eq(m.spawns, ends[n] / 3);
    }
}
END_TEST

static atomic_uint ran;

static void leaf(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&ran, 1);
}

static void row(struct wsd_worker *self, void *arg)
{
    int n = *(int *)arg;

    for (int i = 0; i < n; i++)
        wsd_spawn(self, leaf, NULL);
    for (int i = 0; i < n; i++)
        wsd_sync(self);
}

/* Children without results at one place of the stack: each of their joins is seen. */
START_TEST(a_row_of_children_is_as_long_as_their_spawns_and_joins)
{
    for (int n = 0; n < 100; n += 33) {
        atomic_store(&ran, 0);
        struct measure m = run_measured(row, &n, 1);

        ck_assert_uint_eq(atomic_load(&ran), (unsigned)n);
        ck_assert_uint_eq(m.work.strands, 3 * (uint64_t)n + 1);
        ck_assert_uint_eq(m.span.strands, n ? 2 * (uint64_t)n + 1 : 1);
    }
}
END_TEST

static void add(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void loop(struct wsd_worker *self, void *arg)
{
    wsd_for(self, 0, 1 << 20, 0, add, arg);
}

START_TEST(a_loop_is_cut_for_the_workers_that_it_is_told_of)
{
    for (uint32_t workers = 1; workers <= 64; workers *= 8) {
        atomic_uint pieces = 0;

        run_measured(loop, &pieces, workers);
        ck_assert_uint_eq(pieces, 8 * workers);
    }
}
END_TEST

static int answer(struct wsd_worker *self, void *arg, void **ret_value)
{
    *ret_value = arg;
    return 0;
}

static void promise(struct wsd_worker *self, void *arg)
{
    struct wsd_future f;
    void *value;

    wsd_future_begin(self, &f);
    wsd_future_start(self, &f, answer, arg);
    ck_assert_int_eq(wsd_future_wait(self, &f, &value), 0);
    ck_assert_ptr_eq(value, arg);
}

START_TEST(a_future_runs_and_is_counted_as_hidden)
{
    int any;

    ck_assert_uint_eq(run_measured(promise, &any, 1).hidden, 1);
    ck_assert_uint_eq(run_measured(row, &(int){1}, 1).hidden, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measure");
    TCase *cases = tcase_create("measure");

    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, fib_has_the_strands_of_its_tree);
    tcase_add_test(cases, a_row_of_children_is_as_long_as_their_spawns_and_joins);
    tcase_add_test(cases, a_loop_is_cut_for_the_workers_that_it_is_told_of);
    tcase_add_test(cases, a_future_runs_and_is_counted_as_hidden);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
