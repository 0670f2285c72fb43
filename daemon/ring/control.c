/* SPDX-License-Identifier: Apache-2.0
 *
 * control.c: one struct control a packet, with at most one descriptor.
 * Owns the descriptors of a packet until it has handed one over. [any; one receiver at a time]
 * Keeps: what control_receive() gives is whole, and its text ends in NUL. No descriptor that came with a bad packet
 * stays open.
 * Does not know what the packets mean. */
#include "ring/control.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/async-close.h"
#include "base/cleanup.h"

/* SCM_MAX_FD: as many as come with a packet, since the kernel would close those beyond here and now */
#define FDS_MAX 253

int control_send(int socket, const struct control *c, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)c, .iov_len = CONTROL_HEADER + c->text_size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (c->text_size > CONTROL_TEXT || (c->text_size > 0 && c->text[c->text_size - 1] != 0))
        return -EINVAL;
    if (fd >= 0) {
        m.msg_control = &ancillary;
        m.msg_controllen = sizeof(ancillary);
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(int));
    }
    do
        n = sendmsg(socket, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* The first descriptor, or -1; every other one is closed. *ret_more: there were others. */
static int take_descriptors(struct msghdr *m, uint64_t owner, bool *ret_more)
{
    int first = -1;

    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
            if (first < 0) {
                first = fd;
            } else {
                async_close(fd, owner);
                *ret_more = true;
            }
        }
    }
    return first;
}

static bool is_whole(const struct control *c, size_t size)
{
    return size >= CONTROL_HEADER && c->text_size == size - CONTROL_HEADER &&
           (c->text_size == 0 || c->text[c->text_size - 1] == 0);
}

int control_receive(int socket, uint64_t owner, struct control *ret, int *ret_fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } ancillary;
    struct control c;
    struct iovec iov = {.iov_base = &c, .iov_len = sizeof(c)};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    bool more = false;
    ssize_t n;

    do
        n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    _cleanup_(async_closep) struct async_close file = {.fd = take_descriptors(&m, owner, &more), .owner = owner};
    if (n == 0)
        return -ECONNRESET;
    if (more || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !is_whole(&c, (size_t)n))
        return -EBADMSG;
    memcpy(ret, &c, (size_t)n);
    if (c.text_size == 0)
        ret->text[0] = 0;
    *ret_fd = TAKE_FD(file.fd);
    return 0;
}
