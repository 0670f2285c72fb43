/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h: the clocks, in microseconds. [any]
 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_usec(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static inline uint64_t clock_monotonic_usec(void)
{
    return clock_usec(CLOCK_MONOTONIC);
}

/* Goes on while the machine sleeps. */
static inline uint64_t clock_boottime_usec(void)
{
    return clock_usec(CLOCK_BOOTTIME);
}

static inline uint64_t clock_thread_usec(void)
{
    return clock_usec(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t clock_realtime_usec(void)
{
    return clock_usec(CLOCK_REALTIME);
}
