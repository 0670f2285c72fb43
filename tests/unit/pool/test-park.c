/* SPDX-License-Identifier: Apache-2.0
 *
 * test-park.c: which sleeper is woken, step by step on one thread. */
#include "pool/park.h"

#include "support.h"

static struct eventcount e;
static struct park p;

static void setup(void)
{
    eventcount_init(&e);
    park_init(&p, &e, false, NULL);
}

START_TEST(without_sleepers_there_is_no_system_call)
{
    ck_assert(!park_wake_root(&p));
    ck_assert(!park_wake_task(&p));
    ck_assert(!park_has_sleepers(&p));
}
END_TEST

START_TEST(a_sleeper_is_woken_once_until_it_searches)
{
    eventcount_prepare(&e);
    ck_assert(park_has_sleepers(&p));
    ck_assert(park_wake_root(&p));
    uint32_t epoch = atomic_load(&e.epoch);
    ck_assert(park_wake_root(&p)); /* by the one that is waking up */
    ck_assert(park_wake_task(&p));
    eventcount_cancel(&e);
    park_search_begin(&p);
    eventcount_prepare(&e);        /* another sleeper */
    ck_assert(park_wake_root(&p)); /* by the searcher */
    ck_assert_uint_eq(atomic_load(&e.epoch), epoch);
    ck_assert(park_search_end(&p));
    ck_assert(park_wake_root(&p));
    ck_assert_uint_ne(atomic_load(&e.epoch), epoch);
}
END_TEST

START_TEST(only_the_last_searcher_is_the_last)
{
    park_search_begin(&p);
    park_search_begin(&p);
    ck_assert(!park_search_end(&p));
    ck_assert(park_search_end(&p));
}
END_TEST

START_TEST(a_join_is_woken_by_tasks_not_by_roots)
{
    struct joiner a, b;

    eventcount_init(&a.event);
    eventcount_init(&b.event);
    list_init(&a.link);
    list_init(&b.link);
    park_joiner_add(&p, &a);
    park_joiner_add(&p, &b);
    ck_assert(park_has_sleepers(&p));
    uint32_t ea = eventcount_prepare(&a.event), eb = eventcount_prepare(&b.event);
    ck_assert(!park_wake_root(&p));
    ck_assert(park_wake_task(&p));
    ck_assert(eventcount_wait(&a.event, ea, 0, false));
    ck_assert(park_wake_task(&p));
    ck_assert(eventcount_wait(&b.event, eb, 0, false));
    ck_assert(!park_wake_task(&p));
    ck_assert(!park_joiner_remove(&p, &a));
    ck_assert(!park_joiner_remove(&p, &b));
    ck_assert(!park_joiner_remove(&p, &b));
    ck_assert(!park_has_sleepers(&p));
}
END_TEST

START_TEST(idle_workers_are_woken_before_joins)
{
    struct joiner a;

    eventcount_init(&a.event);
    list_init(&a.link);
    park_joiner_add(&p, &a);
    uint32_t idle = eventcount_prepare(&e);
    ck_assert(park_wake_task(&p));
    ck_assert(eventcount_wait(&e, idle, 0, false));
    ck_assert_ptr_ne(a.link.next, &a.link);
    ck_assert(park_joiner_remove(&p, &a));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("park");
    TCase *t = tcase_create("park");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, without_sleepers_there_is_no_system_call);
    tcase_add_test(t, a_sleeper_is_woken_once_until_it_searches);
    tcase_add_test(t, only_the_last_searcher_is_the_last);
    tcase_add_test(t, a_join_is_woken_by_tasks_not_by_roots);
    tcase_add_test(t, idle_workers_are_woken_before_joins);
    suite_add_tcase(s, t);
    return run_suite(s);
}
