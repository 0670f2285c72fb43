/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c: the file of the Unix socket that wsd listens at.
 * Owns the file from bind to unbind; never the descriptor. [loop]
 * Keeps: a socket is removed only by the wsd that made it, or when no process answers there. Of several that start at
 * the same place one gets it. The file is told by device and inode, which no other one can have as long as the socket
 * is open. Does not accept (listener.c). */
#include "frontend/address.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/socket.h"
#include "base/trust.h"

#define LOCK_TRIES 200 /* of 5 ms each */

/* Opens the directory and locks it against other wsds that make or remove a socket in it. Returns -1 where it cannot be
 * opened, or another process keeps the lock: to wait would gain nothing, and all checks are done without it, too. */
static int lock_directory(const char *path)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    char copy[SOCKET_PATH_MAX + 1];
    int fd;

    snprintf(copy, sizeof(copy), "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i == LOCK_TRIES)
            return close_fd(fd);
        nanosleep(&pause, NULL);
    }
    return fd;
}

static int look_at_socket(const char *path, struct frontend_address *ret)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    *ret = (struct frontend_address){.device = st.st_dev, .inode = st.st_ino};
    return 0;
}

static bool is_at(const struct frontend_address *a, const char *path)
{
    struct frontend_address now = {0};

    return look_at_socket(path, &now) == 0 && now.device == a->device && now.inode == a->inode;
}

static void remove_locked(const struct frontend_address *a, const char *path)
{
    if (is_at(a, path))
        unlink(path);
}

/* Connects to the socket and returns the descriptor; -1: no process listens. *ret_answers: one does, even if its queue
 * is full. */
static int probe(const char *path, bool *ret_answers)
{
    _cleanup_(close_fdp) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int r;

    *ret_answers = false;
    strcpy(address.sun_path, path);
    if (fd < 0)
        return -1;
    r = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
    *ret_answers = r == 0 || r == EAGAIN;
    return r == 0 ? TAKE_FD(fd) : -1;
}

/* Removes a dead socket. Returns 0 where the path is free then. */
static int clear_socket(const char *path)
{
    struct frontend_address stale = {0};
    bool answers;
    int r = look_at_socket(path, &stale);

    if (r < 0)
        return r == -EEXIST ? r : 0; /* what else there is, bind() tells */
    close_fd(probe(path, &answers));
    if (answers)
        return -EADDRINUSE;
    remove_locked(&stale, path);
    return 0;
}

/* Root's wsd listens where others cannot put a socket of theirs in the place of its own. */
static int look_above(const char *path)
{
    char copy[SOCKET_PATH_MAX + 1], where[PATH_MAX];
    struct stat st;

    if (geteuid() != 0)
        return 0;
    snprintf(copy, sizeof(copy), "%s", path);
    _cleanup_(close_fdp) int fd = trust_open(dirname(copy), where);
    if (fd < 0)
        return fd == -EPERM && !*where ? -EACCES : fd;
    return fstat(fd, &st) < 0 || (!trust_only_ours(&st) && !(st.st_uid == 0 && st.st_mode & S_ISVTX)) ? -EPERM : 0;
}

int frontend_bind(const char *path, uint32_t group, int *ret_fd, struct frontend_address *ret_address)
{
    _cleanup_(close_fdp) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct frontend_address own = {0};

    if (fd < 0)
        return -errno;
    if (strlen(path) > SOCKET_PATH_MAX)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    /* held until it listens: another wsd would take it for a dead socket */
    _cleanup_(close_fdp) __attribute__((unused)) int lock = lock_directory(path);
    int r = look_above(path);
    if (r == 0)
        r = clear_socket(path);
    if (r < 0)
        return r;
    mode_t mask = umask(0117); /* 0660 from the first moment */
    r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    umask(mask);
    if (r == 0)
        r = look_at_socket(path, &own);
    if (r < 0)
        return r;
    if (group != (uint32_t)-1 && lchown(path, (uid_t)-1, group) < 0)
        r = -errno;
    if (r == 0 && listen(fd, SOMAXCONN) < 0)
        r = -errno;
    if (r < 0) {
        remove_locked(&own, path);
        return r;
    }
    *ret_fd = TAKE_FD(fd);
    *ret_address = own;
    return 0;
}

/* For a connection, as for a listening socket, the kernel reports the process that called listen(). */
int frontend_find(const char *path, int listener, struct frontend_address *ret_address)
{
    struct frontend_address found;
    struct ucred there, ours;
    socklen_t size = sizeof(there);
    bool answers;
    int r = strlen(path) <= SOCKET_PATH_MAX ? look_at_socket(path, &found) : -ENAMETOOLONG;

    if (r < 0)
        return r;
    _cleanup_(close_fdp) int fd = probe(path, &answers);
    if (fd < 0 && !answers)
        return -ECONNREFUSED;
    /* with a full queue, its owner is unknown; after a restart it is likely this wsd's own */
    if (fd >= 0 && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &there, &size) < 0 ||
                    getsockopt(listener, SOL_SOCKET, SO_PEERCRED, &ours, &size) < 0 || there.pid != ours.pid ||
                    there.uid != ours.uid))
        return -EADDRINUSE;
    if (!is_at(&found, path))
        return -EADDRINUSE;
    *ret_address = found;
    return 0;
}

void frontend_unbind(const char *path, const struct frontend_address *address)
{
    _cleanup_(close_fdp) __attribute__((unused)) int lock = lock_directory(path);

    remove_locked(address, path);
}
