/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c: one question, and the frames of its answer.
 * Owns nothing beyond the call: the struct query of one that is waited for lives on the stack of query_run(), any other
 * is asked.c's. One thread a handle.
 * Keeps: whatever happens, no request is left behind that points to the stack. `over` is called once, last.
 * Does not know what is asked (questions.c, asked.c). */
#include "query.h"

#include <errno.h>
#include <string.h>

#include "base/code.h"
#include "client.h"
#include "text.h"

#define HURRY_USEC 1000000u /* for an answer that is to end with what there is */

void query_end(struct wsd_client *client, struct query *query, int result)
{
    query->done = true;
    query->result = result;
    if (query->over && query->n_shown && result < 0)
        query->words = strdup(client->failure.text); /* or what the callback makes of it */
    request_close(&client->connection, &query->request);
}

static void tell_over(struct wsd_client *client, struct query *query)
{
    if (query->over && query->done && !query->n_shown)
        query->over(client, query);
}

static void query_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct query *query = container_of(request, struct query, request);
    struct wsd_client *client = client_of(c);
    int r = 0;

    if (msg->type == FRAME_ERROR) {
        query_end(client, query, failure_remote(&client->failure, &msg->error));
        tell_over(client, query);
        return;
    }
    bool each = msg->type == query->each || msg->type == query->also[0] || msg->type == query->also[1];
    if (!each && msg->type != query->end) {
        connection_break_protocol(&client->connection, "unexpected answer:", msg->type);
        return;
    }
    if (msg->type == query->end)
        query_end(client, query, 0); /* before show, which may process the connection */
    bool moves = msg->type == FRAME_PIECE || msg->type == FRAME_RELOADED || msg->type == FRAME_JOB ||
                 msg->type == FRAME_PLUGIN; /* which may have to be loaded first */
    if (moves && !c->waiting.deadline_usec)
        query->deadline = connection_answer_deadline(c);
    if (each && query->show) {
        client->connection.depth++;
        query->current = frame;
        query->n_shown++;
        r = query->show(client, query, msg);
        query->n_shown--;
        client->connection.depth--;
    }
    if (r == 0 && client->freed)
        r = connection_broken(c);
    if (r != 0 && !query->done)
        query_end(client, query, r);
    else if (r != 0)
        query->result = r;
    tell_over(client, query);
}

static void query_broken(struct connection *c, struct request *request)
{
    struct query *query = container_of(request, struct query, request);

    query_end(client_of(c), query, connection_broken(c));
    tell_over(client_of(c), query);
}

static const struct request_ops query_ops = {.frame = query_frame, .broken = query_broken};

static bool is_answered(const void *arg)
{
    return ((const struct query *)arg)->done;
}

int query_begin(struct wsd_client *client, const struct msg *msg, struct query *query)
{
    struct connection *c = &client->connection;
    int r = c->broken ? connection_broken(c) : connection_ready(c);

    if (r < 0)
        return r;
    query->deadline =
        query->timeout_usec ? waiting_deadline(&c->waiting, query->timeout_usec) : connection_answer_deadline(c);
    list_init(&query->request.open);
    query->request.ops = &query_ops;
    r = request_open(c, &query->request);
    if (r == 0)
        r = connection_send(c, msg, query->request.tag, NULL, 0);
    if (r == 0)
        return 0;
    request_close(c, &query->request);
    return failure_set(&client->failure, r, exit_of_error(r), "%s",
                       r == -EINVAL ? "the question is above a limit" : strerror(-r));
}

struct run {
    struct wsd_client *client;
    struct query *query;
};

/* It is on the stack of a caller, also where an exception ends that. */
static void run_leavep(struct run *run)
{
    request_close(&run->client->connection, &run->query->request);
}

/* The program has ended the wait: the answer ends with what there is. -EINTR: wsd is older, or does not answer. */
static int hurry(struct wsd_client *client, struct query *query)
{
    struct connection *c = &client->connection;
    int (*interrupted)(void *userdata) = c->waiting.interrupted;
    int r = connection_send(c, &(struct msg){.type = FRAME_CANCEL}, query->request.tag, NULL, 0);

    c->waiting.interrupted = NULL;
    query->deadline = deadline_in(HURRY_USEC);
    if (r == 0)
        r = connection_await(c, &query->deadline, is_answered, query);
    c->waiting.interrupted = interrupted;
    return r == -ETIMEDOUT ? connection_given_up(c, -EINTR) : r;
}

int query_run(struct wsd_client *client, const struct msg *msg, struct query *query)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    int r;

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    r = query_begin(client, msg, query);
    if (r < 0)
        return r;
    __attribute__((unused)) _cleanup_(run_leavep) struct run run = {client, query};
    client->connection.depth++;
    r = connection_await(&client->connection, &query->deadline, is_answered, query);
    if (r == -EINTR && query->hurries && !query->done)
        r = hurry(client, query);
    client->connection.depth--;
    if (!query->done)
        query_end(client, query, r);
    connection_reap(&client->connection);
    return query->result;
}
