/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c: a handle: its beginning and end, and what its connection does not know.
 * Owns the parts of a handle, each of which its file looks after. One thread a handle. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "array.h"
#include "asked.h"
#include "base/code.h"
#include "batch.h"
#include "bounds.h"
#include "connecting.h"
#include "direct.h"
#include "given.h"
#include "lane-binding.h"
#include "loop.h"
#include "open.h"
#include "posted.h"

#define CONNECT_TIMEOUT_USEC (5u * 1000000u)

/* --- words -------------------------------------------------------------------------------------------------------- */

static bool is_here(const struct wsd_client *client)
{
    return owner_is_here(&client->owner);
}

uint64_t wsd_client_retry_usec(const struct wsd_client *client)
{
    return client && is_here(client) ? client->failure.retry_usec : 0;
}

const char *wsd_client_error(const struct wsd_client *client)
{
    if (!client)
        return "out of memory";
    return is_here(client) ? client->failure.text
                           : "the handle is another process's, of which this one is a child: open one here, or "
                             "wsd_client_adopt() it";
}

int wsd_client_exit(const struct wsd_client *client)
{
    if (!client)
        return CODE_IO;
    return is_here(client) ? client->failure.exit : CODE_USAGE;
}

const char *wsd_client_daemon_version(const struct wsd_client *client)
{
    return client->connection.daemon_version;
}

bool wsd_client_takes_files(const struct wsd_client *client)
{
    return is_here(client) && connection_takes_files(&client->connection);
}

/* --- what the connection does not know ---------------------------------------------------------------------------- */

static int send_gathered(struct connection *c)
{
    direct_push(client_of(c));
    return arrays_send(client_of(c));
}

static bool look_at_lane(struct connection *c)
{
    return direct_look(client_of(c));
}

/* A wait for a parked call is one for a connection. */
static int step(struct connection *c, uint64_t deadline_usec)
{
    const struct list *parked = &client_of(c)->calls.parked;

    if (!list_empty(parked))
        return loop_step(client_of(c), deadline_usec);
    int r = connection_step(c, deadline_usec);
    return c->broken && !list_empty(parked) ? 0 : r;
}

static uint64_t lane_due(struct connection *c)
{
    return direct_due(client_of(c));
}

/* All that was in the output is sent. */
static void pump(struct connection *c)
{
    struct wsd_client *client = client_of(c);

    calls_pump(client);
    bounds_tell(client);
}

static void answer_stray(struct connection *c, uint32_t tag, const struct msg *msg)
{
    if (msg->type == FRAME_OPEN)
        open_answer(c, (struct span){0}, tag, &msg->open); /* every OPEN is answered */
}

static void reap_calls(struct connection *c)
{
    calls_reap(client_of(c));
}

static void connection_gone(struct connection *c)
{
    struct wsd_client *client = client_of(c);

    lane_free(client);
    plain_forget(client);
}

static void stop_watching(struct connection *c)
{
    loop_unwatch(client_of(c));
}

/* What the calls on the stack have kept there is no more: it is as when the call began that is about to end. */
static void tear(struct wsd_client *client, bool last)
{
    struct connection *c = &client->connection;
    const struct level *l = &client->levels[owner_depth(&client->owner) - 1];

    c->depth = l->depth;
    c->n_waits = l->n_waits;
    c->stop_at = l->stop_at;
    arrays_keep(client);
    client->torn = !last;
    if (!last)
        return;
    calls_tear(client);
    arrays_tear(client);
    direct_tear(client);
    asked_tear(client);
    if (client->lane)
        client->lane->n_wanted = 0;
    batches_tear(client);
    connection_tear(c);
    client->rests = !client->freed;
}

/* What comes behind callbacks that did not return. */
static void mend(struct connection *c)
{
    struct wsd_client *client = client_of(c);

    if (!client->rests)
        return;
    client->rests = false; /* unless another one does not return */
    calls_mend(client);
    arrays_mend(client);
    direct_mend(client);
    asked_mend(client);
    connection_tell_end(c);
}

int wsd_client_unwound(struct wsd_client *client)
{
    if (!is_here(client))
        return -ECHILD;
    if (owner_was_idle(&client->owner))
        return 0;
    owner_leave_all(&client->owner);
    client_leavep(&client);
    return 0;
}

static const struct connection_ops connection_ops = {
    .gathered = send_gathered,
    .room = pump,
    .beside = look_at_lane,
    .beside_due = lane_due,
    .step = step,
    .mend = mend,
    .stray = answer_stray,
    .reap = reap_calls,
    .closing = stop_watching,
    .gone = connection_gone,
};

/* --- beginning and end -------------------------------------------------------------------------------------------- */

static void destroy(struct wsd_client *client)
{
    /* from here on a call in a callback is not the outermost one, which destroys */
    owner_enter(&client->owner);
    connection_tell_end(&client->connection); /* where a callback of wsd_client_free() did not return */
    calls_lose_parked(client);
    posted_lose(client);
    calls_free(client); /* of callbacks that came after */
    batches_free(client);
    connection_reap(&client->connection);
    connection_deinit(&client->connection);
    free(client->job_texts);
    arrays_forget(client);
    free(client->direct);
    calls_deinit(client);
    owner_deinit(&client->owner);
    free(client);
}

static struct wsd_client *client_new(void)
{
    struct wsd_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    if (owner_init(&client->owner) < 0) {
        free(client);
        return NULL;
    }
    client->destroy = destroy;
    client->tear = tear;
    calls_init(client);
    list_init(&client->batches);
    list_init(&client->questions);
    list_init(&client->closed_arrays);
    if (connection_init(&client->connection, &connection_ops, &client->failure) < 0)
        return wsd_client_free(client);
    return client;
}

static uint64_t connect_deadline(const struct waiting *w, uint64_t timeout_usec)
{
    return deadline_in(timeout_usec ? timeout_usec : w->deadline_usec ? w->deadline_usec : CONNECT_TIMEOUT_USEC);
}

/* Where wsd is, and how long calls wait. tls: on another machine, whatever is given. 0 or a negative errno, said. */
static int settle(struct wsd_client *client, const struct wsd_open *given, bool tls, uint64_t *ret_timeout_usec)
{
    struct connection *c = &client->connection;
    struct wsd_open room;
    int r;

    const struct wsd_open *how = GIVEN(&client->failure, wsd_open, given, &room, &r);
    if (!how)
        return r;
    const char *host = how->socket || how->tls ? NULL : secure_getenv("WSD_HOST");
    c->waiting = (struct waiting){how->deadline_usec, how->interrupted, how->userdata};
    if (how->flags & ~(uint32_t)(WSD_OPEN_LATER | WSD_OPEN_AGAIN))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "unknown flags");
    if (how->user && strlen(how->user) >= sizeof(c->user))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "user: no user has a name of more than %zu bytes",
                           sizeof(c->user) - 1);
    snprintf(c->user, sizeof(c->user), "%s", how->user ? how->user : "");
    tls = tls || how->tls || (host && *host);
    if (tls && *c->user)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE,
                           "user: only connections of this machine act for another one: leave TLS and WSD_HOST out");
    *ret_timeout_usec = how->timeout_usec;
    client->loop.flags = how->flags;
    client->loop.timeout_usec = how->timeout_usec ? how->timeout_usec : CONNECT_TIMEOUT_USEC;
    client->loop.state = how->state;
    client->loop.state_userdata = how->state_userdata;
    return tls ? remote_init(&c->remote, how->tls, &client->failure)
               : address_find(how->socket, &c->address, &client->failure);
}

static int open_client(struct wsd_client **ret_client, const struct wsd_open *given, bool tls)
{
    struct wsd_client *client = *ret_client = client_new();
    uint64_t timeout_usec = 0;

    if (!client)
        return -ENOMEM;
    struct connection *c = &client->connection;
    int r = settle(client, given, tls, &timeout_usec);
    if (r < 0) {
        client->loop.flags = 0; /* there is nowhere to connect to, now or later */
        connection_fail(c, r);
        return r;
    }
    if (client->loop.flags)
        return loop_connect(client);
    return connection_connect(c, connect_deadline(&c->waiting, timeout_usec));
}

int wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec)
{
    const struct wsd_open how = {.size = sizeof(how), .socket = socket, .timeout_usec = timeout_usec};

    return open_client(ret_client, &how, false);
}

int wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec)
{
    const struct wsd_open how = {.size = sizeof(how), .tls = tls, .timeout_usec = timeout_usec};

    return open_client(ret_client, &how, true);
}

int wsd_client_open_with(struct wsd_client **ret_client, const struct wsd_open *how)
{
    return open_client(ret_client, how, false);
}

int wsd_client_reconnect(struct wsd_client *client, uint64_t timeout_usec)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct connection *c = &client->connection;

    if (!used)
        return -ECHILD;
    mend(c);
    loop_tell(client); /* of its end, which another call has found */
    if (client->freed)
        return connection_broken(c);
    int r = connection_reconnect(c, connect_deadline(&c->waiting, timeout_usec));
    loop_tell(client);
    return r;
}

int wsd_client_set_deadline(struct wsd_client *client, uint64_t deadline_usec)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    client->connection.waiting.deadline_usec = deadline_usec;
    return 0;
}

int wsd_client_set_interrupt(struct wsd_client *client, int (*interrupted)(void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    client->connection.waiting.interrupted = interrupted;
    client->connection.waiting.userdata = userdata;
    return 0;
}

int wsd_client_adopt(struct wsd_client *client)
{
    if (is_here(client))
        return 0;
    if (!owner_was_idle(&client->owner))
        return -EBUSY;
    owner_take(&client->owner);
    client_enter(client);
    if (client->connection.epoll_fd >= 0) /* it is watched, and shared with the parent */
        loop_unwatch(client);
    connection_narrow(&client->connection);
    direct_forget(client);
    if (client->lane) {
        lane_forget(client->lane);
        lane_give_back(client, client->lane);
    }
    client_leavep(&client);
    return 0;
}

/* In a child of fork(): wsd and the parent notice nothing, and no callback is made. False: what the handle points to
 * was not whole at the fork, and so is not freed. */
static bool forsake(struct wsd_client *client)
{
    connection_forsake(&client->connection);
    client->loop.watch = NULL;
    if (!owner_was_idle(&client->owner))
        return false;
    direct_forget(client);
    if (client->lane)
        lane_forget(client->lane);
    calls_mute(client);
    connection_break(&client->connection, -ECHILD, CODE_USAGE, "the handle is another process's");
    return true;
}

struct wsd_client *wsd_client_free(struct wsd_client *client)
{
    if (!client || client->freed || (!is_here(client) && !forsake(client)))
        return NULL;
    client_begin(client);
    _cleanup_(client_leavep) struct wsd_client *used = client;
    client->freed = true;
    loop_unwatch(client);
    connection_close(&client->connection);
    calls_lose_parked(client);
    posted_lose(client);
    calls_free(used);
    return NULL;
}
