/* SPDX-License-Identifier: Apache-2.0
 *
 * predecessor.h: executors of the wsd before, which was killed, and what they have started.
 */
#pragma once

/* A descriptor that says to the next wsd with this state directory that something of ours is left: it is given to what
 * is to be waited for. -1: there can be no such file, which is said. */
int predecessor_open(const char *directory);
/* Waits until nothing of the wsd before has such a descriptor; after ten seconds it is said, and not waited. */
void predecessor_wait(int fd);
