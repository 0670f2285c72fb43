/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.h: the struct wsd_job that a function gets, apart from the memory of its job.
 *
 * A thread that a plugin has made may outlive the job, and still have the address. So a handle that such a thread may
 * have is never used for another job. It is retired, and calls with it fail because the job is over.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wsd/plugin.h>

#define HANDLE_TITLE 136u  /* PLUGIN:FUNCTION with NUL */
#define HANDLES_PAST 1024u /* most retired handles that are kept, for threads that are not counted */

struct host_job;

struct handle {
    struct wsd_job job; /* first */
    /* NULL: the job is over [lock calls; atomic: relaxed, for handle_job_of_thread()] */
    _Atomic(struct host_job *) owner;
    /* read: a thread that is no worker of the job is in a call. Taken before any lock of the job */
    pthread_rwlock_t calls;
    /* of its owner, of threads, of the past [atomic: relaxed up; acq_rel down; acquire by handle_is_lent()] */
    _Atomic uint32_t refs;
    /* a thread that is no worker of the job has made a call [atomic: relaxed; a hint for the end of the job] */
    _Atomic bool lent;
    bool in_room; /* the open reservation is in `room` [lock output_lock of the job] */
    char *room;   /* for reservations of other threads, which may write there after the job is over [likewise] */
    size_t room_size;
    char title[HANDLE_TITLE]; /* of the job that is over [lock calls] */
};

/* NULL: no memory. */
struct handle *handle_new(struct host_job *owner);

/* Whether another thread may use it after its job is over. [the worker of the root, when all tasks are joined] */
bool handle_is_lent(const struct handle *h);

/* From now on every call fails because the job is over. Waits for calls of other threads under way. Takes the owner's
 * reference. NULL is fine. [the same] */
void handle_retire(struct handle *h, const char *plugin, const char *function);

/* Around a call by a thread that is no worker of the job. handle_enter() returns the job, and the job does not end
 * before handle_leave(). It returns NULL if the job is over; then handle_leave() must not be called. [any] */
struct host_job *handle_enter(struct handle *h);
void handle_leave(struct handle *h);

/* Writes the message of a job that is over: a line on stderr, with the plugin's name, without control characters.
 * [any] */
void handle_says(const struct handle *h, const char *text, size_t size);

/* Call before this thread, which works for job (NULL: none), makes another thread. Returns the job's handle, or else
 * this thread's own, or NULL. The new thread adopts it. It is dropped when that thread has ended, or was not made. All
 * three accept NULL. [any] */
struct handle *handle_share(struct host_job *job);
void handle_adopt(struct handle *h);
void handle_drop(struct handle *h);

/* The job that this thread, which is no worker, was made for. NULL: none, or it is over. Async-signal-safe. The job may
 * end meanwhile. [any] */
struct host_job *handle_job_of_thread(void);
