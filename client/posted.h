/* SPDX-License-Identifier: Apache-2.0
 *
 * posted.h: jobs that other threads have submitted. One thread a handle, which is not the one that posts.
 */
#pragma once

#include <stdbool.h>

struct wsd_client;

/* Submits what was posted since. What is refused is told to its done. */
void posted_submit(struct wsd_client *client);
/* Tells each that its handle is gone, or frees it silently in a child of fork(). */
void posted_lose(struct wsd_client *client);
bool posted_any(const struct wsd_client *client);
