/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-arena.c: ARENA_OPEN and ARENA_CLOSE: an arena is a call that stays open as long as it may be named.
 * Owns nothing beyond the calls. [loop]
 * Keeps: an arena ends with its connection, for new jobs.
 * Does not know what lies in one. */
#include "frontend/serve-arena.h"

#include "base/cleanup.h"

static void arena_forget(struct call *c)
{
    if (!c->arena)
        return;
    c->peer->n_arenas--;
    c->arena = jobs_arena_drop(c->arena);
}

static const struct call_ops ops = {.forget = arena_forget};

void serve_arena_open(struct request *r)
{
    struct peer *p = r->peer;
    struct call *c = call_new(r, &ops);
    const char *refusal = NULL;
    uint64_t retry_usec = 0;
    int code = CODE_BUSY;

    if (!c)
        return;
    if (p->n_arenas >= PEER_ARENAS)
        refusal = "too many arenas of this connection: close one";
    else if (jobs_arena_new(p->frontend->options.jobs, p->uid, r->fd, &c->arena, &code, &refusal, &retry_usec) < 0)
        refusal = "out of memory";
    if (refusal) {
        peer_refuse(p, r->tag, (uint32_t)code, refusal, retry_usec);
        call_free(c);
        return;
    }
    p->n_arenas++;
    peer_send(p, &(struct msg){.type = FRAME_ARENA}, r->tag, NULL, 0);
}

static struct call *arena_call_find(const struct peer *p, uint32_t tag)
{
    struct call *c = call_find(p, tag);

    return c && c->ops == &ops ? c : NULL;
}

struct arena *arena_find(const struct peer *p, uint32_t tag)
{
    struct call *c = arena_call_find(p, tag);

    return c ? c->arena : NULL;
}

void serve_arena_close(struct request *r)
{
    struct call *c = arena_call_find(r->peer, r->tag);

    if (c)
        call_end(c);
}
