/* SPDX-License-Identifier: Apache-2.0
 *
 * acting.c: connections that act for another user of this machine.
 * Owns which user that is, and the look-ups in the user database. [loop], and the thread of each look-up.
 * Keeps: the loop never waits for the user database. A look-up counts until its thread has ended, also where its
 * connection has gone.
 * Does not decide which users may act for which (access.c). */
#include "frontend/acting.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/aside.h"
#include "base/cleanup.h"
#include "frontend/peer.h"

/* What the thread gets, and leaves behind. */
struct question {
    int error;
    struct local_user user;
    char name[];
};

struct acting_lookup {
    struct list link; /* actings.lookups */
    struct actings *among;
    struct peer *peer; /* NULL: it has gone */
    struct question *question;
    struct aside *aside;
    struct event *event;
    void (*found)(struct peer *p, int error);
};

/* [a thread of its own] */
static void look_up(void *context)
{
    struct question *q = context;

    q->error = local_user_find(q->name, &q->user);
}

/* [either thread] */
static void question_free(void *context)
{
    struct question *q = context;

    free(q->user.gids);
    free(q);
}

static void lookup_free(struct acting_lookup *l)
{
    list_remove(&l->link);
    l->among->n_lookups--;
    if (l->event)
        event_free(l->event);
    aside_forget(l->aside);
    free(l);
}

static void on_done(evutil_socket_t fd, short what, void *userdata)
{
    struct acting_lookup *l = userdata;
    struct peer *p = l->peer;
    void (*found)(struct peer * p, int error) = l->found;

    if (!aside_done(l->aside))
        return; /* cannot be */
    int error = l->question->error;
    if (p) {
        p->acting->lookup = NULL;
        p->acting->user = l->question->user;
        l->question->user.gids = NULL;
    }
    lookup_free(l);
    if (p)
        found(p, error);
}

static int lookup_begin(struct peer *p, const char *name, void (*found)(struct peer *p, int error))
{
    struct actings *among = &p->frontend->actings;
    struct acting_lookup *l = calloc(1, sizeof(*l));
    struct question *q = calloc(1, sizeof(*q) + strlen(name) + 1);
    int r = l && q ? 0 : -ENOMEM;

    if (q)
        memcpy(q->name, name, strlen(name) + 1);
    if (r == 0)
        r = aside_start(&l->aside, look_up, question_free, q);
    if (r < 0) {
        free(q);
        free(l);
        return r;
    }
    l->among = among;
    l->question = q;
    l->peer = p;
    l->found = found;
    list_init(&l->link);
    list_push_back(&among->lookups, &l->link);
    among->n_lookups++;
    l->event = event_new(p->frontend->options.base, aside_fd(l->aside), EV_READ, on_done, l);
    if (!l->event || event_add(l->event, NULL) < 0) {
        lookup_free(l);
        return -ENOMEM;
    }
    p->acting->lookup = l;
    return 0;
}

int acting_ask(struct peer *p, const char *name, void (*found)(struct peer *p, int error))
{
    if (p->frontend->actings.n_lookups >= ACTING_LOOKUPS)
        return -EBUSY;
    p->acting = calloc(1, sizeof(*p->acting) + strlen(name) + 1);
    if (!p->acting)
        return -ENOMEM;
    p->acting->by = p->uid;
    memcpy(p->acting->name, name, strlen(name) + 1);
    return lookup_begin(p, name, found);
}

void acting_begin(struct peer *p)
{
    p->as = &p->acting->user;
    p->uid = p->as->uid;
    p->gid = p->as->gid;
    p->rights_of = 0;
}

void acting_forget(struct peer *p)
{
    struct acting_lookup *l = p->acting ? TAKE(p->acting->lookup) : NULL;

    if (l)
        l->peer = NULL;
}

struct acting *acting_free(struct acting *a)
{
    if (a)
        free(a->user.gids);
    free(a);
    return NULL;
}

void actings_init(struct actings *a)
{
    list_init(&a->lookups);
}

void actings_deinit(struct actings *a)
{
    list_for_each_entry_safe (struct acting_lookup, l, after_l, &a->lookups, link)
        lookup_free(l);
}
