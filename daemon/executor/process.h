/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h: what an executor does to itself before it runs anybody's code. All [main, before threads].
 */
#pragma once

/* Checks the descriptors that wsd gave (control.h), keeps them from children, closes every other one. 0, -EBADF. */
int process_descriptors(void);

/* Has all that its plugins start below it until it ends, and ends with wsd, by its death signal, when all that is gone.
 * Gains no privileges, cannot be looked into by others of the same user; umask, C locale, root directory, limits,
 * signals: those that end daemons are ignored, because an executor ends by its control socket. 0, or a negative errno:
 * -ESRCH where wsd died meanwhile. */
int process_settle(int control_fd);

/* Kills what plugins and their processes have started, until nothing of it is left; this process starts no more.
 * [main] */
void process_end_children(void);
