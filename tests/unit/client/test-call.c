/* SPDX-License-Identifier: Apache-2.0
 *
 * test-call.c: jobs in flight: their frames, flow control both ways, files, and one end each, whatever the other side
 * does. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "client/client.h"

#define SECOND 1000000u
#define WINDOW 100000u /* of input, that the peer grants */

static struct peer peer;
static struct wsd_client *client;
static unsigned fds_before;

/* What the callbacks of one call saw. */
struct seen {
    unsigned accepted, done, messages, progress;
    int error, state, exit, hold;
    char text[256], job_error[256];
    struct buffer output;
    struct wsd_id id;
    bool free_in_done, free_in_output, submit_in_done;
};

static void setup_with(uint64_t features)
{
    fds_before = count_fds();
    peer_start(&peer, &client, WINDOW, features);
}

static void setup(void)
{
    setup_with(0);
}

/* A wsd that knows FINISHED. */
static void setup_brief(void)
{
    setup_with(FEATURE_BRIEF);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
    ck_assert_uint_eq(count_fds(), fds_before);
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct seen *seen = userdata;

    seen->accepted++;
    seen->id = *id;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct seen *seen = userdata;

    ck_assert_uint_eq(seen->done, 0);
    ck_assert_int_eq(buffer_put(&seen->output, data, size), 0);
    if (seen->free_in_output)
        wsd_call_free(call);
    return seen->hold;
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    ck_assert_int_eq(level, 6);
    ck_assert_str_eq(text, "hello");
    ((struct seen *)userdata)->messages++;
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    ck_assert(done == 1 && total == 2);
    ((struct seen *)userdata)->progress++;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct seen *seen = userdata;

    seen->done++;
    seen->error = error;
    snprintf(seen->text, sizeof(seen->text), "%s", text);
    ck_assert((error == 0) == (info != NULL));
    ck_assert((error == 0) == (text[0] == 0));
    if (info) {
        seen->state = (int)info->state;
        seen->exit = info->exit;
        snprintf(seen->job_error, sizeof(seen->job_error), "%s", info->error);
    } else {
        seen->exit = wsd_client_exit(client);
    }
    if (seen->submit_in_done) {
        struct wsd_submit submit = {.size = sizeof(submit), .plugin = "again"};
        int r = wsd_client_submit(client, &submit, NULL, NULL);

        ck_assert_int_eq(r, error == -ECONNRESET ? -ECONNRESET : 0);
    }
    if (seen->free_in_done)
        wsd_call_free(call);
}

static struct wsd_callbacks callbacks(struct seen *seen, bool output)
{
    return (struct wsd_callbacks){.size = sizeof(struct wsd_callbacks),
                                  .accepted = on_accepted,
                                  .output = output ? on_output : NULL,
                                  .message = on_message,
                                  .progress = on_progress,
                                  .done = on_done,
                                  .userdata = seen};
}

/* Submits, and plays wsd's side up to SUBMIT; the tag is in peer.frame. */
static struct wsd_call *submit_as(struct seen *seen, bool output, struct wsd_submit submit)
{
    struct wsd_callbacks cb = callbacks(seen, output);
    struct wsd_call *call = NULL;

    submit.size = sizeof(submit);
    if (!submit.plugin)
        submit.plugin = "fib";
    ck_assert_int_eq(wsd_client_submit(client, &submit, &cb, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    return call;
}

static struct wsd_call *submit(struct seen *seen, bool output)
{
    return submit_as(seen, output, (struct wsd_submit){.flags = 0});
}

static void process_until(const unsigned *counter, unsigned value)
{
    for (int i = 0; i < 1000 && *counter < value; i++)
        wsd_client_wait(client, SECOND / 100);
    ck_assert_uint_eq(*counter, value);
}

static void check_output(struct buffer *output, const char *text)
{
    ck_assert_uint_eq(buffer_size(output), strlen(text));
    if (*text)
        ck_assert_mem_eq(buffer_data(output), text, strlen(text));
    buffer_deinit(output);
}

/* --- a job from end to end
 * -------------------------------------------------------------------------------------------- */

START_TEST(submit_carries_everything)
{
    const char *args[] = {"32", "", "x y"};
    struct seen seen = {0};

    submit_as(&seen, true,
              (struct wsd_submit){.plugin = "./a.so",
                                  .function = "f",
                                  .args = args,
                                  .n_args = 3,
                                  .input = "bytes",
                                  .input_size = 5,
                                  .timeout_usec = 77,
                                  .priority = -3,
                                  .flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_PROGRESS});
    ck_assert_str_eq(peer.msg.submit.plugin.data, "./a.so");
    ck_assert_str_eq(peer.msg.submit.function.data, "f");
    ck_assert_uint_eq(peer.msg.submit.argc, 3);
    ck_assert_mem_eq(peer.msg.submit.args.data, "32\0\0x y", 8);
    ck_assert_uint_eq(peer.msg.submit.timeout_usec, 77);
    ck_assert_int_eq(peer.msg.submit.priority, -3);
    ck_assert_uint_eq(peer.msg.submit.flags, SUBMIT_DETACH | SUBMIT_PROGRESS);
    ck_assert_uint_eq(peer.frame.body_size, 5);
    ck_assert_mem_eq(peer.frame.body, "bytes", 5);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

static void play_whole_job(uint32_t tag)
{
    peer_send_accepted(&peer, tag);
    peer_send_output(&peer, tag, 0, "one ", 4);
    peer_send(&peer, &(struct msg){.type = FRAME_MESSAGE, .message = {6, {"hello", 5}}}, tag, NULL, 0);
    peer_send(&peer, &(struct msg){.type = FRAME_PROGRESS, .progress = {1, 2}}, tag, NULL, 0);
    peer_send_output(&peer, tag, 4, "two", 3);
    peer_send_done(&peer, tag, 6, 3, "it failed");
}

START_TEST(callbacks_tell_all_of_a_job)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);
    const struct wsd_job_info *info = NULL;

    play_whole_job(peer.frame.tag);
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, &info), 0);
    ck_assert(seen.accepted == 1 && seen.messages == 1 && seen.progress == 1 && seen.done == 1);
    ck_assert(seen.error == 0 && seen.state == WSD_JOB_FAILED && seen.exit == 3);
    ck_assert_str_eq(seen.job_error, "it failed");
    ck_assert_mem_eq(&seen.id, &info->id, sizeof(seen.id));
    ck_assert_str_eq(info->plugin, "fib");
    ck_assert_str_eq(info->worker, "1.0");
    ck_assert_uint_eq(info->run_usec, 42);
    check_output(&seen.output, "one two");
    ck_assert_int_eq(wsd_call_wait(call, 0, NULL), 0); /* again: the same answer */
    ck_assert_ptr_null(wsd_call_free(call));
}
END_TEST

START_TEST(output_is_gathered_without_a_callback)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, false);
    size_t size = 99;
    const char *data;

    ck_assert_ptr_nonnull(wsd_call_output(call, &size));
    ck_assert_uint_eq(size, 0);
    play_whole_job(peer.frame.tag);
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, NULL), 0);
    data = wsd_call_output(call, &size);
    ck_assert_uint_eq(size, 7);
    ck_assert_mem_eq(data, "one two", 7);
}
END_TEST

START_TEST(call_without_any_callback_works)
{
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib"};
    const struct wsd_job_info *info;
    struct wsd_call *call;

    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    play_whole_job(peer.frame.tag);
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, &info), 0);
    ck_assert_int_eq(info->exit, 3);
}
END_TEST

static void write_job(uint32_t tag, struct buffer *ret)
{
    struct msg msgs[] = {
        {.type = FRAME_ACCEPTED, .id = {.has_id = true}},
        {.type = FRAME_OUTPUT, .chunk = {.offset = 0}},
        {.type = FRAME_OUTPUT, .chunk = {.offset = 3, .last = true}},
        {.type = FRAME_FINISHED, .finished = {.attempts = 1}},
        {.type = FRAME_DONE, .job = {.state = 5}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(msgs); i++) {
        size_t body = msgs[i].type == FRAME_OUTPUT ? 3 : 0;

        if (msgs[i].type == (peer.features & FEATURE_BRIEF ? FRAME_DONE : FRAME_FINISHED))
            continue;
        uint8_t *room = buffer_reserve(ret, 256);
        size_t n = codec_encode(&msgs[i], tag, body, room, 256);

        memcpy(room + n, "abc", body);
        buffer_commit(ret, n + body);
    }
}

START_TEST(frames_may_come_byte_by_byte)
{
    struct seen seen = {0};
    struct buffer bytes = {0};

    submit(&seen, true);
    write_job(peer.frame.tag, &bytes);
    for (size_t i = 0; i < buffer_size(&bytes); i++) {
        ck_assert_uint_eq(seen.done, 0);
        peer_send_raw(&peer, buffer_data(&bytes) + i, 1);
        ck_assert_int_eq(wsd_client_process(client), 0);
    }
    ck_assert_uint_eq(seen.done, 1);
    check_output(&seen.output, "abcabc");
    buffer_deinit(&bytes);
}
END_TEST

START_TEST(flush_writes_and_reads_nothing)
{
    struct seen seen = {0};
    struct wsd_callbacks cb = callbacks(&seen, true);
    const struct wsd_submit first = {.size = sizeof(first), .plugin = "fib"},
                            second = {.size = sizeof(second), .plugin = "again"};

    ck_assert_int_eq(wsd_client_submit(client, &first, &cb, NULL), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    peer_send_accepted(&peer, peer.frame.tag);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_client_submit(client, &second, NULL, NULL), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    ck_assert_uint_eq(seen.accepted + seen.done, 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(seen.done, 1);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(flush_tells_of_a_connection_that_is_over)
{
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_int_eq(wsd_client_flush(client), -ECONNRESET);
    ck_assert_uint_gt(strlen(wsd_client_error(client)), 0);
}
END_TEST

START_TEST(many_calls_end_in_any_order)
{
    static struct seen seen[2000];
    static uint32_t tags[2000];

    for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
        submit(&seen[i], false);
        tags[i] = peer.frame.tag;
        for (size_t j = i > 50 ? i - 50 : 0; j < i; j++)
            ck_assert_uint_ne(tags[i], tags[j]);
    }
    for (size_t i = ARRAY_SIZE(seen); i-- > 0;) {
        peer_send_accepted(&peer, tags[i]);
        peer_send_done(&peer, tags[i], 5, 0, "");
        wsd_client_process(client);
        ck_assert_uint_eq(seen[i].done, 1);
        ck_assert_uint_eq(i == 0 || seen[i - 1].done == 0, 1);
    }
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

static void send_finished(uint32_t tag, const char *rest)
{
    struct msg m = {.type = FRAME_FINISHED,
                    .finished = {.id = {(uint8_t)tag, 1},
                                 .plugin = {"fib", 3},
                                 .function = {"fib", 3},
                                 .worker = {"1.0", 3},
                                 .attempts = 1,
                                 .run_usec = 42}};

    peer_send(&peer, &m, tag, rest, strlen(rest));
}

START_TEST(output_and_end_come_in_one_frame)
{
    struct seen seen = {0};

    submit(&seen, true);
    ck_assert_uint_eq(peer.msg.submit.flags, 0); /* with a callback, it asks to be told of acceptance */
    peer_send_accepted(&peer, peer.frame.tag);
    peer_send_output(&peer, peer.frame.tag, 0, "abc", 3);
    send_finished(peer.frame.tag, "def");
    process_until(&seen.done, 1);
    ck_assert(seen.error == 0 && seen.state == WSD_JOB_SUCCEEDED && seen.exit == 0);
    check_output(&seen.output, "abcdef");
}
END_TEST

START_TEST(held_output_holds_the_end_too)
{
    struct seen seen = {.hold = 1};
    struct wsd_call *call = submit(&seen, true);

    peer_send_accepted(&peer, peer.frame.tag);
    peer_send_output(&peer, peer.frame.tag, 0, "abc", 3);
    send_finished(peer.frame.tag, "def");
    for (int i = 0; i < 3; i++)
        wsd_client_wait(client, SECOND / 100);
    ck_assert_uint_eq(seen.done, 0);
    seen.hold = 0;
    wsd_call_resume(call);
    ck_assert_uint_eq(seen.done, 1);
    check_output(&seen.output, "abcdef");
}
END_TEST

START_TEST(a_call_without_callbacks_needs_no_acceptance)
{
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib"};
    const struct wsd_job_info *info;
    struct wsd_call *call;
    size_t size;

    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(peer.msg.submit.flags, SUBMIT_QUIET);
    send_finished(peer.frame.tag, "out");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, &info), 0);
    ck_assert_str_eq(info->plugin, "fib");
    ck_assert_str_eq(info->worker, "1.0");
    ck_assert_uint_eq(info->id.bytes[0], (uint8_t)peer.frame.tag);
    ck_assert(info->attempts == 1 && info->run_usec == 42 && info->state == WSD_JOB_SUCCEEDED);
    ck_assert_str_eq(info->error, "");
    ck_assert_mem_eq(wsd_call_output(call, &size), "out", 3);
    ck_assert_uint_eq(size, 3);
}
END_TEST

static unsigned n_left;

static void on_left(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    ck_assert(error == 0 && !info && !text[0]);
    n_left++;
    wsd_call_free(call);
}

/* With feature 8 and without. */
static void leave(size_t input_size)
{
    static uint8_t input[200000];
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = "fib",
                           .input = input,
                           .input_size = input_size,
                           .flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE};
    struct seen seen = {0};
    struct wsd_callbacks cb = {.size = sizeof(cb), .accepted = on_accepted, .done = on_left, .userdata = &seen};
    bool brief = peer.features & FEATURE_BRIEF, whole = input_size < 60000;
    struct wsd_call *call;
    uint32_t tag;

    n_left = 0;
    ck_assert_int_eq(wsd_client_submit(client, &s, &cb, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    tag = peer.frame.tag;
    ck_assert_uint_eq(peer.msg.submit.flags,
                      SUBMIT_DETACH | (whole ? 0u : SUBMIT_MORE) | (brief && whole ? SUBMIT_LEFT : 0u));
    peer_send_accepted(&peer, tag);
    process_until(&seen.accepted, 1);
    if (!whole) { /* not before all of the input has gone */
        ck_assert_uint_eq(n_left, 0);
        for (size_t got = peer.frame.body_size; got < input_size; got += peer.frame.body_size) {
            peer_expect(&peer, client, FRAME_INPUT);
            peer_send(&peer, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = peer.frame.body_size}}, tag, NULL,
                      0);
        }
    }
    process_until(&n_left, 1);
    ck_assert_int_eq(wsd_client_submit(client, &(struct wsd_submit){.size = sizeof(s), .plugin = "next"}, NULL, NULL),
                     0);
    if (peer.features & FEATURE_FORGET && !(brief && whole))
        peer_expect(&peer, client, FRAME_FORGET);
    peer_expect(&peer, client, FRAME_SUBMIT);
}

START_TEST(a_call_that_leaves_ends_when_it_is_accepted)
{
    leave(3);
    leave(150000);
}
END_TEST

START_TEST(a_wait_for_a_call_that_leaves_gives_its_id)
{
    const struct wsd_submit s = {.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE};
    static const struct wsd_job_info nothing;
    const struct wsd_job_info *info = NULL;
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, false);

    peer_send_accepted(&peer, peer.frame.tag);
    peer_send_done(&peer, peer.frame.tag, 5, 7, "words");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, &info), 0);
    wsd_call_free(call); /* its block is the next one's */
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_accepted(&peer, peer.frame.tag);
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, &info), 0);
    const struct wsd_id id = {{(uint8_t)peer.frame.tag, 1}};
    ck_assert_mem_eq(&info->id, &id, sizeof(id));
    struct wsd_job_info rest;
    memcpy(&rest, info, sizeof(rest));
    rest.id = nothing.id;
    ck_assert_mem_eq(&rest, &nothing, sizeof(rest));
    wsd_call_free(call);
}
END_TEST

START_TEST(only_a_detached_call_can_leave)
{
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_LEAVE};

    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.flags |= WSD_SUBMIT_DETACH | WSD_SUBMIT_STREAM;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
}
END_TEST

static void setup_forget(void)
{
    setup_with(FEATURE_FORGET);
}

START_TEST(attached_call_gets_output_and_end)
{
    struct seen seen = {0};
    struct wsd_callbacks cb = callbacks(&seen, true);
    struct wsd_id id = {{1, 2, 3}};
    struct wsd_call *call;

    ck_assert_int_eq(wsd_client_attach(client, &id, &cb, &call), 0);
    peer_expect(&peer, client, FRAME_AWAIT);
    ck_assert_mem_eq(peer.msg.id.id, id.bytes, 16);
    peer_send_output(&peer, peer.frame.tag, 0, "out", 3);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, NULL), 0);
    check_output(&seen.output, "out");
    ck_assert_int_eq(wsd_call_feed(call, "x", 1, true), -EINVAL);
}
END_TEST

START_TEST(wait_gives_up_after_its_time)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);

    ck_assert_int_eq(wsd_call_wait(call, SECOND / 50, NULL), -ETIMEDOUT);
    ck_assert_uint_eq(seen.done, 0);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, NULL), 0);
}
END_TEST

static struct {
    uint8_t bytes[4096];
    size_t size;
} answer;

/* The frame DONE, for a signal handler to send. */
static void put_answer(uint32_t tag)
{
    struct msg m = {.type = FRAME_DONE,
                    .job = {.plugin = {"fib", 3},
                            .function = {"fib", 3},
                            .error = {"", 0},
                            .status = {"", 0},
                            .worker = {"", 0},
                            .state = 5}};

    answer.size = codec_encode(&m, tag, 0, answer.bytes, sizeof(answer.bytes));
    ck_assert_uint_gt(answer.size, 0);
}

static volatile sig_atomic_t n_signals, may_answer;

static void on_alarm(int number)
{
    if (++n_signals >= 3 && may_answer)
        (void)!write(peer.fd, answer.bytes, answer.size);
    may_answer = may_answer && n_signals < 3;
}

/* SIGALRM every 10 ms; the third, or the first that may, sends the answer. */
static void alarms(int flags)
{
    struct sigaction a = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval t = {.it_interval.tv_usec = 10000, .it_value.tv_usec = 10000};

    ck_assert_int_eq(sigaction(SIGALRM, &a, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* Bit 0: the program has made the descriptor blocking. Bit 1: signals restart system calls. */
START_TEST(a_wait_without_end_gets_the_answer_whatever_interrupts)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);

    if (_i & 1)
        ck_assert_int_eq(fcntl(wsd_client_fd(client), F_SETFL, 0), 0);
    put_answer(peer.frame.tag);
    may_answer = true;
    alarms(_i & 2 ? SA_RESTART : 0);
    ck_assert_int_eq(wsd_call_wait(call, UINT64_MAX, NULL), 0);
    ck_assert_int_ge(n_signals, 3);
    ck_assert_uint_eq(seen.done, 1);
}
END_TEST

START_TEST(a_signal_ends_the_wait_of_a_loop)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);

    put_answer(peer.frame.tag);
    alarms(_i & 2 ? SA_RESTART : 0);
    ck_assert_int_eq(wsd_client_wait(client, UINT64_MAX), 0);
    ck_assert_int_ge(n_signals, 1);
    ck_assert_uint_eq(seen.done, 0);
    may_answer = true;
    ck_assert_int_eq(wsd_call_wait(call, UINT64_MAX, NULL), 0);
}
END_TEST

/* --- refusals and limits
 * ------------------------------------------------------------------------------------------------ */

static const struct {
    uint32_t code;
    int error, exit;
} refusals[] = {
    {64, -EINVAL, 64}, {66, -ENOENT, 66}, {70, -EREMOTEIO, 70},    {74, -EIO, 74},      {75, -EAGAIN, 75},
    {77, -EACCES, 77}, {76, -EPROTO, 76}, {125, -EOWNERDEAD, 125}, {3, -EREMOTEIO, 70}, {0, -EREMOTEIO, 70},
};

START_TEST(refusal_is_told_with_its_code)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);

    peer_send_error(&peer, peer.frame.tag, refusals[_i].code, "no, because");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, NULL), refusals[_i].error);
    ck_assert_int_eq(wsd_client_exit(client), refusals[_i].exit);
    ck_assert_str_eq(wsd_client_error(client), "no, because");
    ck_assert(seen.done == 1 && seen.accepted == 0 && seen.error == refusals[_i].error &&
              seen.exit == refusals[_i].exit);
    ck_assert_str_eq(seen.text, "no, because");
    ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

START_TEST(limits_are_held_before_anything_is_sent)
{
    static char big[CODEC_ARGS_SIZE + 1], path[CODEC_PATH_MAX + 1];
    static const char *many[CODEC_ARGS_MAX + 1];
    const char *args[] = {big};
    struct wsd_callbacks unset = {.size = 0};

    memset(big, 'x', sizeof(big) - 1);
    memset(path, 'x', sizeof(path) - 1);
    for (size_t i = 0; i < ARRAY_SIZE(many); i++)
        many[i] = "";

    const struct wsd_submit bad[] = {
        {.size = sizeof(bad[0]), .plugin = NULL},
        {.size = sizeof(bad[0]), .plugin = ""},
        {.size = 0, .plugin = "x"},
        {.size = sizeof(bad[0]), .plugin = path},
        {.size = sizeof(bad[0]), .plugin = "x", .function = path},
        {.size = sizeof(bad[0]), .plugin = "x", .args = args, .n_args = 1},
        {.size = sizeof(bad[0]), .plugin = "x", .args = many, .n_args = CODEC_ARGS_MAX + 1},
        {.size = sizeof(bad[0]), .plugin = "x", .priority = 101},
        {.size = sizeof(bad[0]), .plugin = "x", .priority = -101},
        {.size = sizeof(bad[0]), .plugin = "x", .flags = 1u << 31},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct wsd_call *call = NULL;

        ck_assert_int_eq(wsd_client_submit(client, &bad[i], NULL, &call), -EINVAL);
        ck_assert_ptr_null(call);
        ck_assert_int_eq(wsd_client_exit(client), 64);
        ck_assert_uint_gt(strlen(wsd_client_error(client)), 0);
    }
    struct wsd_submit good = {.size = sizeof(good), .plugin = "x"};

    ck_assert_int_eq(wsd_client_submit(client, &good, &unset, NULL), -EINVAL);
    ck_assert(peer_quiet(&peer, client));
    good.args = many;
    good.n_args = CODEC_ARGS_MAX;
    ck_assert_int_eq(wsd_client_submit(client, &good, NULL, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(peer.msg.submit.argc, CODEC_ARGS_MAX);
}
END_TEST

/* --- one end each
 * --------------------------------------------------------------------------------------------------------- */

enum breakage {
    CLOSED,
    GARBAGE,
    HALF_FRAME,
    CONNECTION_ERROR,
    TOO_MUCH,
    WRONG_OFFSET,
    SECOND_ACCEPTED,
    WRONG_TYPE,
    FREED,
    N_BREAKAGES
};

static void break_it(enum breakage how, uint32_t tag)
{
    switch (how) {
    case CLOSED:
        peer_close(&peer);
        break;
    case GARBAGE:
        peer_send_raw(&peer, "W\1\377\377\377\377\0\0\0\0\0\0\0\0\0\0garbage", 23);
        break;
    case HALF_FRAME:
        peer_send_raw(&peer, "W\1\106\0\1\0\0\0\11\0\0\0\0\0\0\0ab", 18);
        peer_close(&peer);
        break;
    case CONNECTION_ERROR:
        peer_send_error(&peer, 0, 76, "you");
        break;
    case TOO_MUCH:
        for (uint64_t i = 0; i < 30; i++)
            peer_send_output(&peer, tag, i * 50000, (char[50000]){0}, 50000);
        break;
    case WRONG_OFFSET:
        peer_send_output(&peer, tag, 1, "x", 1);
        break;
    case SECOND_ACCEPTED:
        peer_send_accepted(&peer, tag);
        peer_send_accepted(&peer, tag);
        break;
    case WRONG_TYPE:
        peer_send_empty(&peer, FRAME_PONG, tag);
        break;
    default:
        client = wsd_client_free(client);
    }
}

/* Two that were accepted, one of them durable, and wsd says that it ends, or not. */
START_TEST(durable_job_is_not_lost_with_a_wsd_that_ends_in_order)
{
    struct seen plain = {0}, durable = {0};

    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_STORE);
    submit(&plain, true);
    peer_send_accepted(&peer, peer.frame.tag);
    submit_as(&durable, true, (struct wsd_submit){.flags = WSD_SUBMIT_DURABLE});
    peer_send_accepted(&peer, peer.frame.tag);
    process_until(&durable.accepted, 1);
    if (_i)
        peer_send(&peer, &(struct msg){.type = FRAME_GOODBYE, .error = {.code = 75}}, 0, NULL, 0);
    peer_close(&peer);
    process_until(&durable.done, 1);
    ck_assert_int_eq(plain.exit, 125);
    ck_assert_int_eq(durable.exit, 125);
    ck_assert(!_i || strstr(durable.text, "wsctl await"));
}
END_TEST

START_TEST(every_open_call_ends_once_however_it_breaks)
{
    struct seen seen[5] = {{.hold = 1}, {.free_in_done = true}, {.submit_in_done = true}, {0}, {0}}, ended = {0};
    uint32_t first = 0;

    for (size_t i = 0; i < 5; i++) {
        submit(&seen[i], true);
        first = i ? first : peer.frame.tag;
    }
    peer_send_accepted(&peer, peer.frame.tag);
    process_until(&seen[4].accepted, 1);
    submit(&ended, true);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    process_until(&ended.done, 1);
    break_it((enum breakage)_i, first);
    if (client)
        ck_assert_int_eq(wsd_client_wait(client, SECOND), _i == HALF_FRAME ? 0 : -ECONNRESET);
    if (client)
        ck_assert_int_eq(wsd_client_wait(client, SECOND), -ECONNRESET);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(seen[i].done, 1);
        ck_assert_int_eq(seen[i].error, -ECONNRESET);
        ck_assert_uint_gt(strlen(seen[i].text), 0);
        buffer_deinit(&seen[i].output);
    }
    ck_assert_uint_eq(ended.done, 1);
    if (_i == CLOSED) { /* wsd had all of them: each may have run */
        ck_assert_int_eq(seen[4].exit, 125);
        ck_assert_int_eq(seen[0].exit, 125);
    }
}
END_TEST

START_TEST(call_may_be_freed_in_its_callbacks)
{
    struct seen first = {.free_in_done = true}, second = {.free_in_output = true}, third = {.submit_in_done = true};

    submit(&first, true);
    play_whole_job(peer.frame.tag);
    process_until(&first.done, 1);
    check_output(&first.output, "one two");

    submit(&second, true);
    peer_send_output(&peer, peer.frame.tag, 0, "abc", 3);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert(!peer.msg.id.has_id);
    peer_send_output(&peer, peer.frame.tag, 3, "def", 3);
    peer_send_done(&peer, peer.frame.tag, 7, 130, "");
    wsd_client_process(client);
    ck_assert_uint_eq(second.done, 0);
    check_output(&second.output, "abc");

    submit(&third, true);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    process_until(&third.done, 1);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_str_eq(peer.msg.submit.plugin.data, "again");
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(wait_survives_a_call_that_its_callback_frees)
{
    struct seen seen = {.free_in_done = true};
    struct wsd_call *call = submit(&seen, true);

    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_call_wait(call, 5 * SECOND, NULL), 0);
}
END_TEST

static int wait_in_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    ck_assert_int_eq(wsd_call_wait(call, UINT64_MAX, NULL), -EDEADLK);
    ++*(unsigned *)userdata;
    return 0;
}

START_TEST(wait_in_the_own_output_callback_is_refused)
{
    unsigned n = 0;
    struct wsd_callbacks cb = {.size = sizeof(cb), .output = wait_in_output, .userdata = &n};
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib"};

    ck_assert_int_eq(wsd_client_submit(client, &s, &cb, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_output(&peer, peer.frame.tag, 0, "abc", 3);
    process_until(&n, 1);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

struct nested {
    struct seen seen;
    unsigned depth, deepest, calls;
};

/* Asks a query while the data is in its hands; the answer comes behind more output and the end of this very call. */
static int ask_in_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct nested *n = userdata;
    char *copy = malloc(size);

    n->calls++;
    n->depth++;
    n->deepest = MAX(n->deepest, n->depth);
    memcpy(copy, data, size);
    ck_assert_uint_eq(n->seen.done, 0);
    if (n->calls == 1)
        ck_assert_int_eq(wsd_client_ping(client, NULL), 0);
    ck_assert_mem_eq(copy, data, size);
    free(copy);
    n->depth--;
    return on_output(call, data, size, &n->seen);
}

static void done_nested(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                        void *userdata)
{
    on_done(call, error, info, text, &((struct nested *)userdata)->seen);
}

START_TEST(question_inside_an_output_callback_keeps_order_and_data)
{
    static char big[50000];
    struct nested n = {.calls = 0};
    struct wsd_callbacks cb = {.size = sizeof(cb), .output = ask_in_output, .done = done_nested, .userdata = &n};
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib"};
    uint32_t tag;

    ck_assert_int_eq(wsd_client_submit(client, &s, &cb, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    tag = peer.frame.tag;
    memset(big, 'a', sizeof(big));
    peer_send_output(&peer, tag, 0, big, sizeof(big));
    memset(big, 'b', sizeof(big));
    peer_send_output(&peer, tag, sizeof(big), big, sizeof(big));
    peer_send_done(&peer, tag, 5, 0, "");
    peer_send_empty(&peer, FRAME_PONG, tag + 1);
    process_until(&n.seen.done, 1);
    ck_assert_uint_eq(n.deepest, 1);
    ck_assert_uint_eq(buffer_size(&n.seen.output), 2 * sizeof(big));
    ck_assert_int_eq(buffer_data(&n.seen.output)[sizeof(big) - 1], 'a');
    ck_assert_int_eq(buffer_data(&n.seen.output)[sizeof(big)], 'b');
    buffer_deinit(&n.seen.output);
}
END_TEST

/* --- cancel, free
 * ----------------------------------------------------------------------------------------------------------- */

START_TEST(cancel_is_asked_for_once)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);
    uint32_t tag = peer.frame.tag;

    ck_assert_int_eq(wsd_call_cancel(call), 0);
    ck_assert_int_eq(wsd_call_cancel(call), 0);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert_uint_eq(peer.frame.tag, tag);
    ck_assert(!peer.msg.id.has_id);
    ck_assert(peer_quiet(&peer, client));
    peer_send_done(&peer, tag, 7, 130, "cancelled");
    process_until(&seen.done, 1);
    ck_assert(seen.state == WSD_JOB_CANCELLED && seen.exit == 130);
    ck_assert_int_eq(wsd_call_cancel(call), 0);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(freed_call_is_cancelled)
{
    struct seen seen = {0};

    wsd_call_free(submit(&seen, true));
    peer_expect(&peer, client, FRAME_CANCEL);
    peer_send_done(&peer, peer.frame.tag, 7, 130, "");
    wsd_client_process(client);
    ck_assert_uint_eq(seen.done, 0);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(freed_detached_call_goes_on_and_its_output_flows)
{
    static char chunk[50000];
    struct seen seen = {0};
    uint32_t tag;

    wsd_call_free(submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_DETACH}));
    tag = peer.frame.tag;
    for (uint64_t i = 0; i < 10; i++)
        peer_send_output(&peer, tag, i * sizeof(chunk), chunk, sizeof(chunk));
    peer_expect(&peer, client, FRAME_CREDIT);
    peer_send_done(&peer, tag, 5, 0, "");
    wsd_client_process(client);
    ck_assert_uint_eq(buffer_size(&seen.output), 0);
}
END_TEST

/* Where wsd can forget a call, it is told to, and late frames for the call are dropped. */
START_TEST(freed_detached_call_is_forgotten)
{
    struct seen seen = {0};
    uint32_t tag;

    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_FORGET);
    struct wsd_call *call = submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_DETACH});
    tag = peer.frame.tag;
    wsd_call_free(call);
    peer_expect(&peer, client, FRAME_FORGET);
    ck_assert_uint_eq(peer.frame.tag, tag);
    peer_send_output(&peer, tag, 0, "late", 4);
    peer_send_empty(&peer, FRAME_END, tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(seen.done, 0);
    /* END in the place of an end is wrong for a call that was not forgotten */
    call = submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_DETACH});
    peer_send_empty(&peer, FRAME_END, peer.frame.tag);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
}
END_TEST

START_TEST(freed_detached_call_without_its_input_is_cancelled)
{
    struct seen seen = {0};

    wsd_call_free(submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_STREAM}));
    peer_expect(&peer, client, FRAME_CANCEL);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

/* --- output: flow
 * --------------------------------------------------------------------------------------------------------- */

START_TEST(output_is_granted_as_it_is_taken)
{
    static char chunk[FRAME_BODY_CHUNK];
    struct seen seen = {0};
    uint64_t sent = 0, granted;
    uint32_t tag;

    submit(&seen, true);
    tag = peer.frame.tag;
    granted = peer.hello.hello.window;
    while (sent < 20u << 20) {
        while (sent + sizeof(chunk) <= granted && sent < 20u << 20) {
            peer_send_output(&peer, tag, sent, chunk, sizeof(chunk));
            sent += sizeof(chunk);
            wsd_client_process(client); /* both ends are in one thread */
        }
        if (sent >= 20u << 20)
            break;
        peer_expect(&peer, client, FRAME_CREDIT);
        ck_assert_uint_eq(peer.frame.tag, tag);
        granted += peer.msg.credit.bytes;
        ck_assert_uint_le(granted, sent + peer.hello.hello.window);
    }
    peer_send_done(&peer, tag, 5, 0, "");
    while (!seen.done)
        wsd_client_wait(client, SECOND);
    ck_assert_uint_eq(buffer_size(&seen.output), sent);
    buffer_deinit(&seen.output);
}
END_TEST

START_TEST(held_output_is_neither_told_nor_granted)
{
    static char chunk[50000];
    struct seen seen = {.hold = 1};
    struct wsd_call *call = submit(&seen, true);
    uint32_t tag = peer.frame.tag;

    for (uint64_t i = 0; i < 20; i++) {
        peer_send_output(&peer, tag, i * sizeof(chunk), chunk, sizeof(chunk));
        wsd_client_process(client);
    }
    ck_assert_uint_eq(buffer_size(&seen.output), sizeof(chunk)); /* the first, which held the flow */
    ck_assert(peer_quiet(&peer, client));
    peer_send_done(&peer, tag, 5, 0, "");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(seen.done, 0);
    ck_assert_int_eq(wsd_call_wait(call, SECOND / 50, NULL), -ETIMEDOUT);
    seen.hold = 0;
    ck_assert_int_eq(wsd_call_resume(call), 0);
    ck_assert_uint_eq(buffer_size(&seen.output), 20 * sizeof(chunk));
    ck_assert_uint_eq(seen.done, 1);
    buffer_deinit(&seen.output);
}
END_TEST

START_TEST(resumed_output_is_granted_again)
{
    static char chunk[50000];
    struct seen seen = {.hold = 1};
    struct wsd_call *call = submit(&seen, true);
    uint32_t tag = peer.frame.tag;

    for (uint64_t i = 0; i < 20; i++) {
        peer_send_output(&peer, tag, i * sizeof(chunk), chunk, sizeof(chunk));
        wsd_client_process(client);
    }
    seen.hold = 0;
    wsd_call_resume(call);
    peer_expect(&peer, client, FRAME_CREDIT);
    ck_assert_uint_eq(peer.msg.credit.bytes, 20 * sizeof(chunk));
    buffer_deinit(&seen.output);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

/* --- output: the room of large ones
 * --------------------------------------------------------------------------------------- */

static uint8_t byte_of(uint64_t at, uint8_t seed)
{
    return (uint8_t)((at * 2654435761u >> 13) + seed);
}

/* Output of that tag from *at up to `until`. */
static void send_until(uint32_t tag, uint64_t *at, uint64_t until, uint8_t seed)
{
    static uint8_t chunk[FRAME_BODY_CHUNK];

    while (*at < until) {
        size_t n = MIN(sizeof(chunk), until - *at);

        for (size_t i = 0; i < n; i++)
            chunk[i] = byte_of(*at + i, seed);
        peer_send_output(&peer, tag, *at, chunk, n);
        wsd_client_process(client);
        *at += n;
    }
    while (!peer_quiet(&peer, client)) /* CREDIT */
        ;
}

static void check_bytes(const uint8_t *data, size_t size, uint8_t seed)
{
    size_t i = 0;

    while (i < size && data[i] == byte_of(i, seed))
        i++;
    ck_assert_uint_eq(i, size);
}

/* Returns a call that has ended, with its whole output received and checked. */
static struct wsd_call *gather(uint64_t size, uint8_t seed)
{
    static struct seen seen;
    struct wsd_call *call = submit(&seen, false);
    uint32_t tag = peer.frame.tag;
    uint64_t at = 0;
    size_t got;

    send_until(tag, &at, size, seed);
    peer_send_done(&peer, tag, 5, 0, "");
    ck_assert_int_eq(wsd_call_wait(call, 60 * SECOND, NULL), 0);
    const uint8_t *data = wsd_call_output(call, &got);
    ck_assert_uint_eq(got, size);
    check_bytes(data, got, seed);
    return call;
}

static const struct {
    uint64_t size;
    bool kept;
} rooms[] = {{LARGE_OUTPUT - 1, false}, {LARGE_OUTPUT, true}, {SPARE_OUTPUT_MAX, true}, {SPARE_OUTPUT_MAX + 1, false}};

START_TEST(room_of_a_large_output_is_kept_below_a_limit)
{
    wsd_call_free(gather(rooms[_i].size, 1));
    ck_assert_int_eq(client->calls.spare.room >= rooms[_i].size, rooms[_i].kept);
    ck_assert_int_eq(client->calls.spare.data != NULL, rooms[_i].kept);
    ck_assert_uint_eq(buffer_size(&client->calls.spare), 0);
}
END_TEST

static const uint64_t taken_sizes[] = {0, 1, CALL_ROOM, CALL_ROOM + 1, LARGE_OUTPUT, 1000001};

START_TEST(output_is_taken_away)
{
    struct wsd_call *call = gather(taken_sizes[_i], 5);
    size_t size, rest;
    void *output = wsd_call_take_output(call, &size);

    ck_assert_uint_eq(size, taken_sizes[_i]);
    ck_assert(!output == !size);
    wsd_call_output(call, &rest);
    ck_assert_uint_eq(rest, 0);
    ck_assert_ptr_null(wsd_call_take_output(call, &rest));
    ck_assert_uint_eq(rest, 0);
    wsd_call_free(call);
    check_bytes(output, size, 5);
    free(output);
}
END_TEST

START_TEST(what_comes_after_output_was_taken_is_gathered_anew)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, false);
    uint32_t tag = peer.frame.tag;
    uint64_t at = 0;
    size_t size;

    for (int i = 0; i < 3; i++) {
        send_until(tag, &at, (uint64_t)(i + 1) * 1000000, 9);
        uint8_t *output = wsd_call_take_output(call, &size);
        ck_assert_uint_eq(size, 1000000);
        ck_assert_uint_eq(output[size - 1], byte_of(at - 1, 9));
        free(output);
    }
    wsd_call_free(call);
}
END_TEST

START_TEST(next_large_output_lies_in_the_room_of_the_last)
{
    static const uint64_t sizes[] = {3000000, 300000, 2999999, LARGE_OUTPUT, 4 << 20};
    const uint8_t *room;
    size_t size;

    wsd_call_free(gather(4 << 20, 1));
    room = client->calls.spare.data;
    for (uint8_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct wsd_call *call = gather(sizes[i], (uint8_t)(7 * i));

        ck_assert_ptr_eq(wsd_call_output(call, &size), room);
        ck_assert_uint_eq(client->calls.spare.room, 0);
        wsd_call_free(call);
        ck_assert_ptr_eq(client->calls.spare.data, room);
        ck_assert_uint_eq(client->calls.spare.room, 4 << 20);
    }
}
END_TEST

/* Where it is too small it grows, and the larger one is kept. */
START_TEST(room_that_is_kept_grows)
{
    wsd_call_free(gather(LARGE_OUTPUT, 1));
    ck_assert_uint_eq(client->calls.spare.room, LARGE_OUTPUT);
    wsd_call_free(gather(3 * LARGE_OUTPUT, 2));
    ck_assert_uint_eq(client->calls.spare.room, 4 * LARGE_OUTPUT);
    wsd_call_free(gather(LARGE_OUTPUT, 3));
    ck_assert_uint_eq(client->calls.spare.room, 4 * LARGE_OUTPUT);
}
END_TEST

static const uint64_t small_sizes[] = {0, 5, 5000, LARGE_OUTPUT - 1};

START_TEST(room_goes_with_a_call_that_has_no_use_for_it)
{
    struct wsd_call *call;

    wsd_call_free(gather(1 << 20, 1));
    call = gather(small_sizes[_i], 2);
    ck_assert_uint_eq(client->calls.spare.room, 1 << 20); /* it may still become large, for all that is known */
    wsd_call_free(call);
    ck_assert_uint_eq(client->calls.spare.room, 0);
    ck_assert_ptr_null(client->calls.spare.data);
    wsd_call_free(gather(1 << 20, 3));
    ck_assert_uint_eq(client->calls.spare.room, 1 << 20);
}
END_TEST

START_TEST(small_calls_take_no_room_that_is_in_use)
{
    struct wsd_call *large;
    const uint8_t *room;

    wsd_call_free(gather(1 << 20, 1));
    room = client->calls.spare.data;
    large = gather(1 << 20, 2);
    wsd_call_free(gather(5, 3));
    wsd_call_free(large);
    ck_assert_ptr_eq(client->calls.spare.data, room);
}
END_TEST

START_TEST(calls_at_once_share_no_room)
{
    struct seen seen[3] = {{0}};
    struct wsd_call *calls[3];
    uint32_t tags[3];
    uint64_t at[3] = {0};
    const uint8_t *room, *data[3];
    size_t size;

    wsd_call_free(gather(1 << 20, 1));
    room = client->calls.spare.data;
    for (int i = 0; i < 3; i++) {
        calls[i] = submit(&seen[i], false);
        tags[i] = peer.frame.tag;
    }
    for (uint64_t n = 100000; n <= 1500000; n += 100000)
        for (uint8_t i = 0; i < 3; i++)
            send_until(tags[i], &at[i], n + i, i);
    for (uint8_t i = 0; i < 3; i++) {
        peer_send_done(&peer, tags[i], 5, 0, "");
        process_until(&seen[i].done, 1);
        data[i] = wsd_call_output(calls[i], &size);
        ck_assert_uint_eq(size, 1500000 + i);
        check_bytes(data[i], size, i);
    }
    ck_assert(room && data[0] != data[1] && data[1] != data[2] && data[0] != data[2]);
    for (int i = 0; i < 3; i++) {
        wsd_call_free(calls[i]);
        ck_assert_ptr_eq(client->calls.spare.data, data[0]); /* one of them */
    }
    ck_assert_uint_eq(client->calls.spare.room, 2 << 20);
}
END_TEST

START_TEST(call_that_is_freed_half_way_leaves_its_room)
{
    struct seen seen = {0};
    struct wsd_call *call;
    const uint8_t *room;
    uint64_t at = 0;
    uint32_t tag;

    wsd_call_free(gather(1 << 20, 1));
    room = client->calls.spare.data;
    call = submit(&seen, false);
    tag = peer.frame.tag;
    send_until(tag, &at, 500000, 2);
    ck_assert_uint_eq(client->calls.spare.room, 0);
    wsd_call_free(call);
    ck_assert_ptr_eq(client->calls.spare.data, room);
    peer_expect(&peer, client, FRAME_CANCEL);
    call = gather(1 << 20, 3); /* while wsd goes on with the other */
    send_until(tag, &at, 900000, 4);
    peer_send_done(&peer, tag, 7, 130, "");
    ck_assert_int_eq(wsd_client_process(client), 0);
    check_bytes(wsd_call_output(call, &(size_t){0}), 1 << 20, 3);
    wsd_call_free(call);
    ck_assert_ptr_eq(client->calls.spare.data, room);
}
END_TEST

/* Takes the room while it waits, and gives it back when it was told. */
START_TEST(held_output_waits_in_the_room)
{
    struct seen seen = {.hold = 1};
    struct wsd_call *held, *other;
    uint64_t at = 0;
    uint32_t tag;

    wsd_call_free(gather(1 << 20, 1));
    const uint8_t *room = client->calls.spare.data;
    held = submit(&seen, true);
    tag = peer.frame.tag;
    for (uint64_t until = 600000; until <= 1200000; until += 600000) {
        seen.hold = 1;
        send_until(tag, &at, until, 2);
        ck_assert_ptr_eq(held->result->output.data, room);
        other = gather(1 << 20, 3);
        seen.hold = 0;
        ck_assert_int_eq(wsd_call_resume(held), 0);
        ck_assert_ptr_eq(client->calls.spare.data, room);
        check_bytes(wsd_call_output(other, &(size_t){0}), 1 << 20, 3);
        wsd_call_free(other);
        ck_assert_ptr_eq(client->calls.spare.data, room);
    }
    peer_send_done(&peer, tag, 5, 0, "");
    process_until(&seen.done, 1);
    ck_assert_uint_eq(buffer_size(&seen.output), 1200000);
    check_bytes(buffer_data(&seen.output), 1200000, 2);
    buffer_deinit(&seen.output);
    wsd_call_free(held);
    ck_assert_ptr_eq(client->calls.spare.data, room);
}
END_TEST

/* --- input: flow
 * ------------------------------------------------------------------------------------------------------------ */

static char input[1000000];

static void fill_input(void)
{
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (char)(i * 2654435761u >> 13);
}

/* Takes what was sent until nothing more comes; returns the new total. */
static uint64_t take_input(uint64_t at, bool *last)
{
    while (!peer_quiet(&peer, client)) {
        if (peer.frame.type == FRAME_INPUT) {
            ck_assert_uint_eq(peer.msg.chunk.offset, at);
            *last = peer.msg.chunk.last;
        }
        ck_assert(peer.frame.type == FRAME_INPUT || peer.frame.type == FRAME_SUBMIT);
        ck_assert_uint_le(at + peer.frame.body_size, sizeof(input));
        ck_assert_mem_eq(peer.frame.body, input + at, peer.frame.body_size);
        at += peer.frame.body_size;
    }
    return at;
}

START_TEST(large_input_keeps_to_the_window)
{
    struct seen seen = {0};
    uint64_t got, granted = WINDOW;
    bool last = false;

    fill_input();
    submit_as(&seen, true, (struct wsd_submit){.input = input, .input_size = sizeof(input)});
    ck_assert_uint_eq(peer.msg.submit.flags, SUBMIT_MORE);
    ck_assert_mem_eq(peer.frame.body, input, peer.frame.body_size);
    got = peer.frame.body_size;

    uint32_t tag = peer.frame.tag;

    while (!last) {
        got = take_input(got, &last);
        ck_assert_uint_eq(got, MIN(granted, sizeof(input)));
        if (last)
            break;
        granted += 12345;
        peer_send(&peer, &(struct msg){.type = FRAME_CREDIT, .credit = {12345}}, tag, NULL, 0);
        wsd_client_wait(client, SECOND);
    }
    ck_assert_uint_eq(got, sizeof(input));
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(refusal_stops_the_input)
{
    struct seen seen = {0};
    bool last = false;

    fill_input();
    submit_as(&seen, true, (struct wsd_submit){.input = input, .input_size = sizeof(input)});

    uint32_t tag = peer.frame.tag;

    take_input(peer.frame.body_size, &last);
    peer_send_error(&peer, tag, 75, "full");
    peer_send(&peer, &(struct msg){.type = FRAME_CREDIT, .credit = {1000000}}, tag, NULL, 0);
    process_until(&seen.done, 1);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(streamed_input_keeps_to_the_window)
{
    struct seen seen = {0};
    struct wsd_call *call = submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_STREAM});
    uint32_t tag = peer.frame.tag;
    uint64_t fed = 0, got = 0;
    bool last = false;

    fill_input();
    ck_assert_uint_eq(peer.msg.submit.flags, SUBMIT_MORE);
    ck_assert_uint_eq(peer.frame.body_size, 0);
    while (!last) {
        int64_t n = wsd_call_feed(call, input + fed, sizeof(input) - fed, true);

        ck_assert_int_ge(n, 0);
        fed += (uint64_t)n;
        got = take_input(got, &last);
        ck_assert_uint_eq(got, fed);
        ck_assert_int_eq(last, fed == sizeof(input));
        if (!last) {
            ck_assert_int_eq(wsd_call_feed(call, input + fed, 1, false), 0); /* the window is used up */
            peer_send(&peer, &(struct msg){.type = FRAME_CREDIT, .credit = {77777}}, tag, NULL, 0);
            wsd_client_wait(client, SECOND);
        }
    }
    ck_assert_int_eq(wsd_call_feed(call, "x", 1, false), -EPIPE);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(input_can_end_without_a_byte)
{
    struct seen seen = {0};
    struct wsd_call *call = submit_as(&seen, true, (struct wsd_submit){.flags = WSD_SUBMIT_STREAM});

    ck_assert_int_eq(wsd_call_feed(call, NULL, 0, false), 0);
    ck_assert(peer_quiet(&peer, client));
    ck_assert_int_eq(wsd_call_feed(call, NULL, 0, true), 0);
    peer_expect(&peer, client, FRAME_INPUT);
    ck_assert(peer.msg.chunk.last && peer.frame.body_size == 0 && peer.msg.chunk.offset == 0);
    ck_assert_int_eq(wsd_call_feed(call, NULL, 0, true), -EPIPE);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(feeding_a_call_that_does_not_stream_is_refused)
{
    struct seen seen = {0};
    struct wsd_call *call = submit(&seen, true);

    ck_assert_int_eq(wsd_call_feed(call, "x", 1, true), -EINVAL);
    ck_assert_int_eq(wsd_client_process(client), 0);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

/* --- files
 * --------------------------------------------------------------------------------------------------------------------
 */

static void ask_to_open(uint32_t tag, uint32_t serial, const char *path)
{
    peer_send(&peer, &(struct msg){.type = FRAME_OPEN, .open = {serial, {path, strlen(path)}}}, tag, NULL, 0);
}

static int expect_opened(uint32_t tag, uint32_t serial)
{
    peer_expect(&peer, client, FRAME_OPENED);
    ck_assert_uint_eq(peer.frame.tag, tag);
    ck_assert_uint_eq(peer.msg.opened.serial, serial);
    ck_assert((peer.msg.opened.error == 0) == (peer.received_fd >= 0));
    return (int)peer.msg.opened.error;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(files_are_opened_from_where_the_client_was)
{
    char cwd[4096], data[16] = "";
    const char *args[] = {"some file", "dir", "--list=list", "missing", "fifo", "/dev/null", "dir/../some file"};
    struct seen seen = {0};
    uint32_t tag;

    ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
    ck_assert_int_eq(chdir(peer.directory), 0);
    write_file("some file", "content");
    write_file("list", "l");
    ck_assert_int_eq(mkdir("dir", 0700), 0);
    write_file("dir/sub", "s");
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);

    struct peer other;
    struct wsd_client *first = client;

    peer_init(&other, PEER_WELCOME, 0);
    ck_assert_int_eq(peer_open(&other, &client, 5 * SECOND), 0);
    ck_assert_int_eq(chdir("/"), 0); /* the process moves on; its files stay where they were */

    struct peer saved = peer;

    peer = other;
    submit_as(&seen, true, (struct wsd_submit){.args = args, .n_args = ARRAY_SIZE(args)});
    tag = peer.frame.tag;

    ask_to_open(tag, 7, "some file");
    ck_assert_int_eq(expect_opened(tag, 7), 0);
    ck_assert_int_eq(read(peer.received_fd, data, sizeof(data)), 7);
    ck_assert_str_eq(data, "content");
    ck_assert_int_eq(fcntl(peer.received_fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDONLY);
    peer.received_fd = close_fd(peer.received_fd);

    const struct {
        const char *path;
        int error;
    } cases[] = {
        {"dir", 0},
        {"dir/sub", 0},
        {"list", 0},
        {"dir/../some file", 0},
        {"missing", ENOENT},
        {"fifo", ENXIO},
        {"/dev/null", ENXIO},
        {"/etc/passwd", EPERM},
        {"dir/../list2", EPERM},
        {"dir/..", EPERM},
        {"file", EPERM},
        {"other", EPERM},
        {"dirt", EPERM},
        {"null", EPERM},
    };

    for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ask_to_open(tag, i, cases[i].path);
        ck_assert_msg(expect_opened(tag, i) == cases[i].error, "%s: %u", cases[i].path, peer.msg.opened.error);
        peer.received_fd = close_fd(peer.received_fd);
    }
    ask_to_open(tag + 55, 1, "some file"); /* a call that is not open: refused, but answered */
    ck_assert_int_eq(expect_opened(tag + 55, 1), EPERM);

    char full[CODEC_PATH_MAX + 16];

    snprintf(full, sizeof(full), "%s/%s", peer.hello_directory, "some file");
    ask_to_open(tag, 9, full);
    ck_assert_int_eq(expect_opened(tag, 9), 0);
    peer.received_fd = close_fd(peer.received_fd);

    wsd_client_free(client);
    client = first;
    peer_deinit(&peer);
    peer = saved;
    ck_assert_int_eq(chdir(peer.directory), 0);
    unlink("some file"), unlink("list"), unlink("dir/sub"), unlink("fifo"), rmdir("dir");
    ck_assert_int_eq(chdir(cwd), 0);
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(descriptors_travel_with_their_own_frames)
{
    const char *args[] = {"/etc/passwd", "/etc/hostname", "/nonexistent"};
    struct seen seen = {0};
    struct wsd_call *call =
        submit_as(&seen, true, (struct wsd_submit){.args = args, .n_args = 3, .flags = WSD_SUBMIT_STREAM});
    uint32_t tag = peer.frame.tag;
    struct stat st, expected;

    /* Other frames between them, and several in one batch. */
    for (uint32_t i = 0; i < 30; i++)
        ask_to_open(tag, i, args[i % 3]);
    ck_assert_int_eq(wsd_call_feed(call, "between", 7, false), 7);
    for (uint32_t i = 0, n = 0; n < 30; i++) {
        ck_assert_uint_lt(i, 31);
        for (int k = 0; k < 1000 && peer_quiet(&peer, client); k++)
            ;
        if (peer.frame.type == FRAME_INPUT)
            continue;
        ck_assert_uint_eq(peer.frame.type, FRAME_OPENED);
        ck_assert_uint_eq(peer.msg.opened.serial, n);
        ck_assert_int_eq((int)peer.msg.opened.error, n % 3 == 2 ? ENOENT : 0);
        if (n % 3 != 2) {
            ck_assert_int_ge(peer.received_fd, 0);
            ck_assert_int_eq(fstat(peer.received_fd, &st), 0);
            ck_assert_int_eq(stat(args[n % 3], &expected), 0);
            ck_assert(st.st_ino == expected.st_ino);
            peer.received_fd = close_fd(peer.received_fd);
        }
        n++;
    }
    client = wsd_client_free(client); /* while `seen` is there */
}
END_TEST

START_TEST(input_by_file_travels_with_its_submit)
{
    struct seen seen = {0};
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    struct wsd_submit s = {.flags = WSD_SUBMIT_FILE, .input_fd = fd, .input_offset = 3, .input_size = 40};
    struct stat st, expected;

    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD);
    ck_assert(wsd_client_takes_files(client));
    for (int i = 0; i < 3; i++) {
        submit_as(&seen, true, s);
        ck_assert_uint_eq(peer.msg.submit.input_from, INPUT_FILE);
        ck_assert_uint_eq(peer.msg.submit.input_offset, 3);
        ck_assert_uint_eq(peer.msg.submit.input_size, 40);
        ck_assert_uint_eq(peer.msg.submit.flags & SUBMIT_MORE, 0);
        ck_assert_uint_eq(peer.frame.body_size, 0);
        ck_assert_int_eq(fstat(peer.received_fd, &st), 0);
        ck_assert_int_eq(fstat(fd, &expected), 0); /* ours is open as before */
        ck_assert(st.st_ino == expected.st_ino);
    }
    client = wsd_client_free(client); /* while `seen` is there */
    close(fd);
}
END_TEST

/* Nothing may be fed before wsd asks for it: the job may be reading the pipe. */
START_TEST(input_in_a_pipe_travels_with_its_submit)
{
    struct seen seen = {0};
    struct stat st, expected;
    struct wsd_call *call;
    int fds[2];

    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD | FEATURE_PIPE);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    ck_assert_int_eq(fstat(fds[0], &expected), 0);
    struct wsd_submit s = {.flags = WSD_SUBMIT_STREAM | WSD_SUBMIT_PIPE, .input_fd = fds[0]};
    call = submit_as(&seen, true, s);
    ck_assert_uint_eq(peer.msg.submit.input_from, INPUT_PIPE);
    ck_assert_uint_eq(peer.msg.submit.flags & SUBMIT_MORE, SUBMIT_MORE);
    ck_assert_uint_eq(peer.frame.body_size, 0);
    ck_assert_int_eq(fstat(peer.received_fd, &st), 0);
    ck_assert(st.st_ino == expected.st_ino && st.st_dev == expected.st_dev);
    ck_assert_uint_eq(wsd_call_window(call), 0);
    ck_assert_int_eq(wsd_call_feed(call, "x", 1, false), 0);
    ck_assert_int_eq(wsd_call_feed(call, NULL, 0, true), 0);
    ck_assert(peer_quiet(&peer, client));
    peer_send(&peer, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = 3}}, peer.frame.tag, NULL, 0);
    while (wsd_call_window(call) == 0)
        wsd_client_process(client);
    ck_assert_uint_eq(wsd_call_window(call), 3);
    ck_assert_int_eq(wsd_call_feed(call, "four", 4, true), 3);
    ck_assert_uint_eq(wsd_call_window(call), 0);
    peer_expect(&peer, client, FRAME_INPUT);
    ck_assert_uint_eq(peer.frame.body_size, 3);
    client = wsd_client_free(client); /* while `seen` is there */
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* The bytes go as those of any stream. */
START_TEST(input_in_a_pipe_stays_where_it_cannot_travel)
{
    struct seen seen = {0};
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_PIPE};
    struct wsd_submit lasting = {.flags = WSD_SUBMIT_STREAM | WSD_SUBMIT_PIPE | WSD_SUBMIT_DETACH,
                                 .input_fd = STDIN_FILENO};
    struct wsd_submit fed = {.flags = WSD_SUBMIT_STREAM | WSD_SUBMIT_PIPE, .input_fd = STDIN_FILENO};

    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL); /* no STREAM */
    s.flags |= WSD_SUBMIT_STREAM;
    s.input = "x";
    s.input_size = 1;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    struct wsd_call *call = submit_as(&seen, true, fed); /* too old a wsd */
    ck_assert_uint_eq(peer.msg.submit.input_from, INPUT_BODY);
    ck_assert_int_lt(peer.received_fd, 0);
    ck_assert_uint_eq(wsd_call_window(call), WINDOW);
    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD | FEATURE_PIPE);
    submit_as(&seen, true, lasting);
    ck_assert_uint_eq(peer.msg.submit.input_from, INPUT_BODY);
    call = submit_as(&seen, true, (struct wsd_submit){.input_size = 0});
    ck_assert_uint_eq(wsd_call_window(call), 0); /* no stream */
    client = wsd_client_free(client);            /* while `seen` is there */
}
END_TEST

START_TEST(output_to_a_descriptor_travels_with_its_submit)
{
    struct seen seen = {0};
    int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct wsd_submit s = {.flags = WSD_SUBMIT_OUTPUT, .output_fd = out};
    struct stat st, expected;

    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD | FEATURE_OUTPUT);
    ck_assert_int_eq(fstat(out, &expected), 0);
    submit_as(&seen, true, s);
    ck_assert_uint_eq(peer.msg.submit.output_to, OUTPUT_FD);
    ck_assert_int_eq(fstat(peer.received_fd, &st), 0);
    ck_assert(st.st_ino == expected.st_ino && st.st_dev == expected.st_dev);
    s.flags |= WSD_SUBMIT_EITHER;
    submit_as(&seen, true, s);
    ck_assert_uint_eq(peer.msg.submit.output_to, OUTPUT_EITHER);
    client = wsd_client_free(client); /* while `seen` is there */
    close(out);
}
END_TEST

START_TEST(output_to_a_descriptor_is_refused_where_it_cannot_be)
{
    struct seen seen = {0};
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_OUTPUT, .output_fd = STDOUT_FILENO};

    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EOPNOTSUPP); /* too old a wsd */
    ck_assert_int_eq(wsd_client_exit(client), 76);
    submit_as(&seen, true,
              (struct wsd_submit){.flags = WSD_SUBMIT_OUTPUT | WSD_SUBMIT_EITHER, .output_fd = STDOUT_FILENO});
    ck_assert_uint_eq(peer.msg.submit.output_to, OUTPUT_FRAMES);
    ck_assert_int_lt(peer.received_fd, 0); /* by the callback, then */
    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD | FEATURE_OUTPUT | FEATURE_STORE);
    static const uint32_t not_with[] = {WSD_SUBMIT_DETACH, WSD_SUBMIT_DURABLE, WSD_SUBMIT_AGAIN, WSD_SUBMIT_TWICE};
    for (size_t i = 0; i < ARRAY_SIZE(not_with); i++) {
        s.flags = WSD_SUBMIT_OUTPUT | not_with[i];
        ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    }
    s.flags = WSD_SUBMIT_EITHER;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.flags = WSD_SUBMIT_OUTPUT;
    s.key = "key";
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.key = NULL;
    s.retries = 1;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.retries = 0;
    s.output_fd = -1;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EBADF);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(arena_is_refused_where_it_cannot_be)
{
    struct wsd_arena *arena = NULL;

    ck_assert_int_eq(wsd_arena_new(client, 4096, &arena), -EOPNOTSUPP);
    ck_assert_int_eq(wsd_arena_new(client, 0, &arena), -EINVAL);
    ck_assert_int_eq(wsd_arena_new(client, SIZE_MAX, &arena), -EINVAL);
    ck_assert_ptr_null(arena);
    ck_assert_ptr_null(wsd_arena_free(NULL));
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(input_by_file_is_refused_where_it_cannot_be)
{
    struct wsd_submit s = {.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_FILE, .input_size = 1};

    ck_assert(!wsd_client_takes_files(client));
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EOPNOTSUPP);
    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_start(&peer, &client, WINDOW, FEATURE_PAYLOAD | FEATURE_STORE);
    s.input_fd = -1;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EBADF);
    s.input_fd = STDIN_FILENO;
    s.input_offset = INT64_MAX;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.input_offset = 0;
    s.input = "x";
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.input = NULL;
    s.flags |= WSD_SUBMIT_DURABLE;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s.flags = WSD_SUBMIT_FILE | WSD_SUBMIT_STREAM;
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    /* of none */
    s = (struct wsd_submit){.size = sizeof(s), .plugin = "fib", .flags = WSD_SUBMIT_ARENA, .input_size = 1};
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    s = (struct wsd_submit){.size = sizeof(s), .plugin = "fib", .output_size = 1};
    ck_assert_int_eq(wsd_client_submit(client, &s, NULL, NULL), -EINVAL);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(flood_of_wishes_for_files_is_bounded)
{
    const char *args[] = {"/etc/passwd"};
    struct seen seen = {0};
    unsigned before = count_fds();
    uint32_t tag;
    int r = 0;

    submit_as(&seen, true, (struct wsd_submit){.args = args, .n_args = 1});
    tag = peer.frame.tag;
    /* The peer never reads its answers. */
    for (uint32_t i = 0; i < 200000 && r == 0; i++) {
        ask_to_open(tag, i, args[0]);
        r = wsd_client_process(client);
        if (i % 100 == 0)
            ck_assert_uint_le(count_fds(), before + 100);
    }
    ck_assert_int_eq(r, -ECONNRESET);
    ck_assert_uint_eq(seen.done, 1);
}
END_TEST

/* --- anything
 * -------------------------------------------------------------------------------------------------------------------
 */

START_TEST(mutated_answers_never_break_the_library)
{
    uint64_t state = (uint64_t)_i * 1000003 + 1;
    struct seen seen[3] = {{0}, {.hold = 1}, {.free_in_output = true}};
    struct buffer bytes = {0};
    uint32_t tag = 1;

    for (int i = 0; i < 3; i++) {
        submit(&seen[i], i != 0);
        tag = peer.frame.tag;
        write_job(tag, &bytes);
    }
    for (int i = 0; i < 4; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes.data[bytes.start + (state >> 33) % buffer_size(&bytes)] = (uint8_t)(state >> 20);
    }
    for (size_t at = 0; at < buffer_size(&bytes) && wsd_client_process(client) == 0;) {
        size_t n = MIN(1 + (state >> 40) % 50, buffer_size(&bytes) - at);

        peer_send_raw(&peer, buffer_data(&bytes) + at, n);
        at += n;
        state = state * 6364136223846793005u + 1442695040888963407u;
    }
    wsd_client_process(client);
    peer_close(&peer);
    wsd_client_wait(client, SECOND);
    client = wsd_client_free(client);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_le(seen[i].done, 1);
        ck_assert(seen[i].done == 1 || i == 2);
        buffer_deinit(&seen[i].output);
    }
    buffer_deinit(&bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call");
    TCase *tcase = tcase_create("call");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, submit_carries_everything);
    tcase_add_test(tcase, callbacks_tell_all_of_a_job);
    tcase_add_test(tcase, output_is_gathered_without_a_callback);
    tcase_add_test(tcase, call_without_any_callback_works);
    tcase_add_test(tcase, frames_may_come_byte_by_byte);
    tcase_add_test(tcase, flush_writes_and_reads_nothing);
    tcase_add_test(tcase, flush_tells_of_a_connection_that_is_over);
    tcase_add_test(tcase, many_calls_end_in_any_order);
    tcase_add_test(tcase, attached_call_gets_output_and_end);
    tcase_add_test(tcase, wait_gives_up_after_its_time);
    tcase_add_loop_test(tcase, a_wait_without_end_gets_the_answer_whatever_interrupts, 0, 4);
    tcase_add_loop_test(tcase, a_signal_ends_the_wait_of_a_loop, 0, 4);
    tcase_add_loop_test(tcase, refusal_is_told_with_its_code, 0, (int)ARRAY_SIZE(refusals));
    tcase_add_test(tcase, limits_are_held_before_anything_is_sent);
    tcase_add_loop_test(tcase, every_open_call_ends_once_however_it_breaks, 0, N_BREAKAGES);
    tcase_add_loop_test(tcase, durable_job_is_not_lost_with_a_wsd_that_ends_in_order, 0, 2);
    tcase_add_test(tcase, call_may_be_freed_in_its_callbacks);
    tcase_add_test(tcase, wait_survives_a_call_that_its_callback_frees);
    tcase_add_test(tcase, wait_in_the_own_output_callback_is_refused);
    tcase_add_test(tcase, question_inside_an_output_callback_keeps_order_and_data);
    tcase_add_test(tcase, cancel_is_asked_for_once);
    tcase_add_test(tcase, freed_call_is_cancelled);
    tcase_add_test(tcase, freed_detached_call_goes_on_and_its_output_flows);
    tcase_add_test(tcase, freed_detached_call_is_forgotten);
    tcase_add_test(tcase, freed_detached_call_without_its_input_is_cancelled);
    tcase_add_test(tcase, output_is_granted_as_it_is_taken);
    tcase_add_test(tcase, held_output_is_neither_told_nor_granted);
    tcase_add_test(tcase, resumed_output_is_granted_again);
    tcase_add_loop_test(tcase, room_of_a_large_output_is_kept_below_a_limit, 0, (int)ARRAY_SIZE(rooms));
    tcase_add_test(tcase, next_large_output_lies_in_the_room_of_the_last);
    tcase_add_test(tcase, what_comes_after_output_was_taken_is_gathered_anew);
    tcase_add_loop_test(tcase, output_is_taken_away, 0, ARRAY_SIZE(taken_sizes));
    tcase_add_test(tcase, room_that_is_kept_grows);
    tcase_add_loop_test(tcase, room_goes_with_a_call_that_has_no_use_for_it, 0, (int)ARRAY_SIZE(small_sizes));
    tcase_add_test(tcase, small_calls_take_no_room_that_is_in_use);
    tcase_add_test(tcase, calls_at_once_share_no_room);
    tcase_add_test(tcase, call_that_is_freed_half_way_leaves_its_room);
    tcase_add_test(tcase, held_output_waits_in_the_room);
    tcase_add_test(tcase, large_input_keeps_to_the_window);
    tcase_add_test(tcase, refusal_stops_the_input);
    tcase_add_test(tcase, streamed_input_keeps_to_the_window);
    tcase_add_test(tcase, input_can_end_without_a_byte);
    tcase_add_test(tcase, feeding_a_call_that_does_not_stream_is_refused);
    tcase_add_test(tcase, files_are_opened_from_where_the_client_was);
    tcase_add_test(tcase, descriptors_travel_with_their_own_frames);
    tcase_add_test(tcase, input_by_file_travels_with_its_submit);
    tcase_add_test(tcase, input_in_a_pipe_travels_with_its_submit);
    tcase_add_test(tcase, input_in_a_pipe_stays_where_it_cannot_travel);
    tcase_add_test(tcase, output_to_a_descriptor_travels_with_its_submit);
    tcase_add_test(tcase, output_to_a_descriptor_is_refused_where_it_cannot_be);
    tcase_add_test(tcase, arena_is_refused_where_it_cannot_be);
    tcase_add_test(tcase, input_by_file_is_refused_where_it_cannot_be);
    tcase_add_test(tcase, flood_of_wishes_for_files_is_bounded);
    tcase_add_loop_test(tcase, mutated_answers_never_break_the_library, 0, 300);
    tcase_add_test(tcase, a_wait_for_a_call_that_leaves_gives_its_id);
    tcase_add_test(tcase, a_call_that_leaves_ends_when_it_is_accepted);
    tcase_add_test(tcase, only_a_detached_call_can_leave);
    tcase = tcase_create("call of a wsd that knows FINISHED");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup_brief, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, output_and_end_come_in_one_frame);
    tcase_add_test(tcase, held_output_holds_the_end_too);
    tcase_add_test(tcase, a_call_without_callbacks_needs_no_acceptance);
    tcase_add_test(tcase, a_call_that_leaves_ends_when_it_is_accepted);
    tcase_add_test(tcase, frames_may_come_byte_by_byte);
    tcase_add_loop_test(tcase, mutated_answers_never_break_the_library, 0, 300);
    tcase = tcase_create("call of a wsd that knows FORGET");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup_forget, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_call_that_leaves_ends_when_it_is_accepted);
    return run_suite(suite);
}
