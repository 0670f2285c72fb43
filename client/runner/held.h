/* SPDX-License-Identifier: Apache-2.0
 *
 * held.h: a job that a runner has, and what its function may call.
 */
#pragma once

#include "runner.h"

#define HELD_LOST 16u /* in `stop`: its connection is over */

/* A file that was asked for. */
struct asked_file {
    struct list link;
    const struct held *held;
    uint32_t serial;
    bool answered;
    int result; /* a descriptor or a negative errno */
};

struct held {
    struct wsd_job job; /* first: what its function sees. [const once it is begun] */
    struct wsd_runner *runner;
    struct list link; /* in runner->ready or ->running, or in none while its input comes [lock of the runner] */
    struct offered *offered;
    uint64_t run, n_connection;
    _Atomic uint32_t stop; /* enum run_why, HELD_LOST [atomic: relaxed; a flag that is polled] */
    uint32_t ends_as;      /* the state that wsd_runner_finish_as() has named; 0: none */
    uint32_t uid, attempt;
    int32_t priority;
    uint64_t cpu_usec; /* of wsd_runner_call(); 0: not known */
    bool asks;
    const char *directory; /* NULL: not known */
    int fd;                /* of its input; -1: that is in `input` */
    bool is_pipe;          /* fd: read until its end, else from file_at, file_size bytes */
    uint64_t file_at;
    int place_fd; /* of the arena that its output goes to, which may be `fd`; -1: none */
    uint64_t place_at, place_size;
    uint8_t *place;                      /* that part of it, mapped; NULL: none, or not yet */
    bool overflow;                       /* [output_lock] more output than there is room there */
    uint64_t read_at;                    /* [one task of the job at a time] */
    struct buffer input;                 /* not of the frame's, but read or put together */
    const void *map;                     /* the same, mapped */
    bool cut;                            /* the input has ended early */
    bool attended;                       /* other threads look after wsd while it runs [const once it is begun] */
    pthread_mutex_t output_lock;         /* before the lock of the runner */
    struct buffer out;                   /* [output_lock] not sent yet, or not yet in `place` */
    size_t reserved;                     /* [output_lock] */
    uint64_t sent;                       /* [output_lock] bytes of output */
    uint64_t allowed;                    /* [lock of the runner] */
    uint64_t done, total, progress_usec; /* of its progress; when wsd was told last [lock of the runner] */
    bool progress_due;                   /* wsd was not told of that yet [lock of the runner] */
    struct list files;                   /* struct asked_file [lock of the runner] */
    char error[WSD_TEXT_MAX], status[WSD_TEXT_MAX]; /* [lock of the runner] */
    const char *key;                                /* "": none */
    const char *traceparent;                        /* likewise */
    char texts[];                                   /* directory, arguments, argv, key, the input that came with it */
};

/* A job that has come. Its input may be in the frame, come as a descriptor, or follow (RUN_MORE). NULL: no memory.
 * [lock of the runner] */
struct held *held_new(struct wsd_runner *r, const struct msg_run *run, const struct frame *frame, int fd);
struct held *held_free(struct held *h);
/* More of its input has come. 0 or -ENOMEM. [lock of the runner] */
int held_more_input(struct held *h, const struct frame *frame);
/* Gets the whole input, unless its function reads it as it comes, and the place that its output goes to. Not with the
 * lock. 0 or a negative errno, with words in `error`. */
int held_settle(struct held *h);
/* Tells wsd of its end, with the rest of its output, for which it may wait, without the lock. Frees it. Returns 0, or
 * -ECONNRESET where its connection is over. flush: at once, else with later ones. [lock of the runner] */
int held_end(struct held *h, int status, uint64_t cpu_usec, bool flush);
/* It is to stop, for that reason. [lock of the runner] */
size_t held_room(struct held *h); /* as wsd_runner_room() */
void held_stop(struct held *h, uint32_t why);
