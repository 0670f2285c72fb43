/* SPDX-License-Identifier: Apache-2.0
 *
 * retry-after.h: when one that was refused for want of a place may come again.
 */
#pragma once

#include <stdint.h>

#define RETRY_AFTER_FIRST_USEC 100000u /* where nothing is known yet of how places become free */
#define RETRY_AFTER_LEAST_USEC 1000u
#define RETRY_AFTER_MOST_USEC  5000000u

/* Of those who share a limit. Zeroed, or due_usec set to 0: nobody waits. Times are of CLOCK_MONOTONIC, us. */
struct retry_after {
    uint64_t due_usec;   /* the time that the last one refused was told; 0: nobody waits */
    uint64_t freed_usec; /* when a place became free the last time */
    uint64_t every_usec; /* from one to the next, about */
};

/* One is refused: how long it is to wait, in us. Each is told a time of its own, one place after the other, so that
 * they do not all come for the one that becomes free. */
uint64_t retry_after_refuse(struct retry_after *r, uint64_t now_usec);
/* Whether retry_after_freed() wants to know: else nobody need look at a clock. */
static inline int retry_after_is_wanted(const struct retry_after *r)
{
    return r->due_usec != 0;
}
void retry_after_freed(struct retry_after *r, uint64_t now_usec); /* a place has become free */
