/* SPDX-License-Identifier: Apache-2.0
 *
 * restore.h: what is on disk becomes jobs again, at the start; and the way to the store and back. [loop]
 */
#pragma once

#include "jobs/policy.h"

/* A job that is on disk; given: arguments and inline input, where the row does not point at them. 0 or a negative
 * errno. */
int restore_job(struct jobs *jobs, const struct store_row *row, const void *given, struct job **ret_job);
void restore_end(struct jobs *jobs); /* at wsd's end: writes what is on its way */
