/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c: a handle: its beginning and end, what its event loop calls, and what its connection does not know.
 * Owns the parts of a handle, each of which its file looks after. One thread a handle. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "array.h"
#include "base/code.h"
#include "batch.h"
#include "lane.h"
#include "open.h"

#define CONNECT_TIMEOUT_USEC (5u * 1000000u)

/* --- words -------------------------------------------------------------------------------------------------------- */

uint64_t wsd_client_retry_usec(const struct wsd_client *client)
{
    return client ? client->failure.retry_usec : 0;
}

const char *wsd_client_error(const struct wsd_client *client)
{
    return client ? client->failure.text : "out of memory";
}

int wsd_client_exit(const struct wsd_client *client)
{
    return client ? client->failure.exit : CODE_IO;
}

const char *wsd_client_daemon_version(const struct wsd_client *client)
{
    return client->connection.daemon_version;
}

bool wsd_client_takes_files(const struct wsd_client *client)
{
    return connection_takes_files(&client->connection);
}

/* --- the event loop's calls --------------------------------------------------------------------------------------- */

int wsd_client_fd(const struct wsd_client *client)
{
    return client->connection.fd;
}

short wsd_client_events(const struct wsd_client *client)
{
    return connection_events(&client->connection);
}

int wsd_client_process(struct wsd_client *client)
{
    return connection_process(&client->connection);
}

int wsd_client_flush(struct wsd_client *client)
{
    return connection_flush(&client->connection);
}

int wsd_client_wait(struct wsd_client *client, uint64_t timeout_usec)
{
    return connection_step(&client->connection, connection_deadline(timeout_usec));
}

/* --- what the connection does not know ---------------------------------------------------------------------------- */

static int send_gathered(struct connection *c)
{
    return arrays_send(client_of(c));
}

static void pump(struct connection *c)
{
    calls_pump(client_of(c));
}

static void answer_stray(struct connection *c, uint32_t tag, const struct msg *msg)
{
    if (msg->type == FRAME_OPEN)
        open_answer(c, (struct span){0}, tag, &msg->open); /* every OPEN is answered */
}

static void reap(struct connection *c)
{
    calls_reap(client_of(c));
}

static void connection_gone(struct connection *c)
{
    struct wsd_client *client = client_of(c);

    lane_free(client);
    plain_forget(client);
}

static const struct connection_ops connection_ops = {
    .gathered = send_gathered,
    .room = pump,
    .stray = answer_stray,
    .reap = reap,
    .gone = connection_gone,
};

/* --- beginning and end -------------------------------------------------------------------------------------------- */

static struct wsd_client *client_new(void)
{
    struct wsd_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    calls_init(client);
    list_init(&client->batches);
    if (connection_init(&client->connection, &connection_ops, &client->failure) < 0)
        return wsd_client_free(client);
    return client;
}

static uint64_t connect_deadline(uint64_t timeout_usec)
{
    return connection_deadline(timeout_usec ? timeout_usec : CONNECT_TIMEOUT_USEC);
}

/* socket: where remote is false. */
static int open_client(struct wsd_client **ret_client, bool remote, const struct wsd_tls *tls, const char *socket,
                       uint64_t timeout_usec)
{
    uint64_t deadline = connect_deadline(timeout_usec);
    struct wsd_client *client = *ret_client = client_new();
    struct connection *c = client ? &client->connection : NULL;
    int r;

    if (!client)
        return -ENOMEM;
    if (!remote)
        r = address_find(socket, &c->address, &client->failure);
    else if ((r = remote_init(&c->remote, tls)) < 0)
        failure_set(&client->failure, r, CODE_IO, "%s", strerror(-r));
    if (r == 0)
        return connection_connect(c, deadline);
    connection_fail(c, r);
    return r;
}

int wsd_client_reconnect(struct wsd_client *client, uint64_t timeout_usec)
{
    return connection_reconnect(&client->connection, connect_deadline(timeout_usec));
}

int wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec)
{
    const char *host = socket ? NULL : secure_getenv("WSD_HOST");

    return open_client(ret_client, host && *host, NULL, socket, timeout_usec);
}

int wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec)
{
    return open_client(ret_client, true, tls, NULL, timeout_usec);
}

struct wsd_client *wsd_client_free(struct wsd_client *client)
{
    if (!client)
        return NULL;
    connection_close(&client->connection);
    calls_free(client);
    batches_free(client);
    connection_reap(&client->connection);
    connection_deinit(&client->connection);
    free(client->job_texts);
    arrays_forget(client);
    calls_deinit(client);
    free(client);
    return NULL;
}
