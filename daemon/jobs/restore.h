/* SPDX-License-Identifier: Apache-2.0
 *
 * restore.h: makes jobs of the rows on disk, at the start; opens and closes the store. [loop]
 */
#pragma once

#include "jobs/policy.h"

/* Makes a job of a row. given: arguments and inline input, where the row does not point at them. Returns 0 or a
 * negative errno. */
int restore_job(struct jobs *jobs, const struct store_row *row, const void *given, struct job **ret_job);
void restore_end(struct jobs *jobs); /* at wsd's end: waits until all requests are on disk */
