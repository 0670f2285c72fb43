/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-limits.c: what runs and how much of it: GATE and LIMIT.
 * Owns nothing. [loop]
 * Keeps: only administrators change something; a user sees its own limits. */
#include "frontend/serve-limits.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"

static void send_gate(const struct jobs_gate_info *info, void *userdata)
{
    const struct request *a = userdata;
    const struct msg m = {
        .type = FRAME_GATE_STATE,
        .gate_state = {.plugin = span(info->plugin),
                       .function = span(info->function),
                       .flags = (info->paused ? GATE_PAUSED : 0u) | (info->drained ? GATE_DRAINED : 0u),
                       .limit = info->limit,
                       .running = info->running,
                       .waiting = info->waiting,
                       .tag = span(info->tag)}};

    if (*info->tag && !(a->peer->features & FEATURE_ORDER))
        return; /* it would be taken for everything */
    peer_send(a->peer, &m, a->tag, NULL, 0);
}

void serve_gate(struct request *r)
{
    const struct msg_gate *m = &r->msg->gate;
    struct peer *p = r->peer;
    struct jobs *jobs = p->frontend->options.jobs;
    const struct jobs_gate_request request = {.action = (enum jobs_gate_action)m->action,
                                              .uid = p->uid,
                                              .plugin = m->plugin.data,
                                              .function = m->function.data,
                                              .tag = m->tag.data,
                                              .limit = m->limit};
    const char *refusal = m->action == GATE_LIST ? NULL : access_administer(p);
    int result = 0;

    if (refusal) {
        request_refuse(r, CODE_DENIED, refusal);
        return;
    }
    if (m->action == GATE_LIST)
        jobs_gates(jobs, send_gate, r);
    else
        result = jobs_gate(jobs, &request);
    if (result == 0)
        send_end(r);
    else if (result == -ENOENT)
        request_refuse(r, CODE_NOT_FOUND, "it is neither paused nor limited: see `wsctl limit`");
    else
        request_refuse(r, result == -EINVAL ? CODE_USAGE : CODE_BUSY,
                       result == -EINVAL   ? "a limit is for a plugin, a function of it, or a tag; a drain is for all"
                       : result == -ENOSPC ? "too many are paused or limited: see `wsctl limit`"
                                           : strerror(-result));
}

static void send_limit(const struct frontend_limit *limit, void *userdata)
{
    const struct request *a = userdata;
    const struct msg m = {.type = FRAME_LIMIT_STATE,
                          .limit = {.flags = (limit->own ? LIMIT_OWN : 0u) | (limit->moved ? LIMIT_MOVED : 0u),
                                    .uid = limit->uid,
                                    .key = span(limit->key),
                                    .value = span(limit->value),
                                    .by = limit->by}};

    peer_send(a->peer, &m, a->tag, NULL, 0);
}

void serve_limit(struct request *r)
{
    const struct msg_limit *m = &r->msg->limit;
    struct peer *p = r->peer;
    const struct frontend_options *o = &p->frontend->options;
    bool moves = m->flags & LIMIT_MOVED;
    const char *refusal = !o->limits_ops ? "this wsd has no limits to show" : moves ? access_administer(p) : NULL;
    char error[FRONTEND_LIMIT_ERROR] = "out of memory";
    uint32_t sees = access_watches(p);
    int result = 0;

    if (refusal) {
        request_refuse(r, CODE_DENIED, refusal);
        return;
    }
    if (moves)
        result = o->limits_ops->set(o->limits_userdata, p->uid, m->flags & LIMIT_OWN, m->uid, m->key.data,
                                    m->value.data, error);
    else
        result = o->limits_ops->each(o->limits_userdata, sees == ACCESS_ALL, sees, send_limit, r);
    if (result < 0)
        request_refuse(r, result == -EINVAL ? CODE_USAGE : CODE_BUSY, error);
    else
        send_end(r);
}
