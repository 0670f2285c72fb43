/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lane-called.c: what workers tell of direct calls is counted, once. */
#include "domains/lane-called.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "table/function-stats.h"
#include "tests/unit/suite.h"

static struct up_called *called;
static struct lane_called told;
static struct function_stats stats;

static void setup(void)
{
    called = aligned_alloc(64, sizeof(*called));
    ck_assert_ptr_nonnull(called);
    memset(called, 0, sizeof(*called));
    told = (struct lane_called){.run_most = 0};
    stats = (struct function_stats){.uid = 1};
}

static void teardown(void)
{
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++)
        histogram_deinit(&stats.of[i]);
    free(called);
}

/* n calls of a slot, of so long each. */
static void call(uint32_t slot, enum ring_called end, uint64_t n, uint64_t usec)
{
    struct up_calls *u = &called->slots[slot];

    u->ended[end] += n;
    u->run_usec += n * usec;
    if (u->run_most < usec)
        u->run_most = usec;
    called->run[histogram_bucket(usec)] += n;
}

static bool count(void)
{
    struct lane_called now;

    if (!lane_called_look(called, &told, &now))
        return false;
    lane_called_take(called, &told, &now, &stats);
    return true;
}

START_TEST(nothing_is_nothing)
{
    ck_assert(!count());
}
END_TEST

START_TEST(each_call_is_counted_once)
{
    call(0, RING_CALL_SUCCEEDED, 5, 3);
    call(RING_LANE_SLOTS - 1, RING_CALL_SUCCEEDED, 1, 1000);
    call(1, RING_CALL_FAILED, 2, 7);
    call(2, RING_CALL_CANCELLED, 3, 7);
    call(3, RING_CALL_TIMED_OUT, 4, 7);
    ck_assert(count());
    ck_assert(!count());
    for (int again = 0; again < 2; again++) {
        ck_assert_uint_eq(stats.ended[FUNCTION_SUCCEEDED], 6);
        ck_assert_uint_eq(stats.ended[FUNCTION_FAILED], 2 + (unsigned)again);
        ck_assert_uint_eq(stats.ended[FUNCTION_CANCELLED], 3);
        ck_assert_uint_eq(stats.ended[FUNCTION_TIMED_OUT], 4);
        ck_assert_uint_eq(stats.direct, 15 + (unsigned)again);
        ck_assert_uint_eq(stats.of[FUNCTION_RUN].sum, 15 + 1000 + 63 + 7 * (unsigned)again);
        ck_assert_uint_eq(stats.of[FUNCTION_RUN].max, 1000);
        ck_assert_uint_eq(histogram_at(&stats.of[FUNCTION_RUN], 7), 9 + (unsigned)again);
        ck_assert_uint_eq(histogram_at(&stats.of[FUNCTION_RUN], 3), 5);
        ck_assert_uint_eq(histogram_next(&stats.of[FUNCTION_QUEUE], 0), HISTOGRAM_BUCKETS);
        if (again == 0) {
            call(1, RING_CALL_FAILED, 1, 7);
            ck_assert(count());
        }
    }
}
END_TEST

START_TEST(a_lie_takes_nothing_back)
{
    call(0, RING_CALL_SUCCEEDED, 5, 3);
    ck_assert(count());
    called->slots[0].ended[RING_CALL_SUCCEEDED] = 1;
    called->slots[0].ended[RING_CALL_FAILED] = 1;
    called->slots[0].run_usec = 0;
    ck_assert(count());
    ck_assert_uint_eq(stats.ended[FUNCTION_SUCCEEDED], 5);
    ck_assert_uint_eq(stats.ended[FUNCTION_FAILED], 1);
    ck_assert_uint_eq(stats.of[FUNCTION_RUN].sum, 15);
}
END_TEST

START_TEST(the_next_lane_begins_at_zero)
{
    call(9, RING_CALL_SUCCEEDED, 5, 3);
    ck_assert(count());
    lane_called_reset(called);
    told = (struct lane_called){.run_most = 0};
    ck_assert(!count());
    call(9, RING_CALL_SUCCEEDED, 1, 3);
    ck_assert(count());
    ck_assert_uint_eq(stats.ended[FUNCTION_SUCCEEDED], 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane-called");
    TCase *cases = tcase_create("all");

    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, nothing_is_nothing);
    tcase_add_test(cases, each_call_is_counted_once);
    tcase_add_test(cases, a_lie_takes_nothing_back);
    tcase_add_test(cases, the_next_lane_begins_at_zero);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
