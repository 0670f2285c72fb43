/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h: whether items that went ahead, first in, first out, keep others waiting unfairly. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fair_queue;

#define AHEAD_FLOWS 32u /* more of them are fair enough to each other */

struct ahead_flow {
    const void *owner;
    int priority;
    uint32_t n;
};

/* The flows of items that are ahead, zeroed at first. Beyond AHEAD_FLOWS they are not looked at. */
struct ahead {
    struct ahead_flow flows[AHEAD_FLOWS];
    uint32_t n_flows;
};

void ahead_note(struct ahead *all, const void *owner, int priority); /* this flow has items ahead */
/* Call it for each item, the first to begin first. The item is of this flow, and counts for n. all has the flows of all
 * items. slack: so many begin at once. Returns whether the item waits behind more than would come before it in turn,
 * and than begin meanwhile. */
bool ahead_is_unfair(struct ahead *ahead, const struct ahead *all, const void *owner, int priority, uint32_t n,
                     uint32_t slack);
/* Whether more than slack items are ahead, and a flow of this priority that waits in the queue has none among them. */
bool ahead_lacks(const struct ahead *ahead, struct fair_queue *q, int priority, uint32_t slack);
