/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve.h: decides, once a job's plugin is known, whether its user may run this function now, and with which limits.
 * [loop]
 */
#pragma once

#include "table/job.h"

/* For a NEW job with a plugin that is ready or has failed: accepts or refuses it. Returns the function if identical
 * requests in this array may reuse it (arguments and input only, and no crash on record), else NULL. */
struct plugin_function *job_resolve(struct job *job, const char *function);
int job_limit_run(struct job *job); /* applies the configured limit of its run; 0 or -ENOMEM */
