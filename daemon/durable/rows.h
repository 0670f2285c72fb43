/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h: what was asked for of a job, to and from the row that is on disk. [loop]
 */
#pragma once

#include "store/store.h"
#include "table/job.h"

/* The request of a row. Its texts are the row's. It has no directory, key, id or input. */
struct job_request row_request(const struct store_row *row);
/* Sets what a schedule's runs ask for. The texts are the request's. */
void row_set_request(struct store_row *row, const struct job_request *r);
/* Sets what was asked for of a durable job, and which job it is. The texts are the job's. Its key, arguments, input and
 * state are for the caller. */
void row_set_job(struct store_row *row, const struct job *job);
