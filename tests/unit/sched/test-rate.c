/* SPDX-License-Identifier: Apache-2.0
 *
 * test-rate.c: so many events a second, and a burst. Time is a number here. */
#include <check.h>
#include <stdlib.h>

#include "sched/rate.h"
#include "tests/unit/suite.h"

#define SEC 1000000000ull
#define NOW (100 * SEC)

/* Takes one if it may come. */
static int one(uint64_t *at, uint64_t rate, uint64_t burst, uint64_t now)
{
    if (rate_wait(*at, rate, burst, now))
        return 0;
    rate_take(at, rate, now);
    return 1;
}

static uint32_t as_many_as_may(uint64_t *at, uint64_t rate, uint64_t burst, uint64_t now)
{
    uint32_t n = 0;

    while (n < 5000 && one(at, rate, burst, now))
        n++;
    return n;
}

START_TEST(rate_0_is_no_limit)
{
    uint64_t at = 0;

    ck_assert_uint_eq(as_many_as_may(&at, 0, 1, NOW), 5000);
}
END_TEST

START_TEST(a_burst_at_once_and_then_one_by_one)
{
    uint64_t at = 0;

    ck_assert_uint_eq(as_many_as_may(&at, 10, 3, NOW), 3);
    ck_assert_uint_eq(rate_wait(at, 10, 3, NOW), 100000);
    ck_assert_uint_eq(rate_wait(at, 10, 3, NOW + SEC / 10 - 1), 1); /* never too early */
    ck_assert_uint_eq(as_many_as_may(&at, 10, 3, NOW + SEC / 10), 1);
    ck_assert_uint_eq(as_many_as_may(&at, 10, 3, NOW + 3 * SEC / 10), 2);
}
END_TEST

START_TEST(without_a_burst_as_many_as_in_a_second)
{
    uint64_t at = 0;

    ck_assert_uint_eq(as_many_as_may(&at, 20, 0, NOW), 20);
}
END_TEST

START_TEST(a_pause_earns_no_more_than_a_burst)
{
    uint64_t at = 0;

    ck_assert_uint_eq(as_many_as_may(&at, 10, 3, NOW), 3);
    ck_assert_uint_eq(as_many_as_may(&at, 10, 3, NOW + 1000 * SEC), 3);
}
END_TEST

START_TEST(the_rate_holds_over_a_long_time)
{
    uint64_t at = 0;
    uint32_t n = 0;

    for (uint64_t now = NOW; now <= NOW + 10 * SEC; now += SEC / 1000)
        n += as_many_as_may(&at, 70, 5, now);
    ck_assert_uint_ge(n, 700);
    ck_assert_uint_le(n, 705);
}
END_TEST

START_TEST(a_rate_above_the_clock_is_no_limit)
{
    uint64_t at = 0;

    ck_assert_uint_eq(as_many_as_may(&at, SEC + 1, 1, NOW), 5000);
    ck_assert_uint_eq(as_many_as_may(&at, UINT64_MAX, UINT64_MAX, NOW), 5000);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rate");
    Suite *s = suite_create("rate");

    tcase_add_test(tc, rate_0_is_no_limit);
    tcase_add_test(tc, a_burst_at_once_and_then_one_by_one);
    tcase_add_test(tc, without_a_burst_as_many_as_in_a_second);
    tcase_add_test(tc, a_pause_earns_no_more_than_a_burst);
    tcase_add_test(tc, the_rate_holds_over_a_long_time);
    tcase_add_test(tc, a_rate_above_the_clock_is_no_limit);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
