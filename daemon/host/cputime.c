/* SPDX-License-Identifier: Apache-2.0
 *
 * cputime.c: the calling thread's CPU clock, with a system call only now and then.
 * Owns one anchor a thread. [any thread, its own]
 * Keeps: readings never go backwards, and are ahead of the true clock by at most CPUTIME_DRIFT_NSEC.
 * Does not notice a block that is shorter than the drift. */
#include "host/cputime.h"

#include <time.h>

static _Thread_local struct {
    uint64_t wall, cpu; /* the last real reading */
    uint64_t last;      /* the last that was told */
} anchor __attribute__((tls_model("initial-exec")));

static _Thread_local uint64_t recent __attribute__((tls_model("initial-exec"))); /* CLOCK_MONOTONIC; 0: too long ago */

static uint64_t read_nsec(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cputime_at(uint64_t wall_nsec)
{
    if (anchor.wall == 0 || wall_nsec - anchor.wall >= CPUTIME_DRIFT_NSEC) {
        anchor.cpu = read_nsec(CLOCK_THREAD_CPUTIME_ID);
        anchor.wall = wall_nsec;
    }
    uint64_t now = anchor.cpu + (wall_nsec - anchor.wall);
    if (now > anchor.last)
        anchor.last = now;
    return anchor.last;
}

uint64_t cputime_nsec(uint64_t *ret_wall_nsec)
{
    recent = *ret_wall_nsec = read_nsec(CLOCK_MONOTONIC);
    return cputime_at(recent);
}

uint64_t cputime_recent_nsec(void)
{
    if (!recent)
        recent = read_nsec(CLOCK_MONOTONIC);
    return recent;
}

void cputime_stale(void)
{
    recent = 0;
}
