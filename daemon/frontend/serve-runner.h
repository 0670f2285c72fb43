/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-runner.h: RUNNER_OPEN, and what a runner says of its runs. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_runner_open(struct request *r);
void serve_runner_close(struct request *r);
void serve_run_output(struct request *r);
void serve_run_message(struct request *r);
void serve_run_progress(struct request *r);
void serve_run_open(struct request *r);
void serve_run_end(struct request *r);
void serve_run_pong(struct request *r);
