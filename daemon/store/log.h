/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: what happens to durable jobs, one entry (record.h) behind the other, many in one row of the table `log`: a row
 * of SQLite for each job was half of what the store's thread did. One thread at a time.
 *
 * The log is a queue of rows. What a transaction writes goes behind; the index, in memory, knows in which row each
 * job's entries that count stand, and reading the log from its oldest row to its newest one makes the index again.
 * Where less than half of the log counts, the oldest rows go, and what counts of them is written again behind the
 * newest one: the log-structured file system of Rosenblum and Ousterhout (1992), with the index of Bitcask (Sheehy and
 * Smith, 2010). As it is always the oldest row that goes, an entry that says that a job is gone is not wanted any more
 * when its row is the oldest.
 */
#pragma once

#include <sqlite3.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "store/record.h"

#define LOG_ROW   (32u << 10) /* bytes, from which on the next entry goes into another row: no entry begins beyond */
#define LOG_SLACK (1u << 20)  /* bytes that do not count and may stay, however little counts */
#define LOG_CLEAN (1u << 20)  /* bytes that are looked through at a time: */
/* when so many have been written, so that it costs each job the same, wherever the others stand */
#define LOG_EACH (LOG_CLEAN / 4)

#define LOG_TABLE "CREATE TABLE log (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"

/* A job in the index. */
struct logged {
    struct hash_link by_number; /* the key is that */
    struct logged_places {
        uint64_t given, started, known; /* the row where that entry is; 0: there is none */
        uint32_t given_size, known_size;
        uint16_t given_offset, known_offset; /* in the row */
        uint8_t given_flags, known_flags;    /* enum entry_flags */
        bool gone;                           /* by the transaction that is under way */
    } at;
};

static inline uint64_t logged_number(const struct logged *job)
{
    return job->by_number.key;
}

struct log_undo;

/* A row that was read. Rows never change, and no number is used twice. */
struct log_reader {
    uint64_t row; /* 0: none */
    struct buffer bytes;
};

struct log {
    sqlite3_stmt *insert, *select, *oldest, *delete;
    struct hash index;            /* of struct logged */
    uint64_t next;                /* row */
    uint64_t n_bytes, n_counting; /* of all rows and of the entries that count */
    uint64_t n_written;           /* bytes, since it was cleaned */
    struct buffer row;            /* of the transaction: not inserted yet */
    struct log_reader given, known, cleaned;
    struct log_undo *undo; /* what the transaction has changed in the index */
    size_t n_undo, undo_room;
    uint64_t n_bytes_before, n_counting_before; /* the transaction */
};

/* Zeroed before. Reads all rows of the table. SQLite's codes; SQLITE_CORRUPT where entries are damaged. */
int log_open(struct log *log, sqlite3 *sqlite);
void log_deinit(struct log *log);

void log_shrink(struct log *log); /* the index gives back what it had for more jobs, a bounded part a call */

/* NULL: there is no such job. */
struct logged *log_find(const struct log *log, uint64_t number);
/* All jobs, the oldest first: log->index.n of them, the receiver's to free; NULL: no memory. */
struct logged **log_sorted(const struct log *log);
/* GIVEN or KNOWN of it. *ret is of bytes that live until the next call with that kind. SQLite's codes. */
int log_read(struct log *log, const struct logged *job, enum entry_kind kind, struct entry *ret);

/* In a transaction: log_begin(), any of these, log_flush() and then, by what became of it, log_committed() or
 * log_rolled_back(). SQLite's codes. What a job's entry has, apart from its number, is the caller's; it is copied. */
void log_begin(struct log *log);
/* one that is not there yet */
int log_give(struct log *log, uint64_t number, unsigned flags, const void *record, size_t size);
int log_start(struct log *log, struct logged *job);
int log_know(struct log *log, struct logged *job, unsigned flags, const void *record, size_t size);
int log_drop(struct log *log, struct logged *job); /* what it points to lives until log_committed() */
int log_flush(struct log *log);
void log_committed(struct log *log);
void log_rolled_back(struct log *log);

bool log_wants_cleaning(const struct log *log);
int log_clean(struct log *log); /* in a transaction of its own: looks at LOG_CLEAN bytes */
