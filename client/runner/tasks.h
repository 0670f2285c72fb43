/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.h: makes the thread that runs a job a worker, so that its function may fork and join (wsd/task.h).
 */
#pragma once

#include "runner.h"

struct held;
struct tasks;

/* For jobs of up to WSD_RUNNER_THREADS_MAX threads. offer: its worker_start and worker_stop are called on the threads
 * that help, with numbers from first_number on; NULL: nothing is. 0 or a negative errno. Not with the lock. */
int tasks_new(struct tasks **ret_tasks, const struct wsd_plugin *offer, uint32_t first_number);
/* No job runs. NULL is fine; returns NULL. */
struct tasks *tasks_free(struct tasks *t);
/* Calls what(h, self) on this thread. Others may help with what that forks. Returns its status. ret_cpu_usec: what all
 * of them used for it; NULL: the kernel is not asked. Not with the lock, and not where tasks_is_here(). */
int tasks_run(struct tasks *t, struct held *h, int (*what)(struct held *h, struct wsd_worker *self),
              uint64_t *ret_cpu_usec);
/* Whether this thread runs a job, or a task of one. */
bool tasks_is_here(const struct tasks *t);
