/* SPDX-License-Identifier: Apache-2.0
 *
 * test-direct.c: WSD_SUBMIT_DIRECT: each call is told once, in whatever order things happen, and a loop is woken for it.
 * The test plays wsd and the executor. What really runs there is integration/direct-submit.sh's. */
#include "peer.h"
#include "ring/lane-ring.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NUMBER 3u /* of the function in the lane */

static struct peer peer;
static struct wsd_client *client;
static struct lane_front front;
static struct lane_back back;
static uint32_t lane_tag;

/* --- wsd and the executor ----------------------------------------------------------------------------------------- */

static void *send_lane(void *arg)
{
    const int fds[] = {front.memory_fd, front.grant_fd, front.notice_fd};
    char room[CMSG_SPACE(sizeof(fds))] = {0};
    uint8_t bytes[64];

    peer_expect(&peer, NULL, FRAME_LANE_OPEN);
    lane_tag = peer.frame.tag;
    size_t size = codec_encode(&(struct msg){.type = FRAME_LANE}, lane_tag, 0, bytes, sizeof(bytes));
    struct iovec iov = {bytes, size};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(fds))};
    CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
    CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
    CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, sizeof(fds));
    ck_assert_int_eq(sendmsg(peer.fd, &m, 0), (ssize_t)size);
    return NULL;
}

struct taken {
    uint32_t slot, generation;
    struct lane_request request;
};

static struct taken take(void)
{
    struct taken t = {.slot = lane_back_take(&back, &t.generation)};

    ck_assert_uint_ne(t.slot, RING_NONE);
    ck_assert(lane_back_claim(&back, t.slot, t.generation));
    ck_assert_int_eq(lane_back_read(&back, t.slot, &t.request), 0);
    return t;
}

static void notify(void)
{
    if (lane_back_notifies(&back))
        ck_assert_int_eq(send(front.notify_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
}

static bool turn(struct taken *t, const char *output)
{
    uint32_t size = (uint32_t)strlen(output);

    return lane_back_turn(&back, t->slot, &t->request, &(struct lane_end){.output_size = size}, output);
}

static void answer_with(const struct taken *t, enum lane_outcome outcome, const char *output, int exit)
{
    const struct lane_answer a = {.outcome = outcome,
                                  .exit = exit,
                                  .output = output,
                                  .output_size = (uint32_t)strlen(output),
                                  .error = "",
                                  .status = ""};

    lane_back_answer(&back, t->slot, t->generation, t->request.call.output_at, &a);
    notify();
}

static void answer(const struct taken *t, const char *output)
{
    answer_with(t, LANE_ENDED, output, 0);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

#define JOBS_MAX 100

static struct job {
    struct wsd_call *call;
    unsigned told;
    int error, exit;
    enum wsd_job_state state;
    char output[64];
    void (*then)(struct job *j); /* in its callback */
} jobs[JOBS_MAX];

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;

    strncat(j->output, data, size);
    return 0;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct job *j = userdata;

    j->told++;
    j->error = error;
    j->exit = wsd_client_exit(client);
    j->state = info ? info->state : 0;
    if (j->then)
        j->then(j);
}

static int submit(struct job *j, const char *input, uint64_t room)
{
    static const char *const args[] = {"one", "two"};
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = on_output, .done = on_done, .userdata = j};
    const struct wsd_submit s = {.size = sizeof(s),
                                 .plugin = "p",
                                 .function = "f",
                                 .args = args,
                                 .n_args = 2,
                                 .input = input,
                                 .input_size = strlen(input),
                                 .output_size = room,
                                 .flags = WSD_SUBMIT_DIRECT};

    return wsd_client_submit(client, &s, &callbacks, &j->call);
}

static void submit_many(uint32_t first, uint32_t n)
{
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f", "g"}; /* they stay until the end */

    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(submit(&jobs[first + i], letters[i % ARRAY_SIZE(letters)], 8), 0);
    ck_assert_int_eq(wsd_client_flush(client), 0);
}

static bool readable(int msec)
{
    struct pollfd p = {.fd = wsd_client_fd(client), .events = wsd_client_events(client)};

    return poll(&p, 1, msec) > 0;
}

static void process(void)
{
    ck_assert_int_eq(wsd_client_process(client), 0);
}

/* Nothing is to be done now. Where valgrind makes all slow, the two times at which a call is looked at may have come. */
static void expect_rest(void)
{
    process();
    for (int i = 0; i < 2 && wsd_client_timeout_usec(client) == 0; i++)
        process();
    ck_assert(!readable(0));
    ck_assert_uint_ne(wsd_client_timeout_usec(client), 0);
}

static void wait_msec(long msec)
{
    nanosleep(&(struct timespec){.tv_nsec = msec * 1000000}, NULL);
}

/* Has the function bound, and known to be brief, so that its calls share slots. */
static void bind_function(void)
{
    struct job *j = &jobs[JOBS_MAX - 1];

    ck_assert_int_eq(submit(j, "", 8), 0);
    peer_expect(&peer, client, FRAME_LANE_BIND);
    lane_front_allow(&front, NUMBER, true);
    peer_send(&peer, &(struct msg){.type = FRAME_LANE_BOUND, .lane_bound = {.number = NUMBER}}, peer.frame.tag, NULL,
              0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    while (!j->told)
        process();
    wsd_call_free(j->call);
    for (int i = 0; i < 100; i++) {
        submit_many(JOBS_MAX - 1, 1);
        struct taken t = take();
        answer(&t, "");
        process();
        wsd_call_free(j->call);
    }
    memset(jobs, 0, sizeof(jobs));
}

static void setup(void)
{
    pthread_t thread;

    memset(jobs, 0, sizeof(jobs));
    ck_assert_int_eq(lane_front_init(&front), 0);
    ck_assert_int_eq(lane_front_add_notice(&front, 0), 0);
    ck_assert_int_eq(lane_back_init(&back, front.memory_fd, front.grant_fd), 0);
    lane_front_credit(&front, LANE_SLOTS);
    peer_start(&peer, &client, 1 << 20, FEATURE_LANE | FEATURE_NOTICE | FEATURE_BRIEF | FEATURE_ARRAY);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_lane, NULL), 0);
    ck_assert_int_eq(wsd_client_lane(client, WSD_LANE_OPEN), 0);
    pthread_join(thread, NULL);
    bind_function();
}

static void teardown(void)
{
    client = wsd_client_free(client);
    lane_back_deinit(&back);
    lane_front_deinit(&front);
    peer_deinit(&peer);
}

/* --- a loop is woken ---------------------------------------------------------------------------------------------- */

START_TEST(its_descriptor_tells_of_an_end)
{
    submit_many(0, 1);
    expect_rest();
    struct taken t = take();
    expect_rest();
    answer(&t, "out");
    ck_assert(readable(0));
    process();
    ck_assert_uint_eq(jobs[0].told, 1);
    ck_assert_str_eq(jobs[0].output, "out");
    ck_assert_int_eq(jobs[0].state, WSD_JOB_SUCCEEDED);
    expect_rest();
    expect_rest(); /* the notice was read */
}
END_TEST

/* It ends before the program has looked again. */
START_TEST(an_end_at_once_is_no_less_seen)
{
    submit_many(0, 1);
    struct taken t = take();
    answer(&t, "");
    ck_assert(readable(0));
    process();
    ck_assert_uint_eq(jobs[0].told, 1);
    submit_many(1, 2); /* while a notice has come that was not read */
    for (int i = 1; i < 2; i++) {
        t = take();
        while (turn(&t, ""))
            ;
        answer(&t, "");
    }
    ck_assert(readable(0));
    process();
    ck_assert_uint_eq(jobs[1].told + jobs[2].told, 2);
    expect_rest();
}
END_TEST

START_TEST(what_is_not_flushed_is_due_at_once)
{
    ck_assert_int_eq(submit(&jobs[0], "", 8), 0);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    process();
    struct taken t = take();
    answer(&t, "");
    process();
    ck_assert_uint_eq(jobs[0].told, 1);
}
END_TEST

START_TEST(a_wait_is_woken_too)
{
    submit_many(0, 1);
    struct taken t = take();
    answer(&t, "x");
    ck_assert_int_eq(wsd_call_wait(jobs[0].call, UINT64_MAX, NULL), 0);
    ck_assert_uint_eq(jobs[0].told, 1);
    submit_many(1, 1);
    ck_assert_int_eq(wsd_call_wait(jobs[1].call, 1000, NULL), -ETIMEDOUT);
}
END_TEST

/* Bytes that were not asked for, and the end of an executor that wsd has not told of yet. */
START_TEST(other_notices_do_not_keep_it_awake)
{
    for (uint32_t busy = 0; busy < 2; busy++) {
        submit_many(0, busy);
        ck_assert_int_eq(send(front.notify_fd, "abc", 3, MSG_DONTWAIT | MSG_NOSIGNAL), 3);
        ck_assert(readable(0));
        process();
        expect_rest();
    }
    shutdown(front.notify_fd, SHUT_RDWR);
    ck_assert(readable(0));
    process();
    expect_rest();
}
END_TEST

START_TEST(a_long_wait_is_told_to_wsd)
{
    submit_many(0, 1);
    process();
    ck_assert_uint_le(wsd_client_timeout_usec(client), 100000);
    wait_msec(101);
    peer_expect(&peer, client, FRAME_LANE_WAITS);
    ck_assert_uint_eq(peer.frame.tag, lane_tag);
    ck_assert_uint_gt(wsd_client_timeout_usec(client), 500000);
}
END_TEST

/* --- slots -------------------------------------------------------------------------------------------------------- */

START_TEST(brief_calls_share_a_slot)
{
    submit_many(0, 20);
    struct taken t = take();
    ck_assert_uint_eq(t.request.n_items, 20);
    ck_assert_uint_eq(lane_back_take(&back, &t.generation), RING_NONE);
    for (char c = 'A'; turn(&t, (const char[]){c, 0}); c++)
        ;
    answer(&t, "last");
    process();
    for (uint32_t i = 0; i < 20; i++) {
        const char letter[] = {(char)('A' + i), 0};

        ck_assert_uint_eq(jobs[i].told, 1);
        ck_assert_str_eq(jobs[i].output, i < 19 ? letter : "last");
    }
    expect_rest();
}
END_TEST

START_TEST(a_turn_tells_no_more_than_it_may)
{
    submit_many(0, 20);
    struct taken t = take();
    while (turn(&t, ""))
        ;
    answer(&t, "");
    for (uint32_t i = 0; i < 20; i++) {
        ck_assert(jobs[i].told == 0);
        ck_assert_uint_eq(wsd_client_timeout_usec(client) == 0 || readable(0), 1);
        ck_assert_int_eq(wsd_client_process_some(client, 1), i < 19);
        ck_assert_uint_eq(jobs[i].told, 1);
    }
    expect_rest();
}
END_TEST

START_TEST(what_is_behind_a_failure_goes_into_another_slot)
{
    submit_many(0, 4);
    struct taken t = take();
    ck_assert(turn(&t, ""));
    answer_with(&t, LANE_ENDED, "", 7);
    process();
    ck_assert_uint_eq(jobs[0].told + jobs[1].told, 2);
    ck_assert_int_eq(jobs[1].state, WSD_JOB_FAILED);
    t = take();
    ck_assert_uint_eq(t.request.n_items, 2);
    ck_assert_uint_eq(t.request.call.argc, 2);
    ck_assert_str_eq((const char *)t.request.bytes + t.request.call.args_at, "one");
    ck_assert_int_eq(t.request.bytes[t.request.call.input_at], 'c');
    ck_assert(turn(&t, ""));
    answer(&t, "");
    process();
    ck_assert_uint_eq(jobs[2].told + jobs[3].told, 2);
    expect_rest();
}
END_TEST

START_TEST(what_is_behind_a_long_call_goes_into_another_slot)
{
    submit_many(0, 3);
    process();
    ck_assert_uint_le(wsd_client_timeout_usec(client), 5000);
    struct taken first = take(), t;
    wait_msec(6);
    process();
    process();
    t = take();
    ck_assert(turn(&t, "b") || t.request.n_items == 1);
    answer(&t, "c");
    process();
    ck_assert_uint_eq(jobs[0].told, 0);
    ck_assert(!turn(&first, "a"));
    answer(&first, "a");
    while (jobs[1].told + jobs[2].told < 2) {
        process();
        if (lane_back_ready(&back)) {
            t = take();
            answer(&t, "c");
        }
    }
    process();
    ck_assert_uint_eq(jobs[0].told, 1);
    expect_rest();
}
END_TEST

static void expect_by_socket(struct job *j, const char *input)
{
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(peer.frame.body_size, strlen(input));
    ck_assert_mem_eq(peer.frame.body, input, strlen(input));
    ck_assert_uint_eq(peer.msg.submit.argc, 2);
    ck_assert_uint_eq(j->told, 0);
    peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
    while (!j->told)
        process();
    ck_assert_int_eq(j->state, WSD_JOB_SUCCEEDED);
}

START_TEST(one_that_is_refused_goes_by_the_socket)
{
    submit_many(0, 1);
    struct taken t = take();
    answer_with(&t, LANE_REFUSED, "", 0);
    expect_by_socket(&jobs[0], "a");
    expect_rest();
}
END_TEST

START_TEST(what_does_not_fit_goes_by_the_socket)
{
    char large[2100];

    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = 0;
    ck_assert_int_eq(submit(&jobs[0], large, 8), 0);
    expect_by_socket(&jobs[0], large);
    ck_assert_int_eq(submit(&jobs[1], "y", LANE_OUTPUT + 1), 0);
    expect_by_socket(&jobs[1], "y");
    lane_front_credit(&front, 0);
    ck_assert_int_eq(submit(&jobs[2], "z", 8), 0);
    expect_by_socket(&jobs[2], "z");
    expect_rest();
}
END_TEST

START_TEST(more_output_than_room_ends_it)
{
    submit_many(0, 1);
    struct taken t = take();
    answer_with(&t, LANE_OVERFLOW, "", 0);
    process();
    ck_assert_int_eq(jobs[0].error, -EMSGSIZE);
    lane_front_credit(&front, 0);
    ck_assert_int_eq(submit(&jobs[1], "", 8), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    uint32_t tag = peer.frame.tag;
    peer_send_output(&peer, tag, 0, "12345678", 8);
    peer_send_output(&peer, tag, 8, "9", 1);
    peer_expect(&peer, client, FRAME_CANCEL);
    peer_send_done(&peer, tag, WSD_JOB_CANCELLED, 0, "");
    process();
    ck_assert_int_eq(jobs[1].error, -EMSGSIZE);
    ck_assert_str_eq(jobs[1].output, "12345678");
}
END_TEST

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

static void wait_for_the_next(struct job *j)
{
    ck_assert_int_eq(wsd_call_wait(j[1].call, 5000000, NULL), 0);
    ck_assert_uint_eq(j[1].told, 1);
}

static void free_all(struct job *j)
{
    for (int i = 0; i < 4; i++)
        jobs[i].call = wsd_call_free(jobs[i].call);
}

static void free_client(struct job *j)
{
    client = wsd_client_free(client);
}

static void submit_another(struct job *j)
{
    ck_assert_int_eq(submit(&jobs[50], "", 8), 0);
}

START_TEST(a_callback_waits_for_another_call_of_its_slot)
{
    jobs[0].then = jobs[1].then = wait_for_the_next;
    submit_many(0, 3);
    struct taken t = take();
    while (turn(&t, "x"))
        ;
    answer(&t, "x");
    process();
    ck_assert_uint_eq(jobs[0].told + jobs[1].told + jobs[2].told, 3);
    expect_rest();
}
END_TEST

START_TEST(a_callback_frees_the_others)
{
    jobs[1].then = free_all;
    submit_many(0, 4);
    struct taken t = take();
    while (turn(&t, "x"))
        ;
    answer(&t, "x");
    process();
    ck_assert_uint_eq(jobs[0].told + jobs[1].told, 2);
    ck_assert_uint_eq(jobs[2].told + jobs[3].told, 0);
    expect_rest();
    submit_many(4, 1);
    t = take();
    answer(&t, "");
    process();
    ck_assert_uint_eq(jobs[4].told, 1);
}
END_TEST

START_TEST(a_callback_frees_the_handle)
{
    jobs[1].then = free_client;
    submit_many(0, 4);
    struct taken t = take();
    while (turn(&t, "x"))
        ;
    answer(&t, "x");
    wsd_client_process(client);
    ck_assert_ptr_null(client);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
}
END_TEST

START_TEST(a_callback_submits_another)
{
    jobs[0].then = submit_another;
    submit_many(0, 1);
    struct taken t = take();
    answer(&t, "");
    process();
    t = take(); /* it is pushed */
    answer(&t, "");
    process();
    ck_assert_uint_eq(jobs[50].told, 1);
    expect_rest();
}
END_TEST

/* --- ends before their time --------------------------------------------------------------------------------------- */

START_TEST(one_that_has_not_begun_is_cancelled)
{
    submit_many(0, 1);
    wsd_call_cancel(jobs[0].call);
    struct taken t = {.slot = lane_back_take(&back, &t.generation)};
    ck_assert(lane_back_claim(&back, t.slot, t.generation));
    ck_assert(lane_back_cancelled(&back, t.slot));
    answer_with(&t, LANE_REFUSED, "", 0);
    process();
    ck_assert_int_eq(jobs[0].state, WSD_JOB_CANCELLED);
    ck_assert_uint_eq(jobs[0].told, 1);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

START_TEST(one_in_the_middle_of_a_slot_is_cancelled)
{
    submit_many(0, 4);
    struct taken t = take(), rest;
    ck_assert(turn(&t, ""));
    wsd_call_cancel(jobs[2].call); /* 0 has ended, 1 runs, 3 goes elsewhere */
    ck_assert(!lane_back_cancelled(&back, t.slot));
    process();
    ck_assert_uint_eq(jobs[2].told, 1);
    ck_assert_int_eq(jobs[2].state, WSD_JOB_CANCELLED);
    rest = take();
    ck_assert_uint_eq(rest.request.n_items, 1);
    ck_assert_int_eq(rest.request.bytes[rest.request.call.input_at], 'd');
    answer(&rest, "");
    ck_assert(!turn(&t, ""));
    answer(&t, "");
    process();
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
    expect_rest();
}
END_TEST

START_TEST(the_end_of_the_connection_is_the_end_of_what_has_none)
{
    submit_many(0, 1);
    struct taken ended = take();
    submit_many(1, 1);
    struct taken runs = take();
    submit_many(2, 1);
    ck_assert_int_eq(submit(&jobs[3], "", 8), 0);
    answer(&ended, "out");
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
    ck_assert_int_eq(jobs[0].state, WSD_JOB_SUCCEEDED);
    ck_assert_str_eq(jobs[0].output, "out");
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
    for (int i = 1; i < 4; i++)
        ck_assert_int_eq(jobs[i].error, -ECONNRESET);
    answer(&runs, "");
}
END_TEST

START_TEST(and_of_the_handle_if_a_callback_frees_it)
{
    jobs[_i].then = free_client;
    submit_many(0, 4);
    struct taken runs = take();
    ck_assert(turn(&runs, "out"));
    ck_assert(turn(&runs, "out"));
    submit_many(4, 3);
    peer_close(&peer);
    while (client && wsd_client_process(client) == 0)
        ;
    ck_assert_ptr_null(client);
    for (int i = 0; i < 7; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
    answer(&runs, "");
}
END_TEST

START_TEST(the_end_of_the_executor_is_wsds_word)
{
    uint32_t generation;

    submit_many(0, 1);
    struct taken t = take();
    submit_many(1, 1);
    lane_front_lost(&front);
    for (uint32_t slot = 0; slot < LANE_SLOTS; slot++) {
        enum lane_state state = lane_front_look(&front, slot, &generation);

        if (state == LANE_RUNNING)
            lane_front_judge(&front, slot, generation, state, LANE_CRASHED, "it fell");
        else if (state == LANE_QUEUED)
            lane_front_judge(&front, slot, generation, state, LANE_UNTOUCHED, NULL);
    }
    peer_send(&peer, &(struct msg){.type = FRAME_LANE_LOST}, lane_tag, NULL, 0);
    ck_assert(readable(1000));
    process();
    ck_assert_uint_eq(jobs[0].told, 1);
    ck_assert_int_eq(jobs[0].state, WSD_JOB_CRASHED);
    expect_by_socket(&jobs[1], "a");
    expect_rest();
    ck_assert_uint_eq(t.request.n_items, 1);
}
END_TEST

static jmp_buf landing;
static unsigned n_left;

static void leave(struct job *j)
{
    n_left++;
    longjmp(landing, 1);
}

static void turn_or_land(void)
{
    if (setjmp(landing) == 0)
        wsd_client_process(client);
    else
        ck_assert_int_eq(wsd_client_unwound(client), 0);
}

/* Until each of the first n is told, by turns that end in the midst. */
static void turn_until_told(uint32_t n)
{
    unsigned n_told = 0;

    for (int i = 0; i < 100 && n_told < n; i++) {
        turn_or_land();
        n_told = 0;
        for (uint32_t k = 0; k < n; k++)
            n_told += jobs[k].told;
    }
    ck_assert_uint_eq(n_told, n);
}

START_TEST(a_callback_that_does_not_return_loses_none)
{
    n_left = 0;
    for (int i = 0; i < 4; i++)
        jobs[i].then = leave;
    submit_many(0, 4);
    struct taken t = take();
    for (int i = 0; i < 3; i++)
        ck_assert(turn(&t, "out"));
    answer(&t, "out");
    turn_until_told(4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(jobs[i].told, 1);
        ck_assert_str_eq(jobs[i].output, "out");
    }
    ck_assert_uint_eq(n_left, 4);
    process();
    expect_rest();
    submit_many(4, 4); /* the slot is free */
    t = take();
    while (turn(&t, "out"))
        ;
    answer(&t, "out");
    process();
    for (int i = 4; i < 8; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
    expect_rest();
}
END_TEST

START_TEST(nor_at_the_end_of_the_connection)
{
    for (int i = 0; i < 6; i++)
        jobs[i].then = leave;
    submit_many(0, 2);
    struct taken ended = take();
    submit_many(2, 3);
    struct taken runs = take();
    ck_assert_int_eq(submit(&jobs[5], "", 8), 0);
    while (turn(&ended, "out"))
        ;
    answer(&ended, "out");
    peer_close(&peer);
    turn_until_told(6);
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(jobs[i].told, 1);
        ck_assert_int_eq(jobs[i].error, i < 2 ? 0 : -ECONNRESET);
    }
    answer(&runs, "");
}
END_TEST

/* One looking worker is enough for what is brief. Neither knows how long the slots of the other one take. */
START_TEST(a_call_beside_them_is_not_brief)
{
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = "p", .function = "f", .deadline_usec = 1000};
    struct wsd_call_result r = {.size = sizeof(r)};

    ck_assert_int_eq(wsd_call(client, &q, &r), -ETIMEDOUT);
    ck_assert(lane_back_brief(&back));
    submit_many(0, 1);
    ck_assert_int_eq(wsd_call(client, &q, &r), -ETIMEDOUT);
    ck_assert(!lane_back_brief(&back));
}
END_TEST

static void end_connection(struct job *j)
{
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
}

START_TEST(an_end_in_a_callback_leaves_none_untold)
{
    jobs[0].then = end_connection;
    submit_many(0, 4);
    struct taken t = take();
    while (turn(&t, "x"))
        ;
    answer(&t, "x");
    ck_assert_int_lt(wsd_client_process_some(client, 1), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(jobs[i].told, 1);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

static void *accept_again(void *arg)
{
    peer_accept(&peer, NULL);
    return NULL;
}

/* What was pushed, and no worker was told of, is not the next connection's. */
START_TEST(the_next_connection_begins_anew)
{
    pthread_t thread;

    peer_close(&peer);
    ck_assert_int_eq(wsd_client_ask_ping(client, NULL, NULL), 0); /* cannot be sent: nothing behind it is pushed */
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(submit(&jobs[i], "", LANE_OUTPUT), 0);
    while (wsd_client_process(client) == 0)
        ;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(jobs[i].error, -ECONNRESET);
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_again, NULL), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, 0), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(submit(&jobs[4], "a", 8), 0);
    expect_by_socket(&jobs[4], "a");
    expect_rest();
}
END_TEST

/* It goes by the socket again, and is lost there: it has run all the same. */
START_TEST(one_that_had_begun_may_have_run)
{
    submit_many(0, 1);
    struct taken t = take();
    lane_front_lost(&front);
    lane_front_judge(&front, t.slot, t.generation, LANE_RUNNING, LANE_AGAIN, NULL);
    peer_send(&peer, &(struct msg){.type = FRAME_LANE_LOST}, lane_tag, NULL, 0);
    ck_assert(readable(1000));
    peer_close(&peer);
    while (wsd_client_process(client) == 0)
        ;
    ck_assert_uint_eq(jobs[0].told, 1);
    ck_assert_int_eq(jobs[0].error, -ECONNRESET);
    ck_assert_int_eq(jobs[0].exit, 125);
}
END_TEST

START_TEST(a_lane_is_kept_while_calls_are_under_way)
{
    submit_many(0, 1);
    ck_assert_int_eq(wsd_client_lane(client, WSD_LANE_OPEN), 0);
    ck_assert_int_eq(wsd_client_lane(client, WSD_LANE_KEEP), 0);
    ck_assert(lane_front_kept(&front));
    ck_assert_int_eq(wsd_client_lane(client, WSD_LANE_CLOSE), -EDEADLK);
    struct taken t = take();
    answer(&t, "");
    process();
    ck_assert_int_eq(wsd_client_lane(client, WSD_LANE_CLOSE), 0);
}
END_TEST

/* What goes into the executor's end would be closed where its last copy is: nothing can. */
START_TEST(a_client_can_put_nothing_into_the_socket)
{
    ck_assert_int_eq(send(front.notice_fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
    ck_assert_int_eq(errno, EPIPE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("direct");
    TCase *t = tcase_create("direct");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, its_descriptor_tells_of_an_end);
    tcase_add_test(t, an_end_at_once_is_no_less_seen);
    tcase_add_test(t, what_is_not_flushed_is_due_at_once);
    tcase_add_test(t, a_wait_is_woken_too);
    tcase_add_test(t, other_notices_do_not_keep_it_awake);
    tcase_add_test(t, a_long_wait_is_told_to_wsd);
    tcase_add_test(t, brief_calls_share_a_slot);
    tcase_add_test(t, a_turn_tells_no_more_than_it_may);
    tcase_add_test(t, what_is_behind_a_failure_goes_into_another_slot);
    tcase_add_test(t, what_is_behind_a_long_call_goes_into_another_slot);
    tcase_add_test(t, one_that_is_refused_goes_by_the_socket);
    tcase_add_test(t, what_does_not_fit_goes_by_the_socket);
    tcase_add_test(t, more_output_than_room_ends_it);
    tcase_add_test(t, a_callback_waits_for_another_call_of_its_slot);
    tcase_add_test(t, a_callback_frees_the_others);
    tcase_add_test(t, a_callback_frees_the_handle);
    tcase_add_test(t, a_callback_submits_another);
    tcase_add_test(t, one_that_has_not_begun_is_cancelled);
    tcase_add_test(t, one_in_the_middle_of_a_slot_is_cancelled);
    tcase_add_test(t, the_end_of_the_connection_is_the_end_of_what_has_none);
    tcase_add_loop_test(t, and_of_the_handle_if_a_callback_frees_it, 0, 7);
    tcase_add_test(t, the_end_of_the_executor_is_wsds_word);
    tcase_add_test(t, a_callback_that_does_not_return_loses_none);
    tcase_add_test(t, nor_at_the_end_of_the_connection);
    tcase_add_test(t, a_call_beside_them_is_not_brief);
    tcase_add_test(t, an_end_in_a_callback_leaves_none_untold);
    tcase_add_test(t, the_next_connection_begins_anew);
    tcase_add_test(t, one_that_had_begun_may_have_run);
    tcase_add_test(t, a_lane_is_kept_while_calls_are_under_way);
    tcase_add_test(t, a_client_can_put_nothing_into_the_socket);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
