/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c: calls: the open requests of a connection.
 * Owns them. A call belongs to its connection and goes with it, so an answer never finds a connection that is gone.
 * [loop]
 * Keeps: one last frame a request.
 * Does not know what kinds of calls there are. */
#include "frontend/call.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "frontend/quota.h"

static uint64_t tag_key(const struct peer *p, uint32_t tag)
{
    return hash_number(p->number << 32 ^ tag);
}

struct call *call_find(const struct peer *p, uint32_t tag)
{
    for (struct hash_link *l = hash_first(&p->frontend->calls, tag_key(p, tag)); l; l = hash_next(l)) {
        struct call *c = container_of(l, struct call, by_tag);

        if (c->peer == p && c->tag == tag)
            return c;
    }
    return NULL;
}

struct call *call_open(struct peer *p, uint32_t tag, const struct call_ops *ops)
{
    struct call *c = call_find(p, tag);
    const char *refusal;

    if (c && c->over) {
        call_free(c);
        c = NULL;
    }
    if (tag == 0 || c) {
        peer_fail(p, tag == 0 ? "a request with tag 0" : "a request with the tag of an open one");
        return NULL;
    }
    refusal = quota_request(p);
    if (refusal) {
        peer_error(p, tag, CODE_BUSY, refusal);
        return NULL;
    }
    c = slab_take(&p->frontend->call_cells, sizeof(*c));
    if (c)
        memset(c, 0, sizeof(*c));
    if (!c || hash_insert(&p->frontend->calls, &c->by_tag, tag_key(p, tag)) < 0) {
        slab_give(c);
        quota_request_ended(p);
        peer_error(p, tag, CODE_BUSY, "out of memory");
        return NULL;
    }
    c->peer = p;
    c->tag = tag;
    c->ops = ops;
    list_init(&c->stalled);
    list_push_back(&p->calls, &c->link);
    return c;
}

struct call *call_new(const struct request *r, const struct call_ops *ops)
{
    struct call *c = call_open(r->peer, r->tag, ops);

    if (c)
        c->action = r->action;
    else
        actions_refused(&r->peer->frontend->actions, r->action, CODE_BUSY);
    return c;
}

void call_free(struct call *c)
{
    uint32_t all = UINT32_MAX;

    if (c->ops->shed)
        (void)c->ops->shed(c, &all);
    hash_remove(&c->peer->frontend->calls, &c->by_tag);
    list_remove(&c->link);
    quota_request_ended(c->peer);
    if (c->ops->forget)
        c->ops->forget(c);
    list_remove(&c->stalled); /* last: a bundle that comes apart in forget() tells ends that find no room */
    slab_give(c);
}

void call_stall(struct call *c)
{
    if (list_empty(&c->stalled))
        list_push_back(&c->peer->stalled, &c->stalled);
}

void call_later(struct call *c)
{
    if (list_empty(&c->stalled))
        list_push_back(&c->peer->later, &c->stalled);
    share_want(c->peer);
}

void call_end(struct call *c)
{
    peer_send(c->peer, &(struct msg){.type = FRAME_END}, c->tag, NULL, 0);
    call_free(c);
}

void call_refuse(struct call *c, uint32_t code, const char *text)
{
    actions_refused(&c->peer->frontend->actions, c->action, code);
    peer_error(c->peer, c->tag, code, text);
    call_free(c);
}

void send_end(const struct request *r)
{
    peer_send(r->peer, &(struct msg){.type = FRAME_END}, r->tag, NULL, 0);
}

void request_refuse(const struct request *r, uint32_t code, const char *text)
{
    actions_refused(&r->peer->frontend->actions, r->action, code);
    peer_error(r->peer, r->tag, code, text);
}

void calls_room(struct peer *p)
{
    while (!list_empty(&p->stalled) && !peer_full(p) && !p->failed) {
        struct call *c = container_of(list_pop_front(&p->stalled), struct call, stalled);

        if (c->over)
            call_free(c);
        else
            c->ops->room(c);
    }
}

void calls_later(struct peer *p)
{
    struct list *l = list_pop_front(&p->later);

    if (l)
        container_of(l, struct call, stalled)->ops->later(container_of(l, struct call, stalled));
}

bool calls_forget(struct peer *p, uint32_t *budget)
{
    while (!list_empty(&p->calls)) {
        struct call *c = container_of(p->calls.next, struct call, link);

        if (!*budget || (c->ops->shed && !c->ops->shed(c, budget)))
            return false;
        *budget -= MIN(*budget, 1 + (c->ops->weight ? c->ops->weight(c) : 0));
        call_free(c);
    }
    jobs_trace_drop(p->frontend->options.jobs, p->trace);
    return true;
}
