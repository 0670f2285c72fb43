/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c: requests about direct lanes: a lane is a call that stays open as long as the lane does.
 * Owns nothing beyond the calls. [loop]
 * Keeps: descriptors go with the frame that speaks of them; a lane ends with its connection.
 * Does not see what goes through a lane. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "frontend/call.h"

static void on_opened(struct lane_user *u, int memory_fd, int grant_fd)
{
    struct call *c = container_of(u, struct call_lane, user)->call;
    const int fds[2] = {memory_fd, grant_fd};

    if (peer_send_fds(c->peer, &(struct msg){.type = FRAME_LANE}, c->tag, fds))
        return;
    peer_error(c->peer, c->tag, CODE_BUSY, "no descriptors left");
    call_free(c);
}

static void on_gone(struct lane_user *u, int code, const char *text)
{
    struct call *c = container_of(u, struct call_lane, user)->call;
    struct msg m = {.type = FRAME_LANE_LOST, .error = {.text = {text, strnlen(text, CODEC_TEXT_MAX - 1)}}};

    if (code)
        peer_error(c->peer, c->tag, (uint32_t)code, text);
    else
        peer_send(c->peer, &m, c->tag, NULL, 0);
    call_free(c);
}

static bool on_may_use(struct lane_user *u, const char *plugin)
{
    return access_plugin(container_of(u, struct call_lane, user)->call->peer, plugin);
}

static const struct lane_ops ops = {.opened = on_opened, .may_use = on_may_use, .gone = on_gone};

/* NULL: it was answered. */
static struct call *make(struct peer *p, uint32_t tag, enum call_kind kind)
{
    struct call *c = call_new(p, tag, kind);

    if (!c)
        return NULL;
    c->lane = calloc(1, sizeof(*c->lane));
    if (!c->lane) {
        peer_error(p, tag, CODE_BUSY, "out of memory");
        call_free(c);
        return NULL;
    }
    c->lane->call = c;
    list_init(&c->lane->bind.link);
    list_init(&c->lane->bind.query.link);
    return c;
}

void lane_open(struct peer *p, uint32_t tag)
{
    struct call *c = make(p, tag, CALL_LANE);
    bool agreed = p->features & FEATURE_LANE;

    if (!c)
        return;
    c->lane->user.ops = &ops;
    const char *why = agreed ? jobs_lane_open(p->frontend->options.jobs, p->uid, p->directory, &c->lane->user)
                             : "direct lanes were not agreed upon";
    if (!why)
        return;
    peer_error(p, tag, agreed ? CODE_BUSY : CODE_USAGE, why);
    call_free(c);
}

static void on_bound(struct lane_bind *b, int code, const char *text)
{
    struct call *c = container_of(b, struct call_lane, bind)->call;
    struct msg m = {.type = FRAME_LANE_BOUND,
                    .lane_bound = {.number = b->number, .flags = b->idempotent ? LANE_BOUND_IDEMPOTENT : 0}};

    if (code)
        peer_error(c->peer, c->tag, (uint32_t)code, text);
    else
        peer_send(c->peer, &m, c->tag, NULL, 0);
    call_free(c);
}

static struct call *find_lane(struct peer *p, uint32_t tag)
{
    struct call *c = call_find(p, tag);

    return c && c->kind == CALL_LANE ? c : NULL;
}

void lane_bind(struct peer *p, uint32_t tag, const struct msg_lane_bind *m)
{
    struct call *c = make(p, tag, CALL_BIND), *lane = find_lane(p, m->lane);

    if (!c)
        return;
    c->lane->bind.answer = on_bound;
    int r = lane ? jobs_lane_bind(&lane->lane->user, m->plugin.data, m->function.data, &c->lane->bind) : -ENOENT;
    if (r == 0)
        return;
    peer_error(p, tag,
               r == -EACCES         ? CODE_DENIED
               : r == -ENAMETOOLONG ? CODE_NOT_FOUND
                                    : CODE_BUSY,
               "no such lane, or not now");
    call_free(c);
}

void lane_waits(struct peer *p, uint32_t tag)
{
    struct call *c = find_lane(p, tag);

    if (c)
        jobs_lane_waits(&c->lane->user);
}

void lane_close(struct peer *p, uint32_t tag)
{
    struct call *c = find_lane(p, tag);

    if (c)
        call_end(c);
}

void lane_forget(struct call *c)
{
    if (!c->lane)
        return;
    jobs_lane_close(&c->lane->user);
    jobs_lane_forget(&c->lane->bind);
    free(c->lane);
    c->lane = NULL;
}
