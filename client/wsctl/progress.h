/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h: one bar on the last line of stderr, where that is a terminal. There is one, as there is one terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Without this call nothing is ever drawn. */
void progress_init(bool wanted);
/* At most ten times a second. total 0: not known. failed: how many of them. */
void progress_draw(const char *label, uint64_t done, uint64_t total, uint64_t failed);
/* Limits the timeout of a poll() (-1: for ever), so that it ends when a delayed drawing is due. Draws at once if that
 * is due now. */
int progress_timeout(int msec);
/* Takes the bar away, before anything else is written to the terminal. */
void progress_clear(void);
/* The same, before something is written to stdout: only where that is the terminal too. */
void progress_clear_for_stdout(void);
/* Whether a bar is wanted and can be drawn. */
bool progress_on(void);
