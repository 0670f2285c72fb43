/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-call.h: a call that comes straight from a client, by a direct lane.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "executor/open-lane.h"
#include "host/run.h"
#include "pool/pool.h"

/* Takes a call of the lane, and keeps the caller's use of the lane until the call was answered. ret_usec: what the call
 * is expected to take. NULL: there is none, and the use is the caller's. [worker] */
struct pool_node *direct_call_take(struct lane *l, uint32_t *ret_usec);

/* Whether this job is a direct call, and the numbers that a fault note gives it. Async-signal-safe. [any] */
bool direct_call_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation);
