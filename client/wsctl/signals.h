/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h: Ctrl-C.
 */
#pragma once

#include <stdbool.h>

#define SIGNALS_PATIENCE_USEC 1000000u

/* From now on the first SIGINT, SIGTERM or SIGHUP only makes signals_fd() readable; the second ends wsctl at once with
 * 130. */
int signals_init(void);
/* What the second does first, in a signal handler; NULL: nothing. */
void signals_before_quitting(void (*function)(void));
int signals_fd(void);
/* True once, after the first. */
bool signals_take(void);
/* Whether the first came SIGNALS_PATIENCE_USEC ago, for wsd_client_set_interrupt(). That time begins when this is asked
 * then, and again after signals_be_patient(). */
int signals_out_of_patience(void *unused);
void signals_be_patient(void);
