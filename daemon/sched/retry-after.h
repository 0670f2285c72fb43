/* SPDX-License-Identifier: Apache-2.0
 *
 * retry-after.h: when a client that was refused for want of a place should try again.
 */
#pragma once

#include <stdint.h>

#define RETRY_AFTER_FIRST_USEC 100000u /* while no rate is known at which places become free */
#define RETRY_AFTER_LEAST_USEC 1000u
#define RETRY_AFTER_MOST_USEC  5000000u

/* State of one limit. Zeroed, or with due_usec 0: nothing waits. Times are of CLOCK_MONOTONIC, in us. */
struct retry_after {
    uint64_t due_usec;   /* the time told to the last one refused; 0: nothing waits */
    uint64_t freed_usec; /* when a place last became free */
    uint64_t every_usec; /* estimated time between two free places */
};

/* A request is refused. Returns how long it should wait, in us. Each refused request gets a time of its own, one place
 * after the other, so that not all of them compete for the next free place. */
uint64_t retry_after_refuse(struct retry_after *r, uint64_t now_usec);
/* Whether retry_after_freed() must be called. Otherwise the caller need not read a clock. */
static inline int retry_after_is_wanted(const struct retry_after *r)
{
    return r->due_usec != 0;
}
void retry_after_freed(struct retry_after *r, uint64_t now_usec); /* a place became free */
