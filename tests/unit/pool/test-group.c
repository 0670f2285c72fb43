/* SPDX-License-Identifier: Apache-2.0
 *
 * test-group.c: task groups of wsd/forms.h: joins, first error, cancelling. */
#include "forms.h"

/* test-forms-cxx.cpp, where there is a C++ compiler */
int cxx_forms(struct wsd_worker *self);

static _Atomic uint64_t ran;

static int count_one(struct wsd_worker *self, void *arg)
{
    ran++;
    return 0;
}

static void do_counts(struct wsd_worker *self, void *arg)
{
    static const uint64_t counts[] = {0, 1, 2, 100, 20000};

    for (size_t c = 0; c < 5; c++) {
        struct wsd_group g;
        ran = 0;
        wsd_group_begin(self, &g, NULL);
        for (uint64_t i = 0; i < counts[c]; i++)
            wsd_group_spawn(self, &g, count_one, NULL);
        ck_assert_int_eq(wsd_group_end(self, &g), 0);
        ck_assert_uint_eq(ran, counts[c]);
    }
}

START_TEST(all_children_have_run_at_the_end)
{
    on_workers(_i, do_counts, NULL);
}
END_TEST

struct fib {
    struct wsd_group *parent;
    long n, result;
};

static int fib(struct wsd_worker *self, void *arg)
{
    struct fib *f = arg, a = {.n = f->n - 1}, b = {.n = f->n - 2};
    struct wsd_group g;

    f->result = f->n;
    if (f->n < 2)
        return 0;
    wsd_group_begin(self, &g, f->parent);
    a.parent = b.parent = &g;
    wsd_group_spawn(self, &g, fib, &a);
    wsd_group_spawn(self, &g, fib, &b);
    int error = wsd_group_end(self, &g);
    f->result = a.result + b.result;
    return error;
}

static void do_fib(struct wsd_worker *self, void *arg)
{
    struct fib f = {.n = SLOW ? 14 : 20};

    ck_assert_int_eq(fib(self, &f), 0);
    ck_assert_int_eq(f.result, SLOW ? 377 : 6765);
}

START_TEST(groups_in_groups_work_on_task_stacks_of_any_size)
{
    static const uint32_t slots[] = {0, 1, 3, 16};

    for (size_t i = 0; i < 4; i++) {
        struct pool_options o = {.workers = sizes[_i], .task_bytes = slots[i] * 32};
        struct pool *pool;
        ck_assert_int_eq(pool_new(&pool, &o), 0);
        run_on(pool, do_fib, NULL);
        pool_free(pool);
    }
}
END_TEST

WSD_TASK_1(int, twice, int, n)
{
    return 2 * n;
}

static void do_brackets(struct wsd_worker *self, void *arg)
{
    struct wsd_group outer, inner;

    ran = 0;
    WSD_SPAWN(twice, 1);
    wsd_group_begin(self, &outer, NULL);
    wsd_group_spawn(self, &outer, count_one, NULL);
    WSD_SPAWN(twice, 2);
    wsd_group_begin(self, &inner, &outer);
    wsd_group_spawn(self, &inner, count_one, NULL);
    wsd_group_spawn(self, &inner, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &inner), 0);
    ck_assert_int_eq(WSD_SYNC(twice), 4);
    wsd_group_spawn(self, &outer, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &outer), 0);
    ck_assert_int_eq(WSD_SYNC(twice), 2);
    ck_assert_uint_eq(ran, 4);
}

START_TEST(groups_and_spawns_nest_like_brackets)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 200; i++)
        run_on(pool, do_brackets, NULL);
    pool_free(pool);
}
END_TEST

/* --- errors --- */

static int fails(struct wsd_worker *self, void *arg)
{
    ran++;
    return *(int *)arg;
}

static void do_skip(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;
    int seven = 7;

    ran = 0;
    wsd_group_begin(self, &g, NULL);
    for (int i = 0; i < 100; i++)
        if (i == 50)
            wsd_group_spawn(self, &g, fails, &seven);
        else
            wsd_group_spawn(self, &g, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &g), 7);
    ck_assert_uint_eq(ran, 50); /* the youngest first */
}

START_TEST(what_has_not_begun_when_a_child_fails_is_skipped)
{
    on_workers(0, do_skip, NULL);
}
END_TEST

static int nine_when_cancelled(struct wsd_worker *self, void *arg)
{
    while (!wsd_group_cancelled(arg))
        sched_yield();
    return 9;
}

static void do_first(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;
    int five = 5;

    wsd_group_begin(self, &g, NULL);
    for (int i = 0; i < 4; i++)
        wsd_group_spawn(self, &g, nine_when_cancelled, &g);
    wsd_group_spawn(self, &g, fails, &five); /* joined first, so by its owner where it was not stolen */
    ck_assert_int_eq(wsd_group_end(self, &g), 5);
}

START_TEST(the_first_error_wins_over_those_that_it_causes)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 300; i++)
        run_on(pool, do_first, NULL);
    pool_free(pool);
}
END_TEST

struct family {
    struct wsd_group *parent;
    bool returns;
};

static int child_group(struct wsd_worker *self, void *arg)
{
    struct family *f = arg;
    struct wsd_group g;
    int three = 3;

    wsd_group_begin(self, &g, f->parent);
    wsd_group_spawn(self, &g, fails, &three);
    int error = wsd_group_end(self, &g);
    ck_assert_int_eq(error, 3);
    ck_assert(!wsd_group_cancelled(f->parent));
    return f->returns ? error : 0;
}

static void do_family(struct wsd_worker *self, void *arg)
{
    for (int returns = 0; returns < 2; returns++) {
        struct wsd_group g;
        struct family f = {.parent = &g, .returns = returns};
        wsd_group_begin(self, &g, NULL);
        wsd_group_spawn(self, &g, child_group, &f);
        ck_assert_int_eq(wsd_group_end(self, &g), returns ? 3 : 0);
    }
}

START_TEST(an_error_reaches_the_parent_only_where_it_is_returned)
{
    on_workers(_i, do_family, NULL);
}
END_TEST

/* --- cancelling --- */

static void do_cancelled(struct wsd_worker *self, void *arg)
{
    struct wsd_group top, middle, low;

    ran = 0;
    wsd_group_begin(self, &top, NULL);
    wsd_group_begin(self, &middle, &top);
    wsd_group_begin(self, &low, &middle);
    ck_assert(!wsd_group_cancelled(&low));
    wsd_group_cancel(&middle);
    ck_assert(!wsd_group_cancelled(&top) && wsd_group_cancelled(&middle) && wsd_group_cancelled(&low));
    for (int i = 0; i < 1000; i++)
        wsd_group_spawn(self, &low, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &low), -ECANCELED);
    ck_assert_uint_eq(ran, 0);
    ck_assert_int_eq(wsd_group_end(self, &middle), -ECANCELED);
    wsd_group_spawn(self, &top, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &top), 0);
    ck_assert_uint_eq(ran, 1);
    ck_assert(!wsd_group_cancelled(NULL));
}

START_TEST(cancelling_reaches_what_is_below_and_nothing_else)
{
    on_workers(_i, do_cancelled, NULL);
}
END_TEST

static void do_outside(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;
    struct canceller c = {.group = &g, .count = &ran, .enough = 1};

    ran = 0;
    wsd_group_begin(self, &g, NULL);
    canceller_start(&c);
    ran = 1;
    while (!wsd_group_cancelled(&g))
        sched_yield();
    for (int i = 0; i < 1000; i++)
        wsd_group_spawn(self, &g, count_one, NULL);
    ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
    ck_assert_uint_eq(ran, 1);
    canceller_join(&c);
}

START_TEST(another_thread_may_cancel)
{
    on_workers(_i, do_outside, NULL);
}
END_TEST

static void do_table(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;

    ck_assert_uint_eq(sizeof(g), 128);
    self->ops->group_begin(self, &g, NULL);
    ck_assert(!g.ops->group_cancelled(&g));
    g.ops->group_cancel(&g);
    ck_assert(g.ops->group_cancelled(&g));
    ck_assert_int_eq(self->ops->group_end(self, &g), -ECANCELED);
}

START_TEST(the_table_has_it_all)
{
    on_workers(0, do_table, NULL);
}
END_TEST

static void do_stranger(struct wsd_worker *self, void *arg)
{
    struct wsd_worker other = *self;
    struct wsd_group g;

    wsd_group_begin(self, &g, NULL);
    g.owner = &other;
    if (*(int *)arg)
        wsd_group_spawn(self, &g, count_one, NULL);
    else
        wsd_group_end(self, &g);
    g.owner = self;
    wsd_group_end(self, &g);
}

START_TEST(a_stranger_to_the_group_is_stopped)
{
    on_workers(0, do_stranger, &_i);
}
END_TEST

#ifdef HAVE_CXX
static void do_cxx(struct wsd_worker *self, void *arg)
{
    ck_assert_int_eq(cxx_forms(self), 0);
}

START_TEST(forms_work_in_cxx_with_lambdas)
{
    on_workers(_i, do_cxx, NULL);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("group");
    TCase *t = tcase_create("group");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, all_children_have_run_at_the_end, 0, N_SIZES);
    tcase_add_loop_test(t, groups_in_groups_work_on_task_stacks_of_any_size, 0, N_SIZES);
    tcase_add_loop_test(t, groups_and_spawns_nest_like_brackets, 0, N_SIZES);
    tcase_add_test(t, what_has_not_begun_when_a_child_fails_is_skipped);
    tcase_add_loop_test(t, the_first_error_wins_over_those_that_it_causes, 0, N_SIZES);
    tcase_add_loop_test(t, an_error_reaches_the_parent_only_where_it_is_returned, 0, N_SIZES);
    tcase_add_loop_test(t, cancelling_reaches_what_is_below_and_nothing_else, 0, N_SIZES);
    tcase_add_loop_test(t, another_thread_may_cancel, 0, N_SIZES);
    tcase_add_test(t, the_table_has_it_all);
    tcase_add_loop_test_raise_signal(t, a_stranger_to_the_group_is_stopped, SIGABRT, 0, 2);
#ifdef HAVE_CXX
    tcase_add_loop_test(t, forms_work_in_cxx_with_lambdas, 0, N_SIZES);
#endif
    suite_add_tcase(s, t);
    return run_suite(s);
}
