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
static int await_connected(int fd, uint64_t deadline_usec)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0, r;

    do {
        uint64_t now = clock_monotonic_usec(), left = deadline_usec > now ? deadline_usec - now : 0;

        r = poll(&p, 1, (int)MIN(left / 1000 + 1, (uint64_t)INT32_MAX));
    } while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

static int connect_one(const struct addrinfo *a, uint64_t deadline_usec)
{
    _cleanup_(close_fdp) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, r = 0;

    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        r = errno == EINPROGRESS || errno == EINTR ? await_connected(fd, deadline_usec) : -errno;
    return r < 0 ? r : TAKE_FD(fd);
}

/* The first address that answers: a descriptor, or a negative errno with words. */
static int connect_host(const char *where, const char *host, const char *port, uint64_t deadline_usec,
                        struct failure *failure)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *all;
    int r = getaddrinfo(host, port, &hints, &all);

    if (r != 0)
        return failure_set(failure, -EHOSTUNREACH, CODE_NO_DAEMON, "%s: %s", where, gai_strerror(r));
    r = -EHOSTUNREACH;
    for (const struct addrinfo *a = all; a && r < 0; a = a->ai_next)
        r = connect_one(a, deadline_usec);
    freeaddrinfo(all);
    return r < 0 ? failure_set(failure, r, CODE_NO_DAEMON, "%s: %s", where, strerror(-r)) : r;
}

int remote_init(struct remote_wsd *r, const struct wsd_tls *tls)
{
    struct wsd_tls *to = &r->place, t = {0};

    r->there = true;
    if (tls)
        memcpy(&t, tls, MIN(tls->size, sizeof(t)));
    const char *from[] = {t.host, t.certificate, t.key, t.ca},
               **all[] = {&to->host, &to->certificate, &to->key, &to->ca};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (from[i] && !(*all[i] = strdup(from[i])))
            return -ENOMEM;
    return 0;
}

void remote_deinit(struct remote_wsd *r)
{
    const char *all[] = {r->place.host, r->place.certificate, r->place.key, r->place.ca};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        free((char *)(uintptr_t)all[i]);
}

int remote_connect(struct remote_wsd *remote, uint64_t deadline_usec, struct failure *failure)
{
    const struct wsd_tls t = remote->place;
    char host[256], port[16], error[TLS_ERROR] = "";

    const char *where = or_environment(t.host, "WSD_HOST");
    const struct tls_options o = {.certificate = or_environment(t.certificate, "WSD_TLS_CERT"),
                                  .key = or_environment(t.key, "WSD_TLS_KEY"),
                                  .ca = or_environment(t.ca, "WSD_TLS_CA")};

    if (!where || !split(where, host, port))
        return failure_set(failure, -EINVAL, CODE_USAGE, "%s: HOST:PORT or [ADDRESS]:PORT is wanted",
                           where ? where : "host");
    if (!o.certificate || !o.key || !o.ca)
        return failure_set(failure, -EINVAL, CODE_USAGE,
                           "%s: a certificate, its key and a CA are wanted: "
                           "--tls-cert, --tls-key and --tls-ca, or WSD_TLS_CERT, WSD_TLS_KEY and WSD_TLS_CA",
                           where);
    remote->ops = tls_load(error);
    if (!remote->ops)
        return failure_set(failure, -EOPNOTSUPP, CODE_NO_DAEMON, "%s: %s", where, error);
    int r = remote->ops->context_new(&remote->context, &o, error);
    if (r < 0)
        return failure_set(failure, r, r == -ENOMEM ? CODE_IO : CODE_NOT_FOUND, "%s", error);
    _cleanup_(close_fdp) int fd = connect_host(where, host, port, deadline_usec, failure);
    if (fd < 0)
        return fd;
    r = remote->ops->open(&remote->tls, remote->context, fd, host);
    return r < 0 ? failure_set(failure, r, CODE_IO, "%s: out of memory", where) : TAKE_FD(fd);
}

void remote_disconnect(struct remote_wsd *r)
{
    if (!r->ops)
        return;
    r->ops->free(TAKE(r->tls));
    r->ops->context_free(TAKE(r->context));
}
