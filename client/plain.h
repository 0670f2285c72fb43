/* SPDX-License-Identifier: Apache-2.0
 *
 * plain.h: gathers the calls of wsd_client_submit() that nothing else comes between. One thread a handle.
 */
#pragma once

#include "array.h"

struct plain {
    struct gathering gathering;
    char *texts; /* that it points to; NULL: nothing was submitted on this connection */
};

/* Whether the description has only what a plain call may have. */
bool plain_fits(const struct wsd_submit *submit);
/* A job by the socket, whatever waits to be sent. */
int plain_submit(struct wsd_call *call, const struct wsd_submit *submit);
/* The connection is over: nothing is gathered. */
void plain_forget(struct wsd_client *client);
