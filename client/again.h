/* SPDX-License-Identifier: Apache-2.0
 *
 * again.h: calls that wait for a connection, and are submitted on it (WSD_SUBMIT_AGAIN). One thread a handle.
 */
#pragma once

#include <stdbool.h>

struct wsd_client;

/* Tells the end of those that were cancelled meanwhile, and submits the others if there is a connection. */
void again_submit(struct wsd_client *client);
/* That has something to do. */
bool again_is_due(const struct wsd_client *client);
