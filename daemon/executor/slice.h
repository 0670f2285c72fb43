/* SPDX-License-Identifier: Apache-2.0
 *
 * slice.h: how soon a worker that wakes gets a CPU that others are on.
 */
#pragma once

/* Gives the calling thread a short slice. When it wakes for a job, it runs before a thread that has just run; a thread
 * that is woken while it runs need not wait long. Its share of the CPU does not change. Its children, and the threads
 * that a plugin starts, have the ordinary slice. Does nothing if the kernel knows no slices (before Linux 6.12), or if
 * the thread has a policy without them or is below nice 0. */
void slice_shorten(void);
