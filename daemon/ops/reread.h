/* SPDX-License-Identifier: Apache-2.0
 *
 * reread.h: reads the configuration again while the loop goes on. [loop], except `read`
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

struct reread;

struct reread_ops {
    void *(*read)(void *context); /* reads, and returns the result; NULL: no memory. [a thread of its own] */
    /* takes the result, which it then owns; NULL: no memory or threads for reading */
    void (*take)(void *what, void *context);
    void (*late)(void *context); /* it was not read in time, and will not be taken */
    void (*drop)(void *what);    /* frees a result that is not taken [any] */
};

int reread_new(struct reread **ret, struct event_base *base, const struct reread_ops *ops, void *context);
/* Reads again. Each call is followed by `take` or `late`, or shares that of the next call. Files are read after the
 * call. Readings never overlap: a new one waits for one that is late and still goes on. */
void reread_ask(struct reread *r, uint64_t answer_usec);
/* NULL is fine; returns NULL. */
struct reread *reread_free(struct reread *r);
