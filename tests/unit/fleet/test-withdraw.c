/* SPDX-License-Identifier: Apache-2.0
 *
 * test-withdraw.c: what is cancelled goes, and nothing else: behind each order of connections and answers. */
#include "fleet/withdraw.h"

#include <inttypes.h>

#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define DELETE "$JS.API.STREAM.MSG.DELETE.WSD_JOBS"
#define GET    "$JS.API.STREAM.MSG.GET.WSD_JOBS"

/* "NATS/1.0\r\nNats-Msg-Id: mine-1\r\n\r\n", and the same of another one */
#define MINE   "{\"message\":{\"seq\":7,\"hdrs\":\"TkFUUy8xLjANCk5hdHMtTXNnLUlkOiBtaW5lLTENCg0K\"}}"
#define OTHERS "{\"message\":{\"seq\":7,\"hdrs\":\"TkFUUy8xLjANCk5hdHMtTXNnLUlkOiBvdGhlci0xDQoNCg==\"}}"
#define NONE   "{\"error\":{\"code\":404,\"description\":\"no message found\"}}"

static struct withdrawals *w;
static char *const a_bus = (char *)&w; /* never looked into */

static void setup(void)
{
    post_open();
    up = true;
    connection = 1;
    ck_assert_int_eq(withdrawals_new(&w, (struct bus *)a_bus), 0);
}

static void teardown(void)
{
    withdrawals_free(w);
    post_clear();
}

static void cancel(uint64_t sequence, const char *job)
{
    const struct withdrawn what = {.sequence = sequence, .connection = 1, .message_id = "mine-1", .job = job};

    withdraw(w, &what);
}

static void is_post(uint32_t i, const char *subject, const char *text)
{
    ck_assert_uint_gt(n_posts, i);
    ck_assert_str_eq(posts[i].subject, subject);
    ck_assert_str_eq(posts[i].text, text);
}

START_TEST(on_the_same_connection_it_goes_at_once)
{
    cancel(7, "mine");
    ck_assert_uint_eq(n_posts, 2);
    is_post(0, "wsd.cancel.mine", "");
    is_post(1, DELETE, "{\"seq\":7,\"no_erase\":true}");
}
END_TEST

START_TEST(what_no_server_has_is_told_to_nodes_only)
{
    cancel(0, "mine");
    ck_assert_uint_eq(n_posts, 1);
    is_post(0, "wsd.cancel.mine", "");
}
END_TEST

START_TEST(behind_another_connection_only_its_own_goes)
{
    static const char *const answers[] = {MINE, OTHERS, NONE};

    connection = 2;
    cancel(7, NULL);
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, 1);
    is_post(0, GET, "{\"seq\":7}");
    post_answer(&posts[0], answers[_i]);
    if (_i == 0)
        is_post(1, DELETE, "{\"seq\":7,\"no_erase\":true}");
    ck_assert_uint_eq(n_posts, _i == 0 ? 2 : 1);
    now_usec += WITHDRAWAL_PAUSE_USEC;
    withdrawals_tick(w, now_usec); /* it is over */
    ck_assert_uint_eq(n_posts, _i == 0 ? 2 : 1);
}
END_TEST

START_TEST(without_an_answer_it_is_asked_for_some_times)
{
    connection = 2;
    cancel(7, NULL);
    for (uint32_t i = 0; i < WITHDRAWAL_TRIES; i++) {
        withdrawals_tick(w, now_usec);
        ck_assert_uint_eq(n_posts, i + 1);
        is_post(i, GET, "{\"seq\":7}");
        post_answer(&posts[i], NULL);
        now_usec += WITHDRAWAL_PAUSE_USEC - 1;
        withdrawals_tick(w, now_usec);
        ck_assert_uint_eq(n_posts, i + 1);
        now_usec++;
    }
    withdrawals_tick(w, now_usec); /* it was given up */
    ck_assert_uint_eq(n_posts, WITHDRAWAL_TRIES);
}
END_TEST

START_TEST(some_are_asked_for_at_once)
{
    connection = 2;
    for (uint32_t i = 0; i < WITHDRAWALS_AT_ONCE + 1; i++)
        cancel(7 + i, NULL);
    withdrawals_tick(w, now_usec);
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, WITHDRAWALS_AT_ONCE);
    post_answer(&posts[3], NONE);
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, WITHDRAWALS_AT_ONCE + 1);
    is_post(WITHDRAWALS_AT_ONCE, GET, "{\"seq\":23}");
}
END_TEST

START_TEST(without_a_connection_it_waits_for_one)
{
    up = false;
    cancel(7, "mine");
    cancel(0, "unsent");
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, 0);
    up = true;
    connection = 2;
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, 3);
    is_post(0, "wsd.cancel.mine", "");
    is_post(1, GET, "{\"seq\":7}");
    is_post(2, "wsd.cancel.unsent", "");
    /* that one is over before an answer, however often */
    for (uint32_t i = 0; i < WITHDRAWAL_TRIES; i++) {
        up = false;
        post_answer(&posts[n_posts - (i == 0 ? 2 : 1)], NULL);
        up = true;
        connection++;
        now_usec += WITHDRAWAL_PAUSE_USEC;
        withdrawals_tick(w, now_usec);
        ck_assert_uint_eq(n_posts, 4 + i);
        is_post(3 + i, GET, "{\"seq\":7}");
    }
    post_answer(&posts[n_posts - 1], MINE);
    is_post(n_posts - 1, DELETE, "{\"seq\":7,\"no_erase\":true}");
}
END_TEST

START_TEST(no_more_than_so_many_wait)
{
    char first[24], job[24];

    up = false;
    for (uint32_t i = 0; i < WITHDRAWALS_MAX + (uint32_t)_i; i++) {
        snprintf(job, sizeof(job), "job%" PRIu32, i);
        cancel(0, job);
    }
    up = true;
    snprintf(first, sizeof(first), "wsd.cancel.job%d", _i);
    withdrawals_tick(w, now_usec);
    ck_assert_uint_eq(n_posts, WITHDRAWALS_MAX);
    is_post(0, first, "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("withdraw");
    TCase *c = tcase_create("withdraw");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, on_the_same_connection_it_goes_at_once);
    tcase_add_test(c, what_no_server_has_is_told_to_nodes_only);
    tcase_add_loop_test(c, behind_another_connection_only_its_own_goes, 0, 3);
    tcase_add_test(c, without_an_answer_it_is_asked_for_some_times);
    tcase_add_test(c, some_are_asked_for_at_once);
    tcase_add_test(c, without_a_connection_it_waits_for_one);
    tcase_add_loop_test(c, no_more_than_so_many_wait, 0, 2);
    suite_add_tcase(s, c);
    return run_suite(s);
}
