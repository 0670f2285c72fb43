/* SPDX-License-Identifier: Apache-2.0
 *
 * test-run.c: the services of a job on a transport of the test's own, and the rules about what a function returns. */
#include "host/run.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wsd/task.h>

#include "base/clock.h"
#include "host/cputime.h"

#define ROOM (8u << 20)

/* One job, its transport, and what came of it. */
static struct {
    struct host_job job;
    char *output;
    size_t size, piece; /* piece: what a reservation gives beyond what is asked for */
    size_t limit;       /* after so many bytes no more is read */
    int flushes, finished;
    char message[WSD_TEXT_MAX];
    int level;
    uint64_t done, total;
    _Atomic uint32_t cancel;
    struct eventcount event;
    int exit;
} t;

static void *reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    if (t.size >= t.limit)
        return NULL;
    ck_assert_uint_ge(min, 1);
    ck_assert_uint_le(min, WSD_RESERVE_MAX);
    *ret_size = min > t.piece ? min : t.piece;
    return t.output + t.size;
}

static void commit(struct host_job *job, size_t size)
{
    ck_assert_uint_gt(size, 0);
    t.size += size;
}

static int flush(struct host_job *job)
{
    t.flushes++;
    return 0;
}

static int64_t read_stream(struct host_job *job, void *data, size_t size)
{
    memcpy(data, "stream", 6);
    return t.done++ ? 0 : 6;
}

static int open_file(struct host_job *job, const char *path)
{
    return -EACCES;
}

static const char *directory(struct host_job *job)
{
    return "/somewhere";
}

static void message(struct host_job *job, int level, const char *text)
{
    strcpy(t.message, text);
    t.level = level;
}

static void progress(struct host_job *job, uint64_t done, uint64_t total)
{
    t.done = done;
    t.total = total;
}

static void finished(struct host_job *job, struct wsd_worker *self)
{
    t.finished++;
    t.exit = job->exit;
    eventcount_notify(&t.event, 1, false);
}

static const struct host_transport transport = {reserve,   commit,  flush,    read_stream, open_file,
                                                directory, message, progress, finished};

static struct plugin_function function;
static struct host_request request;
static struct pool *pool;

static void run_node(struct pool_node *node, struct wsd_worker *self)
{
    struct host_job *job = container_of(node, struct host_job, node);

    ck_assert_ptr_null(host_current());
    host_job_run(job, self);
    ck_assert_ptr_null(host_current());
}

static void setup(void)
{
    t.output = malloc(ROOM);
    t.piece = 1000;
    t.limit = SIZE_MAX;
    eventcount_init(&t.event);
    host_job_init(&t.job);
    t.job.node.run = run_node;
    static struct host_plugin plugin = {.name = "plugin"};

    function = (struct plugin_function){.name = "fn", .plugin = &plugin};
    request = (struct host_request){.function = &function, .cancel = &t.cancel, .transport = &transport};
}

static void teardown(void)
{
    pool_free(pool);
    host_job_deinit(&t.job);
    free(t.output);
}

static void run_on(int (*run)(struct wsd_job *, struct wsd_worker *), uint32_t workers)
{
    const struct pool_options options = {
        .workers = workers, .task_enter = host_task_enter, .task_leave = host_task_leave};

    if (!pool)
        ck_assert_int_eq(pool_new(&pool, &options), 0);
    function.run = run;
    t.size = 0;
    t.finished = 0;
    ck_assert_int_eq(host_job_begin(&t.job, &request), 0);
    ck_assert_int_eq(pool_submit(pool, &t.job.node), 0);
    pool = pool_free(pool);
    ck_assert_int_eq(t.finished, 1);
}

static void runs(int (*run)(struct wsd_job *, struct wsd_worker *))
{
    run_on(run, 1);
}

/* --- arguments --- */

static int check_arguments(struct wsd_job *job, struct wsd_worker *self)
{
    ck_assert_uint_eq(job->size, sizeof(*job));
    ck_assert_uint_eq(job->ops->size, sizeof(*job->ops));
    ck_assert_str_eq(job->argv[0], "fn");
    ck_assert_ptr_null(job->argv[job->argc]);
    for (uint32_t i = 1; i < job->argc; i++)
        wsd_job_print(job, "[%s]", job->argv[i]);
    return 0;
}

START_TEST(arguments_are_as_in_main)
{
    request.args = "one\0\0three";
    request.args_size = 11;
    request.argc = 3;
    runs(check_arguments);
    ck_assert_uint_eq(t.size, 14);
    ck_assert_int_eq(memcmp(t.output, "[one][][three]", 14), 0);
    request.args_size = request.argc = 0;
    request.args = NULL;
    runs(check_arguments);
    ck_assert_uint_eq(t.size, 0);
}
END_TEST

START_TEST(many_arguments_fit)
{
    char *args = calloc(1, 4096);

    request.args = args;
    for (uint32_t n = 0; n <= 4096; n = n < 20 ? n + 1 : n * 2) {
        request.args_size = request.argc = n;
        runs(check_arguments);
        ck_assert_uint_eq(t.size, 2 * n);
    }
    free(args);
}
END_TEST

START_TEST(arguments_that_do_not_add_up_are_refused)
{
    static const struct {
        uint32_t argc;
        size_t size;
    } bad[] = {{1, 6}, {3, 6}, {4, 6}, {UINT32_MAX, 6}, {0, 6}, {1, 0}, {2, 5}, {2, 1}};

    request.args = "ab\0cd";
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        request.argc = bad[i].argc;
        request.args_size = bad[i].size;
        ck_assert_int_eq(host_job_begin(&t.job, &request), -EINVAL);
        ck_assert_str_eq(t.job.error, "malformed arguments");
        t.finished = 0;
        host_job_fail(&t.job, NULL, NULL);
        ck_assert_int_eq(t.finished, 1);
        ck_assert_int_eq(t.exit, 63);
        ck_assert_str_eq(t.job.error, "malformed arguments");
    }
    char *many = calloc(1, 65536);
    request.args = many;
    request.args_size = 65536;
    request.argc = UINT32_MAX;
    ck_assert_int_eq(host_job_begin(&t.job, &request), -EINVAL);
    host_job_fail(&t.job, NULL, NULL);
    free(many);
    request.function = NULL;
    ck_assert_int_eq(host_job_begin(&t.job, &request), -EINVAL);
    host_job_fail(&t.job, NULL, "because of %d", 5);
    ck_assert_str_eq(t.job.error, "because of 5");
}
END_TEST

/* --- statuses and texts --- */

static int wanted;

static int return_wanted(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_fail(job, wanted, "an error");
}

START_TEST(statuses_outside_0_to_63_become_63)
{
    static const int values[][2] = {{0, 0}, {1, 1}, {63, 63}, {64, 63}, {-1, 63}, {256, 63}, {INT32_MIN, 63}};

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        char text[64];
        wanted = values[i][0];
        runs(return_wanted);
        ck_assert_int_eq(t.exit, values[i][1]);
        snprintf(text, sizeof(text), "returned %d, which is not a status", wanted);
        ck_assert_str_eq(t.job.error, wanted == 0 ? "" : wanted == values[i][1] ? "an error" : text);
    }
}
END_TEST

static int long_texts(struct wsd_job *job, struct wsd_worker *self)
{
    char text[1000];

    memset(text, 'x', sizeof(text));
    text[999] = 0;
    wsd_job_status(job, "%s", text);
    memcpy(text + 253, "\xe2\x82\xac", 3); /* a euro sign across the limit */
    wsd_job_log(job, WSD_LOG_WARNING, "%s", text);
    return wsd_job_fail(job, 1, "two\nlines, \033[31mred\177");
}

START_TEST(texts_are_one_line_and_cut_off)
{
    runs(long_texts);
    ck_assert_uint_eq(strlen(t.job.status), 255);
    ck_assert_str_eq(t.job.error, "two lines, \\x1b[31mred\\x7f");
    ck_assert_int_eq(t.level, WSD_LOG_WARNING);
    ck_assert_uint_eq(strlen(t.message), 253);
}
END_TEST

START_TEST(texts_do_not_outlive_their_job)
{
    wanted = 5;
    runs(return_wanted);
    ck_assert_str_eq(t.job.error, "an error");
    runs(check_arguments);
    ck_assert_str_eq(t.job.error, "");
    ck_assert_str_eq(t.job.status, "");
}
END_TEST

/* --- output --- */

static int write_all(struct wsd_job *job, struct wsd_worker *self)
{
    char large[5000];
    size_t room;

    memset(large, 'L', sizeof(large));
    ck_assert_int_eq(wsd_job_write(job, large, sizeof(large)), 0);
    ck_assert_int_eq(wsd_job_write(job, "", 0), 0);
    ck_assert_int_eq(wsd_job_print(job, "%5000d|%s", 7, "end"), 0);
    char *to = wsd_job_reserve(job, 3, &room);
    ck_assert_uint_ge(room, 3);
    memcpy(to, "abc", 3);
    ck_assert_int_eq(wsd_job_commit(job, room + 1), -EINVAL);
    ck_assert_int_eq(wsd_job_commit(job, 3), 0);
    ck_assert_int_eq(wsd_job_commit(job, 1), -EINVAL);
    ck_assert_ptr_nonnull(wsd_job_reserve(job, 0, &room));
    ck_assert_int_eq(wsd_job_write(job, "d", 1), 0);
    ck_assert_int_eq(wsd_job_commit(job, 1), -EINVAL); /* given up by the write */
    ck_assert_ptr_nonnull(wsd_job_reserve(job, WSD_RESERVE_MAX, &room));
    ck_assert_int_eq(wsd_job_commit(job, 0), 0);
    ck_assert_ptr_null(wsd_job_reserve(job, WSD_RESERVE_MAX + 1, &room));
    ck_assert_int_eq(wsd_job_flush(job), 0);
    return 0;
}

START_TEST(output_is_gathered_in_order)
{
    static const size_t pieces[] = {1, 7, 1000, 1u << 20};

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        t.piece = pieces[i];
        runs(write_all);
        ck_assert_int_eq(t.exit, 0);
        ck_assert_uint_eq(t.size, 10008);
        ck_assert_int_eq(t.output[4999], 'L');
        ck_assert_int_eq(t.output[5000], ' ');
        ck_assert_int_eq(memcmp(t.output + 9999, "7|endabcd", 9), 0);
    }
    ck_assert_int_eq(t.flushes, 4);
}
END_TEST

/* --- threads of a plugin --- */

static struct {
    pthread_t thread;
    pthread_barrier_t turn;
    struct wsd_job *job;
    struct handle *handle;
} other;

static void *write_beside(void *unused)
{
    size_t room;

    ck_assert_int_eq(wsd_job_write(other.job, "one", 3), 0);
    char *to = wsd_job_reserve(other.job, 200000, &room);
    ck_assert_uint_ge(room, 200000);
    memset(to, 'r', 200000);
    ck_assert_int_eq(wsd_job_commit(other.job, room + 1), -EINVAL);
    ck_assert_int_eq(wsd_job_commit(other.job, 200000), 0);
    ck_assert_int_eq(wsd_job_print(other.job, "%d", 2), 0);
    wsd_job_progress(other.job, 3, 4);
    wsd_job_status(other.job, "status");
    ck_assert_str_eq(wsd_job_directory(other.job), "/somewhere");
    ck_assert(!wsd_job_cancelled(other.job));
    return NULL;
}

static int have_it_written(struct wsd_job *job, struct wsd_worker *self)
{
    other.job = job;
    ck_assert_int_eq(pthread_create(&other.thread, NULL, write_beside, NULL), 0);
    ck_assert_int_eq(pthread_join(other.thread, NULL), 0);
    return wsd_job_print(job, "end");
}

START_TEST(threads_of_a_plugin_use_the_services)
{
    t.piece = 64;
    for (int i = 0; i < 3; i++) {
        runs(have_it_written);
        ck_assert_int_eq(t.exit, 0);
        ck_assert_uint_eq(t.size, 200007);
        ck_assert_int_eq(memcmp(t.output, "oner", 4), 0);
        ck_assert_int_eq(memcmp(t.output + 200002, "r2end", 5), 0);
        ck_assert_str_eq(t.job.status, "status");
        ck_assert_uint_eq(t.total, 4);
    }
}
END_TEST

static void *write_too_late(void *unused)
{
    char byte;
    size_t room = 0;

    handle_adopt(other.handle);
    char *early = wsd_job_reserve(other.job, 10, &room);
    pthread_barrier_wait(&other.turn); /* it leaves the thread */
    pthread_barrier_wait(&other.turn); /* the next one runs */
    memset(early, 'x', room);
    ck_assert_int_eq(wsd_job_commit(other.job, 10), -ECANCELED);
    ck_assert_int_eq(wsd_job_write(other.job, "late", 4), -ECANCELED);
    ck_assert_int_eq(wsd_job_print(other.job, "%s", "late"), -ECANCELED);
    ck_assert_int_eq(wsd_job_flush(other.job), -ECANCELED);
    ck_assert_int_eq(wsd_job_read(other.job, &byte, 1), -ECANCELED);
    ck_assert_int_eq(wsd_job_open(other.job, "/"), -ECANCELED);
    ck_assert_ptr_null(wsd_job_reserve(other.job, 1, &room));
    ck_assert_ptr_null(wsd_job_directory(other.job));
    ck_assert_int_eq(wsd_job_command(other.job, &(struct wsd_command){0}), -ECANCELED);
    ck_assert(wsd_job_cancelled(other.job));
    wsd_job_progress(other.job, 5, 6);
    wsd_job_status(other.job, "late");
    wsd_job_log(other.job, WSD_LOG_ERROR, "late");
    wsd_job_fail(other.job, 1, "late");
    ck_assert_uint_eq(other.job->argc, 0);
    ck_assert_ptr_null(other.job->argv[0]);
    ck_assert_ptr_null(other.job->input);
    pthread_barrier_wait(&other.turn); /* the next one may end */
    handle_drop(other.handle);
    return NULL;
}

static int leave_it(struct wsd_job *job, struct wsd_worker *self)
{
    other.job = job;
    other.handle = handle_share(host_current());
    ck_assert_int_eq(pthread_create(&other.thread, NULL, write_too_late, NULL), 0);
    pthread_barrier_wait(&other.turn);
    return 0;
}

static int let_it(struct wsd_job *job, struct wsd_worker *self)
{
    ck_assert_ptr_ne(job, other.job);
    pthread_barrier_wait(&other.turn);
    pthread_barrier_wait(&other.turn);
    return wsd_job_fail(job, 7, "mine");
}

START_TEST(what_a_thread_says_when_its_job_is_over_is_no_other_jobs)
{
    pthread_barrier_init(&other.turn, NULL, 2);
    runs(leave_it);
    ck_assert_int_eq(t.exit, 0);
    t.done = t.total = 0;
    runs(let_it);
    pthread_join(other.thread, NULL);
    ck_assert_int_eq(t.exit, 7);
    ck_assert_str_eq(t.job.error, "mine");
    ck_assert_str_eq(t.job.status, "");
    ck_assert_str_eq(t.message, "");
    ck_assert_uint_eq(t.size, 0);
    ck_assert_uint_eq(t.total, 0);
}
END_TEST

static int note_handle(struct wsd_job *job, struct wsd_worker *self)
{
    other.job = job;
    return 0;
}

/* Without threads there is one for all jobs, and nothing to be made. */
START_TEST(a_handle_serves_the_next_job)
{
    runs(note_handle);
    struct wsd_job *first = other.job;
    runs(note_handle);
    ck_assert_ptr_eq(other.job, first);
}
END_TEST

/* As many as are kept, and more: all but the last are freed. */
START_TEST(retired_handles_are_bounded)
{
    for (uint32_t i = 0; i < 2 * HANDLES_PAST + 1; i++) {
        struct handle *h = handle_new(&t.job);

        ck_assert_ptr_eq(handle_enter(h), &t.job);
        handle_leave(h);
        ck_assert(handle_is_lent(h));
        handle_retire(h, "plugin", "function");
        ck_assert_ptr_null(handle_enter(h));
    }
}
END_TEST

static int write_in_vain(struct wsd_job *job, struct wsd_worker *self)
{
    char data[4000] = {0};

    ck_assert_int_eq(wsd_job_write(job, data, sizeof(data)), -ECANCELED);
    return 0;
}

START_TEST(part_of_an_output_is_no_success)
{
    t.limit = 3000;
    runs(write_in_vain);
    ck_assert_int_eq(t.exit, 63);
    ck_assert_str_eq(t.job.error, "cancelled: its output is not whole");
}
END_TEST

WSD_VOID_TASK_2(write_line, struct wsd_job *, job, int, letter)
{
    char line[300];

    memset(line, letter, sizeof(line));
    for (int i = 0; i < 50; i++)
        wsd_job_write(job, line, sizeof(line));
}

static int write_from_many(struct wsd_job *job, struct wsd_worker *self)
{
    for (int i = 0; i < 26; i++)
        WSD_SPAWN(write_line, job, 'a' + i);
    for (int i = 0; i < 26; i++)
        WSD_SYNC(write_line);
    return 0;
}

START_TEST(bytes_of_several_tasks_do_not_mix)
{
    t.piece = 7;
    run_on(write_from_many, 4);
    ck_assert_uint_eq(t.size, 26 * 50 * 300);
    for (size_t at = 0; at < t.size; at += 300)
        for (size_t i = 0; i < 300; i++)
            ck_assert_int_eq(t.output[at + i], t.output[at]);
}
END_TEST

/* --- input and the rest --- */

static int read_all(struct wsd_job *job, struct wsd_worker *self)
{
    char piece[4];
    int64_t n;

    ck_assert_int_eq(wsd_job_read(job, piece, 0), 0);
    while ((n = wsd_job_read(job, piece, sizeof(piece))) > 0)
        wsd_job_write(job, piece, (size_t)n);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(wsd_job_read(job, piece, sizeof(piece)), 0);
    return job->input ? (int)job->input_size : 0;
}

START_TEST(whole_input_is_there_and_can_be_read_too)
{
    request.input = "0123456789";
    request.input_size = 10;
    runs(read_all);
    ck_assert_int_eq(t.exit, 10);
    ck_assert_uint_eq(t.size, 10);
    ck_assert_int_eq(memcmp(t.output, "0123456789", 10), 0);
    function.flags = WSD_FN_STREAMING;
    runs(read_all);
    ck_assert_int_eq(t.exit, 0);
    ck_assert_int_eq(memcmp(t.output, "0123456789", 10), 0);
}
END_TEST

static int read_stream_once(struct wsd_job *job, struct wsd_worker *self)
{
    char piece[100];

    ck_assert_ptr_null(job->input);
    ck_assert_uint_eq(job->input_size, 0);
    ck_assert_int_eq(wsd_job_read(job, piece, sizeof(piece)), 6);
    ck_assert_int_eq(wsd_job_read(job, piece, sizeof(piece)), 0);
    ck_assert_int_eq(wsd_job_open(job, "x"), -EACCES);
    ck_assert_int_eq(wsd_job_open(job, ""), -ENOENT);
    ck_assert_str_eq(wsd_job_directory(job), "/somewhere");
    wsd_job_progress(job, 3, 4);
    ck_assert(!wsd_job_cancelled(job));
    atomic_store(&t.cancel, 1);
    ck_assert(wsd_job_cancelled(job));
    return 0;
}

START_TEST(other_services_reach_the_transport)
{
    function.flags = WSD_FN_STREAMING;
    runs(read_stream_once);
    ck_assert_int_eq(t.exit, 0);
    ck_assert_uint_eq(t.done, 3);
    ck_assert_uint_eq(t.total, 4);
}
END_TEST

static int wait_for_deadline(struct wsd_job *job, struct wsd_worker *self)
{
    while (!wsd_job_cancelled(job))
        ;
    return clock_monotonic_usec() >= job->deadline_usec ? 0 : 1;
}

START_TEST(deadline_counts_as_cancelled)
{
    request.deadline_usec = clock_monotonic_usec() + 20000;
    runs(wait_for_deadline);
    ck_assert_int_eq(t.exit, 0);
    ck_assert_uint_ge(t.job.ended_usec, request.deadline_usec);
}
END_TEST

/* --- CPU time --- */

static void burn(uint64_t usec)
{
    uint64_t end = clock_thread_usec() + usec;

    while (clock_thread_usec() < end)
        ;
}

WSD_VOID_TASK_2(burn_stolen, struct wsd_worker *, parent, atomic_int *, started)
{
    atomic_store(started, 1);
    ck_assert_ptr_eq(host_current(), &t.job);
    burn(30000);
}

static int burn_and_wait(struct wsd_job *job, struct wsd_worker *self)
{
    struct timespec pause = {.tv_nsec = 100000000};
    atomic_int started = 0;

    ck_assert_ptr_eq(host_current(), &t.job);
    nanosleep(&pause, NULL); /* costs time, but no CPU */
    WSD_SPAWN(burn_stolen, self, &started);
    while (!atomic_load(&started))
        burn(1000);
    burn(30000);
    WSD_SYNC(burn_stolen);
    return 0;
}

START_TEST(cpu_time_of_all_tasks_is_the_jobs)
{
    run_on(burn_and_wait, 2);
    uint64_t cpu = host_job_cpu_usec(&t.job), run = t.job.ended_usec - t.job.started_usec;
    ck_assert_uint_ge(cpu, 60000 - 100);
    ck_assert_uint_lt(cpu, run + 30000);
    ck_assert_uint_ge(run, 130000);
}
END_TEST

START_TEST(cpu_clock_is_near_the_true_one)
{
    struct timespec pause = {.tv_nsec = 3000000};
    uint64_t last = 0, wall;

    for (int i = 0; i < 30; i++) {
        uint64_t before = clock_thread_usec() * 1000, now = cputime_nsec(&wall), after = clock_thread_usec() * 1000;
        ck_assert_uint_ge(now, last);
        ck_assert_uint_ge(now + 1000, before > CPUTIME_DRIFT_NSEC ? before - CPUTIME_DRIFT_NSEC : 0);
        ck_assert_uint_le(now, after + 1000 + CPUTIME_DRIFT_NSEC);
        last = now;
        if (i % 3 == 0)
            nanosleep(&pause, NULL);
        else
            burn((uint64_t)i * 10);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/run");
    TCase *c = tcase_create("run");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, arguments_are_as_in_main);
    tcase_add_test(c, many_arguments_fit);
    tcase_add_test(c, arguments_that_do_not_add_up_are_refused);
    tcase_add_test(c, statuses_outside_0_to_63_become_63);
    tcase_add_test(c, texts_are_one_line_and_cut_off);
    tcase_add_test(c, texts_do_not_outlive_their_job);
    tcase_add_test(c, output_is_gathered_in_order);
    tcase_add_test(c, threads_of_a_plugin_use_the_services);
    tcase_add_test(c, what_a_thread_says_when_its_job_is_over_is_no_other_jobs);
    tcase_add_test(c, a_handle_serves_the_next_job);
    tcase_add_test(c, retired_handles_are_bounded);
    tcase_add_test(c, part_of_an_output_is_no_success);
    tcase_add_test(c, bytes_of_several_tasks_do_not_mix);
    tcase_add_test(c, whole_input_is_there_and_can_be_read_too);
    tcase_add_test(c, other_services_reach_the_transport);
    tcase_add_test(c, deadline_counts_as_cancelled);
    tcase_add_test(c, cpu_time_of_all_tasks_is_the_jobs);
    tcase_add_test(c, cpu_clock_is_near_the_true_one);
    suite_add_tcase(s, c);
    return run_suite(s);
}
