/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h: the names of the plugins in the plugin directories. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names of plugins, each with its NUL. */
struct names {
    char *names;
    size_t size;
    uint64_t read_usec;     /* 0: never */
    int fd;                 /* inotify, if watching */
    bool watching, watched; /* watched: every directory is watched */
};

void names_deinit(struct names *n);
