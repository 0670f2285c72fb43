/* SPDX-License-Identifier: Apache-2.0
 *
 * test-actions.c: which actions are kept, and in which order they are told. */
#include <check.h>
#include <stdio.h>

#include "frontend/actions.h"
#include "tests/unit/suite.h"

static struct actions all;

static void setup(void)
{
    all = (struct actions){0};
}

static void teardown(void)
{
    actions_deinit(&all);
    ck_assert_ptr_null(all.kept);
}

static void add(unsigned n, bool trusted)
{
    struct action a = {.verb = "pause", .trusted = trusted};

    for (unsigned i = 0; i < n; i++) {
        snprintf(a.object, sizeof(a.object), "%u", i);
        ck_assert_uint_eq(actions_add(&all, &a), all.n[ACTIONS_OTHER] + all.n[ACTIONS_TRUSTED]);
    }
}

/* How many are told, in the order of their numbers; of them *ret_trusted of users with rights over others. */
static unsigned count(unsigned *ret_trusted)
{
    uint64_t number = 0;
    unsigned n = 0;

    *ret_trusted = 0;
    for (const struct action *a; (a = actions_next(&all, number)); n++) {
        ck_assert_uint_gt(a->number, number);
        ck_assert_str_eq(a->verb, "pause");
        number = a->number;
        *ret_trusted += a->trusted;
    }
    return n;
}

START_TEST(of_none_there_is_none)
{
    actions_refused(&all, 0, 77);
    actions_refused(&all, 1, 77);
    ck_assert_ptr_null(actions_next(&all, 0));
}
END_TEST

START_TEST(each_ring_keeps_its_last)
{
    bool trusted = _i;

    for (unsigned n = ACTIONS_KEPT - 1; n <= 2 * ACTIONS_KEPT + 1; n += ACTIONS_KEPT / 2 + 1) {
        unsigned kept = n < ACTIONS_KEPT ? n : ACTIONS_KEPT, n_trusted;
        char first[16];

        actions_deinit(&all);
        setup();
        add(n, trusted);
        ck_assert_uint_eq(count(&n_trusted), kept);
        ck_assert_uint_eq(n_trusted, trusted ? kept : 0);
        snprintf(first, sizeof(first), "%u", n - kept);
        ck_assert_str_eq(actions_next(&all, 0)->object, first);
    }
}
END_TEST

START_TEST(a_full_ring_takes_the_place_of_its_oldest)
{
    unsigned n_trusted;

    add(ACTIONS_KEPT, true);
    ck_assert_uint_eq(actions_next(&all, 0)->number, 1);
    add(1, true);
    ck_assert_uint_eq(count(&n_trusted), ACTIONS_KEPT);
    ck_assert_uint_eq(actions_next(&all, 0)->number, 2);
    ck_assert_uint_eq(actions_next(&all, ACTIONS_KEPT)->number, ACTIONS_KEPT + 1);
}
END_TEST

START_TEST(others_push_out_nothing_of_administrators)
{
    unsigned n_trusted;

    add(3, true);
    add(2 * ACTIONS_KEPT, false);
    ck_assert_uint_eq(count(&n_trusted), ACTIONS_KEPT + 3);
    ck_assert_uint_eq(n_trusted, 3);
    add(2 * ACTIONS_KEPT, true);
    ck_assert_uint_eq(count(&n_trusted), 2 * ACTIONS_KEPT);
    ck_assert_uint_eq(n_trusted, ACTIONS_KEPT);
}
END_TEST

START_TEST(both_are_told_in_one_order)
{
    unsigned n_trusted;

    for (unsigned i = 0; i < 100; i++) {
        add(1, i % 3 == 0);
        add(1 + i % 2, i % 5 == 0);
    }
    ck_assert_uint_eq(count(&n_trusted), 250);
}
END_TEST

START_TEST(a_refusal_is_of_its_action_alone)
{
    uint64_t number = 0;

    add(ACTIONS_KEPT + 2, true);
    add(2, false);
    actions_refused(&all, 2, 64); /* which has made room */
    actions_refused(&all, 3, 66);
    actions_refused(&all, ACTIONS_KEPT + 3, 77);
    actions_refused(&all, ACTIONS_KEPT + 5, 75); /* is to come */
    for (const struct action *a; (a = actions_next(&all, number)); number = a->number)
        ck_assert_uint_eq(a->code, a->number == 3 ? 66 : a->number == ACTIONS_KEPT + 3 ? 77 : 0);
    ck_assert_uint_eq(number, ACTIONS_KEPT + 4);
    add(1, true);
    ck_assert_uint_eq(actions_next(&all, number)->code, 0);
}
END_TEST

int main(void)
{
    TCase *actions = tcase_create("actions");
    Suite *suite = suite_create("frontend actions");

    tcase_add_checked_fixture(actions, setup, teardown);
    tcase_add_test(actions, of_none_there_is_none);
    tcase_add_loop_test(actions, each_ring_keeps_its_last, false, true + 1);
    tcase_add_test(actions, a_full_ring_takes_the_place_of_its_oldest);
    tcase_add_test(actions, others_push_out_nothing_of_administrators);
    tcase_add_test(actions, both_are_told_in_one_order);
    tcase_add_test(actions, a_refusal_is_of_its_action_alone);
    suite_add_tcase(suite, actions);
    return run_suite(suite);
}
