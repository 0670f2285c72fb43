/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.c: listening sockets.
 * Owns their descriptors and events. [loop]
 * Keeps: running out of descriptors delays new connections and nothing else.
 * Does not read, or know the user that connects. */
#include "frontend/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/socket.h"
#include "frontend/peer.h"

#define ACCEPT_BATCH      16 /* a turn: each costs others some 15 us */
#define ACCEPT_PAUSE_USEC 100000
#define KEEPALIVE_SEC     60     /* a machine that went without a word is noticed after this, and a minute more */
#define UNACKED_MSEC      120000 /* so is one that has stopped taking data */

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

/* --- clients of other machines ------------------------------------------------------------------------------------ */

static int bind_one(const struct addrinfo *a)
{
    _cleanup_(close_fdp) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, idle = KEEPALIVE_SEC, count = 4, between = KEEPALIVE_SEC / 4, unacked = UNACKED_MSEC;

    /* connections have these from it */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (a->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof(unacked)) < 0 ||
        bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* HOST:PORT in two; the brackets of an address go. NULL: it is none. */
static char *split_port(char *where, char **ret_port)
{
    char *colon = strrchr(where, ':');
    size_t n;

    if (!colon || !colon[1])
        return NULL;
    *colon = 0;
    *ret_port = colon + 1;
    n = strlen(where);
    if (*where == '[' && where[n - 1] == ']') {
        where[n - 1] = 0;
        return where + 1;
    }
    return strchr(where, ':') ? NULL : where;
}

static int refuse_address(char error[REMOTE_ERROR], const char *where, const char *why)
{
    snprintf(error, REMOTE_ERROR, "[tls] listen: %.200s: %s", where, why);
    return -EINVAL;
}

int frontend_listen_remote(struct frontend *f, const char *where, char error[REMOTE_ERROR])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    _cleanup_(freep) char *copy = strdup(where);
    char *port, *host = copy ? split_port(copy, &port) : NULL;
    bool any = false;
    int r;

    if (!host)
        return refuse_address(error, where, "it is no HOST:PORT, [ADDRESS]:PORT or :PORT");
    if (!socket_port_fits(port))
        return refuse_address(error, where, SOCKET_PORT_HIGH);
    r = getaddrinfo(*host ? host : NULL, port, &hints, &all);
    if (r != 0)
        return refuse_address(error, where, gai_strerror(r));
    r = 0;
    for (const struct addrinfo *a = all; a && r >= 0; a = a->ai_next) {
        int fd = bind_one(a);

        if (fd == -EAFNOSUPPORT)
            continue; /* a machine without IPv6 */
        r = fd < 0 ? fd : frontend_listen(f, fd, true);
        any |= r >= 0;
    }
    freeaddrinfo(all);
    if (r >= 0 && !any) {
        refuse_address(error, where, "no network is allowed here: wsd(8) has the drop-in for the service");
        return -EAFNOSUPPORT;
    }
    return r < 0 ? refuse_address(error, where, strerror(-r)), r : 0;
}
