/* SPDX-License-Identifier: Apache-2.0
 *
 * test-store.c: the store alone, on real files, with a disk that forgets what was not synced
 * (support/shims/powerloss.c). */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/job-log.h"
#include "store/store.h"
#include "tests/support/shims/powerloss.h"
#include "tests/unit/suite.h"

#define QUEUED    3u
#define DELAYED   2u
#define SUCCEEDED 5u
#define FAILED    6u

static char directory[256], path[300];
static struct store *store;
static unsigned n_answered, n_unanswered;

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(directory, sizeof(directory), "%.200s/wsd-store.XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/" STORE_FILE, directory);
    n_answered = n_unanswered = 0;
}

static void teardown(void)
{
    char command[300];

    powerloss_fail(0);
    store = store_free(store, NULL);
    snprintf(command, sizeof(command), "rm -r '%s'", directory);
    ck_assert_int_eq(system(command), 0);
}

/* --- helpers ------------------------------------------------------------------------------------------------------ */

struct seen {
    struct store_row rows[256];
    char texts[256][8][64]; /* plugin, function, directory, key, args, input, error, status */
    unsigned n;
};

static struct seen seen;

static void keep(unsigned i, unsigned which, const char **text)
{
    if (*text)
        *text = strncpy(seen.texts[i][which], *text, 63);
}

static int see(const struct store_row *row, void *userdata)
{
    unsigned i = seen.n++;
    struct store_row *r = &seen.rows[i];

    *r = *row;
    keep(i, 0, &r->plugin);
    keep(i, 1, &r->function);
    keep(i, 2, &r->directory);
    keep(i, 3, &r->key);
    if (r->args)
        r->args = memcpy(seen.texts[i][4], r->args, MIN(r->args_size, (size_t)64));
    if (r->input)
        r->input = memcpy(seen.texts[i][5], r->input, MIN(r->input_size, (size_t)64));
    keep(i, 6, &r->error);
    keep(i, 7, &r->status);
    return 0;
}

static void open_store(void)
{
    seen.n = 0;
    ck_assert_int_eq(store_open(&store, directory, see, NULL), 0);
}

static void again(void)
{
    store = store_free(store, NULL);
    open_store();
}

static void answered(struct store_request *r)
{
    n_answered++;
}

static void wait_for(unsigned n)
{
    struct pollfd p = {.fd = store_fd(store), .events = POLLIN};

    store_ring(store);
    while (n_answered < n) {
        ck_assert_int_eq(poll(&p, 1, 20000), 1);
        store_answers(store);
    }
}

static struct store_request request(enum store_op op, uint64_t number)
{
    struct store_request r = {.op = op, .row = {.number = number, .input_fd = -1}, .answer = answered};

    return r;
}

static struct store_request add_request(uint64_t number)
{
    struct store_request r = request(STORE_ADD, number);

    memset(r.row.id, (int)number, sizeof(r.row.id));
    r.row.plugin = "plugin";
    r.row.function = "function";
    r.row.state = QUEUED;
    return r;
}

static int do_one(struct store_request *r)
{
    unsigned before = n_answered;

    store_post(store, r);
    wait_for(before + 1);
    return r->result;
}

static int add(uint64_t number)
{
    struct store_request r = add_request(number);

    return do_one(&r);
}

static const char *integrity(void)
{
    static char text[64];
    sqlite3_stmt *st = NULL;
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(st), SQLITE_ROW);
    snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text;
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

START_TEST(nothing_is_on_disk_before_the_first_request)
{
    open_store();
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(add(1), 0);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(what_was_added_is_there_again)
{
    struct store_request r = add_request(7);

    open_store();
    r.row.uid = 4294967294u;
    r.row.directory = "/some/where";
    r.row.key = "key";
    r.row.args = "a\0b";
    r.row.args_size = 4;
    r.row.argc = 2;
    r.row.input = "input";
    r.row.input_size = 5;
    r.row.priority = -100;
    r.row.function_flags = 5;
    r.row.timeout_usec = 6;
    r.row.retry_usec = 7;
    r.row.retries = 8;
    r.row.retry_on = 9;
    r.row.submitted_usec = 1234567890123456;
    ck_assert_int_eq(do_one(&r), 0);
    again();
    ck_assert_uint_eq(seen.n, 1);
    const struct store_row *s = &seen.rows[0];
    ck_assert_uint_eq(s->number, 7);
    ck_assert_mem_eq(s->id, r.row.id, 16);
    ck_assert_uint_eq(s->uid, 4294967294u);
    ck_assert_str_eq(s->plugin, "plugin");
    ck_assert_str_eq(s->function, "function");
    ck_assert_str_eq(s->directory, "/some/where");
    ck_assert_str_eq(s->key, "key");
    ck_assert_uint_eq(s->args_size, 4);
    ck_assert_mem_eq(s->args, "a\0b", 4);
    ck_assert_uint_eq(s->argc, 2);
    ck_assert_uint_eq(s->input_size, 5);
    ck_assert_mem_eq(s->input, "input", 5);
    ck_assert_int_eq(s->priority, -100);
    ck_assert_uint_eq(s->function_flags, 5);
    ck_assert_uint_eq(s->timeout_usec, 6);
    ck_assert_uint_eq(s->retry_usec, 7);
    ck_assert_uint_eq(s->retries, 8);
    ck_assert_uint_eq(s->retry_on, 9);
    ck_assert_uint_eq(s->submitted_usec, 1234567890123456);
    ck_assert_uint_eq(s->state, QUEUED);
    ck_assert_uint_eq(s->started, 0);
}
END_TEST

START_TEST(each_step_is_there_again)
{
    struct store_request start = request(STORE_START, 1), retry = request(STORE_RETRY, 2), end = request(STORE_END, 3);
    struct store_request read = request(STORE_READ, 3), drop = request(STORE_DROP, 4);

    open_store();
    for (uint64_t i = 1; i <= 4; i++)
        ck_assert_int_eq(add(i), 0);
    start.row.started = 1;
    ck_assert_int_eq(do_one(&start), 0);
    retry.row.state = DELAYED;
    retry.row.due_usec = 99;
    retry.row.retried = 1;
    retry.row.attempts = 2;
    retry.row.error = "why";
    ck_assert_int_eq(do_one(&retry), 0);
    end.row.state = FAILED;
    end.row.exit = 3;
    end.row.ended_usec = 100;
    end.row.error = "because";
    end.row.status = "{}";
    end.row.output = "output";
    end.row.output_size = 6;
    ck_assert_int_eq(do_one(&end), 0);
    ck_assert_int_eq(do_one(&drop), 0);
    again();
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_uint_eq(seen.rows[0].started, 1);
    ck_assert_uint_eq(seen.rows[1].state, DELAYED);
    ck_assert_uint_eq(seen.rows[1].due_usec, 99);
    ck_assert_uint_eq(seen.rows[1].retried, 1);
    ck_assert_uint_eq(seen.rows[1].attempts, 2);
    ck_assert_str_eq(seen.rows[1].error, "why");
    ck_assert_uint_eq(seen.rows[2].state, FAILED);
    ck_assert_uint_eq(seen.rows[2].exit, 3);
    ck_assert_str_eq(seen.rows[2].error, "because");
    ck_assert_str_eq(seen.rows[2].status, "{}");
    ck_assert_uint_eq(seen.rows[2].output_size, 6);
    ck_assert_int_eq(do_one(&read), 0);
    ck_assert_uint_eq(read.reply_size, 6);
    ck_assert_mem_eq(read.reply, "output", 6);
    free(read.reply);
    read.row.number = 4;
    ck_assert_int_eq(do_one(&read), -ENOENT);
}
END_TEST

START_TEST(a_large_input_is_read_when_its_job_starts)
{
    static char large[STORE_INLINE + 1], back[sizeof(large)];
    struct store_request r = add_request(1), start = request(STORE_START, 1);

    memset(large, 'x', sizeof(large));
    open_store();
    r.row.input_fd = memfd_create("input", MFD_CLOEXEC);
    r.row.input_size = sizeof(large);
    ck_assert_int_eq(write(r.row.input_fd, large, sizeof(large)), sizeof(large));
    ck_assert_int_eq(do_one(&r), 0);
    close(r.row.input_fd);
    again();
    ck_assert_uint_eq(seen.rows[0].input_size, sizeof(large));
    ck_assert_ptr_null(seen.rows[0].input);
    start.want_input = true;
    ck_assert_int_eq(do_one(&start), 0);
    ck_assert_int_eq(pread(start.reply_fd, back, sizeof(back), 0), sizeof(back));
    ck_assert_mem_eq(large, back, sizeof(large));
    ck_assert_int_eq(fcntl(start.reply_fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    close(start.reply_fd);
}
END_TEST

static int64_t ask(const char *sql)
{
    sqlite3_stmt *st = NULL;
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(st), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return answer;
}

/* So many bytes stand apart from the log. */
static void apart(int64_t bytes)
{
    store = store_free(store, NULL);
    ck_assert_int_eq(ask("SELECT (SELECT total(ifnull(length(args), 0) + ifnull(length(input), 0)) FROM inputs) + "
                         "(SELECT total(length(output)) FROM results)"),
                     bytes);
    open_store();
}

static const size_t sizes[] = {0, 1, STORE_SMALL - 4, STORE_SMALL - 3, STORE_SMALL, STORE_SMALL + 1, STORE_INLINE};

START_TEST(one_that_is_dead_keeps_its_input_and_can_be_queued_again)
{
    static char bytes[STORE_INLINE];
    struct store_request r = add_request(1), end = request(STORE_END, 1), requeue = request(STORE_REQUEUE, 1);
    struct store_request read = request(STORE_READ, 1);
    const size_t size = sizes[_i], output = size;
    const int64_t given = 4 + (int64_t)size;
    const bool small = given <= (int64_t)STORE_SMALL, small_output = output <= STORE_SMALL;

    memset(bytes, 'x', sizeof(bytes));
    open_store();
    r.row.args = "arg";
    r.row.args_size = 4;
    r.row.input = size ? bytes : NULL;
    r.row.input_size = size;
    ck_assert_int_eq(do_one(&r), 0);
    requeue.row.state = QUEUED;
    ck_assert_int_eq(do_one(&requeue), -ENOENT); /* it is not dead */
    end.row.state = FAILED;
    end.row.dead = 1;
    end.row.attempts = 4;
    end.row.output = size ? bytes : NULL;
    end.row.output_size = output;
    ck_assert_int_eq(do_one(&end), 0);
    apart((small ? 0 : given) + (small_output ? 0 : (int64_t)output));
    ck_assert_uint_eq(seen.rows[0].dead, 1);
    ck_assert_int_eq(do_one(&read), output ? 0 : -ENOENT);
    if (output)
        ck_assert_mem_eq(read.reply, bytes, output);
    free(read.reply);
    ck_assert_int_eq(do_one(&requeue), 0);
    ck_assert_uint_eq(requeue.row.args_size, 4);
    ck_assert_uint_eq(requeue.row.input_size, size);
    ck_assert_uint_eq(requeue.reply_size, 4 + size);
    ck_assert_mem_eq(requeue.reply, "arg", 4);
    if (size)
        ck_assert_mem_eq((char *)requeue.reply + 4, bytes, size);
    free(requeue.reply);
    apart(small ? 0 : given);
    ck_assert_uint_eq(seen.rows[0].dead, 0);
    ck_assert_uint_eq(seen.rows[0].state, QUEUED);
    ck_assert_uint_eq(seen.rows[0].attempts, 0);
    ck_assert_uint_eq(seen.rows[0].output_size, 0);
    ck_assert_uint_eq(seen.rows[0].args_size, 4);
    ck_assert_uint_eq(seen.rows[0].input_size, size);
    if (size)
        ck_assert_mem_eq(seen.rows[0].input, bytes, MIN(size, (size_t)64));
    end.row.dead = 0;
    ck_assert_int_eq(do_one(&end), 0);
    apart(small_output ? 0 : (int64_t)output); /* arguments and input are dropped at its end */
    ck_assert_uint_eq(seen.rows[0].args_size + seen.rows[0].input_size, 0);
    struct store_request drop = request(STORE_DROP, 1);
    ck_assert_int_eq(do_one(&drop), 0);
    apart(0);
    ck_assert_uint_eq(seen.n, 0);
}
END_TEST

START_TEST(a_key_is_there_once_for_each_user)
{
    struct store_request r[3];

    open_store();
    for (uint64_t i = 0; i < 3; i++) {
        r[i] = add_request(i + 1);
        r[i].row.key = "same";
        r[i].row.uid = i == 2;
        store_post(store, &r[i]); /* in one transaction */
    }
    wait_for(3);
    ck_assert_int_eq(r[0].result, 0);
    ck_assert_int_eq(r[1].result, -EEXIST);
    ck_assert_int_eq(r[2].result, 0);
    again();
    ck_assert_uint_eq(seen.n, 2);
}
END_TEST

static struct store_request behind; /* posted by the answer to another */

static void answered_with_another(struct store_request *r)
{
    n_answered++;
    behind = add_request(100);
    store_post(store, &behind);
}

START_TEST(what_finishes_waits_for_what_answers_post)
{
    struct store_request r[3];

    open_store();
    store_finish(store);
    for (uint64_t i = 0; i < 3; i++) {
        r[i] = add_request(i + 1);
        r[i].answer = i == 1 ? answered_with_another : answered;
        store_post(store, &r[i]);
    }
    store_finish(store);
    ck_assert_uint_eq(n_answered, 4);
    ck_assert_int_eq(behind.result, 0);
    again();
    ck_assert_uint_eq(seen.n, 4);
}
END_TEST

START_TEST(many_that_wait_share_an_fsync)
{
    static struct store_request r[STORE_RING_EARLY - 1];

    open_store();
    ck_assert_int_eq(add(1000), 0);
    unsigned before = powerloss_syncs();
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++) {
        r[i] = add_request(i + 1);
        store_post(store, &r[i]);
    }
    wait_for(1 + ARRAY_SIZE(r));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        ck_assert_int_eq(r[i].result, 0);
    ck_assert_uint_eq(powerloss_syncs() - before, 1);
}
END_TEST

START_TEST(many_answers_come_in_turns)
{
    static struct store_request r[300];
    unsigned turns = 0;

    open_store();
    ck_assert_int_eq(add(1000), 0);
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++) {
        r[i] = add_request(i + 1);
        store_post(store, &r[i]);
    }
    store_ring(store);
    for (unsigned before = n_answered; n_answered < before + ARRAY_SIZE(r); turns++) {
        struct pollfd p = {.fd = store_fd(store), .events = POLLIN};
        unsigned n = n_answered;

        ck_assert_int_eq(poll(&p, 1, 20000), 1); /* as long as one is not answered */
        store_answers(store);
        ck_assert_uint_le(n_answered - n, 128);
    }
    ck_assert_uint_ge(turns, 3);
}
END_TEST

static sem_t in_write, may_write;

static void write_waits(void)
{
    sem_post(&in_write);
    sem_wait(&may_write);
}

/* The first one is too large for SQLite's cache, so that it is written before its transaction is over, and small enough
 * for no checkpoint to follow. */
START_TEST(requests_during_a_write_share_one_fsync)
{
    static char large[3 << 20];
    static struct store_request r[4];

    sem_init(&in_write, 0, 0);
    sem_init(&may_write, 0, 0);
    open_store();
    ck_assert_int_eq(add(1000), 0);
    unsigned before = powerloss_syncs();
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++)
        r[i] = add_request(i + 1);
    r[0].row.input = large;
    r[0].row.input_size = sizeof(large);
    powerloss_at_write(write_waits);
    store_post(store, &r[0]);
    store_ring(store);
    sem_wait(&in_write);
    for (size_t i = 1; i < ARRAY_SIZE(r); i++)
        store_post(store, &r[i]);
    store_ring(store);
    sem_post(&may_write);
    wait_for(1 + ARRAY_SIZE(r));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        ck_assert_int_eq(r[i].result, 0);
    ck_assert_uint_eq(powerloss_syncs() - before, 1);
}
END_TEST

/* The thread has begun with the first ones when the last one is posted: without a ring they are all on disk before
 * it. */
START_TEST(it_begins_before_all_are_posted)
{
    static struct store_request r[STORE_RING_EARLY];
    struct pollfd p;

    open_store();
    ck_assert_int_eq(add(1000), 0);
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++) {
        ck_assert(!i || store_posted(store));
        r[i] = add_request(i + 1);
        store_post(store, &r[i]);
    }
    ck_assert(!store_posted(store));
    p = (struct pollfd){.fd = store_fd(store), .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 20000), 1);
    wait_for(1 + ARRAY_SIZE(r));
}
END_TEST

START_TEST(one_costs_one_fsync)
{
    open_store();
    ck_assert_int_eq(add(1), 0);
    ck_assert_int_eq(add(2), 0);
    for (uint64_t i = 3; i < 20; i++) {
        unsigned before = powerloss_syncs();

        ck_assert_int_eq(add(i), 0);
        ck_assert_uint_eq(powerloss_syncs() - before, 1);
    }
}
END_TEST

START_TEST(reading_costs_no_fsync)
{
    struct store_request read = request(STORE_READ, 1);

    open_store();
    ck_assert_int_eq(add(1), 0);
    unsigned before = powerloss_syncs();
    ck_assert_int_eq(do_one(&read), -ENOENT);
    ck_assert_uint_eq(powerloss_syncs(), before);
}
END_TEST

/* A child answers through a pipe which ones it was told to be on disk, and loses its power. */
static void child(int out, unsigned n)
{
    static struct store_request r[8];
    uint64_t number = 1;

    open_store();
    if (seen.n)
        number = seen.rows[seen.n - 1].number + 1;
    for (unsigned i = 0; i < n; i++) {
        for (size_t j = 0; j < ARRAY_SIZE(r); j++) {
            r[j] = add_request(number + j);
            store_post(store, &r[j]);
        }
        wait_for((i + 1) * (unsigned)ARRAY_SIZE(r));
        number += ARRAY_SIZE(r);
        if (write(out, &number, sizeof(number)) != sizeof(number))
            _exit(1);
    }
    for (size_t j = 0; j < ARRAY_SIZE(r); j++) { /* these it is not told of */
        r[j] = add_request(number + j);
        store_post(store, &r[j]);
    }
    store_ring(store);
    kill(getpid(), SIGKILL);
}

START_TEST(what_was_answered_survives_a_power_cut)
{
    uint64_t number = 0;

    for (unsigned round = 0; round < 4; round++) {
        int ends[2], status;

        ck_assert_int_eq(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0) {
            powerloss_dice((uint64_t)_i * 100 + round, (uint64_t)_i % 5);
            child(ends[1], 1 + round);
            _exit(1);
        }
        close(ends[1]);
        while (read(ends[0], &number, sizeof(number)) == sizeof(number))
            ;
        close(ends[0]);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
        open_store();
        ck_assert_uint_ge(seen.n, number - 1);
        for (unsigned i = 0; i < seen.n; i++)
            ck_assert_uint_eq(seen.rows[i].number, i + 1);
        store = store_free(store, NULL);
        ck_assert_str_eq(integrity(), "ok");
    }
}
END_TEST

START_TEST(a_disk_that_fails_refuses_and_recovers)
{
    static const struct {
        int code, result;
    } cases[] = {{SQLITE_FULL, -ENOSPC}, {SQLITE_IOERR_WRITE, -EIO}, {SQLITE_IOERR_FSYNC, -EIO}};

    open_store();
    ck_assert_int_eq(add(1), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store_request r = add_request(100 + i);

        powerloss_fail(cases[i].code);
        ck_assert_int_eq(do_one(&r), cases[i].result);
        ck_assert_uint_gt(strlen(r.why), 0);
        powerloss_fail(0);
        ck_assert_int_eq(add(2 + i), 0);
    }
    again();
    ck_assert_uint_eq(seen.n, 1 + ARRAY_SIZE(cases));
    store = store_free(store, NULL);
    ck_assert_str_eq(integrity(), "ok");
}
END_TEST

/* All four wait when the thread comes back from the first one, most likely; it has to be right either way. */
START_TEST(one_without_room_takes_no_other_down)
{
    static char large[1 << 20];
    struct store_request r[5];

    open_store();
    ck_assert_int_eq(add(100), 0);
    powerloss_room(256 << 10);
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++) {
        r[i] = add_request(i + 1);
        if (i == 3) {
            r[i].row.input = large;
            r[i].row.input_size = sizeof(large);
        }
        store_post(store, &r[i]);
    }
    wait_for(1 + ARRAY_SIZE(r));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        ck_assert_int_eq(r[i].result, i == 3 ? -ENOSPC : 0);
    powerloss_room(0);
    ck_assert_int_eq(do_one(&r[3]), 0);
    again();
    ck_assert_uint_eq(seen.n, 6);
}
END_TEST

START_TEST(two_do_not_share_a_store)
{
    struct store *other;
    struct store_request r = add_request(2);
    int status;

    open_store();
    ck_assert_int_eq(add(1), 0);
    pid_t pid = fork(); /* locks of one process do not keep it out */
    if (pid == 0) {
        ck_assert_int_eq(store_open(&other, directory, see, NULL), 0);
        _exit(store_problem(other) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(do_one(&r), 0);
}
END_TEST

START_TEST(what_cannot_be_used_says_why)
{
    struct store_request r = add_request(1);
    FILE *f = fopen(path, "w");

    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", f);
    fclose(f);
    open_store();
    ck_assert_ptr_nonnull(store_problem(store));
    ck_assert_int_eq(do_one(&r), -EBADMSG);
    ck_assert_uint_gt(strlen(r.why), 0);
    store = store_free(store, NULL);
    ck_assert_int_eq(store_open(&store, NULL, see, NULL), 0);
    ck_assert_ptr_nonnull(store_problem(store));
    ck_assert_int_eq(do_one(&r), -EACCES);
    store = store_free(store, NULL);
    ck_assert_int_eq(store_open(&store, "/proc/nowhere/at/all", see, NULL), 0);
    ck_assert_int_lt(do_one(&r), 0);
    ck_assert_uint_gt(strlen(r.why), 0);
}
END_TEST

START_TEST(one_of_a_newer_wsd_is_left_alone)
{
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, "CREATE TABLE x (y); PRAGMA user_version = 1000", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    open_store();
    ck_assert_ptr_nonnull(strstr(store_problem(store), "newer"));
    ck_assert_int_lt(add(1), 0);
}
END_TEST

/* The tables of the first version. */
#define FIRST_TABLES                                                                                                   \
    "CREATE TABLE jobs (number INTEGER PRIMARY KEY, id BLOB NOT NULL, uid INTEGER NOT NULL, plugin BLOB NOT NULL, "    \
    "function BLOB NOT NULL, directory BLOB, job_key BLOB, priority INTEGER NOT NULL, function_flags INTEGER NOT "     \
    "NULL, "                                                                                                           \
    "timeout_usec INTEGER NOT NULL, retry_usec INTEGER NOT NULL, retries INTEGER NOT NULL, retry_on INTEGER NOT "      \
    "NULL, "                                                                                                           \
    "retried INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, "                \
    "started INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0, exit INTEGER NOT NULL DEFAULT 0, "           \
    "argc INTEGER NOT NULL, submitted_usec INTEGER NOT NULL, due_usec INTEGER NOT NULL, "                              \
    "ended_usec INTEGER NOT NULL DEFAULT 0, queued_usec INTEGER NOT NULL DEFAULT 0, run_usec INTEGER NOT NULL "        \
    "DEFAULT 0, "                                                                                                      \
    "cpu_usec INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0, "         \
    "output_size INTEGER NOT NULL DEFAULT 0, error BLOB, status BLOB, worker BLOB, backtrace BLOB);"                   \
    "CREATE UNIQUE INDEX jobs_key ON jobs (uid, job_key) WHERE job_key IS NOT NULL;"                                   \
    "CREATE TABLE inputs (number INTEGER PRIMARY KEY, args BLOB, input BLOB);"                                         \
    "CREATE TABLE results (number INTEGER PRIMARY KEY, output BLOB);"

/* The tables as they were before there were delays and schedules, with a job in them. */
START_TEST(one_of_an_older_wsd_is_taken_over)
{
    static const char old[] =
        FIRST_TABLES "INSERT INTO jobs (number, id, uid, plugin, function, priority, function_flags, timeout_usec, "
                     "retry_usec, retries, retry_on, "
                     "state, argc, submitted_usec, due_usec) "
                     "VALUES (7, zeroblob(16), 1, CAST('p' AS BLOB) || x'00', x'00', 0, 0, 0, 0, 0, 0, 3, 0, 0, 0);"
                     "INSERT INTO inputs VALUES (7, NULL, CAST('old' AS BLOB));"
                     "PRAGMA user_version = 1;";
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    open_store();
    ck_assert_ptr_null(store_problem(store));
    ck_assert_int_eq(add(8), 0);
    again();
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_uint_eq(seen.rows[0].number, 7);
    ck_assert_str_eq(seen.rows[0].plugin, "p");
    ck_assert_uint_eq(seen.rows[0].input_size, 3);
    ck_assert_mem_eq(seen.rows[0].input, "old", 3);
    ck_assert_uint_eq(seen.rows[1].number, 8);
}
END_TEST

/* Jobs as the fourth version had them: one that waits for another, one with an attempt, one that has ended, one that is
 * dead. */
START_TEST(what_had_a_column_each_is_taken_over)
{
    static const char old[] = FIRST_TABLES
        "ALTER TABLE jobs ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE jobs ADD COLUMN delay_usec INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE jobs ADD COLUMN wait_usec INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE jobs ADD COLUMN tags BLOB;"
        "ALTER TABLE jobs ADD COLUMN runs_after BLOB;"
        "ALTER TABLE jobs ADD COLUMN args BLOB;"
        "ALTER TABLE jobs ADD COLUMN input BLOB;"
        "ALTER TABLE jobs ADD COLUMN output BLOB;"
        "CREATE TABLE schedules (number INTEGER PRIMARY KEY, uid INTEGER NOT NULL, name BLOB NOT NULL, calendar BLOB "
        "NOT NULL, "
        "plugin BLOB NOT NULL, function BLOB NOT NULL, directory BLOB, args BLOB, argc INTEGER NOT NULL, "
        "priority INTEGER NOT NULL, timeout_usec INTEGER NOT NULL, retries INTEGER NOT NULL, retry_on INTEGER NOT "
        "NULL, "
        "retry_usec INTEGER NOT NULL, wait_usec INTEGER NOT NULL, durable INTEGER NOT NULL, persistent INTEGER NOT "
        "NULL, "
        "configured INTEGER NOT NULL, due_usec INTEGER NOT NULL, id BLOB, ran_usec INTEGER NOT NULL DEFAULT 0, "
        "runs INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL DEFAULT 0, "
        "exit INTEGER NOT NULL DEFAULT 0, error BLOB);"
        "INSERT INTO jobs (number, id, uid, plugin, function, directory, job_key, priority, function_flags, "
        "timeout_usec, "
        "retry_usec, retries, retry_on, state, argc, submitted_usec, due_usec, delay_usec, wait_usec, tags, "
        "runs_after, args, "
        "input, started) "
        "VALUES (1, x'000102030405060708090a0b0c0d0e0f', 4294967294, x'7000', x'6600', x'2f64' || x'00', x'6b00', -7, "
        "5, 11, 12, "
        "13, 14, 3, 2, 1700000000000000, 15, 16, 17, x'7400', x'616674', x'610062', x'696e', 1);"
        "INSERT INTO jobs (number, id, uid, plugin, function, priority, function_flags, timeout_usec, retry_usec, "
        "retries, "
        "retry_on, state, argc, submitted_usec, due_usec, due_at, retried, attempts, error, runs_after) "
        "VALUES (2, zeroblob(16), 1, x'7000', x'6600', 7, 0, 0, 0, 3, 0, 2, 0, 0, 21, 1, 1, 2, x'6500', x'616674');"
        "INSERT INTO jobs (number, id, uid, plugin, function, priority, function_flags, timeout_usec, retry_usec, "
        "retries, "
        "retry_on, state, argc, submitted_usec, due_usec, exit, ended_usec, queued_usec, run_usec, cpu_usec, done, "
        "total, "
        "output_size, status, worker, output) "
        "VALUES (3, zeroblob(16), 1, x'7000', x'6600', 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 31, 32, 33, 34, 35, 36, 37, 3, "
        "x'7300', "
        "x'7700', x'6f7574');"
        "INSERT INTO jobs (number, id, uid, plugin, function, priority, function_flags, timeout_usec, retry_usec, "
        "retries, "
        "retry_on, state, argc, submitted_usec, due_usec, dead, input) "
        "VALUES (4, zeroblob(16), 1, x'7000', x'6600', 0, 0, 0, 0, 1, 0, 6, 0, 0, 0, 1, x'6761');"
        "PRAGMA user_version = 4;";
    static const uint8_t id[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct store_request read = request(STORE_READ, 3), requeue = request(STORE_REQUEUE, 4);
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    for (int twice = 0; twice < 2; twice++) {
        again();
        ck_assert_ptr_null(store_problem(store));
        ck_assert_uint_eq(seen.n, 4);
        const struct store_row *r = &seen.rows[0];
        ck_assert_mem_eq(r->id, id, sizeof(id));
        ck_assert_uint_eq(r->uid, 4294967294u);
        ck_assert_str_eq(r->plugin, "p");
        ck_assert_str_eq(r->function, "f");
        ck_assert_str_eq(r->directory, "/d");
        ck_assert_str_eq(r->key, "k");
        ck_assert_int_eq(r->priority, -7);
        ck_assert_uint_eq(r->function_flags, 5);
        ck_assert_uint_eq(r->timeout_usec, 11);
        ck_assert_uint_eq(r->retry_usec, 12);
        ck_assert_uint_eq(r->retries, 13);
        ck_assert_uint_eq(r->retry_on, 14);
        ck_assert_uint_eq(r->state, QUEUED);
        ck_assert_uint_eq(r->argc, 2);
        ck_assert_uint_eq(r->submitted_usec, 1700000000000000);
        ck_assert_uint_eq(r->due_usec, 15);
        ck_assert_uint_eq(r->delay_usec, 16);
        ck_assert_uint_eq(r->wait_usec, 17);
        ck_assert_uint_eq(r->started, 1);
        ck_assert_uint_eq(r->after_size, 3);
        ck_assert_mem_eq(r->args, "a\0b", 3);
        ck_assert_mem_eq(r->input, "in", 2);
        r = &seen.rows[1];
        ck_assert_int_eq(r->priority, 7);
        ck_assert_uint_eq(r->state, DELAYED);
        ck_assert_uint_eq(r->due_usec, 21);
        ck_assert_uint_eq(r->due_at, 1);
        ck_assert_uint_eq(r->retried, 1);
        ck_assert_uint_eq(r->attempts, 2);
        ck_assert_str_eq(r->error, "e");
        ck_assert_uint_eq(r->after_size, 0);
        r = &seen.rows[2];
        ck_assert_uint_eq(r->state, SUCCEEDED);
        ck_assert_uint_eq(r->exit, 31);
        ck_assert_uint_eq(r->ended_usec, 32);
        ck_assert_uint_eq(r->queued_usec, 33);
        ck_assert_uint_eq(r->run_usec, 34);
        ck_assert_uint_eq(r->cpu_usec, 35);
        ck_assert_uint_eq(r->done, 36);
        ck_assert_uint_eq(r->total, 37);
        ck_assert_uint_eq(r->output_size, 3);
        ck_assert_str_eq(r->status, "s");
        ck_assert_uint_eq(seen.rows[3].dead, 1);
    }
    ck_assert_int_eq(do_one(&read), 0);
    ck_assert_uint_eq(read.reply_size, 3);
    ck_assert_mem_eq(read.reply, "out", 3);
    free(read.reply);
    requeue.row.state = QUEUED;
    ck_assert_int_eq(do_one(&requeue), 0);
    ck_assert_uint_eq(requeue.row.input_size, 2);
    ck_assert_mem_eq(requeue.reply, "ga", 2);
    free(requeue.reply);
    struct store_request same = add_request(5);
    same.row.uid = 4294967294u;
    same.row.key = "k";
    ck_assert_int_eq(do_one(&same), -EEXIST);
}
END_TEST

/* Below, at and above what has room in a request. */
START_TEST(records_of_each_size_come_back)
{
    char plugin[60], where[64];
    unsigned n = 0;

    open_store();
    memset(plugin, 'p', sizeof(plugin));
    plugin[sizeof(plugin) - 1] = 0;
    for (size_t size = 20; size < sizeof(where); size++) {
        struct store_request r = add_request(size);

        memset(where, 'd', size);
        where[size] = 0;
        r.row.plugin = r.row.function = plugin;
        r.row.directory = where;
        r.row.input = plugin;
        r.row.input_size = sizeof(plugin);
        ck_assert_int_eq(do_one(&r), 0);
        n += r.record_size >= STORE_ROOM - 1 && r.record_size <= STORE_ROOM + 1;
    }
    ck_assert_uint_eq(n, 3);
    again();
    ck_assert_uint_eq(seen.n, sizeof(where) - 20);
    for (unsigned i = 0; i < seen.n; i++) {
        ck_assert_str_eq(seen.rows[i].plugin, plugin);
        ck_assert_str_eq(seen.rows[i].function, plugin);
        ck_assert_uint_eq(strlen(seen.rows[i].directory), 20 + i);
    }
}
END_TEST

START_TEST(one_without_memory_says_so_and_takes_no_other_down)
{
    struct store_request r = add_request(1);

    open_store();
    r.row.input_size = 5000; /* of a descriptor that is none: as where it cannot be mapped */
    ck_assert_int_eq(do_one(&r), -ENOMEM);
    ck_assert_str_eq(r.why, "out of memory");
    ck_assert_int_eq(add(2), 0);
    again();
    ck_assert_uint_eq(seen.n, 1);
}
END_TEST

static void damage(const char *sql, const void *bytes, size_t size)
{
    sqlite3_stmt *st = NULL;
    sqlite3 *db;

    store = store_free(store, NULL);
    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    if (size)
        ck_assert_int_eq(sqlite3_bind_blob64(st, 1, bytes, size, SQLITE_STATIC), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    sqlite3_close(db);
    open_store();
}

/* What a record says of sizes is not believed where the bytes are others. */
START_TEST(sizes_are_those_of_the_bytes)
{
    static char large[STORE_SMALL + 1];
    struct store_request r = add_request(1), end = request(STORE_END, 1), requeue = request(STORE_REQUEUE, 1);

    open_store();
    r.row.args = r.row.input = large;
    r.row.args_size = r.row.input_size = sizeof(large);
    end.row.state = FAILED;
    end.row.dead = 1;
    ck_assert_int_eq(do_one(&r) | do_one(&end), 0);
    damage("UPDATE inputs SET args = x'6100', input = x'62'", NULL, 0);
    ck_assert_ptr_null(store_problem(store));
    ck_assert_int_eq(do_one(&requeue), 0);
    ck_assert_uint_eq(requeue.row.args_size, 2);
    ck_assert_uint_eq(requeue.row.input_size, 1);
    ck_assert_uint_eq(requeue.reply_size, 3);
    ck_assert_mem_eq(requeue.reply, "a\0b", 3);
    free(requeue.reply);
    damage("UPDATE inputs SET args = x'61006200'", NULL, 0);
    ck_assert_uint_eq(seen.rows[0].args_size, 4);
    ck_assert_mem_eq(seen.rows[0].args, "a\0b", 4);
    ck_assert_uint_eq(seen.rows[0].input_size, 1);
}
END_TEST

START_TEST(sizes_without_bytes_are_damage)
{
    struct buffer record = {0}, entry = {0};
    struct store_request r = add_request(1);

    open_store();
    ck_assert_int_eq(add(1), 0);
    r.row.args_size = _i ? 5 : 0;
    r.row.input_size = _i ? 0 : 5;
    ck_assert_int_eq(record_pack(RECORD_GIVEN, &r.row, &record), 0);
    ck_assert_int_eq(entry_put(&entry, &(struct entry){ENTRY_GIVEN, 0, 1, buffer_data(&record), buffer_size(&record)}),
                     0);
    damage("UPDATE log SET bytes = ?1", buffer_data(&entry), buffer_size(&entry));
    ck_assert_ptr_nonnull(strstr(store_problem(store), "damaged"));
    buffer_deinit(&record);
    buffer_deinit(&entry);
}
END_TEST

/* Each of many steps in one transaction. */
START_TEST(steps_of_one_transaction_see_each_other)
{
    static char large[STORE_SMALL + 1];
    struct store_request r[9] = {
        add_request(1),          request(STORE_END, 1), request(STORE_READ, 1), request(STORE_REQUEUE, 1),
        request(STORE_START, 1), request(STORE_END, 1), request(STORE_READ, 1), request(STORE_DROP, 1),
        request(STORE_READ, 1)};

    open_store();
    ck_assert_int_eq(add(100), 0);
    r[0].row.input = "in";
    r[0].row.input_size = 2;
    r[1].row.state = FAILED;
    r[1].row.dead = 1;
    r[1].row.output = "first";
    r[1].row.output_size = 5;
    r[3].row.state = QUEUED;
    r[4].row.started = 1;
    r[5].row.state = SUCCEEDED;
    r[5].row.output = large;
    r[5].row.output_size = sizeof(large);
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        store_post(store, &r[i]);
    wait_for(1 + ARRAY_SIZE(r));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        ck_assert_int_eq(r[i].result, i == 8 ? -ENOENT : 0);
    ck_assert_uint_eq(r[2].reply_size, 5);
    ck_assert_mem_eq(r[2].reply, "first", 5);
    ck_assert_uint_eq(r[3].reply_size, 2);
    ck_assert_mem_eq(r[3].reply, "in", 2);
    ck_assert_uint_eq(r[6].reply_size, sizeof(large));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        free(r[i].reply);
    apart(0);
    ck_assert_uint_eq(seen.n, 1);
}
END_TEST

static const int failures[] = {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC};

/* What could not be written has not happened: not on disk, and not for the next request either. */
START_TEST(a_step_that_fails_can_be_done_again)
{
    static const enum store_op ops[] = {STORE_ADD, STORE_START, STORE_RETRY, STORE_END, STORE_REQUEUE, STORE_DROP};
    struct store_request read = request(STORE_READ, 1), r;
    static char large[STORE_SMALL + 1];

    memset(large, 'x', sizeof(large));
    open_store();
    ck_assert_int_eq(add(100), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
        for (int twice = 0; twice < 2; twice++) {
            r = ops[i] == STORE_ADD ? add_request(1) : request(ops[i], 1);
            r.row.key = "key";
            r.row.state = ops[i] == STORE_END ? FAILED : QUEUED;
            r.row.dead = ops[i] == STORE_END;
            r.row.started = ops[i] == STORE_START;
            if (ops[i] == STORE_ADD) {
                r.row.input = large;
                r.row.input_size = sizeof(large);
            }
            r.row.output = ops[i] == STORE_END ? large : NULL;
            r.row.output_size = ops[i] == STORE_END ? sizeof(large) : 0;
            powerloss_fail(twice ? 0 : failures[_i]);
            int result = do_one(&r);
            powerloss_fail(0);
            ck_assert(twice ? result == 0 : result < 0);
            if (ops[i] == STORE_REQUEUE && twice)
                ck_assert_mem_eq(r.reply, large, sizeof(large));
            free(r.reply);
            if (ops[i] != STORE_END && ops[i] != STORE_REQUEUE)
                continue;
            ck_assert_int_eq(do_one(&read), (ops[i] == STORE_END) == (twice == 1) ? 0 : -ENOENT);
            free(read.reply);
            read.reply = NULL;
        }
    apart(0);
    ck_assert_uint_eq(seen.n, 1);
    store = store_free(store, NULL);
    ck_assert_int_eq(ask("SELECT count(*) FROM keys"), 0);
    ck_assert_str_eq(integrity(), "ok");
}
END_TEST

/* So many jobs come and go that the log is written again several times, with a few in it that stay. */
START_TEST(the_log_does_not_grow_by_what_is_gone)
{
    static struct store_request r[256], drops[256];
    static char input[STORE_SMALL];
    struct store_request start = request(STORE_START, 2), retry = request(STORE_RETRY, 3),
                         again_started = request(STORE_START, 3);
    struct store_request end = request(STORE_END, 4), read = request(STORE_READ, 4), dead = request(STORE_END, 5);
    struct store_request keyed = add_request(6), same = add_request(7);

    open_store();
    for (uint64_t i = 1; i <= 5; i++)
        ck_assert_int_eq(add(i), 0);
    start.row.started = again_started.row.started = 1;
    retry.row.state = DELAYED;
    retry.row.retried = 2;
    end.row.state = SUCCEEDED;
    end.row.output = "out";
    end.row.output_size = 3;
    dead.row.state = FAILED;
    dead.row.dead = 1;
    keyed.row.key = same.row.key = "key";
    ck_assert_int_eq(
        do_one(&start) | do_one(&retry) | do_one(&again_started) | do_one(&end) | do_one(&dead) | do_one(&keyed), 0);
    for (uint64_t n = 1000; n < 1000 + 40 * ARRAY_SIZE(r); n += ARRAY_SIZE(r)) {
        unsigned before = n_answered;

        for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
            r[i] = add_request(n + i);
            r[i].row.input = input;
            r[i].row.input_size = sizeof(input);
            drops[i] = request(STORE_DROP, n + i);
            store_post(store, &r[i]);
            store_post(store, &drops[i]);
        }
        wait_for(before + 2 * (unsigned)ARRAY_SIZE(r));
        int results = 0;
        for (size_t i = 0; i < ARRAY_SIZE(r); i++)
            results |= r[i].result | drops[i].result;
        ck_assert_int_eq(results, 0);
    }
    for (int twice = 0; twice < 2; twice++) {
        again();
        ck_assert_uint_eq(seen.n, 6);
        ck_assert_uint_eq(seen.rows[0].state, QUEUED);
        ck_assert_uint_eq(seen.rows[0].started, 0);
        ck_assert_uint_eq(seen.rows[1].started, 1);
        ck_assert_uint_eq(seen.rows[2].state, DELAYED);
        ck_assert_uint_eq(seen.rows[2].retried, 2);
        ck_assert_uint_eq(seen.rows[2].started, 1);
        ck_assert_uint_eq(seen.rows[3].state, SUCCEEDED);
        ck_assert_uint_eq(seen.rows[4].dead, 1);
        ck_assert_str_eq(seen.rows[5].key, "key");
    }
    ck_assert_int_eq(do_one(&read), 0);
    ck_assert_uint_eq(read.reply_size, 3);
    ck_assert_mem_eq(read.reply, "out", 3);
    free(read.reply);
    ck_assert_int_eq(do_one(&same), -EEXIST);
    store = store_free(store, NULL);
    ck_assert_int_gt(ask("SELECT min(number) FROM log"), 10);
    ck_assert_int_lt(ask("SELECT total(length(bytes)) FROM log"), (int64_t)(JOB_LOG_SLACK + 2 * JOB_LOG_EACH));
    ck_assert_str_eq(integrity(), "ok");
}
END_TEST

static const char *const damages[] = {
    "UPDATE log SET bytes = x'00'", /* no kind of entry */
    "UPDATE log SET bytes = substr(bytes, 1, length(bytes) - 1)",
    "UPDATE log SET bytes = x'0b0100'", /* about a job that was not given */
    "UPDATE log SET bytes = x'010100'", /* given nothing, not even a plugin */
    "UPDATE log SET number = 0",
};

START_TEST(a_log_that_is_damaged_is_left_alone)
{
    open_store();
    ck_assert_int_eq(add(1), 0);
    damage(damages[_i], NULL, 0);
    ck_assert_ptr_nonnull(store_problem(store));
    ck_assert_ptr_nonnull(strstr(store_problem(store), "damaged"));
    ck_assert_int_eq(add(2), -EBADMSG);
}
END_TEST

static void unanswered(struct store_request *r)
{
    n_unanswered++;
}

START_TEST(what_was_posted_is_written_at_the_end)
{
    static struct store_request r[100];

    open_store();
    for (uint64_t i = 0; i < ARRAY_SIZE(r); i++) {
        r[i] = add_request(i + 1);
        store_post(store, &r[i]);
    }
    store = store_free(store, unanswered);
    ck_assert_uint_eq(n_unanswered, ARRAY_SIZE(r));
    open_store();
    ck_assert_uint_eq(seen.n, ARRAY_SIZE(r));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("store");
    Suite *s = suite_create("store");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_is_on_disk_before_the_first_request);
    tcase_add_test(tc, what_was_added_is_there_again);
    tcase_add_test(tc, each_step_is_there_again);
    tcase_add_test(tc, a_large_input_is_read_when_its_job_starts);
    tcase_add_loop_test(tc, one_that_is_dead_keeps_its_input_and_can_be_queued_again, 0, (int)ARRAY_SIZE(sizes));
    tcase_add_test(tc, a_key_is_there_once_for_each_user);
    tcase_add_test(tc, many_that_wait_share_an_fsync);
    tcase_add_test(tc, many_answers_come_in_turns);
    tcase_add_test(tc, requests_during_a_write_share_one_fsync);
    tcase_add_test(tc, it_begins_before_all_are_posted);
    tcase_add_test(tc, what_finishes_waits_for_what_answers_post);
    tcase_add_test(tc, one_costs_one_fsync);
    tcase_add_test(tc, reading_costs_no_fsync);
    tcase_add_loop_test(tc, what_was_answered_survives_a_power_cut, 0, 20);
    tcase_add_test(tc, a_disk_that_fails_refuses_and_recovers);
    tcase_add_test(tc, one_without_room_takes_no_other_down);
    tcase_add_test(tc, two_do_not_share_a_store);
    tcase_add_test(tc, what_cannot_be_used_says_why);
    tcase_add_test(tc, one_of_a_newer_wsd_is_left_alone);
    tcase_add_test(tc, one_of_an_older_wsd_is_taken_over);
    tcase_add_test(tc, what_had_a_column_each_is_taken_over);
    tcase_add_test(tc, records_of_each_size_come_back);
    tcase_add_test(tc, sizes_are_those_of_the_bytes);
    tcase_add_loop_test(tc, sizes_without_bytes_are_damage, 0, 2);
    tcase_add_test(tc, steps_of_one_transaction_see_each_other);
    tcase_add_loop_test(tc, a_step_that_fails_can_be_done_again, 0, (int)ARRAY_SIZE(failures));
    tcase_add_test(tc, the_log_does_not_grow_by_what_is_gone);
    tcase_add_loop_test(tc, a_log_that_is_damaged_is_left_alone, 0, (int)ARRAY_SIZE(damages));
    tcase_add_test(tc, one_without_memory_says_so_and_takes_no_other_down);
    tcase_add_test(tc, what_was_posted_is_written_at_the_end);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
