/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-lane.c: direct lanes: LANE_OPEN, LANE_BIND, LANE_WAITS, LANE_CLOSE. A lane is a call that stays open as long
 * as the lane does.
 * Owns nothing beyond the calls. [loop]
 * Keeps: descriptors go with the frame that speaks of them; a lane ends with its connection.
 * Does not see what goes through a lane. */
#include "frontend/serve-lane.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "frontend/access.h"

struct call_lane {
    struct call *call;
    struct lane_user user; /* LANE_OPEN */
    struct lane_bind bind; /* LANE_BIND */
};

static void on_opened(struct lane_user *u, const int fds[LANE_FDS])
{
    struct call *c = container_of(u, struct call_lane, user)->call;

    if (peer_send_fds(c->peer, &(struct msg){.type = FRAME_LANE}, c->tag, fds, u->notices ? LANE_FDS : LANE_FDS - 1))
        return;
    call_refuse(c, CODE_BUSY, "no descriptors left");
}

static void on_gone(struct lane_user *u, int code, const char *text)
{
    struct call *c = container_of(u, struct call_lane, user)->call;
    struct msg m = {.type = FRAME_LANE_LOST, .error = {.text = line(text)}};

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

static const struct lane_ops user_ops = {.opened = on_opened, .may_use = on_may_use, .gone = on_gone};

static void lane_forget(struct call *c)
{
    if (!c->lane)
        return;
    jobs_lane_close(&c->lane->user);
    jobs_lane_forget(&c->lane->bind);
    free(c->lane);
}

static const struct call_ops lane_call_ops = {.forget = lane_forget}, bind_call_ops = {.forget = lane_forget};

/* NULL: it was answered. */
static struct call *lane_begin(const struct request *r, const struct call_ops *ops)
{
    struct call *c = call_new(r, ops);

    if (!c)
        return NULL;
    c->lane = calloc(1, sizeof(*c->lane));
    if (!c->lane) {
        call_refuse(c, CODE_BUSY, "out of memory");
        return NULL;
    }
    c->lane->call = c;
    list_init(&c->lane->bind.link);
    list_init(&c->lane->bind.query.link);
    return c;
}

void serve_lane_open(struct request *r)
{
    struct peer *p = r->peer;
    struct call *c = lane_begin(r, &lane_call_ops);
    bool agreed = p->features & FEATURE_LANE;

    if (!c)
        return;
    c->lane->user.ops = &user_ops;
    c->lane->user.notices = p->features & FEATURE_NOTICE;
    const char *why = agreed ? jobs_lane_open(p->frontend->options.jobs, p->uid, p->directory, &c->lane->user)
                             : "direct lanes were not agreed upon";
    if (why)
        call_refuse(c, agreed ? CODE_BUSY : CODE_USAGE, why);
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

static struct call *find_lane(const struct peer *p, uint32_t tag)
{
    struct call *c = call_find(p, tag);

    return c && c->ops == &lane_call_ops ? c : NULL;
}

void serve_lane_bind(struct request *r)
{
    const struct msg_lane_bind *m = &r->msg->lane_bind;
    struct call *c = lane_begin(r, &bind_call_ops), *lane = find_lane(r->peer, m->lane);

    if (!c)
        return;
    c->lane->bind.answer = on_bound;
    int result = lane ? jobs_lane_bind(&lane->lane->user, m->plugin.data, m->function.data, &c->lane->bind) : -ENOENT;
    if (result < 0)
        call_refuse(c,
                    result == -EACCES         ? CODE_DENIED
                    : result == -ENAMETOOLONG ? CODE_NOT_FOUND
                                              : CODE_BUSY,
                    "no such lane, or not now");
}

void serve_lane_waits(struct request *r)
{
    struct call *c = find_lane(r->peer, r->tag);

    if (c)
        jobs_lane_waits(&c->lane->user);
}

void serve_lane_close(struct request *r)
{
    struct call *c = find_lane(r->peer, r->tag);

    if (c)
        call_end(c);
}
