/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.c: limits the connections of all users and of each, and the open requests and unread bytes of a user.
 * Owns the table of users that have a connection. [loop]
 * Keeps: one user alone cannot take what others need to get in. What was counted is given back once.
 * Does not know what a connection does. */
#include "frontend/quota.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/async-close.h"
#include "frontend/peer.h"

struct frontend_user {
    struct hash_link by_uid;
    struct share share;
    uint32_t uid;
    uint64_t n_peers;
    uint64_t n_requests;
    uint64_t n_unread;
};

static struct frontend_user *user_find(const struct frontend *f, uint32_t uid)
{
    for (struct hash_link *l = hash_first(&f->users, hash_number(uid)); l; l = hash_next(l)) {
        struct frontend_user *u = container_of(l, struct frontend_user, by_uid);

        if (u->uid == uid)
            return u;
    }
    return NULL;
}

/* A quarter of the descriptors for connections is reserved for other users. Descriptors that a user has brought and
 * that cannot be closed yet count. */
static bool takes_all_descriptors(const struct frontend *f, uint32_t uid, uint64_t n)
{
    return n + async_close_pending(uid) + far_ends_closing(f->options.far_ends, uid) >= (uint64_t)f->max_fd / 4 * 3;
}

int quota_take(struct peer *p, const char **ret_refusal)
{
    struct frontend *f = p->frontend;
    struct frontend_user *u = user_find(f, p->uid);
    uint64_t n = u ? u->n_peers : 0;

    if (f->n_admitted >= f->options.limits.connections)
        *ret_refusal = "too many connections (max-connections in wsd.conf): try again later";
    else if (n >= f->options.limits.connections_per_user)
        *ret_refusal = "too many connections of this user (max-connections-per-user in wsd.conf): close some of them";
    else if (p->fd > f->max_fd || takes_all_descriptors(f, p->uid, n))
        *ret_refusal =
            "too many connections for wsd's descriptors (LimitNOFILE in its unit, or ulimit -n): try again later";
    else
        *ret_refusal = NULL;
    if (*ret_refusal)
        return 0;
    if (!u) {
        u = calloc(1, sizeof(*u));
        if (!u || hash_insert(&f->users, &u->by_uid, hash_number(p->uid)) < 0) {
            free(u);
            return -ENOMEM;
        }
        u->uid = p->uid;
        share_init(&u->share);
    }
    u->n_peers++;
    f->n_admitted++;
    p->user = u;
    share_move(p, &u->share);
    return 0;
}

void quota_give_back(struct peer *p)
{
    struct frontend_user *u = TAKE(p->user);

    if (!u)
        return;
    p->frontend->n_admitted--;
    p->frontend->n_unread -= p->n_unread;
    u->n_unread -= p->n_unread;
    p->n_unread = 0;
    share_move(p, &p->frontend->shares.strangers);
    if (--u->n_peers > 0)
        return;
    hash_remove(&p->frontend->users, &u->by_uid);
    share_end(&u->share);
    free(u);
}

const char *quota_request(struct peer *p)
{
    if (p->user->n_requests >= p->frontend->options.limits.requests_per_user)
        return "too many open requests of this user (max-requests-per-user in wsd.conf): wait for some of them";
    p->user->n_requests++;
    return NULL;
}

void quota_request_ended(struct peer *p)
{
    p->user->n_requests--;
}

void quota_output(struct peer *p)
{
    uint64_t n = buffer_size(&p->out) + p->n_held, was = p->n_unread;

    if (!p->user)
        return; /* its one frame is the refusal */
    p->n_unread = n;
    p->user->n_unread += n - was;
    p->frontend->n_unread += n - was;
}

bool quota_unread(const struct peer *p)
{
    return p->user && p->user->n_unread >= p->frontend->options.limits.unread_per_user;
}
