/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c: the way to a wsd on this machine: where its socket is, and connecting to it.
 * Owns nothing; the descriptor is the caller's. [any] */
#include "address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/socket.h"

int address_find(const char *given, struct sockaddr_un *ret, struct failure *failure)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR"), *named = given;
    int n;

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!named)
        named = secure_getenv("WSD_SOCKET");
    if (named && *named) {
        n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", named);
        if (n < (int)sizeof(ret->sun_path))
            return 0;
        ret->sun_path[0] = 0;
        return failure_set(failure, -ENAMETOOLONG, CODE_USAGE, "%s: " SOCKET_PATH_LONG, given ? given : "WSD_SOCKET",
                           SOCKET_PATH_MAX);
    }
    if (runtime && *runtime) {
        n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/wsd/wsd.sock", runtime);
        if (n < (int)sizeof(ret->sun_path) && access(ret->sun_path, F_OK) == 0)
            return 0;
    }
    snprintf(ret->sun_path, sizeof(ret->sun_path), "/run/wsd/wsd.sock");
    return 0;
}

static int failed(const struct sockaddr_un *address, int error, struct failure *failure)
{
    return failure_set(failure, error,
                       error == -EACCES || error == -EPERM ? CODE_DENIED
                       : error == -EINTR                   ? CODE_CANCELLED
                                                           : CODE_NO_DAEMON,
                       "%s: %s", address->sun_path, strerror(-error));
}

/* Blocking, for a full backlog: poll cannot wait for that. The timeout of sending is also that of connecting. 0 or a
 * negative errno. */
static int connect_until(int fd, const struct sockaddr_un *address, const struct waiting *waiting,
                         uint64_t deadline_usec)
{
    for (;;) {
        uint64_t now = clock_monotonic_usec(), until = waiting_look(waiting, now, deadline_usec);
        uint64_t left = until > now ? until - now : 1; /* 0 would be for ever */
        struct timeval timeout = {.tv_sec = (time_t)(left / 1000000u), .tv_usec = (int)(left % 1000000u)};

        if (waiting_interrupted(waiting))
            return -EINTR;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
        if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
        if (errno == EAGAIN && until == deadline_usec)
            return -ETIMEDOUT;
    }
}

/* errno of a call for a socket. Returns it, negative, said. */
static int no_socket(struct failure *failure)
{
    int error = errno;

    return failure_set(failure, -error, CODE_IO, "socket: %s%s", strerror(error),
                       error == EMFILE ? "; allow more descriptors (ulimit -n), or close some" : "");
}

int address_begin(const struct sockaddr_un *address, struct failure *failure)
{
    _cleanup_(close_fdp) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return no_socket(failure);
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return failed(address, -errno, failure); /* EAGAIN: too many wait for wsd to accept them */
    return TAKE_FD(fd);
}

int address_connect(const struct sockaddr_un *address, const struct waiting *waiting, uint64_t deadline_usec,
                    struct failure *failure)
{
    int r, flags;

    _cleanup_(close_fdp) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return no_socket(failure);
    r = connect_until(fd, address, waiting, deadline_usec);
    if (r < 0)
        return failed(address, r, failure);
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return no_socket(failure);
    return TAKE_FD(fd);
}
