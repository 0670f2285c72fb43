/* SPDX-License-Identifier: Apache-2.0
 *
 * test-access.c: what each right of [access] allows by itself. A frontend, and one client by a socket pair. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/peer.h"
#include "tests/unit/suite.h"

#define ALICE 1001u
#define BOB   1002u

static struct access_rules rules;
static uint32_t listed[] = {BOB};
static struct frontend *frontend;
static struct event_base *base;
static struct peer *bob;
static int client;

static void setup(void)
{
    struct frontend_options o = {.own_uid = 990, .limits = FRONTEND_LIMITS_DEFAULT, .rules = &rules};
    int fds[2];

    rules = (struct access_rules){.agent = UINT32_MAX};
    base = o.base = event_base_new();
    ck_assert_int_eq(frontend_new(&frontend, &o), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(peer_new(frontend, fds[0], false, &bob), 0);
    client = fds[1];
    bob->uid = BOB;
    frontend_set_rules(frontend, &rules); /* what it might as the user of this process is forgotten */
}

static void teardown(void)
{
    frontend_free(frontend);
    event_base_free(base);
    close_fd(client);
}

static void allow_only(enum access_right right)
{
    rules = (struct access_rules){.agent = UINT32_MAX};
    rules.lists[right] = (struct access_list){.uids = listed, .n_uids = 1};
    frontend_set_rules(frontend, &rules);
}

static const struct {
    enum access_right right;
    bool submit, administer, sees, watches, executors, traces, cancels;
} allowed[] = {
    {ACCESS_SUBMIT, .submit = true},
    {ACCESS_SEE, .sees = true, .watches = true, .executors = true, .traces = true},
    {ACCESS_WATCH, .watches = true, .executors = true},
    {ACCESS_CANCEL, .cancels = true},
    {ACCESS_ADMINISTER, .administer = true, .executors = true, .traces = true},
};

_Static_assert(ARRAY_SIZE(allowed) == ACCESS_RIGHTS, "each right has its line");

static uint32_t reach(bool all)
{
    return all ? ACCESS_ALL : BOB;
}

START_TEST(each_right_allows_this_and_no_more)
{
    const size_t i = (size_t)_i;

    allow_only(allowed[i].right);
    ck_assert_ptr_null(access_connect(bob));
    ck_assert_int_eq(!access_submit(bob), allowed[i].submit);
    ck_assert_int_eq(!access_administer(bob), allowed[i].administer);
    ck_assert_uint_eq(access_sees(bob), reach(allowed[i].sees));
    ck_assert_uint_eq(access_watches(bob), reach(allowed[i].watches));
    ck_assert_uint_eq(access_counts(bob), reach(allowed[i].executors));
    ck_assert_uint_eq(access_traces(bob), reach(allowed[i].traces));
    ck_assert_uint_eq(access_cancels(bob), reach(allowed[i].cancels));
    ck_assert_int_eq(access_reads(bob, ALICE), allowed[i].sees);
    ck_assert(access_reads(bob, BOB));
}
END_TEST

START_TEST(without_a_right_nobody_is_let_in)
{
    ck_assert_ptr_nonnull(access_connect(bob));
}
END_TEST

START_TEST(a_right_goes_with_the_rules)
{
    allow_only(ACCESS_WATCH);
    ck_assert_uint_eq(access_watches(bob), ACCESS_ALL);
    allow_only(ACCESS_SUBMIT);
    ck_assert_uint_eq(access_watches(bob), BOB);
}
END_TEST

int main(void)
{
    TCase *access = tcase_create("access");
    Suite *suite = suite_create("frontend access");

    tcase_add_checked_fixture(access, setup, teardown);
    tcase_add_loop_test(access, each_right_allows_this_and_no_more, 0, ACCESS_RIGHTS);
    tcase_add_test(access, without_a_right_nobody_is_let_in);
    tcase_add_test(access, a_right_goes_with_the_rules);
    suite_add_tcase(suite, access);
    return run_suite(suite);
}
