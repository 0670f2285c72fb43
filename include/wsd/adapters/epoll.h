/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/adapters/epoll.h: a handle of libwsclient in a loop of epoll(7). Header only: link wsclient. Since 0.1.
 *
 *     struct wsd_epoll w;
 *
 *     wsd_epoll_attach(&w, epoll_fd, client);
 *     for (;;) {
 *         int n = epoll_wait(epoll_fd, events, N, wsd_epoll_prepare(&w, -1));
 *
 *         for (int i = 0; i < n; i++)
 *             if (events[i].data.ptr != &w)
 *                 ...
 *         wsd_epoll_process(&w);
 *     }
 *
 * What is submitted in a turn leaves together, in wsd_epoll_prepare(). Deadlines and connecting again
 * (WSD_OPEN_AGAIN) need nothing else. One thread: that of the handle.
 */
#ifndef WSD_ADAPTERS_EPOLL_H
#define WSD_ADAPTERS_EPOLL_H

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <wsd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One handle. Stays where it is from attach to detach. Its fields are the adapter's. */
struct wsd_epoll {
    struct wsd_client *client; /* NULL: detached */
    int epoll_fd, fd;
    short events;
};

static inline void wsd_epoll_watch_(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    struct wsd_epoll *w = (struct wsd_epoll *)userdata;

    (void)timeout_usec;
    if (events || fd != w->fd)
        return; /* wsd_epoll_prepare() comes before the loop waits */
    epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    w->fd = -1;
}

/* Begins. The events of the handle's descriptor have data.ptr w. Returns 0 or -ECHILD. */
static inline int wsd_epoll_attach(struct wsd_epoll *w, int epoll_fd, struct wsd_client *client)
{
    w->client = client;
    w->epoll_fd = epoll_fd;
    w->fd = -1;
    w->events = 0;
    return wsd_client_set_watch(client, wsd_epoll_watch_, w);
}

/* Ends it, before the handle is freed; also in a callback. Removes the descriptor from epoll_fd; but not in a child of
 * fork(), since parent and child share what epoll_fd watches. */
static inline void wsd_epoll_detach(struct wsd_epoll *w)
{
    if (!w->client)
        return;
    if (wsd_client_set_watch(w->client, NULL, NULL) == 0 && w->fd >= 0)
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    w->fd = -1;
    w->client = NULL;
}

/* Sends what was submitted, and watches the descriptor. Returns the timeout for epoll_wait(2), in milliseconds: that of
 * the handle or the program's own (-1: none), whichever is shorter. */
static inline int wsd_epoll_prepare(struct wsd_epoll *w, int timeout_msec)
{
    struct epoll_event event;
    uint64_t usec, msec;
    int fd;

    if (w->client)
        wsd_client_flush(w->client);
    if (!w->client) /* a callback has detached it */
        return timeout_msec;
    fd = wsd_client_fd(w->client);
    if (fd >= 0 && (fd != w->fd || wsd_client_events(w->client) != w->events)) {
        w->events = wsd_client_events(w->client);
        event.events = (w->events & POLLIN ? (uint32_t)EPOLLIN : 0u) | (w->events & POLLOUT ? (uint32_t)EPOLLOUT : 0u);
        event.data.ptr = w;
        epoll_ctl(w->epoll_fd, fd == w->fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
        w->fd = fd;
    }
    usec = wsd_client_timeout_usec(w->client);
    if (usec == UINT64_MAX)
        return timeout_msec;
    msec = usec / 1000 + (usec % 1000 != 0);
    if (msec > INT_MAX)
        msec = INT_MAX;
    return timeout_msec >= 0 && (uint64_t)timeout_msec < msec ? timeout_msec : (int)msec;
}

/* Makes the callbacks of what has happened. Once a turn, whatever epoll_wait(2) has said. Returns as
 * wsd_client_process(); 0 where it is detached. */
static inline int wsd_epoll_process(struct wsd_epoll *w)
{
    return w->client ? wsd_client_process(w->client) : 0;
}

#ifdef __cplusplus
}
#endif

#endif
