/* SPDX-License-Identifier: Apache-2.0
 *
 * restore.h: makes jobs of the rows on disk, at the start. [loop]
 */
#pragma once

#include "table/policy.h"

struct store_row;

/* What a start has found on disk. */
struct restored {
    struct jobs *jobs;
    uint64_t n, n_left; /* rows; those of which no job could be made */
};

/* Makes a job of a row. given: arguments and inline input, where the row does not point at them. Returns 0 or a
 * negative errno. */
int restore_job(struct jobs *jobs, const struct store_row *row, const void *given, struct job **ret_job);
int restore_row(const struct store_row *row, void *userdata); /* the same for store_open(): struct restored. 0 */
/* Called when all were read: looks again at jobs that may have begun, and at those that wait for others. */
void restore_look_again(struct jobs *jobs);
