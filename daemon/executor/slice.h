/* SPDX-License-Identifier: Apache-2.0
 *
 * slice.h: how soon a worker that wakes gets a CPU that others are on.
 */
#pragma once

/* The calling thread asks for a short slice: one that wakes for a job comes before what has just run, and who is woken
 * while it runs need not wait long. Its share of the CPU is as before. Its children, and the threads that a plugin
 * starts, have the ordinary slice. Where the kernel knows no slices (before Linux 6.12), the thread is of a policy
 * without them or below nice 0: nothing happens. */
void slice_shorten(void);
