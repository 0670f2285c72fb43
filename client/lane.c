/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c: wsd_call(): one job, awaited: by a direct lane (ring/lane.h) where there is one, else by the socket.
 * Owns the lane of a handle, the numbers of functions in it, and the texts of the last result. One thread a handle.
 * Keeps: one answer a call, whichever way; what wsd calls untouched, or idempotent and begun, is submitted again, once and by
 * the socket. A lane stays mapped while a call waits in it.
 * Does not decide what may go by a lane: wsd and the executor do. */
#include "client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "ring/lane.h"

#define OPEN_AFTER   3u      /* calls by the socket before a lane is asked for: who calls once needs none */
#define AGAIN_AFTER  64u     /* calls until one that was refused is asked for again; doubled up to */
#define AGAIN_MAX    4096u
#define SLICE_USEC   100000u /* between looks at the connection while a direct call runs */
#define WAITS_SLICES 10u     /* wsd hears of a long wait after the first and then each so many */
#define FUNCTIONS    LANE_BINDS

enum lane_progress { LANE_NONE, LANE_ASKED, LANE_THERE };

/* A function that has been called. */
struct function {
    struct request request; /* LANE_BIND, while ASKED */
    struct lane *lane;
    char *plugin, *name;
    enum lane_progress progress;
    uint32_t number;
    uint64_t next; /* not asked for before this many calls */
};

struct lane {
    struct request request; /* LANE_OPEN, as long as the lane lives */
    enum lane_progress progress;
    struct lane_client ring; /* mapped */
    bool mapped;
    unsigned depth; /* calls that wait in it */
    uint64_t n_calls, next, pause;
    uint32_t dry; /* calls in a row that it had no credit for */
    struct function functions[FUNCTIONS];
    uint32_t n_functions;
    char error[RING_TEXT], status[RING_TEXT]; /* of the last result */
};

/* --- the lane -------------------------------------------------------------------------------------------------------- */

bool lane_awaits(const struct wsd_client *client)
{
    return client->lane && client->lane->progress == LANE_ASKED;
}

static void unmap(struct lane *l)
{
    if (l->mapped && l->depth == 0) {
        lane_client_deinit(&l->ring);
        l->mapped = false;
    }
}

/* It is no more, and its numbers with it. */
static void lane_drop(struct wsd_client *client, struct lane *l)
{
    client_request_close(client, &l->request);
    l->progress = LANE_NONE;
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (l->functions[i].progress == LANE_THERE)
            l->functions[i].progress = LANE_NONE;
    unmap(l);
}

static void not_now(struct lane *l)
{
    l->pause = l->pause ? MIN(l->pause * 2, AGAIN_MAX) : AGAIN_AFTER;
    l->next = l->n_calls + l->pause;
}

static void take_lane(struct wsd_client *client, struct lane *l)
{
    int r = -EBADMSG;

    if (client->n_received == 2 && !l->mapped)
        r = lane_client_init(&l->ring, client->received[0], client->received[1], cpus_affinity() > 1);
    while (client->n_received > 0)
        close_fd(client->received[--client->n_received]);
    if (r == 0) {
        l->mapped = true;
        l->progress = LANE_THERE;
        l->dry = 0;
        l->pause = 0;
        return;
    }
    client_send(client, &(struct msg){.type = FRAME_LANE_CLOSE}, l->request.tag, NULL, 0);
    not_now(l);
    l->progress = LANE_NONE; /* its END closes the request */
}

static void lane_frame(struct wsd_client *client, struct request *request, const struct frame *frame,
                       const struct msg *msg)
{
    struct lane *l = container_of(request, struct lane, request);

    switch (msg->type) {
    case FRAME_LANE:
        if (l->progress == LANE_ASKED)
            take_lane(client, l);
        else
            client_break_protocol(client, "a second", msg->type);
        return;
    case FRAME_LANE_LOST:
        l->next = l->n_calls + OPEN_AFTER;
        break;
    case FRAME_END:
    case FRAME_ERROR:
        not_now(l);
        break;
    default:
        client_break_protocol(client, "unexpected for a lane:", msg->type);
        return;
    }
    lane_drop(client, l);
}

static void lane_broken(struct wsd_client *client, struct request *request)
{
    lane_drop(client, container_of(request, struct lane, request));
}

static void lane_ask(struct wsd_client *client, struct lane *l)
{
    struct msg msg = {.type = FRAME_LANE_OPEN};

    if (!(client->features & FEATURE_LANE) || l->mapped || l->request.listed || l->n_calls < l->next)
        return;
    if (client_request_open(client, &l->request) < 0)
        return;
    l->progress = LANE_ASKED;
    if (client_send(client, &msg, l->request.tag, NULL, 0) < 0)
        lane_drop(client, l);
}

/* Back to wsd: another one may be better. */
static void lane_return(struct wsd_client *client, struct lane *l)
{
    client_send(client, &(struct msg){.type = FRAME_LANE_CLOSE}, l->request.tag, NULL, 0);
    not_now(l);
    l->progress = LANE_NONE; /* its END, or LANE_LOST, closes the request */
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (l->functions[i].progress == LANE_THERE)
            l->functions[i].progress = LANE_NONE;
}

static struct lane *lane_of(struct wsd_client *client)
{
    struct lane *l = client->lane;

    if (l)
        return l;
    l = client->lane = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    list_init(&l->request.open);
    l->request.frame = lane_frame;
    l->request.broken = lane_broken;
    l->next = OPEN_AFTER;
    return l;
}

void lane_free(struct wsd_client *client)
{
    struct lane *l = client->lane;

    if (!l)
        return;
    l->depth = 0;
    unmap(l);
    for (uint32_t i = 0; i < l->n_functions; i++) {
        free(l->functions[i].plugin);
        free(l->functions[i].name);
    }
    free(l);
    client->lane = NULL;
}

/* --- its functions ----------------------------------------------------------------------------------------------------- */

static void function_frame(struct wsd_client *client, struct request *request, const struct frame *frame,
                           const struct msg *msg)
{
    struct function *f = container_of(request, struct function, request);

    if (msg->type != FRAME_LANE_BOUND && msg->type != FRAME_ERROR) {
        client_break_protocol(client, "unexpected answer:", msg->type);
        return;
    }
    client_request_close(client, request);
    f->progress = LANE_NONE;
    if (msg->type == FRAME_ERROR) {
        f->next = f->lane->n_calls + AGAIN_AFTER;
    } else if (f->lane->progress == LANE_THERE) {
        f->progress = LANE_THERE;
        f->number = msg->lane_bound.number;
    }
}

static void function_broken(struct wsd_client *client, struct request *request)
{
    struct function *f = container_of(request, struct function, request);

    client_request_close(client, request);
    f->progress = LANE_NONE;
}

/* NULL: too many, or no memory. */
static struct function *function_find(struct lane *l, const char *plugin, const char *name)
{
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (strcmp(l->functions[i].plugin, plugin) == 0 && strcmp(l->functions[i].name, name) == 0)
            return &l->functions[i];
    if (l->n_functions == FUNCTIONS)
        return NULL;
    struct function *f = &l->functions[l->n_functions];
    *f = (struct function){.lane = l, .plugin = strdup(plugin), .name = strdup(name)};
    if (!f->plugin || !f->name) {
        free(f->plugin);
        free(f->name);
        return NULL;
    }
    list_init(&f->request.open);
    f->request.frame = function_frame;
    f->request.broken = function_broken;
    l->n_functions++;
    return f;
}

static void function_ask(struct wsd_client *client, struct function *f)
{
    struct lane *l = f->lane;
    struct msg msg = {.type = FRAME_LANE_BIND,
                      .lane_bind = {.lane = l->request.tag,
                                    .plugin = {.data = f->plugin, .size = strlen(f->plugin)},
                                    .function = {.data = f->name, .size = strlen(f->name)}}};

    if (f->progress != LANE_NONE || l->n_calls < f->next || codec_problem(&msg) ||
        client_request_open(client, &f->request) < 0)
        return;
    f->progress = LANE_ASKED;
    if (client_send(client, &msg, f->request.tag, NULL, 0) < 0)
        function_broken(client, &f->request);
}

/* --- by the lane --------------------------------------------------------------------------------------------------------- */

#define BY_SOCKET 1 /* it has to go the other way */

static void result_set(struct wsd_call_result *ret, const struct wsd_call_result *from)
{
    size_t size = MIN(ret->size, sizeof(*from));

    memcpy(ret, from, size);
    ret->size = size;
}

/* Arguments one behind the other. */
static bool pack(const struct wsd_call_request *q, char *ret, size_t room, size_t *ret_size)
{
    size_t at = 0;

    for (size_t i = 0; i < q->n_args; i++) {
        size_t n = strlen(q->args[i]) + 1;

        if (n > room - at)
            return false;
        memcpy(ret + at, q->args[i], n);
        at += n;
    }
    *ret_size = at;
    return true;
}

/* 0, or what ended the connection. */
static int await(struct wsd_client *client, struct lane *l, uint32_t slot, bool spin)
{
    struct msg waits = {.type = FRAME_LANE_WAITS};

    for (uint32_t i = 0; !lane_client_wait(&l->ring, slot, spin && i == 0, SLICE_USEC); i++) {
        if (i % WAITS_SLICES == 0 && l->request.listed)
            client_send(client, &waits, l->request.tag, NULL, 0);
        client->depth++;
        int r = wsd_client_process(client);
        client->depth--;
        if (r < 0 && !lane_client_ended(&l->ring, slot))
            return client_error(client, -ECONNRESET, client->broken_exit == 69 ? 125 : client->broken_exit, "%s",
                                client->reason);
    }
    return 0;
}

static const struct {
    enum wsd_job_state state;
    int exit;
} ends[] = {
    [LANE_CANCELLED] = {WSD_JOB_CANCELLED, 130},
    [LANE_TIMED_OUT] = {WSD_JOB_TIMED_OUT, 124},
    [LANE_CRASHED] = {WSD_JOB_CRASHED, 70},
    [LANE_INTERRUPTED] = {WSD_JOB_INTERRUPTED, 125},
};

static int too_large(struct wsd_client *client)
{
    return client_error(client, -EMSGSIZE, 74, "the output is larger than the room that was given");
}

/* 0, BY_SOCKET, or a negative errno. */
static int take_result(struct wsd_client *client, struct lane *l, uint32_t slot, const struct wsd_call_request *q,
                       struct wsd_call_result *ret)
{
    struct wsd_call_result result = {.direct = true, .error = l->error, .status = l->status};
    struct lane_result r;

    lane_client_result(&l->ring, slot, &r);
    switch (r.outcome) {
    case LANE_ENDED:
        result.exit = r.exit >= 0 && r.exit <= 63 ? r.exit : 63;
        result.state = result.exit ? WSD_JOB_FAILED : WSD_JOB_SUCCEEDED;
        break;
    case LANE_CANCELLED:
    case LANE_TIMED_OUT:
    case LANE_CRASHED:
    case LANE_INTERRUPTED:
        result.state = ends[r.outcome].state;
        result.exit = ends[r.outcome].exit;
        break;
    case LANE_OVERFLOW:
        return too_large(client);
    default:
        return BY_SOCKET; /* REFUSED, UNTOUCHED, AGAIN */
    }
    result.output_size = MIN(r.output_size, q->output_room);
    if (result.output_size)
        memcpy(q->output, r.output, result.output_size);
    result.run_usec = r.run_usec;
    result.cpu_usec = r.cpu_usec;
    memcpy(l->error, r.error, sizeof(l->error));
    memcpy(l->status, r.status, sizeof(l->status));
    result_set(ret, &result);
    return 0;
}

static int call_direct(struct wsd_client *client, struct function *f, const struct wsd_call_request *q,
                       struct wsd_call_result *ret)
{
    struct lane *l = f->lane;
    char args[LANE_ROOM];
    size_t args_size;
    bool spin;

    if (!lane_client_allowed(&l->ring, f->number)) {
        f->progress = LANE_NONE; /* it was reloaded, or the like: asked for again */
        return BY_SOCKET;
    }
    if (!pack(q, args, sizeof(args), &args_size) ||
        !lane_client_fits(&l->ring, args_size, q->input_size, q->output_room)) {
        if (lane_client_dry(&l->ring) && ++l->dry > AGAIN_AFTER && l->depth == 0)
            lane_return(client, l);
        return BY_SOCKET;
    }
    struct lane_call call = {.bind = f->number,
                             .argc = (uint32_t)q->n_args,
                             .args = args,
                             .args_size = args_size,
                             .input = q->input,
                             .input_size = q->input_size,
                             .room = q->output_room,
                             .timeout_usec = q->timeout_usec};
    l->dry = 0;
    l->depth++;
    uint32_t slot = lane_client_push(&l->ring, &call, &spin);
    int r = await(client, l, slot, spin);
    if (r == 0)
        r = take_result(client, l, slot, q, ret);
    lane_client_free_slot(&l->ring, slot);
    l->depth--;
    if (!l->request.listed) /* it went meanwhile */
        unmap(l);
    return r;
}

/* --- by the socket --------------------------------------------------------------------------------------------------------- */

struct gathered {
    const struct wsd_call_request *request;
    size_t size;
    bool over;
};

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct gathered *g = userdata;

    if (g->over || size > g->request->output_room - g->size) {
        if (!g->over)
            wsd_call_cancel(call);
        g->over = true;
        return 0;
    }
    memcpy((char *)g->request->output + g->size, data, size);
    g->size += size;
    return 0;
}

static void text_copy(char to[RING_TEXT], const char *text)
{
    size_t n = strnlen(text, RING_TEXT - 1);

    memcpy(to, text, n);
    to[n] = 0;
}

static int call_socket(struct wsd_client *client, const struct wsd_call_request *q, struct wsd_call_result *ret)
{
    struct gathered g = {.request = q};
    struct wsd_submit submit = {.size = sizeof(submit),
                                .plugin = q->plugin,
                                .function = q->function,
                                .args = q->args,
                                .n_args = q->n_args,
                                .input = q->input,
                                .input_size = q->input_size,
                                .timeout_usec = q->timeout_usec};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .output = on_output, .userdata = &g};
    struct lane *l = client->lane;
    const struct wsd_job_info *info;
    struct wsd_call *call;
    int r = wsd_client_submit(client, &submit, &callbacks, &call);

    if (r < 0)
        return r;
    r = wsd_call_wait(call, UINT64_MAX, &info);
    if (r == 0 && g.over)
        r = too_large(client);
    if (r == 0) {
        struct wsd_call_result result = {.state = info->state,
                                         .exit = info->exit,
                                         .output_size = g.size,
                                         .error = l->error,
                                         .status = l->status,
                                         .run_usec = info->run_usec,
                                         .cpu_usec = info->cpu_usec};

        text_copy(l->error, info->error);
        text_copy(l->status, info->status);
        result_set(ret, &result);
    }
    wsd_call_free(call);
    return r;
}

/* --- either ------------------------------------------------------------------------------------------------------------------ */

int wsd_call(struct wsd_client *client, const struct wsd_call_request *given, struct wsd_call_result *ret_result)
{
    struct wsd_call_request q = {0};
    struct lane *l = lane_of(client);
    int r = BY_SOCKET;

    memcpy(&q, given, MIN(given->size, sizeof(q)));
    if (!l)
        return client_error(client, -ENOMEM, 74, "out of memory");
    if (!q.plugin || !q.plugin[0] || ret_result->size == 0 || q.flags & ~(uint32_t)(WSD_CALL_FILES | WSD_CALL_SOCKET))
        return client_error(client, -EINVAL, 64, "no plugin is named, or unknown flags, or no size of the result");
    l->n_calls++;
    if (!(q.flags & (WSD_CALL_FILES | WSD_CALL_SOCKET)) && !client->broken) {
        struct function *f = function_find(l, q.plugin, q.function ? q.function : "");

        if (f && l->progress == LANE_THERE && f->progress == LANE_THERE)
            r = call_direct(client, f, &q, ret_result);
        else if (f && l->progress == LANE_THERE)
            function_ask(client, f);
        else if (f)
            lane_ask(client, l);
    }
    return r == BY_SOCKET ? call_socket(client, &q, ret_result) : r;
}
