/* SPDX-License-Identifier: Apache-2.0
 *
 * backtrace.h: where a thread is, in words, from inside a fault handler.
 */
#pragma once

#include <stddef.h>

#include "host/plugin.h"

/* Makes ready what must not be made ready in a handler. [main, before threads] */
void backtrace_init(void);

/* A plugin's code is there from now on: its frames are told by its name and its functions' names. [control thread] */
void backtrace_plugin(const struct plugin *p);

/* Writes the calling thread's frames, a line each, into `room` bytes, with NUL. context: of the handler with
 * SA_SIGINFO, whose own frames are left out; NULL: none. Async-signal-safe; what it reads can fault where the stack is
 * destroyed: then the text ends where it is. Where the plugin's code died, a last line tells its build-id. */
void backtrace_write(char *text, size_t room, const void *context);
