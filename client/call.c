/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c: jobs in flight: input out, output in, one end each.
 * Owns struct wsd_call from submit or attach until the user has freed it and wsd has ended it. One thread a handle.
 * Keeps: done is told exactly once and last. Output is told in order, and none while the user holds it. No more output
 * is accepted than was granted, and no more input is sent than wsd granted.
 * A call that the user has freed, or that was given up at its deadline, lives on unseen until wsd ends it. Its output
 * is granted away meanwhile, and so does not hold up a detached job.
 * The room of a large output stays with the handle for the next one. Else malloc would have it from the kernel each
 * time, which clears each page (64 MiB: a third of the call). It goes as soon as a call ends that needed none. */
#include "call.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "client.h"
#include "given.h"
#include "open.h"
#include "packed.h"
#include "text.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h> /* is to see what is used after its end */
#else
#define ASAN_POISON_MEMORY_REGION(data, size)   ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

#define OUTPUT_CREDIT (OUTPUT_WINDOW / 4) /* granted in pieces of at least this */
#define OUT_HIGH      (1024u * 1024u)     /* bytes waiting to be sent above which no input is taken */

static uint32_t call_tag(struct wsd_call *call)
{
    return call->unit ? call->unit->ops->tag(call) : call->request.tag;
}

static struct wsd_call *call_of(struct request *request)
{
    return container_of(request, struct wsd_call, request);
}

/* The user hears no more of it. */
static bool is_unseen(const struct wsd_call *call)
{
    return call->freed || call->given_up;
}

/* --- room of large outputs ---------------------------------------------------------------------------------------- */

static struct buffer spare_take(struct wsd_client *client)
{
    struct buffer spare = client->calls.spare;

    client->calls.spare = (struct buffer){0};
    ASAN_UNPOISON_MEMORY_REGION(spare.data, spare.room);
    return spare;
}

void calls_drop_spare(struct wsd_client *client)
{
    if (!client->calls.spare.room)
        return;
    struct buffer spare = spare_take(client);
    buffer_deinit(&spare);
}

/* Empties a buffer that is not used any longer. The larger one of two is kept. */
static void room_give(struct wsd_call *call, struct buffer *b)
{
    struct wsd_client *client = call->client;

    if (!b->room)
        return;
    if (!call->large || b->room < LARGE_OUTPUT || b->room > SPARE_OUTPUT_MAX || b->room <= client->calls.spare.room) {
        buffer_deinit(b);
        return;
    }
    calls_drop_spare(client);
    client->calls.spare = (struct buffer){.data = b->data, .room = b->room};
    *b = (struct buffer){0};
    ASAN_POISON_MEMORY_REGION(client->calls.spare.data, client->calls.spare.room);
}

/* The output has become a large one. */
static void room_take(struct wsd_call *call)
{
    struct buffer room = spare_take(call->client), *output = &call->result->output;

    call->large = true;
    if (!room.room)
        return;
    buffer_put(&room, buffer_data(output), buffer_size(output)); /* fits: it was not large before */
    buffer_deinit(output);
    *output = room;
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

static void deadline_list(struct wsd_call *call, uint64_t usec)
{
    call->deadline->listed = true;
    heap_put(&call->client->calls.deadlines, &call->deadline->node, usec);
}

int call_set_deadline(struct wsd_call *call, uint64_t usec)
{
    struct call_deadline *d = malloc(sizeof(*d));

    if (!d)
        return -ENOMEM;
    *d = (struct call_deadline){.call = call};
    call->deadline = d;
    deadline_list(call, usec);
    return 0;
}

static void deadline_unlist(struct wsd_call *call)
{
    if (!call->deadline || !call->deadline->listed)
        return;
    heap_take(&call->client->calls.deadlines, &call->deadline->node);
    call->deadline->listed = false;
}

uint64_t calls_deadline(const struct wsd_client *client)
{
    return heap_empty(&client->calls.deadlines) ? UINT64_MAX : client->calls.deadlines.top->key;
}

/* --- the end of a call -------------------------------------------------------------------------------------------- */

struct call_result *call_result(struct wsd_call *call)
{
    if (call_has_result(call))
        return call->result;
    const bool has_id = call->spared && call->accepted;
    if (!call->result && call_spare_result(call) < 0)
        return NULL;
    const struct wsd_id id = has_id ? call->result->info.id : (struct wsd_id){{0}};
    memset(call->result, 0, offsetof(struct call_result, texts_room));
    call->result->info.id = id;
    call->spared = false;
    return call->result;
}

int call_spare_result(struct wsd_call *call)
{
    call->result = slab_take(&call->client->calls.result_cells, sizeof(*call->result));
    call->spared = call->result;
    return call->result ? 0 : -ENOMEM;
}

static void result_destroy(struct wsd_call *call)
{
    struct call_result *result = TAKE(call->result);

    if (!result)
        return;
    if (!call->spared) {
        room_give(call, &result->output);
        room_give(call, &result->telling);
        free(result->info_texts);
    }
    slab_give(result);
}

void call_destroy(struct wsd_call *call)
{
    list_remove(&call->link);
    list_remove(&call->feeding);
    request_close(&call->client->connection, &call->request);
    result_destroy(call);
    if (!call->large)
        calls_drop_spare(call->client);
    deadline_unlist(call);
    free(call->deadline);
    if (call->repeats) {
        packed_drop(&call->repeat->submit);
        free(call->repeat);
    }
    if (call->args != call->args_room)
        free((char *)(uintptr_t)call->args);
    free(call->text);
    slab_give(call);
}

void calls_reap(struct wsd_client *client)
{
    for (struct list *l; (l = list_pop_front(&client->calls.graveyard));)
        call_destroy(container_of(l, struct wsd_call, link));
}

static void call_bury(struct wsd_call *call)
{
    list_remove(&call->link);
    list_push_back(&call->client->calls.graveyard, &call->link);
    connection_reap(&call->client->connection);
}

/* Words and exit code of an error are the client's. */
static void keep_error(struct wsd_call *call, int error)
{
    const struct failure *f = &call->client->failure;

    call->error = error;
    if (!error)
        return;
    call->text = strdup(f->text);
    call->exit = f->exit;
    call->retry_usec = f->retry_usec;
}

/* Its text is missing where there was no memory to copy it. */
static const char *words_of(const struct wsd_call *call)
{
    return call->text ? call->text : call->error ? strerror(-call->error) : "";
}

static void tell_done(struct wsd_call *call)
{
    struct connection *c = &call->client->connection;

    c->depth++;
    c->n_told++;
    if (call->callbacks.done)
        call->callbacks.done(call, call->error, call->error || !call->has_job ? NULL : &call->result->info,
                             words_of(call), call->callbacks.userdata);
    c->depth--;
}

/* error 0: the result's info is set. Otherwise words and exit code are the client's. */
static void call_finish(struct wsd_call *call, int error)
{
    struct wsd_client *client = call->client;

    if (call->done)
        return;
    call->done = true;
    client->calls.n_open--;
    deadline_unlist(call);
    if (!call->given_up)
        keep_error(call, error);
    request_close(&client->connection, &call->request);
    call_unpark(call);
    list_remove(&call->feeding);
    call->input_size = 0;
    if (call->unit)
        call->unit->ops->done(call, error);
    if (call->batch)
        call->batch->ops->done(call, error);
    if (call->freed)
        call_bury(call);
    else if (!call->given_up)
        tell_done(call);
}

void call_is_open(struct wsd_call *call)
{
    if (!list_empty(&call->link)) /* it is submitted again */
        return;
    list_push_back(&call->client->calls.open, &call->link);
    call->client->calls.n_open++;
}

int call_say_lost(struct wsd_client *client, uint64_t sent_at, bool durable)
{
    const struct connection *c = &client->connection;
    bool sent = sent_at <= c->sent, went = c->broken_exit == CODE_NO_DAEMON;

    /* A job that wsd may have had may be lost half-way: that is not the same as no daemon there. A durable one is not
     * lost. */
    if (sent && durable && c->leaving && went)
        failure_set(&client->failure, c->broken, CODE_INTERRUPTED,
                    "wsd has ended: the job stays in its store, and goes on after the next start; see `wsctl await`");
    else
        failure_set(&client->failure, c->broken, sent && went ? CODE_INTERRUPTED : c->broken_exit, "%s", c->reason);
    return -ECONNRESET;
}

int call_say_too_large(struct wsd_client *client)
{
    return failure_set(&client->failure, -EMSGSIZE, CODE_IO, "the output is larger than the room that was given");
}

void call_fail(struct wsd_call *call, int error)
{
    call_finish(call, error);
}

void call_lost(struct wsd_client *client, struct wsd_call *call)
{
    uint64_t sent_at = call->attached ? UINT64_MAX : call->sent_at;

    if (call_again(call, sent_at <= client->connection.sent))
        return;
    if (call->repeats && call->repeat->may_have_run)
        sent_at = 0;
    call_finish(call, call_say_lost(client, sent_at, call->durable));
}

static void call_broken(struct connection *c, struct request *request)
{
    call_lost(client_of(c), call_of(request));
}

/* Its job goes on without us, and takes no room in wsd's table of open requests. */
static void call_forget(struct wsd_call *call)
{
    struct connection *c = &call->client->connection;

    if (call->unit || !(c->features & FEATURE_FORGET))
        return;
    call->forgotten = connection_send(c, &(struct msg){.type = FRAME_FORGET}, call->request.tag, NULL, 0) == 0;
}

/* The end of one that was only to be accepted, when wsd has all of its input. */
static void call_leave(struct wsd_call *call)
{
    if (!call->leaves || !call->accepted || call->input_size > 0 || call->done)
        return;
    if (!call->left)
        call_forget(call);
    call_finish(call, 0);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static void call_grant(struct wsd_call *call)
{
    uint64_t bytes = call->output_taken + OUTPUT_WINDOW - call->output_granted;

    if (bytes < OUTPUT_CREDIT || call->done || call->has_job)
        return;
    if (connection_send(&call->client->connection,
                        &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = bytes, .item = call->index}},
                        call_tag(call), NULL, 0) == 0)
        call->output_granted += bytes;
}

static size_t waiting_size(const struct wsd_call *call)
{
    const struct call_result *result = call_has_result(call);

    return result ? result->small_output + buffer_size(&result->output) : 0;
}

static void waiting_drop(struct wsd_call *call)
{
    if (!call_has_result(call))
        return;
    call->result->small_output = 0;
    room_give(call, &call->result->output);
}

/* Behind what waits already. 0, or -1 where there is no memory. */
static int waiting_put(struct wsd_call *call, const void *data, size_t size)
{
    struct call_result *result = call_result(call);
    size_t before = waiting_size(call);

    if (!result)
        return -1;
    if (!buffer_size(&result->output) && size <= sizeof(result->output_room) - result->small_output) {
        memcpy(result->output_room + result->small_output, data, size);
        result->small_output += size;
        return 0;
    }
    if (before < LARGE_OUTPUT && size >= LARGE_OUTPUT - before)
        room_take(call);
    if (buffer_put(&result->output, result->output_room, result->small_output) < 0)
        return -1;
    result->small_output = 0;
    return buffer_put(&result->output, data, size);
}

static void call_delivered(struct wsd_call *call)
{
    call->delivering = false;
    if (call->deadline && !call->deadline->listed && !call->has_job && !call->done && !is_unseen(call))
        deadline_list(call, call->deadline->node.key); /* it has passed meanwhile */
}

static void call_deliver(struct wsd_call *call, const void *data, size_t size)
{
    struct wsd_client *client = call->client;

    call->delivering = call->shown = true;
    call->output_taken += size; /* which is granted when it has returned */
    client->connection.depth++;
    client->connection.n_told++;
    if (call->callbacks.output(call, data, size, call->callbacks.userdata) != 0)
        call->held = true;
    client->connection.depth--;
    call_delivered(call);
}

static void deliver_waiting(struct wsd_call *call)
{
    struct call_result *result = call->result;
    char small[CALL_ROOM];
    size_t n = result->small_output;

    memcpy(small, result->output_room, n);
    room_give(call, &result->telling); /* of a callback that has not returned */
    result->telling = result->output;
    result->output = (struct buffer){0};
    result->small_output = 0;
    call_deliver(call, n ? (const void *)small : buffer_data(&result->telling), n ? n : buffer_size(&result->telling));
    room_give(call, &result->telling);
}

/* Gives out what waited, and ends the call if that was all that its end waited for. */
static void call_drain(struct wsd_call *call)
{
    while (call->callbacks.output && !call->held && !call->delivering && !is_unseen(call) && !call->done &&
           waiting_size(call) > 0)
        deliver_waiting(call);
    if (!call->delivering)
        call_grant(call);
    if (call->has_job && !call->delivering &&
        (call->over || !call->callbacks.output || is_unseen(call) || waiting_size(call) == 0))
        call_finish(call, call->over ? call_say_too_large(call->client) : 0);
}

void call_has_output(struct wsd_client *client, struct wsd_call *call, const void *data, size_t size)
{
    if (size > call->output_granted - call->output_received) {
        connection_break_protocol(&client->connection, "too many bytes of", FRAME_OUTPUT);
        return;
    }
    if (call->output_max && size > call->output_max - call->output_received && !call->over) {
        call->over = true;
        wsd_call_cancel(call);
    }
    call->output_received += size;
    if (size == 0) {
        /* only its end comes */
    } else if (is_unseen(call) || call->over) {
        call->output_taken += size;
    } else if (call->callbacks.output && !call->held && !call->delivering && waiting_size(call) == 0) {
        call_deliver(call, data, size);
    } else if (waiting_put(call, data, size) < 0) {
        connection_break(&client->connection, -ECONNRESET, CODE_IO, "out of memory for output");
        return;
    } else if (!call->callbacks.output) {
        call->output_taken += size;
    }
    call_drain(call);
}

static void handle_output(struct wsd_client *client, struct wsd_call *call, const struct frame *frame,
                          const struct msg_chunk *chunk)
{
    if (chunk->offset != call->output_received)
        connection_break_protocol(&client->connection, "wrong offset of", FRAME_OUTPUT);
    else
        call_has_output(client, call, frame->body, frame->body_size);
}

int wsd_call_resume(struct wsd_call *call)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    struct wsd_client *client = call->client;

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    if (call->delivering || !call->held)
        return 0;
    call->held = false;
    client->connection.depth++;
    call_drain(call);
    client->connection.depth--;
    connection_reap(&client->connection);
    return 0;
}

const void *wsd_call_output(const struct wsd_call *call, size_t *ret_size)
{
    bool gathered = owner_is_here(&call->client->owner) && !call->callbacks.output && waiting_size(call) > 0;
    const struct call_result *result = call->result;

    *ret_size = gathered ? waiting_size(call) : 0;
    return !gathered ? "" : result->small_output ? result->output_room : (const void *)buffer_data(&result->output);
}

void *wsd_call_take_output(struct wsd_call *call, size_t *ret_size)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    size_t size;

    *ret_size = 0;
    if (!used)
        return NULL;
    const void *gathered = wsd_call_output(call, &size);
    struct call_result *result = call->result;
    void *taken;

    *ret_size = size;
    if (!size)
        return NULL;
    call->shown = true;
    if (result->small_output) {
        taken = malloc(size);
        if (taken)
            memcpy(taken, gathered, size);
        result->small_output = taken ? 0 : size;
        return taken;
    }
    taken = realloc(result->output.data, size); /* nothing was taken out at its beginning. It gets smaller, .. */
    if (!taken)
        taken = result->output.data; /* .. or stays */
    result->output = (struct buffer){0};
    return taken;
}

/* --- calls that are submitted again ------------------------------------------------------------------------------- */

void call_park(struct wsd_call *call)
{
    struct call_set *set = &call->client->calls;

    list_push_back(&set->parked, &call->repeat->link);
    call->repeat->number = ++set->n_parked;
    set->parked_bytes += call->repeat->size;
}

void call_unpark(struct wsd_call *call)
{
    if (!call_is_parked(call))
        return;
    list_remove(&call->repeat->link);
    call->client->calls.parked_bytes -= call->repeat->size;
}

/* Not what the user has let go of, or has had something of that cannot be taken back. */
static bool is_worth_repeating(const struct wsd_call *call)
{
    return call->repeats && !call->done && !is_unseen(call) && !call->cancelled && !call->has_job && !call->shown &&
           !call->client->freed && owner_is_here(&call->client->owner);
}

bool call_again(struct wsd_call *call, bool may_have_run)
{
    if (!is_worth_repeating(call))
        return false;
    struct call_repeat *r = call->repeat;

    r->may_have_run |= may_have_run;
    r->n += may_have_run;
    if (may_have_run && (!r->twice || r->n > REPEATS_MAX))
        return false;
    request_close(&call->client->connection, &call->request);
    list_remove(&call->feeding);
    if (call->unit)
        call->unit->ops->done(call, -ECONNRESET);
    waiting_drop(call);
    call->input_ended = false; /* what is cancelled now has no job that could go on */
    call_park(call);
    return true;
}

/* Parked ones that were cancelled have their end from again.c; those that are told to no caller, here. */
static void call_leave_parked(struct wsd_call *call)
{
    if (call_is_parked(call))
        call_finish(call, 0);
}

static int say_never(struct wsd_client *client, const struct wsd_call *call)
{
    return failure_set(&client->failure, -ECONNRESET, call->repeat->may_have_run ? CODE_INTERRUPTED : CODE_NO_DAEMON,
                       "the handle was freed before the job was submitted %s",
                       call->repeat->may_have_run ? "again: it may have run" : "on a connection");
}

void calls_lose_parked(struct wsd_client *client)
{
    while (!list_empty(&client->calls.parked)) {
        struct wsd_call *call = container_of(client->calls.parked.next, struct call_repeat, link)->call;

        call_finish(call, say_never(client, call));
    }
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

void call_is_accepted(struct wsd_client *client, struct wsd_call *call, const struct msg_id *id)
{
    if (call->accepted || call->attached) {
        connection_break_protocol(&client->connection, "a second", FRAME_ACCEPTED);
        return;
    }
    struct wsd_id copy;

    call->accepted = true;
    call->torn = call->leaves; /* so that it leaves, too, where the callback is left */
    memcpy(copy.bytes, id->id, sizeof(copy.bytes));
    if (call->result)
        call->result->info.id = copy;
    client->connection.depth++;
    if (!is_unseen(call) && call->callbacks.accepted)
        call->callbacks.accepted(call, &copy, call->callbacks.userdata);
    call->torn = false;
    call_leave(call);
    client->connection.depth--;
}

/* The end is known before the last output is told: a callback may not return. */
void call_has_ended(struct wsd_client *client, struct wsd_call *call, const struct msg_job *job, const void *data,
                    size_t size)
{
    struct call_result *result = call_result(call);

    if (!result ||
        job_info_copy(job, &result->info, result->texts_room, sizeof(result->texts_room), &result->info_texts) < 0) {
        failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
        call_finish(call, -ENOMEM);
        return;
    }
    request_unlist(&client->connection, &call->request);
    call->has_job = true;
    call_has_output(client, call, data, size);
}

/* OUTPUT and DONE in one. */
static void handle_finished(struct wsd_client *client, struct wsd_call *call, const struct frame *frame,
                            const struct msg_finished *m)
{
    struct msg_job job = {.plugin = m->plugin,
                          .function = m->function,
                          .worker = m->worker,
                          .state = WSD_JOB_SUCCEEDED,
                          .placed = m->placed,
                          .attempts = m->attempts,
                          .uid = m->uid,
                          .queued_usec = m->queued_usec,
                          .run_usec = m->run_usec,
                          .cpu_usec = m->cpu_usec,
                          .submitted_usec = m->submitted_usec};

    memcpy(job.id, m->id, sizeof(job.id));
    call_has_ended(client, call, &job, frame->body, frame->body_size);
}

void call_told(struct wsd_client *client, struct wsd_call *call, const struct msg *msg)
{
    const struct wsd_callbacks *callbacks = &call->callbacks;

    client->connection.depth++;
    switch (msg->type) {
    case FRAME_MESSAGE:
        if (callbacks->message && !is_unseen(call))
            callbacks->message(call, (int)msg->message.level, msg->message.text.data, callbacks->userdata);
        break;
    case FRAME_PROGRESS:
        if (callbacks->progress && !is_unseen(call))
            callbacks->progress(call, msg->progress.done, msg->progress.total, callbacks->userdata);
        break;
    case FRAME_OPEN:
        open_answer(&client->connection, (struct span){call->args, call->args_size}, call_tag(call), &msg->open);
        break;
    default:
        connection_break_protocol(&client->connection, "unexpected for a call:", msg->type);
    }
    client->connection.depth--;
}

void call_is_refused(struct wsd_client *client, struct wsd_call *call, const struct msg_error *error)
{
    int r = failure_remote(&client->failure, error);

    /* the job goes on, or is lost: it is not to be submitted again */
    if (error->accepted && error->code == CODE_INTERRUPTED)
        r = failure_set(&client->failure, -ECONNRESET, CODE_INTERRUPTED, "%s",
                        error->text.size ? error->text.data : "wsd has lost sight of it");
    call_finish(call, r);
}

static void call_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct wsd_call *call = call_of(request);
    struct wsd_client *client = client_of(c);

    switch (msg->type) {
    case FRAME_ACCEPTED:
        call_is_accepted(client, call, &msg->id);
        break;
    case FRAME_OUTPUT:
        handle_output(client, call, frame, &msg->chunk);
        break;
    case FRAME_DONE:
        call_has_ended(client, call, &msg->job, NULL, 0);
        break;
    case FRAME_FINISHED:
        handle_finished(client, call, frame, &msg->finished);
        break;
    case FRAME_CREDIT:
        call->input_limit += MIN(msg->credit.bytes, UINT64_MAX - call->input_limit);
        break;
    case FRAME_END:
        if (call->forgotten)
            call_finish(call, 0);
        else
            call_told(client, call, msg);
        break;
    case FRAME_ERROR:
        call_is_refused(client, call, &msg->error);
        break;
    default:
        call_told(client, call, msg);
    }
}

static const struct request_ops call_ops = {.frame = call_frame, .broken = call_broken};

int call_new(struct wsd_client *client, const struct wsd_callbacks *callbacks, struct wsd_call **ret_call)
{
    struct wsd_callbacks room;
    struct wsd_call *call;
    int r;

    if (callbacks && !(callbacks = GIVEN(&client->failure, wsd_callbacks, callbacks, &room, &r)))
        return r;
    *ret_call = call = slab_take(&client->calls.cells, sizeof(*call));
    if (!call)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    memset(call, 0, offsetof(struct wsd_call, args_room));
    call->client = client;
    list_init(&call->link);
    list_init(&call->feeding);
    list_init(&call->stoppable);
    list_init(&call->request.open);
    call->request.ops = &call_ops;
    call->sent_at = UINT64_MAX;
    call->output_granted = OUTPUT_WINDOW;
    if (callbacks)
        call->callbacks = *callbacks;
    return 0;
}

/* --- input -------------------------------------------------------------------------------------------------------- */

/* Sends as INPUT frames what window and buffer allow; `last` goes with the last byte. Returns the bytes taken, or a
 * negative errno. */
static int64_t send_input(struct wsd_call *call, const uint8_t *data, size_t size, bool last)
{
    struct wsd_client *client = call->client;
    size_t taken = 0;

    while (buffer_size(&client->connection.out) < OUT_HIGH) {
        size_t n = MIN(MIN(size - taken, FRAME_BODY_CHUNK), call->input_limit - call->input_sent);
        struct msg msg = {.type = FRAME_INPUT,
                          .chunk = {.offset = call->input_sent, .last = last && taken + n == size}};
        int r;

        if (n == 0 && !msg.chunk.last)
            break;
        r = connection_send(&client->connection, &msg, call->request.tag, n > 0 ? data + taken : NULL, n);
        if (r < 0)
            return r;
        taken += n;
        call->input_sent += n;
        if (msg.chunk.last)
            call->input_ended = true;
        if (taken == size)
            break;
    }
    return (int64_t)taken;
}

void calls_pump(struct wsd_client *client)
{
again:
    list_for_each_entry_safe (struct wsd_call, call, after_call, &client->calls.feeding, feeding) {
        int64_t taken = send_input(call, call->input, call->input_size, !call->stream);

        if (taken < 0)
            return; /* no memory now: the next turn does it */
        call->input += taken;
        call->input_size -= (size_t)taken;
        if (call->input_size > 0)
            continue;
        list_remove(&call->feeding);
        if (call->leaves) { /* a callback may free any of them */
            call_leave(call);
            goto again;
        }
    }
}

int64_t wsd_call_feed(struct wsd_call *call, const void *data, size_t size, bool last)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    struct wsd_client *client = call->client;
    int64_t taken;

    if (!used)
        return -ECHILD;
    if (!call->stream || call->attached)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "the call was not submitted with WSD_SUBMIT_STREAM");
    if (call->done || call->given_up || call->has_job || call->input_ended)
        return failure_set(&client->failure, -EPIPE, CODE_IO, "the input of the call has ended");
    /* what was given with the submit goes first, and a pipe is wsd's until it asks for the bytes */
    if (call->input_size > 0 || call->input_limit == 0)
        return 0;
    taken = send_input(call, data, size, last);
    if (taken < 0)
        failure_set(&client->failure, (int)taken, exit_of_error((int)taken), "%s",
                    client->connection.broken ? client->connection.reason : strerror((int)-taken));
    return taken;
}

size_t wsd_call_window(const struct wsd_call *call)
{
    const struct connection *c = &call->client->connection;

    if (!call->stream || call->attached || call->done || call->given_up || call->has_job || call->input_ended ||
        call->input_size > 0 || buffer_size(&c->out) >= OUT_HIGH)
        return 0;
    return MIN(call->input_limit - call->input_sent, SIZE_MAX);
}

/* --- steering them ------------------------------------------------------------------------------------------------ */

int wsd_call_cancel(struct wsd_call *call)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    struct msg msg = {.type = FRAME_CANCEL, .id = {.item = call->index}};
    int r;

    if (!used)
        return -ECHILD;
    if (call->done || call->has_job || call->cancelled)
        return 0;
    if (call_is_parked(call)) {
        call->cancelled = call->client->calls.parked_ends = true;
        return 0;
    }
    if (call->unit && call->unit->ops->cancel) {
        call->unit->ops->cancel(call);
        call->cancelled = true;
        return 0;
    }
    r = connection_send(&call->client->connection, &msg, call_tag(call), NULL, 0);
    if (r < 0)
        return failure_set(&call->client->failure, r, exit_of_error(r), "%s", strerror(-r));
    call->cancelled = true;
    return 0;
}

/* The words of a call that failed, again: others may have failed since. */
static int call_error(const struct wsd_call *call)
{
    failure_set(&call->client->failure, call->error, call->exit, "%s", words_of(call));
    call->client->failure.retry_usec = call->retry_usec;
    return call->error;
}

/* Whether the job goes on without its call. A job that waits for more input cannot. */
static bool outlives(const struct wsd_call *call)
{
    return call->attached || (call->detached && call->input_ended);
}

/* The program waits for it no longer. Returns error, said. */
static int give_up(struct wsd_call *call, int error)
{
    struct connection *c = &call->client->connection;

    if (!outlives(call))
        wsd_call_cancel(call);
    connection_send_early(c);
    return connection_given_up(c, error);
}

static bool is_over(const void *arg)
{
    const struct wsd_call *call = arg;

    return call->done || is_unseen(call);
}

int wsd_call_wait(struct wsd_call *call, uint64_t timeout_usec, const struct wsd_job_info **ret_info)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    struct wsd_client *client = call->client;
    uint64_t own = call->deadline ? call->deadline->node.key : 0;
    bool keeps;
    uint64_t deadline = waiting_for_job(&client->connection.waiting, timeout_usec, own, &keeps);

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;

    if (call->delivering)
        return failure_set(&client->failure, -EDEADLK, CODE_USAGE,
                           "a call cannot be waited for in its own output callback");
    client->connection.n_waits++; /* the call stays where it is, even if a callback frees it */
    int r = connection_await(&client->connection, &deadline, is_over, call);
    client->connection.n_waits--;
    if (call->freed) {
        r = call->done ? call->error : -ECANCELED;
    } else if (call->done || call->given_up) {
        r = call->error ? call_error(call) : 0;
        if (r == 0 && ret_info)
            *ret_info = &call_result(call)->info; /* it has one, or the room for it */
    } else if (r == -EINTR || (r == -ETIMEDOUT && !keeps)) {
        r = give_up(call, r);
    }
    connection_reap(&client->connection);
    return r;
}

/* It is unseen from now on, until wsd ends it. The user's input is not read from now on. A job cannot continue without
 * that. */
static void call_abandon(struct wsd_call *call)
{
    struct connection *c = &call->client->connection;

    deadline_unlist(call);
    if (!outlives(call))
        wsd_call_cancel(call);
    else if (!call->left)
        call_forget(call);
    list_remove(&call->feeding);
    call->input_size = 0;
    call->output_taken += waiting_size(call);
    if (!call->callbacks.output)
        call->output_taken = call->output_received;
    waiting_drop(call);
    c->depth++;
    call_drain(call);
    call_leave_parked(call);
    c->depth--;
}

static bool may_have_run(const struct wsd_call *call)
{
    return call_is_parked(call) ? call->repeat->may_have_run : !call->attached;
}

void calls_expire(struct wsd_client *client, uint64_t stop_at)
{
    struct connection *c = &client->connection;

    if (heap_empty(&client->calls.deadlines))
        return;
    uint64_t now = clock_monotonic_usec();
    while (calls_deadline(client) <= now && c->n_told < stop_at && !client->freed) {
        struct wsd_call *call = container_of(client->calls.deadlines.top, struct call_deadline, node)->call;

        deadline_unlist(call);
        if (call->has_job || call->delivering) /* its end waits for the user to take the output */
            continue;
        /* it may have run, or may yet: one that was not sent is sent, with its cancel behind it */
        failure_set(&client->failure, -ETIMEDOUT, may_have_run(call) ? CODE_INTERRUPTED : CODE_TIMED_OUT,
                    "no end of the job before its deadline");
        keep_error(call, -ETIMEDOUT);
        call->given_up = true;
        call_abandon(call);
        tell_done(call);
    }
    connection_reap(c);
}

/* It is not yet. */
static void call_free(struct wsd_call *call)
{
    struct wsd_client *client = call->client;

    call->freed = true;
    if (call->done) {
        call_bury(call);
        return;
    }
    if (!call->given_up)
        call_abandon(call);
    connection_reap(&client->connection);
}

struct wsd_call *wsd_call_free(struct wsd_call *call)
{
    if (!call || call->freed)
        return NULL;
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(call->client);
    if (used) /* else it goes with the handle */
        call_free(call);
    return NULL;
}

/* --- all of a handle ---------------------------------------------------------------------------------------------- */

void calls_init(struct wsd_client *client)
{
    list_init(&client->calls.open);
    list_init(&client->calls.feeding);
    list_init(&client->calls.graveyard);
    list_init(&client->calls.parked);
}

void calls_free(struct wsd_client *client)
{
    while (!list_empty(&client->calls.open))
        call_free(container_of(client->calls.open.next, struct wsd_call, link));
}

void calls_tear(struct wsd_client *client)
{
    list_for_each_entry (struct wsd_call, call, &client->calls.open, link) {
        call->torn |= call->delivering;
        call->delivering = false;
    }
}

static struct wsd_call *one_torn(struct wsd_client *client)
{
    list_for_each_entry (struct wsd_call, call, &client->calls.open, link)
        if (call->torn)
            return call;
    return NULL;
}

void calls_mend(struct wsd_client *client)
{
    for (struct wsd_call *call; (call = one_torn(client));) {
        call->torn = false;
        client->connection.depth++;
        call_delivered(call);
        call_leave(call);
        call_drain(call);
        client->connection.depth--;
    }
    connection_reap(&client->connection);
}

void calls_mute(struct wsd_client *client)
{
    list_for_each_entry (struct wsd_call, call, &client->calls.open, link)
        call->callbacks = (struct wsd_callbacks){0};
}

void calls_deinit(struct wsd_client *client)
{
    calls_drop_spare(client);
    slab_trim(&client->calls.cells);
    slab_trim(&client->calls.result_cells);
}
