/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.h: the stack of a thread that runs plugin code: when it is used up, that is told from other faults.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Gives this thread a stack of its own for signal handlers, so that one runs where the other is used up, and remembers
 * where that one ends. Around a thread's work. Gives the size of that one, 0 where it is not known. [the thread] */
size_t stack_begin(void);
void stack_end(void);

/* Puts the handlers' stack back where plugin code has changed it. True: it had been. Not in a handler. [the thread] */
bool stack_mend(void);

/* In a handler with SA_SIGINFO: the size of this thread's stack where the fault is that it was used up, else 0.
 * Async-signal-safe. [the thread that faulted] */
size_t stack_overflowed(int signal, const siginfo_t *info, const void *context);
