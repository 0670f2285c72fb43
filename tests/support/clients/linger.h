/* SPDX-License-Identifier: Apache-2.0
 *
 * linger.h: descriptors that wait in their last close, and how a client hands them over.
 */
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include "conn.h"

#define LINGER_QUEUE     4000u /* the kernel's own limit is 4096 (net.core.somaxconn) */
#define LINGER_LISTENERS 256u

/* Has the other ends in its queue: they linger for as long as a process has it open. */
static struct {
    int fd;
    struct sockaddr_in address;
} lingering_listeners[LINGER_LISTENERS];
static unsigned lingering_n_listeners, lingering_n_queued;

/* There is a listener with room for n more. It stays this process's. */
static inline void lingering_room(unsigned n)
{
    socklen_t size = sizeof(struct sockaddr_in);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    lingering_n_queued += n;
    if (lingering_n_listeners && lingering_n_queued <= LINGER_QUEUE)
        return;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)); /* little is sent before one is full */
    if (lingering_n_listeners == LINGER_LISTENERS || bind(fd, (struct sockaddr *)&a, size) < 0 ||
        listen(fd, 4096) < 0 || getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        fail("no socket that listens: %s", strerror(errno));
    lingering_listeners[lingering_n_listeners].fd = fd;
    lingering_listeners[lingering_n_listeners++].address = a;
    lingering_n_queued = n;
}

static int lingering_on = 1; /* 0: what lingering() gives is an ordinary socket */

/* A socket that its last close waits for: what was sent is not read, and it lingers for longer than a test waits. */
static inline int lingering(void)
{
    const struct linger l = {.l_onoff = lingering_on, .l_linger = 300};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static const char junk[65536];

    if (!lingering_n_listeners)
        lingering_room(1);
    const struct sockaddr_in a = lingering_listeners[lingering_n_listeners - 1].address;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
    if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)) < 0)
        fail("no socket that lingers: %s", strerror(errno));
    while (send(fd, junk, sizeof(junk), MSG_DONTWAIT) > 0)
        ;
    return fd;
}

/* Sockets of lingering() that a process is in the last close of. Those that a process had at its exit are not among
 * them: it does not wait. */
static inline unsigned lingering_closes(void)
{
    char line[256];
    unsigned n = 0, port, state;
    unsigned long inode;
    FILE *f = fopen("/proc/net/tcp", "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*[0-9A-F]:%*x %*[0-9A-F]:%x %x %*s %*s %*s %*s %*s %lu", &port, &state, &inode) != 3 ||
            state != 4 /* FIN_WAIT1 */ || inode == 0)
            continue;
        for (unsigned i = 0; i < lingering_n_listeners; i++)
            n += port == ntohs(lingering_listeners[i].address.sin_port);
    }
    if (!f)
        fail("/proc/net/tcp: %s", strerror(errno));
    fclose(f);
    return n;
}

/* The bytes, and n descriptors with them, which stay open here. Waits while this user has as many on their way as the
 * kernel allows. False: the other side has closed the connection. */
static inline bool send_descriptors(int to, const void *bytes, size_t size, uint32_t n, const int *fds)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(sizeof(int) * n)};

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * n);
    bool taken;

    while (!(taken = sendmsg(to, &h, MSG_NOSIGNAL) >= 0) && errno == ETOOMANYREFS)
        usleep(1000);
    if (!taken && errno != EPIPE && errno != ECONNRESET)
        fail("sendmsg: %s", strerror(errno));
    return taken;
}

/* Ends the wait of every close. */
static inline void lingering_end(void)
{
    while (lingering_n_listeners)
        close(lingering_listeners[--lingering_n_listeners].fd);
    lingering_n_queued = 0;
}

/* What ARENA_OPEN takes, and a SUBMIT as its input: 64 KiB. */
static inline int arena_file(void)
{
    int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, 65536) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        fail("no memory file: %s", strerror(errno));
    return fd;
}

/* Returns a socket with a lingering descriptor in its queue. That descriptor is open nowhere else. */
static inline int with_lingering_inside(void)
{
    int pair[2], inside = lingering();

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || !send_descriptors(pair[0], "x", 1, 1, &inside))
        fail("socketpair: %s", strerror(errno));
    close(inside);
    close(pair[0]);
    return pair[1];
}

/* The bytes, and n that linger, to a wsd that is stopped: no process but it has one afterwards. The last reference is
 * to be wsd's; while another process has one, no close of it waits. */
static inline void give_lingering(struct conn *c, const void *bytes, size_t size, uint32_t n)
{
    int fds[253];

    for (uint32_t i = 0; i < n; i++)
        fds[i] = lingering();
    if (!send_descriptors(c->fd, bytes, size, n, fds))
        fail("wsd closed the connection while it was stopped");
    for (uint32_t i = 0; i < n; i++)
        close(fds[i]);
}
