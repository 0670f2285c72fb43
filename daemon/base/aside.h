/* SPDX-License-Identifier: Apache-2.0
 *
 * aside.h: runs work that may take for ever on a thread of its own, without waiting for it.
 */
#pragma once

#include <stdbool.h>

struct aside;

/* Starts a thread that calls work(context), with all signals blocked. release(context), if any, is called once, by the
 * thread or by aside_forget(), when neither needs the context. On failure nothing was called. 0 or a negative errno. */
int aside_start(struct aside **ret, void (*work)(void *context), void (*release)(void *context), void *context);
/* Readable when the work is done; it stays the aside's. */
int aside_fd(const struct aside *a);
/* True: the work is done, and what it has written may be read. */
bool aside_done(const struct aside *a);
/* The caller gives up its interest; the thread may go on. NULL is fine; returns NULL. */
struct aside *aside_forget(struct aside *a);
