/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h: a runner, of the parts that its files look after. Any thread, with the lock, unless it says otherwise.
 *
 * Each file needs those before it in this list only. What it has to know of later ones it asks through struct
 * runner_ops.
 *
 *   wire     the connection: frames in and out, and which thread reads
 *   held     a job that the runner has, and what its function may call
 *   tasks    makes the thread of a job a worker
 *   serve    threads that run jobs
 *   runner   the handle: its beginning and end, and the calls of a loop
 *
 * One thread reads at a time. A thread that waits for something from wsd takes the role of the reader if no thread has
 * it. It hands the role on when it has what it waited for (as threads of XCB do). So a job that comes runs on the
 * thread that was woken by it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/owner.h"
#include "base/list.h"
#include "wsd/runner.h"

#define RUNNER_WINDOW (128u * 1024u) /* output of a run that may be sent ahead */
#define RUNNER_BEYOND 4096u          /* and so much more with its end */

struct held;

struct runner_ops {
    void (*frame)(struct wsd_runner *r, const struct frame *frame, const struct msg *msg);
    void (*looked)(struct wsd_runner *r); /* a thread that waits for something else has read */
    void (*lost)(struct wsd_runner *r);   /* the connection is over */
};

/* What is known of a function that is offered. */
struct offered {
    const struct wsd_function *function;
    uint64_t usec; /* what its jobs took, on average; UINT64_MAX: not known */
};

struct wsd_runner {
    struct owner owner;
    pthread_mutex_t lock;
    const struct runner_ops *ops;
    struct connection connection; /* the handshake, and the buffers; `in` is the reader's */
    struct failure failure;
    struct failure handshake; /* of the reader */
    bool stands;              /* wsd has welcomed us, and the connection is not over */
    int answer;               /* to the offer: 0 none yet, 1 yes, or a negative errno, said */
    uint64_t n_connection;
    int fds[64]; /* that have come, the oldest first */
    size_t n_fds;
    bool reading;            /* a thread has the role of the reader */
    uint64_t n_reads;        /* frames were read so often */
    pthread_cond_t changed;  /* the role is free, or something has come that threads wait for */
    unsigned n_waiting;      /* for that */
    uint64_t out_since_usec; /* when the oldest byte was put into the output, if that waits to be sent */
    int wake_fd;             /* eventfd: something is to be done for which no frame comes */
    _Atomic bool leaving;    /* [atomic: relaxed; a flag that is looked at after each wake-up] */
    bool left_told, left;    /* wsd was told; it has said that all is over */
    const struct wsd_plugin *offer;
    struct offered *offered;
    bool gathers;         /* WSD_RUNNER_GATHER */
    uint64_t looked_usec; /* when wsd_runner_next() has looked for frames */
    /* When a job that no thread attends has looked for frames last, which are of all jobs [atomic: relaxed; it limits
     * how often] */
    _Atomic uint64_t job_looked_usec;
    uint32_t credit;     /* of the options; 0: as many as there are threads */
    struct list filling; /* struct held: jobs that wait for their input */
    struct list ready;   /* that no thread has begun, the oldest first */
    struct list running; /* that were begun */
    uint32_t n_ready, n_running;
    uint32_t serial;         /* of the last file that was asked for */
    bool runs;               /* a thread is in wsd_runner_run() */
    struct serving *serving; /* serve.c: of wsd_runner_run(), while it runs */
    struct tasks *tasks;     /* of wsd_runner_call(); NULL: not called yet */
};

/* A call that may be made by any thread: takes the lock. NULL: it is another process's. */
static inline struct wsd_runner *runner_enter(struct wsd_runner *r)
{
    if (!owner_is_here(&r->owner))
        return NULL;
    pthread_mutex_lock(&r->lock);
    return r;
}

static inline void runner_leavep(struct wsd_runner **r)
{
    if (*r)
        pthread_mutex_unlock(&(*r)->lock);
}
