/* SPDX-License-Identifier: Apache-2.0
 *
 * test-fair-slots.c: no more slots than the limit, and which waiter is next when one becomes free. */
#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "sched/fair-queue.h"
#include "sched/fair-slots.h"
#include "tests/unit/suite.h"

#define WAITERS 4u

struct owner {
    uint64_t placed;
};

struct waiter {
    struct owner *owner;
    struct slot_waiter slot;
    uint64_t since_usec;
    int priority;
    uint32_t n_wanted, n_has;
};

static struct fair_slots slots;
static struct owner owners[WAITERS];
static struct waiter all[WAITERS];
static uint64_t limit;

static void set_up(void)
{
    slots = (struct fair_slots){0};
    list_init(&slots.waiting);
    limit = 1;
    for (uint32_t i = 0; i < WAITERS; i++) {
        owners[i] = (struct owner){0};
        all[i] = (struct waiter){.owner = &owners[i]};
        list_init(&all[i].slot.waiting);
    }
}

static bool wish(const struct slot_waiter *slot, struct slot_wish *ret)
{
    const struct waiter *w = container_of(slot, const struct waiter, slot);

    *ret = (struct slot_wish){
        .owner = w->owner, .owner_placed = w->owner->placed, .since_usec = w->since_usec, .priority = w->priority};
    return w->n_wanted > 0;
}

/* Takes as many as it wants and may have. */
static void take(struct waiter *w)
{
    while (w->n_wanted && fair_slots_let(&slots, &w->slot, limit)) {
        if (limit)
            fair_slots_taken(&slots, &w->slot, &w->owner->placed);
        slots.n_running++;
        w->n_wanted--;
        w->n_has++;
    }
}

static void want(struct waiter *w, uint32_t n)
{
    w->n_wanted += n;
    take(w);
}

static void leave(struct waiter *w)
{
    ck_assert_uint_gt(w->n_has, 0);
    w->n_has--;
    slots.n_running--;
    fair_slots_left(&slots);
}

/* The next waiter takes a slot. */
static struct waiter *turn(uint64_t before_usec)
{
    struct slot_waiter *next = fair_slots_next(&slots, before_usec, wish);
    struct waiter *w = next ? container_of(next, struct waiter, slot) : NULL;

    if (w) {
        ck_assert(list_empty(&next->waiting));
        next->has_turn = true;
        take(w);
        next->has_turn = false;
    }
    return w;
}

START_TEST(as_many_as_the_limit)
{
    limit = 3;
    want(&all[0], 2);
    want(&all[1], 2);
    ck_assert_uint_eq(slots.n_running, 3);
    ck_assert(!slots.due);
    ck_assert(!list_empty(&all[1].slot.waiting));
    leave(&all[0]);
    ck_assert(slots.due);
    ck_assert_ptr_eq(turn(0), &all[1]);
    ck_assert_uint_eq(all[1].n_has, 2);
}
END_TEST

START_TEST(limit_0_is_no_limit)
{
    limit = 0;
    want(&all[0], 1000);
    ck_assert_uint_eq(slots.n_running, 1000);
    ck_assert(fair_slots_free(&slots, 0));
    ck_assert(!fair_slots_free(&slots, 1000));
    ck_assert(fair_slots_free(&slots, 1001));
}
END_TEST

START_TEST(none_passes_those_that_wait)
{
    want(&all[0], 1);
    want(&all[1], 1);
    leave(&all[0]);
    want(&all[2], 1); /* the slot is free, and not for the newcomer */
    ck_assert_uint_eq(slots.n_running, 0);
    ck_assert(slots.due);
    ck_assert_ptr_eq(turn(0), &all[1]);
    leave(&all[1]);
    ck_assert_ptr_eq(turn(0), &all[2]);
}
END_TEST

START_TEST(owners_take_turns_and_the_waiters_of_each)
{
    uint32_t n[WAITERS] = {0};

    all[1].owner = all[2].owner = &owners[0]; /* three of one owner, one of another */
    for (uint32_t i = 0; i < WAITERS; i++)
        want(&all[i], 100);
    for (struct waiter *w = &all[0]; slots.n_taken < 61;) {
        leave(w);
        w = turn(0);
        ck_assert_ptr_nonnull(w);
        n[w - all]++;
        list_remove(&w->slot.waiting);
        list_push_back(&slots.waiting, &w->slot.waiting);
    }
    ck_assert_uint_eq(n[3], 30);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(n[i], 10);
}
END_TEST

START_TEST(a_higher_priority_first_and_an_aged_one_in_between)
{
    uint32_t n_low = 0;

    all[1].priority = 5;
    all[0].since_usec = all[1].since_usec = 1000;
    want(&all[2], 1);
    want(&all[0], 100);
    want(&all[1], 100);
    leave(&all[2]);
    for (uint32_t i = 0; i < 2 * AGEING_TURNS; i++) { /* not old enough */
        ck_assert_ptr_eq(turn(999), &all[1]);
        leave(&all[1]);
    }
    for (uint32_t i = 0; i < 2 * AGEING_TURNS; i++) {
        struct waiter *w = turn(1000);

        n_low += w == &all[0];
        leave(w);
    }
    ck_assert_uint_eq(n_low, 2);
}
END_TEST

START_TEST(what_wants_none_waits_no_longer)
{
    want(&all[0], 1);
    want(&all[1], 1);
    want(&all[2], 1);
    all[1].n_wanted = 0;
    leave(&all[0]);
    ck_assert_ptr_eq(turn(0), &all[2]);
    ck_assert(list_empty(&all[1].slot.waiting));
    ck_assert_ptr_null(turn(0));
}
END_TEST

START_TEST(a_turn_is_for_one_slot_and_ends_unused)
{
    limit = 2;
    want(&all[0], 2);
    want(&all[1], 2);
    want(&all[2], 1);
    leave(&all[0]);
    leave(&all[0]);
    ck_assert_ptr_eq(turn(0), &all[1]);
    ck_assert_uint_eq(all[1].n_has, 1); /* it waits again, behind the other one */
    ck_assert_ptr_eq(fair_slots_next(&slots, 0, wish), &all[2].slot);
    ck_assert_ptr_eq(turn(0), &all[1]); /* the other one could not use its turn */
    ck_assert_uint_eq(slots.n_running, 2);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fair-slots");
    Suite *s = suite_create("fair-slots");

    tcase_add_checked_fixture(tc, set_up, NULL);
    tcase_add_test(tc, as_many_as_the_limit);
    tcase_add_test(tc, limit_0_is_no_limit);
    tcase_add_test(tc, none_passes_those_that_wait);
    tcase_add_test(tc, owners_take_turns_and_the_waiters_of_each);
    tcase_add_test(tc, a_higher_priority_first_and_an_aged_one_in_between);
    tcase_add_test(tc, what_wants_none_waits_no_longer);
    tcase_add_test(tc, a_turn_is_for_one_slot_and_ends_unused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
