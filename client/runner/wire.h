/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h: the connection of a runner: frames in and out, and which thread reads. [with the lock of the runner]
 */
#pragma once

#include "runner.h"

/* 0 or -ENOMEM. */
int wire_init(struct wsd_runner *r);
void wire_deinit(struct wsd_runner *r);
/* Another process's: nothing is said to wsd. */
void wire_forsake(struct wsd_runner *r);

/* Connects, and offers, as the reader; waits without the lock. 0, or a negative errno, said. */
int wire_connect(struct wsd_runner *r, uint32_t credit, uint64_t deadline_usec);
/* Sees to it that the connection stands: takes the role of the reader for that, or waits for a thread that connects. As
 * wire_connect(). */
int wire_open(struct wsd_runner *r, uint32_t credit, uint64_t deadline_usec);
bool wire_stands(const struct wsd_runner *r);
/* The connection is over, for this reason. */
__attribute__((format(printf, 2, 3))) void wire_break(struct wsd_runner *r, const char *format, ...);

/* Puts a frame into the output. 0, -EINVAL where it cannot be encoded, or -ECONNRESET: the connection is over, also for
 * want of memory. */
int wire_put(struct wsd_runner *r, const struct msg *msg, const void *body, size_t body_size);
/* Sends what the socket takes. */
void wire_flush(struct wsd_runner *r);
/* The same, and waits until all is sent. */
void wire_drain(struct wsd_runner *r);
/* Tells wsd that the runner leaves, if it is to, once; waits as wire_drain(). */
void wire_tell_leaving(struct wsd_runner *r);

/* Waits until that is over, the connection ends, or the deadline. Reads meanwhile, if no thread does. wake: returns
 * once when wake_fd is readable, too, and takes that. Returns false at the deadline. */
bool wire_wait(struct wsd_runner *r, uint64_t deadline_usec, bool wake, bool (*over)(const void *arg), const void *arg);
/* Waits for something from wsd, and handles it. Requires that no thread reads. */
void wire_read(struct wsd_runner *r);
/* The same with what is there: does not wait. Does nothing where a thread reads. */
void wire_look(struct wsd_runner *r);
/* Waits for `changed`, for at most so long. */
void wire_pause(struct wsd_runner *r, uint64_t usec);
/* The next descriptor that has come. -1: there is none, which is against the protocol. */
int wire_take_fd(struct wsd_runner *r);
