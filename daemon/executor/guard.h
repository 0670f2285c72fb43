/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h: what jobs leave behind in their thread and process.
 *
 * Found after a job, between two jobs, at a small part of the time that these take: what a fault needs to be told
 * (signal mask, handlers, their stack) is put back; anything else means that the executor is spoilt, which wsd is told
 * once, with the reason.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Remembers how the process is. [main, once all limits are in force and before READY] */
void guard_init(int control_fd);

/* Remembers how the thread is. [worker, before its first job] */
void guard_thread_begin(void);

/* The thread runs no job. `sleeps`: and is about to sleep, so that what this costs delays no job. [worker] */
void guard_look(bool sleeps);

/* wsd has asked whether the process is alive: whether the locks of stdin, stdout and stderr are to be had is looked at
 * too. [control thread] */
void guard_health(void);

/* A plugin is being loaded, which may try a signal handler of its own. [control thread, in pairs] */
void guard_load_begin(void);
void guard_load_end(void);

/* Tells wsd, once, that later jobs should have a fresh process. [any] */
void guard_spoilt(const char *reason);
