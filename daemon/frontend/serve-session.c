/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-session.c: the connection itself: HELLO, PING and STATS.
 * Owns nothing: what was agreed upon is the peer's. [loop]
 * Keeps: a connection says HELLO once, before anything else. Where it is to act for another user, nothing behind HELLO
 * is handled before it is that user's. */
#include "frontend/serve-session.h"

#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "far-end/far-end.h"
#include "frontend/access.h"
#include "frontend/acting.h"
#include "frontend/frontend.h"
#include "frontend/quota.h"

void serve_stats(struct request *r)
{
    struct peer *p = r->peer;
    const struct far_ends *far_ends = p->frontend->options.far_ends;
    struct jobs_counters n;

    jobs_counters(p->frontend->options.jobs, &n);
    const struct msg_counter counters[] = {
        {span("jobs_submitted"), n.submitted},
        {span("jobs_bundled"), n.bundled},
        {span("jobs_refused"), n.refused},
        {span("jobs_open"), n.n_open},
        {span("jobs_queued"), n.n_queued},
        {span("jobs_handed_over"), n.n_handed},
        {span("jobs_succeeded"), n.succeeded},
        {span("jobs_failed"), n.failed},
        {span("jobs_cancelled"), n.cancelled},
        {span("jobs_timed_out"), n.timed_out},
        {span("jobs_crashed"), n.crashed},
        {span("jobs_interrupted"), n.interrupted},
        {span("jobs_run_again"), n.rerun},
        {span("jobs_tried_again"), n.retried},
        {span("jobs_on_disk_ended"), n.n_stored},
        {span("jobs_dead"), n.n_dead},
        {span("store_bytes"), n.store_bytes},
        {span("results_kept"), n.n_kept},
        {span("results_being_read"), n.n_unread},
        {span("bytes_charged"), n.n_bytes},
        {span("executors"), n.n_executors},
        {span("executors_started"), n.executors_started},
        {span("executors_died"), n.executors_died},
        {span("executors_distrusted"), n.executors_distrusted},
        {span("traces"), n.n_traces},
        {span("direct_lanes"), n.n_lanes},
        {span("runners"), n.n_runners},
        {span("direct_lanes_taken_back"), n.lanes_taken_back},
        {span("direct_lanes_refused"), n.lanes_refused},
        {span("direct_calls"), n.direct_calls},
        {span("direct_running"), n.direct_running},
        {span("direct_cpu_usec"), n.direct_cpu_usec},
        {span("direct_crashed"), n.direct_crashed},
        {span("direct_interrupted"), n.direct_interrupted},
        {span("direct_timed_out"), n.direct_timed_out},
        {span("connections"), p->frontend->n_peers},
        {span("connections_closing"), p->frontend->n_closing},
        {span("bytes_unread"), p->frontend->n_unread},
        {span("request_units"), p->frontend->shares.units},
        {span("request_rests"), p->frontend->shares.n_rests},
        {span("request_units_turn_most"), p->frontend->shares.most},
        {span("output_bytes_turn_most"), n.output_most},
        {span("queue_oldest_usec"), n.oldest_queued_usec},
        {span("store_commits"), n.store_commits},
        {span("store_commit_usec"), n.store_commit_usec},
        {span("store_commit_last_usec"), n.store_commit_last_usec},
        {span("store_commit_most_usec"), n.store_commit_most_usec},
        {span("far_end_slow_calls"), far_ends ? far_ends_slow_calls(far_ends) : 0},
    };
    struct msg m = {.type = FRAME_COUNTERS, .stats = {.counters = counters, .n_counters = ARRAY_SIZE(counters)}};

    peer_send(p, &m, r->tag, NULL, 0);
}

void serve_ping(struct request *r)
{
    peer_send(r->peer, &(struct msg){.type = FRAME_PONG}, r->tag, r->body.data, r->body.size);
}

static uint64_t own_features(const struct peer *p)
{
    uint64_t lane = FEATURE_LANE | FEATURE_NOTICE;

    /* no descriptor goes there, or would be of another user */
    return FEATURES_ALL & ~(p->remote || p->acting ? FEATURE_PAYLOAD : 0) &
           ~(p->remote || p->acting || !jobs_lanes_available() ? lane : 0) & ~(p->remote ? FEATURE_USER : 0);
}

static void welcome(struct peer *p)
{
    const struct msg m = {.type = FRAME_WELCOME,
                          .welcome = {.version = 1,
                                      .features = own_features(p),
                                      .program = span("wsd " WSD_VERSION),
                                      .window = JOBS_INPUT_WINDOW}};

    p->features &= own_features(p);
    p->greeted = true;
    peer_send(p, &m, 0, NULL, 0);
}

/* The user database has answered for a connection that wants to act for a user. */
static void user_found(struct peer *p, int error)
{
    const struct acting *a = p->acting;
    char why[ACCESS_WHY];

    if (error == -ENOENT)
        snprintf(why, sizeof(why), "there is no user %.64s here to act for", a->name);
    else if (error == -EPERM)
        snprintf(why, sizeof(why), "uid %u may not act for %.64s: nobody acts for root", a->by, a->name);
    else if (error < 0)
        snprintf(why, sizeof(why), "%.64s: " ACCOUNTS_SILENT, a->name, strerror(-error));
    if (error < 0 || !access_acts(p->frontend, a->by, a->name, &a->user, why)) {
        peer_reject(p, error == 0 || error == -ENOENT || error == -EPERM ? CODE_DENIED : CODE_BUSY, why);
        return;
    }
    quota_give_back(p);
    acting_begin(p);
    if (peer_admit(p) < 0)
        peer_fail(p, "out of memory");
    if (p->failed)
        return;
    const struct log_about who = {.uid = &p->uid};
    log_event(LOG_KIND_CONNECTION, LOG_INFO, &who, "connection of uid %u pid %d acts for %.64s, uid %u", a->by, p->pid,
              a->name, p->uid);
    welcome(p);
    peer_go_on(p);
}

/* HELLO names a user that the connection is to act for. */
static void ask_for_user(struct peer *p, const struct msg_hello *m)
{
    char why[ACCESS_WHY], shown[CODEC_TEXT_MAX];

    if (!(m->features & own_features(p) & FEATURE_USER)) {
        peer_fail(p, "a user without feature %u in HELLO, or from another machine", FEATURE_USER);
        return;
    }
    escape_text(shown, sizeof(shown), m->user.data);
    if (strcmp(shown, m->user.data) != 0) {
        peer_fail(p, "no user has such a name: %s", shown);
        return;
    }
    if (!access_acts(p->frontend, p->uid, m->user.data, NULL, why)) {
        peer_reject(p, CODE_DENIED, why);
        return;
    }
    p->looks = true;
    int r = acting_ask(p, m->user.data, user_found);
    if (r == -EBUSY)
        peer_reject(p, CODE_BUSY, "too many users are being looked up: try again when `getent` answers");
    else if (r < 0)
        peer_fail(p, "%s", strerror(-r));
}

void serve_hello(struct request *r)
{
    const struct msg_hello *m = &r->msg->hello;
    struct peer *p = r->peer;

    if (p->greeted) {
        peer_fail(p, "a second HELLO");
        return;
    }
    if (m->version_min > 1 || m->version_max < 1) {
        peer_fail(p, "no protocol version in common: this is wsd " WSD_VERSION ", which speaks version 1");
        return;
    }
    if (m->directory.size) {
        if (m->directory.data[0] != '/') {
            peer_fail(p, "a working directory that is not absolute");
            return;
        }
    }
    if (m->directory.size || p->remote) {
        p->directory = directory_new(p->remote ? DIRECTORY_REMOTE : m->directory.data);
        if (!p->directory) {
            peer_fail(p, "out of memory");
            return;
        }
    }
    log_debug("uid %u pid %d speaks: %s", p->uid, p->pid, m->program.data);
    p->window = m->window;
    p->features = m->features & own_features(p);
    if (m->user.size)
        ask_for_user(p, m);
    else
        welcome(p);
}

bool session_take(struct peer *p, const struct handover_peer *k, const char *directory)
{
    _cleanup_(freep) char *path = NULL;

    if (!(k->flags & HANDOVER_GREETED))
        return true;
    if (k->features & ~own_features(p) || k->n_opens > PEER_OPENS || k->directory_size >= CODEC_PATH_MAX)
        return p->failed = true, false;
    path = k->directory_size ? strndup(directory, k->directory_size) : NULL;
    p->directory = path && *path == '/' ? directory_new(path) : NULL;
    if (k->directory_size && !p->directory)
        return p->failed = true, false;
    p->window = k->window;
    p->features = k->features;
    p->n_opens = k->n_opens;
    p->greeted = true;
    return true;
}
