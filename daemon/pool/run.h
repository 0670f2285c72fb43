/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h: runs what a worker has found; for the files of this folder only.
 */
#pragma once

#include "pool/find.h"

/* Runs a stolen task and tells its owner. descendant: the task descends from what this worker waits for. [owner of
 * w] */
void worker_run_stolen(struct worker *w, const struct stolen *s, bool descendant);
void worker_run(struct worker *w, const struct found *f);
