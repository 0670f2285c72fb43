/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.h: descriptors that somebody else has opened.
 */
#pragma once

#define FOREIGN_CLOSERS 256u /* threads that close, at most: one for each close that blocks; what comes then waits for one */

/* Closes a descriptor that came from another process, and returns -1, also of -1. Never blocks: a close() may, for as long as
 * its opener likes (a file of his own FUSE mount, a socket that lingers, a terminal). Memory files are closed at once, all
 * else by a thread that is there only meanwhile (as systemd's asynchronous_close() does). [any] */
int close_foreign(int fd);

static inline void close_foreignp(int *fd)
{
    close_foreign(*fd);
}
