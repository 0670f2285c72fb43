/* SPDX-License-Identifier: Apache-2.0
 *
 * starter.h: starts programs from a thread that has descriptors of its own. A new process has its starter's descriptors
 * until it runs another program. It closes them then. wsd's loop has what clients have opened: sockets that linger,
 * files of a file system that never answers. A process that had those would wait for their close, before its first
 * instruction.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct starter;

#define STARTER_FDS 8u /* at most, the program among them */

struct starter_program {
    const int *fds; /* for it, as 3, 4, ... */
    size_t n;
    int words;     /* index of the descriptor that is its stdout and stderr too; -1: it has wsd's */
    int binary_fd; /* the program's file */
    char *const *argv, *const *environment;
};

/* Starts the thread, which keeps of the descriptors that are open now only 0 to 2. Called before the first one of a
 * client's is there. Returns 0 or a negative errno. */
int starter_new(struct starter **ret_starter);
/* Ends the thread. The kernel takes that for the end of the parent of all that it has started: their death signal
 * comes. NULL is fine; returns NULL. */
struct starter *starter_free(struct starter *s);
/* Starts a program, with default signals. Waits until it is there. Returns 0 or a negative errno. [loop] */
int starter_start(struct starter *s, const struct starter_program *program, pid_t *ret_pid);
