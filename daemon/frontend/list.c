/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c: jobs by their properties: LIST, LIST_WHERE, CANCEL_WHERE, and the list of DEAD.
 * Owns the selection of a call. [loop]
 * Keeps: the user's share of a turn bounds how many jobs are looked at, however many there are. A list waits for a
 * client that does not read.
 * Does not know what matches. */
#include <errno.h>
#include <string.h>

#include "base/code.h"
#include "frontend/access.h"
#include "frontend/call.h"

#define LOOKS       256u  /* at jobs, before what else its connection wants has its turn */
#define LOOK_COST   400u  /* in units of share.h: among a million jobs it is in no cache */
#define CANCEL_COST 4000u /* to cancel one */

void list_pump(struct call *c)
{
    struct peer *p = c->peer;
    uint32_t looks = LOOKS;
    uint8_t id[16];
    int r;

    for (;;) {
        uint32_t left = looks;

        if (c->kind == CALL_LIST && peer_full(p)) {
            call_stall(c);
            return;
        }
        r = jobs_select_next(c->selection, &looks, id);
        share_charge(p, (left - looks) * LOOK_COST);
        if (r == JOBS_SELECTED_LATER) {
            call_later(c);
            return;
        }
        if (r != JOBS_SELECTED_ONE)
            break;
        if (c->kind == CALL_LIST) {
            jobs_select_info(c->selection, id, call_send_job, c);
        } else {
            c->n_cancelled += jobs_select_cancel(c->selection, id);
            share_charge(p, CANCEL_COST);
        }
        looks = share_spent(p) ? 0 : looks;
    }
    if (r < 0)
        peer_error(p, c->tag, CODE_BUSY,
                   r == -EDQUOT ? "too many listings of this user are under way: try again later" : strerror(-r));
    else if (c->kind == CALL_CANCEL)
        peer_send(p, &(struct msg){.type = FRAME_COUNT, .count = {.n = c->n_cancelled}}, c->tag, NULL, 0);
    else
        peer_send(p, &(struct msg){.type = FRAME_END}, c->tag, NULL, 0);
    call_free(c);
}

static void begin(struct peer *p, uint32_t tag, enum call_kind kind, const struct jobs_filter *filter)
{
    struct call *c = call_new(p, tag, kind);

    if (!c)
        return;
    bool cancels = kind == CALL_CANCEL;
    uint32_t reach = cancels ? access_cancels(p) : access_sees(p);
    if (p->listing || jobs_select(p->frontend->options.jobs, p->uid, reach, filter, cancels, &c->selection) < 0) {
        peer_error(p, tag, CODE_BUSY, p->listing ? "another LIST of this connection is under way" : "out of memory");
        call_free(c);
        return;
    }
    p->listing = true;
    call_later(c);
}

static struct jobs_filter filter_of(const struct msg_filter *m)
{
    return (struct jobs_filter){.states = m->states,
                                .by_uid = m->by_uid,
                                .uid = m->uid,
                                .plugin = m->plugin.data,
                                .function = m->function.data,
                                .newer_usec = m->newer_usec,
                                .older_usec = m->older_usec,
                                .limit = m->limit,
                                .batch = m->batch.size ? (const uint8_t *)m->batch.data : NULL};
}

void list_jobs(struct peer *p, uint32_t tag, const struct jobs_filter *filter)
{
    begin(p, tag, CALL_LIST, filter);
}

void list_where(struct peer *p, uint32_t tag, const struct msg_filter *m)
{
    struct jobs_filter filter = filter_of(m);

    begin(p, tag, CALL_LIST, &filter);
}

void list_cancel(struct peer *p, uint32_t tag, const struct msg_filter *m)
{
    struct jobs_filter filter = filter_of(m);

    if (!m->states && !m->by_uid && !m->plugin.size && !m->function.size && !m->newer_usec && !m->older_usec &&
        !m->batch.size) {
        peer_error(p, tag, CODE_USAGE,
                   "a cancel that names nothing would mean everything: name states, a user, a plugin or an age");
        return;
    }
    if (!filter.states)
        filter.states = JOBS_STATES_OPEN;
    filter.states &= JOBS_STATES_OPEN;
    if (!filter.states) { /* they have ended */
        peer_send(p, &(struct msg){.type = FRAME_COUNT}, tag, NULL, 0);
        return;
    }
    begin(p, tag, CALL_CANCEL, &filter);
}
