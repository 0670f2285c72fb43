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

int address_connect(const struct sockaddr_un *address, uint64_t deadline_usec, struct failure *failure)
{
    uint64_t now = clock_monotonic_usec(), left = deadline_usec > now ? deadline_usec - now : 1;
    struct timeval timeout = {.tv_sec = (time_t)(left / 1000000u), .tv_usec = (int)(left % 1000000u)};
    int r, flags, error;

    _cleanup_(close_fdp) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failure_set(failure, -errno, CODE_IO, "socket: %s", strerror(errno));
    /* Blocking, for a full backlog: poll cannot wait for that. The timeout of sending is also that of connecting. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    do
        r = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    while (r < 0 && errno == EINTR);
    if (r < 0) {
        error = errno == EAGAIN ? ETIMEDOUT : errno;
        return failure_set(failure, -error, error == EACCES || error == EPERM ? CODE_DENIED : CODE_NO_DAEMON, "%s: %s",
                           address->sun_path, strerror(error));
    }
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return failure_set(failure, -errno, CODE_IO, "socket: %s", strerror(errno));
    return TAKE_FD(fd);
}
