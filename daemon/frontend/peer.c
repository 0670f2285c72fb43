/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.c: connections: bytes in, bytes out, backpressure.
 * Owns the connection's descriptor, both buffers and the descriptors that were received. [loop]
 * Keeps: a connection that breaks a rule, stands still or goes costs itself only. Nothing is read from a client that
 * does not read. A connection is freed only at the end of a turn. share.c decides when it is served.
 * Does not know what messages mean. */
#include "frontend/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/async-close.h"
#include "base/log.h"
#include "frontend/access.h"
#include "frontend/quota.h"

#define READ_SIZE   (PEER_IN_MAX - FRAME_MAX) /* at most, each time; */
#define READ_SHARED (16u * 1024u)             /* where another connection of its user waits */
#define SEND_SIZE   (256u * 1024u)            /* at most, each time */
/* What it costs, in units of share.h. */
#define COST_SYSCALL     1000u  /* a read or a write, with its event */
#define COST_BYTES       4u     /* bytes a unit, each time they are copied */
#define COST_ANSWER      100u   /* a frame to the client, beside its bytes */
#define COST_REFUSAL     2000u  /* the same, of a refusal: its words are put together */
#define COST_OPEN        15000u /* accepting a connection */
#define COST_CLOSE       10000u
#define COST_HANDSHAKE   500000u /* a message of it: a signature is made or checked */
#define COST_CERTIFICATE 900u    /* a byte of it: certificates are parsed, with their keys */
#define COST_REKEY       20000u  /* a message behind it, by which the client changes its key */
#define READ_REFUSED     4096u   /* at most, each time, from a connection that had too many refusals lately */
#define READ_ON          4096u   /* at most, from a client that waited for nothing but the answer it has just had */

/* Where its user leaves too much unread, a connection that does read still goes on, a frame at a time. */
bool peer_full(const struct peer *p)
{
    size_t size = buffer_size(&p->out);

    return p->closed || size >= FRONTEND_OUT_HIGH || (size && quota_unread(p));
}

static void take_spare(struct peer *p)
{
    if (p->out.data)
        return;
    p->out = p->frontend->spare;
    p->frontend->spare = (struct buffer){0};
}

static void leave_spare(struct peer *p)
{
    if (p->frontend->spare.data || p->out.room > FRONTEND_OUT_LOW)
        buffer_deinit(&p->out); /* a burst is over */
    else
        p->frontend->spare = p->out;
    p->out = (struct buffer){0};
}

void peer_send(struct peer *p, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    size_t size = codec_room(msg);

    if (p->closed)
        return;
    if (msg->type != FRAME_ENDS)
        p->frontend->ops->gathered(p); /* the client must not learn that a job is gone before it gets the job's end */
    take_spare(p);
    uint8_t *at = size && !p->failed ? buffer_reserve(&p->out, size + body_size) : NULL;

    share_mark(p);
    if (p->failed)
        return;
    size = at ? codec_encode(msg, tag, body_size, at, size) : 0;
    if (!size) { /* no memory: the client must not wait for what will not come */
        log_warning("cannot send to a client: it is disconnected");
        p->failed = true;
        return;
    }
    if (body_size)
        memcpy(at + size, body, body_size);
    share_charge(p, COST_ANSWER + (uint32_t)(size + body_size) / COST_BYTES);
    buffer_commit(&p->out, size + body_size);
    quota_output(p);
}

void peer_send_frames(struct peer *p, const void *data, size_t size)
{
    if (p->closed || p->failed || !size)
        return;
    p->frontend->ops->gathered(p);
    take_spare(p);
    share_mark(p);
    if (buffer_put(&p->out, data, size) < 0) {
        log_warning("cannot send to a client: it is disconnected");
        p->failed = true;
        return;
    }
    share_charge(p, COST_ANSWER + (uint32_t)size / COST_BYTES);
    quota_output(p);
}

/* Others may have put descriptors into a socket among them. */
static void close_sending(const struct peer *p, const struct peer_sending *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        async_close(s->fds[i], p->uid);
}

bool peer_send_fds(struct peer *p, const struct msg *msg, uint32_t tag, const int *fds, uint32_t n)
{
    struct peer_sending s = {.n = 0};

    if (p->failed || p->n_sending == PEER_SENDING)
        return false;
    for (; s.n < n; s.n++) {
        s.fds[s.n] = fcntl(fds[s.n], F_DUPFD_CLOEXEC, 0);
        if (s.fds[s.n] < 0) {
            close_sending(p, &s);
            return false;
        }
    }
    p->frontend->ops->gathered(p);
    s.at = p->sent + buffer_size(&p->out);
    p->sending[p->n_sending++] = s;
    peer_send(p, msg, tag, NULL, 0);
    return true;
}

static void drop_sending(struct peer *p)
{
    close_sending(p, &p->sending[0]);
    p->n_sending--;
    memmove(p->sending, p->sending + 1, p->n_sending * sizeof(p->sending[0]));
}

/* With the first of sending. */
static ssize_t send_with_fds(struct peer *p, const void *data, size_t size)
{
    union {
        char bytes[CMSG_SPACE(PEER_SENDING_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    size_t size_of_fds = p->sending[0].n * sizeof(int);
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(size_of_fds)};

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(size_of_fds);
    memcpy(CMSG_DATA(&control.align), p->sending[0].fds, size_of_fds);
    ssize_t n = far_end_send(p->far, &h);
    if (n > 0)
        drop_sending(p);
    return n;
}

/* One send: up to the frame of the next descriptors, or beginning with it and up to the one after. */
static ssize_t send_once(struct peer *p, size_t most)
{
    const uint8_t *data = buffer_data(&p->out);
    size_t size = MIN(buffer_size(&p->out), most);
    bool attach = p->n_sending && p->sending[0].at == p->sent;

    if (p->remote)
        return remote_send(p, data, size);
    if (p->n_sending > attach)
        size = MIN(size, (size_t)(p->sending[attach].at - p->sent));
    if (attach)
        return send_with_fds(p, data, size);
    struct iovec v = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    return far_end_send(p->far, &(struct msghdr){.msg_iov = &v, .msg_iovlen = 1});
}

void peer_refuse(struct peer *p, uint32_t tag, uint32_t code, const char *text, uint64_t retry_usec)
{
    struct msg m = {
        .type = FRAME_ERROR,
        .error = {.code = code, .text = {text, strnlen(text, CODEC_TEXT_MAX - 1)}, .retry_usec = retry_usec}};

    p->n_refused++;
    share_charge(p, COST_REFUSAL);
    peer_send(p, &m, tag, NULL, 0);
}

void peer_error(struct peer *p, uint32_t tag, uint32_t code, const char *text)
{
    peer_refuse(p, tag, code, text, 0);
}

/* A client of another machine has no user before its certificate was checked. */
static struct log_about about(const struct peer *p)
{
    return (struct log_about){.uid = p->remote && !p->remote->user ? NULL : &p->uid};
}

void peer_fail(struct peer *p, const char *format, ...)
{
    char text[CODEC_TEXT_MAX], pid[16] = "";
    va_list args;

    if (!p->remote)
        snprintf(pid, sizeof(pid), "%d", p->pid);
    if (p->failed)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const struct log_about who = about(p);
    log_event(LOG_KIND_CONNECTION, LOG_INFO, &who, "connection of uid %u %s%s is closed: %s", p->uid,
              p->remote ? p->remote->address : "pid ", pid, text);
    peer_error(p, 0, CODE_PROTOCOL, text);
    p->failed = true;
}

/* Then the kernel reports only what is new. */
static bool is_strange(const struct peer *p)
{
    return p->far && far_end_strange(p->far);
}

/* Adds an event. On failure the connection would stand for ever, so it is closed. */
static void add_event(struct peer *p, struct event *event, const struct timeval *timeout)
{
    if (event_add(event, timeout) == 0)
        return;
    log_warning("no memory to wait for a client: it is disconnected");
    p->failed = true;
    share_mark(p);
}

/* Handles what TLS has already read from the socket, since the socket does not report that. */
static void read_pending(struct peer *p)
{
    if (p->reading && !p->failed && p->remote->ops->pending(p->remote->tls))
        event_active(p->read_event, EV_READ, 0);
}

/* Asks the kernel, or does not. */
static void watch_socket(struct peer *p)
{
    bool on = p->reading && !p->parked;

    if (on == p->watched)
        return;
    p->watched = on;
    if (on)
        add_event(p, p->read_event, NULL);
    else
        event_del(p->read_event);
    if (p->remote)
        read_pending(p);
}

static void want_reading(struct peer *p, bool on)
{
    p->reading = on;
    watch_socket(p);
}

bool peer_sending(const struct peer *p)
{
    return buffer_size(&p->out) || (p->far && far_end_sending(p->far));
}

/* Writes what the socket takes, in this turn. */
static void send_some(struct peer *p)
{
    size_t most = p->failed ? SIZE_MAX : SEND_SIZE; /* the last words */

    if (p->far)
        far_end_go_on(p->far);

    while (buffer_size(&p->out) && most) {
        ssize_t n = send_once(p, most);

        if (n < 0 && errno == EINTR)
            continue;
        share_charge(p, COST_SYSCALL + (n > 0 ? (uint32_t)n / COST_BYTES : 0));
        if (n < 0 && errno != EAGAIN)
            p->failed = true;
        if (n < 0)
            break;
        p->sent += (size_t)n;
        most -= (size_t)n;
        buffer_drop(&p->out, (size_t)n);
    }
}

/* Writes what there is, unless it waits for the socket already; then what waited for room goes on. */
void peer_flush(struct peer *p)
{
    p->frontend->ops->gathered(p);
    if (!p->blocked || p->failed)
        send_some(p);
    quota_output(p);
    if (p->failed)
        return;
    if (!buffer_size(&p->out)) {
        leave_spare(p);
    } else if (!p->blocked) {
        p->blocked = true;
        if (!p->far || !far_end_sending(p->far) || !far_end_wait(p->far)) /* else on_far_end_ready() comes */
            add_event(p, p->write_event, NULL);
    }
    bool low = buffer_size(&p->out) <= FRONTEND_OUT_LOW;
    if (low)
        p->frontend->ops->room(p);
    if (peer_full(p) || !list_empty(&p->paused) || p->looks || (p->held && !low))
        want_reading(p, false);
    else if (low)
        want_reading(p, true);
    if (p->reading && (p->held || (p->readable && is_strange(p))))
        share_want(p);
}

/* The thread of its user is through with the socket. */
static void on_far_end_ready(void *context)
{
    struct peer *p = context;

    p->readable = true; /* perhaps */
    if (far_end_full(p->far))
        add_event(p, p->write_event, NULL);
    else
        p->writable = true;
    share_want(p);
}

static void on_writable(evutil_socket_t fd, short what, void *userdata)
{
    struct peer *p = userdata;

    p->writable = true;
    share_want(p);
    if (p->remote && p->reading && p->remote->ops->recv_waits_to_write(p->remote->tls))
        event_active(p->read_event, EV_READ, 0);
}

static void half_is_late(evutil_socket_t fd, short what, void *userdata)
{
    struct peer *p = userdata;

    p->timed = false;
    share_mark(p);
    if (p->remote && !p->remote->user) {
        log_event(LOG_KIND_CONNECTION, LOG_INFO, NULL,
                  "connection of %s is closed: no handshake in time (handshake-timeout in wsd.conf)",
                  p->remote->address);
        p->failed = true;
        return;
    }
    peer_fail(p, p->greeted ? "half a frame, and the rest did not come in time"
                 : p->looks ? "the user database did not say in time who its user is: try again when `getent` answers"
                            : "no HELLO in time");
}

static void half_watch(struct peer *p, bool on)
{
    const struct frontend_limits *l = &p->frontend->options.limits;
    uint64_t usec = p->remote && !p->remote->user ? l->handshake_usec : l->frame_usec;
    struct timeval t = {.tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

    if (p->timed == on)
        return;
    p->timed = on;
    if (on)
        add_event(p, p->half_timer, &t);
    else
        evtimer_del(p->half_timer);
}

/* Takes the descriptors that came with the bytes. They belong to the frames that mention them, in order. */
static void take_fds(struct peer *p, struct msghdr *h)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (p->n_fds < PEER_FDS && (p->n_fds < p->n_opens || p->features & FEATURE_PAYLOAD)) {
                p->fds[p->n_fds++] = fd;
            } else {
                async_close(fd, p->uid);
                peer_fail(p, "a descriptor that nobody asked for");
            }
        }
    }
    if (h->msg_flags & MSG_CTRUNC)
        peer_fail(p, "descriptors that could not be received");
}

int peer_take_fd(struct peer *p)
{
    int fd = p->n_fds ? p->fds[0] : -1;

    if (p->n_fds)
        memmove(p->fds, p->fds + 1, --p->n_fds * sizeof(p->fds[0]));
    return fd;
}

/* Handles complete frames, and returns how many bytes they had. The rest is half a frame, or it is held. It is held
 * where an answer filled the output (a small question can have a large answer), or where the user's share is spent.
 * That may be in the middle of a frame that asks for much. */
static size_t handle(struct peer *p, const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t used, done = 0;

    p->held = false;
    while (done < size && !p->failed) {
        p->held = peer_full(p) || share_spent(p) || p->looks;
        if (p->held)
            break;
        int r = frame_parse(data + done, size - done, &frame, &used);

        if (r == FRAME_MORE)
            break;
        if (r != 0) {
            peer_fail(p, "%s", frame_strerror(r));
            break;
        }
        if (!p->begun) {
            share_charge(p, p->frontend->ops->cost(frame.type) + (uint32_t)used / COST_BYTES);
            if (p->frontend->ops->asks(frame.type))
                share_ask(p, p->frontend->ops->cost(frame.type));
        }
        p->begun = !p->frontend->ops->request(p, &frame);
        half_watch(p, false); /* the time is that of one frame, however many a busy client has under way */
        done += p->begun ? 0 : used;
    }
    return done;
}

/* What is left is in `in`. */
static void handled(struct peer *p)
{
    size_t size = buffer_size(&p->in);

    /* they come with the first byte of their frame, so only one that has begun may still own some */
    if (!p->failed && !p->held && p->n_fds > (size > 0 ? PEER_FRAME_FDS : 0))
        peer_fail(p, "a descriptor that its frame does not speak of");
    half_watch(p, (size && !p->held) || !p->greeted);
}

/* Goes on with the frames that were held back. */
static void resume(struct peer *p)
{
    buffer_drop(&p->in, handle(p, buffer_data(&p->in), buffer_size(&p->in)));
    size_t size = buffer_size(&p->in);

    if (!p->held && p->in.room > FRAME_MAX) { /* a connection keeps only half frames */
        memcpy(p->frontend->scratch, buffer_data(&p->in), size);
        buffer_deinit(&p->in);
        if (buffer_put(&p->in, p->frontend->scratch, size) < 0)
            p->failed = true;
    } else if (!size) {
        buffer_deinit(&p->in);
    }
    handled(p);
}

/* Bytes of a local client, and descriptors with them. */
static ssize_t receive(struct peer *p, uint8_t *to, size_t size)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * PEER_FDS_AT_ONCE)];
        struct cmsghdr align;
    } control;
    struct iovec v = {.iov_base = to, .iov_len = size};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n = far_end_receive(p->far, &h);

    if (n > 0)
        take_fds(p, &h);
    return n;
}

static void log_refusal(const struct peer *p, const char *why)
{
    const struct log_about who = about(p);

    if (p->remote)
        log_event(LOG_KIND_CONNECTION, LOG_INFO, &who, "connection of %s, %s, is refused: %s", p->remote->address,
                  *p->remote->name ? p->remote->name : "whose certificate has no name of printable text", why);
    else
        log_event(LOG_KIND_CONNECTION, LOG_INFO, &who, "connection of uid %u pid %d is refused: %s", p->uid, p->pid,
                  why);
}

void peer_reject(struct peer *p, uint32_t code, const char *why)
{
    log_refusal(p, why);
    peer_error(p, 0, code, why);
    p->failed = true;
}

int peer_admit(struct peer *p)
{
    const char *refusal = access_connect(p);

    if (refusal) {
        peer_reject(p, CODE_DENIED, refusal);
        return 0;
    }
    int r = quota_take(p, &refusal);
    if (r < 0)
        return r;
    if (refusal) {
        log_debug("uid %u pid %d: %s", p->uid, p->pid, refusal);
        peer_error(p, 0, CODE_BUSY, refusal);
        p->failed = true;
    }
    return 0;
}

/* Its handshake is over. */
static int admit_remote(struct peer *p)
{
    const char *refusal = remote_identify(p);

    if (!refusal)
        return peer_admit(p);
    peer_reject(p, CODE_DENIED, refusal);
    return 0;
}

/* What TLS has done, whether or not there are bytes for us. */
static void charge_tls(struct peer *p)
{
    struct tls_work w = p->remote->ops->work(p->remote->tls);

    if (w.handshakes)
        handshake_heard(&p->frontend->handshakes, &p->remote->handshake);
    share_charge(p, w.reads * COST_SYSCALL + (p->remote->user
                                                  ? w.handshakes * COST_REKEY
                                                  : w.handshakes * COST_HANDSHAKE + w.bytes * COST_CERTIFICATE));
}

/* Reads from a client of another machine, once it is authenticated. */
static ssize_t receive_remote(struct peer *p, uint8_t *to, size_t size)
{
    ssize_t n = remote_recv(p, to, size);

    charge_tls(p);
    if (!p->remote->user && p->remote->ops->established(p->remote->tls)) {
        half_watch(p, false); /* from here on it is that of HELLO */
        if (admit_remote(p) < 0)
            p->failed = true;
        half_watch(p, true);
    }
    if (p->remote->ops->recv_waits_to_write(p->remote->tls))
        add_event(p, p->write_event, NULL);
    if (n > 0 && !p->failed && remote_expired(p))
        peer_fail(p, "the certificate %s has expired", p->remote->name);
    return n;
}

/* False: there was nothing. */
static bool read_once(struct peer *p, size_t most)
{
    uint8_t *scratch = p->frontend->scratch;
    size_t half = buffer_size(&p->in);

    if (p->remote)
        share_mark(p);
    ssize_t n = p->remote ? receive_remote(p, scratch + half, most) : receive(p, scratch + half, most);
    if (p->failed)
        return true;
    share_charge(p, COST_SYSCALL);
    p->readable = is_strange(p) ? n > 0 : n == (ssize_t)most;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    share_mark(p);
    if (n <= 0) {
        share_charge(p, COST_CLOSE);
        p->drained = n == 0;
        p->failed = true;
        return true;
    }
    if (half)
        memcpy(scratch, buffer_data(&p->in), half);
    buffer_deinit(&p->in);
    size_t size = half + (size_t)n, done = handle(p, scratch, size);
    if (!p->failed && buffer_put(&p->in, scratch + done, size - done) < 0)
        p->failed = true;
    handled(p);
    if (p->remote)
        read_pending(p);
    return true;
}

/* False: its requests wait for something else than their share. */
static bool may_go_on(const struct peer *p)
{
    return !p->failed && p->reading && !p->looks && list_empty(&p->paused) && !(p->held && peer_full(p));
}

static void serve_requests(struct peer *p)
{
    if (p->held)
        resume(p);
    else if (p->readable)
        (void)read_once(p, p->refused_usec ? READ_REFUSED : p->ready.next == p->ready.prev ? READ_SIZE : READ_SHARED);
    share_mark(p);
    refusals_count(p);
}

/* True: there is more. */
static bool serve_some(struct peer *p)
{
    if (p->failed)
        return false;
    if (p->writable) {
        p->writable = p->blocked = false;
        peer_flush(p);
        if (p->failed)
            share_mark(p);
    } else {
        p->frontend->ops->later(p);
        if (may_go_on(p))
            serve_requests(p);
    }
    return !p->failed && (!list_empty(&p->later) || (may_go_on(p) && (p->held || p->readable)));
}

bool peer_serve(struct peer *p)
{
    bool more = serve_some(p);

    if (!more) {
        share_drop(p);
        p->readable &= is_strange(p);
        p->parked = false;
        if (!p->failed)
            watch_socket(p);
    }
    return more;
}

bool peer_read_on(struct peer *p)
{
    share_alone(p);
    bool hit = read_once(p, READ_ON);
    refusals_count(p);
    p->readable = false; /* the kernel says it again */
    if (p->held)
        share_want(p);
    return hit;
}

static void on_readable(evutil_socket_t fd, short what, void *userdata)
{
    struct peer *p = userdata;

    p->parked = !list_empty(&p->ready) && !is_strange(p); /* it was there a turn ago, too */
    p->readable = true;
    watch_socket(p);
    share_want(p);
}

/* Asks the kernel which user the socket's client is. */
static int identify(struct peer *p)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);

    if (getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
        return -errno;
    p->uid = cred.uid;
    p->gid = cred.gid;
    p->pid = cred.pid;
    log_debug("connection of uid %u gid %u pid %d", p->uid, p->gid, p->pid);
    const struct frontend_options *o = &p->frontend->options;
    return far_end_new(&p->far, p->uid == 0 || p->uid == o->own_uid ? NULL : o->far_ends, p->uid, p->fd,
                       on_far_end_ready, p);
}

int peer_new(struct frontend *f, int fd, bool remote, struct peer **ret_peer)
{
    struct peer *p = calloc(1, sizeof(*p));

    if (!p) {
        close_fd(fd);
        return -ENOMEM;
    }
    p->frontend = f;
    p->fd = fd;
    p->number = f->next_peer++;
    list_init(&p->link);
    list_init(&p->dirty);
    list_init(&p->paused);
    list_init(&p->ready);
    p->share = &f->shares.strangers;
    list_init(&p->calls);
    list_init(&p->stalled);
    list_init(&p->later);
    list_init(&p->gathered);
    list_push_back(&f->peers, &p->link);
    f->n_peers++;
    int r = remote ? 0 : identify(p);
    short edge = is_strange(p) ? EV_ET : 0;
    p->read_event = event_new(f->options.base, fd, EV_READ | EV_PERSIST | edge, on_readable, p);
    p->write_event = event_new(f->options.base, fd, EV_WRITE | edge, on_writable, p);
    p->half_timer = evtimer_new(f->options.base, half_is_late, p);
    if (r == 0 && (!p->read_event || !p->write_event || !p->half_timer))
        r = -ENOMEM;
    if (r == 0)
        r = remote ? remote_open(p) : peer_admit(p);
    if (r < 0) {
        peer_free(p);
        return r;
    }
    share_charge(p, COST_OPEN);
    half_watch(p, true);
    if (!p->failed)
        want_reading(p, true);
    if (ret_peer)
        *ret_peer = p;
    return 0;
}

void peer_go_on(struct peer *p)
{
    p->looks = false;
    if (p->greeted)
        half_watch(p, false); /* of what is half there it begins anew */
    share_mark(p);
}

void peer_take_input(struct peer *p, const uint8_t *data, size_t size)
{
    share_mark(p);
    if (size > PEER_IN_MAX) {
        peer_fail(p, "more than is read at once, and not handled");
        return;
    }
    if (buffer_put(&p->in, data, size) < 0)
        p->failed = true;
    p->held = size > 0;
    half_watch(p, !p->greeted); /* the time is set anew where what it had read is handled */
}

/* Frees everything except the calls and the objects that count them. */
static void disconnect(struct peer *p)
{
    if (p->closed)
        return;
    p->failed = p->closed = true;
    list_remove(&p->link);
    share_unmark(p);
    list_remove(&p->paused);
    share_drop(p);
    list_push_back(&p->frontend->closing, &p->link);
    p->frontend->n_peers--;
    p->frontend->n_closing++;
    if (p->frontend->answered == p)
        p->frontend->answered = NULL;
    if (p->read_event)
        event_free(p->read_event);
    if (p->write_event)
        event_free(p->write_event);
    if (p->half_timer)
        event_free(p->half_timer);
    for (uint32_t i = 0; i < p->n_fds; i++)
        async_close(p->fds[i], p->uid);
    while (p->n_sending)
        drop_sending(p);
    bool remote = p->remote;
    remote_close(p);
    acting_forget(p);
    /* unread data may hold descriptors, which are closed with the socket */
    if (p->far)
        p->far = far_end_close(p->far, p->drained);
    else if (remote)
        close_fd(p->fd);
    else
        async_close(p->fd, p->uid);
    p->fd = -1;
    buffer_deinit(&p->in);
    buffer_deinit(&p->out);
    free(TAKE(p->person));
    quota_output(p);
}

static void bury(struct peer *p)
{
    list_remove(&p->link);
    p->frontend->n_closing--;
    quota_give_back(p);
    directory_unref(p->directory);
    acting_free(p->acting);
    free(p);
}

bool peer_close(struct peer *p, uint32_t *budget)
{
    disconnect(p);
    if (!p->frontend->ops->forget(p, budget))
        return false;
    bury(p);
    return true;
}

struct peer *peer_free(struct peer *p)
{
    uint32_t all = UINT32_MAX;

    while (p && !peer_close(p, &all))
        all = UINT32_MAX;
    return NULL;
}
