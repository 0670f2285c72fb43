/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.c: listening sockets.
 * Owns their descriptors and events. [loop]
 * Keeps: running out of descriptors delays new connections and nothing else.
 * Does not read, or know the user that connects. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/peer.h"

#define ACCEPT_BATCH      16 /* a turn: each costs others some 15 us */
#define ACCEPT_PAUSE_USEC 100000

struct listener {
    struct list link;
    struct frontend *frontend;
    int fd;
    bool remote;
    struct event *event;
};

static void pause_over(evutil_socket_t fd, short what, void *userdata)
{
    struct frontend *f = userdata;

    struct timeval t = {.tv_usec = ACCEPT_PAUSE_USEC};
    bool all = true;

    list_for_each_entry (struct listener, listener, &f->listeners, link)
        all &= event_add(listener->event, NULL) == 0;
    if (!all)
        evtimer_add(f->accept_timer, &t);
}

static void pause_all(struct frontend *f)
{
    struct timeval t = {.tv_usec = ACCEPT_PAUSE_USEC};

    if (evtimer_add(f->accept_timer, &t) < 0)
        return; /* without an end it must not begin */
    list_for_each_entry (struct listener, listener, &f->listeners, link)
        event_del(listener->event);
}

static void on_accept(evutil_socket_t fd, short what, void *userdata)
{
    struct listener *l = userdata;
    struct frontend *f = l->frontend;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof(from);
        int peer = accept4(l->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (peer < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            log_warning("cannot accept: %s; trying again", strerror(errno));
            pause_all(f);
            return;
        }
        if (peer < 0)
            return; /* none left, or one that has gone already */
        if (l->remote && !remote_has_room(f, &from)) {
            close_fd(peer); /* before anything was spent on it */
            log_debug("too many handshakes (max-handshakes in wsd.conf): a connection is closed");
            continue;
        }
        int r = peer_new(f, peer, l->remote, NULL);
        if (r < 0)
            log_warning("cannot serve a connection: %s", strerror(-r));
    }
}

int frontend_listen(struct frontend *f, int fd, bool remote)
{
    struct listener *l = calloc(1, sizeof(*l));

    if (!l)
        return -ENOMEM;
    l->frontend = f;
    l->fd = fd;
    l->remote = remote;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        int r = -errno;

        free(l);
        return r;
    }
    l->event = event_new(f->options.base, fd, EV_READ | EV_PERSIST, on_accept, l);
    if (!l->event || event_add(l->event, NULL) < 0) {
        if (l->event)
            event_free(l->event);
        free(l);
        return -ENOMEM;
    }
    if (!f->accept_timer)
        f->accept_timer = evtimer_new(f->options.base, pause_over, f);
    list_push_back(&f->listeners, &l->link);
    return f->accept_timer ? 0 : -ENOMEM;
}

int frontend_listener(const struct frontend *f)
{
    int fd = -1;

    list_for_each_entry (const struct listener, l, &f->listeners, link) {
        if (l->remote)
            continue;
        if (fd >= 0)
            return -1;
        fd = l->fd;
    }
    return fd;
}

void listeners_close(struct frontend *f)
{
    for (struct list *link; (link = list_pop_front(&f->listeners));) {
        struct listener *l = container_of(link, struct listener, link);

        event_free(l->event);
        close_fd(l->fd);
        free(l);
    }
    if (f->accept_timer)
        event_free(f->accept_timer);
    f->accept_timer = NULL;
}
