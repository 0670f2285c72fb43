/* SPDX-License-Identifier: Apache-2.0
 *
 * test-retry-after.c: when refused clients are told to come again. */
#include <check.h>
#include <stdlib.h>

#include "sched/retry-after.h"
#include "tests/unit/suite.h"

#define NOW 1000000000u

START_TEST(each_is_told_a_time_of_its_own)
{
    struct retry_after r = {0};

    for (uint64_t i = 1; i <= 49; i++)
        ck_assert_uint_eq(retry_after_refuse(&r, NOW), i * RETRY_AFTER_FIRST_USEC);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(retry_after_refuse(&r, NOW), RETRY_AFTER_MOST_USEC); /* below, at and above */
}
END_TEST

START_TEST(the_times_follow_the_run_slots)
{
    struct retry_after r = {0};
    uint64_t now = NOW;

    retry_after_refuse(&r, now);
    for (int i = 0; i < 40; i++)
        retry_after_freed(&r, now += 20000);
    uint64_t first = retry_after_refuse(&r, now);
    ck_assert_uint_ge(first, 20000);
    ck_assert_uint_le(first, 20500);
    ck_assert_uint_le(retry_after_refuse(&r, now), 41000);
    for (int i = 0; i < 40; i++)
        retry_after_freed(&r, now += 10);
    now += 100000; /* all that were told an earlier time have come */
    retry_after_freed(&r, now);
    ck_assert_uint_le(retry_after_refuse(&r, now), 30000);
}
END_TEST

START_TEST(where_no_place_becomes_free_the_pauses_grow)
{
    struct retry_after r = {0};
    uint64_t now = NOW, last = 0, n = 0;

    for (; last < RETRY_AFTER_MOST_USEC; n++) {
        uint64_t wait = retry_after_refuse(&r, now);

        ck_assert_uint_ge(wait, last);
        ck_assert_uint_le(wait, RETRY_AFTER_MOST_USEC);
        now += last = wait;
        ck_assert_uint_lt(n, 10);
    }
    ck_assert_uint_ge(n, 5);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(retry_after_refuse(&r, now += RETRY_AFTER_MOST_USEC), RETRY_AFTER_MOST_USEC);
}
END_TEST

START_TEST(never_more_often_than_a_thousand_times_a_second)
{
    struct retry_after r = {0};
    uint64_t now = NOW;

    retry_after_refuse(&r, now);
    for (int i = 0; i < 100; i++)
        retry_after_freed(&r, now);
    now += 2 * RETRY_AFTER_FIRST_USEC;
    retry_after_freed(&r, now);
    for (int i = 0; i < 100; i++)
        retry_after_freed(&r, now);
    ck_assert_uint_eq(retry_after_refuse(&r, now), RETRY_AFTER_LEAST_USEC);
}
END_TEST

START_TEST(without_waiters_it_is_as_new)
{
    struct retry_after r = {0};

    ck_assert(!retry_after_is_wanted(&r));
    uint64_t due = NOW + retry_after_refuse(&r, NOW);
    ck_assert(retry_after_is_wanted(&r));
    retry_after_freed(&r, due + RETRY_AFTER_MOST_USEC);
    ck_assert(retry_after_is_wanted(&r));
    retry_after_freed(&r, due + RETRY_AFTER_MOST_USEC + 1);
    ck_assert(!retry_after_is_wanted(&r));
    /* the time without waiters does not count */
    ck_assert_uint_lt(retry_after_refuse(&r, due + 100 * RETRY_AFTER_MOST_USEC), RETRY_AFTER_MOST_USEC);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("retry-after");
    Suite *s = suite_create("retry-after");

    tcase_add_test(tc, each_is_told_a_time_of_its_own);
    tcase_add_test(tc, the_times_follow_the_run_slots);
    tcase_add_test(tc, where_no_place_becomes_free_the_pauses_grow);
    tcase_add_test(tc, never_more_often_than_a_thousand_times_a_second);
    tcase_add_test(tc, without_waiters_it_is_as_new);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
