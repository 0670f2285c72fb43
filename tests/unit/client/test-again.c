/* SPDX-License-Identifier: Apache-2.0
 *
 * test-again.c: calls that the library submits again when their connection has ended (WSD_SUBMIT_AGAIN, TWICE): which
 * are, and which are not; each is told once. The test plays one wsd after the other. */
#include "peer.h"
#include "proto/records.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>

#define SECOND  1000000u
#define CALLS   200u
#define REPEATS 5u /* as the header says */

static struct peer peer;
static struct wsd_client *client;

struct told {
    struct wsd_call *call;
    unsigned n_done, n_accepted, n_output;
    int error, exit;
    enum wsd_job_state state;
    void (*then)(struct told *t); /* in done */
};

static struct told told[CALLS];
static unsigned n_states, n_rooms, n_done, fds_before;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    ((struct told *)userdata)->n_accepted++;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    ((struct told *)userdata)->n_output++;
    return 0;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct told *t = userdata;

    n_done++;
    t->n_done++;
    t->error = error;
    t->exit = error ? wsd_client_exit(client) : info ? info->exit : 0;
    t->state = info ? info->state : 0;
    if (t->then)
        t->then(t);
}

static void on_state(int error, void *userdata)
{
    n_states++;
}

static void on_room(void *userdata)
{
    n_rooms++;
}

static void setup(void)
{
    const struct wsd_open how = {.size = sizeof(how), .socket = peer.path, .flags = WSD_OPEN_AGAIN, .state = on_state};

    memset(told, 0, sizeof(told));
    n_states = n_rooms = n_done = 0;
    peer_init(&peer, PEER_WELCOME, 1 << 20);
    peer.features = FEATURE_ARRAY | FEATURE_BRIEF | FEATURE_STORE | FEATURE_PAYLOAD;
    fds_before = count_fds();
    ck_assert_int_eq(wsd_client_open_with(&client, &how), 0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

/* As a loop does. */
static void turn(void)
{
    struct pollfd p = {.fd = wsd_client_fd(client), .events = wsd_client_events(client)};
    uint64_t usec = wsd_client_timeout_usec(client);

    poll(&p, 1, usec < SECOND ? (int)(usec / 1000) + 1 : 10);
    ck_assert_int_eq(wsd_client_process(client), 0);
}

static void connect_it(void)
{
    peer_accept(&peer, client);
    for (int i = 0; i < 1000 && !wsd_client_connected(client); i++)
        turn();
    ck_assert(wsd_client_connected(client));
}

/* wsd is away, as the client knows. */
static void lose(void)
{
    peer_close(&peer);
    buffer_drop(&peer.in, buffer_size(&peer.in));
    peer.used = 0;
    for (int i = 0; i < 1000 && wsd_client_connected(client); i++)
        turn();
    ck_assert(!wsd_client_connected(client));
    turn();
}

static int submit_job(struct told *t, const struct wsd_submit *job)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = t};

    return wsd_client_submit(client, job, &callbacks, &t->call);
}

/* One that goes by itself. */
static int submit(struct told *t, uint32_t flags)
{
    return submit_job(t, &(struct wsd_submit){.size = sizeof(struct wsd_submit),
                                              .plugin = "p",
                                              .input = "in",
                                              .input_size = 2,
                                              .retries = 1,
                                              .flags = flags});
}

static void expect_submit(void)
{
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_str_eq(peer.msg.submit.plugin.data, "p");
    ck_assert_mem_eq(peer.frame.body, "in", 2);
}

static void end_it(struct told *t)
{
    peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    for (int i = 0; i < 1000 && !t->n_done; i++)
        turn();
    ck_assert_uint_eq(t->n_done, 1);
    ck_assert_int_eq(t->error, 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}

/* --- which are repeated ------------------------------------------------------------------------------------------- */

START_TEST(one_that_is_submitted_without_a_connection_waits_for_it)
{
    ck_assert_int_eq(submit(&told[0], 0), -EAGAIN);
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), 1);
    connect_it();
    expect_submit();
    end_it(&told[0]);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(one_that_was_not_sent_is_submitted_again)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0); /* it is in the output only */
    lose();
    ck_assert_uint_eq(told[0].n_done, 0);
    connect_it();
    expect_submit();
    end_it(&told[0]);
}
END_TEST

START_TEST(one_that_may_have_run_is_not)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    expect_submit();
    lose();
    ck_assert_uint_eq(told[0].n_done, 1);
    ck_assert_int_eq(told[0].error, -ECONNRESET);
    ck_assert_int_eq(told[0].exit, 125);
    connect_it();
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_eq(told[0].n_done, 1);
}
END_TEST

START_TEST(unless_it_may_run_twice)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
    expect_submit();
    lose();
    ck_assert_uint_eq(told[0].n_done, 0);
    connect_it();
    expect_submit();
    end_it(&told[0]);
}
END_TEST

/* Or is in wsd's store, by its key: not with one of both. */
START_TEST(or_wsd_knows_it_by_its_key)
{
    const struct wsd_submit job = {.size = sizeof(job),
                                   .plugin = "p",
                                   .key = _i == 1 ? NULL : "k",
                                   .flags = WSD_SUBMIT_AGAIN | (_i == 2 ? 0 : WSD_SUBMIT_DURABLE)};

    connect_it();
    ck_assert_int_eq(submit_job(&told[0], &job), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    lose();
    ck_assert_uint_eq(told[0].n_done, _i != 0);
    connect_it();
    if (_i)
        return;
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_str_eq(peer.msg.submit.key.data, "k");
    end_it(&told[0]);
}
END_TEST

START_TEST(not_more_often_than_that)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
    for (unsigned i = 0; i < REPEATS; i++) {
        expect_submit();
        lose();
        ck_assert_uint_eq(told[0].n_done, 0);
        connect_it();
    }
    expect_submit();
    lose();
    ck_assert_uint_eq(told[0].n_done, 1);
    ck_assert_int_eq(told[0].error, -ECONNRESET);
    ck_assert_int_eq(told[0].exit, 125);
}
END_TEST

START_TEST(what_was_never_sent_has_no_such_bound)
{
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    for (unsigned i = 0; i < REPEATS + 1; i++) {
        peer.greeting = PEER_CLOSE;
        peer_accept(&peer, client);
        lose();
    }
    peer.greeting = PEER_WELCOME;
    connect_it();
    expect_submit();
    end_it(&told[0]);
}
END_TEST

START_TEST(many_are_in_their_order)
{
    char numbers[CALLS][8];

    connect_it();
    for (unsigned i = 0; i < CALLS; i++) {
        const char *const args[] = {numbers[i]};

        snprintf(numbers[i], sizeof(numbers[i]), "%u", i);
        ck_assert_int_eq(submit_job(&told[i], &(struct wsd_submit){.size = sizeof(struct wsd_submit),
                                                                   .plugin = "p",
                                                                   .args = args,
                                                                   .n_args = 1,
                                                                   .flags = WSD_SUBMIT_TWICE}),
                         0);
        if (i == CALLS / 2) {
            peer_expect(&peer, client, FRAME_ARRAY);
            ck_assert_int_eq(wsd_client_flush(client), 0);
            lose();
        }
    }
    ck_assert_uint_eq(wsd_client_open_calls(client), CALLS);
    ck_assert_uint_gt(wsd_client_unsent(client), 0);
    connect_it();
    for (unsigned i = 0; i < CALLS;) {
        peer_expect(&peer, client, FRAME_ARRAY);
        struct span left = {(const char *)peer.frame.body, peer.frame.body_size};
        uint32_t n = peer.msg.submit.items;

        for (uint32_t k = 0; k < n; k++, i++) {
            struct msg_item item;

            ck_assert(codec_next_item(&left, &item));
            ck_assert_str_eq(item.args.data, numbers[i]);
        }
    }
    ck_assert_uint_eq(n_done, 0);
    client = wsd_client_free(client);
    ck_assert_uint_eq(n_done, CALLS);
    for (unsigned i = 0; i < CALLS; i++) {
        ck_assert_uint_eq(told[i].n_done, 1);
        ck_assert_int_eq(told[i].error, -ECONNRESET);
    }
}
END_TEST

/* --- what stands in its way --------------------------------------------------------------------------------------- */

/* Told to a callback, taken away, or only gathered. */
START_TEST(output_that_was_told_is_not_told_again)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = _i == 0 ? on_output : NULL, .done = on_done, .userdata = &told[0]};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .retries = 1, .flags = WSD_SUBMIT_TWICE};
    size_t size = 0;

    connect_it();
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, &told[0].call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_output(&peer, peer.frame.tag, 0, "out", 3);
    for (int i = 0; i < 1000 && !told[0].n_output && !size; i++) {
        turn();
        wsd_call_output(told[0].call, &size);
    }
    if (_i == 1)
        free(wsd_call_take_output(told[0].call, &size));
    lose();
    ck_assert_uint_eq(told[0].n_done, _i != 2);
    if (_i != 2)
        return;
    wsd_call_output(told[0].call, &size);
    ck_assert_uint_eq(size, 0);
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_output(&peer, peer.frame.tag, 0, "other", 5);
    end_it(&told[0]);
    ck_assert_mem_eq(wsd_call_output(told[0].call, &size), "other", 5);
    ck_assert_uint_eq(size, 5);
}
END_TEST

START_TEST(a_deadline_ends_the_wait)
{
    struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = 30000, .flags = WSD_SUBMIT_TWICE};

    if (_i)
        connect_it();
    ck_assert_int_eq(submit_job(&told[0], &job), 0);
    if (_i) {
        peer_expect(&peer, client, FRAME_SUBMIT);
        lose();
    }
    while (!n_done)
        turn();
    ck_assert_int_eq(told[0].error, -ETIMEDOUT);
    ck_assert_int_eq(told[0].exit, _i ? 125 : 124);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
    connect_it();
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

/* Not before the next try to connect, nor only with the next connection. */
START_TEST(also_while_there_is_none)
{
    const struct wsd_submit job = {
        .size = sizeof(job), .plugin = "p", .deadline_usec = 5000, .flags = WSD_SUBMIT_TWICE};

    connect_it();
    peer.listen_fd = close_fd(peer.listen_fd);
    lose();
    ck_assert_int_eq(submit_job(&told[0], &job), 0);
    ck_assert_uint_le(wsd_client_timeout_usec(client), 5000);
    for (int i = 0; i < 100 && !n_done; i++)
        turn();
    ck_assert_int_eq(told[0].error, -ETIMEDOUT);
}
END_TEST

START_TEST(one_that_was_cancelled_is_not_repeated)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
    expect_submit();
    ck_assert_int_eq(wsd_call_cancel(told[0].call), 0);
    lose();
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(told[0].error, -ECONNRESET);
}
END_TEST

/* It has come of an array, as the second of it. */
START_TEST(one_that_is_alone_now_is_the_first)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .flags = WSD_SUBMIT_TWICE};

    connect_it();
    ck_assert_int_eq(submit_job(&told[0], &job), 0);
    ck_assert_int_eq(submit_job(&told[1], &job), 0);
    peer_expect(&peer, client, FRAME_ARRAY);
    lose();
    wsd_call_free(told[0].call);
    peer.features = FEATURE_BRIEF; /* this one knows no arrays */
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_int_eq(wsd_call_cancel(told[1].call), 0);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert_uint_eq(peer.msg.id.item, 0);
    end_it(&told[1]);
}
END_TEST

START_TEST(one_that_waits_may_be_cancelled_and_freed)
{
    if (_i & 1)
        connect_it();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(submit(&told[i], WSD_SUBMIT_TWICE), 0);
    if (_i & 1) {
        for (int i = 0; i < 3; i++)
            expect_submit();
        lose();
    }
    ck_assert_int_eq(wsd_call_cancel(told[0].call), 0);
    ck_assert_int_eq(wsd_call_cancel(told[0].call), 0);
    ck_assert_ptr_null(wsd_call_free(told[1].call));
    ck_assert_uint_eq(n_done, 0);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(told[0].n_done, 1);
    ck_assert_int_eq(told[0].error, _i & 1 ? -ECONNRESET : 0);
    ck_assert_int_eq(told[0].exit, _i & 1 ? 125 : 130);
    ck_assert_int_eq(told[0].state, _i & 1 ? 0 : WSD_JOB_CANCELLED);
    ck_assert_uint_eq(wsd_client_open_calls(client), 1);
    connect_it();
    expect_submit();
    end_it(&told[2]);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(a_refusal_is_told)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
    expect_submit();
    peer_send_error(&peer, peer.frame.tag, 75, "full");
    while (!n_done)
        turn();
    ck_assert_int_eq(told[0].error, -EAGAIN);
    lose();
    connect_it();
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(what_the_next_wsd_cannot_do_is_told)
{
    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0); /* with retries */
    expect_submit();
    lose();
    peer.features = 0;
    connect_it();
    while (!n_done)
        turn();
    ck_assert_int_eq(told[0].error, -EOPNOTSUPP);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(wrong_ones_are_refused)
{
    static const uint32_t flags[] = {WSD_SUBMIT_AGAIN | WSD_SUBMIT_STREAM, WSD_SUBMIT_AGAIN | 1u << 30};
    const struct wsd_open plain = {.size = sizeof(plain), .socket = peer.path, .flags = WSD_OPEN_LATER};
    struct wsd_client *other;

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        ck_assert_int_eq(submit(&told[0], flags[i]), -EINVAL);
        ck_assert_ptr_null(told[0].call);
    }
    ck_assert_int_eq(
        submit_job(&told[0],
                   &(struct wsd_submit){.size = sizeof(struct wsd_submit), .plugin = "", .flags = WSD_SUBMIT_AGAIN}),
        -EINVAL);
    ck_assert_int_eq(wsd_client_open_with(&other, &plain), 0);
    ck_assert_int_eq(
        wsd_client_submit(
            other, &(struct wsd_submit){.size = sizeof(struct wsd_submit), .plugin = "p", .flags = WSD_SUBMIT_AGAIN},
            NULL, NULL),
        -EINVAL);
    wsd_client_free(other);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

START_TEST(those_that_wait_count)
{
    ck_assert_int_eq(wsd_client_set_bounds(client, 1000000, 2, on_room, NULL), 0);
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    ck_assert_int_eq(submit(&told[1], WSD_SUBMIT_AGAIN), 0);
    ck_assert_int_eq(submit(&told[2], WSD_SUBMIT_AGAIN), -EAGAIN);
    ck_assert_int_eq(wsd_client_set_bounds(client, 1, 0, on_room, NULL), 0);
    ck_assert_int_eq(submit(&told[2], WSD_SUBMIT_AGAIN), -EAGAIN);
    connect_it();
    expect_submit();
    expect_submit();
    turn();
    ck_assert_uint_eq(n_rooms, 1);
    ck_assert_uint_eq(wsd_client_unsent(client), 0);
}
END_TEST

START_TEST(a_file_stays_open_for_it)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct wsd_submit job = {.size = sizeof(job),
                             .plugin = "p",
                             .input_fd = fd,
                             .input_size = 4,
                             .flags = WSD_SUBMIT_TWICE | WSD_SUBMIT_FILE};

    ck_assert_int_eq(submit_job(&told[0], &job), 0);
    close(fd);
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    lose();
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    char bytes[4];
    ck_assert_int_eq(pread(peer.received_fd, bytes, 4, 0), 4);
    ck_assert_mem_eq(bytes, "\177ELF", 4);
    end_it(&told[0]);
    told[0].call = wsd_call_free(told[0].call);
    client = wsd_client_free(client);
    peer_close(&peer);
    peer.received_fd = close_fd(peer.received_fd);
    ck_assert_uint_eq(count_fds(), fds_before);
}
END_TEST

/* --- what may happen meanwhile ------------------------------------------------------------------------------------ */

START_TEST(a_wait_connects_again)
{
    const struct wsd_job_info *info = NULL;
    pid_t other;

    if (_i) {
        connect_it();
        ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
        expect_submit();
        peer_close(&peer);
        buffer_drop(&peer.in, buffer_size(&peer.in));
        peer.used = 0;
    } else {
        ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
        ck_assert_int_eq(wsd_call_wait(told[0].call, 1000, NULL), -ETIMEDOUT);
    }
    other = fork();
    if (other == 0) { /* the next wsd */
        wsd_client_free(client);
        peer_accept(&peer, NULL);
        peer_expect(&peer, NULL, FRAME_SUBMIT);
        peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
        _exit(0);
    }
    ck_assert_int_eq(wsd_call_wait(told[0].call, 10 * SECOND, &info), 0);
    ck_assert_int_eq(info->state, WSD_JOB_SUCCEEDED);
    ck_assert_uint_eq(told[0].n_done, 1);
    waitpid(other, NULL, 0);
}
END_TEST

static void wait_in_it(struct told *t)
{
    ck_assert_int_eq(wsd_call_wait(told[1].call, 10 * SECOND, NULL), -EDEADLK);
    ck_assert_int_eq(wsd_client_wait(client, 10 * SECOND), -EDEADLK);
}

START_TEST(a_wait_in_a_callback_does_not_hang)
{
    connect_it();
    told[0].then = wait_in_it;
    ck_assert_int_eq(submit(&told[1], WSD_SUBMIT_TWICE), 0);
    ck_assert_int_eq(submit(&told[0], 0), 0);
    expect_submit();
    expect_submit();
    lose();
    ck_assert_uint_eq(told[0].n_done, 1);
    connect_it();
    expect_submit();
    end_it(&told[1]);
}
END_TEST

static void free_in_it(struct told *t)
{
    client = wsd_client_free(client);
}

static void submit_in_it(struct told *t)
{
    struct told *next = t + 2;

    next->then = submit_in_it;
    if (next < told + CALLS)
        ck_assert_int_eq(submit(next, WSD_SUBMIT_AGAIN), 0);
}

/* Told out of the turn that submits again: the next wsd lacks what it needs. There is always another one that waits. */
START_TEST(a_callback_may_submit_more)
{
    told[0].then = told[1].then = submit_in_it;
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    ck_assert_int_eq(submit(&told[1], WSD_SUBMIT_AGAIN), 0);
    peer.features = 0;
    peer_accept(&peer, client);
    while (n_done == 0)
        turn();
    ck_assert_uint_eq(n_done, 2); /* a turn has its end */
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
        turn();
        ck_assert_uint_eq(n_done, 4 + 2 * i);
    }
    for (unsigned i = 0; i < CALLS; i++)
        told[i].then = NULL;
}
END_TEST

START_TEST(a_callback_may_free_the_handle)
{
    told[_i].then = free_in_it;
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(submit(&told[i], WSD_SUBMIT_AGAIN), 0);
    peer.features = 0;
    peer_accept(&peer, client);
    while (client) {
        int r = wsd_client_process(client);

        ck_assert_int_eq(r, client ? 0 : -ECONNRESET);
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(told[i].n_done, 1);
}
END_TEST

START_TEST(a_handle_that_is_freed_tells_each)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(submit(&told[i], WSD_SUBMIT_AGAIN), 0);
    client = wsd_client_free(client);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(told[i].n_done, 1);
        ck_assert_int_eq(told[i].error, -ECONNRESET);
    }
}
END_TEST

static void submit_to_the_freed(struct told *t)
{
    ck_assert_int_lt(submit(&told[9], WSD_SUBMIT_AGAIN), 0);
    ck_assert_ptr_null(told[9].call);
}

START_TEST(and_takes_no_more)
{
    told[0].then = submit_to_the_freed;
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_AGAIN), 0);
    client = wsd_client_free(client);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

/* It neither repeats nor tells, until it has adopted the handle. */
START_TEST(a_child_repeats_nothing)
{
    int status;

    connect_it();
    ck_assert_int_eq(submit(&told[0], WSD_SUBMIT_TWICE), 0);
    expect_submit();
    lose();
    pid_t child = fork();
    if (child == 0) {
        if (_i) {
            if (wsd_client_adopt(client) < 0)
                _exit(1);
            for (int i = 0; i < 1000 && !n_done; i++)
                turn();
            _exit(told[0].error == 0 && n_done == 1 ? 0 : 2);
        }
        bool refused = wsd_client_process(client) == -ECHILD;
        wsd_client_free(client);
        _exit(refused && !n_done ? 0 : 3);
    }
    if (_i) {
        peer_accept(&peer, NULL);
        peer_expect(&peer, NULL, FRAME_SUBMIT);
        peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    if (_i)
        return;
    connect_it();
    expect_submit();
    end_it(&told[0]);
}
END_TEST

static void wake(void *userdata)
{
}

START_TEST(one_that_was_posted_is_one_too)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = &told[0]};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .flags = WSD_SUBMIT_TWICE};

    ck_assert_int_eq(wsd_client_set_wake(client, wake, NULL), 0);
    ck_assert_int_eq(wsd_client_post(client, &job, &callbacks), 0);
    turn();
    ck_assert_uint_eq(n_done, 0);
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    lose();
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    while (!n_done)
        turn();
    ck_assert_int_eq(told[0].error, 0);
}
END_TEST

/* Accepted is told for each connection; one that is to leave, until it is accepted. */
START_TEST(one_that_leaves_is_repeated_until_it_is_accepted)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .accepted = on_accepted, .done = on_done, .userdata = &told[0]};
    const struct wsd_submit job = {.size = sizeof(job),
                                   .plugin = "p",
                                   .flags = WSD_SUBMIT_TWICE | WSD_SUBMIT_DETACH | (_i ? 0 : WSD_SUBMIT_LEAVE)};

    connect_it();
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, &told[0].call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    if (_i) {
        peer_send_accepted(&peer, peer.frame.tag);
        while (!told[0].n_accepted)
            turn();
    }
    lose();
    connect_it();
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_accepted(&peer, peer.frame.tag);
    if (_i)
        peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    for (int i = 0; i < 1000 && !n_done; i++)
        turn();
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(told[0].error, 0);
    ck_assert_uint_eq(told[0].n_accepted, _i ? 2 : 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("again");
    TCase *which = tcase_create("which"), *meanwhile = tcase_create("meanwhile");

    tcase_add_checked_fixture(which, setup, teardown);
    tcase_set_timeout(which, 60);
    suite_add_tcase(suite, which);
    tcase_add_test(which, one_that_is_submitted_without_a_connection_waits_for_it);
    tcase_add_test(which, one_that_was_not_sent_is_submitted_again);
    tcase_add_test(which, one_that_may_have_run_is_not);
    tcase_add_test(which, unless_it_may_run_twice);
    tcase_add_loop_test(which, or_wsd_knows_it_by_its_key, 0, 3);
    tcase_add_test(which, not_more_often_than_that);
    tcase_add_test(which, what_was_never_sent_has_no_such_bound);
    tcase_add_test(which, many_are_in_their_order);
    tcase_add_loop_test(which, output_that_was_told_is_not_told_again, 0, 3);
    tcase_add_loop_test(which, a_deadline_ends_the_wait, 0, 2);
    tcase_add_test(which, also_while_there_is_none);
    tcase_add_test(which, one_that_was_cancelled_is_not_repeated);
    tcase_add_test(which, one_that_is_alone_now_is_the_first);
    tcase_add_loop_test(which, one_that_waits_may_be_cancelled_and_freed, 0, 2);
    tcase_add_test(which, a_refusal_is_told);
    tcase_add_test(which, what_the_next_wsd_cannot_do_is_told);
    tcase_add_test(which, wrong_ones_are_refused);
    tcase_add_test(which, those_that_wait_count);
    tcase_add_test(which, a_file_stays_open_for_it);
    tcase_add_checked_fixture(meanwhile, setup, teardown);
    tcase_set_timeout(meanwhile, 60);
    suite_add_tcase(suite, meanwhile);
    tcase_add_loop_test(meanwhile, a_wait_connects_again, 0, 2);
    tcase_add_test(meanwhile, a_wait_in_a_callback_does_not_hang);
    tcase_add_test(meanwhile, a_callback_may_submit_more);
    tcase_add_loop_test(meanwhile, a_callback_may_free_the_handle, 0, 3);
    tcase_add_test(meanwhile, a_handle_that_is_freed_tells_each);
    tcase_add_test(meanwhile, and_takes_no_more);
    tcase_add_loop_test(meanwhile, a_child_repeats_nothing, 0, 2);
    tcase_add_test(meanwhile, one_that_was_posted_is_one_too);
    tcase_add_loop_test(meanwhile, one_that_leaves_is_repeated_until_it_is_accepted, 0, 2);
    return run_suite(suite);
}
