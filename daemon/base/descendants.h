/* SPDX-License-Identifier: Apache-2.0
 *
 * descendants.h: ends the processes below this one. One thread at a time; nothing here allocates, so that a signal
 * handler or a fork of a process with threads may call it. A child subreaper (PR_SET_CHILD_SUBREAPER) has all its
 * descendants below it, whatever they do.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define REAPER_NAME "wsd-reaper" /* of the processes that end commands (host/reaper.h): they end by themselves */

/* 1: the process is left alone, with all below it; 0: it is not. Negative: that cannot be told now. It is left alone in
 * this round, and counts as one that could not be looked for. */
typedef int descendants_spared(pid_t pid);

/* One round of SIGKILL. What has a SIGKILL pending forks no more, and what it leaves becomes this process's own child:
 * the next round finds it. Returns how many there were, zombies among them, and one more where some could not be looked
 * for (no descriptor, no memory); -EPERM: there are some, and none of them may be signalled. spared: NULL for none. */
int descendants_kill(descendants_spared *spared);
/* Reaps those of the last round that are children of this process and have ended. */
void descendants_reap(void);
/* Rounds until none is left. False: some are after `msec`, or none of them may be signalled. */
bool descendants_end(descendants_spared *spared, unsigned msec);
/* By its name, which a process chooses. 1, 0, or a negative errno where it could not be read. */
int descendants_is_reaper(pid_t pid);
/* Whether /proc/PID/status has this line, which ends in a newline. 1; 0, as of a process that is gone; or a negative
 * errno where it could not be read. Allocates. */
int descendants_status_has(pid_t pid, const char *line);
