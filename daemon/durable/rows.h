/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h: what was asked for of a job, to and from the row that is on disk. [loop]
 */
#pragma once

#include "store/store.h"
#include "table/job.h"

/* In function_flags, beside those of <wsd/plugin.h>. */
#define ROW_RUNNER (UINT64_C(1) << 61) /* the plugin is a name of runners */
#define ROW_WAITS  (UINT64_C(1) << 62) /* the job waits for its runner, as long as it takes */
#define ROW_MARKS  (ROW_RUNNER | ROW_WAITS)

/* The request of a row. Its texts are the row's. It has no directory, key, id or input. */
struct job_request row_request(const struct store_row *row);
/* Sets what a schedule's runs ask for. The texts are the request's. */
void row_set_request(struct store_row *row, const struct job_request *r);
/* Sets what was asked for of a durable job, and which job it is. The texts are the job's. Its key, arguments, input and
 * state are for the caller. */
void row_set_job(struct store_row *row, const struct job *job);
