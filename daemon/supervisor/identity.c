/* SPDX-License-Identifier: Apache-2.0
 *
 * identity.c: looks up the groups of a user. The user database may be on a server far away: each look-up has a thread,
 * which nobody waits for.
 * Owns the questions and the look-ups. [loop], and the thread of each look-up.
 * Keeps: an answer is given once, from the loop, and never for a question that was forgotten. However often a user database that
 * does not answer is asked about a user, there is one thread for him.
 * Does not take the groups of a connection: a set-group-ID program that connects would bring its own to all of the user's
 * jobs. */
#include "supervisor/identity.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"

#define ENTRY_MAX    (1u << 20) /* bytes of an entry of the user database */
#define ENTRY_FIRST  4096u
#define GROUPS_FIRST 64
#define GROUPS_LAST  65536 /* of the kernel */

struct lookup {
    atomic_uint n_refs; /* [atomic: both sides, the last one frees] */
    struct list link;   /* lookups [loop] */
    struct list questions;
    int done_fd;        /* wakes the loop when the answer is there */
    atomic_bool done;   /* [atomic: release in thread_main(), acquire in on_done()] */
    uint32_t uid, first_id;
    struct identity identity; /* [thread, until it is done] */
    struct event *event;
};

struct identity_question {
    struct list link; /* of its look-up */
    void (*answer)(const struct identity *i, void *context);
    void *context;
};

static struct list lookups = {&lookups, &lookups};

static void unref(struct lookup *q)
{
    if (atomic_fetch_sub(&q->n_refs, 1) > 1)
        return;
    close_fd(q->done_fd);
    free(q);
}

static void take_groups(struct identity *i, uint32_t first_id, const gid_t *groups, int n)
{
    for (int at = 0; at < n && i->n_groups < SPAWN_GROUPS_MAX; at++)
        if (groups[at] >= first_id && groups[at] != UINT32_MAX)
            i->groups[i->n_groups++] = groups[at];
}

static void look_up(struct lookup *q)
{
    _cleanup_(freep) char *room = NULL;
    _cleanup_(freep) gid_t *groups = NULL;
    struct passwd entry, *found = NULL;
    int r = ERANGE, n = GROUPS_FIRST;

    q->identity = (struct identity){.gid = SPAWN_NO_GROUP};
    for (size_t size = ENTRY_FIRST; r == ERANGE && size <= ENTRY_MAX; size *= 2) {
        free(room);
        room = malloc(size);
        r = room ? getpwuid_r(q->uid, &entry, room, size, &found) : ENOMEM;
    }
    if (r != 0 || !found)
        return;
    if (entry.pw_gid >= q->first_id && entry.pw_gid != UINT32_MAX)
        q->identity.gid = entry.pw_gid;
    groups = calloc((size_t)n, sizeof(*groups));
    if (!groups)
        return;
    if (getgrouplist(entry.pw_name, entry.pw_gid, groups, &n) < 0) {
        free(groups);
        groups = n > 0 && n <= GROUPS_LAST ? calloc((size_t)n, sizeof(*groups)) : NULL;
        if (!groups || getgrouplist(entry.pw_name, entry.pw_gid, groups, &n) < 0)
            return;
    }
    take_groups(&q->identity, q->first_id, groups, n);
}

static void *thread_main(void *userdata)
{
    struct lookup *q = userdata;
    uint64_t one = 1;

    look_up(q);
    atomic_store_explicit(&q->done, true, memory_order_release);
    while (write(q->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    unref(q);
    return NULL;
}

/* The loop's end of it: the thread may go on. */
static void forget(struct lookup *q)
{
    list_remove(&q->link);
    if (q->event)
        event_free(q->event);
    unref(q);
}

static void on_done(evutil_socket_t fd, short what, void *userdata)
{
    struct lookup *q = userdata;

    if (!atomic_load_explicit(&q->done, memory_order_acquire))
        return; /* cannot be */
    const struct identity found = q->identity;
    struct list questions;

    list_init(&questions);
    while (!list_empty(&q->questions))
        list_push_back(&questions, list_pop_front(&q->questions));
    forget(q);
    while (!list_empty(&questions)) {
        struct identity_question *one = container_of(list_pop_front(&questions), struct identity_question, link);
        void (*answer)(const struct identity *i, void *context) = one->answer;
        void *context = one->context;

        free(one);
        answer(&found, context);
    }
}

/* Signals are the loop's. */
static int thread_start(struct lookup *q)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread, &attr, thread_main, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -r;
}

static int lookup_new(struct event_base *base, uint32_t uid, uint32_t first_id, struct lookup **ret)
{
    struct lookup *q = calloc(1, sizeof(*q));

    if (!q)
        return -ENOMEM;
    atomic_init(&q->n_refs, 2);
    list_init(&q->link);
    list_init(&q->questions);
    q->uid = uid;
    q->first_id = first_id;
    q->done_fd = eventfd(0, EFD_CLOEXEC);
    int r = q->done_fd < 0 ? -errno : 0;
    if (r == 0)
        q->event = event_new(base, q->done_fd, EV_READ, on_done, q);
    if (r == 0 && (!q->event || event_add(q->event, NULL) < 0))
        r = -ENOMEM;
    if (r == 0)
        r = thread_start(q);
    if (r < 0) {
        unref(q); /* the thread's, which is not there */
        forget(q);
        return r;
    }
    list_push_back(&lookups, &q->link);
    *ret = q;
    return 0;
}

static struct lookup *lookup_of(uint32_t uid, uint32_t first_id)
{
    list_for_each(l, &lookups)
    {
        struct lookup *q = container_of(l, struct lookup, link);

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
        forget(container_of(lookups.next, struct lookup, link));
}
