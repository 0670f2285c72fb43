/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-dead.c: jobs that are out of retries: DEAD.
 * Owns nothing beyond the calls. [loop]
 * Keeps: a decision is told when it is on disk. */
#include "frontend/serve-dead.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/serve-list.h"

static void on_decided(struct dead_query *q, int code, const char *text)
{
    struct call *c = container_of(q, struct call, dead);

    if (code == 0)
        call_end(c);
    else
        call_refuse(c, (uint32_t)code, text);
}

static void dead_forget(struct call *c)
{
    jobs_dead_forget(&c->dead);
}

static const struct call_ops ops = {.forget = dead_forget};

void serve_dead(struct request *r)
{
    const struct msg_dead *m = &r->msg->dead;
    struct peer *p = r->peer;
    struct call *c;

    if (m->action == DEAD_LIST) {
        list_jobs(r, &(struct jobs_filter){.dead = true});
        return;
    }
    c = call_new(r, &ops);
    if (!c)
        return;
    c->dead.answer = on_decided;
    int result =
        jobs_dead(p->frontend->options.jobs, m->id.id, access_cancels(p), p->uid, m->action == DEAD_REQUEUE, &c->dead);
    if (result == -ENOENT)
        call_refuse(c, CODE_NOT_FOUND, "no such job is out of retries: see `wsctl dead list`");
    else if (result < 0)
        call_refuse(c, CODE_BUSY,
                    result == -EAGAIN  ? "wsd is draining"
                    : result == -EBUSY ? "it is being read or changed: try again"
                                       : strerror(-result));
}
