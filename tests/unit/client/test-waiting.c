/* SPDX-License-Identifier: Apache-2.0
 *
 * test-waiting.c: what ends a blocking call of the library when wsd does not answer: deadlines and the program's wish.
 * Each call is told one end, and late answers of wsd are discarded. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"
#include "peer.h"
#include "tests/unit/suite.h"
#include "proto/records.h"

#define SECOND 1000000u
#define SHORT  30000u /* a deadline */
#define ITEMS  3u

static struct peer peer;
static struct wsd_client *client;
static unsigned n_asked, wanted_at, n_told, n_done;
static volatile sig_atomic_t flag;
static uint32_t last_tag, n_cancelled;

static void setup_with(uint64_t features)
{
    n_asked = wanted_at = n_told = n_done = last_tag = n_cancelled = 0; /* all in one process under valgrind */
    flag = 0;
    peer_start(&peer, &client, 100000, features);
}

static void setup(void)
{
    setup_with(~(uint64_t)FEATURE_LANE);
}

static void setup_old(void)
{
    setup_with(0);
}

static void setup_closed(void)
{
    setup();
    peer_close(&peer);
    ck_assert_int_lt(wsd_client_ping(client, NULL), 0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

/* Not 0 from the wanted_at-th question on. */
static int interrupted(void *userdata)
{
    ck_assert_ptr_eq(userdata, &peer);
    n_asked++;
    return flag || (wanted_at && n_asked >= wanted_at);
}

/* --- the calls that wait ------------------------------------------------------------------------------------------ */

static const struct wsd_id id = {{1}};

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    return 0;
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    return 0;
}

static int ping(void)
{
    return wsd_client_ping(client, NULL);
}

static int status(void)
{
    struct wsd_job_info info = {.size = sizeof(info)};

    return wsd_client_job(client, &id, &info);
}

static int list(void)
{
    return wsd_client_list(client, on_job, NULL);
}

static int stats(void)
{
    return wsd_client_stats(client, on_counter, NULL);
}

static int workers(void)
{
    return wsd_client_workers(client, NULL, NULL, NULL);
}

static int remove_schedule(void)
{
    return wsd_client_schedule_remove(client, "daily");
}

static int await_batch(void)
{
    return wsd_client_batch_await(client, &id, UINT64_MAX, NULL, NULL, NULL);
}

static int make_arena(void)
{
    struct wsd_arena *arena;

    return wsd_arena_new(client, 4096, &arena);
}

static int wait_for_anything(void)
{
    return wsd_client_wait(client, UINT64_MAX);
}

static struct wsd_submit submit_of(uint64_t deadline_usec)
{
    return (struct wsd_submit){
        .size = sizeof(struct wsd_submit), .plugin = "p", .function = "f", .deadline_usec = deadline_usec};
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
}

static struct wsd_call *submit(uint64_t deadline_usec)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit submit = submit_of(deadline_usec);
    struct wsd_call *call;

    ck_assert_int_eq(wsd_client_submit(client, &submit, &callbacks, &call), 0);
    return call;
}

/* The wait is over, the call is not: the program frees it. */
static int wait_and_free(uint64_t deadline_usec)
{
    struct wsd_call *call = submit(deadline_usec);
    int r = wsd_call_wait(call, UINT64_MAX, NULL);

    ck_assert_uint_eq(n_done, 0);
    wsd_call_free(call);
    return r;
}

static int wait_for_call(void)
{
    return wait_and_free(0);
}

static int wait_for_batch(void)
{
    const struct wsd_submit common = submit_of(0);
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch *batch;

    ck_assert_int_eq(wsd_batch_open(client, &common, 0, &batch), 0);
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    int r = wsd_batch_wait(batch, UINT64_MAX, NULL);
    wsd_batch_free(batch);
    return r;
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    ck_assert(index < ITEMS && !(n_told & 1u << index));
    n_told |= 1u << index;
    ck_assert_int_eq(error, *(const int *)userdata);
    ck_assert_str_eq(text, error == -EINTR ? "the program has ended the wait" : "no answer from wsd in time");
    return 0;
}

/* The second has an input that goes by itself, and is a call for that. */
static int map_with(uint64_t deadline_usec)
{
    static char large[40000];
    int error = wanted_at || flag ? -EINTR : -ETIMEDOUT;
    const struct wsd_submit common = submit_of(deadline_usec);
    struct wsd_item items[ITEMS] = {
        {.size = sizeof(*items)}, {.size = sizeof(*items)}, {.size = sizeof(*items), .input = "x", .input_size = 1}};

    items[1].input = large;
    items[1].input_size = sizeof(large);
    int r = wsd_map(client, &common, WSD_BATCH_KEEP_GOING, items, ITEMS, on_item, &error);
    ck_assert_uint_eq(n_told, (1u << ITEMS) - 1);
    return r;
}

static int map(void)
{
    return map_with(0);
}

static struct wsd_call_result results[ITEMS];

/* The deadline of each; how many answers are there already is the peer's affair. */
static int call_with(size_t n, const uint64_t deadlines[])
{
    struct wsd_call_request requests[ITEMS];

    for (size_t i = 0; i < n; i++) {
        requests[i] = (struct wsd_call_request){.size = sizeof(*requests), .plugin = "p"};
        requests[i].deadline_usec = deadlines ? deadlines[i] : 0;
        results[i] = (struct wsd_call_result){.size = sizeof(*results), .code = 1};
    }
    return n == 1 ? wsd_call(client, requests, results) : wsd_calls(client, requests, results, n);
}

static int call(void)
{
    return call_with(1, NULL);
}

static int calls(void)
{
    int r = call_with(ITEMS, NULL);

    for (size_t i = 0; i < ITEMS; i++)
        ck_assert_int_eq(results[i].code, r);
    return r;
}

static int (*const waits[])(void) = {
    ping,       status,        list,           stats, workers, remove_schedule, await_batch,
    make_arena, wait_for_call, wait_for_batch, map,   call,    calls,           wait_for_anything};
static int (*const old_waits[])(void) = {ping, stats, wait_for_call, wait_for_batch, map, call, calls};

/* --- what the peer says late -------------------------------------------------------------------------------------- */

static void end_array(uint32_t tag, uint32_t n)
{
    struct msg m = {.type = FRAME_ENDS, .ends = {.plugin = {"p", 1}, .function = {"f", 1}, .records = n, .last = true}};
    uint8_t body[4096];
    size_t size = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct msg_end end = {.index = i, .n = 1, .state = 5, .output = {"late", 4}};

        codec_put_end(&end, body + size);
        size += codec_end_size(&end);
    }
    peer_send(&peer, &m, tag, body, size);
}

static void answer_late(void)
{
    uint32_t tag = peer.frame.tag;

    last_tag = MAX(last_tag, tag);
    switch (peer.frame.type) {
    case FRAME_SUBMIT:
        peer_send_output(&peer, tag, 0, "late", 4);
        peer_send_done(&peer, tag, 5, 0, "");
        break;
    case FRAME_ARRAY:
        end_array(tag, peer.msg.submit.items);
        break;
    case FRAME_CANCEL:
        n_cancelled++;
        break;
    case FRAME_PING:
        peer_send_empty(&peer, FRAME_PONG, tag);
        break;
    case FRAME_STATS:
        peer_send(&peer, &(struct msg){.type = FRAME_COUNTERS}, tag, NULL, 0);
        break;
    case FRAME_ARENA_OPEN:
        peer.n_fds--; /* that of the arena */
        close_fd(peer.fds[peer.n_fds]);
        peer_send_empty(&peer, FRAME_ARENA, tag);
        break;
    case FRAME_BATCH:
        if (peer.msg.batch.action == BATCH_OPEN)
            peer_send(&peer,
                      &(struct msg){.type = FRAME_BATCH_STATE,
                                    .batch_state = {.id = "0123456789abcde", .flags = BATCH_ENDED | BATCH_CLOSED}},
                      tag, NULL, 0);
        break;
    default:
        peer_send_empty(&peer, FRAME_END, tag);
    }
}

/* The handle is as good as before, whatever comes late. */
static void wants_its_next_answer(void)
{
    n_asked = wanted_at = 0;
    flag = 0;
    while (!peer_quiet(&peer, client))
        answer_late();
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_send_empty(&peer, FRAME_PONG, last_tag + 1);
    ck_assert_int_eq(wsd_client_set_deadline(client, 5 * SECOND), 0);
    ck_assert_int_eq(ping(), 0);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

static void ends_in_time(int (*wait)(void))
{
    uint64_t before = clock_monotonic_usec();

    ck_assert_int_eq(wsd_client_set_deadline(client, SHORT), 0);
    ck_assert_int_eq(wait(), -ETIMEDOUT);
    ck_assert_uint_ge(clock_monotonic_usec() - before, SHORT);
    ck_assert_uint_gt(strlen(wsd_client_error(client)), 0);
    wants_its_next_answer();
}

START_TEST(a_deadline_of_the_handle_ends_each_wait)
{
    ends_in_time(waits[_i]);
}
END_TEST

START_TEST(it_does_with_an_old_wsd_too)
{
    ends_in_time(old_waits[_i]);
}
END_TEST

START_TEST(a_time_that_is_given_goes_before_it)
{
    struct wsd_call *call = submit(0);

    ck_assert_int_eq(wsd_client_set_deadline(client, 1), 0);
    uint64_t before = clock_monotonic_usec();
    ck_assert_int_eq(wsd_call_wait(call, SHORT, NULL), -ETIMEDOUT);
    ck_assert_uint_ge(clock_monotonic_usec() - before, SHORT);
    ck_assert_int_eq(wsd_call_wait(call, 0, NULL), -ETIMEDOUT);
    ck_assert_int_eq(call_with(1, (const uint64_t[]){SHORT}), -ETIMEDOUT);
    ck_assert_uint_ge(clock_monotonic_usec() - before, 2 * SHORT);
    /* and leaves the job alone: only that of wsd_call() is cancelled */
    wants_its_next_answer();
    ck_assert_uint_eq(n_cancelled, 1);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(wsd_call_wait(call, 0, NULL), 0);
}
END_TEST

START_TEST(a_job_is_cancelled_at_its_own_deadline)
{
    uint64_t before = clock_monotonic_usec();

    if (_i == 0) {
        ck_assert_int_eq(wait_and_free(SHORT), -ETIMEDOUT);
    } else if (_i == 1) {
        ck_assert_int_eq(map_with(SHORT), -ETIMEDOUT);
    } else {
        ck_assert_int_eq(call_with(1, (const uint64_t[]){SHORT}), -ETIMEDOUT);
        ck_assert_int_eq(wsd_client_exit(client), 125); /* it may have run */
        ck_assert_int_eq(results[0].exit, 125);
    }
    ck_assert_uint_ge(clock_monotonic_usec() - before, SHORT);
    wants_its_next_answer();
    ck_assert_uint_ge(n_cancelled, 1);
}
END_TEST

/* It counts from the submit on: when the wait begins, it is over. */
START_TEST(a_deadline_counts_from_the_submit)
{
    struct wsd_call *call = submit(SHORT), *other = submit(UINT64_MAX);

    ck_assert_int_eq(wsd_call_wait(other, 2 * SHORT, NULL), -ETIMEDOUT);
    ck_assert_int_eq(wsd_call_wait(call, 60 * SECOND, NULL), -ETIMEDOUT);
    ck_assert_uint_eq(n_done, 0);
    wants_its_next_answer();
    ck_assert_uint_eq(n_cancelled, 1); /* the other goes on */
    ck_assert_uint_eq(n_done, 2);      /* and each is told its end once */
}
END_TEST

/* 0: its own deadline, 1: the handle's, 2: the program; 3: a time that was given, which leaves the jobs alone */
START_TEST(a_batch_that_is_not_waited_for_is_cancelled)
{
    const struct wsd_submit common = submit_of(_i == 0 ? SHORT : 0);
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch *batch;

    ck_assert_int_eq(wsd_batch_open(client, &common, 0, &batch), 0);
    ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
    if (_i == 1)
        ck_assert_int_eq(wsd_client_set_deadline(client, SHORT), 0);
    wanted_at = _i == 2 ? 2 : 0;
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    ck_assert_int_eq(wsd_batch_wait(batch, _i == 3 ? SHORT : UINT64_MAX, NULL), _i == 2 ? -EINTR : -ETIMEDOUT);
    wants_its_next_answer();
    ck_assert_uint_eq(n_cancelled, _i < 3);
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND, NULL), 0);
    wsd_batch_free(batch);
}
END_TEST

static void *answer_the_last(void *arg)
{
    peer_expect(&peer, NULL, FRAME_ARRAY);
    last_tag = peer.frame.tag;
    ck_assert_uint_eq(peer.msg.submit.items, ITEMS);
    for (int i = 0; i < 2; i++) { /* both that have a deadline are cancelled; then the last one ends */
        peer_expect(&peer, NULL, FRAME_CANCEL);
        ck_assert_uint_eq(peer.msg.id.item, (uint32_t)i);
    }
    end_array(last_tag, ITEMS);
    return NULL;
}

START_TEST(each_of_many_has_its_own_deadline)
{
    struct wsd_call_request requests[ITEMS];
    pthread_t thread;
    char output[ITEMS][8];

    for (size_t i = 0; i < ITEMS; i++) {
        requests[i] = (struct wsd_call_request){.size = sizeof(*requests),
                                                .plugin = "p",
                                                .output = output[i],
                                                .output_room = 8,
                                                .deadline_usec = (i + 1) * SHORT};
        results[i] = (struct wsd_call_result){.size = sizeof(*results), .code = 1};
    }
    requests[ITEMS - 1].deadline_usec = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_the_last, NULL), 0);
    ck_assert_int_eq(wsd_calls(client, requests, results, ITEMS), -ETIMEDOUT);
    pthread_join(thread, NULL);
    ck_assert_int_eq(results[0].code, -ETIMEDOUT);
    ck_assert_int_eq(results[1].code, -ETIMEDOUT);
    ck_assert_int_eq(results[2].code, 0);
    ck_assert_uint_eq(results[2].output_size, 4);
    ck_assert_mem_eq(output[2], "late", 4);
    ck_assert_str_eq(results[0].error, "the deadline has passed: the job is told to stop, and may have run");
    wants_its_next_answer();
}
END_TEST

static int count_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                      const char *text, void *userdata)
{
    n_told++;
    ck_assert_int_eq(error, -EINTR);
    ck_assert_str_eq(text, "the program has ended the wait");
    return 0;
}

/* Of n items, each of which is a call. Returns the CPU time. */
static clock_t give_up_many(size_t n)
{
    const struct wsd_submit common = submit_of(0);
    struct wsd_item *items = calloc(n, sizeof(*items));
    clock_t before = clock();

    ck_assert_ptr_nonnull(items);
    for (size_t i = 0; i < n; i++)
        items[i].size = sizeof(*items);
    n_told = n_asked = 0;
    ck_assert_int_eq(wsd_map(client, &common, WSD_BATCH_KEEP_GOING, items, n, count_item, NULL), -EINTR);
    ck_assert_uint_eq(n_told, n);
    free(items);
    return clock() - before;
}

START_TEST(giving_many_up_takes_as_long_as_for_each)
{
    wanted_at = 1;
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    clock_t few = give_up_many(1024);
    clock_t many = give_up_many(8192);
    ck_assert_msg(many < 20 * few, "%ld for 1024, %ld for 8192", (long)few, (long)many);
}
END_TEST

/* --- a connection that is busy ------------------------------------------------------------------------------------ */

#define MESSAGES 1500u /* 2 ms each */

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    usleep(2000);
}

/* There is always something to read, for some seconds or until the client goes. */
static void *chatter(void *arg)
{
    char text[201];
    const struct msg m = {.type = FRAME_MESSAGE, .message = {.level = 1, .text = {text, 200}}};
    const int small = 1;
    uint8_t frame[512];
    size_t size;

    memset(text, 'x', 200);
    text[200] = 0;
    size = codec_encode(&m, *(const uint32_t *)arg, 0, frame, sizeof(frame));
    setsockopt(peer.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    for (unsigned i = 0; i < MESSAGES && send(peer.fd, frame, size, MSG_NOSIGNAL) > 0; i++)
        ;
    return NULL;
}

static int (*const busy_waits[])(void) = {ping, make_arena, wait_for_call, wait_for_batch, map, call};

START_TEST(what_comes_all_the_time_hides_no_deadline)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .message = on_message};
    const struct wsd_submit job = submit_of(0);
    pthread_t thread;

    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    uint32_t tag = peer.frame.tag;
    ck_assert_int_eq(pthread_create(&thread, NULL, chatter, &tag), 0);
    ck_assert_int_eq(wsd_client_wait(client, UINT64_MAX), 0);
    uint64_t before = clock_monotonic_usec();
    ck_assert_int_eq(wsd_client_set_deadline(client, SHORT), 0);
    ck_assert_int_eq(busy_waits[_i](), -ETIMEDOUT);
    ck_assert_uint_lt(clock_monotonic_usec() - before, MESSAGES * 1000);
    client = wsd_client_free(client);
    pthread_join(thread, NULL);
}
END_TEST

/* --- which deadline ----------------------------------------------------------------------------------------------- */

/* A handle's is that of calls without one of their own; a shorter one does not count for others. */
START_TEST(a_deadline_of_its_own_goes_before_that_of_the_handle)
{
    const struct wsd_submit common = submit_of(2 * SHORT);
    struct wsd_batch *batch;
    struct wsd_call *call;
    uint64_t before;

    ck_assert_int_eq(wsd_client_set_deadline(client, 1), 0);
    before = clock_monotonic_usec();
    if (_i == 0) {
        ck_assert_int_eq(map_with(2 * SHORT), -ETIMEDOUT);
    } else if (_i < 3) {
        const struct wsd_item item = {.size = sizeof(item)};

        ck_assert_int_eq(wsd_batch_open(client, &common, 0, &batch), 0);
        ck_assert_int_eq(wsd_batch_submit(batch, &item, NULL, NULL), 0);
        ck_assert_int_eq(wsd_batch_wait(batch, _i == 1 ? UINT64_MAX : 60 * SECOND, NULL), -ETIMEDOUT);
    } else {
        call = submit(2 * SHORT);
        ck_assert_int_eq(wsd_call_wait(call, _i == 3 ? UINT64_MAX : 60 * SECOND, NULL), -ETIMEDOUT);
    }
    ck_assert_uint_ge(clock_monotonic_usec() - before, 2 * SHORT);
    while (!peer_quiet(&peer, client))
        answer_late();
    ck_assert_uint_ge(n_cancelled, 1); /* it was the job's */
}
END_TEST

/* The requests of a program that knows no deadlines. */
START_TEST(an_older_request_has_none)
{
    struct wsd_call_request q = {.plugin = "p", .deadline_usec = 1};
    struct wsd_call_result r = {.size = sizeof(r)};

    q.size = offsetof(struct wsd_call_request, deadline_usec);
    wanted_at = 3;
    ck_assert_int_eq(wsd_client_set_deadline(client, SHORT), 0);
    ck_assert_int_eq(wsd_call(client, &q, &r), -ETIMEDOUT);
    ck_assert_int_eq(wsd_client_set_deadline(client, 0), 0);
    peer_send_done(&peer, 2, 5, 0, "");
    ck_assert_int_eq(wsd_call(client, &q, &r), 0);
}
END_TEST

/* --- the program's wish ------------------------------------------------------------------------------------------- */

static void is_interrupted(int (*wait)(void), unsigned at)
{
    wanted_at = at;
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    ck_assert_int_eq(wait(), -EINTR);
    ck_assert_uint_eq(n_asked, at);
    wants_its_next_answer();
    ck_assert_int_eq(wsd_client_set_interrupt(client, NULL, NULL), 0);
}

/* No signal comes: it is asked by and by. */
START_TEST(the_program_ends_each_wait)
{
    is_interrupted(waits[_i], 4);
}
END_TEST

START_TEST(it_does_with_an_old_wsd)
{
    is_interrupted(old_waits[_i], 4);
}
END_TEST

START_TEST(before_it_has_begun)
{
    is_interrupted(waits[_i], 1);
}
END_TEST

START_TEST(what_is_not_begun_has_not_run)
{
    is_interrupted(call, 1);
    ck_assert_int_eq(results[0].exit, 130);
    ck_assert_str_eq(results[0].error, "the program has ended the wait: the job has not begun");
    ck_assert_uint_eq(n_cancelled, 0);
    is_interrupted(call, 3);
    ck_assert_int_eq(results[0].exit, 125);
    ck_assert_uint_eq(n_cancelled, 1);
}
END_TEST

/* The second of three questions comes behind the answer to the first. */
START_TEST(an_answer_that_is_there_is_taken)
{
    wanted_at = 2;
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    peer_send_empty(&peer, FRAME_PONG, 1);
    ck_assert_int_eq(ping(), 0);
    ck_assert_uint_eq(n_asked, 1);
}
END_TEST

static void on_alarm(int number)
{
    flag = 1;
}

static void on_alarm_answer(int number)
{
    uint8_t data[FRAME_HEADER_SIZE];

    frame_put_header(data, FRAME_PONG, 1, 0, 0);
    (void)!write(peer.fd, data, sizeof(data));
}

static void alarm_in(uint64_t usec, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler};
    struct itimerval t = {.it_value.tv_usec = (suseconds_t)usec};

    ck_assert_int_eq(sigaction(SIGALRM, &a, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
}

START_TEST(a_handler_with_a_flag_ends_each_wait)
{
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    flag = 0;
    alarm_in(5000, on_alarm);
    wanted_at = 1000000; /* for the words of map() */
    ck_assert_int_eq(waits[_i](), -EINTR);
    ck_assert_int_eq(flag, 1);
    wants_its_next_answer();
}
END_TEST

START_TEST(a_signal_alone_ends_nothing)
{
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    alarm_in(5000, on_alarm_answer);
    ck_assert_int_eq(ping(), 0);
}
END_TEST

/* --- connecting --------------------------------------------------------------------------------------------------- */

static struct wsd_open how_to_open(uint64_t deadline_usec)
{
    return (struct wsd_open){.size = sizeof(struct wsd_open),
                             .socket = peer.path,
                             .deadline_usec = deadline_usec,
                             .interrupted = interrupted,
                             .userdata = &peer};
}

/* The peer accepts and does not shake hands, or its backlog is full. */
START_TEST(connecting_is_bounded)
{
    struct wsd_open how = how_to_open(SHORT);
    struct wsd_client *others[6];
    uint64_t before = clock_monotonic_usec();

    ck_assert_int_eq(listen(peer.listen_fd, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        n_asked = 0;
        wanted_at = i & 1 ? 3 : 0;
        ck_assert_int_eq(wsd_client_open_with(&others[i], &how), i & 1 ? -EINTR : -ETIMEDOUT);
        ck_assert_int_eq(wsd_client_exit(others[i]), i & 1 ? 130 : 69);
        how.deadline_usec = i & 1 ? SHORT : 0;
    }
    ck_assert_uint_ge(clock_monotonic_usec() - before, 3 * SHORT);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        ck_assert_int_eq(wsd_client_ping(others[i], NULL), i & 1 ? -ECONNRESET : -ETIMEDOUT);
        wsd_client_free(others[i]);
    }
}
END_TEST

START_TEST(so_is_connecting_again)
{
    unlink(peer.path);
    ck_assert_int_eq(wsd_client_set_deadline(client, SHORT), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, 0), -ENOENT);
    ck_assert_int_eq(wsd_client_set_interrupt(client, interrupted, &peer), 0);
    wanted_at = 5;
    ck_assert_int_eq(wsd_client_reconnect(client, 60 * SECOND), -EINTR);
    ck_assert_int_lt(ping(), 0);
    ck_assert_int_eq(wsd_client_reconnect(client, 60 * SECOND), -EINTR);
}
END_TEST

/* A handle that could not be opened for what it was given is not connected to another place. */
START_TEST(an_open_that_was_wrong_stays_wrong)
{
    struct {
        struct wsd_tls tls;
        void *newer;
    } tls = {{.size = sizeof(tls), .host = "there:1"}, &peer};
    char path[300] = "/";
    struct wsd_open how = {.size = sizeof(how), .tls = &tls.tls};
    int wanted = -E2BIG;

    if (_i) {
        memset(path, '/', sizeof(path) - 1);
        how = (struct wsd_open){.size = sizeof(how), .socket = path};
        wanted = -ENAMETOOLONG;
    }
    client = wsd_client_free(client);
    ck_assert_int_eq(wsd_client_open_with(&client, &how), wanted);
    ck_assert_int_eq(wsd_client_reconnect(client, SECOND), wanted);
    ck_assert_uint_gt(strlen(wsd_client_error(client)), 0);
}
END_TEST

static void *greet_again(void *arg)
{
    uint8_t data[128];
    struct msg welcome = {.type = FRAME_WELCOME, .welcome = {.version = 1, .program = {"wsd 9", 5}}};

    peer.fd = accept(peer.listen_fd, NULL, NULL);
    peer_expect(&peer, NULL, FRAME_HELLO);
    peer_send_raw(&peer, data, codec_encode(&welcome, 0, 0, data, sizeof(data)));
    return NULL;
}

START_TEST(a_handle_has_what_it_was_opened_with)
{
    const struct wsd_open how = how_to_open(SECOND);
    struct wsd_client *other;
    pthread_t thread;
    int first = peer.fd;

    ck_assert_int_eq(pthread_create(&thread, NULL, greet_again, NULL), 0);
    ck_assert_int_eq(wsd_client_open_with(&other, &how), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_gt(n_asked, 0);
    ck_assert_int_eq(wsd_client_ping(other, NULL), -ETIMEDOUT);
    wanted_at = 1;
    ck_assert_int_eq(wsd_client_ping(other, NULL), -EINTR);
    wsd_client_free(other);
    close_fd(first);
}
END_TEST

START_TEST(a_size_is_wanted)
{
    const struct wsd_open how = {.socket = peer.path};
    struct wsd_client *other;

    ck_assert_int_eq(wsd_client_open_with(&other, &how), -EINVAL);
    ck_assert_str_eq(wsd_client_error(other), "the size of struct wsd_open is not set");
    wsd_client_free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waiting");
    TCase *live = tcase_create("silent"), *old = tcase_create("old"), *closed = tcase_create("closed");

    tcase_add_checked_fixture(live, setup, teardown);
    tcase_add_checked_fixture(old, setup_old, teardown);
    tcase_add_checked_fixture(closed, setup_closed, teardown);
    suite_add_tcase(suite, live);
    suite_add_tcase(suite, old);
    suite_add_tcase(suite, closed);
    tcase_add_loop_test(live, a_deadline_of_the_handle_ends_each_wait, 0, ARRAY_SIZE(waits));
    tcase_add_loop_test(old, it_does_with_an_old_wsd_too, 0, ARRAY_SIZE(old_waits));
    tcase_add_test(live, a_time_that_is_given_goes_before_it);
    tcase_add_loop_test(live, a_job_is_cancelled_at_its_own_deadline, 0, 3);
    tcase_add_test(live, a_deadline_counts_from_the_submit);
    tcase_add_loop_test(live, a_batch_that_is_not_waited_for_is_cancelled, 0, 4);
    tcase_add_test(live, each_of_many_has_its_own_deadline);
    tcase_add_loop_test(live, what_comes_all_the_time_hides_no_deadline, 0, ARRAY_SIZE(busy_waits));
    tcase_add_loop_test(live, a_deadline_of_its_own_goes_before_that_of_the_handle, 0, 5);
    tcase_add_test(old, an_older_request_has_none);
    tcase_add_test(old, giving_many_up_takes_as_long_as_for_each);
    tcase_add_loop_test(live, the_program_ends_each_wait, 0, ARRAY_SIZE(waits));
    tcase_add_loop_test(old, it_does_with_an_old_wsd, 0, ARRAY_SIZE(old_waits));
    tcase_add_loop_test(live, before_it_has_begun, 0, ARRAY_SIZE(waits));
    tcase_add_test(live, what_is_not_begun_has_not_run);
    tcase_add_test(live, an_answer_that_is_there_is_taken);
    tcase_add_loop_test(live, a_handler_with_a_flag_ends_each_wait, 0, ARRAY_SIZE(waits));
    tcase_add_test(live, a_signal_alone_ends_nothing);
    tcase_add_test(live, connecting_is_bounded);
    tcase_add_test(closed, so_is_connecting_again);
    tcase_add_test(live, a_handle_has_what_it_was_opened_with);
    tcase_add_test(live, a_size_is_wanted);
    tcase_add_loop_test(live, an_open_that_was_wrong_stays_wrong, 0, 2);
    return run_suite(suite);
}
