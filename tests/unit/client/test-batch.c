/* SPDX-License-Identifier: Apache-2.0
 *
 * test-batch.c: batches of the library against a scripted wsd: what leaves, and one end for each item, whatever comes
 * back. */
#include "peer.h"
#include "tests/unit/suite.h"
#include "proto/records.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static unsigned fds_before, n_done, n_failed, n_again, n_succeeded, n_accepted;
static uint32_t batch_tag, array_tag;

static void setup_with(uint64_t features)
{
    n_done = n_failed = n_again = n_succeeded = n_accepted = 0; /* all of them in one process under valgrind */
    fds_before = count_fds();
    peer_start(&peer, &client, 100000, features);
}

static void setup(void)
{
    setup_with(FEATURE_ARRAY | FEATURE_BRIEF | FEATURE_STORE);
}

/* A wsd that knows no batches. */
static void setup_old(void)
{
    setup_with(0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
    ck_assert_uint_eq(count_fds(), fds_before);
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    n_accepted++;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    n_failed += error < 0;
    n_again += error == -EAGAIN && wsd_client_retry_usec(client) == 77;
    n_succeeded += !error && info->state == WSD_JOB_SUCCEEDED;
    if (userdata)
        wsd_call_free(call);
}

static void on_left(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    ck_assert(!error && !info);
    wsd_call_free(call);
}

static const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
static const struct wsd_submit common = {.size = sizeof(common), .plugin = "p", .function = "f", .priority = 3};

static struct wsd_batch *open_batch(uint32_t flags)
{
    struct wsd_batch *batch;

    ck_assert_int_eq(wsd_batch_open(client, &common, flags, &batch), 0);
    if (!(peer.features & FEATURE_ARRAY))
        return batch;
    peer_expect(&peer, client, FRAME_BATCH);
    ck_assert_uint_eq(peer.msg.batch.action, BATCH_OPEN);
    batch_tag = peer.frame.tag;
    return batch;
}

static struct wsd_call *add(struct wsd_batch *batch, const char *input)
{
    const struct wsd_item item = {
        .size = sizeof(item), .args = &input, .n_args = 1, .input = input, .input_size = strlen(input)};
    struct wsd_call *call;

    ck_assert_int_eq(wsd_batch_submit(batch, &item, &callbacks, &call), 0);
    return call;
}

static void expect_array(uint32_t n)
{
    peer_expect(&peer, client, FRAME_ARRAY);
    array_tag = peer.frame.tag;
    ck_assert(peer.msg.submit.items == n && peer.msg.submit.batch == batch_tag && peer.msg.submit.priority == 3);
    ck_assert_str_eq(peer.msg.submit.function.data, "f");
}

static void send_ends(const struct msg_end *ends, uint32_t n, bool last)
{
    struct msg m = {
        .type = FRAME_ENDS,
        .ends = {.plugin = {"p", 1}, .function = {"f", 1}, .records = n, .last = last, .submitted_usec = 5, .uid = 6}};
    uint8_t body[FRAME_MAX];
    size_t size = 0;

    memset(m.ends.id, 0xff, 9); /* the last ones count up */
    for (uint32_t i = 0; i < n; size += codec_end_size(&ends[i++]))
        codec_put_end(&ends[i], body + size);
    peer_send(&peer, &m, array_tag, body, size);
}

/* A record for several from `first` on, with these outputs; ret: where they lie. */
static struct msg_end several(uint32_t first, uint32_t n, const char *const outputs[], char ret[static 256])
{
    uint8_t *at = (uint8_t *)ret;

    for (uint32_t i = 0; i < n; i++)
        at = codec_put_one(
            &(struct msg_one){
                .later_usec = 10 * i, .run_usec = 2 + i, .cpu_usec = 1 + i, .output = {outputs[i], strlen(outputs[i])}},
            at);
    return (struct msg_end){.index = first,
                            .n = n,
                            .state = 5,
                            .attempts = 1,
                            .queued_usec = 100,
                            .worker = {"1.0", 3},
                            .output = {ret, (size_t)(at - (uint8_t *)ret)}};
}

static void send_state(uint32_t flags, uint64_t total, uint64_t done)
{
    const struct msg m = {.type = FRAME_BATCH_STATE,
                          .batch_state = {.id = "0123456789abcde", .flags = flags, .total = total, .done = done}};

    peer_send(&peer, &m, batch_tag, NULL, 0);
}

static void process(unsigned done)
{
    for (int i = 0; n_done < done && i < 100; i++)
        wsd_client_wait(client, SECOND / 10);
    ck_assert_uint_eq(n_done, done);
}

START_TEST(items_leave_together_and_end_apart)
{
    struct wsd_batch *batch = open_batch(0);
    struct wsd_call *calls[3];

    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert(!(wsd_client_events(client) & POLLOUT));
    calls[0] = add(batch, "one");
    calls[1] = add(batch, "two");
    calls[2] = add(batch, "three");
    ck_assert(wsd_client_events(client) & POLLOUT); /* poll() must wake up for gathered frames */
    static const struct msg_end ends[] = {
        {.index = 2, .n = 1, .state = 5, .output = {"3", 1}, .worker = {"1.0", 3}, .attempts = 1},
        {.index = 0, .n = 1, .state = 4, .output = {"ab", 2}},
        {.index = 1, .n = 1, .state = 6, .exit = 7, .error = {"no", 2}},
        {.index = 0, .n = 1, .state = 5, .output = {"c", 1}}};
    const struct wsd_job_info *info;
    struct wsd_batch_info state = {.size = sizeof(state)};
    size_t size;

    expect_array(3);
    ck_assert_uint_eq(peer.msg.submit.flags, SUBMIT_QUIET);
    send_ends(ends, 4, true);
    process(3);
    ck_assert_uint_eq(n_succeeded, 2);
    ck_assert_mem_eq(wsd_call_output(calls[0], &size), "abc", 3);
    ck_assert_uint_eq(size, 3);
    ck_assert_int_eq(wsd_call_wait(calls[1], 0, &info), 0);
    ck_assert(info->state == WSD_JOB_FAILED && info->exit == 7 && info->uid == 6 && info->submitted_usec == 5);
    ck_assert_str_eq(info->error, "no");
    ck_assert_str_eq(info->plugin, "p");
    ck_assert_int_eq(wsd_call_wait(calls[2], 0, &info), 0);
    ck_assert_str_eq(info->worker, "1.0");
    ck_assert_int_eq(wsd_batch_close(batch), 0);
    peer_expect(&peer, client, FRAME_BATCH);
    ck_assert(peer.msg.batch.action == BATCH_CLOSE && peer.frame.tag == batch_tag);
    send_state(BATCH_CLOSED | BATCH_ENDED, 3, 3);
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND * 5, &state), 0);
    ck_assert(state.ended && state.total == 3 && state.done == 3);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(what_all_have_in_common_is_copied)
{
    static const struct msg_end end = {.n = 1, .state = 5, .attempts = 1};
    char plugin[] = "p", function[] = "f", tag[] = "night";
    const char *tags[] = {tag, "day"};
    struct wsd_id ids[2] = {{{9}}, {{8}}};
    const struct wsd_submit description = {.size = sizeof(description),
                                           .plugin = plugin,
                                           .function = function,
                                           .priority = 3,
                                           .tags = tags,
                                           .n_tags = 2,
                                           .after = &ids[0],
                                           .n_after = 1,
                                           .after_any = &ids[1],
                                           .n_after_any = 1};
    const struct wsd_job_info *info;
    struct wsd_batch *batch;

    teardown();
    setup_with(FEATURE_ARRAY | FEATURE_BRIEF | FEATURE_ORDER);
    ck_assert_int_eq(wsd_batch_open(client, &description, 0, &batch), 0);
    plugin[0] = function[0] = tag[0] = 'x';
    tags[0] = tags[1] = NULL;
    memset(ids, 0, sizeof(ids));
    peer_expect(&peer, client, FRAME_BATCH);
    batch_tag = peer.frame.tag;
    struct wsd_call *call = add(batch, "one");
    expect_array(1);
    ck_assert_str_eq(peer.msg.submit.plugin.data, "p");
    ck_assert_str_eq(peer.msg.submit.tags.data, "night,day");
    ck_assert(peer.msg.submit.after.size == 16 && peer.msg.submit.after.data[0] == 9);
    ck_assert(peer.msg.submit.after_any.size == 16 && peer.msg.submit.after_any.data[0] == 8);
    send_ends(&end, 1, true);
    process(1);
    ck_assert_int_eq(wsd_call_wait(call, 0, &info), 0);
    ck_assert_str_eq(info->tags, "night,day");
    ck_assert_str_eq(info->key, "");
    ck_assert_int_eq(wsd_batch_close(batch), 0);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(several_end_in_one_record)
{
    struct wsd_batch *batch = open_batch(0);
    struct wsd_call *calls[4];
    const struct wsd_job_info *info;
    char room[256];

    for (int i = 0; i < 4; i++)
        calls[i] = add(batch, "input");
    expect_array(4);
    const struct msg_end ends[] = {several(1, 3, (const char *const[]){"one", "", "three"}, room),
                                   {.index = 0, .n = 1, .state = 6, .exit = 7}};
    send_ends(ends, 2, true);
    process(4);
    ck_assert_uint_eq(n_succeeded, 3);
    for (uint32_t i = 1; i < 4; i++) {
        size_t size;

        ck_assert_int_eq(wsd_call_wait(calls[i], 0, &info), 0);
        ck_assert(info->state == WSD_JOB_SUCCEEDED && info->exit == 0 && info->attempts == 1 &&
                  info->submitted_usec == 5);
        ck_assert(info->queued_usec == 90 + 10 * i && info->run_usec == 1 + i && info->cpu_usec == i);
        ck_assert_str_eq(info->worker, "1.0");
        ck_assert_mem_eq(info->id.bytes + 8, ((const char[]){(char)(0xff + i), 1}), 2);
        ck_assert_mem_eq(wsd_call_output(calls[i], &size), i == 1 ? "one" : "three", i == 2 ? 0 : 3);
        ck_assert_uint_eq(size, i == 1 ? 3 : i == 2 ? 0 : 5);
    }
    ck_assert_int_eq(wsd_call_wait(calls[0], 0, &info), 0);
    ck_assert(info->state == WSD_JOB_FAILED && info->exit == 7);
    wsd_batch_free(batch);
}
END_TEST

/* An output callback that has the next frame handled, the last one, before its own item is told its end. */
static int on_output_looks_on(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    while (!n_done)
        ck_assert_int_eq(wsd_client_wait(client, 5 * SECOND), 0);
    return 0;
}

START_TEST(the_last_frame_in_the_midst_of_one)
{
    const struct wsd_callbacks looks = {.size = sizeof(looks), .output = on_output_looks_on, .done = on_done};
    struct wsd_batch *batch = open_batch(0);
    const struct wsd_item item = {.size = sizeof(item), .input = "input", .input_size = 5};
    struct wsd_call *call;

    ck_assert_int_eq(wsd_batch_submit(batch, &item, &looks, &call), 0);
    add(batch, "two");
    expect_array(2);
    send_ends(&(struct msg_end){.index = 0, .n = 1, .state = 5, .output = {"one", 3}}, 1, false);
    send_ends(&(struct msg_end){.index = 1, .n = 1, .state = 5}, 1, true);
    process(2);
    ck_assert_uint_eq(n_succeeded, 2);
    wsd_batch_free(batch);
}
END_TEST

static void on_counted(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                       void *userdata)
{
    const uint64_t *progress = userdata;

    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(info->done, progress[0]);
    ck_assert_uint_eq(info->total, progress[1]);
    n_done++;
    wsd_call_free(call);
}

/* wsd sends the last progress of an item before its end. */
START_TEST(an_item_ends_with_its_progress)
{
    static uint64_t progress[2][2] = {{0, 0}, {3, 4}};
    const struct wsd_item item = {.size = sizeof(item)};
    const struct msg_end ends[] = {{.index = 0, .n = 1, .state = 5}, {.index = 1, .n = 1, .state = 5}};
    struct wsd_callbacks counted = {.size = sizeof(counted), .done = on_counted};
    struct wsd_batch *batch = open_batch(0);

    for (int i = 0; i < 2; i++) {
        counted.userdata = progress[i];
        ck_assert_int_eq(wsd_batch_submit(batch, &item, &counted, NULL), 0);
    }
    expect_array(2);
    peer_send(&peer, &(struct msg){.type = FRAME_PROGRESS, .progress = {.done = 3, .total = 4, .item = 1}}, array_tag,
              NULL, 0);
    send_ends(ends, 2, true);
    process(2);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(ids_count_up)
{
    struct wsd_batch *batch = open_batch(0);
    struct wsd_call *calls[2] = {add(batch, "one"), add(batch, "two")};
    const struct msg_end ends[] = {{.index = 0, .n = 1, .state = 5}, {.index = 1, .n = 1, .state = 5}};
    const struct wsd_job_info *first, *second;

    expect_array(2);
    send_ends(ends, 2, true);
    process(2);
    ck_assert_int_eq(wsd_call_wait(calls[0], 0, &first), 0);
    ck_assert_int_eq(wsd_call_wait(calls[1], 0, &second), 0);
    ck_assert_mem_eq(first->id.bytes + 8, "\xff\0\0\0\0\0\0\0", 8);
    ck_assert_mem_eq(second->id.bytes + 8, "\0\1\0\0\0\0\0\0", 8);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(refusals_are_told_to_each)
{
    struct wsd_batch *batch = open_batch(0);
    const struct msg_end ends[] = {{.index = 1, .n = 9, .exit = 75, .queued_usec = 77, .error = {"full", 4}},
                                   {.index = 0, .n = 1, .state = 5}};

    for (int i = 0; i < 10; i++)
        add(batch, "x");
    expect_array(10);
    send_ends(ends, 2, true);
    process(10);
    ck_assert(n_again == 9 && n_succeeded == 1);
    wsd_batch_free(batch);
}
END_TEST

#define TOGETHER 128u

START_TEST(what_fills_a_frame_leaves_at_once)
{
    struct wsd_batch *batch = open_batch(0);
    const struct wsd_item item = {.size = sizeof(item)};
    struct pollfd poll_fd = {.fd = peer.fd, .events = POLLIN};

    ck_assert_int_eq(wsd_client_process(client), 0);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
        ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    }
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 1);
    ck_assert(!(wsd_client_events(client) & POLLOUT));
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    expect_array(TOGETHER);
    expect_array(1);
    wsd_batch_free(batch);
}
END_TEST

/* The peer does not read: all frames are kept until it does. */
START_TEST(frames_wait_where_the_socket_is_full)
{
    static char input[400];
    struct wsd_batch *batch = open_batch(0);
    const struct wsd_item item = {.size = sizeof(item), .input = input, .input_size = sizeof(input)};
    const uint32_t frames = 100;

    for (uint32_t i = 0; i < frames * TOGETHER; i++)
        ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    ck_assert(wsd_client_events(client) & POLLOUT);
    for (uint32_t i = 0; i < frames; i++)
        expect_array(TOGETHER);
    ck_assert(!(wsd_client_events(client) & POLLOUT));
    wsd_batch_free(batch);
}
END_TEST

START_TEST(a_large_input_goes_by_itself_and_in_its_turn)
{
    static const char large[40000];
    struct wsd_batch *batch = open_batch(0);
    const struct wsd_item item = {.size = sizeof(item), .input = large, .input_size = sizeof(large)};

    add(batch, "one");
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    add(batch, "two");
    expect_array(1);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(peer.msg.submit.batch, batch_tag);
    expect_array(1);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(a_batch_that_is_refused)
{
    struct wsd_batch *batch = open_batch(0);

    add(batch, "one");
    expect_array(1);
    peer_send_error(&peer, batch_tag, 77, "not you");
    peer_send_error(&peer, array_tag, 64, "no such batch is open");
    process(1);
    ck_assert_uint_eq(n_failed, 1);
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND, NULL), -EACCES);
    ck_assert_str_eq(wsd_client_error(client), "not you");
    wsd_batch_free(batch);
}
END_TEST

START_TEST(one_of_many_is_cancelled_and_granted)
{
    static char bytes[30000];
    struct wsd_batch *batch = open_batch(0);
    struct wsd_call *call;

    add(batch, "one");
    call = add(batch, "two");
    ck_assert_int_eq(wsd_call_cancel(call), 0); /* which sends them first */
    expect_array(2);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert(peer.frame.tag == array_tag && !peer.msg.id.has_id && peer.msg.id.item == 1);
    for (int i = 0; i < 9; i++)
        send_ends(&(struct msg_end){.index = 1, .n = 1, .state = 4, .output = {bytes, sizeof(bytes)}}, 1, false);
    peer_expect(&peer, client, FRAME_CREDIT);
    ck_assert(peer.frame.tag == array_tag && peer.msg.credit.item == 1);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(accepted_is_told_where_it_is_wanted)
{
    const struct wsd_callbacks wants = {
        .size = sizeof(wants), .accepted = on_accepted, .done = on_done, .userdata = &client};
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch *batch = open_batch(0);
    struct msg m = {.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = 2}};

    add(batch, "one");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wsd_batch_submit(batch, &item, &wants, NULL), 0);
    expect_array(3);
    ck_assert_uint_eq(peer.msg.submit.flags, 0);
    send_ends(&(struct msg_end){.index = 2, .n = 1, .exit = 75}, 1, false);
    peer_send(&peer, &m, array_tag, NULL, 0);
    process(1);
    for (int i = 0; !n_accepted && i < 100; i++)
        wsd_client_wait(client, SECOND / 10);
    ck_assert_uint_eq(n_accepted, 1);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(what_is_left_is_forgotten)
{
    struct wsd_submit leave = common;
    const struct wsd_item item = {.size = sizeof(item)};
    struct msg m = {.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = 2}};
    struct wsd_batch *batch;

    leave.flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE;
    ck_assert_int_eq(wsd_batch_open(client, &leave, WSD_BATCH_DETACH, &batch), 0);
    peer_expect(&peer, client, FRAME_BATCH);
    ck_assert_uint_eq(peer.msg.batch.flags, BATCH_DETACH | BATCH_PROGRESS);
    batch_tag = peer.frame.tag;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            wsd_batch_submit(batch, &item, &(struct wsd_callbacks){.size = sizeof(callbacks), .done = on_left}, NULL),
            0);
    expect_array(2);
    peer_send(&peer, &m, array_tag, NULL, 0);
    process(2);
    peer_expect(&peer, client, FRAME_FORGET);
    ck_assert_uint_eq(peer.frame.tag, array_tag);
    wsd_batch_free(batch);
    peer_expect(&peer, client, FRAME_BATCH); /* closed, and not cancelled */
    send_state(BATCH_CLOSED | BATCH_ENDED, 2, 2);
    if (_i == 0)
        return; /* the connection ends before the array does */
    send_ends(&(struct msg_end){.index = 0, .n = 1, .state = 5}, 1, false); /* crossed the FORGET */
    peer_send_empty(&peer, FRAME_END, array_tag);
    ck_assert(peer_quiet(&peer, client));
    ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

/* In the room of one that went by itself. */
START_TEST(what_leaves_behind_one_that_was_alone_is_forgotten)
{
    const struct wsd_submit leave = {
        .size = sizeof(leave), .plugin = "p", .function = "f", .flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE};
    const struct wsd_callbacks left = {.size = sizeof(left), .done = on_left};

    ck_assert_int_eq(wsd_client_submit(client, &leave, &left, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_accepted(&peer, peer.frame.tag);
    process(1);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wsd_client_submit(client, &leave, &left, NULL), 0);
    peer_expect(&peer, client, FRAME_ARRAY);
    array_tag = peer.frame.tag;
    peer_send(&peer, &(struct msg){.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = 2}}, array_tag, NULL, 0);
    process(3);
    peer_expect(&peer, client, FRAME_FORGET);
    ck_assert_uint_eq(peer.frame.tag, array_tag);
}
END_TEST

/* Whatever the other side says, each item has one end. */
START_TEST(nonsense_ends_the_connection)
{
    const struct msg_end wrong[] = {{.index = 2, .n = 1, .state = 5},
                                    {.index = 0, .n = 1, .state = 5, .output = {"x", 1}}};
    struct wsd_batch *batch = open_batch(0);

    add(batch, "one");
    add(batch, "two");
    expect_array(2);
    if (_i == 0)
        send_ends(&wrong[0], 1, false);
    if (_i == 1) { /* twice */
        send_ends(&wrong[1], 1, false);
        send_ends(&wrong[1], 1, false);
    }
    if (_i == 2)
        peer_send(&peer, &(struct msg){.type = FRAME_PONG}, array_tag, NULL, 0);
    if (_i == 3)
        peer_send(&peer, &(struct msg){.type = FRAME_PONG}, batch_tag, NULL, 0);
    if (_i == 4)
        peer_close(&peer);
    process(2);
    ck_assert_uint_eq(n_failed, _i == 1 ? 1 : 2);
    ck_assert_int_lt(wsd_batch_wait(batch, SECOND, NULL), 0);
    wsd_batch_free(batch);
}
END_TEST

START_TEST(handles_may_go_in_any_order)
{
    struct wsd_batch *batch = open_batch(0);
    struct wsd_call *call = add(batch, "one");

    add(batch, "two");
    if (_i & 1)
        wsd_call_free(call);
    wsd_batch_free(batch);
    expect_array(2);
    if (_i & 1)
        peer_expect(&peer, client, FRAME_CANCEL);
    peer_expect(&peer, client, FRAME_BATCH);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert_uint_eq(peer.frame.tag, batch_tag);
    if (_i & 2) {
        send_ends((const struct msg_end[]){{.index = 0, .n = 1, .state = 7}, {.index = 1, .n = 1, .state = 7}}, 2,
                  true);
        send_state(BATCH_ENDED, 2, 2);
        process(_i & 1 ? 1 : 2);
    }
}
END_TEST

START_TEST(wrong_things_are_refused_here)
{
    struct wsd_submit submit = common;
    struct wsd_batch *batch;
    struct wsd_item item = {.size = sizeof(item), .n_args = CODEC_ARGS_MAX + 1};

    submit.flags = WSD_SUBMIT_STREAM;
    ck_assert_int_eq(wsd_batch_open(client, &submit, 0, &batch), -EINVAL);
    submit.flags = 0;
    submit.key = "k";
    ck_assert_int_eq(wsd_batch_open(client, &submit, 0, &batch), -EINVAL);
    submit = common;
    submit.plugin = "";
    ck_assert_int_eq(wsd_batch_open(client, &submit, 0, &batch), -EINVAL);
    ck_assert_int_eq(wsd_batch_open(client, &common, 1u << 30, &batch), -EINVAL);
    ck_assert_int_eq(wsd_batch_open(client, &common, WSD_BATCH_DETACH, &batch), -EINVAL);
    batch = open_batch(0);
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), -EINVAL);
    ck_assert_int_eq(wsd_batch_close(batch), 0);
    item.n_args = 0;
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), -EPIPE);
    wsd_batch_free(batch);
}
END_TEST

/* --- wsd_map() ---------------------------------------------------------------------------------------------------- */

#define ITEMS 3u

static unsigned n_told[ITEMS];
static int errors[ITEMS], exits[ITEMS];
static char said[ITEMS][64];
static void (*looks_on)(void);

static void process_next_frame(void)
{
    while (!n_told[1])
        ck_assert_int_eq(wsd_client_wait(client, 5 * SECOND), 0);
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    n_told[index]++;
    exits[index] = error ? wsd_client_exit(client) : 0;
    errors[index] = error ? error : info->state == WSD_JOB_SUCCEEDED ? 0 : info->exit;
    snprintf(said[index], sizeof(said[index]), "%.*s%s", (int)size, (const char *)output, error ? text : info->error);
    if (!error) {
        ck_assert(info->in_batch && info->uid == 6 && info->submitted_usec == 5 && info->size == sizeof(*info));
        ck_assert_mem_eq(info->id.bytes + 8, ((const char[]){(char)(0xff + index), index > 0}), 2);
        ck_assert_str_eq(info->plugin, "p");
        ck_assert_str_eq(info->function, "f");
        ck_assert_str_eq(info->status, "");
        ck_assert_str_eq(info->backtrace, "");
        ck_assert_str_eq(info->tags, "");
        ck_assert_str_eq(info->key, "");
    }
    if (looks_on && index == 0)
        looks_on();                /* what has come behind it */
    return userdata && index == 0; /* stops */
}

/* A wsd in a thread of its own. */
static void *play(void *arg)
{
    static const struct msg_end good = {.index = 0, .n = 1, .state = 5, .output = {"zero", 4}, .worker = {"1.0", 3}};
    static const struct msg_end apart[] = {{.index = 1, .n = 1, .state = 4, .output = {"o", 1}},
                                           {.index = 2, .n = 1, .state = 6, .exit = 7, .error = {"no", 2}},
                                           {.index = 1, .n = 1, .state = 5, .output = {"ne", 2}}};
    int what = *(const int *)arg;
    char room[256];

    peer_expect(&peer, NULL, FRAME_BATCH);
    batch_tag = peer.frame.tag;
    send_state(0, 0, 0);
    peer_expect(&peer, NULL, FRAME_ARRAY);
    array_tag = peer.frame.tag;
    ck_assert(peer.msg.submit.items == ITEMS && peer.msg.submit.flags == SUBMIT_QUIET);
    switch (what) {
    case 0:
        send_ends(&good, 1, false);
        send_ends(apart, 3, true);
        break;
    case 1: /* no room for two of them: they come again */
        send_ends((const struct msg_end[]){{.index = 0, .n = 2, .exit = 75, .queued_usec = 1, .error = {"full", 4}},
                                           {.index = 2, .n = 1, .state = 5, .output = {"two", 3}}},
                  2, true);
        peer_expect(&peer, NULL, FRAME_ARRAY);
        array_tag = peer.frame.tag;
        ck_assert_uint_eq(peer.msg.submit.items, 2);
        send_ends((const struct msg_end[]){{.index = 0, .n = 1, .exit = 64, .error = {"wrong", 5}},
                                           {.index = 1, .n = 1, .exit = 64, .error = {"wrong", 5}}},
                  2, true);
        break;
    case 2:
        send_ends(&good, 1, false);
        peer_close(&peer);
        break;
    case 3:
        send_ends(&good, 1, false);
        send_ends(&good, 1, false);
        break;
    case 4:
        send_ends(&(struct msg_end){.index = ITEMS, .n = 1, .state = 5}, 1, false);
        break;
    case 5:
        peer_send_error(&peer, array_tag, 77, "not you");
        break;
    case 6: /* the callback stops it */
        send_ends(&good, 1, false);
        peer_expect(&peer, NULL, FRAME_CANCEL);
        ck_assert_uint_eq(peer.frame.tag, batch_tag);
        send_ends((const struct msg_end[]){{.index = 1, .n = 1, .state = 7, .exit = 130},
                                           {.index = 2, .n = 1, .state = 7, .exit = 130}},
                  2, true);
        break;
    case 8: /* the next frame is handled in the midst of this one */
        send_ends((const struct msg_end[]){good, apart[0]}, 2, false);
        send_ends((const struct msg_end[]){apart[2], apart[1]}, 2, true);
        break;
    case 9: /* wsd goes while what is left waits for room */
        send_ends(
            (const struct msg_end[]){
                good, {.index = 1, .n = 2, .exit = 75, .queued_usec = 60 * SECOND, .error = {"full", 4}}},
            2, true);
        peer_close(&peer);
        break;
    case 10: /* the last frame, and an item is left; another one is a call by then */
        send_ends(apart, 1, false);
        send_ends(&good, 1, true);
        break;
    case 7: /* refused, and then there is an end */
        send_ends((const struct msg_end[]){{.index = 0, .n = 1, .exit = 64, .error = {"wrong", 5}}, good}, 2, false);
        break;
    case 12: /* all of them in one record */
        send_ends((const struct msg_end[]){several(0, 3, (const char *const[]){"zero", "one", "two"}, room)}, 1, true);
        break;
    case 13: /* the next frame is handled in the midst of one */
        send_ends((const struct msg_end[]){several(0, 2, (const char *const[]){"zero", "one"}, room)}, 1, false);
        send_ends(&(struct msg_end){.index = 2, .n = 1, .state = 5, .output = {"two", 3}}, 1, true);
        break;
    case 14: /* one of them is a call by then */
        send_ends(apart, 1, false);
        send_ends((const struct msg_end[]){several(0, 3, (const char *const[]){"zero", "ne", ""}, room)}, 1, true);
        break;
    case 15: /* one of them has ended */
        send_ends(&good, 1, false);
        send_ends((const struct msg_end[]){several(0, 3, (const char *const[]){"zero", "one", "two"}, room)}, 1, true);
        break;
    case 16: /* one of them is nowhere */
        send_ends((const struct msg_end[]){several(1, 3, (const char *const[]){"", "", ""}, room)}, 1, true);
        break;
    default: /* more said of one, and then nothing */
        peer_send(&peer, &(struct msg){.type = FRAME_MESSAGE, .message = {.level = 6, .text = {"m", 1}, .item = 1}},
                  array_tag, NULL, 0);
        send_ends(apart, 1, false);
        peer_close(&peer);
    }
    return NULL;
}

/* Each item is told once, whether it has become a call meanwhile or not. */
START_TEST(each_item_of_a_map_is_told_once)
{
    static const struct {
        int r, exit, errors[ITEMS];
        const char *said[ITEMS];
    } wanted[] = {
        {-EREMOTEIO, 7, {0, 0, 7}, {"zero", "one", "no"}},
        {-EINVAL, 64, {-EINVAL, -EINVAL, 0}, {"wrong", "wrong", "two"}},
        {-ECONNRESET,
         125,
         {0, -ECONNRESET, -ECONNRESET},
         {"zero", "wsd closed the connection", "wsd closed the connection"}},
        {-ECONNRESET, 76, {0, -ECONNRESET, -ECONNRESET}, {"zero", NULL, NULL}},
        {-ECONNRESET, 76, {-ECONNRESET, -ECONNRESET, -ECONNRESET}, {NULL, NULL, NULL}},
        {-EACCES, 77, {-EACCES, -EACCES, -EACCES}, {"not you", "not you", "not you"}},
        {-ECANCELED, 130, {0, 130, 130}, {"zero", "", ""}},
        {-EINVAL, 64, {-EINVAL, -ECONNRESET, -ECONNRESET}, {"wrong", NULL, NULL}},
        {-EREMOTEIO, 7, {0, 0, 7}, {"zero", "one", "no"}},
        {-ECONNRESET,
         69,
         {0, -ECONNRESET, -ECONNRESET},
         {"zero", "wsd closed the connection", "wsd closed the connection"}},
        {-ECONNRESET, 76, {0, -ECONNRESET, -ECONNRESET}, {"zero", NULL, NULL}},
        {-ECONNRESET, 125, {-ECONNRESET, -ECONNRESET, -ECONNRESET}, {NULL, "owsd closed the connection", NULL}},
        {0, 0, {0, 0, 0}, {"zero", "one", "two"}},
        {0, 0, {0, 0, 0}, {"zero", "one", "two"}},
        {0, 0, {0, 0, 0}, {"zero", "one", ""}},
        {-ECONNRESET, 76, {0, -ECONNRESET, -ECONNRESET}, {"zero", NULL, NULL}},
        {-ECONNRESET, 76, {-ECONNRESET, 0, 0}, {NULL, "", ""}},
    };
    const char *const words[] = {"a", "of an item"};
    struct wsd_item items[ITEMS];
    pthread_t thread;

    memset(n_told, 0, sizeof(n_told));
    for (uint32_t i = 0; i < ITEMS; i++)
        items[i] =
            (struct wsd_item){.size = sizeof(items[i]), .args = words, .n_args = 2, .input = "input", .input_size = 5};
    ck_assert_int_eq(pthread_create(&thread, NULL, play, &_i), 0);
    looks_on = _i == 8 || _i == 13 ? process_next_frame : NULL;
    int r = wsd_map(client, &common, _i == 6 ? 0 : WSD_BATCH_KEEP_GOING | (_i == 9 ? WSD_BATCH_WAIT : 0), items, ITEMS,
                    on_item, _i == 6 ? &n_told : NULL);
    pthread_join(thread, NULL);
    ck_assert_int_eq(r, wanted[_i].r);
    ck_assert_int_eq(wsd_client_exit(client), wanted[_i].exit);
    for (uint32_t i = 0; i < ITEMS; i++) {
        ck_assert_uint_eq(n_told[i], 1);
        ck_assert_int_eq(errors[i], wanted[_i].errors[i]);
        if (r == -ECONNRESET && wanted[_i].exit == 125) /* it was accepted */
            ck_assert_int_eq(exits[i], errors[i] ? 125 : 0);
        if (wanted[_i].said[i])
            ck_assert_str_eq(said[i], wanted[_i].said[i]);
    }
}
END_TEST

/* Of a program that knows fewer fields. */
START_TEST(older_items_are_as_large_as_they_say)
{
    struct {
        char bytes[offsetof(struct wsd_item, input)];
    } items[ITEMS];
    const char *const words[] = {"a"};
    pthread_t thread;
    int what = 0;

    memset(n_told, 0, sizeof(n_told));
    looks_on = NULL;
    for (uint32_t i = 0; i < ITEMS; i++) {
        const struct wsd_item item = {.size = sizeof(items[i]), .args = words, .n_args = 1};
        memcpy(&items[i], &item, sizeof(items[i]));
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, play, &what), 0);
    ck_assert_int_eq(wsd_map(client, &common, WSD_BATCH_KEEP_GOING, (const void *)items, ITEMS, on_item, NULL),
                     -EREMOTEIO);
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(n_told[i], 1);
    ck_assert_str_eq(said[1], "one");
}
END_TEST

/* --- with a wsd that knows no batches ----------------------------------------------------------------------------- */

static uint32_t expect_submit(void)
{
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(peer.msg.submit.batch, 0);
    return peer.frame.tag;
}

START_TEST(jobs_go_by_themselves_where_there_are_no_batches)
{
    struct wsd_batch *batch = open_batch(0);
    struct wsd_batch_info info = {.size = sizeof(info)};
    uint32_t tags[2];

    add(batch, "one");
    add(batch, "two");
    tags[0] = expect_submit();
    tags[1] = expect_submit();
    wsd_batch_look(batch, &info);
    ck_assert(info.total == 2 && info.queued == 2 && !info.done && !info.ended);
    for (int i = 1; i >= 0; i--) {
        peer_send_accepted(&peer, tags[i]);
        peer_send_done(&peer, tags[i], 5, 0, "");
    }
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND * 5, &info), 0);
    ck_assert(info.ended && info.done == 2 && !info.failed && n_succeeded == 2);
    wsd_batch_free(batch);
    ck_assert_int_eq(wsd_client_batch(client, &info.id, &info), -EOPNOTSUPP);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(a_failure_stops_those_behind_there_too)
{
    struct wsd_batch *batch = open_batch(_i ? WSD_BATCH_KEEP_GOING : 0);
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch_info info = {.size = sizeof(info)};
    uint32_t tags[3];

    for (int i = 0; i < 3; i++) {
        add(batch, "x");
        tags[i] = expect_submit();
        peer_send_accepted(&peer, tags[i]);
    }
    peer_send_done(&peer, tags[1], 6, 9, "no");
    process(1);
    if (!_i) {
        peer_expect(&peer, client, FRAME_CANCEL);
        ck_assert_uint_eq(peer.frame.tag, tags[2]);
    }
    ck_assert(peer_quiet(&peer, client));
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), _i ? 0 : -ECANCELED);
    peer_send_done(&peer, tags[2], 7, 130, "");
    peer_send_done(&peer, tags[0], 5, 0, "");
    if (_i) {
        tags[0] = expect_submit();
        peer_send_accepted(&peer, tags[0]);
        peer_send_done(&peer, tags[0], 5, 0, "");
    }
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND * 5, &info), 0);
    ck_assert(info.failed == 2 && info.exit == 9 && info.stopped == !_i);
    wsd_batch_free(batch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tcase = tcase_create("batch"), *old = tcase_create("without batches");

    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, old);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_checked_fixture(old, setup_old, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_set_timeout(old, 60);
    tcase_add_test(tcase, items_leave_together_and_end_apart);
    tcase_add_test(tcase, what_all_have_in_common_is_copied);
    tcase_add_test(tcase, several_end_in_one_record);
    tcase_add_test(tcase, the_last_frame_in_the_midst_of_one);
    tcase_add_test(tcase, an_item_ends_with_its_progress);
    tcase_add_test(tcase, ids_count_up);
    tcase_add_test(tcase, refusals_are_told_to_each);
    tcase_add_test(tcase, what_fills_a_frame_leaves_at_once);
    tcase_add_test(tcase, frames_wait_where_the_socket_is_full);
    tcase_add_test(tcase, a_large_input_goes_by_itself_and_in_its_turn);
    tcase_add_test(tcase, a_batch_that_is_refused);
    tcase_add_test(tcase, one_of_many_is_cancelled_and_granted);
    tcase_add_test(tcase, accepted_is_told_where_it_is_wanted);
    tcase_add_loop_test(tcase, what_is_left_is_forgotten, 0, 2);
    tcase_add_test(tcase, what_leaves_behind_one_that_was_alone_is_forgotten);
    tcase_add_loop_test(tcase, nonsense_ends_the_connection, 0, 5);
    tcase_add_loop_test(tcase, handles_may_go_in_any_order, 0, 4);
    tcase_add_test(tcase, wrong_things_are_refused_here);
    tcase_add_loop_test(tcase, each_item_of_a_map_is_told_once, 0, 17);
    tcase_add_test(tcase, older_items_are_as_large_as_they_say);
    tcase_add_test(old, jobs_go_by_themselves_where_there_are_no_batches);
    tcase_add_loop_test(old, a_failure_stops_those_behind_there_too, 0, 2);
    return run_suite(suite);
}
