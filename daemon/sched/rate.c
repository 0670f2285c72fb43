/* SPDX-License-Identifier: Apache-2.0
 *
 * rate.c: a limit of events a second.
 * Owns nothing: the state is one number of the caller's. [any]
 * Keeps: no more events than a burst at once, and no more than the rate over any longer time.
 * Does not read a clock. */
#include "sched/rate.h"

#include "base/cleanup.h"

#define NSEC     1000000000ull
#define RATE_MAX NSEC /* a second, and so a burst: beyond it a clock says nothing */

static uint64_t interval(uint64_t rate)
{
    return rate ? NSEC / rate : 0;
}

uint64_t rate_wait(uint64_t at, uint64_t rate, uint64_t burst, uint64_t now_nsec)
{
    uint64_t ahead = MIN(burst ? burst : rate, (uint64_t)RATE_MAX);

    if (interval(rate) == 0)
        return 0;
    ahead = (ahead - 1) * interval(rate);
    return at > now_nsec + ahead ? (at - now_nsec - ahead + 999) / 1000 : 0;
}

void rate_take(uint64_t *at, uint64_t rate, uint64_t now_nsec)
{
    *at = MAX(*at, now_nsec) + interval(rate);
}
