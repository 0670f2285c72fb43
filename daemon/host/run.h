/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h: one job is one root task. The services of wsd/plugin.h are implemented here once, on top of a small transport
 * that the executor (rings) and `wsctl submit --local` (callbacks) each provide.
 *
 * A struct host_job is embedded in its owner's object: host_job_init() once, then for each job host_job_begin() and
 * either host_job_run() or host_job_fail(), which end with transport->finished().
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wsd/plugin.h>

#include "host/handle.h"
#include "host/plugin.h"
#include "pool/pool.h"

#define HOST_ARGV_INLINE 8u /* arguments that need no allocation, with name and NULL */

struct host_job;

/* What a job runs on. reserve, commit and flush are called with the job's output lock held, so one at a time; the
 * others [worker, several at once]. */
struct host_transport {
    /* Gives room for at least min bytes (1 to WSD_RESERVE_MAX) of output after what was committed. NULL: no reader is
     * left. May wait. Drops what was reserved before and not committed. */
    void *(*reserve)(struct host_job *job, size_t min, size_t *ret_size);
    void (*commit)(struct host_job *job, size_t size); /* at most what was reserved; once a reservation */
    int (*flush)(struct host_job *job);                /* 0 or -ECANCELED */
    /* Reads the next bytes of an input that is not in memory. Returns their number, 0 at the end, or -ECANCELED. */
    int64_t (*read)(struct host_job *job, void *data, size_t size);
    int (*open)(struct host_job *job, const char *path); /* as wsd_job_open() */
    const char *(*directory)(struct host_job *job);      /* as wsd_job_directory() */
    void (*message)(struct host_job *job, int level, const char *text);
    void (*progress)(struct host_job *job, uint64_t done, uint64_t total);
    /* The result is in the job's exit, error, status, started_usec, ended_usec and host_job_cpu_usec(). The job's
     * memory may be used for the next one before this returns. [the worker of the root] */
    void (*finished)(struct host_job *job, struct wsd_worker *self);
    int (*command)(struct host_job *job, const struct wsd_command *command); /* as wsd_job_command(); NULL: none */
    /* Takes output as it lies there, without a copy. Returns how much of it; 0: none, so reserve() says what is. NULL: it
     * never takes any. [lock output_lock] */
    size_t (*pass)(struct host_job *job, const void *data, size_t size);
};

struct host_job {
    struct handle *handle; /* what the function sees; NULL: none yet. [const while it runs] */
    uint8_t id[16];
    uint64_t deadline_usec;  /* CLOCK_MONOTONIC; 0: none. [const while it runs] */
    const char *traceparent; /* NULL: none. [const while it runs] */
    struct pool_node node;
    const struct host_transport *transport;
    const struct plugin_function *function;
    const _Atomic uint32_t *cancel; /* [atomic: relaxed both sides; a flag that is polled] */
    pthread_mutex_t output_lock;
    size_t reserved;           /* [lock output_lock] bytes of the open reservation */
    bool output_lost;          /* [lock output_lock] a reservation was refused because no reader is left */
    pthread_mutex_t text_lock; /* a leaf: never held together with another lock */
    char error[WSD_TEXT_MAX];  /* [lock text_lock; no lock needed after the function] */
    char status[WSD_TEXT_MAX]; /* the same */
    _Atomic uint64_t cpu_nsec; /* [atomic: relaxed; each join orders the children's additions before its return] */
    const void *input;         /* memory that read() serves from; NULL: transport->read */
    uint64_t input_size;
    uint64_t read_at; /* [one task of the job at a time] */
    /* CLOCK_MONOTONIC, to some microseconds; ended never before started [worker of the root] */
    uint64_t started_usec, ended_usec;
    _Atomic bool late; /* the job was told that its deadline is over [atomic: relaxed; as cpu_nsec] */
    int exit;
    const char **argv; /* argv_inline, or owned */
    const char *argv_inline[HOST_ARGV_INLINE];
};

/* Everything here is borrowed until the job is finished. */
struct host_request {
    const uint8_t *id; /* 16 bytes */
    const struct plugin_function *function;
    const char *args; /* argc arguments, each with its NUL, together args_size bytes */
    size_t args_size;
    const char *traceparent; /* NULL: none */
    uint32_t argc;
    const void *input; /* the whole input, if it is in memory */
    uint64_t input_size;
    uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0: none */
    uint64_t started_usec;  /* CLOCK_MONOTONIC; 0: now */
    const _Atomic uint32_t *cancel;
    const struct host_transport *transport;
};

void host_job_init(struct host_job *job);
void host_job_deinit(struct host_job *job);

/* Fills the public half and argv. 0, or a negative errno with the words in job->error: -EINVAL (args are not argc
 * texts), -ENOMEM. After either, host_job_fail() may be called with the job. [worker] */
int host_job_begin(struct host_job *job, const struct host_request *request);

/* Runs the function, applies the rule of wsd/plugin.h about its status, and finishes the job. [worker, as a root of its
 * pool] */
void host_job_run(struct host_job *job, struct wsd_worker *self);

/* Finishes the job without running it: exit WSD_STATUS_MAX and the text, or job->error if format is NULL. [worker] */
__attribute__((format(printf, 3, 4))) void host_job_fail(struct host_job *job, struct wsd_worker *self,
                                                         const char *format, ...);

uint64_t host_job_cpu_usec(const struct host_job *job);

/* Whether the job should end early: cancelled, or past its deadline. [any] */
bool host_job_cancelled(struct host_job *job);

/* Takes a lock that may be held by a worker that waits for another process, such as a slow reader of output. [worker]
 */
void host_lock(pthread_mutex_t *lock);

/* The job that this thread works for right now, or NULL. Async-signal-safe. [any] */
struct host_job *host_current(void);

/* The CPU time of that job so far, with this thread's. Async-signal-safe. [any] */
uint64_t host_current_cpu_usec(void);

/* The pool's hooks of these names (pool.h). A host that starts a pool for jobs passes them in the pool's options, so
 * that stolen tasks are charged to their own job. [worker] */
void host_task_enter(struct wsd_worker *self, void *task_context, void *outer, void *context);
void host_task_leave(struct wsd_worker *self, void *task_context, void *outer, void *context);
/* Tells plugins that the worker ends. Use as pool.h's worker_stop, or call from it. [worker] */
void host_worker_stop(struct wsd_worker *self, uint32_t index, void *context);
/* PLUGIN:FUNCTION, for the pool's traces. [any] */
void host_subject_name(const void *name, char *ret, size_t size, void *context);
