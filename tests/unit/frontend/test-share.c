/* SPDX-License-Identifier: Apache-2.0
 *
 * test-share.c: users take turns, however many connections they have. The connections here have no descriptor: what one
 * of them does when it is served is at serve_one(). */
#include <check.h>
#include <stdlib.h>

#include "base/clock.h"
#include "frontend/peer.h"
#include "tests/unit/suite.h"

#define MANY 1000u

static struct frontend frontend;
static struct share users[3];
static struct peer peers[MANY + 3], *served[2 * MANY];
static size_t n_served;
static uint32_t cost; /* of each request, without end */

static bool serve_one(struct peer *p)
{
    served[n_served++ % (2 * MANY)] = p;
    share_charge(p, cost);
    return true;
}

static void make(struct peer *p, struct share *s)
{
    *p = (struct peer){.frontend = &frontend, .share = s};
    list_init(&p->dirty);
    list_init(&p->ready);
}

/* The first user has many connections, each of the others has one. */
static void setup(void)
{
    frontend = (struct frontend){0};
    shares_init(&frontend.shares);
    for (size_t i = 0; i < 3; i++)
        share_init(&users[i]);
    for (size_t i = 0; i < MANY + 2; i++)
        make(&peers[i], &users[i < MANY ? 0 : i - MANY + 1]);
    make(&peers[MANY + 2], &frontend.shares.strangers);
    n_served = 0;
    cost = 1000;
}

static struct peer *next_marked(void)
{
    return shares_next_marked(&frontend.shares);
}

START_TEST(marked_connections_go_by_user)
{
    for (size_t i = 0; i < MANY + 3; i++)
        share_mark(&peers[i]);
    share_mark(&peers[0]); /* once more changes nothing */
    ck_assert_uint_eq(frontend.shares.n_marked, MANY + 3);
    ck_assert_ptr_eq(next_marked(), &peers[0]);
    ck_assert_ptr_eq(next_marked(), &peers[MANY]);
    ck_assert_ptr_eq(next_marked(), &peers[MANY + 1]);
    ck_assert_ptr_eq(next_marked(), &peers[MANY + 2]);
    share_mark(&peers[0]); /* behind the others of its user */
    for (size_t i = 1; i < MANY; i++)
        ck_assert_ptr_eq(next_marked(), &peers[i]);
    ck_assert_ptr_eq(next_marked(), &peers[0]);
    ck_assert_ptr_null(next_marked());
    ck_assert_uint_eq(frontend.shares.n_marked, 0);
}
END_TEST

START_TEST(a_mark_goes_with_the_connection)
{
    share_mark(&peers[0]);
    share_mark(&peers[1]);
    share_move(&peers[1], &users[1]);
    share_unmark(&peers[0]);
    share_unmark(&peers[0]);
    ck_assert_uint_eq(frontend.shares.n_marked, 1);
    ck_assert_ptr_eq(next_marked(), &peers[1]);
    ck_assert_ptr_null(next_marked());
    peers[0].closed = true;
    share_mark(&peers[0]);
    ck_assert_ptr_null(next_marked());
}
END_TEST

START_TEST(requests_go_by_user)
{
    size_t n[3] = {0};

    for (size_t i = 0; i < MANY + 2; i++)
        share_want(&peers[i]);
    while (n_served < MANY)
        ck_assert(shares_serve(&frontend.shares, serve_one));
    for (size_t i = 0; i < n_served; i++)
        n[served[i]->share - users]++;
    for (size_t i = 1; i < 3; i++) /* but for a quantum that is not at its end */
        ck_assert_int_le(labs((long)n[i] - (long)n[0]), (long)(SHARE_QUANTUM / cost));
    ck_assert_uint_le(frontend.shares.most, SHARE_TURN + cost);
}
END_TEST

START_TEST(what_costs_more_than_a_turn_is_paid_back)
{
    cost = SHARE_TURN;
    share_want(&peers[0]);
    ck_assert(shares_serve(&frontend.shares, serve_one));
    ck_assert_uint_eq(n_served, 1);
    cost = SHARE_QUANTUM;
    share_want(&peers[MANY]);
    while (n_served < 5)
        ck_assert(shares_serve(&frontend.shares, serve_one));
    for (size_t i = 1; i < SHARE_TURN / SHARE_QUANTUM - 1; i++)
        ck_assert_ptr_eq(served[i], &peers[MANY]);
}
END_TEST

/* By several connections of the first user, at once. */
static void ask_too_much(void)
{
    users[0].asked_usec = clock_monotonic_usec();
    for (uint32_t asked = 0; asked <= 2 * SHARE_ASKED; asked += SHARE_ASKED / 4)
        share_ask(&peers[asked / (SHARE_ASKED / 4)], SHARE_ASKED / 4);
    ck_assert_uint_eq(frontend.shares.n_rests, 1);
    ck_assert(share_spent(&peers[0]));
}

START_TEST(who_asks_without_end_rests)
{
    share_want(&peers[0]);
    share_want(&peers[MANY]);
    share_ask(&peers[0], SHARE_ASKED); /* as much as may be */
    ck_assert_uint_eq(frontend.shares.n_rests, 0);
    ask_too_much();
    share_want(&peers[1]); /* it wants more meanwhile */
    for (size_t turn = 0; turn < 5; turn++)
        ck_assert(shares_serve(&frontend.shares, serve_one));
    for (size_t i = 0; i < n_served; i++)
        ck_assert_ptr_eq(served[i], &peers[MANY]);
    shares_wake(&frontend.shares, users[0].rest_usec - 1);
    ck_assert_uint_ne(users[0].rest_usec, 0);
    shares_wake(&frontend.shares, users[0].rest_usec);
    n_served = 0;
    ck_assert(shares_serve(&frontend.shares, serve_one));
    size_t n[2] = {0};
    for (size_t i = 0; i < n_served; i++)
        n[served[i] == &peers[MANY]]++;
    ck_assert_uint_gt(n[0], 0);
    ck_assert_uint_gt(n[1], 0);
}
END_TEST

/* As many units as a user may ask for in the time that has passed are paid. */
START_TEST(a_rest_is_as_long_as_what_was_asked)
{
    share_want(&peers[0]);
    ask_too_much();
    uint64_t now = clock_monotonic_usec();
    ck_assert_uint_ge(users[0].rest_usec, users[0].asked_usec + SHARE_ASKED / SHARE_ASKS);
    ck_assert_uint_le(users[0].rest_usec, now + 3 * SHARE_ASKED / SHARE_ASKS);
}
END_TEST

/* A connection that goes, and one that wants nothing more, while their user rests. */
START_TEST(a_rest_without_connections)
{
    share_want(&peers[0]);
    ask_too_much();
    share_drop(&peers[0]);
    ck_assert(!list_empty(&frontend.shares.resting));
    shares_wake(&frontend.shares, users[0].rest_usec);
    ck_assert(list_empty(&frontend.shares.resting));
    ck_assert(!shares_serve(&frontend.shares, serve_one));
    ck_assert_uint_eq(n_served, 0);
    share_ask(&peers[0], 3 * SHARE_ASKED);
    ck_assert(!list_empty(&frontend.shares.resting));
    share_end(&users[0]);
    ck_assert(list_empty(&frontend.shares.resting));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("frontend share");
    TCase *c = tcase_create("share");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, marked_connections_go_by_user);
    tcase_add_test(c, a_mark_goes_with_the_connection);
    tcase_add_test(c, requests_go_by_user);
    tcase_add_test(c, what_costs_more_than_a_turn_is_paid_back);
    tcase_add_test(c, who_asks_without_end_rests);
    tcase_add_test(c, a_rest_is_as_long_as_what_was_asked);
    tcase_add_test(c, a_rest_without_connections);
    suite_add_tcase(s, c);
    return run_suite(s);
}
