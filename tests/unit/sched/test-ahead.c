/* SPDX-License-Identifier: Apache-2.0
 *
 * test-ahead.c: when items that went ahead keep others waiting unfairly. */
#include <check.h>
#include <stdlib.h>

#include "sched/ahead.h"
#include "sched/fair-queue.h"
#include "tests/unit/suite.h"

static char owners[AHEAD_FLOWS + 2];

/* One letter is one item: a, b, ... of priority 0; A, B, ... of priority 1, each of the owner of its letter. */
static int priority_of(char letter)
{
    return letter < 'a';
}

static const void *owner_of(char letter)
{
    return &owners[letter - (priority_of(letter) ? 'A' : 'a')];
}

static struct ahead ahead;

/* Whether an item of the text waits too long, the first letter begins first. */
static bool is_unfair(const char *items, uint32_t slack)
{
    struct ahead all = {0};

    ahead = (struct ahead){0};
    for (const char *c = items; *c; c++)
        ahead_note(&all, owner_of(*c), priority_of(*c));
    for (const char *c = items; *c; c++)
        if (ahead_is_unfair(&ahead, &all, owner_of(*c), priority_of(*c), 1, slack))
            return true;
    return false;
}

START_TEST(a_turn_each_is_fair)
{
    ck_assert(!is_unfair("abcabcabc", 0));
    ck_assert(!is_unfair("aaaaaaaaaaaaaaaa", 0)); /* one alone may have all */
    ck_assert(!is_unfair("", 0));
}
END_TEST

START_TEST(one_behind_many_of_another_is_not)
{
    ck_assert(is_unfair("aaab", 1));
    ck_assert(!is_unfair("aaab", 2)); /* they have begun by then: it is the second of two flows */
    ck_assert(is_unfair("abababaaaaaab", 3));
}
END_TEST

START_TEST(a_lower_priority_may_not_be_before_a_higher_one)
{
    ck_assert(is_unfair("abA", 1));
    ck_assert(!is_unfair("abA", 2));
    ck_assert(!is_unfair("AAAAAa", 5));
    ck_assert(!is_unfair("AAAAAb", 5));
}
END_TEST

START_TEST(an_item_may_count_for_several)
{
    struct ahead all = {0}, some = {0};

    ahead_note(&all, owner_of('a'), 0);
    ahead_note(&all, owner_of('b'), 0);
    ck_assert(!ahead_is_unfair(&some, &all, owner_of('a'), 0, 10, 0));
    ck_assert(!ahead_is_unfair(&some, &all, owner_of('b'), 0, 10, 0));
    ck_assert(!ahead_is_unfair(&some, &all, owner_of('a'), 0, 100, 0));
    ck_assert(ahead_is_unfair(&some, &all, owner_of('b'), 0, 1, 50));
}
END_TEST

START_TEST(beyond_so_many_flows_it_is_fair)
{
    struct ahead all = {0}, some = {0};

    for (uint32_t i = 0; i < AHEAD_FLOWS + 2; i++)
        ahead_note(&all, &owners[i], 0);
    ck_assert_uint_eq(all.n_flows, AHEAD_FLOWS);
    for (uint32_t i = 0; i < AHEAD_FLOWS; i++)
        ck_assert(!ahead_is_unfair(&some, &all, &owners[i], 0, 1, 0));
    ck_assert(!ahead_is_unfair(&some, &all, &owners[0], 0, 1000, 0));
    ck_assert(!ahead_is_unfair(&some, &all, &owners[AHEAD_FLOWS], 0, 1, 0));
    ck_assert(ahead_is_unfair(&some, &all, &owners[1], 0, 1, 0));
}
END_TEST

static struct hash others;
static uint64_t n_all;

static struct fair_queue_key key_of(char letter)
{
    return (struct fair_queue_key){.owner = owner_of(letter), .n = 1, .priority = priority_of(letter)};
}

static void wait_in(struct fair_queue *q, struct list *item, char letter)
{
    list_init(item);
    fair_queue_put(q, item, key_of(letter), false);
}

START_TEST(one_that_waits_and_has_nothing_ahead)
{
    struct fair_queue *q = malloc(sizeof(*q));
    struct list items[3];

    ck_assert_ptr_nonnull(q);
    fair_queue_init(q, &others, &n_all);
    ck_assert(!is_unfair("aaa", 2));
    ck_assert(!ahead_lacks(&ahead, q, 0, 2)); /* none waits */
    wait_in(q, &items[0], 'a');
    ck_assert(!ahead_lacks(&ahead, q, 0, 2)); /* it has some ahead */
    wait_in(q, &items[1], 'b');
    ck_assert(ahead_lacks(&ahead, q, 0, 2));
    ck_assert(!ahead_lacks(&ahead, q, 0, 3)); /* those ahead begin at once */
    wait_in(q, &items[2], 'A');
    ck_assert(ahead_lacks(&ahead, q, 1, 2)); /* of the same owner, at a higher priority */
    ck_assert(!is_unfair("AAA", 2));
    ck_assert(!ahead_lacks(&ahead, q, 0, 2)); /* a higher priority goes first anyway */
    ck_assert(!ahead_lacks(&ahead, q, 1, 2));
    for (size_t i = 0; i < ARRAY_SIZE(items); i++)
        fair_queue_take(q, &items[i], key_of("abA"[i]));
    hash_deinit(&others);
    free(q);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("ahead");
    Suite *s = suite_create("ahead");

    tcase_add_test(tc, a_turn_each_is_fair);
    tcase_add_test(tc, one_behind_many_of_another_is_not);
    tcase_add_test(tc, a_lower_priority_may_not_be_before_a_higher_one);
    tcase_add_test(tc, an_item_may_count_for_several);
    tcase_add_test(tc, beyond_so_many_flows_it_is_fair);
    tcase_add_test(tc, one_that_waits_and_has_nothing_ahead);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
