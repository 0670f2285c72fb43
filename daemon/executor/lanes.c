/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.c: the direct lanes of an executor, for the pool: opened, bound and shut on wsd's word.
 * Owns the table. The control thread opens, binds and shuts lanes; everything else [worker].
 * Keeps: no lane delays another one. A client that rings its bell for nothing is shut out.
 * Does not know users, or run calls (direct-call.c). */
#include "executor/lanes.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/cpus.h"
#include "executor/direct-call.h"
#include "executor/worker-hints.h"
#include "ring/control.h"

/* A client that rings this often in a row without a call is shut out. If another worker took the call for which this
 * one was woken, there was a call. */
#define ALARMS_MAX 1000u

static void wake_all(struct lanes *lanes)
{
    eventcount_notify(&lanes->shared->back.up->doorbell, UINT32_MAX, true);
}

/* --- control ------------------------------------------------------------------------------------------------------ */

void lanes_init(struct lanes *lanes, struct shared *shared)
{
    lanes->shared = shared;
    lanes->available = eventcount_set_available();
    lanes->lone_cpu = cpus_affinity() < 2;
    lanes->grant_fd = lanes->notify_fd = -1;
}

static int open_lane(struct lanes *lanes, const struct control *c, int memory_fd)
{
    _cleanup_(close_fdp) int grant_fd = TAKE_FD(lanes->grant_fd), notify_fd = TAKE_FD(lanes->notify_fd);
    struct lane *l = c->number < RING_LANES ? &lanes->at[c->number] : NULL;

    if (!lanes->available)
        return -ENOSYS;
    if (!l || memory_fd < 0 || grant_fd < 0 || atomic_load_explicit(&l->taken, memory_order_acquire))
        return -EBADMSG;
    int r = lane_init(l, lanes->shared, c, memory_fd, grant_fd);
    if (r < 0)
        return r;
    l->notify_fd = TAKE_FD(notify_fd);
    atomic_fetch_or_explicit(&lanes->open, UINT64_C(1) << c->number, memory_order_seq_cst);
    wake_all(lanes); /* sleeping workers do not wait on this lane's bell yet */
    return 0;
}

/* No more calls; running ones are asked to end. */
static void shut_lane(struct lanes *lanes, struct lane *l)
{
    uint64_t bit = UINT64_C(1) << l->number;

    if (!(atomic_fetch_and_explicit(&lanes->open, ~bit, memory_order_seq_cst) & bit))
        return;
    wake_all(lanes);
    lane_unref(l);
}

static void bind_function(struct lane *l, const struct control *c)
{
    uint32_t bind = c->slot;

    if (bind >= LANE_BINDS)
        return;
    atomic_store_explicit(&l->binds[bind].target, (uint64_t)c->generation << 32 | c->functions, memory_order_relaxed);
    atomic_store_explicit(&l->binds[bind].max_run_usec, c->flags, memory_order_relaxed);
}

int lanes_control(struct lanes *lanes, const struct control *c, int fd)
{
    _cleanup_(close_fdp) int received = fd;
    struct lane *l = c->number < RING_LANES ? &lanes->at[c->number] : NULL;

    switch (c->kind) {
    case CONTROL_LANE_GRANT:
        close_fd(lanes->grant_fd);
        lanes->grant_fd = TAKE_FD(received);
        lanes->notify_fd = close_fd(lanes->notify_fd);
        return 0;
    case CONTROL_LANE_NOTIFY:
        close_fd(lanes->notify_fd);
        lanes->notify_fd = TAKE_FD(received);
        return 0;
    case CONTROL_LANE:
        return lane_tell(lanes->shared, c->number, LANED_OPEN, -open_lane(lanes, c, received));
    case CONTROL_LANE_BIND:
        if (l)
            bind_function(l, c);
        return lane_tell(lanes->shared, c->number, c->slot, l ? 0 : EBADMSG);
    default:
        if (l)
            shut_lane(lanes, l);
        return 0;
    }
}

/* --- the pool's source -------------------------------------------------------------------------------------------- */

/* The open lanes, with lane `first` at the lowest bit. */
static uint64_t open_from(struct lanes *lanes, uint32_t first)
{
    uint64_t bits = atomic_load_explicit(&lanes->open, memory_order_seq_cst);

    first %= RING_LANES;
    return first ? bits >> first | bits << (RING_LANES - first) : bits;
}

/* Each open lane; one that is being closed may be among them: lane_ref(). */
#define for_each_lane(l, lanes, first)                                                                                 \
    for (uint64_t bits_ = open_from(lanes, first); bits_; bits_ &= bits_ - 1)                                          \
        for (struct lane *l = &(lanes)->at[((first) + (uint32_t)__builtin_ctzll(bits_)) % RING_LANES]; l; l = NULL)

uint32_t lanes_running(struct lanes *lanes)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < RING_LANES; i++) {
        struct lane *l = &lanes->at[i];

        if (!lane_ref(l)) /* a call that runs has a use of its lane */
            continue;
        n += atomic_load_explicit(&l->up->running, memory_order_relaxed); /* one that begins or ends may count or not */
        lane_unref(l);
    }
    return n;
}

struct pool_node *lanes_take(struct lanes *lanes, uint32_t *ret_usec)
{
    static _Thread_local uint32_t turn; /* which lane is looked at first */
    uint32_t first = turn++;

    for_each_lane(l, lanes, first)
    {
        if (!lane_ref(l))
            continue;
        struct pool_node *node = lane_is_cared_for(l) ? NULL : direct_call_take(l, ret_usec);
        if (node)
            return node; /* with the use */
        lane_unref(l);
    }
    return NULL;
}

bool lanes_ready(struct lanes *lanes)
{
    bool ready = false;

    for_each_lane(l, lanes, 0)
    {
        if (ready || !lane_ref(l))
            continue;
        ready = lane_back_ready(&l->back) && !lane_back_cared_for(&l->back);
        lane_unref(l);
    }
    return ready;
}

void lanes_prepare(struct lanes *lanes, struct eventcount_set *set)
{
    for_each_lane(l, lanes, 0) if (lane_ref(l)) eventcount_set_add(set, &l->back.memory->bell, l);
}

void lanes_done(struct lanes *lanes, struct eventcount_set *set)
{
    bool woken = eventcount_set_rang(set, 0);

    for (uint32_t i = 1; i < set->n; i++) {
        struct lane *l = set->owners[i];

        woken |= eventcount_set_rang(set, i);

        if (eventcount_set_rang(set, i) && !lane_back_ready(&l->back) &&
            atomic_fetch_add_explicit(&l->alarms, 1, memory_order_relaxed) == ALARMS_MAX) {
            lane_tell(l->shared, l->number, LANED_OPEN, EPROTO);
            shut_lane(lanes, l);
        }
        lane_unref(l);
    }
    hints_slept(woken);
}

bool lanes_may_spin(struct lanes *lanes)
{
    return hints_may_spin() && !lanes->lone_cpu && atomic_load_explicit(&lanes->open, memory_order_relaxed) != 0;
}
