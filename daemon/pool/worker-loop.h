/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-loop.h: what a worker's thread does; for the files of this folder only.
 */
#pragma once

/* The thread of a struct worker, from its hiring until the pool has ended. */
void *worker_main(void *worker);
