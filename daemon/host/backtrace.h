/* SPDX-License-Identifier: Apache-2.0
 *
 * backtrace.h: writes where a thread is, as text, from inside a fault handler.
 */
#pragma once

#include <stddef.h>

#include "host/plugin.h"

/* Prepares what cannot be prepared in a handler. [main, before threads] */
void backtrace_init(void);

/* A plugin's code is loaded: backtraces give its name and its functions' names from now on. [control thread] */
void backtrace_plugin(const struct host_plugin *p);

/* Writes the calling thread's frames, one per line, into `room` bytes, with NUL. context: that of the handler with
 * SA_SIGINFO, to leave out the handler's own frames; NULL: none. Async-signal-safe. A destroyed stack may make it
 * fault: the text then ends there. If the plugin's code died, a last line gives its build-id. */
void backtrace_write(char *text, size_t room, const void *context);
