/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h: jobs on disk. One thread owns the database; the loop posts requests and takes answers, and never waits.
 *
 * What waits when the thread looks is written in one transaction, in the order in which it was posted, and answered
 * when that is on disk (SQLite in WAL mode, synchronous = FULL: behind an fsync). So many submitters share one fsync,
 * and a request that is posted behind another one is never on disk without it. Nothing is made on disk before the first
 * request. Without requests the thread sleeps and makes no system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define STORE_FILE      "jobs.db"
#define STORE_INLINE    (64u * 1024u)  /* a larger input is not read at the start, but when its job begins */
#define STORE_SMALL     512u           /* arguments and input together, or output: up to here with the job */
#define STORE_INPUT_MAX (256ull << 20) /* of a job; SQLite takes at most 1e9 bytes in one piece */
#define STORE_BATCH     1024u          /* requests in one transaction */
/* posted ones, at which the thread begins before the turn of the loop is over */
#define STORE_RING_EARLY 32u
#define STORE_WHY        256u
#define STORE_SAYS       512u
#define STORE_ROOM       256u /* most records are smaller */

/* A job as it is on disk. Texts and bytes are somebody else's; NULL is an empty one. What the thread reads of it comes
 * first; the rest goes into a record (record.h), made of it by store_post(). */
struct store_row {
    uint64_t number; /* its place: larger ones are newer; never 0, never used again */
    uint8_t id[16];
    uint32_t uid;
    uint32_t state; /* enum job_state of jobs.h; the store knows no more of it than STORE_FINAL */
    uint32_t started, dead;
    const char *key; /* NULL: none; unique for each uid */
    const void *args;
    size_t args_size;
    const void *input; /* NULL with a size: it is in input_fd; read at the start: it was too large for that */
    size_t input_size;
    int input_fd;
    const void *output;
    size_t output_size;
    const char *plugin, *function, *directory;
    const char *title; /* the plugin's own name, NULL: as plugin */
    uint32_t argc;
    int priority;
    uint64_t function_flags, timeout_usec, retry_usec;
    uint32_t retries, retried, retry_on;
    uint32_t attempts, exit;
    uint64_t submitted_usec, due_usec, ended_usec; /* CLOCK_REALTIME */
    uint32_t due_at;                               /* due_usec is a time of day that was asked for, and no span */
    uint64_t delay_usec;                           /* asked for */
    uint64_t wait_usec;                            /* the longest time in the queue; 0: any */
    uint64_t queued_usec, run_usec, cpu_usec, done, total;
    const char *error, *status, *worker, *backtrace;
    const char *tags;  /* with commas between */
    const void *after; /* whom it runs after: jobs/after.h has the bytes */
    size_t after_size;
    uint64_t requeued; /* it was dead and was queued again, when this was the newest number; 0: never */
    /* of a schedule, whose name is the key; due_usec: until then all is done; submitted_usec, done: its last run, and
     * how many; total: those that were skipped */
    const char *calendar;
    uint32_t durable, persistent, configured;
};

#define STORE_FINAL 5u /* states from here on are final */

enum store_op {
    STORE_ADD,   /* row: all of it */
    STORE_START, /* number; started: marks it. want_input: reads that into reply_fd */
    STORE_RETRY, /* number, state, due_usec, retried, attempts, error; the mark goes */
    STORE_END,   /* number, and what is known at the end. Unless it is dead its input goes */
    STORE_READ,  /* number: the output, into reply */
    /* number, state: as if it had never been tried. reply: arguments and, up to STORE_INLINE, input; sizes in row */
    STORE_REQUEUE,
    STORE_DROP,          /* number: all of it */
    STORE_SCHEDULE_ADD,  /* row of a schedule: all of it */
    STORE_SCHEDULE_NOTE, /* number: what is known of its last run, in the fields of a job's end and due_usec */
    STORE_SCHEDULE_DROP, /* number */
};

/* Whose row becomes a record. */
static inline bool store_has_record(enum store_op op)
{
    return op == STORE_ADD || op == STORE_RETRY || op == STORE_END || op == STORE_REQUEUE;
}

/* What does not goes into a table of its own. */
static inline bool store_given_fits(const struct store_row *row)
{
    return row->args_size + row->input_size <= STORE_SMALL && (row->input || !row->input_size);
}

static inline bool store_output_fits(const struct store_row *row)
{
    return row->output_size <= STORE_SMALL;
}

struct store;

/* Embedded in the poster's object, zeroed but for what the operation wants; the store's until answered, and so is what
 * row points to. What the thread and the loop both write comes first: a cache line goes back and forth. */
struct store_request {
    struct list link;
    enum store_op op;
    bool want_input;
    int reply_fd;    /* START with want_input: a sealed memfd, the receiver's */
    int result;      /* 0, or a negative errno: -ENOSPC, -EIO, -ENOENT (no such job), -EEXIST (the key), ... */
    uint8_t *record; /* the store's own: of the row; NULL: none, or no memory for it */
    size_t record_size;
    void (*answer)(struct store_request *r); /* [loop] */
    struct store_row row;
    void *reply; /* READ, REQUEUE: reply_size bytes, the receiver's to free */
    size_t reply_size;
    char why[STORE_WHY];      /* words for it */
    uint8_t room[STORE_ROOM]; /* for a record that fits */
};

/* Opens the store in this directory; where there is a database, reads it, the oldest job first, in the caller's thread:
 * what a row points to lives for the time of the call. each returns 0, or a negative errno that ends it. directory
 * NULL: there is none. Never fails but for -ENOMEM and each's errno: a store that cannot be used answers each request
 * with the reason. [loop] */
int store_open(struct store **ret_store, const char *directory,
               int (*each)(const struct store_row *row, void *userdata), void *userdata);
/* The directory, where it is missing, before there is a store. 0, or a negative errno: nothing can be kept there.
 * [any] */
int store_make_directory(const char *directory);
/* Each schedule, as store_open() has jobs; before the first request. 0, or each's errno. [loop] */
int store_schedules(struct store *store, int (*each)(const struct store_row *row, void *userdata), void *userdata);
/* Writes what was posted, ends the thread. Requests that were not answered are not: unanswered(), where it is not NULL,
 * gets each. NULL is fine; returns NULL. [loop] */
struct store *store_free(struct store *store, void (*unanswered)(struct store_request *r));
/* Readable when there are answers. */
int store_fd(const struct store *store);
/* Posted ones are the thread's from the next store_ring() on: once a turn of the loop, or when STORE_RING_EARLY of them
 * are there. What comes while it is busy with others goes into the same transaction. [loop] */
void store_post(struct store *store, struct store_request *r);
void store_ring(struct store *store);
bool store_posted(const struct store *store); /* whether there is something to ring for [loop] */
void store_answers(struct store *store);      /* calls answer() of each that is done [loop] */
/* All that is posted is done and answered when this returns. It waits: for the start, while nobody is served. [loop] */
void store_finish(struct store *store);
/* What an administrator should know of, once: of the start, or since. False: nothing. [loop] */
bool store_says(struct store *store, char text[static STORE_SAYS]);
/* Why nothing can be kept there, as far as that is known without trying; NULL. [loop] */
const char *store_problem(const struct store *store);
