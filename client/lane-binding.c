/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-binding.c: the direct lane (ring/lane-ring.h) of a handle, and the functions that are bound in it.
 * Owns both, from the question to wsd until the last call that waits in it has left. One thread a handle.
 * Keeps: a lane stays mapped while a call waits in it.
 * Does not call (calls.c). wsd and the executor decide what may go by a lane. */
#include "lane-binding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "client.h"
#include "text.h"

#define OPEN_AFTER 3u /* calls by the socket before a lane is requested: a program with a single call needs none */
/* Between two requests of a program that waits for its lane: doubled from one to the next. */
#define ASK_MIN_USEC ((uint64_t)1000)
#define ASK_MAX_USEC ((uint64_t)100000)

/* --- the lane ----------------------------------------------------------------------------------------------------- */

static void set_progress(struct wsd_client *client, struct lane *l, enum lane_progress progress)
{
    l->progress = progress;
    client->connection.awaits_fds = progress == LANE_ASKED || progress == LANE_LEAVING; /* they come with the answer */
}

static void unmap(struct lane *l)
{
    if (l->mapped && l->depth == 0) {
        lane_client_deinit(&l->ring);
        l->mapped = false;
        l->n_parked = 0;
        connection_set_notice(l->connection, -1);
    }
}

/* The lane is gone, and its numbers with it. */
static void lane_drop(struct wsd_client *client, struct lane *l)
{
    request_close(&client->connection, &l->request);
    set_progress(client, l, LANE_NONE);
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (l->functions[i].progress == LANE_THERE)
            l->functions[i].progress = LANE_NONE;
    unmap(l);
}

/* It is not asked for before so many calls, or twice as many as the last time. */
static void not_now(struct lane *l, uint64_t n_calls)
{
    l->pause = l->pause ? MIN(l->pause * 2, AGAIN_MAX) : n_calls;
    l->next = l->n_calls + l->pause;
}

static void close_received(struct connection *c)
{
    while (c->n_received > 0)
        close_fd(c->received[--c->n_received]);
}

static void take_lane(struct wsd_client *client, struct lane *l)
{
    struct connection *c = &client->connection;
    int r = -EBADMSG;

    if (c->n_received >= 2 && !l->mapped)
        r = lane_client_init(&l->ring, c->received[0], c->received[1], cpus_affinity() > 1);
    if (r == 0 && c->n_received == 3)
        connection_set_notice(c, c->received[--c->n_received]);
    close_received(c);
    if (r == 0) {
        l->mapped = true;
        lane_client_keep(&l->ring, l->kept);
        set_progress(client, l, LANE_THERE);
        l->dry = 0;
        l->pause = 0;
        return;
    }
    if (l->n_wanted)
        l->refused =
            failure_set(&client->failure, r, exit_of_error(r), "the direct lane cannot be used: %s",
                        r == -EBADMSG ? "it came without its descriptors, or is of another version" : strerror(-r));
    connection_send(&client->connection, &(struct msg){.type = FRAME_LANE_CLOSE}, l->request.tag, NULL, 0);
    not_now(l, AGAIN_AFTER);
    set_progress(client, l, LANE_NONE); /* its END closes the request */
}

static void lane_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct lane *l = container_of(request, struct lane, request);
    struct wsd_client *client = client_of(c);

    switch (msg->type) {
    case FRAME_LANE:
        if (l->progress == LANE_ASKED)
            take_lane(client, l);
        else if (l->progress == LANE_LEAVING)
            close_received(c); /* its END is on the way */
        else
            connection_break_protocol(c, "a second", msg->type);
        return;
    case FRAME_LANE_LOST:
        not_now(l, OPEN_AFTER);
        break;
    case FRAME_ERROR:
        if (l->n_wanted)
            l->refused = failure_remote(&client->failure, &msg->error);
        not_now(l, AGAIN_AFTER);
        break;
    case FRAME_END: /* we have closed it */
        break;
    default:
        connection_break_protocol(&client->connection, "unexpected for a lane:", msg->type);
        return;
    }
    lane_drop(client, l);
}

static void lane_broken(struct connection *c, struct request *request)
{
    lane_drop(client_of(c), container_of(request, struct lane, request));
}

static const struct request_ops lane_ops = {.frame = lane_frame, .broken = lane_broken};

static void lane_ask(struct wsd_client *client, struct lane *l)
{
    struct msg msg = {.type = FRAME_LANE_OPEN};

    if (!(client->connection.features & FEATURE_LANE) || l->mapped || l->request.listed)
        return;
    if (request_open(&client->connection, &l->request) < 0)
        return;
    set_progress(client, l, LANE_ASKED);
    if (connection_send(&client->connection, &msg, l->request.tag, NULL, 0) < 0)
        lane_drop(client, l);
}

/* Back to wsd: another one may be better. */
static void lane_return(struct wsd_client *client, struct lane *l)
{
    connection_send(&client->connection, &(struct msg){.type = FRAME_LANE_CLOSE}, l->request.tag, NULL, 0);
    not_now(l, AGAIN_AFTER);
    set_progress(client, l, LANE_NONE); /* its END, or LANE_LOST, closes the request */
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (l->functions[i].progress == LANE_THERE)
            l->functions[i].progress = LANE_NONE;
}

void lane_forget(struct lane *l)
{
    l->mapped = false;
    l->depth = 0;
    l->n_parked = 0;
}

void lane_give_back(struct wsd_client *client, struct lane *l)
{
    if (l->progress == LANE_THERE) {
        lane_return(client, l);
    } else if (l->progress == LANE_ASKED) {
        connection_send(&client->connection, &(struct msg){.type = FRAME_LANE_CLOSE}, l->request.tag, NULL, 0);
        set_progress(client, l, LANE_LEAVING);
    }
    l->pause = 0;
    l->next = l->n_calls + OPEN_AFTER;
}

struct lane *lane_of(struct wsd_client *client)
{
    struct lane *l = client->lane;

    if (l)
        return l;
    l = client->lane = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    list_init(&l->request.open);
    l->request.ops = &lane_ops;
    l->connection = &client->connection;
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
    lane_words_free(l);
    for (uint32_t i = 0; i < l->n_functions; i++) {
        free(l->functions[i].plugin);
        free(l->functions[i].name);
    }
    free(l);
    client->lane = NULL;
    client->connection.awaits_fds = false;
}

/* --- its functions ------------------------------------------------------------------------------------------------ */

static void function_frame(struct connection *c, struct request *request, const struct frame *frame,
                           const struct msg *msg)
{
    struct function *f = container_of(request, struct function, request);

    if (msg->type != FRAME_LANE_BOUND && msg->type != FRAME_ERROR) {
        connection_break_protocol(c, "unexpected answer:", msg->type);
        return;
    }
    request_close(c, request);
    f->progress = LANE_NONE;
    if (msg->type == FRAME_ERROR) {
        f->next = f->lane->n_calls + AGAIN_AFTER;
    } else if (f->lane->progress == LANE_THERE) {
        f->progress = LANE_THERE;
        f->number = msg->lane_bound.number;
    }
}

static void function_broken(struct connection *c, struct request *request)
{
    struct function *f = container_of(request, struct function, request);

    request_close(c, request);
    f->progress = LANE_NONE;
}

static const struct request_ops function_ops = {.frame = function_frame, .broken = function_broken};

/* NULL: too many, or no memory. */
static struct function *function_find(struct lane *l, const char *plugin, const char *name)
{
    for (uint32_t i = 0; i < l->n_functions; i++)
        if (strcmp(l->functions[i].plugin, plugin) == 0 && strcmp(l->functions[i].name, name) == 0)
            return &l->functions[i];
    if (l->n_functions == LANE_BINDS)
        return NULL;
    struct function *f = &l->functions[l->n_functions];
    *f = (struct function){.lane = l, .plugin = strdup(plugin), .name = strdup(name)};
    if (!f->plugin || !f->name) {
        free(f->plugin);
        free(f->name);
        return NULL;
    }
    list_init(&f->request.open);
    f->request.ops = &function_ops;
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
        request_open(&client->connection, &f->request) < 0)
        return;
    f->progress = LANE_ASKED;
    if (connection_send(&client->connection, &msg, f->request.tag, NULL, 0) < 0)
        function_broken(&client->connection, &f->request);
}

/* --- for calls ---------------------------------------------------------------------------------------------------- */

struct function *lane_function(struct wsd_client *client, struct lane *l, const char *plugin, const char *name)
{
    struct function *f = function_find(l, plugin, name);

    if (!f)
        return NULL;
    if (l->progress != LANE_THERE) {
        if (l->n_calls >= l->next)
            lane_ask(client, l);
        return NULL;
    }
    if (f->progress != LANE_THERE) {
        function_ask(client, f);
        return NULL;
    }
    if (lane_client_allowed(&l->ring, f->number))
        return f;
    f->progress = LANE_NONE; /* it was reloaded, or the like: asked for again */
    return NULL;
}

void lane_is_dry(struct wsd_client *client, struct lane *l)
{
    if (lane_client_dry(&l->ring) && ++l->dry > AGAIN_AFTER && l->depth == 0)
        lane_return(client, l);
}

bool lane_end(const struct lane_result *result, enum wsd_job_state *ret_state, int *ret_exit)
{
    static const struct {
        enum wsd_job_state state;
        int exit;
    } ends[] = {
        [LANE_CANCELLED] = {WSD_JOB_CANCELLED, CODE_CANCELLED},
        [LANE_TIMED_OUT] = {WSD_JOB_TIMED_OUT, CODE_TIMED_OUT},
        [LANE_CRASHED] = {WSD_JOB_CRASHED, CODE_CRASHED},
        [LANE_INTERRUPTED] = {WSD_JOB_INTERRUPTED, CODE_INTERRUPTED},
    };

    if (result->outcome == LANE_ENDED) {
        *ret_exit = result->exit >= 0 && result->exit <= 63 ? result->exit : 63;
        *ret_state = *ret_exit ? WSD_JOB_FAILED : WSD_JOB_SUCCEEDED;
        return true;
    }
    if (result->outcome >= ARRAY_SIZE(ends) || !ends[result->outcome].exit)
        return false;
    *ret_exit = ends[result->outcome].exit;
    *ret_state = ends[result->outcome].state;
    return true;
}

uint32_t lane_expected_usec(const struct function *f, uint32_t n)
{
    return cost_is_known(&f->cost) ? (uint32_t)MIN(cost_nsec(&f->cost, n) / 1000, (uint64_t)RING_WORTH_USEC)
                                   : RING_WORTH_USEC;
}

bool lane_has_room(struct lane *l)
{
    if (lane_client_has_room(&l->ring))
        return true;
    for (uint32_t i = 0; i < l->n_parked;)
        if (lane_client_ended(&l->ring, l->parked[i])) {
            lane_client_free_slot(&l->ring, l->parked[i]);
            l->parked[i] = l->parked[--l->n_parked];
        } else {
            i++;
        }
    return lane_client_has_room(&l->ring);
}

void lane_park(struct lane *l, uint32_t slot)
{
    l->parked[l->n_parked++] = slot;
    lane_leave(l);
}

void lane_leave(struct lane *l)
{
    l->depth--;
    if (!l->request.listed) /* it went meanwhile */
        unmap(l);
}

void lane_words_free(struct lane *l)
{
    while (l->words) {
        struct words *w = l->words;

        l->words = w->next;
        free(w);
    }
}

/* --- for the program ---------------------------------------------------------------------------------------------- */

static bool is_answered(const void *arg)
{
    const struct lane *l = arg;

    return l->progress != LANE_ASKED;
}

/* wsd has taken the lane back, and has said so by the socket. */
static bool is_gone(const void *arg)
{
    const struct lane *l = arg;

    return l->progress != LANE_THERE;
}

static bool never(const void *arg)
{
    return false;
}

/* Asks until there is one, or none is to be had. Between two requests it waits: wsd has one soon, or the last one is
 * not let go of. 0, or a negative errno, said. */
static int open_lane(struct wsd_client *client, struct lane *l)
{
    struct connection *c = &client->connection;
    const uint64_t deadline = connection_answer_deadline(c);
    bool later = false; /* wsd has answered that it may be asked again */

    for (uint64_t pause = ASK_MIN_USEC;; pause = MIN(pause * 2, ASK_MAX_USEC)) {
        if (l->progress == LANE_THERE && !lane_client_lost(&l->ring))
            return 0;
        int r = l->progress == LANE_THERE ? connection_await(c, &deadline, is_gone, l) : 0;
        if (r < 0)
            return r;
        l->refused = 0;
        lane_ask(client, l);
        r = l->progress == LANE_ASKED ? connection_await(c, &deadline, is_answered, l) : 0;
        if (l->refused)
            return l->refused;
        if (r == -ETIMEDOUT && later)
            break;
        if (r < 0)
            return r;
        if (l->progress == LANE_THERE)
            continue;
        later = true;
        const uint64_t until = MIN(clock_monotonic_usec() + pause, deadline);
        r = connection_await(c, &until, never, NULL);
        if (r != -ETIMEDOUT)
            return r;
        if (until == deadline)
            break;
    }
    return failure_set(&client->failure, -EAGAIN, CODE_BUSY, "no direct lane was free in time");
}

static int want_lane(struct wsd_client *client, bool kept)
{
    struct connection *c = &client->connection;
    int r = connection_wants(c, FEATURE_LANE);

    if (r < 0)
        return r;
    struct lane *l = lane_of(client);
    if (!l)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    l->kept = kept;
    if (l->mapped)
        lane_client_keep(&l->ring, kept);
    l->n_wanted++;
    c->depth++;
    r = open_lane(client, l);
    c->depth--;
    l->n_wanted--; /* it goes with the connection, which stays while depth is not 0 */
    connection_reap(c);
    return r;
}

int wsd_client_lane(struct wsd_client *client, enum wsd_lane_action action)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct lane *l = client->lane;

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    if (action == WSD_LANE_OPEN || action == WSD_LANE_KEEP)
        return want_lane(client, action == WSD_LANE_KEEP);
    if (action != WSD_LANE_CLOSE)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "unknown action");
    if (l && l->depth > 0)
        return failure_set(&client->failure, -EDEADLK, CODE_USAGE, "calls are under way in the lane: await their ends");
    if (l) {
        l->kept = false;
        lane_give_back(client, l);
    }
    connection_send_early(&client->connection);
    return 0;
}
