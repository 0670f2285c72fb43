/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.h: descriptors that somebody else has opened, or that may hold much memory.
 */
#pragma once

#define FOREIGN_CLOSERS 256u      /* threads that close, at most: one for each close that blocks; what comes then waits for one */
#define FOREIGN_AT_ONCE (1 << 20) /* bytes of a memory file that the caller frees, at most: it takes 0.1 ms */

/* Closes a descriptor that came from another process, or that may hold much memory, and returns -1, also of -1. Never blocks: a
 * close() may, for as long as its opener likes (a file of his own FUSE mount, a socket that lingers, a terminal), and that of memory
 * takes as long as to free its pages (7 ms for 64 MiB). Memory files up to FOREIGN_AT_ONCE are closed at once, all else by a
 * thread that is there only meanwhile (as systemd's asynchronous_close() does): larger memory files by one thread for all of them,
 * which has nothing else to do, so that they wait for no close that blocks. With neither memory nor a thread, at once as well. [any] */
int close_foreign(int fd);

static inline void close_foreignp(int *fd)
{
    close_foreign(*fd);
}
