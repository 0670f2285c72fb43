/* SPDX-License-Identifier: Apache-2.0
 *
 * remains.h: the processes that start and end commands for an executor (host/reaper.h), as wsd sees them: one end of a
 * socket, whose other end they hold as long as anything of their commands is left. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct remains {
    struct event_base *base;
    uint64_t owner;    /* as async_close() has it */
    struct list lives; /* of struct life */
    unsigned n;
    struct event *deadline; /* armed from remains_end() on */
    void (*gone)(void *context);
    void *context;
};

/* gone: nothing is left, or the deadline is over; once, after a remains_end() that was false. */
void remains_init(struct remains *r, struct event_base *base, uint64_t owner, void (*gone)(void *context),
                  void *context);
/* A reaper says that it is there; the descriptor is taken in any case. False: nonsense. */
bool remains_take(struct remains *r, int fd);
/* All of them end, with everything that they have started. True: none is there. */
bool remains_end(struct remains *r);
/* No call any more. What is there ends, and remains_wait() waits for it. */
void remains_deinit(struct remains *r);
/* Until nothing is left of what was there at remains_deinit(), or the deadline is over. [at the end] */
void remains_wait(void);
/* Whether anything of any executor is there. */
bool remains_any(void);
