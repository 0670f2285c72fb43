/* SPDX-License-Identifier: Apache-2.0
 *
 * pin.h: the CPUs that workers are pinned to; for the files of this folder only.
 */
#pragma once

#include "pool/worker.h"

/* Moves to its CPU if the pool pins workers. [owner of w] */
void worker_pin(struct worker *w);
