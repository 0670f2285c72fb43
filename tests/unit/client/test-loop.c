/* SPDX-License-Identifier: Apache-2.0
 *
 * test-loop.c: what an event loop calls, and is told: connecting without waiting, again and again; deadlines; the
 * descriptor and its events. */
#include "client/client.h"
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <wsd/adapters/epoll.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static struct wsd_call *call;
static unsigned n_done, n_rooms, n_states, n_output;
static int last_error, last_exit, last_state;
static bool free_in_state;
static struct {
    unsigned n, n_closed;
    int fd;
    short events;
    uint64_t timeout_usec;
} watched;

static void setup(void)
{
    n_done = n_rooms = n_states = n_output = 0;
    last_error = last_state = 1;
    free_in_state = false;
    memset(&watched, 0, sizeof(watched));
    watched.fd = -1;
    client = NULL;
    peer_init(&peer, PEER_WELCOME, 1 << 20);
    peer.features = FEATURE_ARRAY | FEATURE_BRIEF;
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static void on_done(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    last_error = error;
    last_exit = wsd_client_exit(client);
    ck_assert(!error == (info != NULL));
}

static int on_output(struct wsd_call *c, const void *data, size_t size, void *userdata)
{
    n_output++;
    return 0;
}

static void on_room(void *userdata)
{
    n_rooms++;
}

static void on_state(int error, void *userdata)
{
    n_states++;
    last_state = error;
    if (free_in_state)
        client = wsd_client_free(client);
}

static void on_watch(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    if (!events && fd >= 0) { /* it is still open: another loop than poll(2) may ask the kernel to forget it */
        ck_assert_int_eq(fd, watched.fd);
        ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
        fd = -1;
        watched.n_closed++;
    }
    watched.n++;
    watched.fd = fd;
    watched.events = events;
    watched.timeout_usec = timeout_usec;
}

/* One job, which may take so long. */
static int submit(uint64_t deadline_usec)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .output = on_output};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = deadline_usec};

    return wsd_client_submit(client, &job, &callbacks, &call);
}

static int open_later(uint32_t flags, uint64_t timeout_usec)
{
    const struct wsd_open how = {
        .size = sizeof(how), .socket = peer.path, .timeout_usec = timeout_usec, .flags = flags, .state = on_state};

    return wsd_client_open_with(&client, &how);
}

/* As a loop does: waits for what the handle wants, for at most 10 ms more than it says. */
static int turn(void)
{
    struct pollfd p = {.fd = wsd_client_fd(client), .events = wsd_client_events(client)};
    uint64_t usec = wsd_client_timeout_usec(client);

    poll(&p, 1, usec < SECOND ? (int)(usec / 1000) + 1 : 10);
    return wsd_client_process(client);
}

/* That of the connection before. */
static void forget_input(void)
{
    buffer_drop(&peer.in, buffer_size(&peer.in));
    peer.used = 0;
}

static void turn_until_told(unsigned n)
{
    for (int i = 0; i < 1000 && n_states < n; i++)
        ck_assert_int_eq(turn(), 0);
    ck_assert_uint_eq(n_states, n);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

START_TEST(a_deadline_cancels_the_job_and_is_told_once)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    ck_assert_int_eq(submit(1), 0);
    ck_assert_uint_le(wsd_client_timeout_usec(client), 1);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    ck_assert_uint_eq(n_done, 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, -ETIMEDOUT);
    ck_assert_int_eq(wsd_client_exit(client), 125); /* it may have run */
    ck_assert_uint_eq(wsd_client_open_calls(client), 1);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    ck_assert_int_eq(wsd_call_wait(call, 0, NULL), -ETIMEDOUT);
    if (_i == 1)
        call = wsd_call_free(call); /* before its end */
    peer_send_output(&peer, peer.frame.tag, 0, "late", 4);
    peer_send_done(&peer, peer.frame.tag, 7, 130, "");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_eq(n_output, 0);
    wsd_call_free(call);
}
END_TEST

/* The loop was busy for longer than that. */
START_TEST(an_end_that_has_come_counts_more_than_the_deadline)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(submit(1000), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    while (wsd_client_timeout_usec(client) > 0)
        ;
    ck_assert_int_eq(_i == 0   ? wsd_client_process(client)
                     : _i == 1 ? wsd_client_process_some(client, 10)
                               : wsd_client_wait(client, SECOND),
                     0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
}
END_TEST

START_TEST(a_call_that_has_ended_has_no_deadline)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(submit(SECOND), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_le(wsd_client_timeout_usec(client), SECOND);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
}
END_TEST

START_TEST(the_first_of_many_deadlines_counts)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(submit(100 * (uint64_t)SECOND), 0);
    ck_assert_int_eq(submit(1), 0);
    ck_assert_int_eq(submit(50 * (uint64_t)SECOND), 0);
    ck_assert_int_eq(wsd_client_wait(client, SECOND), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_gt(wsd_client_timeout_usec(client), 40 * (uint64_t)SECOND);
    ck_assert_uint_le(wsd_client_timeout_usec(client), 50 * (uint64_t)SECOND);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_uint_eq(n_done, 3);
}
END_TEST

/* --- the end of the connection ------------------------------------------------------------------------------------ */

/* 0: one that waits, 1: several, which go in one frame, 2: one with input that has to be sent by itself; + 3: sent */
START_TEST(what_was_not_sent_has_not_run)
{
    static char input[100000];
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit job = {
        .size = sizeof(job), .plugin = "p", .input = input, .input_size = _i % 3 == 2 ? sizeof(input) : 0};
    unsigned n = _i % 3 == 1 ? 5 : 1;

    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    if (_i >= 3)
        ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_uint_eq(n_done, n);
    ck_assert_int_eq(last_error, -ECONNRESET);
    ck_assert_int_eq(last_exit, _i < 3 ? 69 : 125);
}
END_TEST

/* --- bounds ------------------------------------------------------------------------------------------------------- */

START_TEST(calls_have_a_bound)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 2, on_room, NULL), 0);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(0), -EAGAIN);
    ck_assert_int_eq(wsd_client_exit(client), 75);
    peer_expect(&peer, client, FRAME_ARRAY);
    ck_assert_uint_eq(n_rooms, 0);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

START_TEST(room_is_told_when_a_call_may_be_made_again)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 1, on_room, NULL), 0);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(0), -EAGAIN);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(n_rooms, 0);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_rooms, 1);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_rooms, 1);
}
END_TEST

START_TEST(room_is_told_after_other_bounds_were_set)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 1, on_room, NULL), 0);
    ck_assert_int_eq(submit(0), 0);
    ck_assert_int_eq(submit(0), -EAGAIN);
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 2, on_room, NULL), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_rooms, 1);
}
END_TEST

/* --- connecting --------------------------------------------------------------------------------------------------- */

START_TEST(opening_later_does_not_wait)
{
    const struct wsd_filter where = {.size = sizeof(where), .states = 1u << WSD_JOB_QUEUED};
    const struct wsd_call_request request = {.size = sizeof(request), .plugin = "p"};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    struct wsd_call_result result = {.size = sizeof(result)};
    struct wsd_arena *arena;
    struct wsd_batch *batch;

    ck_assert_int_eq(open_later(WSD_OPEN_LATER, SECOND), 0);
    ck_assert(!wsd_client_connected(client));
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 0, on_room, NULL), 0);
    ck_assert_int_eq(submit(0), -EAGAIN);
    ck_assert_int_eq(wsd_client_exit(client), 69);
    ck_assert_int_eq(wsd_client_ping(client, NULL), -EAGAIN);
    ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), -EAGAIN);
    ck_assert_int_eq(wsd_client_attach(client, &(struct wsd_id){{1}}, NULL, NULL), -EAGAIN);
    ck_assert_int_eq(wsd_client_cancel_where(client, &where, NULL), -EAGAIN);
    ck_assert_int_eq(wsd_arena_new(client, 4096, &arena), -EAGAIN);
    ck_assert_int_eq(wsd_call(client, &request, &result), -EAGAIN);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_states, 0);
    ck_assert_uint_le(wsd_client_timeout_usec(client), SECOND);
    peer_accept(&peer, client);
    turn_until_told(1);
    ck_assert_int_eq(last_state, 0);
    ck_assert_uint_eq(n_rooms, 1);
    ck_assert(wsd_client_connected(client));
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    ck_assert_int_eq(submit(0), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_uint_eq(n_states, 2);
    ck_assert_int_eq(last_state, -ECONNRESET);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
}
END_TEST

/* Where another call than the loop's finds the end of the connection. */
START_TEST(an_end_is_told_whatever_call_finds_it)
{
    ck_assert_int_eq(open_later(_i == 0 ? WSD_OPEN_LATER : WSD_OPEN_AGAIN, SECOND), 0);
    peer_accept(&peer, client);
    turn_until_told(1);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_ping(client, NULL), -ECONNRESET);
    ck_assert_uint_eq(n_states, 1);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    ck_assert_int_eq(wsd_client_process(client), _i == 0 ? -ECONNRESET : 0);
    ck_assert_uint_eq(n_states, 2);
    ck_assert_uint_gt(wsd_client_timeout_usec(client), 0);
}
END_TEST

static void free_it(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    client = wsd_client_free(client);
}

START_TEST(a_handle_may_be_freed_at_a_deadline)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = free_it};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = 1};

    ck_assert_int_eq(open_later(WSD_OPEN_AGAIN, SECOND), 0);
    peer_accept(&peer, client);
    turn_until_told(1);
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    ck_assert_int_lt(_i == 0 ? wsd_client_process(client) : wsd_client_wait(client, SECOND), 0);
    ck_assert_ptr_null(client);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_eq(n_states, 1);
}
END_TEST

static void *accept_it(void *unused)
{
    peer_accept(&peer, NULL);
    return NULL;
}

/* Another call than the loop's has waited for it. */
START_TEST(a_connection_is_told_whatever_call_finds_it)
{
    pthread_t thread;

    ck_assert_int_eq(open_later(_i == 0 ? WSD_OPEN_LATER : WSD_OPEN_AGAIN, SECOND), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_it, NULL), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, SECOND), 0);
    pthread_join(thread, NULL);
    ck_assert(wsd_client_connected(client));
    ck_assert_uint_eq(n_states, 1);
    ck_assert_int_eq(last_state, 0);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
}
END_TEST

/* A wait finds the end of the connection, and the next one, before the loop has its turn: each is told. */
START_TEST(an_end_that_is_mended_at_once_is_told)
{
    pthread_t thread;

    ck_assert_int_eq(open_later(_i == 0 ? WSD_OPEN_LATER : WSD_OPEN_AGAIN, SECOND), 0);
    peer_accept(&peer, client);
    turn_until_told(1);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_ping(client, NULL), -ECONNRESET);
    ck_assert_uint_eq(n_states, 1);
    forget_input();
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_it, NULL), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, SECOND), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(n_states, 3);
    ck_assert_int_eq(last_state, 0);
}
END_TEST

static void *accept_the_second(void *unused)
{
    close_fd(accept(peer.listen_fd, NULL, NULL));
    peer_accept(&peer, NULL);
    return NULL;
}

/* As one that is begun by wsd_client_reconnect() itself. */
START_TEST(a_wait_for_one_that_was_begun_tries_again)
{
    pthread_t thread;

    ck_assert_int_eq(open_later(WSD_OPEN_LATER, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_the_second, NULL), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, SECOND), 0);
    pthread_join(thread, NULL);
    ck_assert(wsd_client_connected(client));
    /* the first one was watched, and the second has its number */
    ck_assert_uint_eq(watched.n_closed, 1);
    ck_assert_int_eq(watched.fd, wsd_client_fd(client));
}
END_TEST

START_TEST(an_answer_that_is_there_is_in_time)
{
    ck_assert_int_eq(open_later(WSD_OPEN_LATER, 20000), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_accept(&peer, NULL);
    poll(NULL, 0, 30); /* the loop is late */
    turn_until_told(1);
    ck_assert_int_eq(last_state, 0);
}
END_TEST

START_TEST(what_does_not_answer_is_given_up)
{
    ck_assert_int_eq(open_later(WSD_OPEN_LATER, 1000), 0);
    for (int i = 0; i < 100 && n_states == 0; i++)
        turn();
    ck_assert_int_eq(last_state, -ETIMEDOUT);
    ck_assert_int_eq(wsd_client_process(client), -ETIMEDOUT);
    ck_assert_int_eq(wsd_client_fd(client), -1);
}
END_TEST

START_TEST(nothing_there_is_said_at_once)
{
    unlink(peer.path);
    ck_assert_int_eq(open_later(WSD_OPEN_LATER, SECOND), -ENOENT);
    ck_assert_int_eq(wsd_client_process(client), -ENOENT);
    ck_assert_uint_eq(n_states, 0); /* the program knows */
    client = wsd_client_free(client);
    ck_assert_int_eq(open_later(4, SECOND), -EINVAL);
}
END_TEST

START_TEST(a_wait_ends_when_it_is_connected)
{
    ck_assert_int_eq(open_later(WSD_OPEN_LATER, 1000), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, 1000), -ETIMEDOUT);
}
END_TEST

START_TEST(it_connects_again_and_again)
{
    int fd;

    ck_assert_int_eq(open_later(WSD_OPEN_AGAIN, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        peer_accept(&peer, client);
        turn_until_told(2 * i + 1);
        ck_assert_int_eq(last_state, 0);
        ck_assert_int_eq(watched.fd, wsd_client_fd(client));
        ck_assert_int_eq(submit(0), 0);
        peer_expect(&peer, client, FRAME_SUBMIT);
        peer_close(&peer);
        turn_until_told(2 * i + 2);
        ck_assert_int_eq(last_state, -ECONNRESET);
        ck_assert_uint_eq(n_done, i + 1);
        ck_assert_int_eq(last_error, -ECONNRESET);
        ck_assert_int_eq(submit(0), -EAGAIN);
        ck_assert_int_eq(watched.fd, -1);
        /* the pauses grow, also where each try has a WELCOME and then an end */
        ck_assert_uint_le(watched.timeout_usec, 20000 << i);
        ck_assert_uint_eq(client->loop.failures, i + 1);
        forget_input();
    }
    /* nothing listens */
    fd = peer.listen_fd;
    shutdown(fd, SHUT_RDWR);
    close_fd(fd);
    peer.listen_fd = -1;
    turn_until_told(9);
    ck_assert_int_eq(last_state, -ECONNREFUSED);
    ck_assert_uint_eq(client->loop.failures, 6);
}
END_TEST

START_TEST(a_handle_may_be_freed_when_its_connection_has_ended)
{
    ck_assert_int_eq(open_later(WSD_OPEN_AGAIN, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    peer_accept(&peer, client);
    turn_until_told(1);
    free_in_state = true;
    peer_close(&peer);
    ck_assert_int_eq(turn(), -ECONNRESET);
    ck_assert_ptr_null(client);
    ck_assert_int_eq(watched.fd, -1);
}
END_TEST

/* --- watching ----------------------------------------------------------------------------------------------------- */

START_TEST(a_change_is_told_when_there_is_one)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    ck_assert_uint_eq(watched.n, 1);
    ck_assert_int_eq(watched.fd, wsd_client_fd(client));
    ck_assert_int_eq(watched.events, POLLIN);
    ck_assert_uint_eq(watched.timeout_usec, UINT64_MAX);
    ck_assert_int_eq(submit(SECOND), 0);
    ck_assert_uint_eq(watched.n, 2);
    ck_assert_int_eq(watched.events, POLLIN | POLLOUT);
    ck_assert_uint_le(watched.timeout_usec, SECOND);
    ck_assert_int_eq(submit(2 * SECOND), 0);
    ck_assert_uint_eq(watched.n, 2);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    ck_assert_uint_eq(watched.n, 3);
    ck_assert_int_eq(watched.events, POLLIN);
    ck_assert_int_eq(wsd_client_set_watch(client, NULL, NULL), 0);
    ck_assert_uint_eq(watched.n, 4);
    ck_assert_int_eq(watched.fd, -1);
}
END_TEST

START_TEST(a_child_is_told_nothing)
{
    int status;

    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        unsigned n = watched.n;

        client = wsd_client_free(client);
        _exit(watched.n == n ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_child_takes_nothing_from_the_parents_epoll)
{
    struct epoll_event event;
    struct wsd_epoll w;
    int status, fd = epoll_create1(EPOLL_CLOEXEC);

    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_epoll_attach(&w, fd, client), 0);
    ck_assert_int_eq(wsd_epoll_prepare(&w, -1), -1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        wsd_epoll_detach(&w);
        client = wsd_client_free(client);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(wsd_epoll_prepare(&w, -1), -1);
    peer_close(&peer);
    ck_assert_int_eq(epoll_wait(fd, &event, 1, 1000), 1);
    wsd_epoll_detach(&w);
    close_fd(fd);
}
END_TEST

static bool delivering;
static unsigned n_done_inside;

static void done_inside(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text,
                        void *userdata)
{
    n_done++;
    last_error = error;
    n_done_inside += delivering;
}

static int process_inside(struct wsd_call *c, const void *data, size_t size, void *userdata)
{
    delivering = true;
    for (int i = 0; i < 3; i++)
        wsd_client_wait(client, 2000);
    delivering = false;
    return 0;
}

START_TEST(done_is_last_at_a_deadline_too)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = done_inside, .output = process_inside};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = 2000};

    n_done_inside = 0;
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    peer_send_output(&peer, peer.frame.tag, 0, "some", 4);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done_inside, 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, -ETIMEDOUT);
}
END_TEST

START_TEST(some_are_no_more_at_a_deadline)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(submit(1), 0);
    poll(NULL, 0, 2);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(wsd_client_process_some(client, 3), 1);
        ck_assert_uint_eq(n_done, 3 * i);
        ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    }
    ck_assert_int_eq(wsd_client_process_some(client, 3), 0);
    ck_assert_uint_eq(n_done, 10);
}
END_TEST

START_TEST(what_cannot_be_a_way_is_not_tried)
{
    char path[200];
    const struct wsd_open how = {.size = sizeof(how), .socket = path, .flags = WSD_OPEN_AGAIN, .state = on_state};

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    ck_assert_int_eq(wsd_client_open_with(&client, &how), -ENAMETOOLONG);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(turn(), -ENAMETOOLONG);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
}
END_TEST

/* Also what is as if nothing was told yet. */
START_TEST(what_is_so_now_is_told)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    ck_assert_uint_eq(watched.n, 1);
    ck_assert_int_eq(watched.fd, -1);
    ck_assert_uint_eq(watched.timeout_usec, UINT64_MAX);
}
END_TEST

/* A timer of a loop may be for once. */
START_TEST(frames_that_are_left_are_told_each_time)
{
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(submit(0), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_int_eq(wsd_client_set_watch(client, on_watch, NULL), 0);
    for (int i = 0; i < 4; i++)
        peer_send_output(&peer, peer.frame.tag, (uint64_t)i, "x", 1);
    for (int i = 0; i < 2; i++) {
        watched.n = 0;
        ck_assert_int_eq(wsd_client_process_some(client, 1), 1);
        ck_assert_uint_eq(watched.n, 1);
        ck_assert_uint_eq(watched.timeout_usec, 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loop");
    TCase *t = tcase_create("loop");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_deadline_cancels_the_job_and_is_told_once, 0, 2);
    tcase_add_loop_test(t, an_end_that_has_come_counts_more_than_the_deadline, 0, 3);
    tcase_add_test(t, a_call_that_has_ended_has_no_deadline);
    tcase_add_test(t, the_first_of_many_deadlines_counts);
    tcase_add_loop_test(t, what_was_not_sent_has_not_run, 0, 6);
    tcase_add_test(t, calls_have_a_bound);
    tcase_add_test(t, room_is_told_when_a_call_may_be_made_again);
    tcase_add_test(t, room_is_told_after_other_bounds_were_set);
    tcase_add_test(t, opening_later_does_not_wait);
    tcase_add_loop_test(t, an_end_is_told_whatever_call_finds_it, 0, 2);
    tcase_add_loop_test(t, a_handle_may_be_freed_at_a_deadline, 0, 2);
    tcase_add_loop_test(t, a_connection_is_told_whatever_call_finds_it, 0, 2);
    tcase_add_test(t, an_answer_that_is_there_is_in_time);
    tcase_add_loop_test(t, an_end_that_is_mended_at_once_is_told, 0, 2);
    tcase_add_test(t, a_wait_for_one_that_was_begun_tries_again);
    tcase_add_test(t, what_does_not_answer_is_given_up);
    tcase_add_test(t, nothing_there_is_said_at_once);
    tcase_add_test(t, a_wait_ends_when_it_is_connected);
    tcase_add_test(t, it_connects_again_and_again);
    tcase_add_test(t, a_handle_may_be_freed_when_its_connection_has_ended);
    tcase_add_test(t, a_change_is_told_when_there_is_one);
    tcase_add_test(t, a_child_is_told_nothing);
    tcase_add_test(t, a_child_takes_nothing_from_the_parents_epoll);
    tcase_add_test(t, done_is_last_at_a_deadline_too);
    tcase_add_test(t, some_are_no_more_at_a_deadline);
    tcase_add_test(t, what_cannot_be_a_way_is_not_tried);
    tcase_add_test(t, what_is_so_now_is_told);
    tcase_add_test(t, frames_that_are_left_are_told_each_time);
    suite_add_tcase(s, t);
    return run_suite(s);
}
