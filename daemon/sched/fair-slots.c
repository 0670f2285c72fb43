/* SPDX-License-Identifier: Apache-2.0
 *
 * fair-slots.c: so many slots for all, and which waiter gets the next one that becomes free.
 * Owns the list of those that wait. [loop]
 * Keeps: none passes those that wait. The highest priority goes first; then the owner with the oldest last turn, then
 * the waiter with it. Each AGEING_TURNS-th turn is for a lower priority that has waited for long.
 * Does not hold a slot for a waiter that has its turn, or order what one waiter has (fair-queue.c). */
#include "sched/fair-slots.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "sched/fair-queue.h"

bool fair_slots_let(struct fair_slots *s, struct slot_waiter *w, uint64_t limit)
{
    bool turn = w->has_turn;

    w->has_turn = false;
    if (!limit || (fair_slots_free(s, limit) && (turn || list_empty(&s->waiting))))
        return true;
    s->due |= fair_slots_free(s, limit);
    if (list_empty(&w->waiting))
        list_push_back(&s->waiting, &w->waiting);
    return false;
}

void fair_slots_taken(struct fair_slots *s, struct slot_waiter *w, uint64_t *ret_owner_placed)
{
    w->placed = *ret_owner_placed = ++s->n_taken;
    s->turns = (s->turns + 1) % AGEING_TURNS;
}

void fair_slots_left(struct fair_slots *s)
{
    s->due |= !list_empty(&s->waiting);
}

/* A waiter and what it wants. */
struct candidate {
    struct slot_waiter *waiter; /* NULL: none */
    struct slot_wish wish;
};

/* Whether a has its turn before b, at the same priority. */
static bool was_earlier(const struct candidate *a, const struct candidate *b)
{
    return a->wish.owner != b->wish.owner && a->wish.owner_placed != b->wish.owner_placed
               ? a->wish.owner_placed < b->wish.owner_placed
               : a->waiter->placed < b->waiter->placed;
}

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
    return !b->waiter || a->wish.priority > b->wish.priority ||
           (a->wish.priority == b->wish.priority && was_earlier(a, b));
}

struct slot_waiter *fair_slots_next(struct fair_slots *s, uint64_t before_usec,
                                    bool (*wish)(const struct slot_waiter *w, struct slot_wish *ret))
{
    struct candidate best = {0}, aged = {0};

    list_for_each_entry_safe (struct slot_waiter, w, after_w, &s->waiting, waiting) {
        struct candidate c = {.waiter = w};

        if (!wish(w, &c.wish))
            list_remove(&w->waiting);
        else if (goes_before(&c, &best))
            best = c;
    }
    if (best.waiter && s->turns == AGEING_TURNS - 1)
        list_for_each_entry (struct slot_waiter, w, &s->waiting, waiting) {
            struct candidate c = {.waiter = w};

            if (wish(w, &c.wish) && c.wish.priority < best.wish.priority && c.wish.since_usec <= before_usec &&
                (!aged.waiter || was_earlier(&c, &aged)))
                aged = c;
        }
    best = aged.waiter ? aged : best;
    if (best.waiter)
        list_remove(&best.waiter->waiting);
    return best.waiter;
}
