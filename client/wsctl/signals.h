/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h: Ctrl-C.
 */
#pragma once

#include <stdbool.h>

/* From now on the first SIGINT, SIGTERM or SIGHUP only makes signals_fd() readable; the second ends wsctl at once with
 * 130. */
int signals_init(void);
/* What the second does first, in a signal handler; NULL: nothing. */
void signals_before_quitting(void (*function)(void));
int signals_fd(void);
/* True once, after the first. */
bool signals_take(void);
