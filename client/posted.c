/* SPDX-License-Identifier: Apache-2.0
 *
 * posted.c: jobs that any thread hands to the handle's own, which submits them.
 * Owns a copy of each from wsd_client_post() until it is submitted or done has been told. wsd_client_post() [any
 * thread]; everything else is the handle's thread.
 * Keeps: those of one thread are submitted in their order. done is told exactly once, on the handle's thread. The loop
 * is woken where the list was empty before, so nothing waits for another reason to wake.
 * The list is a stack (R. K. Treiber, Systems Programming: Coping with Parallelism, 1986) that is taken whole, so
 * that no node comes back to it while a thread looks. */
#include "posted.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "client.h"
#include "given.h"
#include "packed.h"
#include "wsd/client.h"

struct posted {
    struct posted *next;
    struct wsd_submit submit; /* points into room */
    struct wsd_callbacks callbacks;
    char room[] __attribute__((aligned(16)));
};

static struct posted *copy_of(const struct wsd_submit *submit, const struct wsd_callbacks *callbacks)
{
    struct posted *copy = malloc(sizeof(*copy) + packed_size(submit));

    if (!copy)
        return NULL;
    packed_put(submit, copy->room, &copy->submit);
    copy->callbacks = callbacks ? *callbacks : (struct wsd_callbacks){0};
    copy->callbacks.size = sizeof(copy->callbacks);
    return copy;
}

static void posted_free(struct posted *p)
{
    packed_drop(&p->submit);
    free(p);
}

/* --- any thread --------------------------------------------------------------------------------------------------- */

int wsd_client_post(struct wsd_client *client, const struct wsd_submit *given, const struct wsd_callbacks *callbacks)
{
    struct failure unheard = {0};
    struct wsd_submit room;
    struct wsd_callbacks callbacks_room;
    int r = 0;

    if (!owner_is_here(&client->owner))
        return -ECHILD;
    const struct wsd_submit *submit = GIVEN(&unheard, wsd_submit, given, &room, &r);
    if (submit && callbacks)
        callbacks = GIVEN(&unheard, wsd_callbacks, callbacks, &callbacks_room, &r);
    if (r < 0)
        return r;
    if (!client->wake.wake)
        return -EINVAL;
    struct posted *p = copy_of(submit, callbacks);
    if (!p)
        return -ENOMEM;
    r = packed_hold(&p->submit);
    if (r < 0) {
        free(p);
        return r;
    }
    p->next = atomic_load_explicit(&client->posted, memory_order_relaxed);
    /* release: partner is the exchange in take_all(). p is the handle's from here on. */
    struct posted *before = p->next;
    while (
        !atomic_compare_exchange_weak_explicit(&client->posted, &before, p, memory_order_release, memory_order_relaxed))
        p->next = before;
    if (!before)
        client->wake.wake(client->wake.userdata);
    return 0;
}

/* --- the handle's thread ------------------------------------------------------------------------------------------ */

int wsd_client_set_wake(struct wsd_client *client, void (*wake)(void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    client->wake = (struct wake){wake, userdata};
    return 0;
}

bool posted_any(const struct wsd_client *client)
{
    return client->oldest || atomic_load_explicit(&client->posted, memory_order_relaxed) != NULL;
}

/* What was posted since goes behind what was taken before. */
static void take_all(struct wsd_client *client)
{
    struct posted *oldest = NULL, *newest = NULL;

    /* acquire: partner is the compare-and-swap in wsd_client_post() */
    for (struct posted *p = atomic_exchange_explicit(&client->posted, NULL, memory_order_acquire), *next; p; p = next) {
        next = p->next;
        p->next = oldest;
        oldest = p;
        if (!newest)
            newest = p;
    }
    if (!oldest)
        return;
    if (client->oldest)
        client->newest->next = oldest;
    else
        client->oldest = oldest;
    client->newest = newest;
}

/* Takes the first of them. NULL: there is none. */
static struct posted *take_one(struct wsd_client *client)
{
    struct posted *p = client->oldest;

    if (p)
        client->oldest = p->next;
    return p;
}

/* There was no call. Frees it first: the callback may not return. */
static void refuse(struct wsd_client *client, struct posted *p, int error)
{
    const struct wsd_callbacks callbacks = p->callbacks;
    struct connection *c = &client->connection;

    posted_free(p);
    if (!callbacks.done || !owner_is_here(&client->owner))
        return;
    c->depth++;
    c->n_told++;
    callbacks.done(NULL, error, NULL, client->failure.text, callbacks.userdata);
    c->depth--;
}

static int lost(struct wsd_client *client)
{
    return failure_set(&client->failure, -ECONNRESET, CODE_NO_DAEMON, "the handle was freed before it was submitted");
}

/* A turn takes what was posted before it. */
void posted_submit(struct wsd_client *client)
{
    if (!posted_any(client))
        return;
    take_all(client);
    const struct posted *last = client->newest;
    for (struct posted *p, *next = NULL; next != last && (p = next = take_one(client));) {
        int r = client->freed ? lost(client) : wsd_client_submit(client, &p->submit, &p->callbacks, NULL);

        if (r < 0)
            refuse(client, p, r);
        else
            posted_free(p);
    }
}

void posted_lose(struct wsd_client *client)
{
    take_all(client);
    for (struct posted *p; (p = take_one(client));)
        refuse(client, p, lost(client));
}
