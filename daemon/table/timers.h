/* SPDX-License-Identifier: Apache-2.0
 *
 * timers.h: timers for which there may be no memory. [loop]
 */
#pragma once

#include <stdint.h>

struct event;
struct jobs;

/* Sets one of the timers that jobs_poll() knows. Where there is no memory for that, jobs_poll() looks at all of them
 * and sets those that should run. */
void jobs_timer(struct jobs *jobs, struct event *timer, uint64_t usec);
