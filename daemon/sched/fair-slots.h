/* SPDX-License-Identifier: Apache-2.0
 *
 * fair-slots.h: so many slots for all, and which waiter gets the next one that becomes free. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct fair_slots {
    struct list waiting; /* slot_waiter.waiting */
    uint64_t n_running;  /* slots that are taken; the caller counts them */
    uint64_t n_taken;    /* slots taken so far while there was a limit */
    uint32_t turns;      /* modulo AGEING_TURNS */
    bool due;            /* a waiter may get a slot */
};

/* Embedded in what takes slots. */
struct slot_waiter {
    struct list waiting; /* fair_slots.waiting; in no list while it does not wait */
    uint64_t placed;     /* fair_slots.n_taken when it last took a slot */
    bool has_turn;       /* it may take one before the others that wait */
};

/* What a waiter wants its next slot for. */
struct slot_wish {
    const void *owner;
    uint64_t owner_placed; /* as slot_waiter.placed, of the owner */
    uint64_t since_usec;
    int priority;
};

/* limit 0: any number. */
static inline bool fair_slots_free(const struct fair_slots *s, uint64_t limit)
{
    return !limit || s->n_running < limit;
}

/* Whether it may take a slot now. False: it waits for its turn. Ends its turn. */
bool fair_slots_let(struct fair_slots *s, struct slot_waiter *w, uint64_t limit);
/* It took a slot while there was a limit. *ret_owner_placed is for the owner's next wish. */
void fair_slots_taken(struct fair_slots *s, struct slot_waiter *w, uint64_t *ret_owner_placed);
void fair_slots_left(struct fair_slots *s); /* a slot became free */
/* Chooses the waiter that has its turn, and takes it off the list. wish returns false where a waiter wants none now: it
 * does not wait any longer. A wish since before_usec or longer counts as aged. NULL: none waits. */
struct slot_waiter *fair_slots_next(struct fair_slots *s, uint64_t before_usec,
                                    bool (*wish)(const struct slot_waiter *w, struct slot_wish *ret));
