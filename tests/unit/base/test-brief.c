/* SPDX-License-Identifier: Apache-2.0
 *
 * test-brief.c: how many calls may go together follows from what the last ones took. */
#include "base/brief.h"

#include <check.h>

#define MOST 32u

static struct brief learnt(uint32_t n, uint64_t usec, uint64_t longest_usec)
{
    struct brief b = {0};

    brief_learn(&b, n, usec, longest_usec);
    return b;
}

START_TEST(nothing_is_known_at_first)
{
    struct brief b = {0};

    ck_assert(!brief_is_known(&b));
    ck_assert_uint_eq(brief_together(&b, MOST), 1);
}
END_TEST

START_TEST(more_go_together_the_more_were_brief)
{
    struct brief b = {0};
    uint32_t n = 0, was = 1;

    for (; brief_together(&b, MOST) < MOST; n++) {
        uint32_t together = brief_together(&b, MOST);

        ck_assert_uint_ge(together, was);
        ck_assert_uint_le(together, was + 1);
        was = together;
        brief_learn(&b, 1, 0, 0);
    }
    ck_assert_uint_eq(n, 4 * MOST);
    ck_assert_uint_eq(brief_together(&b, 3), 3);
    ck_assert(brief_is_known(&b));
}
END_TEST

START_TEST(all_of_them_take_less_than_one_that_is_not_brief)
{
    static const struct {
        uint64_t usec;
        uint32_t together;
    } cases[] = {{0, MOST}, {1, MOST}, {5, 18}, {20, 4}, {49, 2}, {50, 1}, {BRIEF_USEC - 1, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct brief b = learnt(1000, cases[i].usec * 1000, cases[i].usec);
        ck_assert_uint_eq(brief_together(&b, MOST), cases[i].together);
        ck_assert_uint_le(cases[i].together * cases[i].usec, BRIEF_USEC);
    }
}
END_TEST

START_TEST(one_that_is_not_brief_ends_it)
{
    struct brief b = learnt(1000, 999, 1);

    brief_learn(&b, 1, BRIEF_USEC, BRIEF_USEC);
    ck_assert(!brief_is_known(&b));
    ck_assert_uint_eq(brief_together(&b, MOST), 1);
    for (int i = 0; i < 8; i++)
        brief_learn(&b, 1, 1, 1);
    ck_assert(brief_is_known(&b)); /* the beginning of trust */
    ck_assert_uint_eq(brief_together(&b, MOST), 1);
    for (int i = 0; i < 400; i++)
        brief_learn(&b, 1, 1, 1);
    ck_assert_uint_eq(brief_together(&b, MOST), MOST); /* and it is forgotten */
}
END_TEST

START_TEST(what_they_take_is_a_mean)
{
    struct brief b = learnt(8, 80, 20);

    ck_assert_uint_eq(brief_nsec(&b, 0), 0);
    uint64_t ten = brief_nsec(&b, 10);
    ck_assert_uint_ge(ten, 100000);
    ck_assert_uint_le(ten, 102000);
    for (int i = 0; i < 100; i++)
        brief_learn(&b, 1, 0, 0);
    ck_assert_uint_le(brief_nsec(&b, 10), 2000);
    b = learnt(10, UINT64_MAX, UINT64_MAX); /* nonsense is no more than long */
    ck_assert_uint_le(brief_nsec(&b, 10), 10 * BRIEF_USEC * 1000 + 1000);
}
END_TEST

START_TEST(the_largest_is_forgotten_by_and_by)
{
    uint32_t is = brief_largest(0, 6400, 1);

    ck_assert_uint_eq(is, 6400);
    ck_assert_uint_eq(brief_largest(is, 64, 1), 6300);
    ck_assert_uint_eq(brief_largest(is, 64, 1000), 3200); /* by half at most */
    ck_assert_uint_eq(brief_largest(is, 7000, 1), 7000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base/brief");
    TCase *t = tcase_create("brief");

    tcase_add_test(t, nothing_is_known_at_first);
    tcase_add_test(t, more_go_together_the_more_were_brief);
    tcase_add_test(t, all_of_them_take_less_than_one_that_is_not_brief);
    tcase_add_test(t, one_that_is_not_brief_ends_it);
    tcase_add_test(t, what_they_take_is_a_mean);
    tcase_add_test(t, the_largest_is_forgotten_by_and_by);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
