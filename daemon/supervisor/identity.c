/* SPDX-License-Identifier: Apache-2.0
 *
 * identity.c: looks up the groups of a user. The user database may be on a server far away, so each look-up has a
 * thread, for which nothing waits.
 * Owns the questions and the look-ups. [loop], and the thread of each look-up.
 * Keeps: an answer is given once, from the loop, and never for a question that was forgotten. There is at most one
 * thread for each user, however often a database that does not answer is asked.
 * Does not take the groups of a connection: a set-group-ID program that connects would bring its own to all of the
 * user's jobs. */
#include "supervisor/identity.h"

#include <errno.h>
#include <stdlib.h>

#include "base/accounts.h"
#include "base/aside.h"
#include "base/cleanup.h"
#include "base/list.h"

struct lookup {
    struct list link;         /* lookups [loop] */
    struct list questions;    /* [loop] */
    uint32_t uid, first_id;   /* [const after init] */
    struct identity identity; /* [thread, until it is done] */
    struct aside *aside;      /* [loop] */
    struct event *event;      /* [loop] */
};

struct identity_question {
    struct list link; /* of its look-up */
    void (*answer)(const struct identity *i, void *context);
    void *context;
};

static struct list lookups = {&lookups, &lookups};

static void look_up(void *context)
{
    struct lookup *q = context;
    _cleanup_(freep) uint32_t *groups = NULL;
    struct identity *i = &q->identity;
    struct account account;
    uint32_t n;
    int r = account_by_uid(q->uid, &account);

    *i = (struct identity){.gid = SPAWN_NO_GROUP};
    if (r == 0)
        r = account_groups(&account, &groups, &n);
    if (r == -ENOENT)
        return; /* an unknown user has no groups */
    i->error = r;
    if (r < 0)
        return;
    if (account.gid >= q->first_id && account.gid != UINT32_MAX)
        i->gid = account.gid;
    for (uint32_t at = 0; at < n; at++)
        if (groups[at] >= q->first_id && groups[at] != UINT32_MAX && i->n_groups++ < SPAWN_GROUPS_MAX)
            i->groups[i->n_groups - 1] = groups[at];
}

/* Frees the loop's part of a look-up; the thread may go on. */
static void lookup_forget(struct lookup *q)
{
    list_remove(&q->link);
    if (q->event)
        event_free(q->event);
    aside_forget(q->aside);
}

static void on_done(evutil_socket_t fd, short what, void *userdata)
{
    struct lookup *q = userdata;

    if (!aside_done(q->aside))
        return; /* cannot be */
    const struct identity found = q->identity;
    struct list questions;

    list_init(&questions);
    while (!list_empty(&q->questions))
        list_push_back(&questions, list_pop_front(&q->questions));
    lookup_forget(q);
    while (!list_empty(&questions)) {
        struct identity_question *one = container_of(list_pop_front(&questions), struct identity_question, link);
        void (*answer)(const struct identity *i, void *context) = one->answer;
        void *context = one->context;

        free(one);
        answer(&found, context);
    }
}

static int lookup_new(struct event_base *base, uint32_t uid, uint32_t first_id, struct lookup **ret)
{
    struct lookup *q = calloc(1, sizeof(*q));

    if (!q)
        return -ENOMEM;
    list_init(&q->link);
    list_init(&q->questions);
    q->uid = uid;
    q->first_id = first_id;
    int r = aside_start(&q->aside, look_up, free, q);
    if (r < 0) {
        free(q);
        return r;
    }
    q->event = event_new(base, aside_fd(q->aside), EV_READ, on_done, q);
    if (!q->event || event_add(q->event, NULL) < 0) {
        lookup_forget(q);
        return -ENOMEM;
    }
    list_push_back(&lookups, &q->link);
    *ret = q;
    return 0;
}

static struct lookup *lookup_of(uint32_t uid, uint32_t first_id)
{
    list_for_each_entry (struct lookup, q, &lookups, link) {
        if (q->uid == uid && q->first_id == first_id)
            return q;
    }
    return NULL;
}

int identity_ask(struct event_base *base, uint32_t uid, uint32_t first_id,
                 void (*answer)(const struct identity *i, void *context), void *context,
                 struct identity_question **ret_question)
{
    struct identity_question *q = calloc(1, sizeof(*q));
    struct lookup *lookup = lookup_of(uid, first_id);
    int r = !q ? -ENOMEM : lookup ? 0 : lookup_new(base, uid, first_id, &lookup);

    if (r < 0) {
        free(q);
        return r;
    }
    q->answer = answer;
    q->context = context;
    list_init(&q->link);
    list_push_back(&lookup->questions, &q->link);
    *ret_question = q;
    return 0;
}

struct identity_question *identity_forget(struct identity_question *q)
{
    if (!q)
        return NULL;
    list_remove(&q->link);
    free(q);
    return NULL;
}

void identity_forget_all(void)
{
    while (!list_empty(&lookups))
        lookup_forget(container_of(lookups.next, struct lookup, link));
}
