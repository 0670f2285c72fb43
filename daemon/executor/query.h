/* SPDX-License-Identifier: Apache-2.0
 *
 * query.h: what wsd wants to know of the workers, or to change in the pool (enum control_ask). [control thread]
 */
#pragma once

#include "pool/pool.h"
#include "ring/control.h"

/* Answers one ASK. fd: the descriptor that came with it, or -1; the caller's. 0, or what control_send() said. */
int ask_answer(struct pool *pool, int control_fd, const struct control *ask, int fd);
