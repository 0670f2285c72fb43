/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c: requests about arenas: an arena is a call that stays open as long as it may be named.
 * Owns nothing beyond the calls. [loop]
 * Keeps: an arena ends with its connection, for new jobs.
 * Does not know what lies in one. */
#include "base/cleanup.h"
#include "base/code.h"
#include "frontend/call.h"

void arena_open(struct peer *p, uint32_t tag, int *fd)
{
    struct call *c = call_new(p, tag, CALL_ARENA);
    const char *refusal = NULL;
    uint64_t retry_usec = 0;
    int code = CODE_BUSY;

    if (!c)
        return;
    if (p->n_arenas >= PEER_ARENAS)
        refusal = "too many arenas of this connection: close one";
    else if (jobs_arena_new(p->frontend->options.jobs, p->uid, fd, &c->arena, &code, &refusal, &retry_usec) < 0)
        refusal = "out of memory";
    if (refusal) {
        peer_refuse(p, tag, (uint32_t)code, refusal, retry_usec);
        call_free(c);
        return;
    }
    p->n_arenas++;
    peer_send(p, &(struct msg){.type = FRAME_ARENA}, tag, NULL, 0);
}

struct arena *arena_find(struct peer *p, uint32_t tag)
{
    struct call *c = call_find(p, tag);

    return c ? c->arena : NULL;
}

void arena_close(struct peer *p, uint32_t tag)
{
    if (arena_find(p, tag))
        call_end(call_find(p, tag));
}

void arena_forget(struct call *c)
{
    if (!c->arena)
        return;
    c->peer->n_arenas--;
    c->arena = jobs_arena_drop(c->arena);
}
