/* SPDX-License-Identifier: Apache-2.0
 *
 * arenas.h: arenas: memory that a client shares with its jobs (arena.c). [loop]
 */
#pragma once

#include "table/interface.h"

/* Makes an arena: memory for inputs and outputs of this user's jobs. Returns 0 or -ENOMEM. With 0, either *ret_arena is
 * set and the descriptor taken, or *ret_refusal and *ret_code say why not, and *ret_retry_usec when to try again, where
 * that is known. After jobs_arena_drop() no new job can use the arena; running ones go on. NULL is fine; it returns
 * NULL. */
int jobs_arena_new(struct jobs *jobs, uint32_t uid, int *fd, struct arena **ret_arena, int *ret_code,
                   const char **ret_refusal, uint64_t *ret_retry_usec);
struct arena *jobs_arena_drop(struct arena *arena);
