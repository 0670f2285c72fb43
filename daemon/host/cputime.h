/* SPDX-License-Identifier: Apache-2.0
 *
 * cputime.h: the calling thread's CPU clock, cheap enough to read around every task.
 *
 * CLOCK_THREAD_CPUTIME_ID is a system call (250 ns measured). CLOCK_MONOTONIC is not, but takes three times as long (27
 * ns) as a count of ticks. So real readings of both are taken at most CPUTIME_DRIFT_NSEC apart. Between them, time is
 * counted in ticks at the latest known rate, and taken to be CPU time. The next real reading corrects that.
 *
 * Errors: a single reading of the CPU time is too large by at most the drift, and so is the sum over a thread. The time
 * of day is right to some microseconds. If ticks jump, or suddenly double in length, the error is at most twice the
 * drift. If they do so all the time, each reading is a real one. The kernel's cost of going to sleep and coming back
 * (cputime_sleeps()) is charged to no job, or to the first job after it if that job blocks. If ticks stand still while
 * the machine idles (no nonstop_tsc: old machines), a block that lasts less than the drift in ticks is not seen.
 */
#pragma once

#include <stdint.h>

#define CPUTIME_DRIFT_NSEC 20000u

/* Never goes backwards. *ret_wall_nsec: CLOCK_MONOTONIC. [any thread, its own clock] */
uint64_t cputime_nsec(uint64_t *ret_wall_nsec);

/* Between two jobs a worker only does bookkeeping. So one reading serves as the end of one job and the start of the
 * next. cputime_recent_nsec() returns CLOCK_MONOTONIC as of the last of these calls. After cputime_stale(), which says
 * that time has passed, it reads both clocks anew. cputime_at() is what cputime_nsec() returned then. [any thread, its
 * own] */
uint64_t cputime_recent_nsec(void);
uint64_t cputime_at(uint64_t wall_nsec);
void cputime_stale(void);
/* cputime_sleeps(): the calling thread is about to sleep. cputime_slept(): it has slept, or decided not to, and has
 * done nothing meanwhile that is charged to a job. If the kernel must be asked, that happens before the sleep, so that
 * a woken thread loses no time. In pairs. [any thread, its own] */
void cputime_sleeps(void);
void cputime_slept(void);
