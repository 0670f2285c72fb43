/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c: whether items that went ahead, first in, first out, keep others waiting unfairly.
 * Owns nothing. [loop]
 * Keeps: a look costs no more than AHEAD_FLOWS for each item.
 * Does not take anything back. */
#include "sched/ahead.h"

#include "base/cleanup.h"
#include "base/list.h"
#include "sched/fair-queue.h"

/* Returns its index; n_flows: there is none. */
static uint32_t flow_find(const struct ahead *a, const void *owner, int priority)
{
    uint32_t i = 0;

    while (i < a->n_flows && (a->flows[i].owner != owner || a->flows[i].priority != priority))
        i++;
    return i;
}

/* NULL: there are too many. */
static struct ahead_flow *find_or_add(struct ahead *a, const void *owner, int priority)
{
    uint32_t i = flow_find(a, owner, priority);

    if (i == AHEAD_FLOWS)
        return NULL;
    if (i == a->n_flows)
        a->flows[a->n_flows++] = (struct ahead_flow){.owner = owner, .priority = priority};
    return &a->flows[i];
}

/* The items in flows of this priority or lower ones. */
static uint32_t count_items(const struct ahead *a, int priority)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n_flows; i++)
        n += a->flows[i].priority <= priority ? a->flows[i].n : 0;
    return n;
}

static uint32_t count_flows(const struct ahead *a, int priority)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n_flows; i++)
        n += a->flows[i].priority == priority;
    return n;
}

void ahead_note(struct ahead *all, const void *owner, int priority)
{
    find_or_add(all, owner, priority);
}

bool ahead_is_unfair(struct ahead *ahead, const struct ahead *all, const void *owner, int priority, uint32_t n,
                     uint32_t slack)
{
    struct ahead_flow *flow = find_or_add(ahead, owner, priority);

    if (!flow)
        return false;
    flow->n += n;
    return count_items(ahead, priority) > flow->n * count_flows(all, priority) + slack;
}

bool ahead_lacks(const struct ahead *ahead, struct fair_queue *q, int priority, uint32_t slack)
{
    uint32_t looked = 0;

    if (count_items(ahead, priority) <= slack)
        return false;
    list_for_each_entry (const struct flow, flow, fair_queue_flows(q, priority), link) {
        if (looked++ == AHEAD_FLOWS)
            break;
        if (flow_find(ahead, flow->owner, priority) == ahead->n_flows)
            return true;
    }
    return false;
}
