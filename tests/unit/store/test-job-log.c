/* SPDX-License-Identifier: Apache-2.0
 *
 * test-job-log.c: the log of durable jobs alone, in a database in memory, against a table that says what it should
 * know. */
#include <check.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/job-log.h"
#include "tests/unit/suite.h"

#define JOBS  400u
#define SIZE  700u
#define STEPS 200000u

/* ck_assert() tells of each that holds, by a write: too much for millions. */
#define must(holds)                                                                                                    \
    do {                                                                                                               \
        if (!(holds))                                                                                                  \
            ck_abort_msg("%s, WSD_SEED=%u", #holds, seed);                                                             \
    } while (0)

static unsigned seed;
static sqlite3 *db;
static struct job_log l;

/* What is to be known of each job. */
struct known {
    bool there, started;
    uint32_t given, known; /* the byte that its record is made of and its size come from these; known 0: nothing is */
    uint8_t given_flags, known_flags;
};

static struct known now[JOBS], before[JOBS];

static void setup(void)
{
    ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
    /* no disk at all */
    ck_assert_int_eq(sqlite3_exec(db, "PRAGMA temp_store = MEMORY;" JOB_LOG_TABLE, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(job_log_open(&l, db), SQLITE_OK);
    memset(now, 0, sizeof(now));
    seed = getenv("WSD_SEED") ? (unsigned)atoi(getenv("WSD_SEED")) : (unsigned)getpid();
    srandom(seed);
}

static void teardown(void)
{
    job_log_deinit(&l);
    sqlite3_close(db);
}

static size_t record(uint32_t made_of, uint8_t bytes[static SIZE])
{
    size_t size = made_of * 2654435761u % SIZE;

    memset(bytes, (int)(made_of % 251), size);
    return size;
}

static void check_record(const struct logged *job, enum entry_kind kind, uint32_t made_of, unsigned flags)
{
    uint8_t bytes[SIZE];
    size_t size = record(made_of, bytes);
    struct entry e;

    must(job_log_read(&l, job, kind, &e) == SQLITE_OK);
    must(e.number == logged_number(job));
    must(e.flags == flags);
    must(e.size == size);
    if (size)
        must(memcmp(e.data, bytes, size) == 0);
}

static void check_job(uint64_t number)
{
    const struct known *k = &now[number - 1];
    struct logged *job = job_log_find(&l, number);

    must((job != NULL) == k->there);
    if (!job)
        return;
    must((job->at.started != 0) == k->started);
    must((job->at.known != 0) == (k->known != 0));
    check_record(job, ENTRY_GIVEN, k->given, k->given_flags);
    must(job->at.given_flags == k->given_flags);
    if (k->known) {
        check_record(job, ENTRY_KNOWN, k->known, k->known_flags);
        must(job->at.known_flags == k->known_flags);
    }
}

static void exec(const char *sql)
{
    must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

static uint64_t total(void)
{
    sqlite3_stmt *st = NULL;

    must(sqlite3_prepare_v2(db, "SELECT total(length(bytes)) FROM log", -1, &st, NULL) == SQLITE_OK);
    must((sqlite3_step(st)) == (SQLITE_ROW));
    uint64_t n = (uint64_t)sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static void check_all(void)
{
    struct logged **all = job_log_sorted(&l);
    uint64_t counting = 0, last = 0;
    size_t n = 0;

    for (uint64_t number = 1; number <= JOBS; number++) {
        check_job(number);
        n += now[number - 1].there;
    }
    must(l.index.n == n);
    for (size_t i = 0; i < n; i++) {
        must(logged_number(all[i]) > last);
        last = logged_number(all[i]);
        counting += all[i]->at.given_size + all[i]->at.known_size +
                    (all[i]->at.started ? entry_size(&(struct entry){.kind = ENTRY_STARTED, .number = last}) : 0);
    }
    free(all);
    must(l.n_counting == counting);
    must(l.n_bytes == total());
}

static void reopen(void)
{
    job_log_deinit(&l);
    must(job_log_open(&l, db) == SQLITE_OK);
}

/* One that fits what the job is. */
static void step(void)
{
    uint64_t number = 1 + (uint64_t)random() % JOBS;
    struct known *k = &now[number - 1];
    struct logged *job = job_log_find(&l, number);
    uint32_t made_of = 1 + (uint32_t)random() % 1000000;
    unsigned flags = (unsigned)random() % 8;
    uint8_t bytes[SIZE];
    size_t size = record(made_of, bytes);

    if (!k->there) {
        /* one that the transaction itself has dropped is in the index till it is over, and its number is used once
         * only */
        if (hash_first(&l.index, number))
            return;
        must(job_log_give(&l, number, flags, bytes, size) == SQLITE_OK);
        *k = (struct known){.there = true, .given = made_of, .given_flags = (uint8_t)flags};
        return;
    }
    switch (random() % 4) {
    case 0:
        must(job_log_start(&l, job) == SQLITE_OK);
        k->started = true;
        return;
    case 1:
        must(job_log_drop(&l, job) == SQLITE_OK);
        k->there = false;
        return;
    case 2:
        check_job(number);
        return;
    default:
        must(job_log_know(&l, job, flags, bytes, size) == SQLITE_OK);
        k->known = made_of;
        k->known_flags = (uint8_t)flags;
        k->started = false;
    }
}

/* Numbers come again here once their job is gone, as they may after a restart. */
START_TEST(it_knows_what_it_was_told)
{
    unsigned n_cleaned = 0;

    for (unsigned i = 0; i < STEPS;) {
        unsigned n = 1 + (unsigned)random() % (random() % 50 ? 20 : 500);

        memcpy(before, now, sizeof(now));
        exec("BEGIN");
        job_log_begin(&l);
        for (unsigned k = 0; k < n; k++)
            step();
        i += n;
        if (random() % 10) {
            must(job_log_flush(&l) == SQLITE_OK);
            exec("COMMIT");
            job_log_committed(&l);
        } else {
            exec("ROLLBACK");
            job_log_rolled_back(&l);
            memcpy(now, before, sizeof(now));
        }
        if (job_log_wants_cleaning(&l)) {
            uint64_t bytes = l.n_bytes;

            exec("BEGIN");
            job_log_begin(&l);
            must(job_log_clean(&l) == SQLITE_OK);
            if (random() % 4) {
                must(job_log_flush(&l) == SQLITE_OK);
                exec("COMMIT");
                job_log_committed(&l);
                must(l.n_bytes < bytes);
                n_cleaned++;
            } else {
                exec("ROLLBACK");
                job_log_rolled_back(&l);
                must(l.n_bytes == bytes);
            }
        }
        if (random() % 100 == 0)
            check_all();
        if (random() % 100 == 0) {
            reopen();
            check_all();
        }
    }
    ck_assert_uint_gt(n_cleaned, 10);
}
END_TEST

/* The oldest job of all waits while others come and go: its entry is written again and again, behind what is known of
 * it. */
START_TEST(what_was_given_may_stand_behind_what_is_known)
{
    uint8_t bytes[SIZE] = {0};

    exec("BEGIN");
    job_log_begin(&l);
    ck_assert_int_eq(job_log_give(&l, 1, 0, bytes, 10), SQLITE_OK);
    ck_assert_int_eq(job_log_flush(&l), SQLITE_OK); /* a row of its own */
    ck_assert_int_eq(job_log_know(&l, job_log_find(&l, 1), ENTRY_DEAD, bytes, 20), SQLITE_OK);
    ck_assert_int_eq(job_log_start(&l, job_log_find(&l, 1)), SQLITE_OK);
    exec("COMMIT");
    ck_assert_int_eq(job_log_flush(&l), SQLITE_OK);
    job_log_committed(&l);
    l.n_bytes += 2 * JOB_LOG_SLACK; /* so that it wants to be cleaned, of one row */
    l.n_written += JOB_LOG_EACH;
    exec("BEGIN");
    job_log_begin(&l);
    ck_assert_int_eq(job_log_clean(&l), SQLITE_OK);
    ck_assert_int_eq(job_log_flush(&l), SQLITE_OK);
    exec("COMMIT");
    job_log_committed(&l);
    for (int twice = 0; twice < 2; twice++) {
        const struct logged *job = job_log_find(&l, 1);

        ck_assert_ptr_nonnull(job);
        ck_assert_int_ne(job->at.started != 0, 0);
        ck_assert_uint_eq(job->at.known_flags, ENTRY_DEAD);
        ck_assert_uint_eq(job->at.given_size, entry_size(&(struct entry){ENTRY_GIVEN, 0, 1, bytes, 10}));
        ck_assert_uint_eq(job->at.known_size, entry_size(&(struct entry){ENTRY_KNOWN, ENTRY_DEAD, 1, bytes, 20}));
        reopen();
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("log");
    Suite *s = suite_create("log");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, it_knows_what_it_was_told);
    tcase_add_test(tc, what_was_given_may_stand_behind_what_is_known);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
