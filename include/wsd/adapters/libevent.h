/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/adapters/libevent.h: a handle of libwsclient in a loop of libevent. Header only: link wsclient and event_core.
 * Since 0.1.
 *
 *     struct wsd_libevent w;
 *
 *     wsd_libevent_attach(&w, base, client);
 *     event_base_dispatch(base);
 *
 * What is submitted in a turn leaves together, at its end. Deadlines and connecting again (WSD_OPEN_AGAIN) need nothing
 * else. One thread: that of the loop and of the handle.
 */
#ifndef WSD_ADAPTERS_LIBEVENT_H
#define WSD_ADAPTERS_LIBEVENT_H

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <wsd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One handle. Stays where it is from attach until detach, and until a callback that detaches has returned. Its fields
 * are the adapter's. */
struct wsd_libevent {
    struct wsd_client *client; /* NULL: detached */
    struct event_base *base;
    struct event *io, *turn; /* of the descriptor; at the end of this turn, or at a time */
    int fd;
    short events; /* that io is added for, as of poll(2) */
    int busy;     /* in a call of the adapter: it looks at the handle itself afterwards */
};

static inline void wsd_libevent_io_(evutil_socket_t fd, short what, void *userdata);

/* Watches what the handle wants watched. */
static inline void wsd_libevent_arm_(struct wsd_libevent *w)
{
    uint64_t usec = wsd_client_timeout_usec(w->client);
    short events = wsd_client_events(w->client);
    int fd = wsd_client_fd(w->client);
    struct timeval t;

    if (fd >= 0 && (fd != w->fd || events != w->events)) {
        event_del(w->io);
        event_assign(w->io, w->base, fd,
                     (short)(EV_PERSIST | (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0)),
                     wsd_libevent_io_, w);
        event_add(w->io, NULL);
        w->fd = fd;
        w->events = events;
    }
    if (usec == UINT64_MAX) {
        event_del(w->turn);
        return;
    }
    t.tv_sec = (time_t)(usec / 1000000u);
    t.tv_usec = (suseconds_t)(usec % 1000000u);
    event_add(w->turn, &t);
}

static inline void wsd_libevent_run_(struct wsd_libevent *w, int process)
{
    w->busy++;
    if (process)
        wsd_client_process(w->client);
    else
        wsd_client_flush(w->client);
    w->busy--;
    if (w->client)
        wsd_libevent_arm_(w);
}

static inline void wsd_libevent_io_(evutil_socket_t fd, short what, void *userdata)
{
    (void)fd;
    (void)what;
    wsd_libevent_run_((struct wsd_libevent *)userdata, 1);
}

static inline void wsd_libevent_turn_(evutil_socket_t fd, short what, void *userdata)
{
    (void)fd;
    wsd_libevent_run_((struct wsd_libevent *)userdata, what & EV_TIMEOUT);
}

static inline void wsd_libevent_watch_(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    struct wsd_libevent *w = (struct wsd_libevent *)userdata;

    (void)timeout_usec;
    if (!events && fd >= 0) {
        event_del(w->io);
        w->fd = -1;
    }
    if (!w->busy)
        event_active(w->turn, EV_WRITE, 1);
}

/* Begins. Returns 0, -ENOMEM or -ECHILD. */
static inline int wsd_libevent_attach(struct wsd_libevent *w, struct event_base *base, struct wsd_client *client)
{
    int r;

    w->client = client;
    w->base = base;
    w->fd = -1;
    w->events = 0;
    w->busy = 0;
    w->io = event_new(base, -1, 0, wsd_libevent_io_, w);
    w->turn = event_new(base, -1, 0, wsd_libevent_turn_, w);
    r = w->io && w->turn ? wsd_client_set_watch(client, wsd_libevent_watch_, w) : -ENOMEM;
    if (r == 0)
        return 0;
    if (w->io)
        event_free(w->io);
    if (w->turn)
        event_free(w->turn);
    w->client = NULL;
    return r;
}

/* Ends it, before the handle is freed; also in a callback. */
static inline void wsd_libevent_detach(struct wsd_libevent *w)
{
    struct wsd_client *client = w->client;

    if (!client)
        return;
    w->busy++;
    wsd_client_set_watch(client, NULL, NULL);
    w->busy--;
    w->client = NULL;
    event_free(w->io);
    event_free(w->turn);
}

#ifdef __cplusplus
}
#endif

#endif
