/* SPDX-License-Identifier: Apache-2.0
 *
 * test-call.c: an open request is in no list when it has gone, whatever becomes of it on the way. */
#include <check.h>
#include <stdlib.h>

#include "frontend/call.h"
#include "frontend/peer.h"
#include "frontend/quota.h"
#include "tests/unit/suite.h"

static struct frontend frontend;
static struct peer peer;

static void setup(void)
{
    frontend = (struct frontend){
        .max_fd = 1000, .options.limits = {.requests_per_user = 2, .connections = 1, .connections_per_user = 1}};
    shares_init(&frontend.shares);
    peer = (struct peer){.frontend = &frontend, .share = &frontend.shares.strangers};
    list_init(&peer.dirty);
    list_init(&peer.ready);
    list_init(&peer.calls);
    list_init(&peer.stalled);
    list_init(&peer.later);
    const char *refusal;
    ck_assert(quota_take(&peer, &refusal) == 0 && !refusal);
}

static void teardown(void)
{
    quota_give_back(&peer);
    hash_deinit(&frontend.users);
    hash_deinit(&frontend.calls);
    slab_trim(&frontend.call_cells);
}

/* As an array does when its bundle comes apart: its ends find the output full. */
static void stall(struct call *c)
{
    call_stall(c);
}

START_TEST(one_that_stalls_while_it_is_forgotten_is_in_no_list)
{
    static const struct call_ops ops = {.forget = stall};
    uint32_t budget = 10;

    ck_assert_ptr_nonnull(call_open(&peer, 1, &ops));
    call_stall(call_open(&peer, 2, &ops)); /* before, too */
    ck_assert(calls_forget(&peer, &budget));
    ck_assert(list_empty(&peer.stalled) && list_empty(&peer.calls));
    ck_assert_ptr_null(call_find(&peer, 1));
}
END_TEST

static uint32_t left;

static bool shed(struct call *c, uint32_t *budget)
{
    uint32_t n = left < *budget ? left : *budget;

    left -= n;
    *budget -= n;
    return !left;
}

START_TEST(one_with_much_to_forget_goes_in_pieces)
{
    static const struct call_ops ops = {.shed = shed};
    uint32_t budget = 10;

    left = 25;
    ck_assert_ptr_nonnull(call_open(&peer, 1, &ops));
    ck_assert(!calls_forget(&peer, &budget) && budget == 0 && left == 15);
    ck_assert_ptr_nonnull(call_find(&peer, 1));
    budget = 20;
    ck_assert(calls_forget(&peer, &budget) && left == 0);
    ck_assert_uint_eq(budget, 4); /* the call itself counts, too */
    ck_assert_ptr_null(call_find(&peer, 1));
}
END_TEST

/* As a handover does, which refuses what the next wsd cannot answer: nothing may point at the call then. */
START_TEST(one_that_is_freed_at_once_gives_up_all)
{
    static const struct call_ops ops = {.shed = shed};

    left = 25;
    call_free(call_open(&peer, 1, &ops));
    ck_assert_uint_eq(left, 0);
}
END_TEST

/* Of what has been taken nothing may have been told. */
START_TEST(wsd_does_not_end_in_the_middle_of_a_request)
{
    list_init(&frontend.peers);
    list_push_back(&frontend.peers, &peer.link);
    ck_assert(frontend_quiet(&frontend));
    peer.begun = true;
    ck_assert(!frontend_quiet(&frontend));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("call");
    TCase *t = tcase_create("call");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, one_that_stalls_while_it_is_forgotten_is_in_no_list);
    tcase_add_test(t, one_with_much_to_forget_goes_in_pieces);
    tcase_add_test(t, one_that_is_freed_at_once_gives_up_all);
    tcase_add_test(t, wsd_does_not_end_in_the_middle_of_a_request);
    suite_add_tcase(s, t);
    return run_suite(s);
}
