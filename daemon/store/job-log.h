/* SPDX-License-Identifier: Apache-2.0
 *
 * job-log.h: the log of durable jobs. Each event of a job is an entry (record.h). Many entries share one row of the
 * table `log`: with a row of SQLite for each job, rows were half of the work of the store's thread. One thread at a
 * time.
 *
 * The log is a queue of rows. A transaction appends to its end. An index in memory knows the row of each job's valid
 * entries; reading the log from its oldest row to its newest makes the index again. Where less than half of the log is
 * valid, the oldest rows are removed, after their valid entries were appended again. This is the log-structured file
 * system of Rosenblum and Ousterhout (1992), with the index of Bitcask (Sheehy and Smith, 2010). Since always the
 * oldest row goes, the entry that ends a job is not needed when its row is the oldest.
 */
#pragma once

#include <sqlite3.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "store/record.h"

#define JOB_LOG_ROW   (32u << 10) /* bytes of a row from which on the next entry starts a new row */
#define JOB_LOG_SLACK (1u << 20)  /* invalid bytes that may stay, however few are valid */
#define JOB_LOG_CLEAN (1u << 20)  /* bytes that one cleaning looks through */
/* bytes written between two cleanings, so that the cost for each job is the same wherever the others stand */
#define JOB_LOG_EACH (JOB_LOG_CLEAN / 4)

#define JOB_LOG_TABLE "CREATE TABLE log (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"

/* A job in the index. */
struct logged {
    struct hash_link by_number; /* its key is the job's number */
    struct logged_places {
        uint64_t given, started, known; /* the row of that entry; 0: there is none */
        uint32_t given_size, known_size;
        uint16_t given_offset, known_offset; /* in the row */
        uint8_t given_flags, known_flags;    /* enum entry_flags */
        bool gone;                           /* removed by the present transaction */
    } at;
};

static inline uint64_t logged_number(const struct logged *job)
{
    return job->by_number.key;
}

struct job_log_undo;

/* A row that was read. Rows never change, and no row number is used twice. */
struct job_log_reader {
    uint64_t row; /* 0: none */
    struct buffer bytes;
};

struct job_log {
    sqlite3_stmt *insert, *select, *oldest, *delete;
    struct hash index;            /* of struct logged */
    uint64_t next;                /* row */
    uint64_t n_bytes, n_counting; /* bytes of all rows; of the valid entries */
    uint64_t n_written;           /* bytes written since the last cleaning */
    struct buffer row;            /* the transaction's row, not inserted yet */
    struct job_log_reader given, known, cleaned;
    struct job_log_undo *undo; /* changes of the transaction to the index */
    size_t n_undo, undo_room;
    uint64_t n_bytes_before, n_counting_before; /* before the transaction */
};

/* Reads all rows of the table. *log must be zeroed. Returns SQLite's codes; SQLITE_CORRUPT where entries are
 * damaged. */
int job_log_open(struct job_log *log, sqlite3 *sqlite);
void job_log_deinit(struct job_log *log);

void job_log_shrink(struct job_log *log); /* shrinks the index after a burst, a bounded part a call */

/* NULL: there is no such job. */
struct logged *job_log_find(const struct job_log *log, uint64_t number);
/* Returns all jobs, the oldest first: log->index.n of them, in an array that the receiver frees. NULL: no memory. */
struct logged **job_log_sorted(const struct job_log *log);
/* Reads the GIVEN or KNOWN entry of a job. *ret points to bytes that live until the next call with that kind. Returns
 * SQLite's codes. */
int job_log_read(struct job_log *log, const struct logged *job, enum entry_kind kind, struct entry *ret);

/* In a transaction: job_log_begin(), any of these calls, job_log_flush(), and then job_log_committed() or
 * job_log_rolled_back(). Return SQLite's codes. They copy the record, which stays the caller's. */
void job_log_begin(struct job_log *log);
/* a new job */
int job_log_give(struct job_log *log, uint64_t number, unsigned flags, const void *record, size_t size);
int job_log_start(struct job_log *log, struct logged *job);
int job_log_know(struct job_log *log, struct logged *job, unsigned flags, const void *record, size_t size);
int job_log_drop(struct job_log *log, struct logged *job); /* what the job points to lives until job_log_committed() */
int job_log_flush(struct job_log *log);
void job_log_committed(struct job_log *log);
void job_log_rolled_back(struct job_log *log);

bool job_log_wants_cleaning(const struct job_log *log);
int job_log_clean(struct job_log *log); /* looks through JOB_LOG_CLEAN bytes, in a transaction of its own */
