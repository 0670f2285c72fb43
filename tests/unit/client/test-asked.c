/* SPDX-License-Identifier: Apache-2.0
 *
 * test-asked.c: questions that no call waits for: their answers, words, deadlines and ends. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND        1000000u
#define DEADLINE_USEC 300000u /* valgrind is slow: nothing of a question takes so long */

enum question { PING, JOB, LIST, STATS, QUESTIONS };

static const struct {
    uint16_t asks, each, end;
} frames[QUESTIONS] = {
    [PING] = {FRAME_PING, FRAME_PONG, FRAME_PONG},
    [JOB] = {FRAME_STATUS, FRAME_JOB, FRAME_JOB},
    [LIST] = {FRAME_LIST, FRAME_JOB, FRAME_END},
    [STATS] = {FRAME_STATS, FRAME_COUNTERS, FRAME_COUNTERS},
};

static struct peer peer;
static struct wsd_client *client;
static unsigned n_each, n_done, n_lost;
static int last_error;
static char last_text[256];
static uint64_t sum;
/* What the callbacks do. */
static int each_returns;
static bool each_processes, each_frees, each_fails, done_frees, done_asks;

static void setup(void)
{
    n_each = n_done = n_lost = 0;
    last_error = 1;
    sum = 0;
    each_returns = 0;
    each_processes = each_frees = each_fails = done_frees = done_asks = false;
    snprintf(last_text, sizeof(last_text), "nothing");
    peer_start(&peer, &client, 1 << 20, FEATURE_WHERE);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static int each_comes(void *userdata)
{
    ck_assert_ptr_eq(userdata, &peer);
    ck_assert_uint_eq(n_done, 0);
    n_each++;
    if (each_processes)
        wsd_client_process(client);
    if (each_fails)
        ck_assert_int_eq(wsd_client_ask_list(client, &(struct wsd_filter){0}, NULL, NULL, NULL), -EINVAL);
    if (each_frees)
        client = wsd_client_free(client);
    return each_returns;
}

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    sum += info->run_usec;
    return each_comes(userdata);
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    ck_assert_int_eq(name[0], 'n');
    sum += value;
    return each_comes(userdata);
}

static void on_done(int error, const char *text, void *userdata)
{
    n_done++;
    n_lost += error == -ECONNRESET;
    last_error = error;
    snprintf(last_text, sizeof(last_text), "%s", text);
    if (done_asks)
        ck_assert_int_eq(wsd_client_ask_ping(client, NULL, NULL), 0);
    if (done_frees)
        client = wsd_client_free(client);
}

static int ask(enum question what)
{
    static const struct wsd_id id = {{1, 2, 3}};

    switch (what) {
    case PING:
        return wsd_client_ask_ping(client, on_done, &peer);
    case JOB:
        return wsd_client_ask_job(client, &id, on_job, on_done, &peer);
    case LIST:
        return wsd_client_ask_list(client, NULL, on_job, on_done, &peer);
    default:
        return wsd_client_ask_stats(client, on_counter, on_done, &peer);
    }
}

/* Asks, and has wsd take it. Returns its tag. */
static uint32_t asked(enum question what)
{
    ck_assert_int_eq(ask(what), 0);
    peer_expect(&peer, client, frames[what].asks);
    return peer.frame.tag;
}

static void send_job(uint32_t tag, uint64_t run_usec)
{
    peer_send(
        &peer,
        &(struct msg){.type = FRAME_JOB, .job = {.plugin = {"p", 1}, .state = WSD_JOB_RUNNING, .run_usec = run_usec}},
        tag, NULL, 0);
}

static void answer(enum question what, uint32_t tag)
{
    static const struct msg_counter counters[] = {{{"n1", 2}, 3}, {{"n2", 2}, 4}};

    switch (what) {
    case PING:
        peer_send_empty(&peer, FRAME_PONG, tag);
        return;
    case JOB:
        send_job(tag, 7);
        return;
    case LIST:
        send_job(tag, 3);
        send_job(tag, 4);
        peer_send_empty(&peer, FRAME_END, tag);
        return;
    default:
        peer_send(&peer, &(struct msg){.type = FRAME_COUNTERS, .stats = {counters, 2}}, tag, NULL, 0);
        return;
    }
}

static void let_the_deadline_pass(void)
{
    for (uint64_t left; (left = wsd_client_timeout_usec(client)) > 0;)
        usleep((useconds_t)left);
}

/* The connection stands, and what else comes for the question was passed over. */
static void goes_on(void)
{
    unsigned n = n_done;
    uint32_t tag = asked(PING);

    answer(PING, tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, n + 1);
    ck_assert_int_eq(last_error, 0);
}

START_TEST(an_answer_is_told_and_its_end_once)
{
    enum question what = (enum question)_i;
    uint32_t tag = asked(what);

    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 0);
    answer(what, tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_each, what == PING ? 0 : what == JOB ? 1 : 2);
    ck_assert_uint_eq(sum, what == PING ? 0 : 7);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
    ck_assert_str_eq(last_text, "");
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    goes_on();
}
END_TEST

START_TEST(callbacks_are_not_needed)
{
    static const struct wsd_id id = {{1}};
    uint32_t tag;

    ck_assert_int_eq(wsd_client_ask_ping(client, NULL, NULL), 0);
    peer_expect(&peer, client, FRAME_PING);
    answer(PING, peer.frame.tag);
    ck_assert_int_eq(wsd_client_ask_job(client, &id, NULL, on_done, &peer), 0);
    peer_expect(&peer, client, FRAME_STATUS);
    tag = peer.frame.tag;
    ck_assert_int_eq(wsd_client_ask_stats(client, NULL, on_done, &peer), 0);
    peer_expect(&peer, client, FRAME_STATS);
    answer(STATS, peer.frame.tag);
    answer(JOB, tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 2);
    ck_assert_int_eq(last_error, 0);
}
END_TEST

START_TEST(a_filter_is_asked_for)
{
    struct wsd_filter filter = {.size = sizeof(filter), .plugin = "fib"};

    ck_assert_int_eq(wsd_client_ask_list(client, &filter, on_job, on_done, &peer), 0);
    filter.plugin = NULL;
    peer_expect(&peer, client, FRAME_LIST_WHERE);
    ck_assert_str_eq(peer.msg.filter.plugin.data, "fib");
    answer(LIST, peer.frame.tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    filter.size = 0;
    ck_assert_int_eq(wsd_client_ask_list(client, &filter, on_job, on_done, &peer), -EINVAL);
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(a_refusal_has_its_words)
{
    enum question what = (enum question)_i;

    peer_send_error(&peer, asked(what), 66, "no such job");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, -ENOENT);
    ck_assert_str_eq(last_text, "no such job");
    goes_on();
}
END_TEST

START_TEST(a_callback_ends_the_answer)
{
    const struct wsd_filter wrong = {0};
    enum question what = (enum question)_i;

    ck_assert_int_eq(wsd_client_ask_list(client, &wrong, NULL, NULL, NULL), -EINVAL); /* its words are not the end's */
    each_returns = 7;
    answer(what, asked(what));
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_each, 1);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 7);
    ck_assert_str_eq(last_text, "");
    goes_on();
}
END_TEST

START_TEST(a_deadline_ends_it)
{
    enum question what = (enum question)_i;
    uint32_t tag;

    ck_assert_int_eq(wsd_client_set_deadline(client, DEADLINE_USEC), 0);
    tag = asked(what);
    ck_assert_uint_le(wsd_client_timeout_usec(client), DEADLINE_USEC);
    let_the_deadline_pass();
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, -ETIMEDOUT);
    ck_assert_str_ne(last_text, "");
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    answer(what, tag); /* late */
    ck_assert_int_eq(wsd_client_set_deadline(client, 0), 0);
    goes_on();
    ck_assert_uint_eq(n_each, 0);
}
END_TEST

/* An answer that is there in time counts, however late the loop is. */
START_TEST(what_has_come_counts_more_than_the_deadline)
{
    ck_assert_int_eq(wsd_client_set_deadline(client, DEADLINE_USEC), 0);
    answer(LIST, asked(LIST));
    let_the_deadline_pass();
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_each, 2);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
}
END_TEST

START_TEST(the_end_of_the_connection_ends_all)
{
    for (enum question what = 0; what < QUESTIONS; what++)
        asked(what);
    if (_i == 0) {
        peer_close(&peer);
        ck_assert_int_lt(wsd_client_process(client), 0);
        ck_assert_int_eq(ask(PING), -ECONNRESET);
    } else {
        client = wsd_client_free(client);
    }
    ck_assert_uint_eq(n_done, QUESTIONS);
    ck_assert_int_eq(last_error, -ECONNRESET);
    ck_assert_str_ne(last_text, "");
}
END_TEST

START_TEST(a_handle_may_be_freed_in_each_callback)
{
    enum question what = (enum question)(_i / 2);
    bool in_each = _i % 2 && what != PING;
    uint32_t tag = asked(what);

    asked(PING);
    each_frees = in_each;
    done_frees = !in_each;
    answer(what, tag);
    ck_assert_int_lt(wsd_client_process(client), 0);
    ck_assert_ptr_null(client);
    ck_assert_uint_eq(n_each, what == PING ? 0 : in_each || what == JOB ? 1 : 2);
    ck_assert_uint_eq(n_done, 2);
    ck_assert_int_eq(last_error, -ECONNRESET);
    ck_assert_uint_eq(n_lost, in_each ? 2 : 1);
}
END_TEST

/* What the callback does after the end is not what has ended the answer. */
START_TEST(an_end_that_waits_for_a_callback_keeps_its_words)
{
    uint32_t tag = asked(LIST);

    each_processes = each_fails = true;
    send_job(tag, 1);
    peer_send_error(&peer, tag, 75, "wsd is about to end");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_each, 1);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, -EAGAIN);
    ck_assert_str_eq(last_text, "wsd is about to end");
}
END_TEST

/* Its end comes while a part of it is shown: done is last all the same. */
START_TEST(a_callback_may_process_the_connection)
{
    each_processes = true;
    answer(LIST, asked(LIST));
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_each, 2);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
}
END_TEST

START_TEST(done_may_ask)
{
    done_asks = true;
    answer(STATS, asked(STATS));
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_expect(&peer, client, FRAME_PING);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(some_are_no_more)
{
    uint32_t first = asked(PING), second = asked(PING);

    answer(PING, first);
    answer(PING, second);
    ck_assert_int_eq(wsd_client_process_some(client, 1), 1);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(wsd_client_process_some(client, 2), 0);
    ck_assert_uint_eq(n_done, 2);
}
END_TEST

START_TEST(nothing_is_asked_before_it_is_connected)
{
    const struct wsd_open how = {.size = sizeof(how), .socket = peer.path, .flags = WSD_OPEN_LATER};
    struct wsd_client *first = client;

    ck_assert_int_eq(wsd_client_open_with(&client, &how), 0);
    for (enum question what = 0; what < QUESTIONS; what++) {
        ck_assert_int_eq(ask(what), -EAGAIN);
        ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "not connected yet"));
    }
    wsd_client_free(client);
    client = first;
    ck_assert_uint_eq(n_done, 0);
}
END_TEST

START_TEST(a_child_is_told_nothing)
{
    int status;

    asked(LIST);
    pid_t pid = fork();
    if (pid == 0) {
        int r = ask(PING);

        client = wsd_client_free(client);
        _exit(r == -ECHILD && n_done == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    answer(LIST, peer.frame.tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("asked");
    TCase *t = tcase_create("asked");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, an_answer_is_told_and_its_end_once, 0, QUESTIONS);
    tcase_add_test(t, callbacks_are_not_needed);
    tcase_add_test(t, a_filter_is_asked_for);
    tcase_add_loop_test(t, a_refusal_has_its_words, 0, QUESTIONS);
    tcase_add_loop_test(t, a_callback_ends_the_answer, JOB, QUESTIONS);
    tcase_add_loop_test(t, a_deadline_ends_it, 0, QUESTIONS);
    tcase_add_test(t, what_has_come_counts_more_than_the_deadline);
    tcase_add_loop_test(t, the_end_of_the_connection_ends_all, 0, 2);
    tcase_add_loop_test(t, a_handle_may_be_freed_in_each_callback, 0, 2 * QUESTIONS);
    tcase_add_test(t, an_end_that_waits_for_a_callback_keeps_its_words);
    tcase_add_test(t, a_callback_may_process_the_connection);
    tcase_add_test(t, done_may_ask);
    tcase_add_test(t, some_are_no_more);
    tcase_add_test(t, nothing_is_asked_before_it_is_connected);
    tcase_add_test(t, a_child_is_told_nothing);
    suite_add_tcase(s, t);
    return run_suite(s);
}
