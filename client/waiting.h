/* SPDX-License-Identifier: Apache-2.0
 *
 * waiting.h: what bounds the blocking calls of a handle: a deadline, and the program's wish to stop. One thread a
 * handle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INTERRUPT_USEC 20000u /* between two questions to interrupted() while a call waits */

struct waiting {
    uint64_t deadline_usec; /* how long a call blocks that is given no time of its own; 0: as long as it takes */
    int (*interrupted)(void *userdata); /* not 0: the program wants its wait to end; NULL: nothing ends one early */
    void *userdata;
};

/* Asks the program whether its wait is to end. */
bool waiting_interrupted(const struct waiting *w);
/* timeout_usec from now by CLOCK_MONOTONIC. UINT64_MAX: never. */
uint64_t deadline_in(uint64_t timeout_usec);
/* When a call ends that begins now and was given this time. UINT64_MAX: it was given none. */
uint64_t waiting_deadline(const struct waiting *w, uint64_t timeout_usec);
/* The same for a call that waits for a job. The job's deadline by that clock is own_usec; 0: it has none. Says in
 * *ret_keeps whether the time that the call was given ends before that, so that the job goes on. */
uint64_t waiting_for_job(const struct waiting *w, uint64_t timeout_usec, uint64_t own_usec, bool *ret_keeps);
/* When a wait until then has to be looked after: at that time, or before to ask interrupted(). */
uint64_t waiting_look(const struct waiting *w, uint64_t now_usec, uint64_t deadline_usec);
