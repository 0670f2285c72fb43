/* SPDX-License-Identifier: Apache-2.0
 *
 * bounds.h: how much the user may submit. One thread a handle.
 */
#pragma once

#include <stdbool.h>

struct wsd_client;

/* Whether the user may submit one more. waits: it can wait for a connection. 0, or -EAGAIN, said. */
int bounds_check(struct wsd_client *client, bool waits);
/* All that was in the output is sent: where a submit was refused, tells its user when there is room again. */
void bounds_tell(struct wsd_client *client);
