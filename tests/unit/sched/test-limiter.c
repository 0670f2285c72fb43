/* SPDX-License-Identifier: Apache-2.0
 *
 * test-limiter.c: what is paused waits; no more than the limit are inside or on their way in. */
#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "sched/limiter.h"
#include "tests/unit/suite.h"

#define ITEMS 8u

struct item {
    struct list link;
    uint64_t since_usec;
    const void *owner;
    int priority;
};

static struct hash others;
static uint64_t n_all;
static struct limiter *l;
static struct item all[ITEMS];
static char owners[2];

static void set_up(void)
{
    l = malloc(sizeof(*l));
    ck_assert_ptr_nonnull(l);
    limiter_init(l, &others, &n_all);
    for (uint32_t i = 0; i < ITEMS; i++) {
        all[i] = (struct item){.owner = &owners[0]};
        list_init(&all[i].link);
    }
}

static void tear_down(void)
{
    ck_assert_uint_eq(n_all, l->queue.n);
    hash_deinit(&others);
    free(l);
}

static struct fair_queue_key key_of(const struct item *item)
{
    return (struct fair_queue_key){.owner = item->owner, .n = 1, .priority = item->priority};
}

static uint64_t since_usec(const struct list *link)
{
    return container_of(link, const struct item, link)->since_usec;
}

static void wait_here(struct item *item)
{
    fair_queue_put(&l->queue, &item->link, key_of(item), false);
}

/* Lets the next one go on. */
static struct item *let(uint64_t before_usec)
{
    struct list *link = limiter_next(l, before_usec, since_usec);
    struct item *item = link ? container_of(link, struct item, link) : NULL;

    if (item)
        limiter_let(l, link, key_of(item));
    return item;
}

static void go_in(void)
{
    ck_assert(limiter_admits(l, true));
    l->n_out--;
    l->n_inside++;
}

START_TEST(without_a_limit_all_go_on)
{
    ck_assert(limiter_is_open(l) && !limiter_is_ready(l));
    for (uint32_t i = 0; i < ITEMS; i++)
        wait_here(&all[i]);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_ptr_eq(let(0), &all[i]);
    ck_assert_ptr_null(let(0));
    ck_assert_uint_eq(l->n_out, ITEMS);
}
END_TEST

START_TEST(what_is_paused_waits_and_no_place_is_kept)
{
    l->limit = 5;
    wait_here(&all[0]);
    wait_here(&all[1]);
    ck_assert_ptr_eq(let(0), &all[0]);
    l->paused = true;
    ck_assert_ptr_null(let(0));
    ck_assert(!limiter_admits(l, true) && !limiter_admits(l, false));
    l->paused = false;
    ck_assert_ptr_eq(let(0), &all[1]);
}
END_TEST

START_TEST(as_many_as_the_limit_inside_and_on_their_way)
{
    l->limit = 2;
    for (uint32_t i = 0; i < 3; i++)
        wait_here(&all[i]);
    ck_assert_ptr_eq(let(0), &all[0]);
    go_in();
    ck_assert_ptr_eq(let(0), &all[1]);
    ck_assert_ptr_null(let(0));
    ck_assert(!limiter_admits(l, false)); /* its place is that of the one let go on */
    go_in();
    ck_assert(!limiter_is_open(l) && !limiter_is_ready(l));
    l->n_inside--;
    ck_assert(limiter_is_ready(l));
    ck_assert_ptr_eq(let(0), &all[2]);
}
END_TEST

START_TEST(a_limit_that_went_down_takes_the_place)
{
    l->limit = 2;
    wait_here(&all[0]);
    wait_here(&all[1]);
    let(0);
    let(0);
    l->limit = 1;
    ck_assert(!limiter_admits(l, true));
    l->limit = 0;
    ck_assert(limiter_admits(l, true) && limiter_admits(l, false));
}
END_TEST

START_TEST(owners_and_priorities_take_turns)
{
    for (uint32_t i = 0; i < 4; i++)
        wait_here(&all[i]);
    all[4].owner = &owners[1];
    wait_here(&all[4]);
    all[5].priority = 1;
    wait_here(&all[5]);
    ck_assert_ptr_eq(let(0), &all[5]);
    ck_assert_ptr_eq(let(0), &all[0]);
    ck_assert_ptr_eq(let(0), &all[4]);
    for (uint32_t i = 1; i < 4; i++)
        ck_assert_ptr_eq(let(0), &all[i]);
}
END_TEST

START_TEST(an_aged_one_goes_on_in_between)
{
    uint32_t n_aged = 0;

    all[0].since_usec = 1000;
    all[0].priority = -1;
    wait_here(&all[0]);
    for (uint32_t i = 0; i < AGEING_TURNS; i++) {
        struct item *item = &all[1 + i % 2];

        wait_here(item);
        n_aged += let(1000) == &all[0];
        if (n_aged == 0)
            continue;
        ck_assert_uint_eq(i, AGEING_TURNS - 1);
        ck_assert_ptr_eq(let(1000), item);
    }
    ck_assert_uint_eq(n_aged, 1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("limiter");
    Suite *s = suite_create("limiter");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, without_a_limit_all_go_on);
    tcase_add_test(tc, what_is_paused_waits_and_no_place_is_kept);
    tcase_add_test(tc, as_many_as_the_limit_inside_and_on_their_way);
    tcase_add_test(tc, a_limit_that_went_down_takes_the_place);
    tcase_add_test(tc, owners_and_priorities_take_turns);
    tcase_add_test(tc, an_aged_one_goes_on_in_between);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
