/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.c: clients of the local wsd that act for its users.
 * Owns the handles. [loop]
 * Keeps: a client is freed outside of its callbacks, while no job uses it. One that wsd has refused is told to all that
 * wait, and goes: a later job tries anew.
 * Does not know jobs (guest.c). */
#include "fleet/clients.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/adapters/libevent.h>
#include <wsd/client.h>

#include "base/clock.h"

struct client {
    struct list link; /* clients.all */
    struct list uses, waiting;
    struct wsd_client *handle;
    struct wsd_libevent loop;
    bool up, refused, telling;
    uint64_t idle_usec; /* since when nothing uses it */
    char user[];
};

struct clients {
    struct event_base *base;
    const char *socket;
    struct list all; /* the one that was taken longest ago first */
    uint32_t n;
};

static bool is_used(const struct client *c)
{
    return c->telling || !list_empty(&c->uses) || !list_empty(&c->waiting);
}

static void client_free(struct clients *s, struct client *c)
{
    if (c->loop.client)
        wsd_libevent_detach(&c->loop);
    wsd_client_free(c->handle);
    list_remove(&c->link);
    s->n--;
    free(c);
}

/* wsd may be on its way, or it has too much to do. */
static bool is_for_now(int error)
{
    return error == -ECONNREFUSED || error == -ENOENT || error == -ECONNRESET || error == -EAGAIN ||
           error == -ETIMEDOUT;
}

static void on_state(int error, void *userdata)
{
    struct client *c = userdata;
    struct list some;

    c->up = error == 0;
    c->refused = error < 0 && !is_for_now(error);
    c->telling = true;
    list_init(&some);
    while (!list_empty(&c->waiting))
        list_push_back(&some, list_pop_front(&c->waiting));
    while (!list_empty(&some)) {
        struct client_use *u = container_of(list_pop_front(&some), struct client_use, link);

        list_push_back(&c->uses, &u->link);
        u->told(u, error == 0 ? 0 : c->refused ? -EACCES : -EAGAIN, error ? wsd_client_error(c->handle) : "");
    }
    c->telling = false;
}

static int client_new(struct clients *s, const char *user, struct client **ret_client)
{
    struct client *c = calloc(1, sizeof(*c) + strlen(user) + 1);
    const struct wsd_open how = {.size = sizeof(how),
                                 .socket = s->socket,
                                 .flags = WSD_OPEN_AGAIN,
                                 .state = on_state,
                                 .state_userdata = c,
                                 .user = user};

    if (!c)
        return -ENOMEM;
    memcpy(c->user, user, strlen(user) + 1);
    list_init(&c->uses);
    list_init(&c->waiting);
    list_init(&c->link);
    list_push_back(&s->all, &c->link);
    s->n++;
    int r = wsd_client_open_with(&c->handle, &how);
    if (r == 0)
        r = wsd_libevent_attach(&c->loop, s->base, c->handle);
    if (r < 0) {
        client_free(s, c);
        return r;
    }
    *ret_client = c;
    return 0;
}

static struct client *client_find(struct clients *s, const char *user)
{
    list_for_each_entry (struct client, c, &s->all, link)
        if (!c->refused && strcmp(c->user, user) == 0)
            return c;
    return NULL;
}

/* Makes room for one more. False: all are in use. */
static bool has_room(struct clients *s)
{
    if (s->n < CLIENTS_MAX)
        return true;
    list_for_each_entry (struct client, c, &s->all, link)
        if (!is_used(c)) {
            client_free(s, c);
            return true;
        }
    return false;
}

int clients_take(struct clients *s, struct client_use *u, const char *user)
{
    struct client *c = client_find(s, user);
    int r = c ? 0 : !has_room(s) ? -EBUSY : client_new(s, user, &c);

    if (r < 0)
        return r;
    list_remove(&c->link);
    list_push_back(&s->all, &c->link);
    u->client = c;
    list_init(&u->link);
    list_push_back(c->up ? &c->uses : &c->waiting, &u->link);
    return c->up ? 0 : -EINPROGRESS;
}

struct wsd_client *client_handle(const struct client_use *u)
{
    return u->client->handle;
}

void client_leave(struct client_use *u)
{
    if (!u->client)
        return;
    list_remove(&u->link);
    if (!is_used(u->client))
        u->client->idle_usec = clock_monotonic_usec();
    u->client = NULL;
}

void clients_tick(struct clients *s, uint64_t now_usec)
{
    list_for_each_entry_safe (struct client, c, after_c, &s->all, link)
        if (!is_used(c) && (c->refused || now_usec >= c->idle_usec + CLIENTS_IDLE_USEC))
            client_free(s, c);
}

uint32_t clients_count(const struct clients *s)
{
    return s->n;
}

int clients_new(struct clients **ret_clients, struct event_base *base, const char *socket)
{
    struct clients *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->base = base;
    s->socket = socket;
    list_init(&s->all);
    *ret_clients = s;
    return 0;
}

struct clients *clients_free(struct clients *s)
{
    if (!s)
        return NULL;
    list_for_each_entry_safe (struct client, c, after_c, &s->all, link)
        client_free(s, c);
    free(s);
    return NULL;
}
