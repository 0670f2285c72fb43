/* SPDX-License-Identifier: Apache-2.0
 *
 * monitor.h: finds workers that block without saying so; for the files of this folder only.
 */
#pragma once

/* The thread of a pool's monitor, until the pool has ended. */
void *monitor_main(void *pool);
