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

#include "base/async-close.h"
#include "base/cleanup.h"

int control_pack(struct control_packet *p, const struct control *c, int fd)
{
    if (c->text_size > CONTROL_TEXT || (c->text_size > 0 && c->text[c->text_size - 1] != 0))
        return -EINVAL;
    p->piece = (struct iovec){.iov_base = (void *)(uintptr_t)c, .iov_len = CONTROL_HEADER + c->text_size};
    p->message = (struct msghdr){.msg_iov = &p->piece, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(p->room, 0, CMSG_SPACE(sizeof(int)));
        p->message.msg_control = p->room;
        p->message.msg_controllen = CMSG_SPACE(sizeof(int));
        p->header.cmsg_level = SOL_SOCKET;
        p->header.cmsg_type = SCM_RIGHTS;
        p->header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&p->header), &fd, sizeof(int));
    }
    return 0;
}

int control_send(int socket, const struct control *c, int fd)
{
    struct control_packet p;
    ssize_t n;

    if (control_pack(&p, c, fd) < 0)
        return -EINVAL;
    do
        n = sendmsg(socket, &p.message, MSG_NOSIGNAL);
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

void control_room(struct control_packet *p, struct control *c)
{
    p->piece = (struct iovec){.iov_base = c, .iov_len = sizeof(*c)};
    p->message = (struct msghdr){
        .msg_iov = &p->piece, .msg_iovlen = 1, .msg_control = p->room, .msg_controllen = sizeof(p->room)};
}

int control_unpack(struct control_packet *p, ssize_t n, uint64_t owner, int *ret_fd)
{
    struct control *c = p->piece.iov_base;
    bool more = false;

    _cleanup_(async_closep) struct async_close file = {.fd = take_descriptors(&p->message, owner, &more),
                                                       .owner = owner};
    if (n == 0)
        return -ECONNRESET;
    if (more || p->message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !is_whole(c, (size_t)n))
        return -EBADMSG;
    if (c->text_size == 0)
        c->text[0] = 0;
    *ret_fd = TAKE_FD(file.fd);
    return 0;
}

int control_receive(int socket, uint64_t owner, struct control *ret, int *ret_fd)
{
    struct control_packet p;
    struct control c; /* *ret stays as it is where nothing whole comes */
    ssize_t n;

    control_room(&p, &c);
    do
        n = recvmsg(socket, &p.message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    int r = control_unpack(&p, n, owner, ret_fd);
    if (r == 0)
        memcpy(ret, &c, MAX((size_t)n, CONTROL_HEADER + 1));
    return r;
}
