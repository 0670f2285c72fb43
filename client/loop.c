/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.c: what an event loop calls, and is told: descriptor, events, time; connecting, and deadlines, meanwhile.
 * Owns nothing. One thread a handle.
 * Keeps: the program has heard of a descriptor's end before it is closed. Nothing here blocks but wsd_client_wait(). */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "again.h"
#include "asked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/hash.h"
#include "client.h"
#include "connecting.h"
#include "direct.h"
#include "posted.h"

/* Between two tries: doubles from one to the other. Each is shortened by up to a half, so that clients differ. */
#define PAUSE_MIN_USEC ((uint64_t)20000)
#define PAUSE_MAX_USEC ((uint64_t)5000000)

/* --- what a loop waits for ---------------------------------------------------------------------------------------- */

static bool is_connected(const struct wsd_client *client)
{
    return owner_is_here(&client->owner) && client->connection.welcomed && !client->connection.broken;
}

bool wsd_client_connected(const struct wsd_client *client)
{
    return is_connected(client);
}

int wsd_client_fd(const struct wsd_client *client)
{
    return owner_is_here(&client->owner) && !client->connection.broken ? connection_fd(&client->connection) : -1;
}

short wsd_client_events(const struct wsd_client *client)
{
    /* const for the program: what changes is what its descriptor stands for */
    struct wsd_client *c = (struct wsd_client *)(uintptr_t)client;

    return wsd_client_fd(client) >= 0 ? connection_events(&c->connection) : 0;
}

static bool tries_again(const struct wsd_client *client)
{
    return client->connection.broken && client->loop.flags & WSD_OPEN_AGAIN;
}

/* The time (CLOCK_MONOTONIC) until which nothing is to be done unless the descriptor says so, once what has come is
 * done. */
static uint64_t idle_until(const struct wsd_client *client)
{
    const struct connection *c = &client->connection;

    if (c->broken && client->loop.flags && client->loop.link != LINK_DOWN)
        return 0; /* state() is to be told */
    if (client->rests || again_is_due(client))
        return 0;
    if (c->broken)
        return tries_again(client) ? MIN(client->loop.due_usec, calls_deadline(client)) : UINT64_MAX;
    if (posted_any(client))
        return 0;
    if (!c->welcomed)
        return MIN(c->connect_deadline_usec, calls_deadline(client));
    return MIN(direct_due(client), MIN(calls_deadline(client), asked_deadline(client)));
}

/* The same for the program's loop, which does not look by itself whether more has come. */
static uint64_t loop_until(const struct wsd_client *client)
{
    const struct connection *c = &client->connection;
    bool more = !c->broken && (connection_has_more(c) || direct_has_more(client));

    return more ? 0 : idle_until(client);
}

static uint64_t time_left(uint64_t until_usec)
{
    if (until_usec == UINT64_MAX || until_usec == 0)
        return until_usec;
    uint64_t now = clock_monotonic_usec();

    return until_usec > now ? until_usec - now : 0;
}

uint64_t wsd_client_timeout_usec(const struct wsd_client *client)
{
    return owner_is_here(&client->owner) ? time_left(loop_until(client)) : UINT64_MAX;
}

/* Tells the program what has changed of what its loop waits for. */
static void loop_look(struct wsd_client *client)
{
    struct loop *l = &client->loop;
    short events = wsd_client_events(client);
    uint64_t until = loop_until(client);
    int fd = wsd_client_fd(client);

    if (fd != l->fd)
        loop_unwatch(client);
    /* 0: again, as a timer may be for once */
    if (until && fd == l->fd && events == l->events && until == l->until_usec)
        return;
    l->fd = fd;
    l->events = events;
    l->until_usec = until;
    l->watch(fd, events, time_left(until), l->watch_userdata);
}

void loop_unwatch(struct wsd_client *client)
{
    struct loop *l = &client->loop;
    int fd = l->fd;

    if (!l->watch || fd < 0)
        return;
    l->fd = -1;
    l->events = 0;
    l->until_usec = UINT64_MAX;
    l->watch(fd, 0, UINT64_MAX, l->watch_userdata);
}

int wsd_client_set_watch(struct wsd_client *client,
                         void (*watch)(int fd, short events, uint64_t timeout_usec, void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    loop_unwatch(client);
    client->loop.watch = watch;
    client->loop.watch_userdata = userdata;
    client->loop.look = loop_look;
    client->loop.fd = -2; /* nothing was told: -1 would be that there is none */
    client->loop.events = 0;
    client->loop.until_usec = UINT64_MAX;
    return 0;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

static void tell_state(struct wsd_client *client, int error)
{
    client->connection.depth++;
    if (client->loop.state)
        client->loop.state(error, client->loop.state_userdata);
    client->connection.depth--;
}

static void begin(struct wsd_client *client)
{
    connection_begin(&client->connection, deadline_in(client->loop.timeout_usec));
}

int loop_connect(struct wsd_client *client)
{
    begin(client);
    if (!client->connection.broken || tries_again(client))
        return 0;
    client->loop.link = LINK_DOWN; /* the return value says so */
    return client->connection.broken;
}

/* Goes on with the connection, or with the next one where the time has come. */
static void advance(struct wsd_client *client)
{
    struct connection *c = &client->connection;
    struct loop *l = &client->loop;

    if (tries_again(client) && l->link == LINK_DOWN && connection_is_idle(c) && clock_monotonic_usec() >= l->due_usec) {
        connection_reset(c);
        l->link = LINK_TRYING;
        begin(client);
    }
    connection_advance(c);
}

static uint64_t next_pause(struct loop *l, uint64_t random)
{
    uint64_t pause = l->failures < 8 ? PAUSE_MIN_USEC << l->failures : PAUSE_MAX_USEC;

    l->failures++;
    pause = MIN(pause, PAUSE_MAX_USEC);
    return pause - random % (pause / 2 + 1);
}

void loop_tell(struct wsd_client *client)
{
    struct connection *c = &client->connection;
    struct loop *l = &client->loop;
    uint64_t now;

    if (client->freed || !l->flags)
        return;
    if (c->broken && l->link != LINK_DOWN) {
        now = clock_monotonic_usec();
        if (l->link == LINK_UP && now - l->up_usec >= PAUSE_MAX_USEC)
            l->failures = 0; /* not one that ends each connection at once */
        l->due_usec = now + next_pause(l, hash_mix(now ^ (uintptr_t)client));
        l->link = LINK_DOWN;
        tell_state(client, c->broken);
    } else if (l->link != LINK_UP && is_connected(client)) {
        l->up_usec = clock_monotonic_usec();
        l->link = LINK_UP;
        again_submit(client); /* before anything that the program submits when it knows */
        if (!client->freed)
            tell_state(client, 0);
    }
}

/* --- its calls ---------------------------------------------------------------------------------------------------- */

/* Gives up the calls and questions that are past their deadline, when what has come was read: a loop that is late may
 * find their ends there. */
static void expire(struct wsd_client *client, uint64_t stop_at)
{
    struct connection *c = &client->connection;
    uint64_t told = c->n_told;

    if (!c->left || c->broken) {
        calls_expire(client, stop_at);
        asked_expire(client, stop_at);
    }
    if (c->n_told != told && !c->broken)
        connection_send_early(c); /* that they are cancelled */
}

/* After a turn that returns r; 0 where the connection is tried again. */
static int look_back(struct wsd_client *client, int r)
{
    loop_tell(client);
    if (client->freed)
        return r < 0 ? r : -ECONNRESET;
    return tries_again(client) ? 0 : r;
}

/* At most max callbacks. As wsd_client_process_some(). */
static int turn(struct wsd_client *client, uint64_t max)
{
    struct connection *c = &client->connection;
    uint64_t stop_at = max > UINT64_MAX - c->n_told ? UINT64_MAX : c->n_told + max;
    int r = client_nests(client);

    if (r < 0)
        return r;
    c->ops->mend(c);
    advance(client);
    again_submit(client);
    posted_submit(client);
    r = connection_process_some(c, max);
    expire(client, stop_at);
    if (c->broken)
        r = connection_broken(c);
    return look_back(client, r == 0 && c->n_told >= stop_at && wsd_client_timeout_usec(client) == 0 ? 1 : r);
}

int wsd_client_process(struct wsd_client *client)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    return used ? MIN(turn(client, UINT64_MAX), 0) : -ECHILD;
}

int wsd_client_process_some(struct wsd_client *client, unsigned max)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    if (max == 0)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "at least one callback is to be made");
    return turn(client, max);
}

int wsd_client_flush(struct wsd_client *client)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    return used ? connection_flush(&client->connection) : -ECHILD;
}

/* Until the next try to connect. 0, -ETIMEDOUT or -EINTR. */
static int await_try(struct connection *c, uint64_t until_usec, uint64_t deadline_usec)
{
    uint64_t now = clock_monotonic_usec(), first = MIN(until_usec, deadline_usec);
    uint64_t look = waiting_look(&c->waiting, now, first), left = look > now ? look - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000u), .tv_nsec = (long)(left % 1000000u) * 1000};

    if (waiting_interrupted(&c->waiting))
        return connection_given_up(c, -EINTR);
    ppoll(NULL, 0, &t, NULL);
    return look == deadline_usec && deadline_usec < until_usec ? connection_given_up(c, -ETIMEDOUT) : 0;
}

int loop_step(struct wsd_client *client, uint64_t deadline_usec)
{
    struct connection *c = &client->connection;

    c->ops->mend(c);
    advance(client);
    again_submit(client);
    uint64_t until = idle_until(client); /* a step looks for more before it waits */
    bool down = tries_again(client) && client->loop.link == LINK_DOWN;
    if (down && !connection_is_idle(c))
        return failure_set(&client->failure, -EDEADLK, CODE_USAGE,
                           "a callback of this handle is under way: it is connected again when that has returned");
    int r = down ? await_try(c, until, deadline_usec) : connection_step(c, MIN(until, deadline_usec));
    if (r == -ETIMEDOUT && until < deadline_usec) {
        advance(client);
        r = 0;
    }
    expire(client, UINT64_MAX);
    return down && !client->freed ? r : look_back(client, c->broken ? connection_broken(c) : r);
}

int wsd_client_wait(struct wsd_client *client, uint64_t timeout_usec)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);

    if (!used)
        return -ECHILD;
    int r = client_nests(client);
    if (r < 0)
        return r;
    posted_submit(client);
    return loop_step(client, waiting_deadline(&client->connection.waiting, timeout_usec));
}
