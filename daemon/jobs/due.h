/* SPDX-License-Identifier: Apache-2.0
 *
 * due.h: what is to be done at some time: jobs that are delayed, or may wait only so long, and schedules. [loop]
 *
 * One timer for each of two clocks, whatever number waits: CLOCK_BOOTTIME for spans (it goes on while the machine
 * sleeps, and nobody can set it), CLOCK_REALTIME for times of day. libevent's own timers would cost an event of 120
 * bytes and a place in an array for each, can fail for want of memory, and are of CLOCK_MONOTONIC, which stands still
 * while the machine sleeps.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

#define DUE_A_TURN 128u /* before the loop looks at something else */

struct due_clock {
    struct heap heap;
    int id; /* CLOCK_BOOTTIME, CLOCK_REALTIME */
    int fd; /* a timerfd, or -1 */
    struct event *event;
    uint64_t armed_usec;            /* 0: not armed */
    void (*was_set)(void *context); /* the clock has jumped; NULL: it never does */
    void *context;
};

/* Embedded in what is due; zeroed, with `call` set, before its first use. */
struct due {
    struct heap_node node;
    struct due_clock *clock;       /* NULL: not waiting */
    void (*call)(struct due *due); /* it waits no more, and may be freed */
};

/* 0, -ENOMEM, or a negative errno: no descriptor. */
int due_init(struct due_clock *c, struct event_base *base, int id, void (*was_set)(void *context), void *context);
void due_deinit(struct due_clock *c); /* nothing waits any more */
/* At that time of the clock; in the place of what was set before. In the past: in the next turn. */
void due_set(struct due *d, struct due_clock *c, uint64_t at_usec);
void due_cancel(struct due *d);         /* also where it is not waiting */
uint64_t due_left(const struct due *d); /* microseconds; 0: not waiting, or now */
