/* SPDX-License-Identifier: Apache-2.0
 *
 * test-due.c: what waits for a clock is called once, in order, and never before its time. */
#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sched/due.h"
#include "tests/unit/suite.h"

#define N (2 * DUE_A_TURN + 1)

struct waiting {
    struct due due;
    uint64_t at_usec;
    uint32_t calls, order;
};

static struct event_base *base;
static struct due_clock boot;
static struct waiting all[N];
static uint32_t n_called;

static void on_due(struct due *due)
{
    struct waiting *w = container_of(due, struct waiting, due);

    ck_assert_uint_ge(clock_usec(CLOCK_BOOTTIME), w->at_usec);
    ck_assert_ptr_null(due->clock);
    w->order = n_called++;
    w->calls++;
}

static void set_up(void)
{
    base = event_base_new();
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(due_init(&boot, base, CLOCK_BOOTTIME, NULL, NULL), 0);
    for (uint32_t i = 0; i < N; i++)
        all[i] = (struct waiting){.due.call = on_due};
    n_called = 0;
}

static void tear_down(void)
{
    ck_assert(heap_empty(&boot.heap));
    due_deinit(&boot);
    event_base_free(base);
}

static void set(struct waiting *w, uint64_t at_usec)
{
    w->at_usec = at_usec;
    due_set(&w->due, &boot, at_usec);
}

static void run_until(uint32_t n)
{
    while (n_called < n)
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

START_TEST(the_earliest_first_whatever_came_first)
{
    uint64_t now = clock_usec(CLOCK_BOOTTIME);

    set(&all[0], now + 20000);
    set(&all[1], now + 10000);
    set(&all[2], now + 30000);
    ck_assert_uint_gt(due_left(&all[2].due), due_left(&all[1].due));
    run_until(3);
    ck_assert(all[1].order == 0 && all[0].order == 1 && all[2].order == 2);
    ck_assert_uint_eq(due_left(&all[0].due), 0);
}
END_TEST

START_TEST(an_earlier_one_does_not_wait_for_a_later_one)
{
    uint64_t now = clock_usec(CLOCK_BOOTTIME);

    set(&all[0], now + 3600000000u);
    set(&all[1], now + 1000);
    run_until(1);
    ck_assert_uint_eq(all[1].calls, 1);
    due_cancel(&all[0].due);
}
END_TEST

START_TEST(a_past_time_is_due_in_the_next_turn)
{
    set(&all[0], 0);
    set(&all[1], 1);
    ck_assert_uint_eq(n_called, 0);
    ck_assert_uint_eq(due_left(&all[0].due), 0);
    run_until(2);
}
END_TEST

START_TEST(a_turn_calls_so_many_and_the_next_one_the_rest)
{
    for (uint32_t i = 0; i < N; i++)
        set(&all[i], 1);
    for (uint32_t n = DUE_A_TURN; n < N; n += DUE_A_TURN) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
        ck_assert_uint_eq(n_called, n);
    }
    run_until(N);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_uint_eq(all[i].calls, 1);
}
END_TEST

START_TEST(what_is_cancelled_is_not_called)
{
    uint64_t now = clock_usec(CLOCK_BOOTTIME);

    set(&all[0], now + 1000);
    set(&all[1], now + 2000);
    due_cancel(&all[0].due);
    due_cancel(&all[0].due); /* it does not wait */
    ck_assert_uint_eq(due_left(&all[0].due), 0);
    run_until(1);
    ck_assert(all[0].calls == 0 && all[1].calls == 1);
}
END_TEST

START_TEST(a_later_setting_replaces_the_earlier_one)
{
    uint64_t now = clock_usec(CLOCK_BOOTTIME);

    set(&all[0], now + 1000);
    set(&all[1], now + 3000);
    set(&all[0], now + 9000);
    run_until(2);
    ck_assert(all[1].order == 0 && all[0].order == 1 && all[0].calls == 1);
}
END_TEST

static void on_due_again(struct due *due)
{
    if (++n_called < 3)
        due_set(due, &boot, 1);
}

START_TEST(it_may_wait_again_from_its_call)
{
    all[0].due.call = on_due_again;
    set(&all[0], 1);
    run_until(3);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("due");
    Suite *s = suite_create("due");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, the_earliest_first_whatever_came_first);
    tcase_add_test(tc, an_earlier_one_does_not_wait_for_a_later_one);
    tcase_add_test(tc, a_past_time_is_due_in_the_next_turn);
    tcase_add_test(tc, a_turn_calls_so_many_and_the_next_one_the_rest);
    tcase_add_test(tc, what_is_cancelled_is_not_called);
    tcase_add_test(tc, a_later_setting_replaces_the_earlier_one);
    tcase_add_test(tc, it_may_wait_again_from_its_call);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
