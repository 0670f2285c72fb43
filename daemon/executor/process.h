/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h: what an executor does to itself before it runs anybody's code. All [main, before threads].
 */
#pragma once

/* Checks the descriptors that wsd gave (control.h), keeps them from children, closes every other one. 0, -EBADF. */
int process_descriptors(void);

/* Dies with wsd, gains no privileges, cannot be looked into by others of the same user; umask, C
 * locale, root directory, limits, signals: those that end daemons are ignored, because an executor ends by its control
 * socket. 0, or a negative errno: -ESRCH where wsd died meanwhile. */
int process_settle(int control_fd);
