/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h: memory that is shared with the jobs of a connection. One thread a handle.
 */
#pragma once

#include "connection.h"
#include "wsd/client.h"

struct wsd_arena {
    struct request request;    /* ARENA_OPEN, while wsd has it */
    struct wsd_client *client; /* NULL: wsd has dropped it */
    void *data;
    size_t size;
    bool there;
    int error; /* why it is gone */
};
