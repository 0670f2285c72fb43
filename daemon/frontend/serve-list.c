/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-list.c: jobs by their properties: LIST, LIST_WHERE, CANCEL_WHERE, and the list of DEAD.
 * Owns the selection of a call. [loop]
 * Keeps: the user's share of a turn bounds how many jobs are looked at, however many there are. A list waits for a
 * client that does not read.
 * Does not know what matches. */
#include "frontend/serve-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/job-watch.h"

#define LOOKS       256u  /* at jobs, before what else its connection wants has its turn */
#define LOOK_COST   400u  /* in units of share.h: among a million jobs it is in no cache */
#define CANCEL_COST 4000u /* to cancel one */

/* All that was cancelled is on disk as that, or cannot be written. */
static void send_count(struct call *c)
{
    const struct cancels *k = &c->list.unwritten;
    char text[CODEC_TEXT_MAX];

    if (k->n_unwritten) {
        snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " jobs: %.200s", k->n_unwritten, c->list.n_cancelled,
                 cancels_words(k));
        call_refuse(c, CODE_BUSY, text);
        return;
    }
    peer_send(c->peer, &(struct msg){.type = FRAME_COUNT, .count = {.n = c->list.n_cancelled}}, c->tag, NULL, 0);
    call_free(c);
}

static void on_written(struct cancels *k)
{
    struct call *c = container_of(k, struct call, list.unwritten);

    if (!c->list.selection)
        send_count(c);
}

static void end_selection(struct call *c)
{
    if (!c->list.selection)
        return;
    c->peer->listing = false;
    c->list.selection = jobs_select_free(c->list.selection);
}

static void cancel_one(struct call *c, const uint8_t id[16])
{
    struct jobs *jobs = c->peer->frontend->options.jobs;
    uint32_t reach = access_cancels(c->peer);

    share_charge(c->peer, CANCEL_COST);
    if (!jobs_select_cancel(c->list.selection, id))
        return;
    c->list.n_cancelled++;
    if (jobs_watch_cancelled(jobs, id, reach, NULL))
        cancels_add(&c->list.unwritten, jobs, id, reach);
}

static void list_some(struct call *c)
{
    struct peer *p = c->peer;
    uint32_t looks = LOOKS;
    uint8_t id[16];
    int r;

    for (;;) {
        uint32_t left = looks;

        if (!c->list.cancels && peer_full(p)) {
            call_stall(c);
            return;
        }
        r = jobs_select_next(c->list.selection, &looks, id);
        share_charge(p, (left - looks) * LOOK_COST);
        if (r == JOBS_SELECTED_LATER) {
            call_later(c);
            return;
        }
        if (r != JOBS_SELECTED_ONE)
            break;
        if (c->list.cancels)
            cancel_one(c, id);
        else
            jobs_select_info(c->list.selection, id, send_job, c);
        looks = share_spent(p) ? 0 : looks;
    }
    if (r < 0) {
        call_refuse(c, CODE_BUSY,
                    r == -EDQUOT ? "too many listings of this user are under way: try again later" : strerror(-r));
        return;
    }
    end_selection(c);
    if (!c->list.cancels)
        call_end(c);
    else if (list_empty(&c->list.unwritten.waiting))
        send_count(c);
}

static void list_forget(struct call *c)
{
    end_selection(c);
    cancels_deinit(&c->list.unwritten);
}

static const struct call_ops ops = {.forget = list_forget, .room = call_later, .later = list_some};

static void list_begin(const struct request *r, bool cancels, const struct jobs_filter *filter)
{
    struct peer *p = r->peer;
    struct call *c = call_new(r, &ops);

    if (!c)
        return;
    cancels_init(&c->list.unwritten, on_written);
    uint32_t reach = cancels ? access_cancels(p) : access_watches(p);
    if (p->listing || jobs_select(p->frontend->options.jobs, p->uid, reach, filter, cancels, &c->list.selection) < 0) {
        call_refuse(c, CODE_BUSY, p->listing ? "another LIST of this connection is under way" : "out of memory");
        return;
    }
    c->list.cancels = cancels;
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

void list_jobs(struct request *r, const struct jobs_filter *filter)
{
    list_begin(r, false, filter);
}

void serve_list(struct request *r)
{
    list_begin(r, false, &(struct jobs_filter){.limit = 0});
}

void serve_list_where(struct request *r)
{
    struct jobs_filter filter = filter_of(&r->msg->filter);

    list_begin(r, false, &filter);
}

void serve_cancel_where(struct request *r)
{
    const struct msg_filter *m = &r->msg->filter;
    struct jobs_filter filter = filter_of(m);

    if (!m->states && !m->by_uid && !m->plugin.size && !m->function.size && !m->newer_usec && !m->older_usec &&
        !m->batch.size) {
        request_refuse(r, CODE_USAGE,
                       "a cancel that names nothing would mean everything: name states, a user, a plugin or an age");
        return;
    }
    if (!filter.states)
        filter.states = JOBS_STATES_OPEN;
    filter.states &= JOBS_STATES_OPEN;
    if (!filter.states) { /* they have ended */
        peer_send(r->peer, &(struct msg){.type = FRAME_COUNT}, r->tag, NULL, 0);
        return;
    }
    list_begin(r, true, &filter);
}
