/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c: how many bytes of inputs are on their way at once.
 * Owns nothing.
 * Keeps: never more than ROOM_MAX. What comes later does not overtake what waits.
 * Does not know which jobs they are of, or in which order these wait (out.c). */
#include "fleet/room.h"

bool room_take(struct room *r, struct room_share *s, uint64_t size)
{
    if (s->size > 0)
        return true;
    bool has_turn = s->waits || r->n_waiting == 0;
    if (!has_turn || size > ROOM_MAX - r->used) {
        r->n_waiting += !s->waits;
        s->waits = true;
        return false;
    }
    r->n_waiting -= s->waits;
    *s = (struct room_share){.size = size};
    r->used += size;
    return true;
}

void room_leave(struct room *r, struct room_share *s)
{
    r->used -= s->size;
    r->n_waiting -= s->waits;
    *s = (struct room_share){0};
}
