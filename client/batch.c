/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c: many jobs of one function as a unit.
 * Owns struct wsd_batch from open until the user has freed it and its last call is done. One thread a handle.
 * Where wsd knows no batches, or what is submitted is durable, each job goes by itself, and a failure stops the rest
 * from here. */
#include "batch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "bounds.h"
#include "client.h"
#include "given.h"
#include "packed.h"
#include "query.h"
#include "submit.h"
#include "proto/records.h"

struct wsd_batch {
    struct request request;
    struct call_unit unit; /* of its calls, and of arrays */
    struct list link;      /* client->batches */
    struct wsd_client *client;
    struct wsd_submit common;
    struct gathering gathering;
    char tags[CODEC_TAGS_MAX];
    char *texts; /* of common */
    uint32_t flags;
    uint64_t n_lost;        /* client->connection.n_lost, when it was opened */
    uint64_t deadline_usec; /* of what waits for it; 0: none of its own */
    bool native;            /* wsd knows it */
    bool closed, ended, freed, stopped;
    unsigned n_waits; /* under way: it stays, even if a callback frees it */
    uint64_t n_calls, n_open, n_refused;
    uint64_t first_failed;
    struct list stoppable; /* where wsd does not know it: open calls that it has not cancelled, by `order` */
    int error, exit;       /* wsd has refused it */
    char *text;
    uint64_t retry_usec;
    struct wsd_batch_info info;
};

/* --- the batch ---------------------------------------------------------------------------------------------------- */

static void batch_destroy(struct wsd_batch *b)
{
    request_close(&b->client->connection, &b->request);
    list_remove(&b->link);
    list_remove(&b->stoppable);
    free(b->text);
    free(b->texts);
    free(b);
}

/* wsd_client_reconnect() was called since: nothing of it is on this connection. */
static bool is_gone(const struct wsd_batch *b)
{
    return b->n_lost != b->client->connection.n_lost;
}

/* All of it is known, whatever becomes of the connection. */
static bool is_known(const struct wsd_batch *b)
{
    return b->closed && !b->n_open && (!b->native || b->ended || b->error);
}

static bool is_over(const struct wsd_batch *b)
{
    return is_known(b) || (b->closed && !b->n_open && b->client->connection.broken) || is_gone(b);
}

static int say_gone(const struct wsd_batch *b)
{
    return failure_set(&b->client->failure, -ECONNRESET, CODE_NO_DAEMON,
                       "the batch went with the connection that it was opened on: open another one");
}

static void batch_settle(struct wsd_batch *b)
{
    if (b->freed && !b->n_waits && is_over(b) && !b->gathering.pending)
        batch_destroy(b);
}

static void batch_broken(struct connection *c, struct request *request)
{
    struct wsd_batch *b = container_of(request, struct wsd_batch, request);

    request_close(c, request);
    batch_settle(b);
}

static void info_of(const struct msg_batch_state *m, struct wsd_batch_info *ret)
{
    *ret = (struct wsd_batch_info){.size = sizeof(*ret),
                                   .uid = m->uid,
                                   .closed = m->flags & BATCH_CLOSED,
                                   .ended = m->flags & BATCH_ENDED,
                                   .stopped = m->flags & BATCH_STOPPED,
                                   .exit = (int)m->exit,
                                   .total = m->total,
                                   .queued = m->queued,
                                   .running = m->running,
                                   .done = m->done,
                                   .failed = m->failed,
                                   .submitted_usec = m->submitted_usec};
    memcpy(ret->id.bytes, m->id, sizeof(ret->id));
}

static void info_give(const struct wsd_batch_info *info, struct wsd_batch_info *ret)
{
    size_t size = ret ? MIN(ret->size, sizeof(*ret)) : 0;

    if (!ret)
        return;
    memcpy(ret, info, size);
    ret->size = size;
}

static void batch_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct wsd_batch *b = container_of(request, struct wsd_batch, request);
    struct wsd_client *client = client_of(c);

    if (msg->type == FRAME_BATCH_STATE) {
        info_of(&msg->batch_state, &b->info);
        b->ended = b->info.ended;
    } else if (msg->type == FRAME_ERROR) {
        b->error = failure_remote(&client->failure, &msg->error);
        b->exit = client->failure.exit;
        b->retry_usec = client->failure.retry_usec;
        b->text = strdup(client->failure.text);
        if (!b->text)
            connection_break(&client->connection, -ECONNRESET, CODE_IO, "out of memory");
    } else {
        connection_break_protocol(&client->connection, "unexpected for a batch:", msg->type);
    }
    if (client->connection.broken || !(b->ended || b->error))
        return;
    request_close(&client->connection, &b->request);
    batch_settle(b);
}

static const struct request_ops batch_ops = {.frame = batch_frame, .broken = batch_broken};

/* Cancels the calls from `first` on: each once, whatever the order in which others fail. 0 or a negative errno,
 * said. */
static int stop_from(struct wsd_batch *b, uint64_t first)
{
    b->stopped = true;
    while (!list_empty(&b->stoppable)) {
        struct wsd_call *last = container_of(b->stoppable.prev, struct wsd_call, stoppable);
        int r = last->order < first ? 0 : wsd_call_cancel(last);

        if (r < 0 || last->order < first)
            return r;
        list_remove(&last->stoppable);
    }
    return 0;
}

/* Of a batch that wsd knows nothing of. */
static void count_end(struct wsd_batch *b, const struct wsd_call *call, int error)
{
    if (error == -EAGAIN) {
        b->n_refused++;
        return;
    }
    b->info.done++;
    if (!error && (!call->has_job || call->result->info.state == WSD_JOB_SUCCEEDED))
        return;
    if (!b->info.failed++ || call->order < b->first_failed) {
        b->first_failed = call->order;
        b->info.exit = error ? call->exit : call->result->info.exit;
    }
    if (!(b->flags & WSD_BATCH_KEEP_GOING) && !b->client->connection.broken)
        stop_from(b, call->order + 1);
}

static struct wsd_batch *batch_of(const struct call_unit *unit)
{
    return container_of(unit, struct wsd_batch, unit);
}

static void item_done(struct call_unit *unit)
{
    struct wsd_batch *b = batch_of(unit);

    b->n_open--;
    batch_settle(b);
}

static void call_done(struct wsd_call *call, int error)
{
    struct wsd_batch *b = batch_of(call->batch);

    if (!b->native)
        count_end(b, call, error);
    call->batch = NULL;
    list_remove(&call->stoppable);
    item_done(&b->unit);
}

/* What the description of a job has of the options that all have alike. */
#define ALIKE(name, place, told) ALIKE_##told(name)
#define ALIKE_YES(name)          ret->name = b->gathering.submit.submit.name;
#define ALIKE_NO(name)

static void describe(const struct call_unit *unit, struct msg_job *ret)
{
    const struct wsd_batch *b = batch_of(unit);

    KEPT_OPTIONS(ALIKE)
    ret->batch = (struct span){(const char *)b->info.id.bytes, sizeof(b->info.id)};
}

static void refusal(const struct call_unit *unit, struct msg_end *ret)
{
    const struct wsd_batch *b = batch_of(unit);

    if (!b->error)
        return;
    ret->exit = (uint32_t)b->exit;
    ret->error = (struct span){b->text, strnlen(b->text, CODEC_TEXT_MAX - 1)};
    ret->queued_usec = b->retry_usec;
}

static const struct call_unit_ops unit_ops = {
    .done = call_done, .item_done = item_done, .describe = describe, .refusal = refusal};

void batches_tear(struct wsd_client *client)
{
    list_for_each_entry_safe (struct wsd_batch, b, after, &client->batches, link) {
        b->n_waits = 0;
        batch_settle(b);
    }
}

void batches_free(struct wsd_client *client)
{
    while (!list_empty(&client->batches))
        batch_destroy(container_of(client->batches.next, struct wsd_batch, link));
}

/* --- the user's calls --------------------------------------------------------------------------------------------- */

/* Copies what common points to. 0 or -ENOMEM. */
static int copy_common(struct wsd_batch *b)
{
    const struct wsd_submit from = b->common;

    b->texts = malloc(packed_size(&from) + 1);
    if (!b->texts)
        return -ENOMEM;
    packed_put(&from, b->texts, &b->common);
    return 0;
}

static int batch_prepare(struct wsd_batch *b)
{
    struct wsd_client *client = b->client;
    struct msg open = {.type = FRAME_BATCH, .batch = {.action = BATCH_OPEN}};
    int r;

    if (b->common.flags & (WSD_SUBMIT_STREAM | WSD_SUBMIT_PROGRESS | WSD_SUBMIT_FILE | WSD_SUBMIT_OUTPUT) ||
        (b->common.key && b->common.key[0]) || b->common.arena)
        return failure_set(
            &client->failure, -EINVAL, CODE_USAGE,
            "jobs of a batch have neither key, arena, streamed input, descriptors of files nor progress");
    if (b->flags & ~(uint32_t)(WSD_BATCH_KEEP_GOING | WSD_BATCH_DETACH | WSD_BATCH_WAIT))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "unknown flags");
    if (b->flags & WSD_BATCH_DETACH && !(b->common.flags & WSD_SUBMIT_DETACH))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "WSD_BATCH_DETACH goes with WSD_SUBMIT_DETACH");
    if (copy_common(b) < 0)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    b->gathering.batch = &b->unit;
    r = gathering_describe(&b->gathering, client, &b->common, b->tags);
    b->native = client->connection.features & FEATURE_ARRAY && !(b->common.flags & WSD_SUBMIT_DURABLE);
    if (r < 0 || !b->native)
        return r;
    open.batch.flags = BATCH_PROGRESS | (b->flags & WSD_BATCH_DETACH ? BATCH_DETACH : 0u) |
                       (b->flags & WSD_BATCH_KEEP_GOING ? BATCH_KEEP_GOING : 0u);
    r = request_open(&client->connection, &b->request);
    if (r == 0)
        r = connection_send(&client->connection, &open, b->request.tag, NULL, 0);
    b->gathering.submit.submit.batch = b->request.tag;
    return r < 0 ? connection_failed(&client->connection, r) : 0;
}

int wsd_batch_open(struct wsd_client *client, const struct wsd_submit *common, uint32_t flags,
                   struct wsd_batch **ret_batch)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct wsd_submit room;
    int r;

    if (!used)
        return -ECHILD;
    common = GIVEN(&client->failure, wsd_submit, common, &room, &r);
    if (!common)
        return r;
    struct wsd_batch *b = calloc(1, sizeof(*b));
    if (!b)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    b->common = *common;
    b->common.args = NULL;
    b->common.input = NULL;
    b->common.n_args = b->common.input_size = 0;
    b->client = client;
    b->n_lost = client->connection.n_lost;
    b->deadline_usec = b->common.deadline_usec ? deadline_in(b->common.deadline_usec) : 0;
    b->common.deadline_usec = 0; /* its jobs have none of their own */
    b->flags = flags;
    b->info.size = sizeof(b->info);
    list_init(&b->link);
    list_init(&b->stoppable);
    list_init(&b->request.open);
    b->request.ops = &batch_ops;
    b->unit.ops = &unit_ops;
    r = connection_ready(&client->connection);
    if (r == 0)
        r = batch_prepare(b);
    if (r < 0) {
        batch_destroy(b);
        return r;
    }
    list_push_back(&client->batches, &b->link);
    *ret_batch = b;
    return 0;
}

/* 0 where it takes another item, else an error, said. */
static int batch_takes(const struct wsd_batch *b)
{
    if (is_gone(b))
        return say_gone(b);
    if (b->closed || b->stopped)
        return failure_set(&b->client->failure, b->closed ? -EPIPE : -ECANCELED, b->closed ? CODE_IO : CODE_CANCELLED,
                           b->closed ? "the batch was closed" : "the batch was stopped");
    return b->client->connection.broken ? connection_failed(&b->client->connection, b->client->connection.broken) : 0;
}

void batch_set_owner(struct wsd_batch *b, struct item_owner *owner)
{
    /* Of others there is more to be told than their ends. */
    if (b->native && b->client->connection.features & FEATURE_BRIEF &&
        !(b->common.flags & (WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE)))
        b->gathering.owner = owner;
}

int batch_submit_bare(struct wsd_batch *b, const struct wsd_item *given, size_t place)
{
    int r = batch_takes(b);

    if (r < 0 || !b->gathering.owner || given->size != sizeof(*given))
        return r < 0 ? r : 1;
    r = array_submit_bare(b->client, &b->gathering, given, place);
    if (r == 0) {
        b->n_calls++;
        b->n_open++;
    }
    return r;
}

int batch_submit(struct wsd_batch *b, const struct wsd_item *given, const struct wsd_callbacks *callbacks,
                 struct wsd_call **ret_call)
{
    struct wsd_client *client = b->client;
    struct wsd_submit submit = b->common;
    struct wsd_item room;
    struct wsd_call *call;
    int r;

    const struct wsd_item *item = GIVEN(&client->failure, wsd_item, given, &room, &r);
    if (!item)
        return r;
    submit.args = item->args;
    submit.n_args = item->n_args;
    submit.input = item->input;
    submit.input_size = item->input_size;
    r = submit_prepare(client, &submit, callbacks, &call);
    if (r < 0)
        return r;
    call->batch = &b->unit;
    r = b->native && array_holds(&b->gathering, &submit) ? array_submit(&b->gathering, &submit, call)
                                                         : submit_alone(call, &submit, b->native ? b->request.tag : 0);
    if (r < 0) {
        call_destroy(call);
        return r;
    }
    call->order = b->n_calls++;
    if (!b->native)
        list_push_back(&b->stoppable, &call->stoppable);
    b->n_open++;
    if (ret_call)
        *ret_call = call;
    return 0;
}

int wsd_batch_submit(struct wsd_batch *b, const struct wsd_item *item, const struct wsd_callbacks *callbacks,
                     struct wsd_call **ret_call)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(b->client);

    if (ret_call)
        *ret_call = NULL;
    if (!used)
        return -ECHILD;
    int r = batch_takes(b);
    if (r == 0)
        r = bounds_check(used, false);
    return r < 0 ? r : batch_submit(b, item, callbacks, ret_call);
}

static int batch_say(struct wsd_batch *b, const struct msg *msg)
{
    int r = b->native && b->client->connection.broken && !is_known(b) ? b->client->connection.broken : 0;

    if (r == 0 && b->native && b->request.listed)
        r = connection_send(&b->client->connection, msg, b->request.tag, NULL, 0);
    return r < 0 ? connection_failed(&b->client->connection, r) : 0;
}

int wsd_batch_close(struct wsd_batch *b)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(b->client);
    int r;

    if (!used)
        return -ECHILD;
    if (is_gone(b) && !is_known(b))
        return say_gone(b);
    r = b->closed ? 0 : batch_say(b, &(struct msg){.type = FRAME_BATCH, .batch = {.action = BATCH_CLOSE}});
    b->closed = b->closed || r == 0;
    return r;
}

int wsd_batch_cancel(struct wsd_batch *b)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(b->client);

    if (!used)
        return -ECHILD;
    if (is_gone(b) && !is_known(b))
        return say_gone(b);
    if (b->native)
        return batch_say(b, &(struct msg){.type = FRAME_CANCEL});
    return stop_from(b, 0);
}

int wsd_batch_look(const struct wsd_batch *b, struct wsd_batch_info *ret_info)
{
    struct wsd_batch_info info = b->info;

    if (!owner_is_here(&b->client->owner))
        return -ECHILD;
    if (!b->native) {
        info.closed = b->closed;
        info.ended = is_known(b);
        info.stopped = b->stopped;
        info.total = b->n_calls - b->n_refused;
        info.queued = info.total - info.done;
    }
    info_give(&info, ret_info);
    return 0;
}

/* Cancels its jobs, unless they are detached. */
static void batch_stop(struct wsd_batch *b)
{
    if (!(b->common.flags & WSD_SUBMIT_DETACH)) /* which goes with WSD_BATCH_DETACH */
        wsd_batch_cancel(b);
}

uint64_t batch_deadline(const struct wsd_batch *b)
{
    bool keeps;

    return waiting_for_job(&b->client->connection.waiting, UINT64_MAX, b->deadline_usec, &keeps);
}

/* Nothing waits for it any longer. Returns error, said. */
static int give_up(struct wsd_batch *b, int error)
{
    batch_stop(b);
    connection_send_early(&b->client->connection);
    return connection_given_up(&b->client->connection, error);
}

static bool wait_is_over(const void *arg)
{
    const struct wsd_batch *b = arg;

    return b->freed || is_over(b);
}

/* In the midst of this wait. */
static int forgotten(struct wsd_batch *b, int error)
{
    struct wsd_client *client = b->client;

    batch_settle(b);
    return error < 0 ? error
                     : failure_set(&client->failure, -ECANCELED, CODE_CANCELLED, "a callback has freed the batch");
}

int wsd_batch_wait(struct wsd_batch *b, uint64_t timeout_usec, struct wsd_batch_info *ret_info)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(b->client);
    struct wsd_client *client = b->client;
    bool keeps;
    uint64_t deadline = waiting_for_job(&client->connection.waiting, timeout_usec, b->deadline_usec, &keeps);
    int r = wsd_batch_close(b);

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    b->n_waits++;
    if (r == 0)
        r = connection_await(&client->connection, &deadline, wait_is_over, b);
    b->n_waits--;
    if (b->freed)
        return forgotten(b, r);
    if (r == -EINTR || (r == -ETIMEDOUT && !keeps))
        return give_up(b, r);
    if (r == 0 && b->native && !b->ended && !b->error)
        r = connection_failed(&client->connection, client->connection.broken);
    if (r == 0 && b->error) {
        r = failure_set(&client->failure, b->error, b->exit, "%s", b->text);
        client->failure.retry_usec = b->retry_usec;
    }
    if (r == 0)
        wsd_batch_look(b, ret_info);
    return r;
}

struct wsd_batch *wsd_batch_free(struct wsd_batch *b)
{
    if (!b || b->freed)
        return NULL;
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(b->client);
    if (!used)
        return NULL; /* it goes with the handle */
    b->freed = true;
    if (!b->client->connection.broken && !is_over(b)) {
        wsd_batch_close(b);
        batch_stop(b);
    }
    b->closed = true;
    batch_settle(b);
    return NULL;
}

/* --- by id -------------------------------------------------------------------------------------------------------- */

struct await {
    void (*progress)(const struct wsd_batch_info *info, void *userdata);
    void *userdata;
    struct wsd_batch_info info;
};

/* 1: that was the last. */
static int show_state(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct await *a = query->wanted;

    info_of(&msg->batch_state, &a->info);
    if (a->progress)
        a->progress(&a->info, a->userdata);
    return a->info.ended;
}

static int ask_batch(struct wsd_client *client, const struct wsd_id *id, uint32_t action, struct query *query)
{
    struct msg msg = {
        .type = FRAME_BATCH,
        .batch = {.action = action, .flags = action == BATCH_AWAIT ? BATCH_PROGRESS : 0, .id = {.has_id = true}}};
    int r = connection_wants(&client->connection, FEATURE_ARRAY);

    memcpy(msg.batch.id.id, id->bytes, sizeof(msg.batch.id.id));
    r = r < 0 ? r : query_run(client, &msg, query);
    if ((r == -ETIMEDOUT || r == -EINTR) && action == BATCH_AWAIT && !client->connection.broken)
        connection_send(&client->connection, &(struct msg){.type = FRAME_FORGET}, query->request.tag, NULL, 0);
    return r > 0 ? 0 : r;
}

int wsd_client_batch(struct wsd_client *client, const struct wsd_id *id, struct wsd_batch_info *ret_info)
{
    struct await a = {.progress = NULL};
    struct query query = {.each = FRAME_BATCH_STATE, .end = FRAME_BATCH_STATE, .show = show_state, .wanted = &a};
    int r = ask_batch(client, id, BATCH_STATUS, &query);

    if (r == 0)
        info_give(&a.info, ret_info);
    return r;
}

int wsd_client_batch_await(struct wsd_client *client, const struct wsd_id *id, uint64_t timeout_usec,
                           void (*progress)(const struct wsd_batch_info *info, void *userdata), void *userdata,
                           struct wsd_batch_info *ret_info)
{
    struct await a = {.progress = progress, .userdata = userdata};
    struct query query = {
        .each = FRAME_BATCH_STATE, .show = show_state, .wanted = &a, .timeout_usec = timeout_usec ? timeout_usec : 1};
    int r = ask_batch(client, id, BATCH_AWAIT, &query);

    if (r == 0)
        info_give(&a.info, ret_info);
    return r;
}

int wsd_client_batch_cancel(struct wsd_client *client, const struct wsd_id *id)
{
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    return ask_batch(client, id, BATCH_CANCEL, &query);
}
