/* SPDX-License-Identifier: Apache-2.0
 *
 * cputime.c: the calling thread's clocks, read from the kernel only now and then.
 * Owns one anchor a thread. [any thread, its own]
 * Keeps: readings never go backwards; how far they are off is in cputime.h.
 * Does not notice a block that is shorter than the drift. */
#include "host/cputime.h"

#include <stdbool.h>
#include <time.h>

#include "base/ticks.h"

#define RATE_SHIFT 24
#define RATE(nsec) ((uint64_t)(nsec) << RATE_SHIFT) /* nanoseconds a tick */
#define RATE_MIN   (RATE(1) / 10) /* no count runs faster, or slower than the next: what says so has jumped */
#define RATE_MAX   RATE(100)

static _Thread_local struct {
    uint64_t wall, cpu, ticks;      /* the last real reading */
    uint64_t base_wall, base_ticks; /* the one that the rate is counted from */
    uint64_t rate;                  /* of a tick, by the last two of those; 0: they did not go together */
    uint64_t span;                  /* so many ticks it is good for, after a reading */
    uint64_t owed;                  /* of those, what went by before the last sleep */
    uint64_t last, last_wall;       /* the last that were told */
    uint64_t untold;                /* of the kernel's: what cputime_slept() has left out */
    bool slept, woken;              /* since the last reading; since the last real one */
} anchor __attribute__((tls_model("initial-exec")));

static _Thread_local uint64_t recent __attribute__((tls_model("initial-exec"))); /* CLOCK_MONOTONIC; 0: too long ago */

static uint64_t read_nsec(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A rate that is wrong would be believed for one span: so it has to go with the one before, or be found twice. */
static void set_rate(uint64_t nsec, uint64_t ticks)
{
    uint64_t before = anchor.rate, rate = ticks && nsec < UINT64_MAX >> RATE_SHIFT ? RATE(nsec) / ticks : 0;

    anchor.rate = rate >= RATE_MIN && rate <= RATE_MAX ? rate : 0;
    anchor.span = anchor.rate && rate - before + before / 8 <= before / 4 ? RATE(CPUTIME_DRIFT_NSEC) / rate : 0;
}

/* What there is beyond the time since it woke is of the sleeps since the last real reading: some microseconds each. */
static uint64_t read_cpu(uint64_t wall)
{
    uint64_t cpu = read_nsec(CLOCK_THREAD_CPUTIME_ID) - anchor.untold, most = anchor.cpu + (wall - anchor.wall);

    if (anchor.woken && cpu > most) {
        anchor.untold += cpu - most;
        cpu = most;
    }
    anchor.woken = false;
    return cpu;
}

/* Goes on from the reading before the sleep. */
static void wake_anchor(void)
{
    anchor.slept = false;
    anchor.woken = true;
    anchor.ticks = ticks_now();
    anchor.wall = read_nsec(CLOCK_MONOTONIC);
}

static void read_all(void)
{
    uint64_t ticks = ticks_now(), wall = read_nsec(CLOCK_MONOTONIC), cpu = read_cpu(wall);

    if (wall - anchor.base_wall >= CPUTIME_DRIFT_NSEC / 2) { /* of less, the readings themselves are too much */
        set_rate(wall - anchor.base_wall, ticks - anchor.base_ticks);
        anchor.base_wall = wall;
        anchor.base_ticks = ticks;
    }
    anchor.wall = wall;
    anchor.ticks = ticks;
    anchor.cpu = cpu;
    anchor.owed = 0;
}

uint64_t cputime_at(uint64_t wall_nsec)
{
    uint64_t now = anchor.cpu + (wall_nsec > anchor.wall ? wall_nsec - anchor.wall : 0);

    if (now > anchor.last)
        anchor.last = now;
    return anchor.last;
}

uint64_t cputime_nsec(uint64_t *ret_wall_nsec)
{
    if (anchor.slept)
        wake_anchor();
    uint64_t ticks = ticks_now() - anchor.ticks, wall = anchor.wall + (ticks * anchor.rate >> RATE_SHIFT);

    if (anchor.owed + ticks >= anchor.span) {
        read_all();
        wall = anchor.wall;
    }
    if (wall > anchor.last_wall)
        anchor.last_wall = wall;
    recent = *ret_wall_nsec = anchor.last_wall;
    return cputime_at(recent);
}

uint64_t cputime_recent_nsec(void)
{
    uint64_t wall_nsec;

    if (!recent)
        cputime_nsec(&wall_nsec);
    return recent;
}

void cputime_stale(void)
{
    recent = 0;
}

void cputime_sleeps(void)
{
    cputime_stale();
    if (anchor.slept)
        return; /* nothing has been told since the sleep before */
    uint64_t ticks = ticks_now() - anchor.ticks;
    if (anchor.owed + ticks >= anchor.span) {
        read_all();
        return;
    }
    anchor.owed += ticks;
    anchor.cpu += ticks * anchor.rate >> RATE_SHIFT;
}

void cputime_slept(void)
{
    cputime_stale();
    anchor.slept = anchor.span > 0;
}
