/* SPDX-License-Identifier: Apache-2.0
 *
 * test-cost.c: how many calls may go together follows from what the last ones took. */
#include "base/cost.h"
#include "tests/unit/suite.h"

#include <check.h>

#define MOST 32u

static struct cost learnt(uint32_t n, uint64_t usec)
{
    struct cost b = {0};

    cost_learn(&b, n, usec);
    return b;
}

START_TEST(nothing_is_known_at_first)
{
    struct cost b = {0};

    ck_assert(!cost_is_known(&b));
    ck_assert_uint_eq(cost_together(&b, MOST), 1);
}
END_TEST

START_TEST(more_go_together_the_more_were_brief)
{
    struct cost b = {0};
    uint32_t n = 0, was = 1;

    for (; cost_together(&b, MOST) < MOST; n++) {
        uint32_t together = cost_together(&b, MOST);

        ck_assert_uint_ge(together, was);
        ck_assert_uint_le(together, was + 1);
        was = together;
        cost_learn(&b, 1, 0);
    }
    ck_assert_uint_eq(n, 4 * MOST);
    ck_assert_uint_eq(cost_together(&b, 3), 3);
    ck_assert(cost_is_known(&b));
}
END_TEST

START_TEST(all_of_them_are_expected_to_take_no_longer)
{
    static const struct {
        uint64_t usec;
        uint32_t together;
    } cases[] = {{0, MOST}, {1, MOST}, {5, 19}, {20, 4}, {49, 2}, {50, 1}, {COST_USEC, 1}, {UINT64_MAX / 1000, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct cost b = learnt(1000, cases[i].usec * 1000);
        uint32_t together = cost_together(&b, MOST);

        ck_assert_uint_eq(together, cases[i].together);
        ck_assert(together == 1 || cost_nsec(&b, together) <= COST_USEC * 1000);
    }
}
END_TEST

START_TEST(one_of_many_that_was_interrupted_is_no_rule)
{
    struct cost b = learnt(1000, 100);

    cost_learn(&b, 1, 300);
    ck_assert_uint_eq(cost_together(&b, MOST), MOST);
    cost_learn(&b, 1, 10000); /* adds its part: 20 us */
    ck_assert_uint_eq(cost_together(&b, MOST), 4);
    for (int i = 0; i < 1000; i++)
        cost_learn(&b, 1, 0);
    ck_assert_uint_eq(cost_together(&b, MOST), MOST); /* and is forgotten */
}
END_TEST

START_TEST(what_is_long_is_found_out_soon)
{
    struct cost b = learnt(1000, 100);

    for (int i = 0; i < 5; i++)
        cost_learn(&b, 1, 10000);
    ck_assert_uint_eq(cost_together(&b, MOST), 1);
    b = (struct cost){0}; /* nothing is known: each counts as much as the others */
    cost_learn(&b, 1, 0);
    for (int i = 0; i < 9; i++)
        cost_learn(&b, 1, 100);
    ck_assert(cost_is_known(&b));
    ck_assert_uint_eq(cost_together(&b, MOST), 1);
    ck_assert_uint_ge(cost_nsec(&b, 1), 90000);
    ck_assert_uint_le(cost_nsec(&b, 1), 90100);
}
END_TEST

START_TEST(what_was_forgotten_begins_again)
{
    struct cost b = learnt(1000, 100);

    b.shown = 0;
    ck_assert(!cost_is_known(&b));
    ck_assert_uint_eq(cost_together(&b, MOST), 1);
    cost_learn(&b, 1, 1000);                               /* the first, which pays for more than itself */
    ck_assert_uint_ge(cost_nsec(&b, 1), COST_USEC * 1000); /* nothing of what was before */
    ck_assert_uint_le(cost_nsec(&b, 1), COST_USEC * 1000 + 1000);
}
END_TEST

START_TEST(what_they_take_is_a_mean)
{
    struct cost b = learnt(8, 80);

    ck_assert_uint_eq(cost_nsec(&b, 0), 0);
    uint64_t ten = cost_nsec(&b, 10);
    ck_assert_uint_ge(ten, 100000);
    ck_assert_uint_le(ten, 102000);
    for (int i = 0; i < 4000; i++)
        cost_learn(&b, 1, 0);
    ck_assert_uint_le(cost_nsec(&b, 10), 2000);
    for (uint32_t n = 10; n; n = n == 10 ? UINT32_MAX : 0) { /* nonsense is no more than long */
        cost_learn(&b, n, UINT64_MAX);
        cost_learn(&b, n, UINT64_MAX);
        ck_assert_uint_le(cost_nsec(&b, 10), 10 * 10000000 + 1000);
    }
}
END_TEST

START_TEST(the_largest_is_forgotten_by_and_by)
{
    uint32_t is = cost_largest(0, 6400, 1);

    ck_assert_uint_eq(is, 6400);
    ck_assert_uint_eq(cost_largest(is, 64, 1), 6300);
    ck_assert_uint_eq(cost_largest(is, 64, 1000), 3200); /* by half at most */
    ck_assert_uint_eq(cost_largest(is, 7000, 1), 7000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base/cost");
    TCase *t = tcase_create("cost");

    tcase_add_test(t, nothing_is_known_at_first);
    tcase_add_test(t, more_go_together_the_more_were_brief);
    tcase_add_test(t, all_of_them_are_expected_to_take_no_longer);
    tcase_add_test(t, one_of_many_that_was_interrupted_is_no_rule);
    tcase_add_test(t, what_is_long_is_found_out_soon);
    tcase_add_test(t, what_was_forgotten_begins_again);
    tcase_add_test(t, what_they_take_is_a_mean);
    tcase_add_test(t, the_largest_is_forgotten_by_and_by);
    suite_add_tcase(s, t);
    return run_suite(s);
}
