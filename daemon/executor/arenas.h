/* SPDX-License-Identifier: Apache-2.0
 *
 * arenas.h: arenas of clients, mapped for as long as wsd says.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/layout.h"

struct mapped_arena {
    bool there;
    uint32_t number;
    void *base; /* it could not be mapped */
    uint64_t size;
    uint32_t n_users; /* jobs */
};

struct arena_table {
    pthread_mutex_t lock;
    struct mapped_arena
        at[RING_ARENAS]; /* [lock]; by ring_arena_place(); base and size are const while there are users */
};

void arenas_init(struct arena_table *a);

/* Maps an arena; takes over fd. 0; -EBADMSG: its place is in use, by it or by another. [control thread] */
int arenas_put(struct arena_table *a, uint32_t number, int fd);

/* Unmaps it. 0; -EBADMSG: there is none, or a job uses it. [control thread] */
int arenas_drop(struct arena_table *a, uint32_t number);

/* The arena of that number, which stays mapped until arenas_leave(). NULL: it has not come yet, though an older one may
 * be in its place. [worker] */
struct mapped_arena *arenas_use(struct arena_table *a, uint32_t number);
void arenas_leave(struct arena_table *a, struct mapped_arena *arena);

/* The address of `size` bytes at offset `at`. NULL: they are not inside. [the user of the arena] */
void *arena_part(const struct mapped_arena *arena, uint64_t at, uint64_t size);
