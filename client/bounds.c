/* SPDX-License-Identifier: Apache-2.0
 *
 * bounds.c: how much waits to be sent, how many calls are open, and the marks above which no more is taken. One thread a
 * handle. */
#include "bounds.h"

#include <errno.h>

#include "array.h"
#include "base/code.h"
#include "client.h"

size_t wsd_client_unsent(const struct wsd_client *client)
{
    return owner_is_here(&client->owner)
               ? buffer_size(&client->connection.out) + arrays_unsent(client) + client->calls.parked_bytes
               : 0;
}

size_t wsd_client_open_calls(const struct wsd_client *client)
{
    return owner_is_here(&client->owner) ? client->calls.n_open : 0;
}

int wsd_client_set_bounds(struct wsd_client *client, size_t unsent_max, size_t calls_max, void (*room)(void *userdata),
                          void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    client->bounds = (struct bounds){.unsent_max = unsent_max,
                                     .calls_max = calls_max,
                                     .full = client->bounds.full,
                                     .room = room,
                                     .userdata = userdata};
    return 0;
}

static int refuse(struct wsd_client *client, size_t n, const char *why)
{
    client->bounds.full = true;
    return failure_set(&client->failure, -EAGAIN, CODE_BUSY, "%zu %s", n, why);
}

int bounds_check(struct wsd_client *client, bool waits)
{
    struct bounds *b = &client->bounds;
    struct connection *c = &client->connection;

    if (c->broken && !(client->loop.flags & WSD_OPEN_AGAIN))
        return 0; /* the submit says so */
    if (!waits && (c->broken || !c->welcomed)) {
        b->full = true;
        return connection_not_yet(c);
    }
    if (b->calls_max && client->calls.n_open >= b->calls_max)
        return refuse(client, client->calls.n_open, "calls are open: wait for the end of some");
    if (!b->unsent_max || wsd_client_unsent(client) < b->unsent_max)
        return 0;
    connection_send_early(c);
    return wsd_client_unsent(client) < b->unsent_max
               ? 0
               : refuse(client, wsd_client_unsent(client), "bytes wait to be sent: process the connection first");
}

void bounds_tell(struct wsd_client *client)
{
    struct bounds *b = &client->bounds;
    struct connection *c = &client->connection;

    if (!b->full || !c->welcomed || wsd_client_unsent(client))
        return; /* before the welcome: a callback would not know what wsd can */
    if (b->calls_max && client->calls.n_open >= b->calls_max)
        return;
    b->full = false;
    c->depth++;
    if (b->room)
        b->room(b->userdata);
    c->depth--;
}
