/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-submit.h: SUBMIT and INPUT. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_submit(struct request *r);
void serve_input(struct request *r);
/* What a SUBMIT, an ARRAY or a SCHEDULE of this peer says of its job, without the input. */
/* What is wrong with a SUBMIT or an ARRAY alike. NULL: nothing. */
const char *submit_problem(const struct msg_submit *m);
struct job_request submit_job(const struct msg_submit *m, const struct peer *p);
/* The cost of such a job without its frame, in units of share.h. */
uint32_t submit_cost(const struct job_request *job);
