/* SPDX-License-Identifier: Apache-2.0
 *
 * descendants.h: ends the processes below this one. One thread at a time. Nothing here allocates unless stated, so a
 * signal handler, or the child of a fork of a process with threads, may call it. A child subreaper
 * (PR_SET_CHILD_SUBREAPER) has all its descendants below it, whatever they do.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define REAPER_NAME "wsd-reaper" /* of the processes that end commands (host/reaper.h): they end by themselves */

/* 1: leave the process alone, with all below it; 0: do not. Negative: unknown now. The process is then left alone in
 * this round, and counts as one that could not be examined. */
typedef int descendants_spared(pid_t pid);

/* One round of SIGKILL. A process with a pending SIGKILL forks no more, and the children that it leaves become this
 * process's own: the next round finds them. Returns how many processes there were, zombies included, plus one if some
 * could not be examined (no descriptor, no memory). It returns -EPERM if there are some, and none of them may be
 * signalled. spared: NULL for none. */
int descendants_kill(descendants_spared *spared);
/* Reaps those of the last round that are children of this process and have ended. */
void descendants_reap(void);
/* Repeats rounds until none is left. False: some are left after `msec`, or none of them may be signalled. */
bool descendants_end(descendants_spared *spared, unsigned msec);
/* Whether a process has the name of a reaper; a process chooses its name. 1, 0, or a negative errno if it could not be
 * read. */
int descendants_is_reaper(pid_t pid);
/* Whether /proc/PID/status has this line, which ends in a newline. Returns 1 or 0; it is 0 if the process is gone, too.
 * A negative errno says that the file could not be read. Allocates. */
int descendants_status_has(pid_t pid, const char *line);
