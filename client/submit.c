/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c: makes calls: SUBMIT of a job by itself, the description of others, and AWAIT.
 * Owns nothing: a call that was begun is its own (call.c). One thread a handle.
 * Keeps: what is above a limit, or unknown to this wsd, is refused here, in words. */
#include "submit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "base/code.h"
#include "client.h"

size_t submit_args_size(const char *const *args, size_t n_args)
{
    size_t size = 0;

    if (n_args > CODEC_ARGS_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i < n_args; i++)
        size += strlen(args[i]) + 1;
    return size > CODEC_ARGS_SIZE ? SIZE_MAX : size;
}

/* The arguments one behind the other. 0 or an error, said. */
static int pack_args(const struct wsd_submit *submit, struct wsd_call *call)
{
    size_t size = submit_args_size(submit->args, submit->n_args), at = 0;

    if (size == SIZE_MAX)
        return failure_problem(&call->client->failure, "size of the arguments");
    char *args = size > sizeof(call->args_room) ? malloc(size) : call->args_room;
    if (!args)
        return failure_set(&call->client->failure, -ENOMEM, CODE_IO, "out of memory");
    for (size_t i = 0; i < submit->n_args; i++) {
        size_t n = strlen(submit->args[i]) + 1;

        memcpy(args + at, submit->args[i], n);
        at += n;
    }
    call->args = args;
    call->args_size = size;
    call->argc = (uint32_t)MIN(submit->n_args, UINT32_MAX);
    return 0;
}

/* One behind the other, with commas. 0 or -EINVAL. */
static int pack_tags(const struct wsd_submit *submit, char ret[static CODEC_TAGS_MAX])
{
    size_t at = 0;

    for (size_t i = 0; i < submit->n_tags; i++) {
        size_t n = strlen(submit->tags[i]);

        if (i == CODEC_TAGS || !codec_is_tag(submit->tags[i], n))
            return -EINVAL;
        if (i)
            ret[at++] = ',';
        memcpy(ret + at, submit->tags[i], n);
        at += n;
    }
    ret[at] = 0;
    return 0;
}

struct msg_submit submit_fields(const struct wsd_submit *submit)
{
#define SENT_TEXT(kind, name, ...)   .name = {submit->name, submit->name ? strlen(submit->name) : 0},
#define SENT_NUMBER(kind, name, ...) .name = submit->name,
#define SENT_LIST(kind, name, ...)   SENT_##kind(name)
#define SENT_IDS(name)               .name = {(const char *)submit->name, submit->n_##name * sizeof(*submit->name)},
#define SENT_TAGS(name)              /* by submit_message() */
#define SENT_ARGS(name)              /* likewise */
    return (struct msg_submit){.flags = (submit->flags & WSD_SUBMIT_DURABLE ? SUBMIT_DURABLE : 0u) |
                                        (submit->flags & WSD_SUBMIT_WAIT_RUNNER ? SUBMIT_WAIT_RUNNER : 0u),
                               SUBMIT_FIELDS(SENT_TEXT, SENT_NUMBER, SENT_LIST, SUBMIT_NOTHING)};
}

uint64_t submit_features(const struct wsd_submit *submit)
{
#define NEEDS_TEXT(kind, name, most, problem, needs, ...)   | (SUBMIT_HAS_TEXT(submit, name) ? (needs) : 0u)
#define NEEDS_NUMBER(kind, name, most, problem, needs, ...) | (SUBMIT_HAS_NUMBER(submit, name) ? (needs) : 0u)
#define NEEDS_LIST(kind, name, most, problem, needs, ...)   | (SUBMIT_HAS_LIST(submit, name) ? (needs) : 0u)
    return (submit->flags & WSD_SUBMIT_DURABLE ? FEATURE_STORE : 0u) |
           (submit->flags & WSD_SUBMIT_WAIT_RUNNER ? FEATURE_RUNNER : 0u)
               SUBMIT_FIELDS(NEEDS_TEXT, NEEDS_NUMBER, NEEDS_LIST, SUBMIT_NOTHING);
}

/* It may outlive its connection. */
static bool lasts(const struct wsd_submit *submit)
{
    return submit->flags & (WSD_SUBMIT_DETACH | WSD_SUBMIT_DURABLE) || (submit->key && *submit->key) || submit->retries;
}

/* Where the output goes: enum output_to. 0 or an error, said. */
static int choose_output(const struct wsd_submit *submit, const struct wsd_call *call, uint32_t *ret)
{
    struct connection *c = &call->client->connection;

    *ret = OUTPUT_FRAMES;
    if (!(submit->flags & WSD_SUBMIT_OUTPUT))
        return submit->flags & WSD_SUBMIT_EITHER ? failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                                                               "WSD_SUBMIT_EITHER goes with WSD_SUBMIT_OUTPUT")
                                                 : 0;
    if (lasts(submit) || submit->output_size)
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_OUTPUT is for attached jobs: not with DETACH, DURABLE, a key, retries, or "
                           "output_size");
    if (!c->welcomed)
        return connection_ready(c);
    if (c->features & FEATURE_OUTPUT && connection_takes_files(c)) {
        *ret = submit->flags & WSD_SUBMIT_EITHER ? OUTPUT_EITHER : OUTPUT_FD;
        return 0;
    }
    if (submit->flags & WSD_SUBMIT_EITHER)
        return 0;
    return c->features & FEATURE_OUTPUT
               ? failure_set(&call->client->failure, -EOPNOTSUPP, CODE_PROTOCOL,
                             "a wsd of another machine writes to no descriptor: have the output by the callback")
               : connection_wants(c, FEATURE_OUTPUT);
}

/* Where the input comes from: enum input_from. 0 or an error, said. */
static int choose_input(const struct wsd_submit *submit, const struct wsd_call *call, uint32_t *ret)
{
    struct connection *c = &call->client->connection;

    *ret = submit->flags & WSD_SUBMIT_FILE ? INPUT_FILE : submit->flags & WSD_SUBMIT_ARENA ? INPUT_ARENA : INPUT_BODY;
    if (!(submit->flags & WSD_SUBMIT_PIPE))
        return 0;
    if (!call->stream || submit->input_size)
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_PIPE goes with STREAM, and without input");
    if (!c->welcomed)
        return connection_ready(c);
    if (c->features & FEATURE_PIPE && connection_takes_files(c) && !lasts(submit) && !submit->arena)
        *ret = INPUT_PIPE;
    return 0;
}

/* Says which limit is exceeded. */
int submit_message(const struct wsd_submit *submit, const struct wsd_call *call, char tags[static CODEC_TAGS_MAX],
                   struct msg *ret)
{
    const uint32_t flags = WSD_SUBMIT_DETACH | WSD_SUBMIT_PROGRESS | WSD_SUBMIT_STREAM | WSD_SUBMIT_DURABLE |
                           WSD_SUBMIT_LEAVE | WSD_SUBMIT_FILE | WSD_SUBMIT_ARENA | WSD_SUBMIT_WAIT_RUNNER |
                           WSD_SUBMIT_OUTPUT | WSD_SUBMIT_EITHER | WSD_SUBMIT_PIPE;
    bool brief = call->client->connection.features & FEATURE_BRIEF;
    bool by_file = submit->flags & WSD_SUBMIT_FILE;
    bool in_arena = submit->flags & WSD_SUBMIT_ARENA, part = by_file || in_arena;
    const char *problem;
    int r = 0;

    if (pack_tags(submit, tags) < 0)
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "tags: at most %u, each of 1 to %u letters, digits, dots, underscores, hyphens", CODEC_TAGS,
                           CODEC_TAG_MAX - 1);
    if (!submit->plugin || !submit->plugin[0])
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE, "no plugin is named");
    if (submit->traceparent && !codec_is_traceparent(submit->traceparent, strlen(submit->traceparent)))
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE, TRACEPARENT_WORDS);
    if (submit->flags & ~flags)
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE, "unknown flags");
    if (call->leaves && (!call->detached || call->stream))
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_LEAVE goes with WSD_SUBMIT_DETACH, and not with STREAM");
    if (part && (submit->input || submit->flags & (WSD_SUBMIT_STREAM | WSD_SUBMIT_DURABLE)))
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_FILE and ARENA go without input, STREAM and DURABLE");
    if ((in_arena && !submit->arena) || (by_file && submit->arena) || (submit->output_size && !submit->arena))
        return failure_set(&call->client->failure, -EINVAL, CODE_USAGE,
                           "WSD_SUBMIT_ARENA and output_size go with an arena, WSD_SUBMIT_FILE does not");
    if (submit->arena && submit->arena->client != call->client)
        return failure_set(&call->client->failure, -EAGAIN, CODE_BUSY,
                           "wsd has this arena no more, or had it from another connection: make a new one");
    if (by_file && !call->client->connection.welcomed)
        return connection_ready(&call->client->connection);
    if (by_file && !connection_takes_files(&call->client->connection))
        return failure_set(&call->client->failure, -EOPNOTSUPP, CODE_PROTOCOL,
                           "%s takes no files as input over this connection: send the bytes",
                           call->client->connection.daemon_version);
    uint32_t input_from, output_to;
    r = choose_input(submit, call, &input_from);
    if (r == 0)
        r = choose_output(submit, call, &output_to);
    if (r < 0)
        return r;
    *ret = (struct msg){.type = FRAME_SUBMIT, .submit = submit_fields(submit)};
    ret->submit.args = (struct span){.data = call->args, .size = call->args_size};
    ret->submit.argc = call->argc;
    ret->submit.flags |=
        (submit->flags & (SUBMIT_DETACH | SUBMIT_PROGRESS)) | (brief && call->quiet ? SUBMIT_QUIET : 0u);
    ret->submit.tags = (struct span){.data = tags, .size = strlen(tags)};
    ret->submit.input_from = input_from;
    ret->submit.input_offset = part ? submit->input_offset : 0;
    ret->submit.input_size = part ? submit->input_size : 0;
    ret->submit.arena = submit->arena ? submit->arena->request.tag : 0;
    ret->submit.output_offset = submit->arena ? submit->output_offset : 0;
    ret->submit.output_size = submit->output_size;
    ret->submit.output_to = output_to;
    problem = codec_problem(ret);
    if (problem)
        return failure_problem(&call->client->failure, problem);
    for (uint64_t features = submit_features(submit); features && r == 0; features &= features - 1)
        r = connection_wants(&call->client->connection, features & (~features + 1));
    return r;
}

/* Copies of the descriptors that go with it, in their order. 0 or a negative errno. */
static int copy_fds(const struct wsd_submit *submit, const struct msg *msg, int ret[static FRAME_FDS], size_t *ret_n)
{
    bool reads = msg->submit.input_from == INPUT_FILE || msg->submit.input_from == INPUT_PIPE;
    const int given[] = {reads ? submit->input_fd : -1, msg->submit.output_to ? submit->output_fd : -1};
    const bool wanted[] = {reads, msg->submit.output_to};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
        if (!wanted[i])
            continue;
        ret[n] = fcntl(given[i], F_DUPFD_CLOEXEC, 0);
        if (ret[n] < 0) {
            int error = errno;

            while (n > 0)
                close_fd(ret[--n]);
            return -error;
        }
        n++;
    }
    *ret_n = n;
    return 0;
}

/* SUBMIT with the first `body` bytes of input, and its descriptors. */
static int send_with_fds(struct wsd_call *call, const struct wsd_submit *submit, struct msg *msg, size_t body)
{
    struct connection *c = &call->client->connection;
    int fds[FRAME_FDS];
    size_t n = 0;
    int r = copy_fds(submit, msg, fds, &n);

    if (r < 0)
        return r;
    return n ? connection_send_fds(c, msg, call->request.tag, submit->input, body, fds, n)
             : connection_send(c, msg, call->request.tag, submit->input, body);
}

/* SUBMIT with the descriptor of a file. */
static int send_file(struct wsd_call *call, const struct wsd_submit *submit, struct msg *msg)
{
    call->input_ended = true;
    if (call->leaves && call->client->connection.features & FEATURE_BRIEF)
        msg->submit.flags |= SUBMIT_LEFT;
    call->left = msg->submit.flags & SUBMIT_LEFT;
    int r = send_with_fds(call, submit, msg, 0);
    call->sent_at = connection_position(&call->client->connection);
    return r;
}

/* SUBMIT with as much input as goes into one frame and the window. */
static int send_submit(struct wsd_call *call, const struct wsd_submit *submit, struct msg *msg)
{
    struct wsd_client *client = call->client;
    size_t size = submit->flags & WSD_SUBMIT_ARENA ? 0 : submit->input_size, body = MIN(size, call->input_limit);
    int r;

    /* The flag takes a byte or two: count with it. */
    msg->submit.flags |= SUBMIT_MORE;
    body = MIN(body, MIN(FRAME_MAX - codec_room(msg), FRAME_BODY_CHUNK));
    if (!call->stream && body == size)
        msg->submit.flags &= ~(uint32_t)SUBMIT_MORE;
    if (call->leaves && client->connection.features & FEATURE_BRIEF && !(msg->submit.flags & SUBMIT_MORE))
        msg->submit.flags |= SUBMIT_LEFT;
    call->left = msg->submit.flags & SUBMIT_LEFT;
    if (submit->arena && msg->submit.flags & SUBMIT_MORE)
        return -EMSGSIZE; /* it is to lie in the arena, too */
    if (msg->submit.input_from == INPUT_PIPE)
        call->input_limit = 0; /* until wsd asks for the bytes */
    r = send_with_fds(call, submit, msg, body);
    if (r < 0)
        return r;
    call->sent_at = connection_position(&client->connection);
    call->input_sent = body;
    call->input_ended = !(msg->submit.flags & SUBMIT_MORE);
    call->input_size = size - body;
    if (call->input_size > 0) {
        call->input = (const uint8_t *)submit->input + body;
        list_push_back(&client->calls.feeding, &call->feeding);
    }
    return 0;
}

static int call_start(struct wsd_call *call, const struct wsd_submit *submit, struct msg *msg)
{
    int r = request_open(&call->client->connection, &call->request);

    if (r < 0)
        return r;
    if (submit)
        return submit->flags & WSD_SUBMIT_FILE ? send_file(call, submit, msg) : send_submit(call, submit, msg);
    return connection_send(&call->client->connection, msg, call->request.tag, NULL, 0);
}

static int call_make(struct wsd_call *call, const struct wsd_submit *submit, struct msg *msg)
{
    struct wsd_client *client = call->client;
    int r = client->connection.broken ? -ECONNRESET : call_start(call, submit, msg);

    if (r < 0)
        return connection_failed(&client->connection, r);
    call_is_open(call);
    return 0;
}

void submit_renew(struct wsd_call *call, const struct wsd_submit *submit)
{
    const struct connection *c = &call->client->connection;

    call->quiet = !call->callbacks.accepted && !call->detached && c->features & FEATURE_BRIEF;
    call->accepted = call->quiet; /* for all that is known */
    call->input_ended = call->over = call->left = false;
    call->index = 0;
    call->input_size = call->input_sent = call->output_received = call->output_taken = 0;
    call->input_limit = c->window;
    call->output_granted = OUTPUT_WINDOW;
    call->sent_at = UINT64_MAX;
    if (call_has_result(call))
        call->result->progress_done = call->result->progress_total = 0;
}

int submit_prepare(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                   struct wsd_call **ret_call)
{
    struct wsd_call *call;
    int r = call_new(client, callbacks, &call);

    if (r < 0)
        return r;
    r = pack_args(submit, call);
    if (r < 0) {
        call_destroy(call);
        return r;
    }
    if (submit->deadline_usec && call_set_deadline(call, deadline_in(submit->deadline_usec)) < 0) {
        call_destroy(call);
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    }
    if (submit->flags & WSD_SUBMIT_LEAVE && call_spare_result(call) < 0) { /* its id is all of its end */
        call_destroy(call);
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    }
    call->durable = submit->flags & WSD_SUBMIT_DURABLE;
    call->detached = submit->flags & WSD_SUBMIT_DETACH; /* a durable one is cancelled by wsd_call_free() as any other */
    call->stream = submit->flags & WSD_SUBMIT_STREAM;
    call->leaves = submit->flags & WSD_SUBMIT_LEAVE;
    submit_renew(call, submit);
    *ret_call = call;
    return 0;
}

int submit_alone(struct wsd_call *call, const struct wsd_submit *submit, uint32_t batch_tag)
{
    char tags[CODEC_TAGS_MAX];
    struct msg msg;
    int r = submit_message(submit, call, tags, &msg);

    if (r < 0)
        return r;
    msg.submit.batch = batch_tag;
    return call_make(call, submit, &msg);
}

int wsd_client_attach(struct wsd_client *client, const struct wsd_id *id, const struct wsd_callbacks *callbacks,
                      struct wsd_call **ret_call)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct msg msg = {.type = FRAME_AWAIT, .id = {.has_id = true}};
    struct wsd_call *call;

    if (ret_call)
        *ret_call = NULL;
    if (!used)
        return -ECHILD;
    int r = call_new(client, callbacks, &call);
    if (r < 0)
        return r;
    call->attached = call->input_ended = true;
    memcpy(msg.id.id, id->bytes, sizeof(msg.id.id));
    if (call->callbacks.progress && client->connection.features & FEATURE_WHERE)
        msg.id.flags = SUBMIT_PROGRESS;
    r = call_make(call, NULL, &msg);
    if (r < 0)
        call_destroy(call);
    else if (ret_call)
        *ret_call = call;
    return r;
}
