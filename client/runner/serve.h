/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.h: threads that run the jobs of a runner.
 */
#pragma once

#include "runner.h"

/* Runs jobs until the runner has left, on this thread and further ones. As wsd_runner_run(), but takes its arguments
 * for right. [lock of the runner] */
int serve(struct wsd_runner *r, unsigned threads);
/* A thread that is no worker has read; the connection is over. [lock of the runner] */
void serve_looked(struct wsd_runner *r);
void serve_lost(struct wsd_runner *r);
