/* SPDX-License-Identifier: Apache-2.0
 *
 * again.c: wsd_client_submit(), and calls that are submitted again (WSD_SUBMIT_AGAIN, WSD_SUBMIT_TWICE).
 * Owns nothing: a call has its copy of the submit (call.h), and call.c parks it where its connection ends. One thread a
 * handle.
 * Keeps: parked calls are submitted in the order in which they were parked, before anything newer. A turn takes what
 * was parked before it: a callback that submits again cannot hold it up.
 * Does not connect (loop.c), and does not decide which calls may be repeated (call.c). */
#include "again.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "client.h"
#include "direct.h"
#include "given.h"
#include "packed.h"
#include "submit.h"
#include "text.h"

#define AGAIN ((uint32_t)(WSD_SUBMIT_AGAIN | WSD_SUBMIT_TWICE))

static bool is_ready(const struct wsd_client *client)
{
    const struct connection *c = &client->connection;

    return c->welcomed && !c->broken && !client->freed && c->n_opened + FRAME_FDS <= OPENED_MAX;
}

/* By the way that it asks for. 0 or an error, said. */
static int submit_call(struct wsd_call *call, const struct wsd_submit *submit)
{
    return submit->flags & WSD_SUBMIT_DIRECT ? direct_submit(call, submit) : plain_submit(call, submit);
}

/* --- what is parked ----------------------------------------------------------------------------------------------- */

static struct call_repeat *first_parked(struct wsd_client *client)
{
    return list_empty(&client->calls.parked) ? NULL : container_of(client->calls.parked.next, struct call_repeat, link);
}

static void end_cancelled(struct wsd_client *client, struct call_repeat *r)
{
    const char *function = r->submit.function ? r->submit.function : "";
    const struct msg_job job = {.plugin = {r->submit.plugin, strlen(r->submit.plugin)},
                                .function = {function, strlen(function)},
                                .state = WSD_JOB_CANCELLED,
                                .exit = CODE_CANCELLED};

    call_unpark(r->call);
    if (r->may_have_run)
        call_fail(r->call, failure_set(&client->failure, -ECONNRESET, CODE_INTERRUPTED,
                                       "cancelled before it was submitted again: it may have run"));
    else
        call_has_ended(client, r->call, &job, NULL, 0);
}

/* Those parked up to this number. */
static void end_cancelled_ones(struct wsd_client *client, uint64_t last)
{
    bool any = client->calls.parked_ends;

    while (any) {
        struct call_repeat *cancelled = NULL;

        list_for_each_entry (struct call_repeat, r, &client->calls.parked, link)
            if (r->call->cancelled && r->number <= last) {
                cancelled = r;
                break;
            }
        client->calls.parked_ends = false; /* unless a callback cancels another one */
        any = cancelled;
        if (cancelled)
            end_cancelled(client, cancelled);
    }
}

/* False: not now. */
static bool submit_parked(struct wsd_client *client, struct call_repeat *r)
{
    struct wsd_call *call = r->call;

    call_unpark(call);
    submit_renew(call, &r->submit);
    int e = submit_call(call, &r->submit);
    if (e == -EAGAIN && !client->connection.broken && client->connection.n_opened + FRAME_FDS > OPENED_MAX) {
        call_park(call);
        return false;
    }
    if (e < 0 && client->connection.broken)
        call_lost(client, call);
    else if (e < 0)
        call_fail(call, e);
    return true;
}

bool again_is_due(const struct wsd_client *client)
{
    return client->calls.parked_ends || (!list_empty(&client->calls.parked) && is_ready(client));
}

void again_submit(struct wsd_client *client)
{
    if (!again_is_due(client))
        return;
    uint64_t last = client->calls.n_parked;
    end_cancelled_ones(client, last);
    for (struct call_repeat *r; is_ready(client) && (r = first_parked(client)) && r->number <= last;)
        if (!submit_parked(client, r))
            break;
    if (is_ready(client))
        connection_send_early(&client->connection);
}

/* --- submitting --------------------------------------------------------------------------------------------------- */

static int check(struct wsd_client *client, const struct wsd_submit *submit)
{
    if (client->connection.broken && !client->loop.flags)
        return connection_failed(&client->connection, -ECONNRESET);
    if (!(client->loop.flags & WSD_OPEN_AGAIN))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_AGAIN and TWICE go with a handle that was opened with WSD_OPEN_AGAIN");
    if (submit->flags & (WSD_SUBMIT_STREAM | WSD_SUBMIT_OUTPUT) || submit->arena)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_AGAIN and TWICE go without STREAM, OUTPUT and an arena");
    return 0;
}

/* The copy that it is submitted with each time. 0 or an error, said. */
static int keep_copy(struct wsd_call *call, const struct wsd_submit *submit)
{
    size_t size = packed_size(submit);
    struct call_repeat *r = malloc(sizeof(*r) + size);

    if (!r)
        return failure_set(&call->client->failure, -ENOMEM, CODE_IO, "out of memory");
    *r = (struct call_repeat){.call = call, .size = size};
    list_init(&r->link);
    packed_put(submit, r->room, &r->submit);
    int e = packed_hold(&r->submit);
    if (e < 0) {
        free(r);
        return failure_set(&call->client->failure, e, exit_of_error(e), "input_fd: %s", strerror(-e));
    }
    bool kept = submit->flags & WSD_SUBMIT_DURABLE && submit->key && submit->key[0];
    r->twice = kept || submit->flags & WSD_SUBMIT_TWICE;
    r->submit.flags &= ~AGAIN;
    call->repeat = r;
    call->repeats = true;
    return 0;
}

/* One that may be submitted again: now, or when there is a connection. */
static int submit_or_park(struct wsd_call *call, const struct wsd_submit *submit)
{
    struct wsd_client *client = call->client;
    char tags[CODEC_TAGS_MAX];
    struct msg unused;
    int r = keep_copy(call, submit);

    if (r < 0)
        return r;
    if (is_ready(client) && list_empty(&client->calls.parked))
        return submit_call(call, &call->repeat->submit);
    struct wsd_submit plain = call->repeat->submit;
    plain.flags &= ~(uint32_t)WSD_SUBMIT_DIRECT;
    if (submit->flags & WSD_SUBMIT_DIRECT)
        plain.output_size = 0;
    if (submit_message(&plain, call, tags, &unused) == -EINVAL) /* what depends on wsd is found out later */
        return -EINVAL;
    call_park(call);
    call_is_open(call);
    return 0;
}

int wsd_client_submit(struct wsd_client *client, const struct wsd_submit *given, const struct wsd_callbacks *callbacks,
                      struct wsd_call **ret_call)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct wsd_submit room;
    struct wsd_call *call;
    int r;

    if (ret_call)
        *ret_call = NULL;
    if (!used)
        return -ECHILD;
    const struct wsd_submit *submit = GIVEN(&client->failure, wsd_submit, given, &room, &r);
    if (!submit)
        return r;
    bool again = submit->flags & AGAIN && !client->freed;
    if ((again && (r = check(client, submit)) < 0) || (r = bounds_check(client, again)) < 0 ||
        (r = submit_prepare(client, submit, callbacks, &call)) < 0)
        return r;
    r = again ? submit_or_park(call, submit) : submit_call(call, submit);
    if (r < 0)
        call_destroy(call);
    else if (ret_call)
        *ret_call = call;
    return r;
}
