/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c: each frame of a client goes to the function that serves it.
 * Owns nothing: the table says what each type of frame needs. [loop]
 * Keeps: no request is served before HELLO, without the right, the feature or the descriptor that it needs.
 * Does not know what a request does. */
#include "frontend/dispatch.h"

#include <inttypes.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/code.h"
#include "frontend/access.h"
#include "frontend/call.h"
#include "frontend/note.h"
#include "frontend/serve-actions.h"
#include "frontend/serve-arena.h"
#include "frontend/serve-array.h"
#include "frontend/serve-await.h"
#include "frontend/serve-batch.h"
#include "frontend/serve-dead.h"
#include "frontend/serve-executors.h"
#include "frontend/serve-functions.h"
#include "frontend/serve-lane.h"
#include "frontend/serve-limits.h"
#include "frontend/serve-list.h"
#include "frontend/serve-plugins.h"
#include "frontend/serve-runner.h"
#include "frontend/serve-schedule.h"
#include "frontend/serve-session.h"
#include "frontend/serve-submit.h"

/* Least costs in units of share.h, without those of the bytes and of the answer. */
#define COST_SMALL   200u
#define COST_REQUEST 2000u
#define COST_LANE    50000u /* shared memory is made, and other lanes are looked at */

struct request_type {
    void (*serve)(struct request *r);
    uint32_t cost;
    bool asks;                                  /* see share_ask() */
    bool changes;                               /* it may change something: note.c asks what */
    bool submits;                               /* it loads plugins or runs jobs: wants the right to submit */
    uint64_t feature;                           /* it wants this feature in HELLO */
    bool (*brings_fd)(const struct msg *m);     /* a descriptor comes with its first byte; NULL: never */
    bool (*brings_output)(const struct msg *m); /* behind it, one for the output */
    const char *(*plugin)(const struct msg *m); /* the plugin that it names; NULL: it names none */
};

static bool always(const struct msg *m)
{
    return true;
}

static bool submit_brings_fd(const struct msg *m)
{
    return m->submit.input_from == INPUT_FILE || m->submit.input_from == INPUT_PIPE;
}

static bool submit_brings_output(const struct msg *m)
{
    return m->submit.output_to != OUTPUT_FRAMES;
}

static bool opened_brings_fd(const struct msg *m)
{
    return m->opened.error == 0;
}

static const char *submit_plugin(const struct msg *m)
{
    return m->submit.plugin.data;
}

static const char *plugins_plugin(const struct msg *m)
{
    return m->plugins.name.data;
}

static const char *reload_plugin(const struct msg *m)
{
    return m->reload.name.data;
}

static const char *release_plugin(const struct msg *m)
{
    return m->release.name.data;
}

static const char *schedule_plugin(const struct msg *m)
{
    return m->schedule.action == SCHEDULE_ADD ? m->schedule.job.plugin.data : "";
}

/* By enum frame_type. What is not here only wsd sends. BATCH asks for the right itself: only to open one needs it. */
static const struct request_type types[] = {
    [FRAME_HELLO] = {serve_hello, COST_REQUEST},
    [FRAME_SUBMIT] = {serve_submit, 1000, .submits = true, .brings_fd = submit_brings_fd,
                      .brings_output = submit_brings_output, .plugin = submit_plugin},
    [FRAME_ARRAY] = {serve_array, COST_REQUEST, .submits = true, .feature = FEATURE_ARRAY, .plugin = submit_plugin},
    [FRAME_BATCH] = {serve_batch, COST_REQUEST, .changes = true, .feature = FEATURE_ARRAY},
    [FRAME_INPUT] = {serve_input, COST_SMALL},
    [FRAME_CREDIT] = {serve_credit, COST_SMALL},
    [FRAME_CANCEL] = {serve_cancel, COST_SMALL, .changes = true},
    [FRAME_FORGET] = {serve_forget, COST_SMALL},
    [FRAME_OPENED] = {serve_opened, COST_SMALL, .brings_fd = opened_brings_fd},
    [FRAME_AWAIT] = {serve_await, COST_REQUEST},
    [FRAME_STATUS] = {serve_status, COST_SMALL},
    [FRAME_LIST] = {serve_list, COST_REQUEST},
    [FRAME_LIST_WHERE] = {serve_list_where, COST_REQUEST},
    [FRAME_CANCEL_WHERE] = {serve_cancel_where, COST_REQUEST, .changes = true},
    [FRAME_DEAD] = {serve_dead, COST_REQUEST, .changes = true},
    [FRAME_SCHEDULE] = {serve_schedule, COST_REQUEST, .changes = true, .submits = true, .plugin = schedule_plugin},
    [FRAME_PLUGINS] = {serve_plugins, 20000, .asks = true, .submits = true, .plugin = plugins_plugin},
    [FRAME_RELOAD] = {serve_reload, COST_REQUEST, .changes = true, .submits = true, .plugin = reload_plugin},
    [FRAME_RELEASE] = {serve_release, COST_REQUEST, .changes = true, .submits = true, .plugin = release_plugin},
    [FRAME_GATE] = {serve_gate, COST_REQUEST, .changes = true},
    [FRAME_LIMIT] = {serve_limit, 20000, .asks = true, .changes = true},
    [FRAME_WORKERS] = {serve_workers, 20000, .asks = true, .changes = true},
    [FRAME_TRACE] = {serve_trace, COST_REQUEST},
    [FRAME_STATS] = {serve_stats, 4000, .asks = true},
    [FRAME_FUNCTIONS] = {serve_functions, 4000, .asks = true, .feature = FEATURE_FUNCTIONS},
    [FRAME_PERSON] = {serve_person, COST_SMALL, .feature = FEATURE_PERSON},
    [FRAME_ACTIONS] = {serve_actions, 20000, .asks = true, .feature = FEATURE_ACTIONS},
    [FRAME_PING] = {serve_ping, COST_SMALL},
    [FRAME_ARENA_OPEN] = {serve_arena_open, COST_REQUEST, .submits = true, .brings_fd = always},
    [FRAME_ARENA_CLOSE] = {serve_arena_close, COST_REQUEST},
    [FRAME_LANE_OPEN] = {serve_lane_open, COST_LANE, .submits = true},
    [FRAME_LANE_BIND] = {serve_lane_bind, COST_REQUEST, .submits = true},
    [FRAME_LANE_WAITS] = {serve_lane_waits, COST_REQUEST},
    [FRAME_LANE_CLOSE] = {serve_lane_close, COST_REQUEST},
    [FRAME_RUNNER_OPEN] = {serve_runner_open, COST_LANE, .submits = true, .feature = FEATURE_RUNNER},
    [FRAME_RUNNER_CLOSE] = {serve_runner_close, COST_REQUEST},
    [FRAME_RUN_OUTPUT] = {serve_run_output, COST_SMALL},
    [FRAME_RUN_MESSAGE] = {serve_run_message, COST_REQUEST},
    [FRAME_RUN_PROGRESS] = {serve_run_progress, COST_SMALL},
    [FRAME_RUN_OPEN] = {serve_run_open, COST_REQUEST},
    [FRAME_RUN_END] = {serve_run_end, 1000},
    [FRAME_RUN_PONG] = {serve_run_pong, COST_SMALL},
};

static const struct request_type *type_of(uint16_t type)
{
    return type < ARRAY_SIZE(types) && types[type].serve ? &types[type] : NULL;
}

static uint32_t cost_of(uint16_t type)
{
    const struct request_type *t = type_of(type);

    return t ? t->cost : COST_REQUEST;
}

static bool asks(uint16_t type)
{
    const struct request_type *t = type_of(type);

    return t && t->asks;
}

/* False: there is none, and the connection has failed. */
static bool take_fd(struct request *r, int *ret)
{
    *ret = peer_take_fd(r->peer);
    if (*ret < 0)
        peer_fail(r->peer, "%s without its descriptor", codec_type_name(r->msg->type));
    return *ret >= 0;
}

/* A request that was decoded: what it needs, and then what serves it. */
static void begin(struct request *r)
{
    const struct msg *m = r->msg;
    struct peer *p = r->peer;
    const struct request_type *type = type_of(m->type);
    const char *refusal;

    if (!p->greeted && m->type != FRAME_HELLO) {
        peer_fail(p, "the first frame is not HELLO");
        return;
    }
    if (r->tag == 0 && m->type != FRAME_HELLO) {
        peer_fail(p, "a request with tag 0");
        return;
    }
    if (!type) {
        peer_fail(p, "a frame that only wsd sends");
        return;
    }
    if ((type->brings_fd && type->brings_fd(m) && !take_fd(r, r->fd)) ||
        (type->brings_output && type->brings_output(m) && !take_fd(r, r->output_fd)))
        return;
    if (type->feature && !(p->features & type->feature)) {
        peer_fail(p, "%s without feature %" PRIu64 " in HELLO", codec_type_name(m->type), type->feature);
        return;
    }
    if (type->changes)
        note_action(r);
    refusal = type->submits ? access_submit(p) : NULL;
    if (!refusal && type->plugin)
        refusal = access_path(p, type->plugin(m));
    if (refusal) {
        request_refuse(r, CODE_DENIED, refusal);
        return;
    }
    type->serve(r);
}

static bool dispatch(struct peer *p, const struct frame *frame)
{
    _cleanup_(async_closep) struct async_close file = {.fd = -1, .owner = p->uid};
    _cleanup_(async_closep) struct async_close output = {.fd = -1, .owner = p->uid};
    struct msg m;
    struct request r = {.peer = p,
                        .tag = frame->tag,
                        .msg = &m,
                        .body = {(const char *)frame->body, frame->body_size},
                        .fd = &file.fd,
                        .output_fd = &output.fd,
                        .begun = p->begun};

    if ((r.begun ? codec_decode_again : codec_decode)(p->frontend->codec, frame, &m) != 0)
        peer_fail(p, "%s", codec_strerror(p->frontend->codec));
    else if (r.begun)
        types[m.type].serve(&r);
    else
        begin(&r);
    return !r.begun || p->failed;
}

const struct peer_ops dispatch_ops = {.cost = cost_of,
                                      .asks = asks,
                                      .request = dispatch,
                                      .gathered = arrays_flush,
                                      .room = calls_room,
                                      .later = calls_later,
                                      .forget = calls_forget};
