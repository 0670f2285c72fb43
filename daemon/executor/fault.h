/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h: the note that a dying executor leaves about the job that killed it.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/run.h"
#include "ring/back.h"

/* Gives the numbers of a job's slot for the note. Async-signal-safe. [any] */
typedef void fault_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation);

/* Handlers for the signals of faults, and for exit() out of a plugin. [main, before threads] */
int fault_init(struct back *back, fault_place *place);

/* Around the making of worker threads: they take no signals but those of faults. [the thread that makes them] */
void fault_block_signals(sigset_t *ret_before);

/* A stack of its own for the handlers, so that an overflow of the thread's stack is noted too. Around a thread's work.
 * [the thread] */
void fault_thread_begin(uint32_t worker);
void fault_thread_end(void);

/* Puts back what plugin code has changed of what a fault needs on this thread: its signal mask, its stack for handlers,
 * and, with handlers, the process's handlers. What it was, in words, or NULL. [a thread after fault_thread_begin()] */
const char *fault_mend(bool handlers);

/* This thread ends, by pthread_exit() or a cancel, where only its owner may end it: leaves a note and ends the process.
 * [the thread, while it is unwound] */
_Noreturn void fault_thread_left(void);

/* Worker `worker` had job (NULL: none), and its thread is gone by the exit system call: the same. [any other thread] */
_Noreturn void fault_thread_gone(const struct host_job *job, uint32_t worker);

/* From here on exit() is ours. [main] */
void fault_orderly(void);

/* Where a thread is dying of a fault: returns never, so that the process ends by that signal, perhaps with a core.
 * [any] */
void fault_wait(void);

/* Ends the process at once, without a note: what _exit() is elsewhere. [any] */
_Noreturn void fault_leave(int status);
