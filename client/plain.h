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

/* wsd_client_submit(), whatever waits to be sent. */
int plain_submit(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                 struct wsd_call **ret_call);
/* The connection is over: nothing is gathered. */
void plain_forget(struct wsd_client *client);
