/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h: jobs on disk. One thread owns the database. The loop posts requests and takes answers, and never waits.
 *
 * The thread writes all requests that it finds in one transaction, in the order of their posting. It answers them when
 * the transaction is on disk (SQLite in WAL mode, synchronous = FULL: after an fsync). So many submitters share one
 * fsync, and a request is never on disk without those posted before it. Nothing is made on disk before the first
 * request. Without requests the thread sleeps and makes no system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/submit-options.h"

#define STORE_FILE   "jobs.db"
#define STORE_INLINE (64u * 1024u) /* larger inputs are read when the job begins, not at the start */
/* arguments and input together, or output: up to this size they are stored with the job */
#define STORE_SMALL     512u
#define STORE_INPUT_MAX (256ull << 20) /* of a job; SQLite takes at most 1e9 bytes in one piece */
#define STORE_BATCH     1024u          /* requests in one transaction */
/* number of posted requests at which the thread begins before the turn of the loop is over */
#define STORE_RING_EARLY 32u
#define STORE_WHY        256u
#define STORE_SAYS       512u
#define STORE_ROOM       256u /* most records are smaller */

#define STORE_KEPT(name, ...) const char *name;

/* A job as it is on disk. Its texts and bytes are not owned; NULL is an empty one. What the thread reads of it comes
 * first. store_post() makes a record (record.h) of the rest. */
struct store_row {
    uint64_t number; /* its key; larger ones are newer; never 0, never used again */
    uint8_t id[16];
    uint32_t uid;
    uint32_t state; /* enum job_state of jobs.h, of which the store knows only STORE_FINAL */
    uint32_t started, dead;
    const char *key; /* NULL: none; unique for each uid */
    const void *args;
    size_t args_size;
    const void *input; /* NULL with a size: it is in input_fd; in a row read at the start: it was too large for that */
    size_t input_size;
    int input_fd;
    const void *output;
    size_t output_size;
    const char *plugin, *function, *directory;
    const char *title; /* the plugin's own name; NULL: as plugin */
    uint32_t argc;
    int priority;
    uint64_t function_flags, timeout_usec, retry_usec;
    uint32_t retries, retried, retry_on;
    uint32_t attempts, exit;
    uint64_t submitted_usec, due_usec, ended_usec; /* CLOCK_REALTIME */
    uint32_t due_at;                               /* due_usec is a requested time of day, and not the end of a span */
    uint64_t delay_usec;                           /* requested */
    uint64_t wait_usec;                            /* the longest time in the queue; 0: any */
    uint64_t queued_usec, run_usec, cpu_usec, done, total;
    const char *error, *status, *worker, *backtrace;
    KEPT_OPTIONS(STORE_KEPT)
    const void *after; /* the jobs that it runs after: struct after_name of table/after.h */
    size_t after_size;
    uint64_t requeued; /* the newest number when this dead job was queued again; 0: never */
    /* of a schedule; its name is `key`. due_usec: its runs up to then are done; submitted_usec: its last run; done:
     * number of runs; total: skipped ones */
    const char *calendar;
    uint32_t durable, persistent, configured;
};

#define STORE_FINAL 5u /* states from here on are final */

enum store_op {
    STORE_ADD,   /* writes all of row */
    STORE_START, /* number. started: marks the job. want_input: reads the input into reply_fd */
    STORE_RETRY, /* number, state, due_usec, retried, attempts, error; removes the mark */
    STORE_END,   /* number, and what is known at the end. Removes the input, unless the job is dead */
    STORE_READ,  /* number; reads the output into reply */
    /* number, state; makes the job one without tries. reply: arguments and, up to STORE_INLINE, input; sizes in row */
    STORE_REQUEUE,
    STORE_DROP,          /* number; removes everything of the job */
    STORE_SCHEDULE_ADD,  /* writes all of a schedule's row */
    STORE_SCHEDULE_NOTE, /* number; writes what is known of its last run, in the fields of a job's end and due_usec */
    STORE_SCHEDULE_DROP, /* number; removes the schedule */
};

/* Whether the row of such a request becomes a record. */
static inline bool store_has_record(enum store_op op)
{
    return op == STORE_ADD || op == STORE_RETRY || op == STORE_END || op == STORE_REQUEUE;
}

/* Whether arguments and input are stored with the job; otherwise they go into a table of their own. */
static inline bool store_given_fits(const struct store_row *row)
{
    return row->args_size + row->input_size <= STORE_SMALL && (row->input || !row->input_size);
}

static inline bool store_output_fits(const struct store_row *row)
{
    return row->output_size <= STORE_SMALL;
}

struct store;

/* A request; embedded in the poster's object, and zeroed except for what the operation needs. The store owns it, and
 * what row points to, until it is answered. The fields that both the thread and the loop write come first, to share a
 * cache line. */
struct store_request {
    struct list link;
    enum store_op op;
    bool want_input;
    int reply_fd;    /* START with want_input: a sealed memfd, which the receiver owns */
    int result;      /* 0, or a negative errno: -ENOSPC, -EIO, -ENOENT (no such job), -EEXIST (the key), ... */
    uint8_t *record; /* private to the store: made of the row; NULL: none, or no memory for it */
    size_t record_size;
    void (*answer)(struct store_request *r); /* [loop] */
    struct store_row row;
    void *reply; /* READ, REQUEUE: reply_size bytes, which the receiver frees */
    size_t reply_size;
    char why[STORE_WHY];      /* words for result */
    uint8_t room[STORE_ROOM]; /* for a record that fits here */
};

/* Opens the store in this directory; NULL: there is none. If there is a database, reads it in the caller's thread and
 * calls each for every job, the oldest first. What a row points to lives for the time of the call. each returns 0, or a
 * negative errno that ends the reading. Fails only with -ENOMEM or each's errno: an unusable store answers each request
 * with the reason. [loop] */
int store_open(struct store **ret_store, const char *directory,
               int (*each)(const struct store_row *row, void *userdata), void *userdata);
/* Makes the directory if it is missing; called before there is a store. Returns 0, or a negative errno: nothing can be
 * stored there. [any] */
int store_make_directory(const char *directory);
/* Calls each for every schedule, as store_open() for jobs. Called before the first request. Returns 0 or each's errno.
 * [loop] */
int store_schedules(struct store *store, int (*each)(const struct store_row *row, void *userdata), void *userdata);
/* Writes what was posted and ends the thread. Answers nothing: unanswered(), if not NULL, gets each request without an
 * answer. NULL is fine. Returns NULL. [loop] */
struct store *store_free(struct store *store, void (*unanswered)(struct store_request *r));
/* Transactions that were committed, or could not be: their number and their time, that of the last and of the longest. */
struct store_health {
    uint64_t commits, usec, last_usec, most_usec;
};
struct store_health store_health(const struct store *store);
/* Readable when there are answers. */
int store_fd(const struct store *store);
/* store_post() posts a request; store_ring() hands posted ones to the thread. Ring once a turn of the loop, or when
 * STORE_RING_EARLY are posted. Requests that come while the thread is busy share the next transaction. [loop] */
void store_post(struct store *store, struct store_request *r);
void store_ring(struct store *store);
bool store_posted(const struct store *store); /* whether there are requests to ring for [loop] */
/* Calls answer() of finished requests, as many as suit one turn of the loop. store_fd() stays readable until all are
 * answered. [loop] */
void store_answers(struct store *store);
/* Waits until all posted requests are done and answered. For the start only, while no client is served. [loop] */
void store_finish(struct store *store);
/* A message for an administrator, each only once: about the start, or later. False: none. [loop] */
bool store_says(struct store *store, char text[static STORE_SAYS]);
/* Why nothing can be stored, as far as known without an attempt; NULL: it can. [loop] */
const char *store_problem(const struct store *store);
