/* SPDX-License-Identifier: Apache-2.0
 *
 * test-fair-queue.c: the order in which what waits goes on: priority, owners in turn, first in, first out. */
#include <check.h>
#include <stdlib.h>

#include "sched/fair-queue.h"
#include "tests/unit/suite.h"

#define USERS 3u
#define EACH  4u

struct item {
    uint64_t since_usec;
    struct list link;
    const void *owner;
    int priority;
};

static struct hash others;
static uint64_t n_all;
static struct fair_queue *q;
static char users[USERS];
static struct item all[USERS * EACH];

static struct item *item_of(struct list *link)
{
    return link ? container_of(link, struct item, link) : NULL;
}

static uint64_t since_usec(const struct list *link)
{
    return container_of(link, const struct item, link)->since_usec;
}

static struct fair_queue_key key_of(const struct item *item)
{
    return (struct fair_queue_key){.owner = item->owner, .n = 1, .priority = item->priority};
}

static void put(struct item *item, bool front)
{
    fair_queue_put(q, &item->link, key_of(item), front);
}

static void take(struct item *item)
{
    fair_queue_take(q, &item->link, key_of(item));
}

static void set_up(void)
{
    q = calloc(1, sizeof(*q));
    ck_assert_ptr_nonnull(q);
    fair_queue_init(q, &others, &n_all);
    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i] = (struct item){.owner = &users[i / EACH]};
        list_init(&all[i].link);
    }
}

static void tear_down(void)
{
    ck_assert_uint_eq(q->n, 0);
    ck_assert_uint_eq(n_all, 0);
    ck_assert_uint_eq(others.n, 0); /* no owner stays without items */
    ck_assert_ptr_null(fair_queue_first(q));
    hash_deinit(&others);
    free(q);
}

static struct item *next(void)
{
    struct item *item = item_of(fair_queue_first(q));

    ck_assert_ptr_nonnull(item);
    fair_queue_turn(q, item->priority);
    take(item);
    return item;
}

START_TEST(users_take_turns)
{
    for (uint32_t i = 0; i < USERS * EACH; i++) /* one user after the other */
        put(&all[i], false);
    for (uint32_t i = 0; i < USERS * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % USERS * EACH + i / USERS]);
}
END_TEST

START_TEST(a_user_with_few_waits_for_one_of_each)
{
    for (uint32_t i = 0; i < EACH; i++)
        put(&all[i], false);
    ck_assert_ptr_eq(next(), &all[0]);
    put(&all[EACH], false);
    ck_assert_ptr_eq(next(), &all[1]);
    ck_assert_ptr_eq(next(), &all[EACH]);
    ck_assert_ptr_eq(next(), &all[2]);
    put(&all[EACH + 1], false); /* again, with a new turn */
    ck_assert_ptr_eq(next(), &all[3]);
    ck_assert_ptr_eq(next(), &all[EACH + 1]);
}
END_TEST

START_TEST(a_priority_goes_before_every_turn)
{
    static const int8_t priorities[] = {-100, 0, 1, 100};

    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i].priority = priorities[i % EACH];
        put(&all[i], false);
    }
    for (uint32_t i = 0; i < USERS * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % USERS * EACH + EACH - 1 - i / USERS]);
}
END_TEST

START_TEST(what_comes_back_is_the_first_of_its_flow_again)
{
    for (uint32_t i = 0; i < 2 * EACH; i++)
        put(&all[i], false);
    struct item *a = next(), *b = next();
    put(b, true); /* from the last handed to the first */
    put(a, true);
    for (uint32_t i = 0; i < 2 * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % 2 * EACH + i / 2]);
}
END_TEST

START_TEST(one_is_taken_from_anywhere)
{
    for (uint32_t i = 0; i < USERS * EACH; i++)
        put(&all[i], false);
    for (uint32_t i = 0; i < USERS * EACH; i += 2)
        take(&all[i]);
    for (uint32_t u = 0; u < USERS; u++)
        ck_assert_ptr_eq(next(), &all[u * EACH + 1]);
    for (uint32_t u = USERS; u-- > 0;)
        take(&all[u * EACH + 3]);
}
END_TEST

/* One turn in AGEING_TURNS goes to lower priorities, one after the other, and only to items that have waited. */
START_TEST(what_has_waited_gets_some_turns)
{
    uint32_t n_of[3] = {0}, before = 100;

    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i].owner = &users[0];
        all[i].priority = i % 3 == 0 ? 100 : i % 3 == 1 ? 0 : -100;
        all[i].since_usec = i % 3 == 2 ? 101 : 100; /* the lowest have come later */
        put(&all[i], false);
    }
    for (uint32_t turn = 1; turn <= 6 * AGEING_TURNS; turn++) {
        struct item *aged = item_of(fair_queue_aged(q, before, since_usec));
        struct item *item = aged ? aged : item_of(fair_queue_first(q));

        ck_assert(!aged || turn % AGEING_TURNS == 0);
        fair_queue_turn(q, item->priority);
        take(item);
        n_of[item->priority == 100 ? 0 : item->priority == 0 ? 1 : 2]++;
        if (turn == AGEING_TURNS * 2)
            ck_assert(n_of[1] == 2 && n_of[2] == 0);
        if (turn == AGEING_TURNS * 3)
            before = 101;
        put(item, false); /* another one like it */
    }
    ck_assert_uint_eq(n_of[0], 6 * (AGEING_TURNS - 1));
    ck_assert_uint_eq(n_of[1] + n_of[2], 6); /* 0 alone, then in turn with -100 */
    ck_assert_uint_ge(n_of[2], 1);
    ck_assert_uint_ge(n_of[1], 4);
    while (q->n)
        next();
}
END_TEST

/* As a bundle of jobs does. */
START_TEST(an_item_may_count_for_several)
{
    const struct fair_queue_key several = {.owner = &users[0], .n = 7, .priority = 5};

    put(&all[0], false);
    fair_queue_put(q, &all[1].link, several, false);
    ck_assert_uint_eq(q->n, 8);
    ck_assert_uint_eq(n_all, 8);
    fair_queue_take(q, &all[1].link, several);
    ck_assert_uint_eq(q->n, 1);
    ck_assert_uint_eq(n_all, 1);
    ck_assert_ptr_eq(next(), &all[0]);
}
END_TEST

START_TEST(every_priority_has_its_place)
{
    struct item of_each[PRIORITIES];

    for (int p = -100; p <= 100; p++) {
        struct item *item = &of_each[p + 100];

        *item = (struct item){.owner = &users[(p + 100) % (int)USERS], .priority = p};
        list_init(&item->link);
        put(item, false);
    }
    for (int p = 100; p >= -100; p--)
        ck_assert_int_eq(next()->priority, p);
}
END_TEST

struct shown {
    const struct item *items[USERS * EACH];
    uint32_t n, most;
};

static bool show(struct list *link, void *context)
{
    struct shown *s = context;

    s->items[s->n++] = item_of(link);
    return s->n < s->most;
}

START_TEST(each_item_is_shown_until_the_caller_stops)
{
    struct shown none = {.most = 1}, two = {.most = 2}, every = {.most = USERS * EACH + 1};

    fair_queue_each(q, show, &none);
    ck_assert_uint_eq(none.n, 0);
    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i].priority = i % 2 ? 100 : -100;
        put(&all[i], false);
    }
    fair_queue_each(q, show, &two);
    fair_queue_each(q, show, &every);
    ck_assert_uint_eq(two.n, 2);
    ck_assert_uint_eq(every.n, USERS * EACH);
    for (uint32_t i = 0; i < USERS * EACH; i++)
        ck_assert_int_eq(every.items[i]->priority, i < USERS * EACH / 2 ? 100 : -100);
    ck_assert_ptr_eq(every.items[0], item_of(fair_queue_first(q)));
    for (uint32_t i = 0; i < USERS * EACH; i++)
        take(&all[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fair-queue");
    TCase *t = tcase_create("fair-queue");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, users_take_turns);
    tcase_add_test(t, a_user_with_few_waits_for_one_of_each);
    tcase_add_test(t, a_priority_goes_before_every_turn);
    tcase_add_test(t, what_comes_back_is_the_first_of_its_flow_again);
    tcase_add_test(t, one_is_taken_from_anywhere);
    tcase_add_test(t, what_has_waited_gets_some_turns);
    tcase_add_test(t, an_item_may_count_for_several);
    tcase_add_test(t, every_priority_has_its_place);
    tcase_add_test(t, each_item_is_shown_until_the_caller_stops);
    suite_add_tcase(s, t);
    return run_suite(s);
}
