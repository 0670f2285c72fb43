/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.h: what an event loop calls, and is told. One thread a handle.
 */
#pragma once

#include <stdint.h>

struct wsd_client;

/* Begins to connect, for a loop that goes on with it. 0, or an error, said, where nothing is tried again. */
int loop_connect(struct wsd_client *client);
/* Tells state() what has become of the connection. */
void loop_tell(struct wsd_client *client);
/* Waits until something has happened, processes it, and connects again where that is due. 0, -ETIMEDOUT, -EINTR, or what
 * ended the connection for good. */
int loop_step(struct wsd_client *client, uint64_t deadline_usec);
/* The descriptor is about to be closed. */
void loop_unwatch(struct wsd_client *client);
