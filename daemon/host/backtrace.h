/* SPDX-License-Identifier: Apache-2.0
 *
 * backtrace.h: where a thread is, as text or as addresses, from inside a signal handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/plugin.h"

/* Prepares what cannot be prepared in a handler. [main, before threads] */
void backtrace_init(void);

/* A plugin's code is loaded: backtraces give its name and its functions' names from now on. [control thread] */
void backtrace_plugin(const struct host_plugin *p);

/* Writes the calling thread's frames, one per line, into `room` bytes, with NUL. context: that of the handler with
 * SA_SIGINFO, to leave out the handler's own frames; NULL: none. Async-signal-safe. A destroyed stack may make it
 * fault: the text then ends there. If the plugin's code died, a last line gives its build-id. */
void backtrace_write(char *text, size_t room, const void *context);
/* Where a thread stands that a signal has interrupted, in the same lines. A fault on the way, as in a stack that is wild,
 * ends the walk: see backtrace_fault(). [in a signal handler] */
void backtrace_stack(char *text, size_t room, const void *context);

/* Fills `ret` with the addresses of the calling thread's frames, the innermost first: each lies inside its function. At
 * most max; returns how many. context: that of the handler with SA_SIGINFO. Async-signal-safe. A stack that cannot be
 * read ends the walk, if the handler of SIGSEGV and SIGBUS calls backtrace_fault(). */
size_t backtrace_take(uintptr_t *ret, size_t max, const void *context);

/* A fault of backtrace_take() on this thread: goes back into it, and does not return. Else returns at once.
 * Async-signal-safe. */
void backtrace_fault(void);

/* What lies at this address. */
enum backtrace_where {
    BACKTRACE_PLUGIN,  /* in a plugin: name is its function's, else [PLUGIN] */
    BACKTRACE_LIBRARY, /* in a library: name is its function's if that is exported, else [FILE] */
    BACKTRACE_OWN,     /* in this program */
    BACKTRACE_NOWHERE, /* in no file */
};

/* Tells what lies at an address of backtrace_take(), with nothing in it but printable ASCII without ; . Takes locks.
 * [control thread] */
enum backtrace_where backtrace_name(uintptr_t address, char *name, size_t size);
