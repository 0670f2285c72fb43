/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c: when one that was refused for want of a place may come again: a guess, by how places became free lately.
 * Owns nothing. [loop]
 * Keeps: the more wait, the later each is told to come, up to ROOM_MOST_USEC; where no place becomes free, the pauses grow. So all that
 * wait together ask about as often as places become free, and each costs one look.
 * Does not hold a place: who comes in time takes it. */
#include "jobs/room.h"

#include "base/cleanup.h"

uint64_t room_refuse(struct room *room, uint64_t now_usec)
{
    uint64_t every;

    if (!room_is_wanted(room))
        *room = (struct room){.freed_usec = now_usec, .every_usec = room->every_usec ? room->every_usec : ROOM_FIRST_USEC};
    every = MAX(room->every_usec, now_usec - room->freed_usec);
    every = MIN(MAX(every, ROOM_LEAST_USEC), ROOM_MOST_USEC);
    room->due_usec = MIN(MAX(room->due_usec, now_usec) + every, now_usec + ROOM_MOST_USEC);
    return room->due_usec - now_usec;
}

void room_freed(struct room *room, uint64_t now_usec)
{
    if (room->due_usec + ROOM_MOST_USEC < now_usec) {
        room->due_usec = 0;
        return;
    }
    room->every_usec = (room->every_usec * 3 + (now_usec - room->freed_usec)) / 4;
    room->freed_usec = now_usec;
}
