/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-session.c: the connection itself: HELLO, PING and STATS.
 * Owns nothing: what was agreed upon is the peer's. [loop]
 * Keeps: a connection says HELLO once, before anything else. */
#include "frontend/serve-session.h"

#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/frontend.h"

void serve_stats(struct request *r)
{
    struct peer *p = r->peer;
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

    return FEATURES_ALL & ~(p->remote ? FEATURE_PAYLOAD : 0) & ~(p->remote || !jobs_lanes_available() ? lane : 0);
}

void serve_hello(struct request *r)
{
    const struct msg_hello *m = &r->msg->hello;
    struct peer *p = r->peer;
    uint64_t features = own_features(p);
    struct msg answer = {
        .type = FRAME_WELCOME,
        .welcome = {
            .version = 1, .features = features, .program = span("wsd " WSD_VERSION), .window = JOBS_INPUT_WINDOW}};

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
    p->features = m->features & features;
    p->greeted = true;
    peer_send(p, &answer, 0, NULL, 0);
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
