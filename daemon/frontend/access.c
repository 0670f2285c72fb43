/* SPDX-License-Identifier: Apache-2.0
 *
 * access.c: access rights, by the rules of the configuration.
 * Owns nothing. The rules are the configuration's. A connection's rights are kept in its peer. [loop]
 * Keeps: the client's user comes from the kernel (SO_PEERCRED, SO_PEERGROUPS), never from a frame. Only a user that it
 * may act for comes from a frame. What no list allows is refused. Each right has one function.
 * Does not know requests, jobs or names of users. */
#include "frontend/access.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "frontend/peer.h"

#define BIT(right) (1u << (right))

static bool has(const uint32_t *ids, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool access_listed(const struct access_list *l, uint32_t uid, const uint32_t *gids, uint32_t n_gids)
{
    if (l->all || has(l->uids, l->n_uids, uid))
        return true;
    for (uint32_t i = 0; i < n_gids; i++)
        if (has(l->gids, l->n_gids, gids[i]))
            return true;
    return false;
}

/* The groups of the connecting process at that time, without the primary one. The socket remembers them, so a
 * connection need not. */
static uint32_t groups_of(const struct peer *p, const uint32_t **ret)
{
    static uint32_t groups[NGROUPS_MAX + 1];
    socklen_t size = sizeof(groups) - sizeof(groups[0]);

    if (p->as) {
        *ret = p->as->gids;
        return p->as->n_gids;
    }
    groups[0] = p->gid;
    if (getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &size) < 0)
        size = 0; /* then the user is in no group */
    *ret = groups;
    return 1 + (uint32_t)(size / sizeof(groups[0]));
}

static bool is_listed(const struct peer *p, const struct access_list *l)
{
    const uint32_t *groups = NULL;
    uint32_t n = l->n_gids ? groups_of(p, &groups) : 0;

    return access_listed(l, p->uid, groups, n);
}

static bool may(struct peer *p, enum access_right right)
{
    const struct frontend *f = p->frontend;
    bool all;

    if (p->rights_of == f->n_rules)
        return p->rights & BIT(right);
    all = p->uid == 0 || (f->options.only_own_user && p->uid == f->options.own_uid);
    p->rights = p->uid == f->options.own_uid ? BIT(ACCESS_SUBMIT) | BIT(ACCESS_ADMINISTER) : 0;
    for (unsigned i = 0; i < ACCESS_RIGHTS; i++)
        if (all || is_listed(p, &f->options.rules->lists[i]))
            p->rights |= BIT(i);
    if (p->acting)
        p->rights &= BIT(ACCESS_SUBMIT);
    p->rights_of = f->n_rules;
    return p->rights & BIT(right);
}

const char *access_connect(struct peer *p)
{
    const struct frontend_options *o = &p->frontend->options;

    if (o->only_own_user && p->uid != o->own_uid && p->uid != 0)
        return "this is another user's wsd";
    for (unsigned i = 0; i < ACCESS_RIGHTS; i++)
        if (may(p, i))
            return NULL;
    return "this user has no business here ([access] submit in wsd.conf)";
}

bool access_acts(const struct frontend *f, uint32_t by, const char *name, const struct local_user *user,
                 char why[static ACCESS_WHY])
{
    const struct frontend_options *o = &f->options;
    const char *words = NULL;

    if (by != 0 && (by != o->rules->agent || by == UINT32_MAX))
        words = "only root and the user of wsd-fleet act for others ([fleet] user in wsd.conf)";
    else if (user && user->uid == o->own_uid && !o->only_own_user)
        words = "nobody acts for the user that wsd runs as";
    else if (user && !access_listed(&o->rules->submit_as, user->uid, user->gids, user->n_gids))
        words = "[access] submit-as in wsd.conf does not name this user";
    if (words)
        snprintf(why, ACCESS_WHY, "uid %u may not act for %.64s: %s", by, name, words);
    return !words;
}

const char *access_path(const struct peer *p, const char *plugin)
{
    if (!strchr(plugin, '/') || (!p->remote && !p->acting))
        return NULL;
    return p->remote ? "plugins by path are not for clients of other machines"
                     : "plugins by path are not for connections that act for another user";
}

const char *access_submit(struct peer *p)
{
    return may(p, ACCESS_SUBMIT) ? NULL : "this user may not give jobs ([access] submit in wsd.conf)";
}

const char *access_administer(struct peer *p)
{
    return may(p, ACCESS_ADMINISTER) ? NULL : "this user is no administrator of wsd ([access] administer in wsd.conf)";
}

bool access_plugin(struct peer *p, const char *plugin)
{
    const struct access_rules *r = p->frontend->options.rules;
    const struct access_list *l = r->plugin ? r->plugin(plugin, r->context) : NULL;

    return !l || p->uid == 0 || is_listed(p, l);
}

bool access_offer(struct peer *p, const char *name)
{
    const struct access_rules *r = p->frontend->options.rules;
    const struct access_list *l = r->offer ? r->offer(name, r->context) : NULL;

    return !l || p->uid == 0 || is_listed(p, l);
}

uint32_t access_sees(struct peer *p)
{
    return may(p, ACCESS_SEE) ? ACCESS_ALL : p->uid;
}

bool access_reads(struct peer *p, uint32_t uid)
{
    return uid == p->uid || may(p, ACCESS_SEE);
}

uint32_t access_watches(struct peer *p)
{
    return may(p, ACCESS_WATCH) ? ACCESS_ALL : access_sees(p);
}

uint32_t access_counts(struct peer *p)
{
    return may(p, ACCESS_WATCH) ? ACCESS_ALL : access_traces(p);
}

uint32_t access_traces(struct peer *p)
{
    return may(p, ACCESS_ADMINISTER) ? ACCESS_ALL : access_sees(p);
}

uint32_t access_cancels(struct peer *p)
{
    return may(p, ACCESS_CANCEL) ? ACCESS_ALL : p->uid;
}
