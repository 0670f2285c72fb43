/* SPDX-License-Identifier: Apache-2.0
 *
 * remains.h: the processes that start and end commands for an executor (host/reaper.h), as wsd sees them: one end of a
 * socket. They hold its other end as long as anything of their commands is left. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct far_ends;

struct remains {
    struct event_base *base;
    struct far_ends *far_ends; /* NULL: the owner is trusted */
    uint64_t owner;            /* for async_close() */
    struct list lives;         /* of struct life */
    unsigned n;
    struct event *deadline; /* armed from remains_end() on */
    void (*gone)(void *context);
    void *context;
};

/* gone: nothing is left, or the deadline has passed. Called once, after a remains_end() that returned false. */
void remains_init(struct remains *r, struct event_base *base, struct far_ends *far_ends, uint64_t owner,
                  void (*gone)(void *context), void *context);
/* Adds a reaper that has reported itself. Takes the descriptor in any case. False: invalid. */
bool remains_take(struct remains *r, int fd);
/* Ends all of them, with everything that they have started. True: there are none. */
bool remains_end(struct remains *r);
/* Ends them, without another call; remains_wait() waits for them. */
void remains_deinit(struct remains *r);
/* Waits until nothing is left of what was there at remains_deinit(), or the deadline has passed. [at the end] */
void remains_wait(void);
/* Whether anything of any executor is left. */
bool remains_any(void);
