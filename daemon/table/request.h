/* SPDX-License-Identifier: Apache-2.0
 *
 * request.h: what a request asks of its job beyond what each job has. [loop]
 */
#pragma once

#include "table/job.h"

/* Whether the request has a promise for the job beyond one run: struct policy. */
bool request_has_policy(const struct job_request *r);
/* Whether its job needs a struct job_more from the start. */
bool request_wants_more(const struct job_request *r);
/* Gives the job what the request asks for, but for its policy, input and order. 0 or -ENOMEM. */
int request_apply(const struct job_request *r, struct job *job);
