/* SPDX-License-Identifier: Apache-2.0
 *
 * open-lane.h: one direct lane (ring/lane-ring.h) of an executor while it is open: its memory, the threads that use it,
 * and the workers that look at it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "executor/shared.h"
#include "host/run.h"
#include "ring/control.h"
#include "ring/lane-ring.h"

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
    /* Of the calls that have ended, for wsd's counters: their number, run times, and the last bucket of those, which
     * came n_bucket times. */
    uint64_t n_ended, run_usec, run_most;
    uint32_t bucket, n_bucket;
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
    struct shared *shared;
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
    int notify_fd; /* its end of the notice socket; -1: none [const while the lane is open] */
};

/* Opens the lane that CONTROL_LANE describes, with one use: the table's. l must be free: not `taken`. The descriptors
 * stay the caller's. 0 or a negative errno. [control thread] */
int lane_init(struct lane *l, struct shared *shared, const struct control *c, int memory_fd, int grant_fd);

/* Takes the lane down, and tells wsd. Its last use is over. [any] */
void lane_take_down(struct lane *l);

/* One more use of the lane. False: it is shut. [any] */
static inline bool lane_ref(struct lane *l)
{
    uint32_t n = atomic_load_explicit(&l->users, memory_order_relaxed);

    do {
        if (n == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&l->users, &n, n + 1, memory_order_acq_rel, memory_order_relaxed));
    return true;
}

/* One use less. [any] */
static inline void lane_unref(struct lane *l)
{
    if (atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel) == 1)
        lane_take_down(l);
}

/* Tells its client of an answer, if it waits in an event loop. Returns whether it did. Never blocks. [worker that uses
 * the lane] */
bool lane_notify(struct lane *l);

/* Tells wsd that the lane is open, or what became of a number: enum control_laned. 0, or what control_send() said.
 * [any] */
int lane_tell(struct shared *shared, uint32_t number, uint32_t bind, int error);

/* This worker will look at the lane again, and has told the client so. Takes over the caller's use. [worker] */
void lane_look_at(struct lane *l);
/* Whether this worker looks at that lane. [worker] */
bool lane_is_looked_at(const struct lane *l);
/* This worker stops looking at any lane, at least for now. Call before its last look. [worker] */
void lane_look_away(void);
/* Whether other workers look at the lane and are enough; then this worker has stopped looking at it. [worker] */
bool lane_is_cared_for(struct lane *l);
