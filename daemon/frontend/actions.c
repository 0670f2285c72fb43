/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.c: the last actions of administrators and of persons.
 * Owns them: two rings, one for users with rights over others and one for the rest. [loop]
 * Keeps: no user without such rights makes wsd forget what an administrator did. A ring is in the order of its numbers.
 * Does not know requests, or which users may see what. */
#include "frontend/actions.h"

#include <stdlib.h>

#include "base/cleanup.h"

void actions_deinit(struct actions *a)
{
    free(TAKE(a->kept));
}

static struct action *action_at(const struct actions *a, enum action_ring ring, uint64_t index)
{
    return &a->kept[ring * ACTIONS_KEPT + index % ACTIONS_KEPT];
}

/* The oldest one of a ring with a higher number. */
static struct action *next_of(const struct actions *a, enum action_ring ring, uint64_t number)
{
    uint64_t high = a->n[ring], low = high > ACTIONS_KEPT ? high - ACTIONS_KEPT : 0;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (action_at(a, ring, middle)->number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low < a->n[ring] ? action_at(a, ring, low) : NULL;
}

uint64_t actions_add(struct actions *a, const struct action *one)
{
    enum action_ring ring = one->trusted ? ACTIONS_TRUSTED : ACTIONS_OTHER;

    if (!a->kept)
        a->kept = calloc((size_t)ACTION_RINGS * ACTIONS_KEPT, sizeof(*a->kept));
    if (!a->kept)
        return 0;
    struct action *place = action_at(a, ring, a->n[ring]++);
    *place = *one;
    place->number = a->n[ACTIONS_OTHER] + a->n[ACTIONS_TRUSTED];
    return place->number;
}

void actions_refused(struct actions *a, uint64_t number, uint32_t code)
{
    for (unsigned ring = 0; number && ring < ACTION_RINGS; ring++) {
        struct action *found = next_of(a, ring, number - 1);

        if (found && found->number == number)
            found->code = code;
    }
}

const struct action *actions_next(const struct actions *a, uint64_t number)
{
    const struct action *other = next_of(a, ACTIONS_OTHER, number), *trusted = next_of(a, ACTIONS_TRUSTED, number);

    return !other || (trusted && trusted->number < other->number) ? trusted : other;
}
