/* SPDX-License-Identifier: Apache-2.0
 *
 * work.h: the work of an executor: the jobs of the ring and the direct calls, as its pool takes them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "executor/lanes.h"
#include "executor/shared.h"
#include "executor/slot.h"
#include "host/run.h"
#include "pool/pool.h"
#include "ring/layout.h"

struct work {
    struct shared shared;
    struct lanes lanes;
    struct slot slots[RING_SLOTS]; /* zero until first used, so that idle executors stay small */
    _Atomic uint32_t n_used; /* slots from this number on were never used. It only grows. [relaxed: it is a hint] */
};

/* One executor a process: its memory is static. [main, before threads] */
void work_init(struct work *w, int control_fd);

/* The pool's source (struct pool_source): the submission ring and the direct lanes. [worker] */
struct pool_node *work_take(void *work, bool *ret_more);
void work_leave(void *work);
void work_prepare(void *work, struct eventcount_set *set);
void work_done(void *work, struct eventcount_set *set);
void work_watch(void *work, struct eventcount_set *set);
void work_watched(void *work, struct eventcount_set *set);
bool work_ready(void *work);
bool work_worth_waking(void *work);
bool work_may_spin(void *work);

/* Returns how many jobs of the ring and direct calls run. [any] */
uint32_t work_running(void *work);

/* The numbers that a fault note gives a job or direct call. Async-signal-safe. [any] */
void work_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation);
