/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-called.c: what the direct calls of one function in a lane came to, by the executor's word.
 * Owns nothing. [loop]
 * Keeps: each call that was told is counted once. What an executor writes instead harms the counters of its own users
 * only.
 * Does not know lanes. */
#include "domains/lane-called.h"

#include <string.h>

#include "base/cleanup.h"
#include "table/function-stats.h"

static uint64_t read_part(const _Atomic uint64_t *part)
{
    return atomic_load_explicit(part, memory_order_relaxed);
}

bool lane_called_look(const struct up_called *called, const struct lane_called *told, struct lane_called *ret)
{
    bool more = false;

    *ret = (struct lane_called){.run_most = 0};
    for (uint32_t i = 0; i < RING_LANE_SLOTS; i++) {
        const struct up_calls *u = &called->slots[i];

        for (uint32_t j = 0; j < RING_CALL_ENDS; j++)
            ret->ended[j] += read_part(&u->ended[j]);
        ret->run_usec += read_part(&u->run_usec);
        ret->run_most = MAX(ret->run_most, read_part(&u->run_most));
    }
    for (uint32_t j = 0; j < RING_CALL_ENDS; j++)
        more |= ret->ended[j] > told->ended[j];
    return more;
}

static uint64_t beyond(uint64_t now, uint64_t told)
{
    return now > told ? now - told : 0;
}

void lane_called_take(struct up_called *called, struct lane_called *told, const struct lane_called *now,
                      struct function_stats *stats)
{
    static const enum function_outcome outcomes[RING_CALL_ENDS] = {
        [RING_CALL_SUCCEEDED] = FUNCTION_SUCCEEDED,
        [RING_CALL_FAILED] = FUNCTION_FAILED,
        [RING_CALL_CANCELLED] = FUNCTION_CANCELLED,
        [RING_CALL_TIMED_OUT] = FUNCTION_TIMED_OUT,
    };
    struct histogram *run = &stats->of[FUNCTION_RUN];

    for (uint32_t i = 0; i < RING_CALL_ENDS; i++) {
        uint64_t n = beyond(now->ended[i], told->ended[i]);

        stats->ended[outcomes[i]] += n;
        stats->direct += n;
    }
    histogram_add_sum(run, beyond(now->run_usec, told->run_usec));
    run->max = MAX(run->max, now->run_most);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (read_part(&called->run[i]))
            histogram_count(run, i, atomic_exchange_explicit(&called->run[i], 0, memory_order_relaxed));
    *told = *now;
}

void lane_called_reset(struct up_called *called)
{
    for (uint32_t i = 0; i < RING_LANE_SLOTS; i++) {
        struct up_calls *u = &called->slots[i];

        for (uint32_t j = 0; j < RING_CALL_ENDS; j++)
            atomic_store_explicit(&u->ended[j], 0, memory_order_relaxed);
        atomic_store_explicit(&u->run_usec, 0, memory_order_relaxed);
        atomic_store_explicit(&u->run_most, 0, memory_order_relaxed);
    }
}
