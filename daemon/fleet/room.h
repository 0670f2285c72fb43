/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h: how many bytes of inputs are on their way to the servers at once. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROOM_MAX (64u << 20) /* bytes, of all jobs of a node */

/* Zeroed: nothing is on its way. */
struct room {
    uint64_t used;
    uint32_t n_waiting; /* those for which there was none */
};

/* A job's share. Zeroed: it has none, and does not wait. */
struct room_share {
    uint64_t size; /* 0: none */
    bool waits;
};

/* Takes so many bytes, 1 to ROOM_MAX, and does nothing where it has some. False: it waits from now on. Those that wait
 * are to be asked in the order of waiting, up to the first that goes on waiting. */
bool room_take(struct room *r, struct room_share *s, uint64_t size);
void room_leave(struct room *r, struct room_share *s); /* allowed where it has none */
