/* SPDX-License-Identifier: Apache-2.0
 *
 * async-close.h: descriptors that somebody else has opened, or that may hold much memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* threads that close, at most: one for each close that blocks; what comes then waits for one */
#define ASYNC_CLOSERS       256u
#define ASYNC_CLOSERS_EACH  8u        /* of these, for one owner's descriptors: those of others do not wait for them */
#define ASYNC_CLOSE_AT_ONCE (1 << 20) /* bytes of a memory file that the caller frees, at most: it takes 0.1 ms */

#define ASYNC_CLOSE_OWN UINT64_MAX /* owner: no user has brought it */

/* Closes a descriptor that came from another process, or that may hold much memory, and returns -1, also of -1. owner:
 * the user who has brought it, as a uid or as the key of a domain. Never blocks: a close() may, for as long as its
 * opener likes (a file of his own FUSE mount, a socket that lingers, a terminal), and that of memory takes as long as
 * to free its pages (7 ms for 64 MiB). Memory files up to ASYNC_CLOSE_AT_ONCE are closed at once, all else by a thread
 * that is there only meanwhile (as systemd's asynchronous_close() does): larger memory files by one thread for all of
 * them, which has nothing else to do, so that they wait for no close that blocks. Owners take turns. With neither
 * memory nor a thread, at once as well. [any] */
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
