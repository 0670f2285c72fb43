/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h: finds what jobs leave behind in their thread and process.
 *
 * The guard looks between two jobs, and takes a small part of their time. It restores what the report of a fault needs:
 * the signal mask, the handlers and their stack. Anything else means that the executor is spoilt. wsd is told so once,
 * with the reason.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Records the state of the process. running() says how many jobs run. [main, once all limits are in force and before
 * READY] */
void guard_init(int control_fd, uint32_t (*running)(void *context), void *context);

/* Records the state of the thread. [worker, before its first job] */
void guard_thread_begin(void);

/* Looks while the thread runs no job. sleeps: the thread is about to sleep, so the cost delays no job. [worker] */
void guard_look(bool sleeps);
/* Looks at a thread that will sleep for long, however soon after the last look. [worker] */
void guard_retire(void);

/* Called when wsd has asked for a sign of life. Also checks that the locks of stdin, stdout and stderr can be taken.
 * [control thread] */
void guard_health(void);

/* Around the loading of a plugin, which may install a signal handler for a moment. [control thread, in pairs] */
void guard_load_begin(void);
void guard_load_end(void);

/* Tells wsd, once, that later jobs should have a fresh process. [any] */
void guard_spoilt(const char *reason);
