/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h: the direct lanes of an executor: calls that come straight from clients (ring/lane.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "host/run.h"
#include "pool/pool.h"
#include "ring/control.h"
#include "ring/lane.h"

struct work;
struct lane;

/* One slot under way, and the call in it that has its turn. [the worker that claimed it, and its tasks] */
struct direct_call {
    struct host_job job; /* first */
    struct lane *lane;
    bool initialised;
    _Atomic bool busy; /* [atomic: acquire by the taker, release at the end] */
    uint32_t number, generation;
    bool overflow; /* [job's output_lock] more output than room */
    uint32_t used; /* [job's output_lock] */
    void *scratch; /* [job's output_lock] a reservation that is larger than what is left of `output`; NULL */
    uint64_t started_usec, deadline_usec, limit_usec; /* limit: of each; 0: none */
    uint64_t cpu_usec;                                /* of the calls before it */
    uint64_t begun_usec;                              /* the first one */
    const struct plugin_function *function;
    struct lane_request request;
    uint8_t output[LANE_OUTPUT];
};

/* One lane. users counts the table (while the lane is open), each worker that looks or sleeps, and each call. The
 * thread that brings it to 0 takes the lane down. */
struct lane {
    _Atomic uint32_t users; /* 0: shut, or free [atomic: acq_rel, among themselves] */
    _Atomic bool taken;     /* not free yet [atomic: release where it is taken down, acquire where it is opened] */
    uint32_t number;
    struct work *work;
    struct lane_back back;
    struct up_lane *up;
    bool same_user;
    char *directory;         /* NULL: none */
    _Atomic uint32_t alarms; /* in a row, without a call [atomic: relaxed] */
    struct {
        _Atomic uint64_t target; /* plugin << 32 | function [atomic: relaxed; before wsd allows the number] */
        _Atomic uint64_t max_run_usec;
    } binds[LANE_BINDS];
    struct direct_call *calls;
};

struct lanes {
    bool available;        /* [const after init] */
    bool lone_cpu;         /* [const after init] */
    _Atomic uint64_t open; /* a bit a lane [atomic: seq_cst; set and cleared by the control thread] */
    int grant_fd;          /* LANE_GRANT came, LANE is to come [control thread] */
    struct lane at[RING_LANES];
};

void lanes_init(struct work *w);
/* LANE_GRANT, LANE, LANE_BIND, LANE_CLOSE. fd is taken over. 0, or what control_send() said. [control thread] */
int lanes_control(struct work *w, const struct control *c, int fd);

uint32_t lanes_running(struct work *w); /* direct calls that run, in lanes that are being closed, too [worker] */

/* For the pool's source. */
struct pool_node *lanes_take(struct work *w, uint32_t *ret_usec); /* what it is expected to take [worker] */
/* Whether a call waits in a lane, and its looking workers, the calling worker among them, are not enough for it. */
bool lanes_ready(struct work *w);
void lanes_prepare(void *work, struct eventcount_set *set);
void lanes_done(void *work, struct eventcount_set *set);
bool lanes_may_spin(void *work);
/* This worker stops looking, at least for now. Call before its last look. */
void lanes_leave(void *work);
/* This worker has begun something other than a direct call. */
void lanes_cool(void);

/* Whether this job is a direct call, and the numbers that a fault note gives it. Async-signal-safe. */
bool lanes_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation);
