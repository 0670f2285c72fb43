/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.h: where the output of a job goes.
 */
#pragma once

#include "stream.h"
#include "submit-options.h"

/* Where the output goes; input: the descriptor of what the job reads, or -1 where it is not open. 0 or the exit code,
 * said. */
int output_open_job(struct output *output, const struct submit_options *options, int input);
