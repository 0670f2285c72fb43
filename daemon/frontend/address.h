/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h: the file of the Unix socket that wsd listens at. [loop]
 */
#pragma once

#include <stdint.h>

/* The file of a Unix socket. */
struct frontend_address {
    uint64_t device, inode;
};

/* Makes a Unix socket at the path, mode 0660; replaces a dead one. group: its owner group, or (gid_t)-1. Returns
 * -EADDRINUSE where another wsd answers there; -EPERM where root listens and others could write to the path's directory
 * or one above it. In a sticky directory, files of root's are safe. */
int frontend_bind(const char *path, uint32_t group, int *ret_fd, struct frontend_address *ret_address);
/* Finds whether the file of a listening socket that the last wsd has bound is still at the path. Returns 0 or a
 * negative errno. */
int frontend_find(const char *path, int listener, struct frontend_address *ret_address);
/* Removes the file, if it still is the same one. Call it before the listening socket is closed: after that another file
 * may get its inode. */
void frontend_unbind(const char *path, const struct frontend_address *address);
