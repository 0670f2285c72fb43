/* SPDX-License-Identifier: Apache-2.0
 *
 * async-close.h: closes descriptors that another process has opened, or that may hold much memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Most threads that close: one for each close that blocks. Further closes wait for a free thread. */
#define ASYNC_CLOSERS      256u
#define ASYNC_CLOSERS_EACH 8u /* of these, for one owner's descriptors: other owners do not wait for them */
/* largest memory file that the caller frees itself, in bytes: it takes 0.1 ms */
#define ASYNC_CLOSE_AT_ONCE (1 << 20)

#define ASYNC_CLOSE_OWN UINT64_MAX /* owner: no user's */

/* Closes a descriptor that came from another process, or that may hold much memory. Returns -1, also if fd is -1.
 * owner: the user that brought it, as a uid or as the key of a domain. Never blocks. A plain close() may block for as
 * long as the opener likes (a file of a user's own FUSE mount, a socket that lingers, a terminal). Closing a memory
 * file takes as long as freeing its pages (7 ms for 64 MiB). Memory files up to ASYNC_CLOSE_AT_ONCE are closed at once.
 * Everything else is closed by threads that exist only meanwhile (as in systemd's asynchronous_close()). One thread
 * closes all larger memory files and nothing else, so that these wait for no close that blocks. Owners take turns. With
 * neither memory nor a thread to be had, the caller closes at once. [any] */
int async_close(int fd, uint64_t owner);

/* Descriptors of an owner that are not closed yet. [any] */
size_t async_close_pending(uint64_t owner);

struct async_close {
    int fd;
    uint64_t owner;
};

static inline void async_closep(struct async_close *f)
{
    f->fd = async_close(f->fd, f->owner);
}
