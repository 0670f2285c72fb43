/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h: schedules: jobs that are submitted again and again, by a calendar. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct jobs;
struct schedule;
struct store_row;

struct schedules {
    struct hash by_name;
    uint64_t last_number; /* on disk */
};

/* makes a schedule of a row; userdata is the jobs; 0 or -ENOMEM */
int schedule_restore(const struct store_row *row, void *userdata);
void schedules_start(struct jobs *jobs); /* called when all were read */
void schedules_stop(struct jobs *jobs);  /* ends all runs */
void schedules_were_set(void *context);  /* the clock was set */
void schedules_free(struct jobs *jobs);
void schedule_unanswered(struct schedule *s); /* its request to the store will get no answer */
