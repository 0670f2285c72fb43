/* SPDX-License-Identifier: Apache-2.0
 *
 * region.h: one piece of shared memory: a sealed memfd, made by wsd and mapped by others. [any]
 */
#pragma once

#include <stdint.h>

static inline uint64_t page_up(uint64_t n)
{
    return (n + 4095u) & ~(uint64_t)4095u;
}

/* Makes, maps and seals one: its size for good, and what else `seals` says. 0 or a negative errno. */
int region_new(const char *name, uint64_t size, int seals, int *ret_fd, void **ret_map);

/* Maps a region that another process made, of at least that size, which cannot shrink. 0, -EBADMSG (it could shrink, or
 * is too small), or a negative errno. */
int region_map(int fd, int protection, uint64_t least, void **ret_map, uint64_t *ret_size);
