/* SPDX-License-Identifier: Apache-2.0
 *
 * test-running.c: a runner and a scripted wsd (peer.h): what comes at a bad time, what is missing, and what lasts too
 * long. What is refused before wsd is asked is in test-runner.c, what needs a real wsd in
 * tests/integration/runner-c.sh. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <wsd/runner.h>

#include "base/clock.h"

#define TAG 1u /* of all frames of a runner */

static struct peer peer;
static struct wsd_runner *runner;
static struct wsd_function functions[2];
static struct wsd_plugin offer;
static struct wsd_runner_options options;
static sem_t went, goes;

static int stay(struct wsd_job *job, struct wsd_worker *self)
{
    sem_post(&went);
    sem_wait(&goes);
    return 0;
}

static void setup(void)
{
    functions[0] = (struct wsd_function){.name = "plain", .help = "", .run = stay};
    functions[1] = (struct wsd_function){.name = "stream", .help = "", .run = stay, .flags = WSD_FN_STREAMING};
    offer = (struct wsd_plugin){.size = sizeof(offer),
                                .abi = WSD_PLUGIN_ABI,
                                .function_size = sizeof(functions[0]),
                                .n_functions = 2,
                                .functions = functions,
                                .name = "r",
                                .version = "1",
                                .help = ""};
    peer_init(&peer, PEER_WELCOME, 65536);
    peer.features = FEATURES_ALL;
    sem_init(&went, 0, 0);
    sem_init(&goes, 0, 0);
    options = (struct wsd_runner_options){.size = sizeof(options), .socket = peer.path, .credit = 2};
    ck_assert_int_eq(wsd_runner_new(&runner, &options), 0);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
}

static void teardown(void)
{
    runner = wsd_runner_free(runner);
    peer_deinit(&peer);
}

/* --- a thread that calls the runner ------------------------------------------------------------------------------- */

static pthread_t thread;
static int result;

static void *connect_there(void *arg)
{
    result = wsd_runner_connect(runner, 0);
    return NULL;
}

static void begin(void *(*call)(void *arg))
{
    ck_assert_int_eq(pthread_create(&thread, NULL, call, NULL), 0);
}

static int end(void)
{
    pthread_join(thread, NULL);
    return result;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

START_TEST(two_threads_make_one_connection)
{
    struct pollfd p = {.events = POLLIN};

    begin(connect_there);
    ck_assert_int_ge(peer.fd = accept(peer.listen_fd, NULL, NULL), 0);
    ck_assert_int_eq(wsd_runner_connect(runner, 20000), -ETIMEDOUT); /* the other one is at it */
    ck_assert_str_eq(wsd_runner_error(runner), "another thread is connecting");
    p.fd = peer.listen_fd;
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    peer_close(&peer);
    ck_assert_int_eq(end(), -ECONNRESET);
}
END_TEST

static struct span span(const char *text)
{
    return (struct span){.data = text, .size = strlen(text)};
}

static void *run_there(void *arg)
{
    result = wsd_runner_run(runner, 2);
    return NULL;
}

static void take_offer(void)
{
    peer_accept(&peer, NULL);
    peer_expect(&peer, NULL, FRAME_RUNNER_OPEN);
    peer_send_empty(&peer, FRAME_RUNNER, TAG);
}

/* The thread that is told finds no connection, and goes back to sleep. */
START_TEST(it_leaves_though_it_was_told_while_it_connected_again)
{
    begin(run_there);
    take_offer();
    peer_close(&peer);
    ck_assert_int_ge(peer.fd = accept(peer.listen_fd, NULL, NULL), 0);
    peer_expect(&peer, NULL, FRAME_HELLO);
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
    poll(NULL, 0, 1500); /* until the keeper sleeps again; where it does not yet, this passes all the same */
    const struct msg welcome = {
        .type = FRAME_WELCOME,
        .welcome = {.version = 1, .features = FEATURES_ALL, .program = span("wsd 9.9"), .window = 65536}};
    peer_send(&peer, &welcome, 0, NULL, 0);
    peer_expect(&peer, NULL, FRAME_RUNNER_OPEN);
    peer_send_empty(&peer, FRAME_RUNNER, TAG);
    peer_expect(&peer, NULL, FRAME_RUNNER_CLOSE);
    peer_send_empty(&peer, FRAME_END, TAG);
    ck_assert_int_eq(end(), 0);
}
END_TEST

/* fd: its input, from a file unless its function streams, or -1. */
static void send_with_fd(const struct msg *msg, int fd)
{
    uint8_t bytes[512];
    size_t size = codec_encode(msg, TAG, 0, bytes, sizeof(bytes));
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

    ck_assert_uint_gt(size, 0);
    if (fd >= 0) {
        control.align =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
    }
    ck_assert_int_eq(sendmsg(peer.fd, &header, MSG_NOSIGNAL), (ssize_t)size);
}

static void send_run(uint64_t run, const char *function, int fd)
{
    const struct msg msg = {.type = FRAME_RUN,
                            .run = {.run = run,
                                    .attempt = 1,
                                    .directory = span(""),
                                    .job = {.function = span(function),
                                            .input_from = fd < 0             ? RUN_INPUT_BODY
                                                          : *function == 's' ? RUN_INPUT_PIPE
                                                                             : RUN_INPUT_FILE,
                                            .input_size = fd < 0 || *function == 's' ? 0 : 100}}};

    send_with_fd(&msg, fd);
}

static void leave_and_end(void)
{
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
    peer_expect(&peer, NULL, FRAME_RUNNER_CLOSE);
    peer_send_empty(&peer, FRAME_END, TAG);
    ck_assert_int_eq(end(), 0);
}

/* A thread that a job of the connection before still has is free again when that ends. */
START_TEST(it_offers_all_its_threads_again_after_a_loss)
{
    options.credit = 0;
    runner = wsd_runner_free(runner);
    ck_assert_int_eq(wsd_runner_new(&runner, &options), 0);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    begin(run_there);
    take_offer();
    ck_assert_uint_eq(peer.msg.offer.credit, 2);
    send_run(1, "plain", -1);
    sem_wait(&went);
    peer_close(&peer);
    take_offer();
    ck_assert_uint_eq(peer.msg.offer.credit, 2);
    sem_post(&goes);
    leave_and_end();
}
END_TEST

START_TEST(one_that_has_left_stays_so)
{
    struct wsd_job *job;

    begin(run_there);
    take_offer();
    leave_and_end();
    ck_assert_int_eq(wsd_runner_run(runner, 2), -ESHUTDOWN);
    ck_assert_int_eq(wsd_runner_connect(runner, 0), -ESHUTDOWN);
    ck_assert_int_eq(wsd_runner_next(runner, 0, &job), -ESHUTDOWN);
    ck_assert_str_eq(wsd_runner_error(runner), "the runner has left: make another one");
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void *run_many_there(void *arg)
{
    result = wsd_runner_run(runner, WSD_RUNNER_THREADS_MAX);
    return NULL;
}

START_TEST(no_thread_waits_for_wsd_where_another_one_cannot_begin)
{
    const struct rlimit limit = {1u << 30, 1u << 30}; /* so many stacks do not fit */

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    begin(run_many_there);
    take_offer();
    ck_assert_int_eq(end(), -EAGAIN);
    ck_assert_ptr_nonnull(strstr(wsd_runner_error(runner), "a thread cannot be started"));
}
END_TEST
#endif

static void send_ref(uint16_t type, uint64_t run)
{
    peer_send(&peer, &(struct msg){.type = type, .run_ref = {.run = run, .why = RUN_CANCELLED}}, TAG, NULL, 0);
}

static void start_slowly(uint32_t worker)
{
    sem_post(&went);
    sem_wait(&goes);
}

START_TEST(wsd_has_its_answers_while_workers_start)
{
    runner = wsd_runner_free(runner);
    ck_assert_int_eq(wsd_runner_new(&runner, &options), 0);
    offer.worker_start = start_slowly;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    begin(run_there);
    take_offer();
    for (int i = 0; i < 2; i++)
        sem_wait(&went);
    send_ref(FRAME_RUN_PING, 7);
    peer_expect(&peer, NULL, FRAME_RUN_PONG);
    for (int i = 0; i < 2; i++)
        sem_post(&goes);
    leave_and_end();
}
END_TEST

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static void connected(void)
{
    begin(connect_there);
    take_offer();
    ck_assert_int_eq(end(), 0);
}

static struct wsd_job *next(void)
{
    struct wsd_job *job = NULL;

    ck_assert_int_eq(wsd_runner_next(runner, UINT64_MAX, &job), 1);
    return job;
}

START_TEST(a_job_that_waits_for_a_pipe_hears_that_it_was_stopped)
{
    char room[16];
    int pair[2];

    ck_assert_int_eq(pipe(pair), 0);
    connected();
    send_run(1, "stream", pair[0]);
    struct wsd_job *job = next();
    send_ref(FRAME_RUN_PING, 7);
    send_ref(FRAME_RUN_STOP, 1);
    ck_assert_int_eq(wsd_job_read(job, room, sizeof(room)), -ECANCELED);
    peer_expect(&peer, NULL, FRAME_RUN_PONG);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    close(pair[0]);
    close(pair[1]);
}
END_TEST

START_TEST(a_job_that_did_not_end_by_itself)
{
    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_int_eq(wsd_runner_finish_as(runner, job, WSD_JOB_CANCELLED), -EINVAL);
    ck_assert_int_eq(wsd_runner_finish_as(runner, job, WSD_JOB_INTERRUPTED + 1), -EINVAL);
    ck_assert_int_eq(wsd_job_fail(job, 1, "elsewhere"), 1);
    ck_assert_int_eq(wsd_runner_finish_as(runner, job, WSD_JOB_CRASHED), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    ck_assert_uint_eq(peer.msg.run_end.state, WSD_JOB_CRASHED);
    ck_assert_uint_eq(peer.msg.run_end.status, WSD_STATUS_MAX);
    ck_assert_str_eq(peer.msg.run_end.error.data, "elsewhere");
}
END_TEST

START_TEST(a_job_whose_input_is_cut_does_not_hide_the_next)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    struct wsd_job *job;

    connected();
    send_run(1, "plain", fd);
    send_run(2, "plain", fd);
    send_run(3, "plain", -1);
    job = next(); /* waits */
    ck_assert_uint_eq(job->input_size, 0);
    for (int i = 0; i < 2; i++) {
        peer_expect(&peer, NULL, FRAME_RUN_END);
        ck_assert_uint_eq(peer.msg.run_end.status, WSD_STATUS_MAX);
        ck_assert_ptr_nonnull(strstr(peer.msg.run_end.error.data, "its input was cut"));
    }
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
    close(fd);
}
END_TEST

START_TEST(a_loop_writes_what_there_is_room_for)
{
    static const char bytes[128 * 1024]; /* PROTOCOL.md */
    struct msg credit = {.type = FRAME_RUN_CREDIT, .run_credit = {.run = 1, .bytes = 1000}};
    struct wsd_job *none;

    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_uint_eq(wsd_runner_room(job), sizeof(bytes));
    ck_assert_int_eq(wsd_job_write(job, bytes, sizeof(bytes) - 1), 0);
    ck_assert_uint_eq(wsd_runner_room(job), 1);
    ck_assert_int_eq(wsd_job_write(job, bytes, 1), 0);
    ck_assert_uint_eq(wsd_runner_room(job), 0);
    peer_send(&peer, &credit, TAG, NULL, 0);
    while (wsd_runner_room(job) == 0)
        ck_assert_int_eq(wsd_runner_next(runner, 0, &none), 0);
    ck_assert_uint_eq(wsd_runner_room(job), 1000);
    ck_assert_int_eq(wsd_job_write(job, bytes, 1000), 0);
    send_ref(FRAME_RUN_STOP, 1);
    while (!wsd_job_cancelled(job))
        ;
    ck_assert_uint_eq(wsd_runner_room(job), SIZE_MAX);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
}
END_TEST

static int nested;

static int call_again(struct wsd_job *job, struct wsd_worker *self)
{
    nested = wsd_runner_call(runner, job);
    return 5;
}

START_TEST(a_loop_calls_a_function_and_says_its_end)
{
    connected();
    functions[0].run = call_again;
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_int_eq(wsd_runner_call(runner, job), 5);
    ck_assert_int_eq(nested, -EDEADLK);
    ck_assert_ptr_nonnull(strstr(wsd_runner_error(runner), "within a function"));
    ck_assert_int_eq(wsd_runner_finish(runner, job, 5), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    ck_assert_uint_eq(peer.msg.run_end.status, 5);
    functions[0].run = NULL;
    send_run(2, "plain", -1);
    job = next();
    ck_assert_int_eq(wsd_runner_call(runner, job), -EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "function `plain' has no `run'");
    ck_assert_int_eq(wsd_runner_finish(runner, job, -EINVAL), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    ck_assert_uint_eq(peer.msg.run_end.status, WSD_STATUS_MAX);
}
END_TEST

static const struct {
    uint64_t size;
    unsigned seals;
    uint64_t at, room;
    bool fits;
} places[] = {
    {8192, F_SEAL_SHRINK, 0, 8192, true},           {8192, F_SEAL_SHRINK, 5000, 3192, true},
    {8192, F_SEAL_SHRINK, 8191, 1, true},           {8192, F_SEAL_SHRINK, 5000, 3193, false},
    {8192, F_SEAL_SHRINK, 8193, 1, false},          {8192, F_SEAL_SHRINK, 1, INT64_MAX - 1, false},
    {8192, F_SEAL_SHRINK, INT64_MAX - 1, 1, false}, {8192, F_SEAL_GROW, 0, 8192, false}, /* it could be cut */
};

START_TEST(a_place_for_output_is_one_that_stays)
{
    int fd = memfd_create("place", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct msg m = {
        .type = FRAME_RUN,
        .run = {.run = 1,
                .directory = span(""),
                .job = {.function = span("plain"), .output_offset = places[_i].at, .output_size = places[_i].room}}};
    struct wsd_job *job;

    ck_assert_int_eq(ftruncate(fd, (off_t)places[_i].size), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, places[_i].seals), 0);
    connected();
    send_with_fd(&m, fd);
    if (!places[_i].fits) {
        ck_assert_int_eq(wsd_runner_next(runner, 0, &job), 0);
        peer_expect(&peer, NULL, FRAME_RUN_END);
        ck_assert_uint_eq(peer.msg.run_end.status, WSD_STATUS_MAX);
        ck_assert_ptr_nonnull(strstr(peer.msg.run_end.error.data, "its part of the arena"));
        close(fd);
        return;
    }
    static char data[8193];
    memset(data, 'x', sizeof(data));
    job = next();
    ck_assert_int_eq(wsd_job_write(job, data, places[_i].room), 0);
    ck_assert_int_eq(wsd_job_write(job, data, 0), 0);
    ck_assert_int_eq(wsd_job_flush(job), 0);
    ck_assert_int_eq(wsd_job_write(job, data, 1), -ECANCELED);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    ck_assert_uint_eq(peer.msg.run_end.placed, places[_i].room);
    ck_assert_uint_eq(peer.msg.run_end.status, WSD_STATUS_MAX);
    ck_assert_int_eq(pread(fd, data, places[_i].size, 0), (ssize_t)places[_i].size);
    for (uint64_t i = 0; i < places[_i].size; i++)
        ck_assert_int_eq(data[i], i < places[_i].at ? 0 : 'x');
    close(fd);
}
END_TEST

START_TEST(what_a_job_writes_after_it_was_stopped_is_not_kept)
{
    static const char piece[60000];

    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    send_ref(FRAME_RUN_STOP, 1);
    while (!wsd_job_cancelled(job))
        ;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(wsd_job_write(job, piece, sizeof(piece)), -ECANCELED);
    const struct mallinfo2 m = mallinfo2();
    ck_assert_uint_lt(m.uordblks + m.hblkhd, 2000000); /* of 60 MB */
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
}
END_TEST

START_TEST(too_few_descriptors_are_said)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    struct rlimit limit;
    struct wsd_job *job;

    connected();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit few = {3, limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    send_run(1, "plain", fd);
    ck_assert_int_eq(wsd_runner_next(runner, UINT64_MAX, &job), -ECONNRESET);
    ck_assert_str_eq(wsd_runner_error(runner),
                     "too many open files: no room for the input of a job; raise RLIMIT_NOFILE (ulimit -n)");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close(fd);
}
END_TEST

static void *open_there(void *arg)
{
    result = wsd_job_open(arg, "some.file");
    return NULL;
}

START_TEST(a_job_that_waits_for_a_file_hears_that_it_was_stopped)
{
    const struct msg msg = {
        .type = FRAME_RUN,
        .run = {.run = 1, .attempt = 1, .directory = span(""), .job = {.function = span("plain"), .flags = RUN_ASKS}}};

    connected();
    peer_send(&peer, &msg, TAG, NULL, 0);
    struct wsd_job *job = next();
    ck_assert_int_eq(pthread_create(&thread, NULL, open_there, job), 0);
    peer_expect(&peer, NULL, FRAME_RUN_OPEN);
    send_ref(FRAME_RUN_STOP, 1);
    ck_assert_int_eq(end(), -ENOTCONN);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
}
END_TEST

START_TEST(a_file_without_a_descriptor_is_no_answer)
{
    struct wsd_job *job;

    connected();
    send_run(1, "plain", -1);
    job = next();
    peer_send(&peer, &(struct msg){.type = FRAME_RUN_OPENED, .run_opened = {.run = 1, .serial = 1}}, TAG, NULL, 0);
    struct wsd_job *none = NULL;
    ck_assert_int_eq(wsd_runner_next(runner, UINT64_MAX, &none), -ECONNRESET);
    ck_assert_str_eq(wsd_runner_error(runner), "wsd does not keep to the protocol: no descriptor with RUN_OPENED");
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), -ECONNRESET);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
START_TEST(an_end_for_which_there_is_no_memory_ends_the_connection)
{
    static const char output[50000];
    static void *volatile kept; /* or a compiler takes an allocation that is not used for one that succeeds */
    struct rlimit old, none;

    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_int_eq(wsd_job_write(job, output, sizeof(output)), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    while ((kept = malloc(1000)))
        ;
    int r = wsd_runner_finish(runner, job, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
    ck_assert_int_eq(r, -ECONNRESET);
    ck_assert_str_eq(wsd_runner_error(runner), "out of memory");
    ck_assert_int_eq(wsd_runner_fd(runner), -1); /* so wsd knows, too */
}
END_TEST
#endif

/* ThreadSanitizer sees what this does not. */
START_TEST(other_threads_may_ask_while_it_runs)
{
    begin(run_there);
    for (int i = 0; i < 3; i++) {
        take_offer();
        while (wsd_runner_fd(runner) < 0)
            ;
        ck_assert_int_ne(wsd_runner_events(runner) & POLLIN, 0);
        if (i == 2)
            break;
        peer_close(&peer);
        while (wsd_runner_fd(runner) >= 0)
            ;
        while (strcmp(wsd_runner_error(runner), "wsd closed the connection") != 0)
            ;
        ck_assert_int_eq(wsd_runner_exit(runner), 69);
    }
    leave_and_end();
}
END_TEST

static void *write_there(void *arg)
{
    static const char output[200000];

    wsd_job_write(arg, output, sizeof(output));
    return NULL;
}

static void *next_there(void *arg)
{
    struct wsd_job *job;

    result = wsd_runner_next(runner, UINT64_MAX, &job);
    return NULL;
}

/* The thread of the job reads meanwhile. */
START_TEST(a_thread_that_waits_for_a_job_leaves_beside_one_whose_job_waits)
{
    pthread_t writer;

    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_int_eq(pthread_create(&writer, NULL, write_there, job), 0);
    for (uint64_t n = 0; n < 128u * 1024u; n += peer.frame.body_size)
        peer_expect(&peer, NULL, FRAME_RUN_OUTPUT);
    poll(NULL, 0, 50); /* so that it reads; where it does not yet, this passes all the same */
    begin(next_there);
    poll(NULL, 0, 50);
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
    peer_expect(&peer, NULL, FRAME_RUNNER_CLOSE);
    send_ref(FRAME_RUN_STOP, 1);
    pthread_join(writer, NULL);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
    peer_expect(&peer, NULL, FRAME_RUN_END);
    peer_send_empty(&peer, FRAME_END, TAG);
    ck_assert_int_eq(end(), -ESHUTDOWN);
}
END_TEST

/* As between bind() of the next wsd and the change of its socket's group. */
START_TEST(it_comes_back_though_it_was_not_let_in_at_first)
{
    begin(run_there);
    take_offer();
    peer_close(&peer);
    ck_assert_int_ge(peer.fd = accept(peer.listen_fd, NULL, NULL), 0);
    peer_expect(&peer, NULL, FRAME_HELLO);
    peer_send_error(&peer, 0, 77, "not yet");
    peer_close(&peer);
    take_offer();
    leave_and_end();
}
END_TEST

START_TEST(an_offer_that_is_refused_later_ends_it)
{
    begin(run_there);
    take_offer();
    peer_close(&peer);
    peer_accept(&peer, NULL);
    peer_expect(&peer, NULL, FRAME_RUNNER_OPEN);
    peer_send_error(&peer, TAG, 64, "r is a plugin");
    ck_assert_int_eq(end(), -EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "r is a plugin");
}
END_TEST

START_TEST(what_is_known_of_a_job_fits_programs_of_all_ages)
{
    struct {
        struct wsd_run_info known;
        uint32_t later;
    } newer = {{.size = sizeof(newer)}, 77};
    struct wsd_run_info info = {.size = sizeof(info.size) - 1, .uid = 99, .attempt = 99};

    connected();
    send_run(1, "plain", -1);
    struct wsd_job *job = next();
    ck_assert_int_eq(wsd_runner_info(job, &info), -EINVAL);
    info.size = offsetof(struct wsd_run_info, attempt); /* an older one */
    ck_assert_int_eq(wsd_runner_info(job, &info), 0);
    ck_assert_uint_eq(info.size, offsetof(struct wsd_run_info, attempt));
    ck_assert_uint_eq(info.uid, 0);
    ck_assert_uint_eq(info.attempt, 99);
    ck_assert_int_eq(wsd_runner_info(job, &newer.known), 0);
    ck_assert_uint_eq(newer.known.size, sizeof(info));
    ck_assert_uint_eq(newer.known.attempt, 1);
    ck_assert_uint_eq(newer.later, 77);
    ck_assert_int_eq(wsd_runner_finish(runner, job, 0), 0);
}
END_TEST

START_TEST(one_that_leaves_while_there_is_no_wsd_has_left)
{
    begin(run_there);
    take_offer();
    close(peer.listen_fd);
    peer.listen_fd = -1;
    peer_close(&peer);
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
    ck_assert_int_eq(end(), 0);
    ck_assert_int_eq(wsd_runner_run(runner, 1), -ESHUTDOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("running");
    TCase *c = tcase_create("running");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 30);
    tcase_add_test(c, two_threads_make_one_connection);
    tcase_add_test(c, it_leaves_though_it_was_told_while_it_connected_again);
    tcase_add_test(c, it_offers_all_its_threads_again_after_a_loss);
    tcase_add_test(c, one_that_has_left_stays_so);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(c, no_thread_waits_for_wsd_where_another_one_cannot_begin);
#endif
    tcase_add_test(c, wsd_has_its_answers_while_workers_start);
    tcase_add_test(c, a_job_that_waits_for_a_pipe_hears_that_it_was_stopped);
    tcase_add_test(c, a_job_that_did_not_end_by_itself);
    tcase_add_test(c, a_job_whose_input_is_cut_does_not_hide_the_next);
    tcase_add_test(c, a_loop_writes_what_there_is_room_for);
    tcase_add_test(c, what_a_job_writes_after_it_was_stopped_is_not_kept);
    tcase_add_test(c, too_few_descriptors_are_said);
    tcase_add_test(c, a_job_that_waits_for_a_file_hears_that_it_was_stopped);
    tcase_add_test(c, a_file_without_a_descriptor_is_no_answer);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(c, an_end_for_which_there_is_no_memory_ends_the_connection);
#endif
    tcase_add_test(c, a_loop_calls_a_function_and_says_its_end);
    tcase_add_loop_test(c, a_place_for_output_is_one_that_stays, 0, sizeof(places) / sizeof(*places));
    tcase_add_test(c, other_threads_may_ask_while_it_runs);
    tcase_add_test(c, a_thread_that_waits_for_a_job_leaves_beside_one_whose_job_waits);
    tcase_add_test(c, it_comes_back_though_it_was_not_let_in_at_first);
    tcase_add_test(c, an_offer_that_is_refused_later_ends_it);
    tcase_add_test(c, what_is_known_of_a_job_fits_programs_of_all_ages);
    tcase_add_test(c, one_that_leaves_while_there_is_no_wsd_has_left);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
