/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-actions.c: the last changes and the user of each: ACTIONS; and the person behind the next requests: PERSON.
 * Owns the name of the person, which is the peer's. [loop]
 * Keeps: a user sees its own actions. Administrators, and users that see or watch all jobs, see those of all. A user
 * that only watches sees nothing that a user without rights over others wrote. A name gives no right: its client can
 * say any. A list waits for a client that does not read.
 * Does not know what is noted (note.c). */
#include "frontend/serve-actions.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/access.h"

#define ROWS     64u /* looked at, before what else its connection wants has its turn */
#define ROW_COST 50u /* in units of share.h, for one that is not shown */

void serve_person(struct request *r)
{
    struct span name = r->msg->person.name;
    char *copy = name.size ? strdup(name.data) : NULL;

    if (name.size && !copy)
        log_error("out of memory: a person is not named in the log");
    free(r->peer->person);
    r->peer->person = copy;
}

static bool is_seen(struct peer *p, const struct action *a)
{
    return a->uid == p->uid || access_counts(p) == ACCESS_ALL;
}

static bool is_read(struct peer *p, const struct action *a)
{
    return a->trusted || access_reads(p, a->uid) || !access_administer(p);
}

/* Returns the number behind which so many are left that the client sees; 0 for all. */
static uint64_t number_before(struct peer *p, uint32_t limit)
{
    const struct actions *all = &p->frontend->actions;
    uint64_t n = 0, number = 0;

    for (const struct action *a = actions_next(all, 0); a; a = actions_next(all, a->number))
        n += is_seen(p, a);
    for (uint64_t left = limit && n > limit ? n - limit : 0; left; left--) {
        const struct action *a = actions_next(all, number);

        while (!is_seen(p, a))
            a = actions_next(all, a->number);
        number = a->number;
    }
    return number;
}

static void send_action(struct call *c, const struct action *a)
{
    bool reads = is_read(c->peer, a);
    const struct msg m = {.type = FRAME_ACTION,
                          .action = {.time_usec = a->time_usec,
                                     .uid = a->uid,
                                     .person = span(reads ? a->person : ""),
                                     .verb = span(a->verb),
                                     .object = span(reads ? a->object : ""),
                                     .code = a->code}};

    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void send_some(struct call *c)
{
    struct peer *p = c->peer;

    for (uint32_t left = ROWS; left > 0; left--) {
        const struct action *a;

        if (peer_full(p)) {
            call_stall(c);
            return;
        }
        a = actions_next(&p->frontend->actions, c->actions.number);
        if (!a || p->failed) {
            call_end(c);
            return;
        }
        c->actions.number = a->number;
        share_charge(p, ROW_COST);
        if (is_seen(p, a))
            send_action(c, a);
        if (share_spent(p))
            break;
    }
    call_later(c);
}

static const struct call_ops ops = {.room = call_later, .later = send_some};

void serve_actions(struct request *r)
{
    struct call *c = call_new(r, &ops);

    if (!c)
        return;
    c->actions.number = number_before(r->peer, r->msg->actions.limit);
    call_later(c);
}
