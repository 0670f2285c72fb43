/* SPDX-License-Identifier: Apache-2.0
 *
 * ticks.h: the cheapest clock there is (7 to 15 ns where CLOCK_MONOTONIC takes 27): for short spans on one thread.
 * [any] A tick is a nanosecond, or a third of one; its length may change, and between CPUs the count may jump where the
 * machine is odd.
 */
#pragma once

#include <stdint.h>
#if !defined(__x86_64__)
#include <time.h>
#endif

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}
