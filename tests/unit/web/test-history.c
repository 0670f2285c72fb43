/* SPDX-License-Identifier: Apache-2.0
 *
 * test-history.c: an hour by the second and a week by the minute: what is kept, what leaves a gap, and what goes. */
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "web/history.h"

static struct history h;
static uint64_t times[HISTORY_MINUTES];
static float firsts[HISTORY_MINUTES];
static uint32_t n;

static void setup(void)
{
    memset(&h, 0, sizeof(h));
    h.n_series = 2;
    n = 0;
}

static void add(uint64_t seconds, float first, float second)
{
    float values[HISTORY_SERIES] = {first, second};

    history_add(&h, seconds, values);
}

static void note(uint64_t time, const float *values, void *context)
{
    times[n] = time;
    firsts[n++] = values[0];
}

static uint32_t look(enum history_span span)
{
    n = 0;
    history_each(&h, span, note, NULL);
    return n;
}

START_TEST(nothing_is_there_at_first)
{
    ck_assert_uint_eq(look(HISTORY_HOUR), 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 0);
}
END_TEST

START_TEST(samples_come_back_in_order_and_gaps_stay)
{
    add(100000, 1, 0);
    add(100001, 2, 0);
    add(100007, 3, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 3);
    ck_assert_uint_eq(times[0], 100000);
    ck_assert_uint_eq(times[1], 100001);
    ck_assert_uint_eq(times[2], 100007);
    ck_assert_float_eq(firsts[2], 3);
}
END_TEST

START_TEST(a_second_has_its_last_value)
{
    add(100000, 1, 0);
    add(100000, 5, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 5);
}
END_TEST

START_TEST(a_clock_that_was_set_back_changes_nothing)
{
    add(100000, 1, 0);
    add(99999, 5, 0);
    add(100000 - HISTORY_SECONDS, 7, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 1);
}
END_TEST

START_TEST(an_hour_is_kept_and_no_more)
{
    for (uint32_t i = 0; i <= HISTORY_SECONDS; i++)
        add(100000 + i, (float)i, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), HISTORY_SECONDS);
    ck_assert_uint_eq(times[0], 100001);
    ck_assert_float_eq(firsts[0], 1);
    add(100000 + 2 * HISTORY_SECONDS + 5, 9, 0); /* all before is out of the hour */
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
}
END_TEST

START_TEST(a_minute_is_the_mean_of_its_seconds)
{
    for (uint32_t i = 0; i < 60; i++)
        add(120000 + i, (float)i, 0);
    add(120060, 100, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 2);
    ck_assert_uint_eq(times[0], 120000);
    ck_assert_float_eq_tol(firsts[0], 29.5f, 0.01f);
    ck_assert_uint_eq(times[1], 120060);
    ck_assert_float_eq(firsts[1], 100);
}
END_TEST

START_TEST(what_is_not_known_is_left_out_of_the_mean)
{
    add(120000, NAN, 0);
    add(120001, 4, 0);
    add(120002, NAN, 0);
    add(120003, 6, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 1);
    ck_assert_float_eq(firsts[0], 5);
    add(120060, NAN, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 2);
    ck_assert(isnan(firsts[1]));
}
END_TEST

START_TEST(a_week_is_kept_and_no_more)
{
    for (uint32_t i = 0; i <= HISTORY_MINUTES; i++)
        add(600000 + i * UINT64_C(60), (float)i, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), HISTORY_MINUTES);
    ck_assert_uint_eq(times[0], 600060);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("web history");
    TCase *c = tcase_create("history");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, nothing_is_there_at_first);
    tcase_add_test(c, samples_come_back_in_order_and_gaps_stay);
    tcase_add_test(c, a_second_has_its_last_value);
    tcase_add_test(c, a_clock_that_was_set_back_changes_nothing);
    tcase_add_test(c, an_hour_is_kept_and_no_more);
    tcase_add_test(c, a_minute_is_the_mean_of_its_seconds);
    tcase_add_test(c, what_is_not_known_is_left_out_of_the_mean);
    tcase_add_test(c, a_week_is_kept_and_no_more);
    suite_add_tcase(s, c);
    return run_suite(s);
}
