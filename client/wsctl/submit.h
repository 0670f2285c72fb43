/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.h: where the output of a job goes, and jobs inside wsctl.
 */
#pragma once

#include "stream.h"
#include "submit-options.h"

/* Where the output goes; input: the descriptor of what the job reads, or -1 where it is not open. 0 or the exit code,
 * said. */
int output_open_job(struct output *output, const struct submit_options *options, int input);

/* local.c: runs it inside this process. Returns the exit code. */
int submit_local(const struct ctl *ctl, const struct submit_options *options);
