/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.h: blocks of bytes as zstd frames, for `compress` and `archive`. Each frame has its size and a checksum and
 * shares no history with others, so that frames are made, and decompressed, in parallel. All calls [any] unless they say
 * otherwise.
 */
#pragma once

#include <stddef.h>

#include "plugins/common.h"

#define FRAME_LEVEL_DEFAULT 3
#define FRAME_LEVEL_MAX     19
#define FRAMES_AT_ONCE_MAX  16u

/* Embedded. */
struct frames {
    struct cache contexts;
    int level;         /* [const after init] */
    size_t block_size; /* the most bytes of a frame [const after init] */
};

/* The level that an option such as -9 says; 0: it says none. */
int frame_level(const char *option);

/* How many frames are worth being made at once: one a CPU, at most FRAMES_AT_ONCE_MAX. */
size_t frames_at_once(void);

void frames_init(struct frames *frames, int level);

/* Makes a frame in *out, for which memory is taken where it is NULL. The caller frees it. 0 or -ENOMEM. */
int frame_make(struct frames *frames, const void *data, size_t size, void **out, size_t *ret_size);

void frames_deinit(struct frames *frames);
