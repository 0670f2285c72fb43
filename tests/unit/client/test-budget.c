/* SPDX-License-Identifier: Apache-2.0
 *
 * test-budget.c: what a turn of an event loop costs at most: callbacks that are made, bytes that wait to be sent. */
#include "peer.h"
#include "tests/unit/suite.h"
#include "proto/records.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define SECOND 1000000u
#define CALLS  10u

static struct peer peer;
static struct wsd_client *client;
static struct wsd_call *calls[CALLS];
static unsigned n_done, n_rooms;
static int wanted_error;
static void (*in_done)(void);

static void setup_with(uint64_t features)
{
    n_done = n_rooms = 0;
    wanted_error = 0;
    in_done = NULL;
    peer_start(&peer, &client, 1 << 20, features);
}

static void setup(void)
{
    setup_with(FEATURE_ARRAY | FEATURE_BRIEF);
}

static void setup_old(void)
{
    setup_with(0);
}

static void teardown(void)
{
    in_done = NULL;
    wanted_error = -ECONNRESET;
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    ck_assert_int_eq(error, wanted_error);
    if (in_done)
        in_done();
}

static const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

/* All are submitted, and wsd has them. */
static void submit_all(void)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};

    for (size_t i = 0; i < CALLS; i++)
        ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, &calls[i]), 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), CALLS);
    ck_assert_uint_gt(wsd_client_unsent(client), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    ck_assert_uint_eq(wsd_client_unsent(client), 0);
}

/* Each ends in a frame of its own. */
static void end_each(void)
{
    submit_all();
    for (size_t i = 0; i < CALLS; i++) {
        peer_expect(&peer, NULL, FRAME_SUBMIT);
        peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    }
}

/* A frame, and its callback, count. */
START_TEST(a_turn_has_an_end)
{
    end_each();
    ck_assert_int_eq(wsd_client_process_some(client, 0), -EINVAL);
    for (unsigned i = 1; i <= CALLS; i++) {
        ck_assert_int_eq(wsd_client_process_some(client, _i == 0 ? 1 : 2), i < CALLS);
        ck_assert_uint_eq(n_done, i);
        ck_assert_uint_eq(wsd_client_open_calls(client), CALLS - i);
    }
    ck_assert_int_eq(wsd_client_process_some(client, UINT32_MAX), 0);
}
END_TEST

START_TEST(a_frame_is_not_cut)
{
    struct msg m = {.type = FRAME_ENDS,
                    .ends = {.plugin = {"p", 1}, .function = {"f", 1}, .records = CALLS, .last = true}};
    uint8_t body[1024];
    size_t size = 0;

    submit_all();
    peer_expect(&peer, NULL, FRAME_ARRAY);
    for (uint32_t i = 0; i < CALLS; i++) {
        const struct msg_end end = {.index = i, .n = 1, .state = 5};

        codec_put_end(&end, body + size);
        size += codec_end_size(&end);
    }
    peer_send(&peer, &m, peer.frame.tag, body, size);
    ck_assert_int_eq(wsd_client_process_some(client, 1), 0);
    ck_assert_uint_eq(n_done, CALLS);
}
END_TEST

/* Leaves frames in the client: they are read from the socket, but not processed. */
static void leave_some(bool close)
{
    end_each();
    if (close)
        peer_close(&peer);
    ck_assert_int_eq(wsd_client_process_some(client, 1), 1);
    ck_assert_uint_eq(n_done, 1);
}

START_TEST(what_is_left_is_found_by_those_that_wait)
{
    leave_some(false);
    if (_i == 0)
        ck_assert_int_eq(wsd_call_wait(calls[CALLS - 1], 5 * SECOND, NULL), 0);
    else if (_i == 1)
        ck_assert_int_eq(wsd_client_wait(client, 5 * SECOND), 0);
    else
        ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, CALLS);
}
END_TEST

START_TEST(what_is_left_goes_before_the_end_of_the_connection)
{
    leave_some(true);
    for (unsigned i = 2; i <= CALLS; i++) {
        int r = wsd_client_process_some(client, 1);

        ck_assert_int_eq(r, i < CALLS ? 1 : -ECONNRESET);
        ck_assert_uint_eq(n_done, i);
    }
}
END_TEST

static void wait_for_the_last(void)
{
    in_done = NULL;
    ck_assert_int_eq(wsd_call_wait(calls[CALLS - 1], 5 * SECOND, NULL), 0);
}

/* A callback that waits is not held up by the budget of the turn that it is in. */
START_TEST(a_wait_in_a_callback_has_no_budget)
{
    leave_some(false);
    in_done = wait_for_the_last;
    ck_assert_int_eq(wsd_client_process_some(client, 1), 0);
    ck_assert_uint_eq(n_done, CALLS);
}
END_TEST

/* --- what waits to be sent ---------------------------------------------------------------------------------------- */

static void on_room(void *userdata)
{
    ck_assert_ptr_eq(userdata, &peer);
    ck_assert_uint_eq(wsd_client_unsent(client), 0);
    n_rooms++;
}

#define HIGH  (1u << 20)
#define INPUT 16384u

static char input[INPUT];

static int submit_one(struct wsd_batch *batch)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .input = input, .input_size = INPUT};
    const struct wsd_item item = {.size = sizeof(item), .input = input, .input_size = INPUT};

    return batch ? wsd_batch_submit(batch, &item, NULL, NULL) : wsd_client_submit(client, &job, NULL, NULL);
}

/* The peer does not read: submitted bytes are bounded, and the client tells when there is room. */
START_TEST(unsent_bytes_have_a_limit)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    struct wsd_batch *batch = NULL;
    size_t n = 0;
    int r;

    if (_i == 1)
        ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), 0);
    ck_assert_int_eq(wsd_client_set_bounds(client, HIGH, 0, on_room, &peer), 0);
    while ((r = submit_one(batch)) == 0)
        ck_assert_uint_lt(++n, 100000);
    ck_assert_int_eq(r, -EAGAIN);
    ck_assert_int_eq(wsd_client_exit(client), 75);
    ck_assert_uint_ge(wsd_client_unsent(client), HIGH);
    ck_assert_uint_lt(wsd_client_unsent(client), HIGH + 2 * INPUT);
    ck_assert_uint_eq(wsd_client_open_calls(client), n);
    ck_assert_int_eq(submit_one(batch), -EAGAIN);
    ck_assert_uint_eq(n_rooms, 0);
    while (!n_rooms) { /* wsd reads */
        if (!peer_quiet(&peer, client))
            ck_assert(peer.frame.type == FRAME_ARRAY || peer.frame.type == FRAME_SUBMIT ||
                      peer.frame.type == FRAME_BATCH);
    }
    ck_assert_int_eq(submit_one(batch), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_rooms, 1); /* once a refusal */
    wanted_error = -ECONNRESET;
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
    ck_assert_int_eq(submit_one(batch), -ECONNRESET);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

static void *greet_again(void *arg)
{
    uint8_t data[128];
    struct msg welcome = {.type = FRAME_WELCOME,
                          .welcome = {.version = 1, .features = FEATURE_STORE, .program = {"wsd 9", 5}}};

    peer.fd = accept(peer.listen_fd, NULL, NULL);
    buffer_drop(&peer.in, buffer_size(&peer.in)); /* of the connection before */
    peer.used = 0;
    peer_expect(&peer, NULL, FRAME_HELLO);
    peer_send_raw(&peer, data, codec_encode(&welcome, 0, 0, data, sizeof(data)));
    return NULL;
}

static int submitted = 1;

static void on_room_again(void *userdata)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .flags = WSD_SUBMIT_DURABLE | WSD_SUBMIT_DETACH};

    n_rooms++;
    submitted = wsd_client_submit(client, &job, NULL, NULL);
}

/* The connection has ended since the refusal: there is room when the next one stands. */
START_TEST(room_is_told_on_the_next_connection)
{
    pthread_t thread;

    ck_assert_int_eq(wsd_client_set_bounds(client, HIGH, 0, on_room_again, &peer), 0);
    while (submit_one(NULL) == 0)
        ;
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
    ck_assert_uint_eq(n_rooms, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, greet_again, NULL), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, 5 * SECOND), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_rooms, 1);
    ck_assert_int_eq(submitted, 0); /* what wsd can is known */
    peer_expect(&peer, client, FRAME_SUBMIT);
}
END_TEST

START_TEST(without_a_limit_there_is_none)
{
    ck_assert_int_eq(wsd_client_set_bounds(client, 1, 0, NULL, NULL), 0);
    ck_assert_int_eq(submit_one(NULL), 0); /* nothing waits */
    ck_assert_int_eq(submit_one(NULL), 0); /* that could be sent at once */
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 0, NULL, NULL), 0);
    for (size_t i = 0; i < 2 * HIGH / INPUT; i++)
        ck_assert_int_eq(submit_one(NULL), 0);
    ck_assert_uint_gt(wsd_client_unsent(client), HIGH);
    ck_assert_int_eq(wsd_client_set_bounds(client, HIGH, 0, NULL, NULL), 0);
    ck_assert_int_eq(submit_one(NULL), -EAGAIN);
}
END_TEST

/* What blocks waits for room instead. */
static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    ck_assert_int_eq(error, -ETIMEDOUT);
    return 0;
}

START_TEST(calls_that_wait_are_not_refused)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    static const char large[40000]; /* goes by itself */
    const struct wsd_item items[2] = {{.size = sizeof(*items)},
                                      {.size = sizeof(*items), .input = large, .input_size = sizeof(large)}};
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = "p"};
    struct wsd_call_result result = {.size = sizeof(result)};

    while (wsd_client_unsent(client) < HIGH)
        ck_assert_int_eq(submit_one(NULL), 0);
    ck_assert_int_eq(wsd_client_set_bounds(client, 1, 0, NULL, NULL), 0);
    ck_assert_int_eq(wsd_client_set_deadline(client, 1000), 0);
    ck_assert_int_eq(wsd_map(client, &job, 0, items, 2, on_item, NULL), -ETIMEDOUT);
    ck_assert_int_eq(wsd_call(client, &q, &result), -ETIMEDOUT);
}
END_TEST

START_TEST(a_call_that_was_freed_is_open_until_its_end)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};

    ck_assert_int_eq(wsd_client_submit(client, &job, NULL, &calls[0]), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    uint32_t tag = peer.frame.tag;
    wsd_call_free(calls[0]);
    ck_assert_uint_eq(wsd_client_open_calls(client), 1);
    peer_send_done(&peer, tag, 7, 130, "");
    ck_assert_int_eq(wsd_client_wait(client, 5 * SECOND), 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *live = tcase_create("live"), *old = tcase_create("old");

    tcase_add_checked_fixture(live, setup, teardown);
    tcase_add_checked_fixture(old, setup_old, teardown);
    suite_add_tcase(suite, live);
    suite_add_tcase(suite, old);
    tcase_add_loop_test(old, a_turn_has_an_end, 0, 2);
    tcase_add_test(live, a_frame_is_not_cut);
    tcase_add_loop_test(old, what_is_left_is_found_by_those_that_wait, 0, 3);
    tcase_add_test(old, what_is_left_goes_before_the_end_of_the_connection);
    tcase_add_test(old, a_wait_in_a_callback_has_no_budget);
    tcase_add_loop_test(live, unsent_bytes_have_a_limit, 0, 2);
    tcase_add_test(live, room_is_told_on_the_next_connection);
    tcase_add_test(live, without_a_limit_there_is_none);
    tcase_add_test(live, calls_that_wait_are_not_refused);
    tcase_add_test(live, a_call_that_was_freed_is_open_until_its_end);
    return run_suite(suite);
}
