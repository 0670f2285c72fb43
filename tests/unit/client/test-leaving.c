/* SPDX-License-Identifier: Apache-2.0
 *
 * test-leaving.c: callbacks that are left by an exception, or by longjmp(). Each call is told once all the same, in its
 * order, and the handle is as good as before. */
#include "peer.h"
#include "proto/records.h"
#include "tests/support/thrower.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

#define SECOND 1000000u
#define JOBS   8u

enum { THROWS, JUMPS, N_WAYS };

static struct peer peer;
static struct wsd_client *client;
static unsigned fds_before;

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

enum { ACCEPTED = 1, MESSAGE = 2, PROGRESS = 4, OUTPUT = 8, DONE = 16, OTHER = 32 };

static struct job {
    struct wsd_call *call;
    unsigned n_accepted, n_messages, n_progress, n_done;
    int error;
    char output[128];
} jobs[JOBS];

static unsigned way, leaves, n_left, n_done, n_others, chance;
static uint32_t seed;
static jmp_buf landing;
static bool frees;

static uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^= seed << 5;
}

static void leave(unsigned which)
{
    if (!(leaves & which) || (chance && draw() % chance))
        return;
    n_left++;
    if (way == THROWS)
        thrower_throw();
    longjmp(landing, 1);
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    ((struct job *)userdata)->n_accepted++;
    leave(ACCEPTED);
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    ((struct job *)userdata)->n_messages++;
    leave(MESSAGE);
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    ((struct job *)userdata)->n_progress++;
    leave(PROGRESS);
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;

    ck_assert_uint_lt(strlen(j->output) + size, sizeof(j->output));
    strncat(j->output, data, size);
    leave(OUTPUT);
    return 0;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct job *j = userdata;

    n_done++;
    j->n_done++;
    j->error = error;
    if (frees) {
        wsd_client_free(client);
        if (j != &jobs[0])
            return;
    }
    leave(DONE);
}

/* That of a job that was posted, and refused; of a question; of the handle. */
static void on_other(void)
{
    n_others++;
    leave(OTHER);
}

static void on_refused(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                       void *userdata)
{
    ck_assert_ptr_null(call);
    ck_assert_int_eq(error, -EINVAL);
    ck_assert_uint_eq(*(unsigned *)userdata, n_others);
    on_other();
}

static void on_room(void *userdata)
{
    on_other();
}

static void on_state(int error, void *userdata)
{
    on_other();
}

static void on_pong(int error, const char *text, void *userdata)
{
    on_other();
}

/* Makes this call. False: a callback was left. */
static bool stays(int (*call)(void), int *ret)
{
    if (way == THROWS)
        return !thrower_catches(call, ret);
    if (setjmp(landing)) {
        ck_assert_int_eq(wsd_client_unwound(client), 0);
        ck_assert_int_eq(wsd_client_unwound(client), 0);
        return false;
    }
    *ret = call();
    return true;
}

static int process(void)
{
    return wsd_client_process(client);
}

static int process_one(void)
{
    int r = wsd_client_process_some(client, 1);

    return r > 0 ? 0 : r;
}

static int wait_some(void)
{
    int r = wsd_client_wait(client, 10000);

    return r == -ETIMEDOUT ? 0 : r;
}

static int wait_for_first(void)
{
    int r = jobs[0].n_done ? wsd_client_process(client) : wsd_call_wait(jobs[0].call, 10000, NULL);

    return r == -ETIMEDOUT ? 0 : r;
}

static int (*const turns[])(void) = {process, process_one, wait_some, wait_for_first};
#define N_TURNS ARRAY_SIZE(turns)
#define CASES   (int)(N_WAYS * N_TURNS)

/* As often as it takes: what was left must be told by the next turns, also where nothing more comes. */
static void turn_until_done(unsigned n, int (*turn)(void), int result)
{
    for (int i = 0, r = 0; i < 1000 && n_done < n; i++) {
        unsigned before = n_left;

        if (stays(turn, &r)) {
            ck_assert_uint_eq(n_left, before);
            ck_assert(r == 0 || r == result);
        } else {
            ck_assert_uint_eq(n_left, before + 1);
        }
    }
    ck_assert_uint_eq(n_done, n);
}

static void setup(void)
{
    memset(jobs, 0, sizeof(jobs));
    leaves = n_left = n_done = n_others = chance = 0;
    frees = false;
    fds_before = count_fds();
    peer_start(&peer, &client, 100000, FEATURE_ARRAY | FEATURE_BRIEF);
}

/* It works as before, without any callback under way. */
static void teardown(void)
{
    unsigned n = n_done;
    struct wsd_call *call;
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .priority = 1};

    leaves = 0;
    if (client && wsd_client_connected(client) && peer.fd >= 0) {
        ck_assert_int_eq(wsd_client_process(client), 0);
        ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
        ck_assert_uint_eq(wsd_client_open_calls(client), 0);
        ck_assert_int_eq(wsd_client_submit(client, &job, NULL, &call), 0);
        peer_expect(&peer, client, FRAME_SUBMIT);
        peer_send_done(&peer, peer.frame.tag, 5, 0, "");
        ck_assert_int_eq(wsd_call_wait(call, SECOND, NULL), 0);
        wsd_call_free(call);
    }
    client = wsd_client_free(client);
    ck_assert_uint_eq(n_done, n);
    peer_deinit(&peer);
    ck_assert_uint_eq(count_fds(), fds_before);
}

static void submit(struct job *j, const struct wsd_submit *job)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks),
                                            .accepted = on_accepted,
                                            .output = on_output,
                                            .message = on_message,
                                            .progress = on_progress,
                                            .done = on_done,
                                            .userdata = j};

    ck_assert_int_eq(wsd_client_submit(client, job, &callbacks, &j->call), 0);
}

/* They go together. */
static uint32_t submit_all(uint32_t flags)
{
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], &(struct wsd_submit){.size = sizeof(struct wsd_submit), .plugin = "p", .flags = flags});
    peer_expect(&peer, client, FRAME_ARRAY);
    ck_assert_uint_eq(peer.msg.submit.items, JOBS);
    return peer.frame.tag;
}

static void expect_all(int error, const char *output)
{
    ck_assert_uint_eq(n_done, JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        ck_assert_uint_eq(jobs[i].n_done, 1);
        ck_assert_int_eq(jobs[i].error, error);
        ck_assert_str_eq(jobs[i].output, output);
    }
}

static void send_ends(uint32_t tag, const struct msg_end *ends, uint32_t n, bool last)
{
    struct msg m = {.type = FRAME_ENDS, .ends = {.plugin = {"p", 1}, .function = {"f", 1}, .records = n, .last = last}};
    uint8_t body[FRAME_MAX];
    size_t size = 0;

    for (uint32_t i = 0; i < n; size += codec_end_size(&ends[i++]))
        codec_put_end(&ends[i], body + size);
    peer_send(&peer, &m, tag, body, size);
}

/* The ends of all, in one frame: one by one, and several in a record. */
static void send_all_ends(uint32_t tag)
{
    struct msg_end ends[JOBS];
    uint8_t ones[256], *at = ones;
    uint32_t n = 0;

    for (; n < JOBS / 2; n++)
        ends[n] = (struct msg_end){.index = n,
                                   .n = 1,
                                   .state = n % 2 ? WSD_JOB_FAILED : WSD_JOB_SUCCEEDED,
                                   .output = {"out", 3},
                                   .error = {"e", n % 2},
                                   .status = {"", 0},
                                   .worker = {"1.0", 3},
                                   .backtrace = {"", 0}};
    for (uint32_t i = n; i < JOBS; i++)
        at = codec_put_one(&(struct msg_one){.output = {"out", 3}}, at);
    ends[n] = (struct msg_end){.index = n,
                               .n = JOBS - n,
                               .state = WSD_JOB_SUCCEEDED,
                               .output = {(char *)ones, (size_t)(at - ones)},
                               .error = {"", 0},
                               .status = {"", 0},
                               .worker = {"1.0", 3},
                               .backtrace = {"", 0}};
    send_ends(tag, ends, n + 1, true);
}

/* --- each callback ------------------------------------------------------------------------------------------------ */

static const unsigned kinds[] = {OUTPUT, DONE, OUTPUT | DONE};

START_TEST(in_the_midst_of_a_frame)
{
    way = (unsigned)_i % N_WAYS;
    leaves = kinds[(unsigned)_i / CASES];
    send_all_ends(submit_all(0));
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % N_TURNS], 0);
    expect_all(0, "out");
    ck_assert_uint_eq(n_left, leaves == (OUTPUT | DONE) ? 2 * JOBS : JOBS);
}
END_TEST

/* And then those behind it are lost with the connection, but not those that had come. */
START_TEST(before_the_end_of_the_connection)
{
    way = (unsigned)_i % N_WAYS;
    leaves = DONE;
    send_all_ends(submit_all(0));
    peer_close(&peer);
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % N_TURNS], -ECONNRESET);
    expect_all(0, "out");
}
END_TEST

START_TEST(at_the_end_of_the_connection)
{
    way = (unsigned)_i % N_WAYS;
    leaves = DONE;
    submit_all(0);
    peer_close(&peer);
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % N_TURNS], -ECONNRESET);
    expect_all(-ECONNRESET, "");
}
END_TEST

/* All of an array at once, or some of them in a record. */
START_TEST(when_they_are_refused)
{
    way = (unsigned)_i % N_WAYS;
    leaves = DONE;
    uint32_t tag = submit_all(0);
    if (_i / CASES)
        peer_send_error(&peer, tag, 75, "full");
    else
        send_ends(tag,
                  &(struct msg_end){.n = JOBS,
                                    .exit = 75,
                                    .error = {"full", 4},
                                    .output = {"", 0},
                                    .status = {"", 0},
                                    .worker = {"", 0},
                                    .backtrace = {"", 0}},
                  1, true);
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % N_TURNS], 0);
    expect_all(-EAGAIN, "");
    ck_assert_uint_eq(n_left, JOBS);
}
END_TEST

/* Those that leave end with that. */
START_TEST(when_they_are_accepted)
{
    way = (unsigned)_i % N_WAYS;
    leaves = (unsigned)_i / CASES ? ACCEPTED : ACCEPTED | DONE;
    uint32_t tag = submit_all(WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE);
    peer_send(&peer, &(struct msg){.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = JOBS}}, tag, NULL, 0);
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % N_TURNS], 0);
    expect_all(0, "");
    for (unsigned i = 0; i < JOBS; i++)
        ck_assert_uint_eq(jobs[i].n_accepted, 1);
    peer_expect(&peer, client, FRAME_FORGET);
    peer_send_empty(&peer, FRAME_END, tag);
}
END_TEST

START_TEST(of_a_call_by_itself)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .priority = 1, .flags = WSD_SUBMIT_PROGRESS};
    const unsigned rounds = _i / CASES ? 2 : 1; /* all of them leave, or none does */

    way = (unsigned)_i % N_WAYS;
    leaves = _i / CASES ? 0xff : 0;
    submit(&jobs[0], &job);
    submit(&jobs[1], &job);
    for (unsigned i = 0; i < 2; i++) {
        peer_expect(&peer, client, FRAME_SUBMIT);
        uint32_t tag = peer.frame.tag;

        peer_send_accepted(&peer, tag);
        peer_send(&peer, &(struct msg){.type = FRAME_MESSAGE, .message = {.level = 6, .text = {"m", 1}}}, tag, NULL, 0);
        peer_send(&peer, &(struct msg){.type = FRAME_PROGRESS, .progress = {.done = 1, .total = 2}}, tag, NULL, 0);
        peer_send_output(&peer, tag, 0, "out", 3);
        peer_send_output(&peer, tag, 3, "put", 3);
        peer_send_done(&peer, tag, 5, 0, "");
    }
    turn_until_done(2, turns[(unsigned)_i / N_WAYS % N_TURNS], 0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(jobs[i].n_accepted, 1);
        ck_assert_uint_eq(jobs[i].n_messages, 1);
        ck_assert_uint_eq(jobs[i].n_progress, 1);
        ck_assert_uint_eq(jobs[i].n_done, 1);
        ck_assert_str_eq(jobs[i].output, "output");
    }
    ck_assert_uint_eq(n_left, rounds == 2 ? 12 : 0);
}
END_TEST

/* Its credit goes on, and output that was held back comes. */
static int resume(void)
{
    return wsd_call_resume(jobs[0].call);
}

static int holds(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;

    strncat(j->output, data, size < 8 ? size : 8);
    if (j->n_accepted++ == 0)
        return 1;
    leave(OUTPUT);
    return 0;
}

START_TEST(of_output_that_was_held_back)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = holds, .done = on_done, .userdata = &jobs[0]};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .priority = 1};
    char large[1000];
    int r;

    way = (unsigned)_i % N_WAYS;
    leaves = OUTPUT;
    memset(large, 'x', sizeof(large));
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, &jobs[0].call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_output(&peer, peer.frame.tag, 0, "one", 3);
    peer_send_output(&peer, peer.frame.tag, 3, large, sizeof(large));
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_str_eq(jobs[0].output, "one");
    ck_assert(!stays(resume, &r));
    turn_until_done(1, process, 0);
    ck_assert_str_eq(jobs[0].output, "onexxxxxxxx");
    ck_assert_uint_eq(n_left, 1);
}
END_TEST

START_TEST(at_a_deadline)
{
    way = (unsigned)_i % N_WAYS;
    leaves = DONE;
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], &(struct wsd_submit){
                             .size = sizeof(struct wsd_submit), .plugin = "p", .priority = 1, .deadline_usec = 1});
    turn_until_done(JOBS, turns[(unsigned)_i / N_WAYS % 3], 0);
    expect_all(-ETIMEDOUT, "");
    peer_expect(&peer, client, FRAME_ARRAY);
    for (unsigned i = 0; i < JOBS; i++)
        peer_expect(&peer, client, FRAME_CANCEL);
    peer_send_error(&peer, peer.frame.tag, 130, "cancelled");
    for (int i = 0; i < 100 && wsd_client_open_calls(client); i++)
        ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

/* --- callbacks that are of no call -------------------------------------------------------------------------------- */

static void wake(void *userdata)
{
}

START_TEST(of_jobs_that_were_posted)
{
    unsigned numbers[JOBS];
    int r;

    way = (unsigned)_i;
    leaves = OTHER;
    ck_assert_int_eq(wsd_client_set_wake(client, wake, NULL), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        const struct wsd_submit job = {.size = sizeof(job), .plugin = ""};
        const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_refused, .userdata = &numbers[i]};

        numbers[i] = i;
        ck_assert_int_eq(wsd_client_post(client, &job, &callbacks), 0);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
        ck_assert(!stays(process, &r));
        ck_assert_uint_eq(n_others, i + 1);
    }
}
END_TEST

START_TEST(of_room_and_questions)
{
    int r;

    way = (unsigned)_i;
    leaves = OTHER;
    ck_assert_int_eq(wsd_client_set_bounds(client, 0, 1, on_room, NULL), 0);
    submit(&jobs[0], &(struct wsd_submit){.size = sizeof(struct wsd_submit), .plugin = "p", .priority = 1});
    ck_assert_int_eq(
        wsd_client_submit(client, &(struct wsd_submit){.size = sizeof(struct wsd_submit), .plugin = "p"}, NULL, NULL),
        -EAGAIN);
    ck_assert_int_eq(wsd_client_ask_ping(client, on_pong, NULL), 0);
    ck_assert_int_eq(wsd_client_ask_ping(client, on_pong, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    for (int i = 0; i < 2; i++) {
        peer_expect(&peer, NULL, FRAME_PING);
        peer_send_empty(&peer, FRAME_PONG, peer.frame.tag);
    }
    for (int i = 0; i < 100 && n_others < 3; i++)
        stays(process, &r);
    ck_assert_uint_eq(n_others, 3);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_eq(n_left, 3);
}
END_TEST

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    on_other();
    return 0;
}

/* Its end is told all the same. */
START_TEST(of_an_answer_that_is_shown)
{
    const struct msg_counter counters[] = {{.name = {"a", 1}}, {.name = {"b", 1}}};
    const struct msg m = {.type = FRAME_COUNTERS, .stats = {.counters = counters, .n_counters = 2}};
    int r;

    way = (unsigned)_i;
    leaves = OTHER;
    ck_assert_int_eq(wsd_client_ask_stats(client, on_counter, on_pong, NULL), 0);
    peer_expect(&peer, client, FRAME_STATS);
    peer_send(&peer, &m, peer.frame.tag, NULL, 0);
    ck_assert(!stays(process, &r));
    ck_assert_uint_eq(n_others, 1);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    ck_assert(!stays(process, &r));
    ck_assert_uint_eq(n_others, 2);
    process();
    ck_assert_uint_eq(n_others, 2);
}
END_TEST

START_TEST(of_a_handle_that_connects_again)
{
    const struct wsd_open how = {.size = sizeof(how), .socket = peer.path, .flags = WSD_OPEN_AGAIN, .state = on_state};
    int r;

    wsd_client_free(client);
    peer_close(&peer);
    way = (unsigned)_i;
    leaves = OTHER | DONE;
    ck_assert_int_eq(wsd_client_open_with(&client, &how), 0);
    for (unsigned n = 0; n < 3; n++) {
        leaves = 0;
        buffer_drop(&peer.in, buffer_size(&peer.in));
        peer.used = 0;
        peer_accept(&peer, client);
        while (n_others < 2 * n + 1)
            ck_assert_int_eq(wsd_client_process(client), 0);
        memset(jobs, 0, sizeof(jobs));
        n_done = 0;
        submit_all(0);
        leaves = OTHER | DONE;
        peer_close(&peer);
        for (int i = 0; i < 1000 && n_others < 2 * n + 2; i++)
            stays(process, &r);
        ck_assert_uint_eq(n_others, 2 * n + 2);
        expect_all(-ECONNRESET, "");
    }
}
END_TEST

/* --- calls that it passes through --------------------------------------------------------------------------------- */

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
    on_other();
    return 0;
}

static uint64_t deadline_usec; /* of the map; 0: none */

static int map_them(void)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = deadline_usec};
    const struct wsd_item items[3] = {{.size = sizeof(*items)}, {.size = sizeof(*items)}, {.size = sizeof(*items)}};

    return wsd_map(client, &job, 0, items, 3, on_item, NULL);
}

/* What they wait for has no reader then. */
START_TEST(calls_that_wait_let_exceptions_through)
{
    static int (*const waits[])(void) = {ping, call_it, map_them};
    int r;

    way = THROWS;
    leaves = DONE;
    send_all_ends(submit_all(0));
    ck_assert(!stays(waits[_i], &r));
    ck_assert_uint_eq(n_done, 1);
    turn_until_done(JOBS, process, 0);
    expect_all(0, "out");
    ck_assert_uint_eq(n_others, 0);
    leaves = 0;
    if (_i == 0) {
        peer_expect(&peer, client, FRAME_PING);
        peer_send_empty(&peer, FRAME_PONG, peer.frame.tag);
    } else {
        if (_i == 2)
            peer_expect(&peer, client, FRAME_BATCH);
        peer_expect(&peer, client, _i == 1 ? FRAME_SUBMIT : FRAME_ARRAY);
        peer_send_error(&peer, peer.frame.tag, 130, "cancelled");
    }
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(wsd_client_process(client), 0);
    while (!peer_quiet(&peer, client))
        ;
}
END_TEST

/* That all of it is freed is seen by valgrind and AddressSanitizer. */
START_TEST(out_of_a_map_that_is_given_up)
{
    int r;

    way = THROWS;
    leaves = OTHER;
    deadline_usec = 200000;
    ck_assert(!stays(map_them, &r));
    deadline_usec = 0;
    leaves = 0;
    ck_assert_uint_eq(n_others, 1);
    while (!peer_quiet(&peer, client))
        ;
    if (_i == 1)
        peer_close(&peer);
}
END_TEST

/* Caught in another callback of the handle, which returns. */
static unsigned n_inner;

static int catches(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;
    int r = 0;

    strncat(j->output, data, size);
    leaves = DONE;
    n_inner += !stays(process, &r);
    leaves = 0;
    ck_assert_int_eq(wsd_client_process(client), 0); /* it takes what came for storage of its own */
    ck_assert_mem_eq(data, "out", 3);                /* it is still there */
    return 0;
}

START_TEST(a_callback_may_catch_what_another_throws)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = catches, .done = on_done, .userdata = &jobs[0]};
    const struct wsd_callbacks others = {.size = sizeof(others), .output = on_output, .done = on_done};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};

    way = THROWS;
    n_inner = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        struct wsd_callbacks c = i == 0 ? callbacks : others;

        c.userdata = &jobs[i];
        ck_assert_int_eq(wsd_client_submit(client, &job, &c, &jobs[i].call), 0);
    }
    peer_expect(&peer, client, FRAME_ARRAY);
    struct msg_end ends[JOBS];
    for (uint32_t i = 0; i < JOBS; i++)
        ends[i] = (struct msg_end){.index = i,
                                   .n = 1,
                                   .state = WSD_JOB_SUCCEEDED,
                                   .output = {"out", 3},
                                   .error = {"", 0},
                                   .status = {"", 0},
                                   .worker = {"1.0", 3},
                                   .backtrace = {"", 0}};
    uint32_t tag = peer.frame.tag;
    send_ends(tag, ends, 1, false);
    send_ends(tag, ends + 1, JOBS - 1, true);
    for (int i = 0; i < 100 && n_done < JOBS; i++)
        ck_assert_int_eq(wsd_client_process(client), 0);
    expect_all(0, "out");
    ck_assert_uint_eq(n_inner, 1);
}
END_TEST

/* --- freeing ------------------------------------------------------------------------------------------------------ */

static int free_it(void)
{
    client = wsd_client_free(client);
    return 0;
}

START_TEST(a_handle_may_be_freed_behind_it)
{
    int r;

    way = (unsigned)_i;
    leaves = DONE;
    send_all_ends(submit_all(0));
    ck_assert(!stays(process, &r));
    leaves = 0;
    client = wsd_client_free(client); /* what has come is not told any more, but each has its end */
    ck_assert_uint_eq(n_done, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        ck_assert_uint_eq(jobs[i].n_done, 1);
}
END_TEST

START_TEST(and_before_it)
{
    int r;

    way = THROWS;
    leaves = DONE;
    frees = true;
    send_all_ends(submit_all(0));
    ck_assert(!stays(process, &r));
    client = NULL;
    ck_assert_uint_eq(n_done, JOBS);
    ck_assert_uint_eq(n_left, 1);
}
END_TEST

static void leave_once(void)
{
    leaves = DONE;
    chance = 0;
}

static void on_first_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                          void *userdata)
{
    struct job *j = userdata;

    n_done++;
    j->n_done++;
    wsd_call_free(call);
    if (n_done == 1) {
        leave_once();
        leave(DONE);
    }
}

START_TEST(an_exception_out_of_the_end_of_the_handle)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .priority = _i};
    int r;

    way = THROWS;
    for (unsigned i = 0; i < JOBS; i++) {
        const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_first_done, .userdata = &jobs[i]};

        ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    }
    ck_assert(!stays(free_it, &r));
    client = NULL;
    ck_assert_uint_eq(n_done, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        ck_assert_uint_eq(jobs[i].n_done, 1);
}
END_TEST

/* --- many rounds -------------------------------------------------------------------------------------------------- */

START_TEST(again_and_again)
{
    const char *thorough = getenv("WSD_THOROUGH");
    unsigned rounds = thorough && *thorough ? 10000 : 300;

    way = (unsigned)_i;
    seed = 81128;
    chance = 3;
    for (unsigned n = 0; n < rounds; n++) {
        memset(jobs, 0, sizeof(jobs));
        n_done = 0;
        leaves = 0;
        uint32_t tag = submit_all(0);
        leaves = draw() & 0xff;
        int kind = (int)(draw() % 3);
        if (kind == 0)
            peer_send_error(&peer, tag, 75, "full");
        else if (kind == 1)
            peer_send(&peer, &(struct msg){.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = JOBS}}, tag, NULL,
                      0);
        if (kind)
            send_all_ends(tag);
        turn_until_done(JOBS, turns[draw() % 3], 0);
        expect_all(kind ? 0 : -EAGAIN, kind ? "out" : "");
        for (unsigned i = 0; i < JOBS; i++) {
            ck_assert_uint_eq(jobs[i].n_accepted, kind == 1);
            wsd_call_free(jobs[i].call);
        }
        ck_assert_uint_eq(wsd_client_open_calls(client), 0);
    }
    ck_assert_uint_gt(n_left, rounds / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("leaving");
    TCase *live = tcase_create("live");

    tcase_add_checked_fixture(live, setup, teardown);
    tcase_set_timeout(live, 100);
    suite_add_tcase(suite, live);
    tcase_add_loop_test(live, in_the_midst_of_a_frame, 0, 3 * CASES);
    tcase_add_loop_test(live, before_the_end_of_the_connection, 0, CASES);
    tcase_add_loop_test(live, at_the_end_of_the_connection, 0, CASES);
    tcase_add_loop_test(live, when_they_are_refused, 0, 2 * CASES);
    tcase_add_loop_test(live, when_they_are_accepted, 0, 2 * CASES);
    tcase_add_loop_test(live, of_a_call_by_itself, 0, 2 * CASES);
    tcase_add_loop_test(live, of_output_that_was_held_back, 0, N_WAYS);
    tcase_add_loop_test(live, at_a_deadline, 0, 3 * N_WAYS);
    tcase_add_loop_test(live, of_jobs_that_were_posted, 0, N_WAYS);
    tcase_add_loop_test(live, of_room_and_questions, 0, N_WAYS);
    tcase_add_loop_test(live, of_an_answer_that_is_shown, 0, N_WAYS);
    tcase_add_loop_test(live, of_a_handle_that_connects_again, 0, N_WAYS);
    tcase_add_loop_test(live, calls_that_wait_let_exceptions_through, 0, 3);
    tcase_add_loop_test(live, out_of_a_map_that_is_given_up, 0, 2);
    tcase_add_test(live, a_callback_may_catch_what_another_throws);
    tcase_add_loop_test(live, a_handle_may_be_freed_behind_it, 0, N_WAYS);
    tcase_add_test(live, and_before_it);
    tcase_add_loop_test(live, an_exception_out_of_the_end_of_the_handle, 0, 2);
    tcase_add_loop_test(live, again_and_again, 0, N_WAYS);
    return run_suite(suite);
}
