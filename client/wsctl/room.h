/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h: waiting for room after a refusal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct room {
    bool wanted;
    uint64_t limit_usec;                       /* 0: as long as it takes */
    uint64_t since_usec, pause_usec, due_usec; /* CLOCK_MONOTONIC; since: of the first refusal of a row */
};

void room_init(struct room *room);
/* --wait-for-room[=TIME]. 0 or the exit code, said. */
int room_option(struct room *room, const char *text);
/* A submit was refused for now: true where it is to be made again at due_usec. */
bool room_refused(struct room *room, uint64_t retry_usec);
void room_found(struct room *room);        /* one was taken */
int room_timeout(const struct room *room); /* for poll(), until due_usec */
