/* SPDX-License-Identifier: Apache-2.0
 *
 * connection.c: the connection: bytes in and out, which request a frame belongs to, and its end.
 * Owns the socket, both buffers, descriptors on their way out, and the table of open requests. One thread a handle.
 * Keeps: every open request is told exactly once that the connection is over. No descriptor that wsd sends stays open.
 * SIGPIPE never comes. Nothing that wsd sends is trusted before it is checked.
 * Does not know calls, nor what else has requests: it calls upwards through their ops only. */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/escape.h"
#include "config.h"
#include "text.h"

#define READ_SIZE  (128u * 1024u)
#define READ_MAX   16 /* receives before the caller gets its turn again */
#define BESIDE_MAX 4  /* the same for looks beside the socket */

/* --- what both sides know ----------------------------------------------------------------------------------------- */

static const struct {
    uint64_t feature;
    const char *lacks;
} lacks[] = {
    {FEATURE_STORE, "has no durable jobs, keys and retries"},
    {FEATURE_WHERE, "knows no filters: list all, and choose from that"},
    {FEATURE_ARRAY, "knows no batches"},
    {FEATURE_TIME, "has no delays, times in the queue and schedules"},
    {FEATURE_ORDER, "knows neither jobs that run after others nor tags"},
    {FEATURE_RUNNER, "knows no runners that jobs could wait for"},
    {FEATURE_FUNCTIONS, "does not count by function"},
    {FEATURE_PERSON, "notes no persons in its log"},
    {FEATURE_ACTIONS, "keeps no actions: its log has them"},
    {FEATURE_PROFILE, "has neither profiles nor stacks of running jobs"},
    {FEATURE_OUTPUT, "writes output to no descriptor: have it by the callback"},
    {FEATURE_LIMITS, "has no limits that can be shown or moved"},
    {FEATURE_LANE, "has no direct lanes: it is on another machine, or its kernel is older than Linux 5.16"},
};

int connection_wants(struct connection *c, uint64_t feature)
{
    const char *words = "is too old for that";

    if (c->features & feature)
        return 0;
    if (!c->welcomed || c->broken)
        return connection_ready(c);
    for (size_t i = 0; i < ARRAY_SIZE(lacks); i++)
        if (lacks[i].feature == feature)
            words = lacks[i].lacks;
    return failure_set(c->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s %s", c->daemon_version, words);
}

bool connection_takes_files(const struct connection *c)
{
    return c->features & FEATURE_PAYLOAD && !c->remote.tls;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

int connection_broken(struct connection *c)
{
    return failure_set(c->failure, c->broken, c->broken_exit, "%s", c->reason);
}

void connection_break(struct connection *c, int error, int exit, const char *format, ...)
{
    va_list args;

    if (c->broken)
        return;
    char text[sizeof(c->reason)];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(c->reason, sizeof(c->reason), text);
    c->broken = error;
    c->broken_exit = exit;
    connection_broken(c);
    connection_tell_end(c);
    connection_broken(c); /* callbacks may have had failures of their own */
}

void connection_tell_end(struct connection *c)
{
    while (c->broken && !list_empty(&c->open)) {
        struct request *request = container_of(c->open.next, struct request, open);

        request->ops->broken(c, request);
    }
}

void connection_break_protocol(struct connection *c, const char *what, uint16_t type)
{
    connection_break(c, c->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL, "wsd does not keep to the protocol: %s %s",
                     what, codec_type_name(type));
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct request *request_find(struct connection *c, uint32_t tag)
{
    struct hash_link *link = hash_first(&c->requests, hash_mix(tag));

    return link ? container_of(link, struct request, link) : NULL; /* the mix is one to one */
}

int request_open(struct connection *c, struct request *request)
{
    do
        c->next_tag++;
    while (c->next_tag == 0 || request_find(c, c->next_tag));
    request->tag = c->next_tag;
    if (hash_insert(&c->requests, &request->link, hash_mix(request->tag)) < 0)
        return -ENOMEM;
    request->listed = true;
    list_push_back(&c->open, &request->open);
    return 0;
}

void request_unlist(struct connection *c, struct request *request)
{
    if (request->listed)
        hash_remove(&c->requests, &request->link);
    request->listed = false;
}

void request_close(struct connection *c, struct request *request)
{
    request_unlist(c, request);
    list_remove(&request->open);
}

/* --- frames in ---------------------------------------------------------------------------------------------------- */

static void handle_welcome(struct connection *c, const struct msg_welcome *welcome)
{
    if (welcome->version < CONNECTION_VERSION_MIN || welcome->version > CONNECTION_VERSION_MAX) {
        connection_break(c, -EPROTONOSUPPORT, CODE_PROTOCOL, "wsd speaks protocol version %u, this library %u to %u",
                         welcome->version, CONNECTION_VERSION_MIN, CONNECTION_VERSION_MAX);
        return;
    }
    escape_text(c->daemon_version, sizeof(c->daemon_version), (const char *)welcome->program.data);
    if (*c->user && !(welcome->features & FEATURE_USER)) { /* it has taken the connection for the own user's */
        connection_break(c, -EOPNOTSUPP, CODE_PROTOCOL, "%.100s cannot act for another user: it is too old",
                         c->daemon_version);
        return;
    }
    c->welcomed = true;
    c->window = welcome->window;
    c->features = welcome->features & FEATURES_ALL;
}

/* Frames about the connection itself. */
static void handle_connection(struct connection *c, const struct msg *msg)
{
    if (msg->type == FRAME_WELCOME && !c->welcomed) {
        handle_welcome(c, &msg->welcome);
    } else if (msg->type == FRAME_ERROR) {
        int error = error_of_exit(msg->error.code), exit = exit_of_error(error);

        if (error == -EPROTO)
            error = -EPROTONOSUPPORT; /* in the handshake: nothing in common */
        connection_break(c, c->welcomed ? -ECONNRESET : error, exit, "%s",
                         msg->error.text.size ? msg->error.text.data : "wsd closed the connection");
    } else if (msg->type != FRAME_GOODBYE || !c->welcomed) {
        connection_break_protocol(c, "unexpected", msg->type);
    }
    c->leaving |= msg->type == FRAME_GOODBYE;
    /* GOODBYE: open calls end as ever, new ones are refused by wsd with its own words. */
}

static void handle_frame(struct connection *c, const struct frame *frame)
{
    struct request *request;
    struct msg msg;

    if (codec_decode(c->codec, frame, &msg) != 0) {
        connection_break(c, c->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL, "wsd does not keep to the protocol: %s",
                         codec_strerror(c->codec));
        return;
    }
    if (frame->tag == 0 || !c->welcomed) {
        handle_connection(c, &msg);
        return;
    }
    request = request_find(c, frame->tag);
    if (request)
        request->ops->frame(c, request, frame, &msg);
    else
        c->ops->stray(c, frame->tag, &msg);
}

/* We are inside a callback that still looks at a frame: leave its storage alone and go on with a copy of the rest. */
static int pin_storage(struct connection *c)
{
    struct pin *pin = malloc(sizeof(*pin));
    struct codec *codec = NULL;
    struct buffer rest = {0};

    if (!pin || codec_new(&codec) < 0 || buffer_put(&rest, c->in.data + c->in.start, buffer_size(&c->in)) < 0) {
        free(pin);
        codec_free(codec);
        buffer_deinit(&rest);
        connection_break(c, -ECONNRESET, CODE_IO, "out of memory");
        return c->broken;
    }
    *pin = (struct pin){.next = c->pins, .in = c->in, .codec = c->codec};
    c->pins = pin;
    c->in = rest;
    c->codec = codec;
    c->busy = false;
    return 0;
}

static void unpin(struct connection *c, struct pin *until)
{
    while (c->pins != until) {
        struct pin *pin = c->pins;

        c->pins = pin->next;
        buffer_deinit(&pin->in);
        codec_free(pin->codec);
        free(pin);
    }
}

void connection_tear(struct connection *c)
{
    c->busy = false;
    unpin(c, NULL);
    c->left = !c->broken && buffer_size(&c->in) > 0; /* at once: no event tells of whole frames there */
}

static void process_frames(struct connection *c)
{
    c->left = false;
    while (!c->broken && buffer_size(&c->in) > 0) {
        struct frame frame;
        size_t size = 0;
        int r = frame_parse(buffer_data(&c->in), buffer_size(&c->in), &frame, &size);

        if (r == FRAME_MORE)
            return;
        if (c->n_told >= c->stop_at) {
            c->left = true;
            return;
        }
        if (r == 0) {
            struct pin *mark = c->pins;

            /* Taken out first, so that a callback that processes the connection finds the next frame. The bytes stay in
             * place until the next receive, and that pins them. */
            buffer_drop(&c->in, size);
            c->busy = true;
            c->n_frames++;
            c->n_told++;
            handle_frame(c, &frame);
            c->busy = false;
            unpin(c, mark);
        } else if (r == FRAME_E_VERSION) {
            connection_break(c, c->welcomed ? -ECONNRESET : -EPROTONOSUPPORT, CODE_PROTOCOL, "wsd: %s",
                             frame_strerror(r));
        } else {
            connection_break(c, c->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL, "wsd: %s", frame_strerror(r));
        }
    }
}

/* --- bytes in ----------------------------------------------------------------------------------------------------- */

/* Those of a lane that was asked for. */
static void keep_received(struct connection *c, struct msghdr *header)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= cmsg->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(cmsg) + at, sizeof(fd));
            if (c->n_received < ARRAY_SIZE(c->received))
                c->received[c->n_received++] = fd;
            else
                close_fd(fd);
        }
    }
}

static ssize_t receive_with_fds(struct connection *c, void *room)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = room, .iov_len = READ_SIZE};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(c->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n > 0)
        keep_received(c, &header);
    return n;
}

/* wsd has no descriptors for us but those of a lane; what comes all the same the kernel closes. */
static ssize_t receive_bytes(struct connection *c, void *room)
{
    if (c->remote.tls)
        return c->remote.ops->recv(c->remote.tls, room, READ_SIZE);
    return c->awaits_fds ? receive_with_fds(c, room) : recv(c->fd, room, READ_SIZE, MSG_DONTWAIT);
}

/* One receive. Returns the bytes, 0 where there are none now; breaks the connection at its end. */
static size_t receive_once(struct connection *c)
{
    uint8_t *room = buffer_reserve(&c->in, READ_SIZE);
    ssize_t n;

    if (!room) {
        connection_break(c, -ECONNRESET, CODE_IO, "out of memory");
        return 0;
    }
    n = receive_bytes(c, room);
    if (n > 0) {
        buffer_commit(&c->in, (size_t)n);
        return (size_t)n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !c->send_failed)
        return 0;
    if (n < 0 && c->remote.tls && (errno == EACCES || errno == EPROTO))
        connection_break(c, c->welcomed ? -ECONNRESET : -errno, errno == EACCES ? CODE_DENIED : CODE_PROTOCOL,
                         "connection to wsd: %s", c->remote.ops->error(c->remote.tls));
    else if (n < 0 && errno != EAGAIN && errno != ECONNRESET && errno != EINTR)
        connection_break(c, -ECONNRESET, CODE_NO_DAEMON, "connection to wsd: %s", strerror(errno));
    else
        connection_break(c, -ECONNRESET, CODE_NO_DAEMON, "wsd closed the connection");
    return 0;
}

/* For a call inside a callback: first handles the frames that were received together with the callback's own, since no
 * event would report them. Returns whether there were any. */
static bool process_rest(struct connection *c)
{
    uint64_t before = c->n_frames;

    if (!c->busy)
        return false;
    if (pin_storage(c) == 0)
        process_frames(c);
    return c->broken || c->n_frames != before;
}

static void receive(struct connection *c)
{
    if (c->connecting) /* what comes before TLS is for no reader here, and its errors are connection_advance()'s */
        return;
    if (c->left && !c->busy) /* before the end of the stream is seen */
        process_frames(c);
    for (int i = 0; i < READ_MAX && !c->broken && !c->left; i++) {
        size_t n;

        if (c->busy && pin_storage(c) < 0)
            return;
        n = receive_once(c);
        process_frames(c);
        if (n < READ_SIZE)
            return;
    }
}

/* --- bytes out ---------------------------------------------------------------------------------------------------- */

int connection_not_yet(struct connection *c)
{
    return failure_set(c->failure, -EAGAIN, CODE_NO_DAEMON, "wsd is not connected yet: process the connection first");
}

int connection_failed(struct connection *c, int error)
{
    if (!c->broken && !c->welcomed && error == -EAGAIN)
        return connection_not_yet(c);
    return c->broken ? failure_set(c->failure, -ECONNRESET, c->broken_exit, "%s", c->reason)
                     : failure_set(c->failure, error, exit_of_error(error), "%s", strerror(-error));
}

int connection_ready(struct connection *c)
{
    return c->broken || !c->welcomed ? connection_failed(c, c->broken ? c->broken : -EAGAIN) : 0;
}

int connection_send(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    int r = list_empty(&c->gathered) ? 0 : c->ops->gathered(c);

    return r < 0 ? r : connection_put(c, msg, tag, body, body_size);
}

int connection_put(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    size_t size = codec_room(msg);
    uint8_t *room;

    if (c->broken)
        return c->broken;
    if (!c->welcomed && msg->type != FRAME_HELLO)
        return -EAGAIN; /* it is unknown what wsd knows */
    room = buffer_reserve(&c->out, size + body_size);
    if (!room)
        return -ENOMEM;
    size = codec_encode(msg, tag, body_size, room, size);
    if (size == 0)
        return -EINVAL;
    if (body_size > 0)
        memcpy(room + size, body, body_size);
    buffer_commit(&c->out, size + body_size);
    return 0;
}

/* The first n. */
static void drop_opened(struct connection *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close_fd(c->opened[i].fd);
    c->n_opened -= n;
    memmove(c->opened, c->opened + n, c->n_opened * sizeof(c->opened[0]));
}

/* How many of opened go with the frame that is sent next. */
static size_t due_fds(const struct connection *c)
{
    size_t n = 0;

    while (n < c->n_opened && n < FRAME_FDS && c->opened[n].at == c->sent)
        n++;
    return n;
}

/* With the first n of opened. */
static ssize_t send_with_fds(struct connection *c, const void *data, size_t size, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(FRAME_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
    ssize_t n;

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    for (size_t i = 0; i < n_fds; i++)
        memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &c->opened[i].fd, sizeof(int));
    n = sendmsg(c->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        drop_opened(c, n_fds);
    return n;
}

/* One send: up to the frame of the next descriptors, or beginning with it and up to the one after. */
static ssize_t send_once(struct connection *c)
{
    const uint8_t *data = buffer_data(&c->out);
    size_t size = buffer_size(&c->out), next = due_fds(c);

    if (c->remote.tls)
        return c->remote.ops->send(c->remote.tls, data, size);
    if (next < c->n_opened)
        size = MIN(size, (size_t)(c->opened[next].at - c->sent));
    return next ? send_with_fds(c, data, size, next) : send(c->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void flush_out(struct connection *c)
{
    while (!c->broken && !c->send_failed && buffer_size(&c->out) > 0) {
        ssize_t n = send_once(c);

        if (n > 0) {
            c->sent += (uint64_t)n;
            buffer_drop(&c->out, (size_t)n);
        } else if (errno == EAGAIN || errno == ETOOMANYREFS) {
            return; /* ETOOMANYREFS: descriptors in flight; they get fewer */
        } else if (errno != EINTR) {
            /* wsd may have said why before it closed: that is read first, and its end ends the connection. */
            c->send_failed = true;
        }
    }
    if (buffer_size(&c->out) == 0)
        c->n_answers = 0;
}

int connection_send_fds(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size,
                        const int *fds, size_t n)
{
    if (c->n_opened + n > OPENED_MAX)
        flush_out(c);
    int r = c->n_opened + n > OPENED_MAX ? -EAGAIN : c->ops->gathered(c);
    uint64_t at = c->sent + buffer_size(&c->out);

    r = r < 0 ? r : connection_put(c, msg, tag, body, body_size);
    for (size_t i = 0; i < n; i++)
        if (r < 0)
            close_fd(fds[i]);
        else
            c->opened[c->n_opened++] = (struct opened){.at = at, .fd = fds[i]};
    return r;
}

int connection_send_fd(struct connection *c, const struct msg *msg, uint32_t tag, int fd)
{
    return connection_send_fds(c, msg, tag, NULL, 0, &fd, 1);
}

void connection_send_early(struct connection *c)
{
    c->ops->gathered(c); /* if either fails, the next turn repeats it, and reports it */
    flush_out(c);
}

static void flush_and_pump(struct connection *c)
{
    for (;;) {
        flush_out(c);
        if (buffer_size(&c->out) > 0)
            return;          /* the socket is full */
        c->ops->gathered(c); /* no memory now: the next turn repeats it */
        c->ops->room(c);
        if (buffer_size(&c->out) == 0)
            return;
    }
}

/* --- what is waited for ------------------------------------------------------------------------------------------- */

static int watch_in_epoll(struct connection *c, int op, int fd, short events)
{
    /* EPOLLIN and EPOLLOUT are POLLIN and POLLOUT */
    struct epoll_event e = {.events = (uint32_t)events, .data.fd = fd};

    return epoll_ctl(c->epoll_fd, op, fd, &e) < 0 ? -errno : 0;
}

int connection_widen(struct connection *c)
{
    if (c->epoll_fd >= 0)
        return 0;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll_fd < 0)
        return -errno;
    c->in_epoll = POLLIN;
    int r = watch_in_epoll(c, EPOLL_CTL_ADD, c->fd, c->in_epoll);
    if (r == 0 && c->notice_fd >= 0)
        r = watch_in_epoll(c, EPOLL_CTL_ADD, c->notice_fd, POLLIN);
    if (r < 0)
        c->epoll_fd = close_fd(c->epoll_fd);
    return r;
}

void connection_set_notice(struct connection *c, int fd)
{
    if (c->notice_fd >= 0 && c->epoll_fd >= 0)
        watch_in_epoll(c, EPOLL_CTL_DEL, c->notice_fd, 0);
    close_fd(c->notice_fd);
    c->notice_fd = fd;
    if (fd >= 0 && c->epoll_fd >= 0 && watch_in_epoll(c, EPOLL_CTL_ADD, fd, POLLIN) < 0)
        c->notice_fd = close_fd(fd);
}

void connection_narrow(struct connection *c)
{
    c->notice_fd = close_fd(c->notice_fd);
    c->epoll_fd = close_fd(c->epoll_fd);
}

int connection_fd(const struct connection *c)
{
    return c->epoll_fd >= 0 ? c->epoll_fd : c->fd;
}

/* --- the event loop's calls --------------------------------------------------------------------------------------- */

static short socket_events(const struct connection *c)
{
    const struct tls_ops *ops = c->remote.tls ? c->remote.ops : NULL;
    bool shakes = ops && !ops->established(c->remote.tls); /* recv() goes on with that: the socket could be written */
    bool writes = ((buffer_size(&c->out) > 0 || !list_empty(&c->gathered)) && !c->send_failed && !shakes) ||
                  (ops && ops->recv_waits_to_write(c->remote.tls));

    return (short)(c->connecting ? POLLOUT : POLLIN | (writes ? POLLOUT : 0));
}

short connection_events(struct connection *c)
{
    short events = socket_events(c);

    if (c->epoll_fd < 0)
        return events;
    if (events != c->in_epoll && watch_in_epoll(c, EPOLL_CTL_MOD, c->fd, events) == 0)
        c->in_epoll = events;
    return POLLIN;
}

/* What has come beside the socket, and what its callbacks want sent. */
static void look_beside(struct connection *c)
{
    for (int i = 0; i < BESIDE_MAX && !c->broken && c->ops->beside(c); i++)
        flush_and_pump(c);
}

static void mend(struct connection *c)
{
    if (c->ops->mend)
        c->ops->mend(c);
}

static int process(struct connection *c, uint64_t stop_at)
{
    uint64_t outer = c->stop_at; /* of the call that has made this callback */

    c->stop_at = stop_at;
    mend(c);
    if (!c->broken) {
        flush_and_pump(c);
        if (c->beside_first)
            look_beside(c);
        receive(c);
        flush_and_pump(c);
        c->beside_first = c->n_told >= c->stop_at;
        look_beside(c);
        if (c->send_failed && !c->broken)
            receive(c);
        connection_reap(c);
    }
    c->stop_at = outer;
    return c->broken ? connection_broken(c) : 0;
}

int connection_process(struct connection *c)
{
    return process(c, UINT64_MAX);
}

bool connection_has_more(const struct connection *c)
{
    return c->left || (c->remote.tls && c->remote.ops->pending(c->remote.tls));
}

int connection_process_some(struct connection *c, uint64_t max)
{
    int r = process(c, max > UINT64_MAX - c->n_told ? UINT64_MAX : c->n_told + max);

    return r < 0 ? r : connection_has_more(c);
}

int connection_flush(struct connection *c)
{
    if (!c->broken) {
        flush_and_pump(c); /* where it fails, the descriptor is readable */
        connection_reap(c);
    }
    return c->broken ? connection_broken(c) : 0;
}

uint64_t connection_answer_deadline(const struct connection *c)
{
    return deadline_in(c->waiting.deadline_usec ? c->waiting.deadline_usec : ANSWER_TIMEOUT_USEC);
}

int connection_given_up(struct connection *c, int error)
{
    return failure_set(c->failure, error, exit_of_error(error), "%s",
                       error == -EINTR ? "the program has ended the wait" : "no answer from wsd in time");
}

/* What a wait of our own looks at: each descriptor by itself, not the epoll that holds both, so that what is not ready
 * is not read in vain. A notice_fd of -1 is passed over by ppoll(). */
enum { SOCKET, NOTICE, N_POLLED };

/* Waits for events, until there is a reason to ask the program or the deadline has passed. Returns what ppoll() does;
 * *ret_over: the deadline has passed. */
static int await_some(struct connection *c, uint64_t deadline_usec, struct pollfd p[static N_POLLED], bool *ret_over)
{
    struct timespec timeout = {0};
    uint64_t now = 0, until = UINT64_MAX, left;

    if (deadline_usec != UINT64_MAX || c->waiting.interrupted) {
        now = clock_monotonic_usec();
        until = waiting_look(&c->waiting, now, deadline_usec);
    }
    left = until > now ? until - now : 0;
    timeout = (struct timespec){.tv_sec = (time_t)(left / 1000000u), .tv_nsec = (long)(left % 1000000u) * 1000};
    *ret_over = until == deadline_usec;
    return ppoll(p, N_POLLED, until == UINT64_MAX ? NULL : &timeout, NULL);
}

/* Waits for events. 1: there are some; 0: a signal came; or a negative errno, said. */
static int await_events(struct connection *c, uint64_t deadline_usec, struct pollfd p[static N_POLLED])
{
    for (;;) {
        bool over;
        int r = waiting_interrupted(&c->waiting) ? -EINTR : await_some(c, deadline_usec, p, &over);

        if (r > 0)
            return 1;
        if (r == -EINTR || (r == 0 && over))
            return connection_given_up(c, r == 0 ? -ETIMEDOUT : -EINTR);
        if (r < 0 && errno != EINTR)
            return failure_set(c->failure, -errno, CODE_IO, "poll: %s", strerror(errno));
        if (r < 0)
            return waiting_interrupted(&c->waiting) ? connection_given_up(c, -EINTR) : 0;
    }
}

static int step(struct connection *c, uint64_t deadline_usec)
{
    struct pollfd polled[N_POLLED];
    int r;

    mend(c);
    if (c->broken)
        return connection_broken(c);
    if (c->left && !c->busy) {
        process_frames(c);
        return c->broken ? connection_broken(c) : 0;
    }
    if (process_rest(c))
        return c->broken ? connection_broken(c) : 0;
    flush_and_pump(c);
    if (!c->broken && c->ops->beside(c)) {
        flush_and_pump(c);
        connection_reap(c);
        return c->broken ? connection_broken(c) : 0;
    }
    polled[SOCKET] = (struct pollfd){.fd = c->fd, .events = socket_events(c)};
    polled[NOTICE] = (struct pollfd){.fd = c->notice_fd, .events = POLLIN};
    if (connection_has_more(c)) {
        polled[SOCKET].revents = POLLIN;
    } else {
        uint64_t due = c->ops->beside_due(c);
        r = await_events(c, MIN(deadline_usec, due), polled);
        if (r <= 0)
            return r == -ETIMEDOUT && due < deadline_usec ? 0 : r;
    }
    if (polled[SOCKET].revents & ~POLLOUT || (c->remote.tls && c->remote.ops->recv_waits_to_write(c->remote.tls)))
        receive(c);
    flush_and_pump(c);
    if (c->send_failed)
        receive(c);
    connection_reap(c);
    return c->broken ? connection_broken(c) : 0;
}

int connection_step(struct connection *c, uint64_t deadline_usec)
{
    uint64_t outer = c->stop_at; /* of the call that has made this callback: what is waited for may be behind that */

    c->stop_at = UINT64_MAX;
    int r = step(c, deadline_usec);
    c->stop_at = outer;
    return r;
}

int connection_await(struct connection *c, const uint64_t *deadline_usec, bool (*over)(const void *arg),
                     const void *arg)
{
    int r = 0;

    while (r == 0 && !over(arg)) {
        r = c->ops->step ? c->ops->step(c, *deadline_usec) : connection_step(c, *deadline_usec);
        if (r == 0 && *deadline_usec != UINT64_MAX && clock_monotonic_usec() > *deadline_usec && !over(arg))
            r = connection_given_up(c, -ETIMEDOUT);
    }
    return r;
}

void connection_reap(struct connection *c)
{
    if (connection_is_idle(c) && !c->n_waits)
        c->ops->reap(c);
}

/* --- beginning and end -------------------------------------------------------------------------------------------- */

/* No half-open one is ever used. */
void connection_fail(struct connection *c, int error)
{
    c->broken = error == -EINTR ? -ECONNRESET : error; /* later calls are not interrupted: there is no connection */
    c->broken_exit = c->failure->exit;
    memcpy(c->reason, c->failure->text, sizeof(c->reason));
}

/* What is of the handle stays. */
static void disconnect(struct connection *c)
{
    if (c->ops->closing)
        c->ops->closing(c);
    c->ops->gone(c);
    while (c->n_received > 0)
        close_fd(c->received[--c->n_received]);
    while (c->n_opened > 0)
        drop_opened(c, 1);
    unpin(c, NULL);
    buffer_deinit(&c->in);
    buffer_deinit(&c->out);
    remote_disconnect(&c->remote);
    connection_set_notice(c, -1);
    c->epoll_fd = close_fd(c->epoll_fd);
    c->directory_fd = close_fd(c->directory_fd);
    c->fd = close_fd(c->fd);
}

void connection_reset(struct connection *c)
{
    disconnect(c);
    c->n_lost++;
    c->connecting = c->welcomed = c->send_failed = c->leaving = false;
    c->broken = 0;
    c->left = false;
    c->sent = c->features = 0;
    c->n_answers = 0;
}

int connection_init(struct connection *c, const struct connection_ops *ops, struct failure *failure)
{
    c->ops = ops;
    c->failure = failure;
    c->fd = c->directory_fd = c->notice_fd = c->epoll_fd = -1;
    c->stop_at = UINT64_MAX;
    list_init(&c->open);
    list_init(&c->gathered);
    return codec_new(&c->codec);
}

void connection_close(struct connection *c)
{
    if (!c->broken && c->welcomed) /* what was asked for last, such as a cancel */
        connection_send_early(c);
    connection_break(c, -ECONNRESET, CODE_NO_DAEMON, "the connection was closed");
    connection_tell_end(c); /* also where it had ended before: a callback of that may be where this is called */
}

void connection_forsake(struct connection *c)
{
    c->remote.tls = NULL; /* not freed: that would say goodbye to wsd */
    while (c->n_received > 0)
        close_fd(c->received[--c->n_received]);
    while (c->n_opened > 0)
        close_fd(c->opened[--c->n_opened].fd);
    connection_narrow(c);
    c->directory_fd = close_fd(c->directory_fd);
    c->fd = close_fd(c->fd);
}

void connection_deinit(struct connection *c)
{
    disconnect(c);
    remote_deinit(&c->remote);
    hash_deinit(&c->requests);
    codec_free(c->codec);
}
