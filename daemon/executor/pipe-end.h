/* SPDX-License-Identifier: Apache-2.0
 *
 * pipe-end.h: an end of a pipe that came from another process, with an open file of the executor's own.
 */
#pragma once

/* Opens the end of the pipe behind fd anew: never blocking, with the flags of no other process. mode: O_RDONLY or
 * O_WRONLY. Returns the new descriptor, or a negative errno. -EACCES: another user has made the pipe; -ENOENT: there is
 * no /proc; -ENXIO: nobody reads it. [any] */
int pipe_end_open(int fd, int mode);
