/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c: asks the reaper for commands; reaper.h has the protocol.
 * Owns the reaper and its socket.
 * Keeps: a reaper that was killed, or does not answer, is replaced; a request that may have reached it is not made
 * again. Does not watch commands: the caller has the handle. */
#include "host/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descendants.h"
#include "host/reaper.h"

#define ANSWER_MSEC 10000 /* for a reaper that was stopped */

void commands_init(struct commands *c, int (*start)(int socket, pid_t *ret_pid, void *context), void *context)
{
    *c = (struct commands){.socket = -1, .start = start, .context = context};
    pthread_mutex_init(&c->lock, NULL);
}

/* [lock] */
static void forget_reaper(struct commands *c)
{
    c->socket = close_fd(c->socket);
    if (c->reaper > 0) {
        kill(c->reaper, SIGKILL); /* its keepers stay, and do what they are for */
        while (waitpid(c->reaper, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    c->reaper = 0;
}

bool commands_reap(struct commands *c, pid_t ended)
{
    if (descendants_is_reaper(ended) <= 0) /* where that could not be read: at the next look */
        return false;
    pthread_mutex_lock(&c->lock);
    if (ended == c->reaper)
        forget_reaper(c);
    else
        (void)waitpid(ended, NULL, WNOHANG);
    pthread_mutex_unlock(&c->lock);
    return true;
}

void commands_deinit(struct commands *c)
{
    if (!c->start)
        return; /* not begun */
    close_fd(c->socket);
    pthread_mutex_destroy(&c->lock);
}

/* [lock] */
static int have_reaper(struct commands *c)
{
    int pair[2];

    if (c->socket >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int r = c->start(pair[1], &c->reaper, c->context);
    close(pair[1]);
    if (r < 0)
        close(pair[0]);
    else
        c->socket = pair[0];
    return r;
}

/* [lock] */
static int send_request(struct commands *c, const int fds[static REAPER_FDS])
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(REAPER_FDS * sizeof(int))];
    } ancillary = {0};
    char byte = 0;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    ssize_t n;

    ancillary.header.cmsg_level = SOL_SOCKET;
    ancillary.header.cmsg_type = SCM_RIGHTS;
    ancillary.header.cmsg_len = CMSG_LEN(REAPER_FDS * sizeof(int));
    memcpy(CMSG_DATA(&ancillary.header), fds, REAPER_FDS * sizeof(int));
    do
        n = sendmsg(c->socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* *ret_reaper: the reaper that answered. */
static int ask_reaper(struct commands *c, const int fds[static REAPER_FDS], pid_t *ret_reaper)
{
    pthread_mutex_lock(&c->lock);
    int r = have_reaper(c);
    if (r == 0)
        r = send_request(c, fds);
    if (r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN) { /* it was killed: this request has not reached it */
        forget_reaper(c);
        r = have_reaper(c);
        if (r == 0)
            r = send_request(c, fds);
    }
    *ret_reaper = c->reaper;
    pthread_mutex_unlock(&c->lock);
    return r;
}

static void replace_reaper(struct commands *c, pid_t reaper)
{
    pthread_mutex_lock(&c->lock);
    if (c->reaper == reaper)
        forget_reaper(c);
    pthread_mutex_unlock(&c->lock);
}

static uint32_t put_texts(const char *const *texts, char **at, uint64_t *ret_size)
{
    uint32_t n = 0;

    for (; texts[n]; n++) {
        *ret_size += strlen(texts[n]) + 1;
        if (*at)
            *at = stpcpy(*at, texts[n]) + 1;
    }
    return n;
}

static int send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

static int send_command(int handle, const struct wsd_command *command)
{
    uint64_t size = strlen(command->directory) + 1;
    struct reaper_request q = {0};
    char *at = NULL;

    q.argc = put_texts(command->argv, &at, &size);
    q.n_environment = put_texts(command->environment, &at, &size);
    if (size > REAPER_TEXT_MAX)
        return -E2BIG;
    q.text_size = (uint32_t)size;
    _cleanup_(freep) char *packet = malloc(sizeof(q) + size);
    if (!packet)
        return -ENOMEM;
    memcpy(packet, &q, sizeof(q));
    at = stpcpy(packet + sizeof(q), command->directory) + 1;
    put_texts(command->argv, &at, &size);
    put_texts(command->environment, &at, &size);
    return send_all(handle, packet, sizeof(q) + q.text_size);
}

/* 0, or a negative errno: the command's; -ETIMEDOUT: the reaper does not answer. */
static int take_answer(int handle)
{
    struct pollfd p = {.fd = handle, .events = POLLIN};
    int32_t answer = 0;
    int r;

    do
        r = poll(&p, 1, ANSWER_MSEC);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return r == 0 ? -ETIMEDOUT : -errno;
    ssize_t n = recv(handle, &answer, sizeof(answer), MSG_WAITALL);
    if (n != sizeof(answer))
        return -ECONNRESET; /* it was killed meanwhile, or has no room for another one */
    return answer >= 0 ? -answer : -EBADMSG;
}

int commands_run(struct commands *c, const struct wsd_command *command)
{
    _cleanup_(close_fdp) int handle = -1, other = -1;
    pid_t reaper;
    int pair[2];

    if (!command->argv[0])
        return -EINVAL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    handle = pair[0];
    other = pair[1];
    const int fds[REAPER_FDS] = {other, command->fds[0], command->fds[1], command->fds[2]};
    int r = ask_reaper(c, fds, &reaper);
    other = close_fd(other); /* so that the handle ends with the keeper's end */
    if (r == 0)
        r = send_command(handle, command);
    if (r == 0)
        r = take_answer(handle);
    if (r == -ETIMEDOUT)
        replace_reaper(c, reaper);
    return r < 0 ? r : TAKE_FD(handle);
}
