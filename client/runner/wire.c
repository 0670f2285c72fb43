/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c: the connection of a runner: how it is made, frames in and out, and which thread reads.
 * Owns the socket, both buffers, and descriptors that have come and were not taken.
 * Keeps: the lock is not held while a thread waits. Only the reader touches what has come. A thread that finds the
 * socket full waits until all is sent, so no byte waits for a thread that does not know of it.
 * Does not know jobs: it calls upwards through runner_ops only. */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/address.h"
#include "client/connecting.h"
#include "client/text.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"

#define READ_SIZE (128u * 1024u)
#define FDS_MAX   253 /* that the kernel allows in one message */
#define LOOK_MSEC 10  /* between two looks of a thread that waits to send while another one reads */
#define TAG       1u  /* of RUNNER_OPEN, and so of all frames */

/* --- the handshake, by the code of clients ------------------------------------------------------------------------ */

static int nothing_gathered(struct connection *c)
{
    return 0;
}

static void no_room(struct connection *c)
{
}

static bool nothing_beside(struct connection *c)
{
    return false;
}

static uint64_t never(struct connection *c)
{
    return UINT64_MAX;
}

static void ignore(struct connection *c, uint32_t tag, const struct msg *msg)
{
}

static const struct connection_ops handshake_ops = {
    .gathered = nothing_gathered,
    .room = no_room,
    .beside = nothing_beside,
    .beside_due = never,
    .stray = ignore,
    .reap = no_room,
    .gone = no_room,
};

int wire_init(struct wsd_runner *r)
{
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = r->wake_fd < 0 ? -errno : connection_init(&r->connection, &handshake_ops, &r->handshake);

    if (error < 0)
        close_fd(r->wake_fd);
    return error;
}

static void drop_fds(struct wsd_runner *r)
{
    while (r->n_fds > 0)
        close(r->fds[--r->n_fds]);
}

void wire_deinit(struct wsd_runner *r)
{
    drop_fds(r);
    connection_deinit(&r->connection);
    close_fd(r->wake_fd);
}

void wire_forsake(struct wsd_runner *r)
{
    connection_forsake(&r->connection);
    drop_fds(r);
    r->wake_fd = close_fd(r->wake_fd);
}

void wire_break(struct wsd_runner *r, const char *format, ...)
{
    char text[sizeof(r->failure.text)];
    va_list args;

    if (!r->stands)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    failure_set(&r->failure, -ECONNRESET, CODE_NO_DAEMON, "%s", text);
    r->stands = false;
    r->out_since_usec = 0; /* what was to be sent is not any more, and the buffer is the thread's that connects */
    drop_fds(r);
    (void)shutdown(r->connection.fd, SHUT_RDWR); /* a thread that reads or writes there notices */
    r->ops->lost(r);
}

/* --- bytes out ---------------------------------------------------------------------------------------------------- */

int wire_put(struct wsd_runner *r, const struct msg *msg, const void *body, size_t body_size)
{
    struct buffer *out = &r->connection.out;
    size_t size = codec_room(msg);
    uint8_t *room = r->stands ? buffer_reserve(out, size + body_size) : NULL;

    if (!room) {
        wire_break(r, "out of memory"); /* else wsd would wait for this frame for ever */
        return -ECONNRESET;
    }
    size = codec_encode(msg, TAG, body_size, room, size);
    if (size == 0)
        return -EINVAL;
    if (body_size > 0)
        memcpy(room + size, body, body_size);
    buffer_commit(out, size + body_size);
    return 0;
}

void wire_flush(struct wsd_runner *r)
{
    struct buffer *out = &r->connection.out;

    r->out_since_usec = 0;
    while (r->stands && buffer_size(out) > 0) {
        ssize_t n = send(r->connection.fd, buffer_data(out), buffer_size(out), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
            buffer_drop(out, (size_t)n);
        else if (errno != EINTR)
            return; /* the socket is full; or what wsd has said of it, and then the end, is read */
    }
}

/* --- bytes in ----------------------------------------------------------------------------------------------------- */

static void keep_fds(struct wsd_runner *r, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
            if (r->n_fds < ARRAY_SIZE(r->fds))
                r->fds[r->n_fds++] = fd;
            else
                close(fd);
        }
    }
}

int wire_take_fd(struct wsd_runner *r)
{
    if (r->n_fds == 0)
        return -1;
    int fd = r->fds[0];
    memmove(r->fds, r->fds + 1, --r->n_fds * sizeof(*r->fds));
    return fd;
}

static void take_frames(struct wsd_runner *r)
{
    struct connection *c = &r->connection;

    while (r->stands && buffer_size(&c->in) > 0) {
        struct frame frame;
        struct msg msg;
        size_t size = 0;
        int found = frame_parse(buffer_data(&c->in), buffer_size(&c->in), &frame, &size);

        if (found == FRAME_MORE)
            return;
        if (found != 0) {
            wire_break(r, "wsd: %s", frame_strerror(found));
        } else if (codec_decode(c->codec, &frame, &msg) != 0) {
            wire_break(r, "wsd does not keep to the protocol: %s", codec_strerror(c->codec));
        } else {
            r->ops->frame(r, &frame, &msg);
            buffer_drop(&c->in, size);
        }
    }
}

/* [without the lock] What has come: its size, or as recvmsg(). */
static ssize_t receive(int fd, void *room, int flags, struct msghdr *ret_header, struct iovec *iov, void *control,
                       size_t control_size)
{
    *iov = (struct iovec){.iov_base = room, .iov_len = READ_SIZE};
    *ret_header =
        (struct msghdr){.msg_iov = iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = control_size};
    return recvmsg(fd, ret_header, flags | MSG_CMSG_CLOEXEC);
}

/* [without the lock] False: nothing to read, now. */
static bool await_input(int fd, int wake_fd, uint64_t deadline_usec, bool write)
{
    struct pollfd p[2] = {{.fd = fd, .events = (short)(POLLIN | (write ? POLLOUT : 0))},
                          {.fd = wake_fd, .events = POLLIN}};
    struct timespec timeout, *until = NULL;
    uint64_t word;

    if (deadline_usec != UINT64_MAX) {
        uint64_t now = clock_monotonic_usec(), left = deadline_usec > now ? deadline_usec - now : 0;

        timeout = (struct timespec){.tv_sec = (time_t)(left / 1000000u), .tv_nsec = (long)(left % 1000000u) * 1000};
        until = &timeout;
    }
    if (ppoll(p, 2, until, NULL) <= 0)
        return false;
    if (p[1].revents && read(wake_fd, &word, sizeof(word)) < 0)
        return false; /* another thread was faster */
    return p[0].revents & ~POLLOUT;
}

/* As the reader: waits, and takes what has come. */
static void read_some(struct wsd_runner *r, uint64_t deadline_usec, bool wake)
{
    struct connection *c = &r->connection;
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr header;
    struct iovec iov;
    uint8_t *room = buffer_reserve(&c->in, READ_SIZE);
    bool heeds = wake || !r->serving; /* of a loop, any thread may be the one that wake_fd wakes */
    bool plain = deadline_usec == UINT64_MAX && !heeds && buffer_size(&c->out) == 0; /* one call waits and reads */
    bool write = buffer_size(&c->out) > 0, had_role = r->reading;
    ssize_t n = -1;

    if (!room) {
        wire_break(r, "out of memory");
        return;
    }
    r->reading = true;
    pthread_mutex_unlock(&r->lock);
    errno = EAGAIN; /* for a wait without input */
    if (plain || await_input(c->fd, heeds ? r->wake_fd : -1, deadline_usec, write))
        n = receive(c->fd, room, plain ? 0 : MSG_DONTWAIT, &header, &iov, control.bytes, sizeof(control.bytes));
    int error = errno;
    pthread_mutex_lock(&r->lock);
    r->reading = had_role;
    r->n_reads++;
    if (r->n_waiting)
        pthread_cond_broadcast(&r->changed);
    if (n > 0) {
        keep_fds(r, &header);
        buffer_commit(&c->in, (size_t)n);
        if (header.msg_flags & MSG_CTRUNC) /* which frame it was for is not known */
            wire_break(r, "too many open files: no room for the input of a job; raise RLIMIT_NOFILE (ulimit -n)");
        take_frames(r);
    } else if (n == 0) {
        wire_break(r, "wsd closed the connection");
    } else if (error != EAGAIN && error != EINTR) {
        wire_break(r, "connection to wsd: %s", strerror(error));
    }
    if (write)
        wire_flush(r);
}

/* Until something happens that another thread tells of. */
static void wait_for_reader(struct wsd_runner *r, uint64_t deadline_usec)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_usec / 1000000u),
                             .tv_nsec = (long)(deadline_usec % 1000000u) * 1000};

    r->n_waiting++;
    if (deadline_usec == UINT64_MAX)
        pthread_cond_wait(&r->changed, &r->lock);
    else
        pthread_cond_timedwait(&r->changed, &r->lock, &until);
    r->n_waiting--;
}

bool wire_wait(struct wsd_runner *r, uint64_t deadline_usec, bool wake, bool (*over)(const void *arg), const void *arg)
{
    while (r->stands && !over(arg)) {
        if (deadline_usec != UINT64_MAX && clock_monotonic_usec() >= deadline_usec)
            return false;
        if (r->reading)
            wait_for_reader(r, deadline_usec);
        else
            read_some(r, deadline_usec, wake);
        r->ops->looked(r);
        if (wake)
            return true;
    }
    return true;
}

void wire_read(struct wsd_runner *r)
{
    read_some(r, UINT64_MAX, false);
}

void wire_look(struct wsd_runner *r)
{
    if (r->stands && !r->reading)
        read_some(r, 0, false);
}

void wire_pause(struct wsd_runner *r, uint64_t usec)
{
    wait_for_reader(r, deadline_in(usec));
}

void wire_drain(struct wsd_runner *r)
{
    wire_flush(r);
    while (r->stands && buffer_size(&r->connection.out) > 0) {
        if (r->reading) {
            struct pollfd p = {.fd = r->connection.fd, .events = POLLOUT};

            pthread_mutex_unlock(&r->lock);
            poll(&p, 1, LOOK_MSEC); /* the reader may go to run a job */
            pthread_mutex_lock(&r->lock);
            wire_flush(r);
        } else {
            read_some(r, UINT64_MAX, false);
            r->ops->looked(r);
        }
    }
}

void wire_tell_leaving(struct wsd_runner *r)
{
    if (r->left_told || !atomic_load_explicit(&r->leaving, memory_order_relaxed))
        return;
    r->left_told = wire_put(r, &(struct msg){.type = FRAME_RUNNER_CLOSE}, NULL, 0) == 0;
    wire_drain(r);
}

static struct span span_of(const char *text)
{
    return (struct span){.data = text ? text : "", .size = text ? strlen(text) : 0};
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static int put_offer(struct wsd_runner *r, uint32_t credit)
{
    const struct wsd_plugin *o = r->offer;
    struct msg_function functions[CODEC_FUNCTIONS];
    struct msg msg = {.type = FRAME_RUNNER_OPEN,
                      .offer = {.functions = functions, .n_functions = o->n_functions, .credit = credit}};

    msg.offer.name = span_of(o->name);
    msg.offer.version = span_of(o->version);
    msg.offer.help = span_of(o->help);
    for (uint32_t i = 0; i < o->n_functions; i++) {
        const struct wsd_function *f = r->offered[i].function;

        functions[i] = (struct msg_function){.name = span_of(f->name),
                                             .help = span_of(f->help),
                                             .flags = f->flags & (WSD_FN_IDEMPOTENT | WSD_FN_STREAMING)};
    }
    const char *problem = codec_problem(&msg);
    return problem ? failure_problem(&r->failure, problem) : wire_put(r, &msg, NULL, 0);
}

/* Until wsd has said yes or no. */
static int offer(struct wsd_runner *r, uint32_t credit, uint64_t deadline_usec)
{
    int error = put_offer(r, credit);

    if (error < 0)
        return error;
    wire_flush(r);
    while (r->stands && r->answer == 0 && clock_monotonic_usec() < deadline_usec)
        read_some(r, deadline_usec, false);
    if (!r->stands)
        return -ECONNRESET;
    if (r->answer == 0)
        return failure_set(&r->failure, -ETIMEDOUT, CODE_NO_DAEMON, "no answer from wsd in time");
    return r->answer < 0 ? r->answer : 0;
}

/* [without the lock, as the reader] */
static int shake_hands(struct connection *c, uint64_t deadline_usec)
{
    connection_reset(c);
    int r = connection_connect(c, deadline_usec), flags = r < 0 ? -1 : fcntl(c->fd, F_GETFL);

    if (r == 0 && !(c->features & FEATURE_RUNNER))
        r = failure_set(c->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s knows no runners: upgrade wsd", c->daemon_version);
    if (r == 0 && (flags < 0 || fcntl(c->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)) /* its reader waits in recvmsg() */
        r = failure_set(c->failure, -errno, CODE_IO, "fcntl: %s", strerror(errno));
    return r;
}

int wire_connect(struct wsd_runner *r, uint32_t credit, uint64_t deadline_usec)
{
    drop_fds(r);
    pthread_mutex_unlock(&r->lock);
    int error = shake_hands(&r->connection, deadline_usec);
    pthread_mutex_lock(&r->lock);
    if (error < 0) {
        r->failure = r->handshake;
        return error;
    }
    r->stands = true;
    r->left_told = false;
    r->answer = 0;
    r->n_connection++;
    if (!(r->connection.features & FEATURE_CREDIT))
        credit = MIN(credit, CODEC_CREDIT_PLAIN);
    error = offer(r, credit, deadline_usec);
    if (error < 0 && r->stands) {
        struct failure why = r->failure;

        wire_break(r, "%s", why.text);
        r->failure = why;
    }
    return error;
}

int wire_open(struct wsd_runner *r, uint32_t credit, uint64_t deadline_usec)
{
    while (r->reading && (!r->stands || r->answer <= 0)) {
        if (clock_monotonic_usec() >= deadline_usec)
            return failure_set(&r->failure, -ETIMEDOUT, CODE_NO_DAEMON, "another thread is connecting");
        wait_for_reader(r, deadline_usec);
    }
    if (r->stands)
        return 0;
    r->reading = true;
    int error = wire_connect(r, credit, deadline_usec);
    r->reading = false;
    pthread_cond_broadcast(&r->changed);
    return error;
}
