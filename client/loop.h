/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.h: what an event loop calls, and is told. One thread a handle.
 */
#pragma once

struct wsd_client;

/* Begins to connect, for a loop that goes on with it. 0, or an error, said, where nothing is tried again. */
int loop_connect(struct wsd_client *client);
/* Tells state() what has become of the connection. */
void loop_tell(struct wsd_client *client);
/* The descriptor is about to be closed. */
void loop_unwatch(struct wsd_client *client);
