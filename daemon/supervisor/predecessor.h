/* SPDX-License-Identifier: Apache-2.0
 *
 * predecessor.h: executors of an earlier wsd that was killed, and what they have started.
 */
#pragma once

/* Opens a file in the state directory and returns the descriptor; -1: impossible, which is logged. Each process that
 * holds it tells the next wsd with this directory that something of this one is left. So it is given to every process
 * for which that one must wait. */
int predecessor_open(const char *directory);
/* Waits until nothing of an earlier wsd holds such a descriptor, for ten seconds at most; then logs that and
 * returns. */
void predecessor_wait(int fd);
