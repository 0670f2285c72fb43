/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c: names of users of this machine, by uid.
 * Owns what was found, for a minute, and the look-ups. [loop], and the thread of each look-up.
 * Keeps: no call waits for the user database; where that is silent or fails for some seconds, the user has no name.
 * Does not look users up by name. */
#include "fleet/names.h"

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/accounts.h"
#include "base/aside.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#define KNOWN_USEC    60000000u /* before it is looked up again */
#define FAILED_USEC   5000000u  /* the same, where the user database has failed */
#define PATIENCE_USEC 5000000u  /* that a look-up takes at most, for those that wait for it */

/* [a thread of its own, until it is done] */
struct question {
    uint32_t uid;
    int error;
    struct account account;
};

struct name {
    struct list link; /* names.known */
    struct names *names;
    uint32_t uid;
    bool known;
    uint64_t until_usec;       /* when it is known no more */
    struct question *question; /* the aside's */
    struct aside *aside;       /* NULL: it is not looked up */
    struct event *event;
    char text[ACCOUNT_NAME_MAX];
};

struct names {
    struct event_base *base;
    void (*came)(void *context);
    void *context;
    struct list known; /* the one that was asked for longest ago first */
    uint32_t n_known, n_lookups;
};

static void look_up(void *context)
{
    struct question *q = context;

    q->error = account_by_uid(q->uid, &q->account);
}

static void lookup_end(struct name *one)
{
    if (!one->aside)
        return;
    event_free(one->event);
    one->aside = aside_forget(one->aside);
    one->names->n_lookups--;
}

static void name_free(struct name *one)
{
    lookup_end(one);
    list_remove(&one->link);
    one->names->n_known--;
    free(one);
}

static void learn(struct name *one, int error, const char *text)
{
    bool failed = error < 0 && error != -ENOENT;

    one->known = true;
    one->until_usec = clock_monotonic_usec() + (failed ? FAILED_USEC : KNOWN_USEC);
    snprintf(one->text, sizeof(one->text), "%s", error < 0 ? "" : text);
    if (failed)
        log_warning("wsd-fleet: uid %u: " ACCOUNTS_SILENT, one->uid, strerror(-error));
}

/* Its thread is done, or it has taken too long: then the thread goes on, and is counted until it ends. */
static void on_found(evutil_socket_t fd, short what, void *userdata)
{
    struct name *one = userdata;
    struct names *n = one->names;

    if (aside_done(one->aside)) {
        learn(one, one->question->error, one->question->account.name);
        lookup_end(one);
    } else if (!one->known) {
        learn(one, -ETIMEDOUT, "");
        event_add(one->event, NULL);
    }
    n->came(n->context);
}

static int lookup_begin(struct name *one)
{
    const struct timeval patience = {.tv_usec = PATIENCE_USEC % 1000000, .tv_sec = PATIENCE_USEC / 1000000};
    struct question *q = calloc(1, sizeof(*q));

    if (!q)
        return -ENOMEM;
    q->uid = one->uid;
    int r = aside_start(&one->aside, look_up, free, q);
    if (r < 0) {
        free(q);
        return r;
    }
    one->question = q;
    one->known = false;
    one->names->n_lookups++;
    one->event = event_new(one->names->base, aside_fd(one->aside), EV_READ, on_found, one);
    if (one->event && event_add(one->event, &patience) == 0)
        return 0;
    lookup_end(one);
    return -ENOMEM;
}

static struct name *name_find(struct names *n, uint32_t uid)
{
    list_for_each_entry (struct name, one, &n->known, link)
        if (one->uid == uid)
            return one;
    return NULL;
}

/* NULL: no memory, or all are being looked up. */
static struct name *name_add(struct names *n, uint32_t uid)
{
    if (n->n_known == NAMES_MAX)
        list_for_each_entry (struct name, old, &n->known, link)
            if (!old->aside) {
                name_free(old);
                break;
            }
    struct name *one = n->n_known < NAMES_MAX ? calloc(1, sizeof(*one)) : NULL;
    if (!one)
        return NULL;
    one->names = n;
    one->uid = uid;
    list_init(&one->link);
    list_push_back(&n->known, &one->link);
    n->n_known++;
    return one;
}

int names_of(struct names *n, uint32_t uid, const char **ret_name)
{
    struct name *one = name_find(n, uid);

    if (!one)
        one = name_add(n, uid);
    if (!one)
        return -EAGAIN; /* came() is called for another one */
    list_remove(&one->link);
    list_push_back(&n->known, &one->link);
    if (!one->aside && (!one->known || clock_monotonic_usec() >= one->until_usec) && n->n_lookups < NAMES_LOOKUPS) {
        int r = lookup_begin(one);

        if (r < 0)
            learn(one, r, "");
    }
    if (!one->known)
        return -EAGAIN;
    *ret_name = one->text;
    return 0;
}

int names_new(struct names **ret_names, struct event_base *base, void (*came)(void *context), void *context)
{
    struct names *n = calloc(1, sizeof(*n));

    if (!n)
        return -ENOMEM;
    *n = (struct names){.base = base, .came = came, .context = context};
    list_init(&n->known);
    *ret_names = n;
    return 0;
}

struct names *names_free(struct names *n)
{
    if (!n)
        return NULL;
    list_for_each_entry_safe (struct name, one, after_one, &n->known, link)
        name_free(one);
    free(n);
    return NULL;
}
