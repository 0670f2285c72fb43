/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-arena.h: arenas: ARENA_OPEN, ARENA_CLOSE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_arena_open(struct request *r); /* takes the descriptor if it becomes an arena */
void serve_arena_close(struct request *r);
struct arena *arena_find(const struct peer *p, uint32_t tag); /* NULL: there is none */
