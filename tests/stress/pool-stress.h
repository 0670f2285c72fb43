/* SPDX-License-Identifier: Apache-2.0
 *
 * pool-stress.h: what the pool's stress programs share. A failed check says where and aborts; a hang ends by SIGALRM.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/eventcount.h"
#include "pool/pool.h"
#include "tests/unit/counts.h"
#include "wsd/task.h"

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);                                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A count for an ordinary run, divided under a sanitizer and more under an emulator, multiplied where WSD_THOROUGH=1. */
static inline uint32_t stress_count(uint32_t n)
{
    if (SLOW)
        n = n / count_for(10, 30) + 1;
    return thorough() ? n * 20 : n;
}

static inline void stress_start(void)
{
    alarm(thorough() ? 1200 : 120);
}

static inline uint32_t stress_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Burns about so many nanoseconds. */
static inline void stress_burn(uint32_t nsec)
{
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000000L + (b.tv_nsec - a.tv_nsec) < (long)nsec);
}

static inline struct pool *stress_pool(const struct pool_options *o)
{
    struct pool *pool;

    CHECK(pool_new(&pool, o) == 0);
    return pool;
}
