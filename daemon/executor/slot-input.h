/* SPDX-License-Identifier: Apache-2.0
 *
 * slot-input.h: the input of a job that does not lie in the ring, and its part of an arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/input-map.h"
#include "executor/slot.h"
#include "host/plugin.h"

/* Whether the request refers to something that does not lie in the ring. [worker] */
static inline bool slot_input_is_outside(const struct slot *s)
{
    return s->request.flags & (DOWN_INPUT_FD | DOWN_INPUT_PIPE | DOWN_ARENA);
}

/* Waits for what such a request refers to, and completes the request with it. Returns NULL, or why it is not there.
 * [worker, after output_init()] */
const char *slot_input_fetch(struct slot *s, const struct plugin_function *function);

/* Reads from an input that is a stream; 0: there is no more, or it is no stream. -ECANCELED. [worker] */
int64_t slot_input_read(struct slot *s, void *data, size_t size);

/* Gives all of it back. False: the input was truncated while the job ran. *ret_rest: see input_map_drop(). [worker] */
bool slot_input_drop(struct slot *s, struct input_map_rest *ret_rest);
