/* SPDX-License-Identifier: Apache-2.0
 *
 * monitor.c: finds workers that block without saying so, and workers that have gone on.
 * Owns its thread, and what it has seen of each worker. [monitor]
 * Keeps: it looks only while work waits, once in POOL_MISSED_AFTER_USEC. Else it sleeps until work is published that no
 * idle worker hears of.
 * Does not decide which worker runs instead (crew.c), and makes no worker come that sleeps (park.c). (As Go's monitor
 * does for system calls.) */
#include "pool/monitor.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pool/crew.h"
#include "pool/find.h"
#include "pool/worker.h"

#define STAT_ROOM 64u /* for number, name and state in /proc/PID/task/TID/stat */

/* 0: not known. */
static uint64_t cpu_nsec(const struct worker *w)
{
    clockid_t clock = atomic_load_explicit(&w->clock, memory_order_relaxed);
    struct timespec t;

    if (clock == 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether the thread sleeps now. One that waits for a CPU does not. Where this cannot be read, none sleeps. */
static bool is_asleep(pid_t tid)
{
    char path[sizeof("/proc/self/task//stat") + 3 * sizeof(tid)], text[STAT_ROOM + 1];

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, STAT_ROOM);

    if (size <= 0)
        return false;
    text[size] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'S' || name_end[2] == 'D');
}

/* A thread that has used no CPU time since the last look, and sleeps now, has slept all the time: to fall asleep it would
 * have had to run. Its CPU time is read again last: one that had waited for a CPU may have run, and fallen asleep, since
 * it was read first. */
static void look_at(struct worker *w, uint64_t now_usec)
{
    enum worker_presence presence = atomic_load_explicit(&w->presence, memory_order_acquire);
    uint64_t cpu = presence == WORKER_ELSEWHERE ? 0 : cpu_nsec(w);

    if (cpu == 0 || cpu != w->watched_cpu_nsec) {
        w->watched_cpu_nsec = cpu;
        w->watched_since_usec = now_usec;
        if (cpu && presence == WORKER_MISSED)
            crew_found(w);
    } else if (presence == WORKER_HERE && now_usec - w->watched_since_usec >= POOL_MISSED_AFTER_USEC &&
               is_asleep(w->tid) && cpu_nsec(w) == cpu) {
        crew_miss(w);
    }
}

/* The pool does not end meanwhile. A pool that is closing makes do with the workers that it has. */
static void look_at_all(struct pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    uint64_t now_usec = clock_monotonic_usec();

    /* seq_cst: partner is the closer's store */
    atomic_fetch_add_explicit(&pool->busy, 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&pool->closing, memory_order_seq_cst)) {
        for_each_active(i, pool, n) look_at(pool->all[i], now_usec);
        crew_complete(pool); /* also for those that were missed before, and could not be replaced */
    }
    pool_leave(pool);
}

static bool is_stopped(const struct pool *pool)
{
    return atomic_load_explicit(&pool->monitor.stop, memory_order_acquire);
}

static void pause_between_looks(struct pool *pool)
{
    uint32_t epoch = eventcount_prepare(&pool->monitor.event);

    if (is_stopped(pool))
        eventcount_cancel(&pool->monitor.event);
    else
        eventcount_wait(&pool->monitor.event, epoch, POOL_MISSED_AFTER_USEC, false);
}

/* Sleeps until there may be work that no idle worker hears of. */
static void sleep_while_none_waits(struct pool *pool)
{
    const struct pool_source *source = &pool->options.source;
    struct eventcount_set set;

    eventcount_set_init_watch(&set);
    eventcount_set_add(&set, pool->park.event, NULL);
    if (source->watch)
        source->watch(source->context, &set);
    park_forget_pending(&pool->park);
    if (is_stopped(pool) || pool_has_work(pool))
        eventcount_set_cancel(&set);
    else
        eventcount_set_wait(&set, pool->park.shared);
    if (source->watched)
        source->watched(source->context, &set);
}

void *monitor_main(void *arg)
{
    struct pool *pool = arg;

    pthread_setname_np(pthread_self(), "wsd-monitor");
    while (!is_stopped(pool)) {
        sleep_while_none_waits(pool);
        if (!park_has_idle(&pool->park))
            look_at_all(pool);
        pause_between_looks(pool);
    }
    return NULL;
}
