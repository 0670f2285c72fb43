/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-hints.h: what a worker guesses of the next microseconds from what it has just done. Should other workers come?
 * Should it look on before it sleeps? Does a client wait for this CPU? [worker: each thread has its own]
 */
#pragma once

#include <stdbool.h>

/* Whether what the worker has taken is expected to be over before another worker would be awake. */
void hints_set_brief(bool brief);
bool hints_brief(void);

/* What was taken is being run: it may wait for other jobs, so other workers should come. */
void hints_begun(void);
/* That is something other than a direct call. */
void hints_not_direct(void);

/* Whether the worker's last job was a direct call, after which the next one may come at once. */
bool hints_may_spin(void);
/* Another worker looks for the next one. */
void hints_no_spin(void);

/* The worker has slept. woken: an event ended that. */
void hints_slept(bool woken);
/* A direct call was answered. woke: that has woken its client. Gives the CPU away where the client may need it. */
void hints_answered(bool woke);
