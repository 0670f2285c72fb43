/* SPDX-License-Identifier: Apache-2.0
 *
 * test-awake.c: when CPUs are kept from being halted: the rule, with times of our own; and that the kernel is asked. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "ops/awake.h"
#include "tests/unit/suite.h"

#define DEVICE "/dev/cpu_dma_latency"

static struct awake_policy policy;
static uint64_t now;
static bool held;

static void setup(void)
{
    policy = (struct awake_policy){0};
    now = 1000000;
    held = false;
}

/* So many wake-ups, that far from each other; looked after as the timer does. */
static void wake(uint32_t n, uint64_t gap_usec)
{
    static uint64_t looked;

    while (n--) {
        now += gap_usec;
        held = awake_policy_woke(&policy, now);
        if (held && now - looked >= AWAKE_LOOK_USEC) {
            held = awake_policy_look(&policy, now);
            looked = now;
        }
    }
}

/* Looks, with nothing else, until it is given up. */
static uint64_t until_rest(void)
{
    uint64_t from = now;

    while (held && now - from < 1000000) {
        now += AWAKE_LOOK_USEC;
        held = awake_policy_look(&policy, now);
    }
    return now - from;
}

START_TEST(wakes_that_are_far_from_each_other_pay_for_nothing)
{
    wake(100 * AWAKE_WAKES, AWAKE_GAP_USEC + 1);
    ck_assert(!held);
    ck_assert_int_eq(policy.phase, AWAKE_REST);
}
END_TEST

START_TEST(a_row_of_close_ones_begins_a_probe)
{
    wake(AWAKE_WAKES, AWAKE_GAP_USEC);
    ck_assert(!held);
    wake(1, AWAKE_GAP_USEC);
    ck_assert(held);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    ck_assert_uint_eq(policy.before_usec, (uint64_t)AWAKE_WAKES * AWAKE_GAP_USEC);
}
END_TEST

START_TEST(a_break_begins_a_new_row)
{
    wake(AWAKE_WAKES, 10);
    wake(1, AWAKE_BREAK_USEC + 1);
    wake(AWAKE_WAKES - 1, 10);
    ck_assert(!held);
    wake(1, 10);
    ck_assert(held);
}
END_TEST

START_TEST(what_pays_is_held_and_tried_again)
{
    wake(AWAKE_WAKES + 1, 100);
    wake(AWAKE_WAKES, 75);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    wake(1, 75); /* exactly as little as it must be */
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    uint64_t from = now;
    wake((AWAKE_HOLD_USEC - 1) / 75, 75);
    ck_assert(held);
    wake(1, 75);
    ck_assert(!held);
    ck_assert_uint_ge(now - from, AWAKE_HOLD_USEC);
    wake(AWAKE_WAKES, 100);
    ck_assert(held);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
}
END_TEST

START_TEST(what_does_not_pay_is_tried_ever_more_seldom)
{
    uint64_t pause = AWAKE_RETRY_USEC;

    for (int i = 0; i < 10; i++) {
        wake(2 * (AWAKE_WAKES + 1), 100);
        ck_assert(!held);
        ck_assert_uint_eq(policy.retry_usec, now + pause);
        wake((uint32_t)((pause - 1) / 100), 100);
        ck_assert_int_eq(policy.phase, AWAKE_REST);
        now = policy.retry_usec + AWAKE_BREAK_USEC;
        pause = pause * 2 < AWAKE_RETRY_MAX_USEC ? pause * 2 : AWAKE_RETRY_MAX_USEC;
    }
    ck_assert_uint_eq(pause, AWAKE_RETRY_MAX_USEC);
    wake(AWAKE_WAKES + 1, 100);
    wake(AWAKE_WAKES + 1, 10); /* now it does */
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    ck_assert_uint_eq(policy.pause_usec, 0);
}
END_TEST

START_TEST(quiet_ends_it_soon)
{
    wake(AWAKE_WAKES + 1, 100);
    wake(AWAKE_WAKES + 1, 10);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    ck_assert_uint_le(until_rest(), 2 * AWAKE_LOOK_USEC);
    ck_assert(!held);
    /* and when there is cause again, it comes back sooner */
    wake(AWAKE_AGAIN, 10);
    ck_assert(!held);
    wake(1, 10);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
}
END_TEST

START_TEST(a_probe_that_was_cut_off_says_nothing)
{
    wake(AWAKE_WAKES + 1, 100);
    wake(AWAKE_WAKES / 2, 10);
    ck_assert_uint_le(until_rest(), 2 * AWAKE_LOOK_USEC);
    ck_assert_int_eq(policy.phase, AWAKE_REST);
    ck_assert_uint_eq(policy.pause_usec, 0);
    ck_assert_uint_eq(policy.retry_usec, now + AWAKE_RETRY_USEC);
    wake(AWAKE_WAKES + 1, 10);
    ck_assert(!held);
}
END_TEST

START_TEST(a_probe_that_became_too_slow_is_one_without_success)
{
    wake(AWAKE_WAKES + 1, AWAKE_GAP_USEC);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    for (uint32_t i = 0; i <= AWAKE_WAKES; i++) { /* without looks, which would end it before */
        now += AWAKE_GAP_USEC + 1;
        held = awake_policy_woke(&policy, now);
    }
    ck_assert(!held);
    ck_assert_uint_eq(policy.retry_usec, now + AWAKE_RETRY_USEC);
}
END_TEST

START_TEST(a_look_too_early_decides_nothing)
{
    wake(AWAKE_WAKES + 1, 100);
    ck_assert(awake_policy_look(&policy, now + 1));
    ck_assert(awake_policy_look(&policy, now + AWAKE_LOOK_USEC - 1));
    ck_assert(!awake_policy_look(&policy, now + AWAKE_LOOK_USEC));
}
END_TEST

START_TEST(always_needs_no_probe)
{
    policy.always = true;
    wake(AWAKE_AGAIN, 100);
    ck_assert(!held);
    wake(1, 100);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    wake(2 * AWAKE_HOLD_USEC / 100, 100);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    until_rest();
    ck_assert_int_eq(policy.phase, AWAKE_REST);
}
END_TEST

/* So many calls of clients in direct lanes, in each of n spans between two looks; each client slept for each. */
static void call_direct(unsigned n, uint64_t calls)
{
    while (n--) {
        for (uint64_t end = now + AWAKE_LANES_USEC; held && now + AWAKE_LOOK_USEC < end;) {
            now += AWAKE_LOOK_USEC;
            held = awake_policy_look(&policy, now);
        }
        now += AWAKE_LANES_USEC - now % AWAKE_LANES_USEC;
        held = awake_policy_lanes(&policy, now, AWAKE_LANES_USEC, calls, calls);
    }
}

START_TEST(direct_calls_count_like_wake_ups)
{
    const uint64_t dense = AWAKE_LANES_USEC / AWAKE_GAP_USEC;

    call_direct(10, dense - 1);
    ck_assert(!held);
    call_direct(1, dense);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    call_direct(1, dense * 4 / 3 - 1); /* too few more of them */
    ck_assert_int_eq(policy.phase, AWAKE_REST);
    ck_assert_uint_eq(policy.retry_usec, now + AWAKE_RETRY_USEC);
    call_direct(9, dense);
    ck_assert(!held);
    call_direct(1, dense);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    call_direct(1, dense * 4 / 3 + 1);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    uint64_t from = now;
    call_direct(AWAKE_HOLD_USEC / AWAKE_LANES_USEC - 1, dense * 2);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    call_direct(1, dense * 2);
    ck_assert_int_eq(policy.phase, AWAKE_REST); /* how it is without is seen again */
    ck_assert_uint_eq(now - from, AWAKE_HOLD_USEC);
    call_direct(1, dense);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
}
END_TEST

START_TEST(quiet_lanes_end_it_soon)
{
    call_direct(1, 1000);
    call_direct(1, 2000);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    call_direct(3, 2000);
    ck_assert(held);
    ck_assert_uint_le(until_rest(), 2 * AWAKE_LANES_USEC + AWAKE_LOOK_USEC);
    ck_assert(!held);
    call_direct(1, 1000);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
}
END_TEST

/* Wake-ups of the loop decide nothing about a probe of direct calls, nor they about its. */
START_TEST(a_probe_is_decided_by_what_it_was_begun_for)
{
    call_direct(1, 1000);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    wake(AWAKE_WAKES + 1, 300);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    call_direct(1, 2000);
    ck_assert_int_eq(policy.phase, AWAKE_HELD);
    setup();
    wake(AWAKE_WAKES + 1, 100);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
    held = awake_policy_lanes(&policy, now, AWAKE_LANES_USEC, 1000, 1000);
    ck_assert_int_eq(policy.phase, AWAKE_PROBE);
}
END_TEST

/* --- the kernel's ------------------------------------------------------------------------------------------------- */

static int32_t asked(void)
{
    int32_t usec = -1;
    int fd = open(DEVICE, O_RDONLY);

    ck_assert_int_eq(read(fd, &usec, sizeof(usec)), sizeof(usec));
    close(fd);
    return usec;
}

/* Another wsd of this machine may ask just then: not for long. */
static bool asked_no_more(void)
{
    for (int i = 0; asked() == 0 && i < 1000; i++)
        usleep(10000);
    return asked() > 0;
}

/* However long this process has to wait for a CPU in between. */
static bool asked_for(struct awake *a)
{
    uint64_t from = clock_monotonic_usec();

    while (asked() != 0 && clock_monotonic_usec() - from < 10000000)
        awake_woke(a);
    return asked() == 0;
}

START_TEST(the_kernel_is_asked_and_asked_no_more)
{
    struct event_base *base = event_base_new();
    struct awake *a;

    ck_assert_int_eq(awake_new(&a, base, AWAKE_NO), 0);
    ck_assert_ptr_null(a);
    ck_assert_int_eq(awake_new(&a, base, AWAKE_YES), 0);
    if (access(DEVICE, R_OK | W_OK) < 0) { /* no right to ask */
        awake_free(a);
        event_base_free(base);
        return;
    }
    ck_assert_ptr_nonnull(a);
    ck_assert(asked_for(a));
    event_base_loop(base, 0); /* there is nothing but its timer, which goes when there is no cause */
    ck_assert(asked_no_more());
    ck_assert(asked_for(a));
    awake_free(a);
    ck_assert(asked_no_more());
    event_base_free(base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("awake");
    TCase *rule = tcase_create("rule"), *kernel = tcase_create("kernel");

    tcase_add_checked_fixture(rule, setup, NULL);
    tcase_add_test(rule, wakes_that_are_far_from_each_other_pay_for_nothing);
    tcase_add_test(rule, a_row_of_close_ones_begins_a_probe);
    tcase_add_test(rule, a_break_begins_a_new_row);
    tcase_add_test(rule, what_pays_is_held_and_tried_again);
    tcase_add_test(rule, what_does_not_pay_is_tried_ever_more_seldom);
    tcase_add_test(rule, quiet_ends_it_soon);
    tcase_add_test(rule, a_probe_that_was_cut_off_says_nothing);
    tcase_add_test(rule, a_probe_that_became_too_slow_is_one_without_success);
    tcase_add_test(rule, a_look_too_early_decides_nothing);
    tcase_add_test(rule, always_needs_no_probe);
    tcase_add_test(rule, direct_calls_count_like_wake_ups);
    tcase_add_test(rule, quiet_lanes_end_it_soon);
    tcase_add_test(rule, a_probe_is_decided_by_what_it_was_begun_for);
    tcase_set_timeout(kernel, 60);
    tcase_add_test(kernel, the_kernel_is_asked_and_asked_no_more);
    suite_add_tcase(suite, rule);
    suite_add_tcase(suite, kernel);
    return run_suite(suite);
}
