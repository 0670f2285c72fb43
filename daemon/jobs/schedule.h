/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h: jobs that are submitted again and again, when their calendar says so. [loop]
 */
#pragma once

#include "jobs/job.h"

int schedule_restore(const struct store_row *row, void *userdata); /* the jobs: one that is on disk; 0 or -ENOMEM */
void schedules_start(struct jobs *jobs);                           /* all were read */
void schedules_stop(struct jobs *jobs);                            /* no more runs */
void schedules_were_set(void *context);                            /* the clock was */
void schedules_free(struct jobs *jobs);
void schedule_unanswered(struct schedule *s); /* a request to the store will not be */
