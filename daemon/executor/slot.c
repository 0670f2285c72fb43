/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.c: the private half of a slot of the ring.
 * Owns the record of the job that has it. [the worker that claimed it, and its tasks]
 * Keeps: one job at a time has a slot. A wait ends with what is waited for, or by a cancel.
 * Does not know what a job does, where its input comes from (slot-input.c), or where its output goes (output.c). */
#include "executor/slot.h"

#include "base/clock.h"
#include "pool/pool.h"

bool slot_occupy(struct slot *s, struct shared *shared, uint32_t number, uint32_t generation)
{
    /* acquire: partner is the release in slot_vacate() */
    if (atomic_exchange_explicit(&s->busy, true, memory_order_acquire))
        return false;
    if (!s->initialised) {
        host_job_init(&s->job);
        s->shared = shared;
        s->initialised = true;
    }
    s->number = number;
    s->generation = generation;
    input_map_init(&s->map);
    s->arena = NULL;
    s->input_pipe = -1;
    slot_begin_item(s, 0);
    return true;
}

void slot_vacate(struct slot *s)
{
    /* release: partner is the acquire in slot_occupy(), in the worker that gets this slot's next job */
    atomic_store_explicit(&s->busy, false, memory_order_release);
}

void slot_begin_item(struct slot *s, uint32_t item)
{
    s->item = item;
    atomic_store_explicit(&s->messages, 0, memory_order_relaxed);
    atomic_store_explicit(&s->progress, false, memory_order_relaxed);
}

void slot_alone(struct slot *s)
{
    if (s->request.n_items > 1)
        back_close(&s->shared->back, s->number);
}

bool slot_wait(struct slot *s, bool (*there)(struct slot *s, void *arg), void *arg)
{
    struct eventcount *space = &s->shared->back.up->space;
    uint64_t since = 0;
    bool yes, blocks = false;

    while (!(yes = there(s, arg)) && !slot_is_cancelled(s)) {
        uint32_t epoch = eventcount_prepare(space);
        yes = there(s, arg);
        if (yes || slot_is_cancelled(s)) {
            eventcount_cancel(space);
            break;
        }
        /* Mostly short. Other waiters are notified too, so the clock tells when it is long. */
        if (since == 0)
            since = clock_monotonic_usec();
        eventcount_wait(space, epoch, blocks ? UINT64_MAX : POOL_BLOCKS_AFTER_USEC, true);
        if (!blocks && clock_monotonic_usec() - since >= POOL_BLOCKS_AFTER_USEC) {
            pool_blocking_begin();
            blocks = true;
        }
    }
    if (blocks)
        pool_blocking_end();
    return yes;
}
