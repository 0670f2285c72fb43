/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c: when a submit that was refused for now is made again: `--wait-for-room`.
 * Owns nothing. One thread.
 * Keeps: the pause is what wsd says, plus a random part. If wsd does not say, pauses grow. So clients do not poll in
 * step. */
#include "room.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "parse.h"
#include "print.h"

#define FIRST_USEC 100000u /* of growing pauses */
#define LAST_USEC  5000000u

int room_option(struct room *room, const char *text)
{
    room->wanted = true;
    room->limit_usec = 0;
    return text && parse_duration(text, &room->limit_usec) < 0
               ? ctl_error(CODE_USAGE, text, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h")
               : 0;
}

bool room_refused(struct room *room, uint64_t retry_usec)
{
    uint64_t now = clock_monotonic_usec(), pause = retry_usec;

    if (!room->wanted)
        return false;
    if (!room->since_usec)
        room->since_usec = now;
    if (room->limit_usec && now - room->since_usec >= room->limit_usec)
        return false;
    if (!pause) {
        room->pause_usec = room->pause_usec ? MIN(room->pause_usec * 2, LAST_USEC) : FIRST_USEC;
        pause = room->pause_usec / 2;
    }
    /* a quarter more, but no more than a second, at random */
    pause += (uint64_t)((double)MIN(MAX(pause / 4, 1000u), 1000000u) * ((double)random() / (double)RAND_MAX));
    if (room->limit_usec) /* the last try is at its end */
        pause = MIN(pause, room->limit_usec - (now - room->since_usec));
    room->due_usec = now + pause;
    return true;
}

void room_found(struct room *room)
{
    room->since_usec = room->pause_usec = room->due_usec = 0;
}

int room_timeout(const struct room *room)
{
    uint64_t now = clock_monotonic_usec();

    return room->due_usec > now ? (int)MIN((room->due_usec - now + 999) / 1000, 3600000u) : 0;
}

void room_init(struct room *room)
{
    *room = (struct room){.wanted = false};
    srandom((unsigned)(clock_monotonic_usec() ^ (uint64_t)getpid() << 16));
}
