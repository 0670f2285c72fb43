/* SPDX-License-Identifier: Apache-2.0
 *
 * cputime.h: the calling thread's CPU clock, cheap enough to read around every task.
 *
 * CLOCK_THREAD_CPUTIME_ID is a system call (250 ns measured), CLOCK_MONOTONIC is not, but takes three times as long (27
 * ns) as a count of ticks. So between two real readings of both, which are at most CPUTIME_DRIFT_NSEC apart, time goes
 * by the ticks, at the rate that they had last, and is taken to be CPU time; the next real reading corrects that. A
 * single reading of the CPU is too large by at most the drift, and the sum over a thread is never off by more; the time
 * is right to some microseconds. Where ticks jump, or are suddenly twice as long, that leads astray by no more than
 * twice the drift; where they do so all the time, each reading is a real one. What the kernel spends on a thread that
 * goes to sleep and comes back (cputime_sleeps()) is told of nobody, or, where whatever is first after it blocks, of
 * that. Of ticks that stand still while the machine idles (no nonstop_tsc: old machines) a block is not seen that ends
 * within the drift by them.
 */
#pragma once

#include <stdint.h>

#define CPUTIME_DRIFT_NSEC 20000u

/* Never goes backwards. *ret_wall_nsec: CLOCK_MONOTONIC. [any thread, its own clock] */
uint64_t cputime_nsec(uint64_t *ret_wall_nsec);

/* Between the end of one job and the begin of the next a worker only keeps books: the reading of the end does for both.
 * So cputime_recent_nsec() is CLOCK_MONOTONIC, as it was at the last of these calls; where cputime_stale() said that
 * time has passed since, it is read, with the CPU's. cputime_at() is what cputime_nsec() was then. [any thread, its
 * own] */
uint64_t cputime_recent_nsec(void);
uint64_t cputime_at(uint64_t wall_nsec);
void cputime_stale(void);
/* The calling thread is going to sleep; it has slept, or decided not to, and has done nothing meanwhile that anybody
 * pays for. Where the kernel is to be asked, it is before the sleep, so that whoever is woken need not. In pairs. [any
 * thread, its own] */
void cputime_sleeps(void);
void cputime_slept(void);
