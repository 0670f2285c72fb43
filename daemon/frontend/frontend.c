/* SPDX-License-Identifier: Apache-2.0
 *
 * frontend.c: the sockets as a whole: what is done in a turn of the loop, and what holds for all connections.
 * Owns the connections, also those that have gone while calls of theirs are open. [loop]
 * Keeps: a turn ends when its work is done (share.c), however many connections there are.
 * Does not know requests. */
#include "frontend/frontend.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "frontend/dispatch.h"
#include "frontend/listener.h"
#include "frontend/peer.h"

#define BACKOFF_MAX  127u /* answers after which nothing is read on, at most */
#define CLOSES_LEAST 8u   /* of each of them, in a turn: a connection with few does not wait for one with many */
/* calls and items of arrays of connections that have gone: some 0.2 ms where they are in no cache */
#define CLOSES_A_TURN 32u
/* descriptors that connections leave free: for one message, and for an executor to start */
#define FDS_SPARED (PEER_FDS_AT_ONCE + 32)

/* True: some have calls left. */
static bool go_on_closing(struct frontend *f, uint32_t *closes)
{
    uint32_t share = (uint32_t)MAX(CLOSES_A_TURN / (f->n_closing + 1), CLOSES_LEAST);

    list_for_each_entry_safe (struct peer, p, after_p, &f->closing, link) {
        uint32_t budget = MIN(share, *closes), left = budget;

        (void)peer_close(p, &left);
        *closes -= budget - left;
    }
    return !list_empty(&f->closing);
}

/* The highest that a connection may have. */
static int connection_fds(int limit)
{
    return limit - MIN((int)FDS_SPARED, limit / 2);
}

/* The loop's turn follows. */
static void on_rested(evutil_socket_t fd, short what, void *userdata)
{
    shares_wake(userdata, clock_monotonic_usec());
}

int frontend_new(struct frontend **ret_frontend, const struct frontend_options *options)
{
    struct frontend *f = calloc(1, sizeof(*f));
    struct rlimit l;

    if (!f)
        return -ENOMEM;
    f->options = *options;
    f->ops = &dispatch_ops;
    f->n_rules = 1;
    f->max_fd = getrlimit(RLIMIT_NOFILE, &l) == 0 ? connection_fds((int)MIN(l.rlim_cur, (rlim_t)1 << 30)) : INT_MAX;
    list_init(&f->peers);
    list_init(&f->closing);
    shares_init(&f->shares);
    handshakes_init(&f->handshakes);
    actings_init(&f->actings);
    list_init(&f->listeners);
    f->scratch = malloc(PEER_IN_MAX);
    f->shares.timer = evtimer_new(f->options.base, on_rested, &f->shares);
    if (refusals_init(f) < 0 || !f->scratch || !f->shares.timer || codec_new(&f->codec) < 0) {
        frontend_free(f);
        return -ENOMEM;
    }
    *ret_frontend = f;
    return 0;
}

struct frontend *frontend_free(struct frontend *f)
{
    if (!f)
        return NULL;
    listeners_close(f);
    while (!list_empty(&f->peers))
        peer_free(container_of(f->peers.next, struct peer, link));
    while (!list_empty(&f->closing))
        peer_free(container_of(f->closing.next, struct peer, link));
    remote_free(f->remote);
    handshakes_deinit(&f->handshakes);
    actings_deinit(&f->actings);
    actions_deinit(&f->actions);
    slab_trim(&f->call_cells);
    hash_deinit(&f->calls);
    hash_deinit(&f->users);
    codec_free(f->codec);
    refusals_deinit(f);
    buffer_deinit(&f->spare);
    free(f->scratch);
    if (f->shares.timer)
        event_free(f->shares.timer);
    free(f);
    return NULL;
}

bool frontend_flush(struct frontend *f)
{
    struct shares *all = &f->shares;
    uint32_t closes = CLOSES_A_TURN;
    bool more = go_on_closing(f, &closes), alone = all->n_marked == 1;

    f->answered = NULL;
    /* what is marked meanwhile has its own turn */
    for (uint64_t n = MIN(all->n_marked, (uint64_t)SHARE_MARKED); n; n--) {
        struct peer *p = shares_next_marked(all);
        uint64_t sent;

        if (!p)
            break;
        sent = p->sent;
        peer_flush(p);
        if (p->failed)
            (void)peer_close(p, &closes);
        else if (alone && p->sent != sent && list_empty(&p->calls) && !buffer_size(&p->out) && p->reading && !p->held &&
                 p->far && !far_end_strange(p->far))
            f->answered = p;
    }
    return more || all->n_marked || !list_empty(&f->closing) || !list_empty(&all->waiting);
}

bool frontend_serve(struct frontend *f)
{
    return shares_serve(&f->shares, peer_serve);
}

/* A client that waited for the answer, on this CPU, has often sent its next request by now: then the kernel need not be
 * asked which client has sent something. Where that does not pay, it is attempted ever more rarely. */
bool frontend_read_on(struct frontend *f)
{
    struct peer *p = TAKE(f->answered);

    if (!p || !list_empty(&f->shares.waiting) || (f->n_backoff && f->n_backoff--))
        return false;
    bool hit = peer_read_on(p);
    f->backoff = hit ? 0 : MIN(2 * f->backoff + 1, BACKOFF_MAX);
    f->n_backoff = f->backoff;
    return hit;
}

void frontend_goodbye(struct frontend *f)
{
    static const char text[] = "wsd is draining: open calls will end, new ones are refused";
    struct msg m = {.type = FRAME_GOODBYE, .error = {.code = CODE_BUSY, .text = {text, sizeof(text) - 1}}};

    list_for_each_entry (struct peer, p, &f->peers, link) {
        if (p->greeted)
            peer_send(p, &m, 0, NULL, 0);
    }
}

bool frontend_quiet(const struct frontend *f)
{
    list_for_each_entry (const struct peer, p, &f->peers, link) {
        if (p->begun || peer_sending(p) || (p->far && !far_end_settled(p->far)))
            return false;
    }
    return !f->shares.n_marked;
}

void frontend_set_limits(struct frontend *f, const struct frontend_limits *limits)
{
    f->options.limits = *limits;
}

void frontend_set_rules(struct frontend *f, const struct access_rules *rules)
{
    f->options.rules = rules;
    f->n_rules++;
    list_for_each_entry (struct peer, p, &f->peers, link) {
        char why[ACCESS_WHY];

        if (p->as && p->acting && !p->failed && !access_acts(f, p->acting->by, p->acting->name, p->as, why))
            peer_reject(p, CODE_DENIED, why);
    }
}

void frontend_set_remote(struct frontend *f, struct remote *r)
{
    list_for_each_entry (struct peer, p, &f->peers, link) {
        char why[REMOTE_WHY];

        /* a handshake that goes on is by the old files, and is looked up in the new map */
        if (!remote_stays(p, r, why))
            peer_fail(p, "the certificate %s", why);
    }
    remote_free(f->remote);
    f->remote = r;
}
