/* SPDX-License-Identifier: Apache-2.0
 *
 * reread.h: the configuration is read again while the loop goes on. [loop], but for `read`
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

struct reread;

struct reread_ops {
    void *(*read)(void *context); /* [a thread of its own] what was read; NULL: no memory */
    /* it is the callee's; NULL: it could not be read for want of memory or threads */
    void (*take)(void *what, void *context);
    void (*late)(void *context); /* it is not there in its time, and is not taken any more */
    void (*drop)(void *what);    /* [any] nobody takes it */
};

int reread_new(struct reread **ret, struct event_base *base, const struct reread_ops *ops, void *context);
/* Each call is followed by one of `take` and `late`, or shares that of the next call. Files are read after the call.
 * Where the reading before is late and still goes on, it is waited for: there is one at a time. */
void reread_ask(struct reread *r, uint64_t answer_usec);
/* NULL is fine; returns NULL. */
struct reread *reread_free(struct reread *r);
