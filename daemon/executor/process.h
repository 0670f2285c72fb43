/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h: what an executor does to itself before it runs any foreign code. All [main, before threads].
 */
#pragma once

/* Checks the descriptors that wsd gave (control.h), keeps them from children, closes every other one. 0, -EBADF. */
int process_descriptors(void);

/* Prepares the process. All that its plugins start stays below it until it ends. It ends with wsd, by its death signal,
 * when all of that is gone. It gains no privileges, and other processes of the same user cannot inspect it. Sets umask,
 * C locale, root directory, limits and signals. Signals that end daemons are ignored: an executor ends by its control
 * socket. 0, or a negative errno: -ESRCH if wsd has died meanwhile. */
int process_settle(int control_fd);

/* Kills what plugins and their processes have started, until nothing is left. This process starts no more after it.
 * [main] */
void process_end_children(void);
