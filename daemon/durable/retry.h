/* SPDX-License-Identifier: Apache-2.0
 *
 * retry.h: keys and retries: a job that is submitted twice is the same one; a job that ends badly is retried. [loop]
 */
#pragma once

#include "table/policy.h"

int policy_make(struct job *job, const struct job_request *r); /* 0 or -ENOMEM */
void policy_free(struct job *job);
struct job *key_find(struct jobs *jobs, uint32_t uid, const char *key);
/* The job comes to this end. True: it is delayed for another try instead. */
bool retry_again(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
/* For a job that is DELAYED and not durable while wsd ends: the last try's end becomes its end; without one it is
 * interrupted. */
void retry_drain(struct job *job);
