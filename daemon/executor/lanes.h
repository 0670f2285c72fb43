/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.h: the direct lanes of an executor: calls that come straight from clients (ring/lane-ring.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "executor/open-lane.h"
#include "executor/shared.h"
#include "pool/pool.h"
#include "ring/control.h"

struct lanes {
    struct shared *shared; /* [const after init] */
    bool available;        /* [const after init] */
    bool lone_cpu;         /* [const after init] */
    _Atomic uint64_t open; /* a bit a lane [atomic: seq_cst; set and cleared by the control thread] */
    int grant_fd;          /* LANE_GRANT came, LANE is to come [control thread] */
    int notify_fd;         /* the same for LANE_NOTIFY; -1: the lane has no notice socket */
    struct lane at[RING_LANES];
};

/* It must be zeroed. [main, before threads] */
void lanes_init(struct lanes *lanes, struct shared *shared);
/* LANE_GRANT, LANE_NOTIFY, LANE, LANE_BIND, LANE_CLOSE. fd is taken over. 0, or what control_send() said. [control
 * thread] */
int lanes_control(struct lanes *lanes, const struct control *c, int fd);

uint32_t lanes_running(struct lanes *lanes); /* direct calls that run, in lanes that are being closed, too [worker] */

/* For the pool's source. [worker] */
struct pool_node *lanes_take(struct lanes *lanes, uint32_t *ret_usec); /* what it is expected to take */
/* Whether a call waits in a lane, and its looking workers, the calling worker among them, are not enough for it. */
bool lanes_ready(struct lanes *lanes);
void lanes_prepare(struct lanes *lanes, struct eventcount_set *set);
void lanes_done(struct lanes *lanes, struct eventcount_set *set);
bool lanes_may_spin(struct lanes *lanes);
