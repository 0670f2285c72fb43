/* SPDX-License-Identifier: Apache-2.0
 *
 * test-connection.c: the connection alone, under requests of this test's own. Nothing that lies above it is linked.
 * test-client.c and test-call.c have it under the whole library. */
#include "client/connecting.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/address.h"
#include "peer.h"

#define SECOND 1000000u

/* The handle of this test, which peer.c opens and processes. */
struct wsd_client {
    struct connection connection;
    struct failure failure;
};

static struct peer peer;
static struct wsd_client handle;
static struct connection *const c = &handle.connection;

/* --- what the connection calls ------------------------------------------------------------------------------------ */

struct asked {
    struct request request;
    unsigned n_frames, n_broken, broken_as; /* broken_as: the how many-th of all */
    uint16_t type;                          /* of its last frame */
    struct asked *then;                     /* its callback has the frame of this one handled */
    bool by_process;                        /* by connection_process(), when it comes; else by connection_step() */
    char body[8];                           /* of its last frame, after that */
};

static struct list more; /* stands in the list `gathered` */
static unsigned n_gathered, n_room, n_stray, n_reaped, n_gone, n_broken;
static unsigned to_send; /* PINGs that room() has */
static uint32_t stray_tag;

static void send_empty(uint16_t type, uint32_t tag)
{
    ck_assert_int_eq(connection_put(c, &(struct msg){.type = type}, tag, NULL, 0), 0);
}

static int gathered(struct connection *of)
{
    ck_assert_ptr_eq(of, c);
    if (list_empty(&c->gathered))
        return 0;
    list_remove(&more);
    send_empty(FRAME_STATS, 1000);
    n_gathered++;
    return 0;
}

static void room(struct connection *of)
{
    n_room++;
    if (to_send)
        send_empty(FRAME_PING, 1000 + to_send--);
}

static void stray(struct connection *of, uint32_t tag, const struct msg *msg)
{
    n_stray++;
    stray_tag = tag;
}

static void reap(struct connection *of)
{
    ck_assert(c->depth == 0 && !c->busy);
    n_reaped++;
}

static void gone(struct connection *of)
{
    n_gone++;
}

static unsigned n_beside; /* looks beside the socket that find something */
static uint64_t beside_due_usec = UINT64_MAX;

static bool beside(struct connection *of)
{
    return n_beside && n_beside--;
}

static uint64_t beside_due(struct connection *of)
{
    return beside_due_usec;
}

static const struct connection_ops ops = {.gathered = gathered,
                                          .room = room,
                                          .beside = beside,
                                          .beside_due = beside_due,
                                          .stray = stray,
                                          .reap = reap,
                                          .gone = gone};

static void on_frame(struct connection *of, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct asked *a = container_of(request, struct asked, request);
    unsigned reaped = n_reaped;

    a->n_frames++;
    a->type = msg->type;
    c->depth++;
    if (a->then && a->by_process)
        peer_send_output(&peer, a->then->request.tag, 0, "second", 6);
    while (a->then && !a->then->n_frames)
        ck_assert_int_eq(a->by_process ? connection_process(c) : connection_step(c, deadline_in(SECOND * 5)), 0);
    connection_reap(c);
    c->depth--;
    ck_assert_uint_eq(n_reaped, reaped); /* a callback is under way */
    if (frame->body_size)
        memcpy(a->body, frame->body, MIN(frame->body_size, sizeof(a->body) - 1));
}

static void on_broken(struct connection *of, struct request *request)
{
    struct asked *a = container_of(request, struct asked, request);

    a->n_broken++;
    a->broken_as = ++n_broken;
    request_close(of, request);
}

static const struct request_ops asked_ops = {.frame = on_frame, .broken = on_broken};

static void ask(struct asked *a)
{
    *a = (struct asked){.request = {.ops = &asked_ops}};
    list_init(&a->request.open);
    ck_assert_int_eq(request_open(c, &a->request), 0);
}

int wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec)
{
    *ret_client = &handle;
    handle = (struct wsd_client){0};
    ck_assert_int_eq(connection_init(c, &ops, &handle.failure), 0);
    ck_assert_int_eq(address_find(socket, &c->address, &handle.failure), 0);
    return connection_connect(c, deadline_in(timeout_usec));
}

int wsd_client_process(struct wsd_client *client)
{
    return connection_process(&client->connection);
}

static void setup(void)
{
    struct wsd_client *client;

    peer_init(&peer, PEER_WELCOME, 1000);
    peer.features = FEATURE_STORE | 1ull << 60;
    list_init(&more);
    ck_assert_int_eq(peer_open(&peer, &client, SECOND * 5), 0);
}

static void teardown(void)
{
    unsigned before = n_gone;

    connection_close(c);
    connection_deinit(c);
    ck_assert_uint_eq(n_gone, before + 1);
    peer_deinit(&peer);
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

START_TEST(a_frame_reaches_the_request_of_its_tag)
{
    static struct asked first, second; /* the end reaches them in teardown() */

    ask(&first);
    ask(&second);
    ck_assert_uint_ne(first.request.tag, second.request.tag);
    ck_assert_int_eq(connection_send(c, &(struct msg){.type = FRAME_PING}, second.request.tag, NULL, 0), 0);
    peer_expect(&peer, &handle, FRAME_PING);
    ck_assert_uint_eq(peer.frame.tag, second.request.tag);
    peer_send_empty(&peer, FRAME_PONG, peer.frame.tag);
    ck_assert_int_eq(connection_step(c, deadline_in(SECOND * 5)), 0);
    ck_assert(first.n_frames == 0 && second.n_frames == 1 && second.type == FRAME_PONG);
    ck_assert_uint_gt(n_reaped, 0);
}
END_TEST

START_TEST(a_frame_of_no_open_request_is_a_stray)
{
    static struct asked a;

    ask(&a);
    request_unlist(c, &a.request);
    peer_send_empty(&peer, FRAME_PONG, a.request.tag);
    ck_assert_int_eq(connection_step(c, deadline_in(SECOND * 5)), 0);
    ck_assert(a.n_frames == 0 && n_stray == 1 && stray_tag == a.request.tag);
    peer_close(&peer);
    ck_assert_int_eq(connection_process(c), -ECONNRESET);
    ck_assert_uint_eq(a.n_broken, 1); /* unlisted, and open all the same */
}
END_TEST

START_TEST(what_was_gathered_goes_first)
{
    static struct asked a;

    ask(&a);
    list_push_back(&c->gathered, &more);
    ck_assert(connection_events(c) & POLLOUT);
    ck_assert_int_eq(connection_send(c, &(struct msg){.type = FRAME_PING}, a.request.tag, NULL, 0), 0);
    ck_assert_int_eq(connection_send(c, &(struct msg){.type = FRAME_LIST}, a.request.tag, NULL, 0), 0);
    ck_assert_uint_eq(n_gathered, 1);
    peer_expect(&peer, &handle, FRAME_STATS);
    peer_expect(&peer, &handle, FRAME_PING);
    peer_expect(&peer, &handle, FRAME_LIST);
}
END_TEST

START_TEST(what_was_gathered_last_goes_by_itself)
{
    list_push_back(&c->gathered, &more);
    if (_i)
        connection_send_early(c);
    else
        ck_assert_int_eq(connection_flush(c), 0);
    peer_expect(&peer, NULL, FRAME_STATS);
}
END_TEST

START_TEST(room_is_told_until_nothing_is_left)
{
    to_send = 3;
    ck_assert_int_eq(connection_flush(c), 0);
    for (uint32_t tag = 1003; tag > 1000; tag--) {
        peer_expect(&peer, NULL, FRAME_PING);
        ck_assert_uint_eq(peer.frame.tag, tag);
    }
    ck_assert_uint_eq(to_send, 0);
}
END_TEST

START_TEST(the_next_frame_leaves_the_one_under_way_alone)
{
    static struct asked first, second; /* the end reaches them in teardown() */

    ask(&first);
    ask(&second);
    first.then = &second;
    first.by_process = _i;
    peer_send_output(&peer, first.request.tag, 0, "first", 5);
    if (!_i)
        peer_send_output(&peer, second.request.tag, 0, "second", 6);
    ck_assert_int_eq(connection_step(c, deadline_in(SECOND * 5)), 0);
    ck_assert(first.n_frames == 1 && second.n_frames == 1);
    ck_assert_str_eq(first.body, "first"); /* which it read after the second one had come */
    ck_assert_str_eq(second.body, "second");
}
END_TEST

START_TEST(each_request_hears_of_the_end_once)
{
    static struct asked asked[4];

    for (size_t i = 0; i < 4; i++)
        ask(&asked[i]);
    request_close(c, &asked[1].request);
    peer_close(&peer);
    ck_assert_int_eq(connection_process(c), -ECONNRESET);
    ck_assert_int_eq(connection_process(c), -ECONNRESET);
    ck_assert(asked[0].broken_as == 1 && asked[2].broken_as == 2 && asked[3].broken_as == 3);
    ck_assert(asked[0].n_broken == 1 && asked[1].n_broken == 0 && n_broken == 3);
    ck_assert_str_eq(handle.failure.text, "wsd closed the connection");
    ck_assert_int_lt(connection_send(c, &(struct msg){.type = FRAME_PING}, 9, NULL, 0), 0);
}
END_TEST

START_TEST(features_are_those_of_both)
{
    ck_assert_uint_eq(c->features, FEATURE_STORE);
    ck_assert_int_eq(connection_wants(c, FEATURE_STORE), 0);
    ck_assert_int_eq(connection_wants(c, FEATURE_WHERE), -EOPNOTSUPP);
    ck_assert_str_eq(handle.failure.text, "wsd 9.9 knows no filters: list all, and choose from that");
    ck_assert(!connection_takes_files(c));
}
END_TEST

START_TEST(reconnecting_is_for_one_that_is_over)
{
    uint64_t now = deadline_in(0);

    ck_assert_int_eq(connection_reconnect(c, now), 0);
    ck_assert_uint_eq(n_gone, 0);
    connection_break(c, -ECONNRESET, 69, "over");
    c->depth++;
    ck_assert_int_eq(connection_reconnect(c, now), -EDEADLK); /* a callback is under way */
    c->depth--;
    peer.listen_fd = close_fd(peer.listen_fd);
    ck_assert_int_eq(connection_reconnect(c, now), -ECONNREFUSED);
    ck_assert(n_gone == 1 && c->n_lost == 1 && c->fd == -1 && c->broken == -ECONNREFUSED);
}
END_TEST

START_TEST(nothing_is_read_before_tls)
{
    const struct msg welcome = {.type = FRAME_WELCOME,
                                .welcome = {.version = 1, .program = {.data = "wsd", .size = 3}, .window = 1000}};

    c->connecting = true; /* TCP is there, and connection_advance() has not seen that yet */
    c->welcomed = false;
    peer_send(&peer, &welcome, 0, NULL, 0);
    ck_assert_int_eq(connection_process(c), 0);
    ck_assert(!c->welcomed);
    peer_close(&peer);
    ck_assert_int_eq(connection_step(c, deadline_in(SECOND)), 0);
    ck_assert_int_eq(c->broken, 0); /* so that another address is tried */
    c->connecting = false;
    connection_process(c);
    ck_assert(c->welcomed);
}
END_TEST

static bool is_established, waits_to_write;

static bool established(const struct tls *t)
{
    return is_established;
}

static bool recv_waits_to_write(const struct tls *t)
{
    return waits_to_write;
}

/* Else a loop would run all the time until the other side answers: the socket can be written. */
START_TEST(what_waits_for_the_handshake_waits_for_an_answer)
{
    static const struct tls_ops tls = {.established = established, .recv_waits_to_write = recv_waits_to_write};

    c->remote.ops = &tls;
    c->remote.tls = (struct tls *)&peer;
    send_empty(FRAME_PING, 1);
    ck_assert_int_eq(connection_events(c), POLLIN);
    waits_to_write = true;
    ck_assert_int_eq(connection_events(c), POLLIN | POLLOUT);
    waits_to_write = false;
    is_established = true;
    ck_assert_int_eq(connection_events(c), POLLIN | POLLOUT);
    c->remote.ops = NULL;
    c->remote.tls = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tcase = tcase_create("connection");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_frame_reaches_the_request_of_its_tag);
    tcase_add_test(tcase, a_frame_of_no_open_request_is_a_stray);
    tcase_add_test(tcase, what_was_gathered_goes_first);
    tcase_add_loop_test(tcase, what_was_gathered_last_goes_by_itself, 0, 2);
    tcase_add_test(tcase, room_is_told_until_nothing_is_left);
    tcase_add_loop_test(tcase, the_next_frame_leaves_the_one_under_way_alone, 0, 2);
    tcase_add_test(tcase, each_request_hears_of_the_end_once);
    tcase_add_test(tcase, features_are_those_of_both);
    tcase_add_test(tcase, nothing_is_read_before_tls);
    tcase_add_test(tcase, what_waits_for_the_handshake_waits_for_an_answer);
    tcase_add_test(tcase, reconnecting_is_for_one_that_is_over);
    return run_suite(suite);
}
