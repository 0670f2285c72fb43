/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-called.h: what the direct calls of one function in a lane came to, by the executor's word. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ring/layout.h"

struct function_stats;

/* What all slots of the lane have told together. */
struct lane_called {
    uint64_t ended[RING_CALL_ENDS];
    uint64_t run_usec, run_most;
};

/* Looks at all slots. Returns whether there is more than was told. */
bool lane_called_look(const struct up_called *called, const struct lane_called *told, struct lane_called *ret);
/* Adds to the stats what is more than was told, which becomes *now. */
void lane_called_take(struct up_called *called, struct lane_called *told, const struct lane_called *now,
                      struct function_stats *stats);
/* Nothing has been called. The executor has let go of the lane. */
void lane_called_reset(struct up_called *called);
