/* SPDX-License-Identifier: Apache-2.0
 *
 * array.c: calls of one description that go in one frame, and come back in few.
 * Owns the arrays, one for each frame, until the last of its items has ended. One thread a handle.
 * Keeps: what was gathered leaves before anything that is sent after it was submitted; each item is told its end once.
 * An item of wsd_map() is a struct wsd_call only when there is more to be said of it than that it went well. */
#include "array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/code.h"
#include "client.h"
#include "submit.h"
#include "text.h"
#include "proto/records.h"

/* the next array has the room of one that was sent, where it is no more than this */
#define SPARE_BODY     (16u * 1024u)
#define ITEM_INPUT_MAX (32u * 1024u) /* what is larger goes in a SUBMIT of its own */
/* So many leave at once: they are worth a system call, and wsd and its workers begin while their submitter goes on. */
#define ARRAY_ITEMS 128u
#define BARE_ITEMS  512u /* the same for items that are no calls: their map waits for all */
_Static_assert(ARRAY_ITEMS <= BARE_ITEMS && BARE_ITEMS <= CODEC_ITEMS_MAX, "a frame takes them");

#define NOWHERE SIZE_MAX

/* Ends of a frame that is being handled. A callback out of one of them may have the next frame handled: it takes what
 * is left of this one first. A callback that does not return leaves the rest here. */
struct records {
    struct records *next; /* of the frame behind it */
    struct msg_ends ends;
    struct span body; /* of the frame: all spans below point there */
    struct span left;
    struct msg_end several; /* the record for several items that is being handled, */
    struct span ones;       /* and what is left of it: n_ones */
    uint32_t n_ones;
    bool refuses;             /* or it refuses those items */
    struct wsd_job_info info; /* what items that are no calls have in common */
    char *kept;               /* the body is this copy; NULL: it is the connection's */
    char texts[];             /* of ends */
};

struct array_item {
    struct wsd_call *call; /* NULL: it has ended, or is none */
    size_t place;          /* with the owner of the array; NOWHERE: it has ended, or has become a call */
};

/* The items of one frame. */
struct array {
    struct request request;
    struct call_unit unit; /* of those of its items that are calls */
    struct list unsent;    /* connection->gathered, until it is; or closed_arrays */
    struct wsd_client *client;
    struct gathering *gathering; /* that it is the last of; NULL when it was sent */
    struct call_unit *batch;     /* as long as an item is open; NULL: of none */
    uint32_t n, n_open;
    uint64_t sent_at; /* as of a call */
    uint32_t n_refused;
    uint32_t n_doubtful;     /* of those that are not refused yet: so many will be, after ACCEPTED */
    struct msg_id first;     /* of item 0, as ACCEPTED said */
    unsigned busy;           /* frames that are being handled */
    struct records *records; /* of those, oldest first */
    bool over;
    bool torn;                 /* of a callback: what comes behind it is due */
    bool accepting;            /* its items are being told so */
    bool leaves;               /* its calls are done when they are accepted; ends that come after that are dropped */
    bool given_up;             /* so are ends of items that were no calls */
    bool quiet;                /* no callback needs ACCEPTED */
    struct buffer body;        /* until it is sent */
    struct item_owner *owner;  /* of items that are no calls; NULL: each is a call */
    uint32_t room;             /* of items */
    struct array_item items[]; /* n of them, the others not zeroed */
};

static bool is_full(const struct array *a)
{
    return a->n == (a->owner ? BARE_ITEMS : ARRAY_ITEMS);
}

static bool is_bare(const struct array *a, uint32_t i)
{
    return a->owner && a->items[i].place != NOWHERE;
}

static void item_done(struct array *a)
{
    a->n_open--;
    a->batch->ops->item_done(a->batch);
}

/* An item that is no call: it has failed, as the words of the client say. */
static void bare_failed(struct array *a, uint32_t i, int error)
{
    size_t place = a->items[i].place;

    a->items[i].place = NOWHERE;
    item_done(a);
    a->owner->ops->failed(a->owner, place, error);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static struct array *array_destroy(struct array *a)
{
    if (a) {
        buffer_deinit(&a->body);
        free(a);
    }
    return NULL;
}

void arrays_forget(struct wsd_client *client)
{
    client->spare_array = array_destroy(client->spare_array);
    buffer_deinit(&client->spare_body);
}

/* An array that waits for its ends has none. The next one takes its room. */
static void body_give(struct array *a)
{
    struct buffer *spare = &a->client->spare_body;

    if (a->body.room > SPARE_BODY || spare->room || SLAB_MOST == 0) {
        buffer_deinit(&a->body);
        return;
    }
    *spare = (struct buffer){.data = a->body.data, .room = a->body.room};
    a->body = (struct buffer){0};
}

static void records_free(struct array *a, struct records *r)
{
    struct records **at = &a->records;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r->kept);
    free(r);
}

static void array_free(struct array *a)
{
    struct wsd_client *client = a->client;

    while (a->records)
        records_free(a, a->records);
    list_remove(&a->unsent);
    request_close(&client->connection, &a->request);
    body_give(a);
    if (client->spare_array || SLAB_MOST == 0)
        array_destroy(a);
    else
        client->spare_array = a;
}

static void array_settle(struct array *a)
{
    if (!a->busy && !a->n_open && (a->over || a->client->connection.broken))
        array_free(a);
}

static void array_broken(struct connection *c, struct request *request)
{
    struct array *a = container_of(request, struct array, request);
    struct wsd_client *client = client_of(c);

    if (a->gathering)
        a->gathering->pending = NULL;
    a->gathering = NULL;
    list_remove(&a->unsent);
    a->busy++;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->items[i].call)
            call_lost(client, a->items[i].call);
        else if (is_bare(a, i))
            bare_failed(a, i, call_say_lost(client, a->sent_at, false));
    a->busy--;
    request_close(c, request); /* here: a callback may not return */
    if (a->busy)
        list_push_back(&client->closed_arrays, &a->unsent);
    array_settle(a);
}

static void array_sent(struct array *a)
{
    a->sent_at = connection_position(&a->client->connection);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->items[i].call)
            a->items[i].call->sent_at = a->sent_at;
    list_remove(&a->unsent);
    a->gathering->pending = NULL;
    a->gathering = NULL;
    body_give(a);
}

/* One that is alone, and no part of a batch, is a SUBMIT, with a request of its own. */
static int send_alone(struct array *a)
{
    struct wsd_client *client = a->client;
    struct wsd_call *call = a->items[0].call;
    struct msg msg = a->gathering->submit;
    size_t head = CODEC_ITEM_SIZE + call->args_size;
    int r = request_open(&client->connection, &call->request);

    if (r < 0)
        return r;
    msg.type = FRAME_SUBMIT;
    msg.submit.items = 0;
    msg.submit.flags |= (call->quiet ? SUBMIT_QUIET : 0u) | (call->leaves ? SUBMIT_LEFT : 0u);
    call->left = call->leaves;
    msg.submit.args = (struct span){call->args, call->args_size};
    msg.submit.argc = call->argc;
    r = connection_put(&client->connection, &msg, call->request.tag, buffer_data(&a->body) + head,
                       buffer_size(&a->body) - head);
    if (r < 0) {
        request_close(&client->connection, &call->request);
        return r;
    }
    array_sent(a);
    call->unit = NULL;
    array_free(a);
    return 0;
}

static int array_send(struct array *a)
{
    struct msg msg = a->gathering->submit;
    int r;

    if (a->n == 1 && !a->batch)
        return send_alone(a);
    msg.submit.items = a->n;
    msg.submit.flags |= a->quiet ? SUBMIT_QUIET : 0u;
    r = connection_put(&a->client->connection, &msg, a->request.tag, buffer_data(&a->body), buffer_size(&a->body));
    if (r == 0)
        array_sent(a);
    return r;
}

int arrays_send(struct wsd_client *client)
{
    int r = client->connection.broken;

    while (r == 0 && !list_empty(&client->connection.gathered))
        r = array_send(container_of(client->connection.gathered.next, struct array, unsent));
    return r;
}

size_t arrays_unsent(const struct wsd_client *client)
{
    size_t size = 0;

    list_for_each_entry (struct array, a, &client->connection.gathered, unsent)
        size += buffer_size(&a->body);
    return size;
}

static struct array *array_of(const struct wsd_call *call)
{
    return container_of(call->unit, struct array, unit);
}

static uint32_t array_tag(struct wsd_call *call)
{
    arrays_send(call->client); /* where that fails so does what is sent next */
    return call->unit ? array_of(call)->request.tag : call->request.tag;
}

static void array_call_done(struct wsd_call *call, int error)
{
    struct array *a = array_of(call);

    a->items[call->index].call = NULL;
    a->n_open--;
    call->unit = NULL;
    if (a->leaves && !a->n_open && !a->over && !a->gathering) /* their output gets no credit */
        connection_send(&a->client->connection, &(struct msg){.type = FRAME_FORGET}, a->request.tag, NULL, 0);
    array_settle(a);
}

static const struct call_unit_ops unit_ops = {.tag = array_tag, .done = array_call_done};

static void item_accepted(struct wsd_client *client, struct array *a, uint32_t i)
{
    struct msg_id id = a->first;
    uint64_t low;

    if (!a->items[i].call || a->items[i].call->accepted)
        return;
    memcpy(&low, id.id + 8, sizeof(low));
    low = htole64(le64toh(low) + i);
    memcpy(id.id + 8, &low, sizeof(low));
    call_is_accepted(client, a->items[i].call, &id);
}

static void items_accepted(struct wsd_client *client, struct array *a)
{
    a->accepting = true;
    for (uint32_t i = 0; i < a->n; i++)
        item_accepted(client, a, i);
    a->accepting = false;
}

/* Which items are accepted is unknown while some may still be refused. Accepted are those that are left then, or end
 * before. */
static void array_accepted(struct wsd_client *client, struct array *a, const struct msg_id *id)
{
    uint32_t left = a->n - a->n_refused;

    a->first = *id;
    a->n_doubtful = id->items && id->items < left ? left - id->items : 0;
    if (!a->n_doubtful)
        items_accepted(client, a);
}

static void call_put(struct array *a, uint32_t i, struct wsd_call *call)
{
    call->unit = &a->unit;
    call->sent_at = a->sent_at;
    call->index = i;
    call->input_ended = true;
    call->batch = a->batch;
    a->items[i].call = call;
    a->items[i].place = NOWHERE;
    call_is_open(call);
}

/* That of an item that is open, from now on; NULL: it is not, or there is no memory, which ends the connection. */
static struct wsd_call *call_at(struct array *a, uint32_t i)
{
    struct wsd_call *call;

    if (i >= a->n || !is_bare(a, i))
        return i < a->n ? a->items[i].call : NULL;
    if (a->owner->ops->call(a->owner, a->items[i].place, &call) < 0) {
        connection_break(&a->client->connection, -ECONNRESET, CODE_IO, "out of memory");
        return NULL;
    }
    a->items[i].place = NOWHERE;
    call_put(a, i, call);
    return call;
}

/* A text of a record, with the NUL that it comes without. */
static struct span copied(struct span text, char *room)
{
    memcpy(room, text.data, text.size);
    room[text.size] = 0;
    return (struct span){room, text.size};
}

/* Those of r->several. Where a callback has brought us here, or did not return, some of them have had their end. */
static void take_refusal(struct wsd_client *client, struct array *a, struct records *r)
{
    const struct msg_end *end = &r->several;
    char text[CODEC_TEXT_MAX];
    const struct msg_error error = {
        .code = end->exit, .text = copied(end->error, text), .retry_usec = end->queued_usec};

    for (uint32_t i = end->index; i < end->index + end->n && i < a->n && !client->connection.broken; i++)
        if (a->items[i].call)
            call_is_refused(client, a->items[i].call, &error);
        else if (is_bare(a, i))
            bare_failed(a, i, failure_remote(&client->failure, &error));
    if (!r->refuses)
        return;
    r->refuses = false;
    a->n_refused += MIN(end->n, a->n - a->n_refused);
    if (!a->n_doubtful)
        return;
    a->n_doubtful -= MIN(end->n, a->n_doubtful);
    if (!a->n_doubtful && !client->connection.broken)
        items_accepted(client, a);
}

static void id_of(const struct msg_ends *ends, uint32_t index, uint8_t ret[16])
{
    uint64_t low;

    memcpy(&low, ends->id + 8, sizeof(low));
    low = htole64(le64toh(low) + index);
    memcpy(ret, ends->id, 8);
    memcpy(ret + 8, &low, sizeof(low));
}

/* With the last of its output. */
static void array_end(struct wsd_client *client, struct wsd_call *call, const struct msg_ends *ends,
                      const struct msg_end *end)
{
    struct msg_job job = {.plugin = ends->plugin,
                          .function = ends->function,
                          .error = end->error,
                          .status = end->status,
                          .worker = end->worker,
                          .backtrace = end->backtrace,
                          .state = end->state,
                          .exit = end->exit,
                          .attempts = end->attempts,
                          .uid = ends->uid,
                          .queued_usec = end->queued_usec,
                          .run_usec = end->run_usec,
                          .cpu_usec = end->cpu_usec,
                          .submitted_usec = ends->submitted_usec};

    if (call_has_result(call)) {
        job.done = call->result->progress_done;
        job.total = call->result->progress_total;
    }
    if (call->batch)
        call->batch->ops->describe(call->batch, &job);
    id_of(ends, call->index, job.id);
    call_has_ended(client, call, &job, end->output.data, end->output.size);
}

/* What those items of the frame have in common that are no calls. */
static void describe_bare(const struct array *a, const struct msg_ends *ends, struct wsd_job_info *ret)
{
    struct msg_job job = {.plugin = ends->plugin,
                          .function = ends->function,
                          .state = WSD_JOB_SUCCEEDED,
                          .uid = ends->uid,
                          .submitted_usec = ends->submitted_usec};

    if (a->n_open) /* else its batch may be gone */
        a->batch->ops->describe(a->batch, &job);
    job_info_view(&job, ret);
}

/* And those of one record; worker: room for its name. */
static void describe_end(const struct msg_end *end, char worker[static CODEC_NAME_MAX], struct wsd_job_info *ret)
{
    ret->worker = copied(end->worker, worker).data;
    ret->exit = (int)end->exit;
    ret->attempts = end->attempts;
}

/* An item that is no call, nor need be. */
static void bare_ended(struct array *a, const struct msg_ends *ends, const struct msg_end *end,
                       struct wsd_job_info *info)
{
    size_t place = a->items[end->index].place;

    id_of(ends, end->index, info->id.bytes);
    info->queued_usec = end->queued_usec;
    info->run_usec = end->run_usec;
    info->cpu_usec = end->cpu_usec;
    a->items[end->index].place = NOWHERE;
    item_done(a);
    a->owner->ops->ended(a->owner, place, info, end->output.data, end->output.size);
}

static bool is_plain_end(const struct msg_end *end)
{
    return end->state == WSD_JOB_SUCCEEDED && !end->error.size && !end->status.size && !end->backtrace.size;
}

/* Of one item; info: what is the same for all of its record. */
static void take_end(struct wsd_client *client, struct array *a, const struct records *r, const struct msg_end *end,
                     bool plain, struct wsd_job_info *info)
{
    if (plain && end->index < a->n && is_bare(a, end->index)) {
        bare_ended(a, &r->ends, end, info);
        return;
    }
    struct wsd_call *call = call_at(a, end->index);
    if (call && a->n_doubtful && !a->quiet) {
        item_accepted(client, a, end->index);
        call = a->items[end->index].call; /* it may have left */
    }
    if (!call && (a->leaves || a->given_up || client->connection.broken))
        return;
    if (!call || call->has_job) {
        connection_break_protocol(&client->connection, "an item that is not open in", FRAME_ENDS);
        return;
    }
    if (end->state >= CODEC_STATE_FINAL)
        array_end(client, call, &r->ends, end);
    else
        call_has_output(client, call, end->output.data, end->output.size);
}

static void take_several(struct wsd_client *client, struct array *a, struct records *r)
{
    struct wsd_job_info info = r->info;
    struct msg_end end = r->several;
    char worker[CODEC_NAME_MAX];
    struct msg_one one;

    describe_end(&end, worker, &info);
    end.n = 1;
    while (!client->connection.broken && r->n_ones) {
        end.index = r->several.index + r->several.n - r->n_ones--;
        codec_next_one(&r->ones, &one);
        end.queued_usec = r->several.queued_usec + one.later_usec;
        end.run_usec = one.run_usec;
        end.cpu_usec = one.cpu_usec;
        end.output = one.output;
        take_end(client, a, r, &end, true, &info);
    }
}

static void take_records(struct wsd_client *client, struct array *a, struct records *r)
{
    struct wsd_job_info info = r->info; /* a callback that has brought us here may look at the other */
    char worker[CODEC_NAME_MAX];
    struct msg_end end;

    if (r->refuses)
        take_refusal(client, a, r);
    if (r->n_ones)
        take_several(client, a, r);
    while (!client->connection.broken && codec_next_end(&r->left, &end)) {
        if (end.state == 0) {
            r->several = end;
            r->refuses = true;
            take_refusal(client, a, r);
        } else if (end.n > 1) {
            r->several = end;
            r->ones = end.output;
            r->n_ones = end.n;
            take_several(client, a, r);
        } else {
            describe_end(&end, worker, &info);
            take_end(client, a, r, &end, is_plain_end(&end), &info);
        }
    }
}

/* An item that wsd has not told the end of. */
static bool is_open(const struct array *a, uint32_t i)
{
    return a->items[i].call ? !a->items[i].call->has_job : is_bare(a, i);
}

/* Behind those that are there. NULL: no memory, which ends the connection. */
static struct records *records_new(struct array *a, const struct msg_ends *ends, struct span body)
{
    struct records **last = &a->records, *r = malloc(sizeof(*r) + ends->plugin.size + ends->function.size + 2);

    if (!r) {
        connection_break(&a->client->connection, -ECONNRESET, CODE_IO, "out of memory");
        return NULL;
    }
    *r = (struct records){.ends = *ends, .body = body};
    r->ends.plugin = copied(ends->plugin, r->texts);
    r->ends.function = copied(ends->function, r->texts + ends->plugin.size + 1);
    while (*last)
        last = &(*last)->next;
    return *last = r;
}

/* All of it is told, but where the connection is over. */
static void records_end(struct wsd_client *client, struct array *a, struct records *r)
{
    bool last = r->ends.last;

    records_free(a, r);
    if (!last || client->connection.broken)
        return;
    for (uint32_t i = 0; a->n_open && !a->leaves && i < a->n; i++)
        if (is_open(a, i)) {
            connection_break_protocol(&client->connection, "the last, but not of all items,", FRAME_ENDS);
            return;
        }
    a->over = true;
    request_unlist(&client->connection, &a->request);
}

static void array_ends(struct wsd_client *client, struct array *a, const struct frame *frame,
                       const struct msg_ends *ends)
{
    struct span body = {(const char *)frame->body, frame->body_size};
    struct records *r = records_new(a, ends, body);

    if (!r)
        return;
    r->left = body;
    if (a->owner)
        describe_bare(a, &r->ends, &r->info);
    for (struct records *i = a->records; i; i = i->next)
        take_records(client, a, i);
    records_end(client, a, r);
}

/* All of them, but for those that have ended. */
static void array_refused(struct wsd_client *client, struct array *a, const struct msg_error *error)
{
    struct msg_end refusal = {.n = a->n, .exit = error->code, .queued_usec = error->retry_usec, .error = error->text};

    if (a->batch && a->n_open) /* else the batch may be gone */
        a->batch->ops->refusal(a->batch, &refusal);
    a->over = true;
    request_unlist(&client->connection, &a->request);
    struct records *r = records_new(a, &(struct msg_ends){.plugin = {"", 0}, .function = {"", 0}}, refusal.error);
    if (!r)
        return;
    r->several = refusal;
    r->refuses = true;
    take_records(client, a, r);
    records_end(client, a, r);
}

/* --- callbacks that did not return -------------------------------------------------------------------------------- */

static void rebase(struct span *span, const char *from, size_t size, const char *to)
{
    if (span->data && span->data >= from && span->data <= from + size)
        span->data = to + (span->data - from);
}

/* Copies what it points to in the connection. False: no memory. */
static bool records_keep(struct records *r)
{
    const char *from = r->body.data;
    size_t size = r->body.size;

    if (r->kept || !size)
        return true;
    r->kept = malloc(size);
    if (!r->kept)
        return false;
    memcpy(r->kept, from, size);
    struct span *const spans[] = {&r->body,
                                  &r->left,
                                  &r->ones,
                                  &r->several.error,
                                  &r->several.status,
                                  &r->several.worker,
                                  &r->several.backtrace,
                                  &r->several.output};
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
        rebase(spans[i], from, size, r->kept);
    return true;
}

static struct array *array_of_request(struct request *request);

/* What is left of frames outlives them. */
void arrays_keep(struct wsd_client *client)
{
    bool all = true;

    list_for_each_entry (struct request, request, &client->connection.open, open)
        for (struct records *r = array_of_request(request) ? array_of_request(request)->records : NULL; r; r = r->next)
            all = records_keep(r) && all;
    if (!all)
        connection_break(&client->connection, -ECONNRESET, CODE_IO, "out of memory");
}

void arrays_tear(struct wsd_client *client)
{
    list_for_each_entry (struct request, request, &client->connection.open, open) {
        struct array *a = array_of_request(request);

        if (!a)
            continue;
        a->torn = a->busy || a->records || a->accepting;
        a->busy = 0;
    }
    list_for_each_entry_safe (struct array, a, after, &client->closed_arrays, unsent) {
        a->busy = 0;
        array_settle(a);
    }
}

static struct array *one_torn(struct wsd_client *client)
{
    list_for_each_entry (struct request, request, &client->connection.open, open) {
        struct array *a = array_of_request(request);

        if (a && a->torn)
            return a;
    }
    return NULL;
}

void arrays_mend(struct wsd_client *client)
{
    for (struct array *a; (a = one_torn(client));) {
        a->torn = false;
        a->busy++;
        client->connection.depth++;
        if (a->accepting && !client->connection.broken)
            items_accepted(client, a);
        while (a->records) {
            take_records(client, a, a->records);
            records_end(client, a, a->records);
        }
        client->connection.depth--;
        a->busy--;
        array_settle(a);
    }
}

static void item_progress(struct wsd_client *client, struct wsd_call *call, const struct msg_progress *progress)
{
    struct call_result *result = call_result(call);

    if (!result) {
        connection_break(&client->connection, -ECONNRESET, CODE_IO, "out of memory");
        return;
    }
    result->progress_done = progress->done;
    result->progress_total = progress->total;
}

static void array_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct array *a = container_of(request, struct array, request);
    struct wsd_client *client = client_of(c);
    uint32_t item = msg->type == FRAME_OPEN       ? msg->open.item
                    : msg->type == FRAME_MESSAGE  ? msg->message.item
                    : msg->type == FRAME_PROGRESS ? msg->progress.item
                                                  : CODEC_ITEMS_MAX;
    struct wsd_call *call;

    a->busy++;
    client->connection.depth++;
    if (msg->type == FRAME_END && a->leaves) {
        a->over = true;
        request_unlist(&client->connection, &a->request);
    } else if (msg->type == FRAME_ENDS) {
        array_ends(client, a, frame, &msg->ends);
    } else if (msg->type == FRAME_ACCEPTED) {
        array_accepted(client, a, &msg->id);
    } else if (msg->type == FRAME_ERROR) { /* the batch may have been refused, which is why */
        array_refused(client, a, &msg->error);
    } else if ((call = call_at(a, item)) && msg->type == FRAME_PROGRESS) { /* its last, before its end */
        item_progress(client, call, &msg->progress);
    } else if (call) {
        call_told(client, call, msg);
    } else if (item == CODEC_ITEMS_MAX) {
        connection_break_protocol(&client->connection, "unexpected for an array:", msg->type);
    }
    client->connection.depth--;
    a->busy--;
    array_settle(a);
}

static const struct request_ops array_ops = {.frame = array_frame, .broken = array_broken};

/* NULL: it is none's. */
static struct array *array_of_request(struct request *request)
{
    return request->ops == &array_ops ? container_of(request, struct array, request) : NULL;
}

/* It has its owner until then: a callback may throw, and the owner gives up the rest. */
static void array_give_up(struct array *a, int error)
{
    struct item_owner *owner = a->owner;
    struct failure said = *a->client->connection.failure;

    a->given_up = true;
    a->busy++;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->items[i].place != NOWHERE) {
            size_t place = a->items[i].place;

            a->items[i].place = NOWHERE;
            item_done(a);
            *a->client->connection.failure = said; /* callbacks may have had failures of their own */
            owner->ops->failed(owner, place, error);
        }
    a->owner = NULL;
    a->busy--;
    array_settle(a);
}

/* One of this owner; NULL: there is none. */
static struct array *array_of_owner(struct wsd_client *client, const struct item_owner *owner)
{
    list_for_each_entry_safe (struct request, request, after, &client->connection.open, open) {
        struct array *a = container_of(request, struct array, request);

        if (request->ops == &array_ops && a->owner == owner)
            return a;
    }
    return NULL;
}

void arrays_give_up(struct wsd_client *client, struct item_owner *owner, int error)
{
    for (struct array *a; (a = array_of_owner(client, owner));) /* callbacks may free any of them */
        array_give_up(a, error);
}

static struct array *array_new(struct wsd_client *client, struct gathering *g)
{
    struct array *a = TAKE(client->spare_array);
    uint32_t room = g->owner ? BARE_ITEMS : ARRAY_ITEMS;

    if (a && a->room < room)
        a = array_destroy(a);
    if (!a) {
        a = malloc(sizeof(*a) + room * sizeof(a->items[0]));
        if (!a)
            return NULL;
        *a = (struct array){.room = room};
    }
    a->client = client;
    a->body = client->spare_body;
    client->spare_body = (struct buffer){0};
    a->n = a->n_open = a->n_refused = a->n_doubtful = 0;
    a->records = NULL;
    a->over = a->torn = a->accepting = false;
    a->quiet = true;
    a->sent_at = UINT64_MAX;
    a->leaves = g->leaves;
    a->given_up = false;
    list_init(&a->unsent);
    list_init(&a->request.open);
    a->request.ops = &array_ops;
    a->unit.ops = &unit_ops;
    if (request_open(&client->connection, &a->request) < 0) {
        array_free(a);
        return NULL;
    }
    a->gathering = g;
    a->batch = g->batch;
    a->owner = g->owner;
    g->pending = a;
    list_push_back(&client->connection.gathered, &a->unsent);
    return a;
}

/* --- gathering ---------------------------------------------------------------------------------------------------- */

static bool holds(const struct gathering *g, size_t args, size_t input)
{
    return input <= ITEM_INPUT_MAX && CODEC_ITEM_SIZE + args + input <= g->body_max;
}

bool array_holds(const struct gathering *g, const struct wsd_submit *submit)
{
    size_t size = submit_args_size(submit->args, submit->n_args);

    return size == SIZE_MAX || holds(g, size, submit->input_size);
}

/* Behind the others that are gathered: NULL, or *ret_at is where it goes, to be committed by array_add(). */
static struct array *array_place(struct wsd_client *client, struct gathering *g, size_t size, uint8_t **ret_at)
{
    struct array *a = g->pending;

    if (a && (is_full(a) || buffer_size(&a->body) + size > g->body_max)) {
        int r = arrays_send(client);

        if (r < 0) {
            connection_failed(&client->connection, r);
            return NULL;
        }
        a = NULL;
    }
    if (!a)
        a = array_new(client, g);
    *ret_at = a ? buffer_reserve(&a->body, size) : NULL;
    if (*ret_at)
        return a;
    if (a && !a->n) {
        g->pending = NULL;
        array_free(a);
    }
    connection_failed(&client->connection, -ENOMEM);
    return NULL;
}

/* It is there. */
static void array_add(struct array *a, size_t size)
{
    buffer_commit(&a->body, size);
    a->n++;
    a->n_open++;
    if (is_full(a))
        connection_send_early(&a->client->connection);
}

int array_submit(struct gathering *g, const struct wsd_submit *submit, struct wsd_call *call)
{
    struct wsd_client *client = call->client;
    uint8_t *at;
    const struct msg_item item = {
        .args = {call->args, call->args_size}, .argc = call->argc, .input = {.size = submit->input_size}};
    size_t size = CODEC_ITEM_SIZE + call->args_size + submit->input_size;
    struct array *a = array_place(client, g, size, &at);
    if (!a)
        return client->connection.broken ? client->connection.broken : -ENOMEM;
    codec_put_item(&item, at);
    memcpy(at + CODEC_ITEM_SIZE, call->args, call->args_size);
    if (submit->input_size)
        memcpy(at + CODEC_ITEM_SIZE + call->args_size, submit->input, submit->input_size);
    call_put(a, a->n, call);
    a->quiet = a->quiet && call->quiet;
    array_add(a, size);
    return 0;
}

int array_submit_bare(struct wsd_client *client, struct gathering *g, const struct wsd_item *given, size_t place)
{
    size_t args = submit_args_size(given->args, given->n_args), size = CODEC_ITEM_SIZE + args + given->input_size;
    uint8_t *at;

    if (args == SIZE_MAX || !holds(g, args, given->input_size))
        return 1;
    struct array *a = array_place(client, g, size, &at);
    if (!a)
        return client->connection.broken ? client->connection.broken : -ENOMEM;
    codec_put_item(&(struct msg_item){.args = {.size = args},
                                      .argc = (uint32_t)given->n_args,
                                      .input = {.size = given->input_size}},
                   at);
    at += CODEC_ITEM_SIZE;
    for (size_t i = 0; i < given->n_args; i++)
        at = (uint8_t *)stpcpy((char *)at, given->args[i]) + 1;
    if (given->input_size)
        memcpy(at, given->input, given->input_size);
    a->items[a->n].call = NULL;
    a->items[a->n].place = place;
    array_add(a, size);
    return 0;
}

int gathering_describe(struct gathering *g, struct wsd_client *client, const struct wsd_submit *common,
                       char tags[static CODEC_TAGS_MAX])
{
    struct wsd_call like = {.client = client,
                            .args = "",
                            .detached = common->flags & WSD_SUBMIT_DETACH,
                            .leaves = common->flags & WSD_SUBMIT_LEAVE};
    int r = submit_message(common, &like, tags, &g->submit);

    g->leaves = like.leaves;
    g->submit.type = FRAME_ARRAY;
    g->submit.submit.items = CODEC_ITEMS_MAX;
    g->body_max = FRAME_MAX - MIN(codec_room(&g->submit), FRAME_MAX);
    return r;
}
