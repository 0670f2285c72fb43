/* SPDX-License-Identifier: Apache-2.0
 *
 * due.h: actions at a given time, for delayed jobs, limits of the time in the queue, and schedules. Everything here is
 * [loop].
 *
 * One timer for each of two clocks does, whatever number waits. CLOCK_BOOTTIME is for spans: it continues while the
 * machine sleeps, and cannot be set. CLOCK_REALTIME is for times of day. These are not libevent's own timers. Each of
 * those would cost an event of 120 bytes and a place in an array, and can fail for want of memory. They also follow
 * CLOCK_MONOTONIC, which stands still while the machine sleeps.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

#define DUE_A_TURN 128u /* dues handled in one turn of the loop */

struct due_clock {
    struct heap heap;
    int id; /* CLOCK_BOOTTIME or CLOCK_REALTIME */
    int fd; /* a timerfd, or -1 */
    struct event *event;
    uint64_t armed_usec;            /* 0: not armed */
    void (*was_set)(void *context); /* called when the clock was set; NULL: it cannot be */
    void *context;
};

/* Embedded in the object that waits. The caller zeroes it and sets `call` before its first use. */
struct due {
    struct heap_node node;
    struct due_clock *clock;       /* NULL: not waiting */
    void (*call)(struct due *due); /* called when due; it does not wait then, and may be freed */
};

/* Returns 0, -ENOMEM, or a negative errno: no descriptor. */
int due_init(struct due_clock *c, struct event_base *base, int id, void (*was_set)(void *context), void *context);
void due_deinit(struct due_clock *c); /* nothing may be waiting */
/* Has `call` called at that time of the clock, in place of any earlier setting. A time in the past: in the next
 * turn. */
void due_set(struct due *d, struct due_clock *c, uint64_t at_usec);
void due_cancel(struct due *d);         /* allowed where it does not wait */
uint64_t due_left(const struct due *d); /* microseconds; 0: not waiting, or now */
