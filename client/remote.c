/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.c: the way to a wsd on another machine: TCP, and TLS over it.
 * Owns the context and the TLS; the descriptor is the connection's. One thread a handle.
 * Keeps: nothing is said in the clear, and nothing before the other side has proved that it is the host that was named.
 * No file of ours is opened for it: see open.c. */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/socket.h"
#include "given.h"
#include "tls/load.h"

static const char *or_environment(const char *given, const char *variable)
{
    const char *value = given ? given : secure_getenv(variable);

    return value && *value ? value : NULL;
}

/* HOST:PORT in two; the brackets of an address go. False: it is none. */
static bool split(const char *where, char host[static 256], char port[static 16])
{
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;
    bool brackets = n > 2 && where[0] == '[' && where[n - 1] == ']';

    if (n == 0 || !colon[1] || (!brackets && memchr(where, ':', n)))
        return false;
    return snprintf(host, 256, "%.*s", (int)(brackets ? n - 2 : n), where + brackets) < 256 &&
           snprintf(port, 16, "%s", colon + 1) < 16;
}

/* 0 or a negative errno. */
static int await_connected(int fd, const struct waiting *waiting, uint64_t deadline_usec)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    uint64_t until;
    int error = 0, r;

    do {
        uint64_t now = clock_monotonic_usec();

        if (waiting_interrupted(waiting))
            return -EINTR;
        until = waiting_look(waiting, now, deadline_usec);
        uint64_t left = until > now ? until - now : 0;
        r = poll(&p, 1, (int)MIN(left / 1000 + 1, (uint64_t)INT32_MAX));
    } while ((r < 0 && errno == EINTR) || (r == 0 && until != deadline_usec));
    if (r == 0)
        return -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

/* A descriptor that is being connected, or a negative errno. */
static int begin_one(const struct addrinfo *a)
{
    _cleanup_(close_fdp) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS && errno != EINTR)
        return -errno;
    return TAKE_FD(fd);
}

int remote_init(struct remote_wsd *r, const struct wsd_tls *given, struct failure *failure)
{
    const struct wsd_tls none = {.size = sizeof(none)};
    struct wsd_tls *to = &r->place, room;
    int error;

    const struct wsd_tls *t = GIVEN(failure, wsd_tls, given ? given : &none, &room, &error);
    if (!t)
        return error;
    const char *from[] = {t->host, t->certificate, t->key, t->ca},
               **all[] = {&to->host, &to->certificate, &to->key, &to->ca};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (from[i] && !(*all[i] = strdup(from[i])))
            return failure_set(failure, -ENOMEM, CODE_IO, "out of memory");
    r->there = true;
    return 0;
}

void remote_deinit(struct remote_wsd *r)
{
    const char *all[] = {r->place.host, r->place.certificate, r->place.key, r->place.ca};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        free((char *)(uintptr_t)all[i]);
}

static const char *host_of(const struct remote_wsd *r)
{
    return or_environment(r->place.host, "WSD_HOST");
}

int remote_next(struct remote_wsd *r, int error, struct failure *failure)
{
    while (r->next) {
        const struct addrinfo *a = r->next;
        int fd = begin_one(a);

        r->next = a->ai_next;
        if (fd >= 0)
            return fd;
        error = fd;
    }
    return failure_set(failure, error, error == -EINTR ? CODE_CANCELLED : CODE_NO_DAEMON, "%s: %s", host_of(r),
                       strerror(-error));
}

/* The library, and what it needs. 0 or a negative errno, said. */
static int load(struct remote_wsd *remote, struct failure *failure)
{
    const struct wsd_tls t = remote->place;
    const char *where = host_of(remote);
    const struct tls_options o = {.certificate = or_environment(t.certificate, "WSD_TLS_CERT"),
                                  .key = or_environment(t.key, "WSD_TLS_KEY"),
                                  .ca = or_environment(t.ca, "WSD_TLS_CA")};
    char error[TLS_ERROR] = "";

    if (!o.certificate || !o.key || !o.ca)
        return failure_set(failure, -EINVAL, CODE_USAGE,
                           "%s: a certificate, its key and a CA are wanted: "
                           "--tls-cert, --tls-key and --tls-ca, or WSD_TLS_CERT, WSD_TLS_KEY and WSD_TLS_CA",
                           where);
    remote->ops = tls_load(error);
    if (!remote->ops)
        return failure_set(failure, -EOPNOTSUPP, CODE_NO_DAEMON, "%s: %s", where, error);
    int r = remote->ops->context_new(&remote->context, &o, error);
    return r < 0 ? failure_set(failure, r, r == -ENOMEM ? CODE_IO : CODE_NOT_FOUND, "%s", error) : 0;
}

int remote_begin(struct remote_wsd *remote, struct failure *failure)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const char *where = host_of(remote);
    char host[256], port[16];

    if (!where || !split(where, host, port))
        return failure_set(failure, -EINVAL, CODE_USAGE, "%s: HOST:PORT or [ADDRESS]:PORT is wanted",
                           where ? where : "host");
    if (!socket_port_fits(port))
        return failure_set(failure, -EINVAL, CODE_USAGE, "%s: %s", where, SOCKET_PORT_HIGH);
    if (!remote->place.host && !(remote->place.host = strdup(where))) /* the environment may change */
        return failure_set(failure, -ENOMEM, CODE_IO, "out of memory");
    int r = load(remote, failure);
    if (r < 0)
        return r;
    r = getaddrinfo(host, port, &hints, &remote->all);
    if (r != 0)
        return failure_set(failure, -EHOSTUNREACH, CODE_NO_DAEMON, "%s: %s", where, gai_strerror(r));
    remote->next = remote->all;
    return remote_next(remote, -EHOSTUNREACH, failure);
}

int remote_connected(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0;

    if (poll(&p, 1, 0) <= 0)
        return -EINPROGRESS;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

int remote_secure(struct remote_wsd *remote, int fd, struct failure *failure)
{
    char host[256], port[16];

    if (!split(host_of(remote), host, port))
        return failure_set(failure, -EINVAL, CODE_USAGE, "HOST:PORT is wanted");
    int r = remote->ops->open(&remote->tls, remote->context, fd, host);
    return r < 0 ? failure_set(failure, r, CODE_IO, "%s: out of memory", host_of(remote)) : 0;
}

int remote_connect(struct remote_wsd *remote, const struct waiting *waiting, uint64_t deadline_usec,
                   struct failure *failure)
{
    int fd = remote_begin(remote, failure), r;

    while (fd >= 0 && (r = await_connected(fd, waiting, deadline_usec)) < 0) {
        close_fd(fd);
        if (r == -EINTR)
            remote->next = NULL;
        fd = remote_next(remote, r, failure);
    }
    if (fd < 0)
        return fd;
    r = remote_secure(remote, fd, failure);
    if (r < 0)
        close_fd(fd);
    return r < 0 ? r : fd;
}

void remote_disconnect(struct remote_wsd *r)
{
    if (r->all)
        freeaddrinfo(TAKE(r->all));
    r->next = NULL;
    if (!r->ops)
        return;
    r->ops->free(TAKE(r->tls));
    r->ops->context_free(TAKE(r->context));
}
