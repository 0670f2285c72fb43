/* SPDX-License-Identifier: Apache-2.0
 *
 * test-freeing.c: a handle that is freed in a callback: each open call has its end once, and the call that made the
 * callback returns. What is used after it was freed is seen by valgrind and AddressSanitizer. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>

#define SECOND 1000000u

enum callback { ACCEPTED, OUTPUT, MESSAGE, PROGRESS, DONE, N_CALLBACKS };

static struct peer peer;
static struct wsd_client *client;
static struct wsd_call *call, *other;
static struct wsd_batch *batch;
static unsigned n_done, n_others_done, n_told, fds_before;
static enum callback frees_in;

static void setup(void)
{
    n_done = n_others_done = n_told = 0;
    fds_before = count_fds();
    peer_start(&peer, &client, 100000, FEATURE_ARRAY | FEATURE_BRIEF);
}

static void teardown(void)
{
    wsd_client_free(client);
    peer_deinit(&peer);
    ck_assert_uint_eq(count_fds(), fds_before);
}

static void in_callback(enum callback which)
{
    if (which == frees_in)
        client = wsd_client_free(client);
}

static void on_accepted(struct wsd_call *of, const struct wsd_id *id, void *userdata)
{
    in_callback(ACCEPTED);
}

static int on_output(struct wsd_call *of, const void *data, size_t size, void *userdata)
{
    in_callback(OUTPUT);
    return 0;
}

static void on_message(struct wsd_call *of, int level, const char *text, void *userdata)
{
    in_callback(MESSAGE);
}

static void on_progress(struct wsd_call *of, uint64_t done, uint64_t total, void *userdata)
{
    in_callback(PROGRESS);
}

static void on_done(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    ck_assert_int_eq(error, frees_in == DONE ? 0 : -ECONNRESET);
    in_callback(DONE);
}

static void on_other_done(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text,
                          void *userdata)
{
    n_others_done++;
    ck_assert_int_eq(error, -ECONNRESET);
    ck_assert_ptr_null(wsd_client_free(userdata)); /* it is being freed already */
    ck_assert_int_eq(wsd_client_ping(userdata, NULL), -ECONNRESET);
}

static void submit_both(void)
{
    const struct wsd_callbacks all = {.size = sizeof(all),
                                      .accepted = on_accepted,
                                      .output = on_output,
                                      .message = on_message,
                                      .progress = on_progress,
                                      .done = on_done};
    const struct wsd_callbacks another = {.size = sizeof(another), .done = on_other_done, .userdata = client};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .flags = WSD_SUBMIT_PROGRESS, .priority = 1};

    ck_assert_int_eq(wsd_client_submit(client, &job, &all, &call), 0);
    ck_assert_int_eq(wsd_client_submit(client, &job, &another, &other), 0);
    ck_assert_int_eq(wsd_batch_open(client, &(struct wsd_submit){.size = sizeof(job), .plugin = "p"}, 0, &batch), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    uint32_t tag = peer.frame.tag;

    peer_send_accepted(&peer, tag);
    peer_send(&peer, &(struct msg){.type = FRAME_MESSAGE, .message = {.level = 6, .text = {"m", 1}}}, tag, NULL, 0);
    peer_send(&peer, &(struct msg){.type = FRAME_PROGRESS, .progress = {.done = 1, .total = 2}}, tag, NULL, 0);
    peer_send_output(&peer, tag, 0, "out", 3);
    peer_send_done(&peer, tag, 5, 0, "");
}

static int process(void)
{
    int r = 0;

    while (r == 0 && !n_others_done)
        r = wsd_client_process(client);
    return r;
}

static int wait_some(void)
{
    return wsd_client_wait(client, 5 * SECOND);
}

static int wait_for_it(void)
{
    int r = wsd_call_wait(call, 5 * SECOND, NULL);

    return frees_in == DONE && r == 0 ? -ECONNRESET : r; /* it had its end */
}

static int wait_for_the_other(void)
{
    return wsd_call_wait(other, 5 * SECOND, NULL);
}

static int wait_for_the_batch(void)
{
    return wsd_batch_wait(batch, 5 * SECOND, NULL);
}

static int ping(void)
{
    return wsd_client_ping(client, NULL);
}

static int call_it(void)
{
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = "p"};
    struct wsd_call_result r = {.size = sizeof(r)};

    return wsd_call(client, &q, &r);
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    n_told++;
    ck_assert_int_eq(error, -ECONNRESET);
    return 0;
}

static int map(void)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    const struct wsd_item items[2] = {{.size = sizeof(*items)}, {.size = sizeof(*items)}};
    int r = wsd_map(client, &job, 0, items, 2, on_item, NULL);

    ck_assert_uint_eq(n_told, 2);
    return r;
}

static int (*const ways[])(void) = {process, wait_some, wait_for_it, wait_for_the_other, wait_for_the_batch,
                                    ping,    call_it,   map};

START_TEST(a_handle_may_be_freed_in_each_callback)
{
    frees_in = (enum callback)(_i % N_CALLBACKS);
    submit_both();
    ck_assert_int_eq(ways[_i / N_CALLBACKS](), -ECONNRESET);
    ck_assert_ptr_null(client);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_eq(n_others_done, 1);
    ck_assert_uint_eq(count_fds(), fds_before + 2); /* the peer's two: ours are closed */
}
END_TEST

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    n_told++;
    client = wsd_client_free(client);
    ck_assert_str_eq(info->plugin, "sort"); /* still there */
    return 0;
}

START_TEST(and_while_an_answer_is_shown)
{
    const struct msg m = {.type = FRAME_JOB,
                          .job = {.plugin = {"sort", 4},
                                  .function = {"", 0},
                                  .error = {"", 0},
                                  .status = {"", 0},
                                  .worker = {"", 0},
                                  .state = 3}};

    peer_send(&peer, &m, 1, NULL, 0);
    peer_send(&peer, &m, 1, NULL, 0);
    ck_assert_int_eq(wsd_client_list(client, on_job, NULL), -ECONNRESET);
    ck_assert_uint_eq(n_told, 1);
}
END_TEST

static int free_at_the_first(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                             const char *text, void *userdata)
{
    ck_assert_int_eq(error, -ECONNRESET);
    if (n_told++ == 0)
        client = wsd_client_free(client);
    return 0;
}

START_TEST(and_in_a_map)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    const struct wsd_item items[3] = {{.size = sizeof(*items)}, {.size = sizeof(*items)}, {.size = sizeof(*items)}};

    peer_close(&peer);
    ck_assert_int_eq(wsd_map(client, &job, WSD_BATCH_KEEP_GOING, items, 3, free_at_the_first, NULL), -ECONNRESET);
    ck_assert_uint_eq(n_told, 3);
}
END_TEST

static void on_lost(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    ck_assert_int_eq(error, -ECONNRESET);
    if (n_told++ == 0)
        client = wsd_client_free(client);
    wsd_call_free(of);
}

/* Each by itself, or in one array. */
START_TEST(and_at_the_end_of_the_connection)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_lost};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .flags = _i ? WSD_SUBMIT_PROGRESS : 0};

    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_close(&peer);
    while (client && wsd_client_process(client) == 0)
        ;
    ck_assert_ptr_null(client);
    ck_assert_uint_eq(n_told, 5);
}
END_TEST

static void free_the_batch(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text,
                           void *userdata)
{
    batch = wsd_batch_free(batch);
    n_told++;
}

/* It is waited for in the midst of that. */
START_TEST(a_batch_may_be_freed_while_it_is_waited_for)
{
    const struct wsd_callbacks freeing = {.size = sizeof(freeing), .done = free_the_batch};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch_info info = {.size = sizeof(info)};

    ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), 0);
    ck_assert_int_eq(wsd_batch_submit(batch, &item, &freeing, NULL), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    if (_i == 0) {
        peer_close(&peer); /* it is over with that */
    } else {
        peer_expect(&peer, NULL, FRAME_BATCH);
        peer_expect(&peer, NULL, FRAME_ARRAY);
        peer_send_error(&peer, peer.frame.tag - 1, 75, "too many are open");
        peer_send_error(&peer, peer.frame.tag, 75, "it was refused");
    }
    ck_assert_int_lt(wsd_batch_wait(batch, SECOND, &info), 0);
    ck_assert_uint_eq(n_told, 1);
}
END_TEST

/* --- callbacks in callbacks --------------------------------------------------------------------------------------- */

static unsigned n_nested;
static int refusal;

/* Each answer asks the next question, until that is refused. */
static int ask_on(const struct wsd_job_info *info, void *userdata)
{
    n_nested++;
    refusal = wsd_client_list(client, ask_on, NULL);
    ck_assert_int_le(n_nested, 100);
    return refusal == -EDEADLK ? 7 : refusal;
}

START_TEST(callbacks_nest_to_a_depth)
{
    const struct msg m = {.type = FRAME_JOB,
                          .job = {.plugin = {"sort", 4},
                                  .function = {"", 0},
                                  .error = {"", 0},
                                  .status = {"", 0},
                                  .worker = {"", 0},
                                  .state = 3}};

    n_nested = 0;
    for (uint32_t tag = 1; tag <= 32; tag++)
        peer_send(&peer, &m, tag, NULL, 0);
    ck_assert_int_eq(wsd_client_list(client, ask_on, NULL), 7);
    ck_assert_uint_eq(n_nested, 32);
    ck_assert_int_eq(wsd_client_process(client), 0); /* it is as good as before */
}
END_TEST

/* --- what is not there -------------------------------------------------------------------------------------------- */

START_TEST(a_failed_submit_gives_no_call)
{
    struct wsd_submit job = {.size = sizeof(job), .plugin = ""};
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_call *const before = (struct wsd_call *)(void *)&peer;

    for (int i = 0; i < 2; i++) {
        call = before;
        ck_assert_int_lt(wsd_client_submit(client, &job, NULL, &call), 0);
        ck_assert_ptr_null(call);
        ck_assert_ptr_null(wsd_call_free(call));
        job.plugin = "p";
        if (i)
            continue;
        ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), 0);
        peer_close(&peer);
        while (wsd_client_process(client) == 0)
            ;
        call = before;
        ck_assert_int_lt(wsd_batch_submit(batch, &item, NULL, &call), 0);
        ck_assert_ptr_null(call);
        call = before;
        ck_assert_int_lt(wsd_client_attach(client, &(struct wsd_id){{1}}, NULL, &call), 0);
        ck_assert_ptr_null(call);
    }
}
END_TEST

START_TEST(what_is_not_connected_has_no_descriptor)
{
    struct wsd_client *none;

    ck_assert_int_ge(wsd_client_fd(client), 0);
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
    ck_assert_int_eq(wsd_client_fd(client), -1);
    ck_assert_int_eq(wsd_client_events(client), 0);
    ck_assert_int_lt(wsd_client_open(&none, "/nonexistent", SECOND), 0);
    ck_assert_int_eq(wsd_client_fd(none), -1);
    wsd_client_free(none);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("freeing");
    TCase *live = tcase_create("live");

    tcase_add_checked_fixture(live, setup, teardown);
    suite_add_tcase(suite, live);
    tcase_add_loop_test(live, a_handle_may_be_freed_in_each_callback, 0, N_CALLBACKS * ARRAY_SIZE(ways));
    tcase_add_test(live, and_while_an_answer_is_shown);
    tcase_add_test(live, and_in_a_map);
    tcase_add_loop_test(live, and_at_the_end_of_the_connection, 0, 2);
    tcase_add_loop_test(live, a_batch_may_be_freed_while_it_is_waited_for, 0, 2);
    tcase_add_test(live, callbacks_nest_to_a_depth);
    tcase_add_test(live, a_failed_submit_gives_no_call);
    tcase_add_test(live, what_is_not_connected_has_no_descriptor);
    return run_suite(suite);
}
