/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.c: the scripted other end of peer.h.
 * Owns its listening socket, the accepted one, and what it has read.
 * Does not decide anything: tests say what is sent. */
#include "peer.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

/* Both ends are in one thread: where the socket is full, the client gets its turn. */
static void send_all(struct peer *peer, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = send(peer->fd, (const char *)data + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN && peer->client && wsd_client_process(peer->client) == 0)
            continue;
        if (n < 0 && (errno == EPIPE || (errno == EAGAIN && peer->client)))
            return; /* the client has closed, or takes no more */
        ck_assert_msg(n > 0, "send: %s", strerror(errno));
        at += (size_t)n;
    }
}

void peer_send_raw(struct peer *peer, const void *data, size_t size)
{
    send_all(peer, data, size);
}

void peer_send(struct peer *peer, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    uint8_t data[FRAME_MAX];
    size_t n = codec_encode(msg, tag, body_size, data, sizeof(data));

    ck_assert_uint_gt(n, 0);
    if (body_size)
        memcpy(data + n, body, body_size);
    send_all(peer, data, n + body_size);
}

void peer_send_empty(struct peer *peer, uint16_t type, uint32_t tag)
{
    peer_send(peer, &(struct msg){.type = type}, tag, NULL, 0);
}

static struct span span(const char *text)
{
    return (struct span){.data = text, .size = strlen(text)};
}

void peer_send_error(struct peer *peer, uint32_t tag, uint32_t code, const char *text)
{
    peer_send(peer, &(struct msg){.type = FRAME_ERROR, .error = {.code = code, .text = span(text)}}, tag, NULL, 0);
}

void peer_send_accepted(struct peer *peer, uint32_t tag)
{
    peer_send(peer, &(struct msg){.type = FRAME_ACCEPTED, .id = {.has_id = true, .id = {(uint8_t)tag, 1}}}, tag, NULL,
              0);
}

void peer_send_output(struct peer *peer, uint32_t tag, uint64_t offset, const void *data, size_t size)
{
    peer_send(peer, &(struct msg){.type = FRAME_OUTPUT, .chunk = {.offset = offset}}, tag, data, size);
}

void peer_send_done(struct peer *peer, uint32_t tag, uint32_t state, uint32_t exit, const char *error)
{
    struct msg msg = {.type = FRAME_DONE,
                      .job = {.id = {(uint8_t)tag, 1},
                              .plugin = span("fib"),
                              .function = span("fib"),
                              .error = span(error),
                              .status = span("more"),
                              .worker = span("1.0"),
                              .state = state,
                              .exit = exit,
                              .attempts = 1,
                              .run_usec = 42}};

    peer_send(peer, &msg, tag, NULL, 0);
}

void peer_close(struct peer *peer)
{
    peer->fd = close_fd(peer->fd);
}

/* One receive; false at the end of the stream. */
static bool receive(struct peer *peer)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    uint8_t *room = buffer_reserve(&peer->in, 65536);
    struct iovec iov = {.iov_base = room, .iov_len = 65536};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(peer->fd, &header, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

    if (c && c->cmsg_type == SCM_RIGHTS) {
        ck_assert_uint_lt(peer->n_fds, ARRAY_SIZE(peer->fds));
        memcpy(&peer->fds[peer->n_fds++], CMSG_DATA(c), sizeof(int));
    }
    if (n > 0)
        buffer_commit(&peer->in, (size_t)n);
    return n > 0;
}

/* Takes the next frame, if it is whole. */
static bool take(struct peer *peer)
{
    size_t size;

    buffer_drop(&peer->in, peer->used);
    peer->used = 0;
    if (buffer_size(&peer->in) == 0 ||
        frame_parse(buffer_data(&peer->in), buffer_size(&peer->in), &peer->frame, &size) != 0)
        return false;
    ck_assert_int_eq(codec_decode(peer->codec, &peer->frame, &peer->msg), 0);
    peer->used = size;
    peer->received_fd = close_fd(peer->received_fd);
    if ((peer->frame.type == FRAME_OPENED && peer->msg.opened.error == 0) ||
        (peer->frame.type == FRAME_SUBMIT &&
         (peer->msg.submit.input_from == INPUT_FILE || peer->msg.submit.input_from == INPUT_PIPE ||
          peer->msg.submit.output_to))) {
        ck_assert_uint_gt(peer->n_fds, 0); /* it comes with the first byte, so before the last */
        peer->received_fd = peer->fds[0];
        memmove(peer->fds, peer->fds + 1, --peer->n_fds * sizeof(peer->fds[0]));
    }
    return true;
}

void peer_expect(struct peer *peer, struct wsd_client *client, uint16_t type)
{
    uint64_t start = clock_monotonic_usec();
    struct pollfd poll_fd = {.fd = peer->fd, .events = POLLIN};

    while (!take(peer)) {
        ck_assert_msg(clock_monotonic_usec() - start < PEER_TIMEOUT_USEC, "no frame of type %u", type);
        if (client)
            wsd_client_process(client);
        if (poll(&poll_fd, 1, 10) > 0)
            ck_assert_msg(receive(peer), "end of the stream in place of a frame of type %u", type);
    }
    ck_assert_uint_eq(peer->frame.type, type);
}

bool peer_quiet(struct peer *peer, struct wsd_client *client)
{
    struct pollfd poll_fd = {.fd = peer->fd, .events = POLLIN};

    wsd_client_process(client);
    while (poll(&poll_fd, 1, 0) > 0 && receive(peer))
        ;
    return !take(peer);
}

static void greet(struct peer *peer)
{
    struct msg welcome = {
        .type = FRAME_WELCOME,
        .welcome = {.version = 1, .features = peer->features, .program = span("wsd 9.9"), .window = peer->window}};
    uint8_t data[128];
    size_t n;

    switch (peer->greeting) {
    case PEER_WELCOME:
        peer_send(peer, &welcome, 0, NULL, 0);
        break;
    case PEER_WELCOME_BYTEWISE:
        n = codec_encode(&welcome, 0, 0, data, sizeof(data));
        for (size_t i = 0; i < n; i++) {
            peer_send_raw(peer, data + i, 1);
            sched_yield();
        }
        break;
    case PEER_WRONG_VERSION:
        welcome.welcome.version = 2;
        peer_send(peer, &welcome, 0, NULL, 0);
        break;
    case PEER_REFUSE_VERSION:
        peer_send_error(peer, 0, 76, "wsd speaks 7 to 9");
        peer_close(peer);
        break;
    case PEER_REFUSE_BUSY:
        peer_send_error(peer, 0, 75, "too many connections");
        peer_close(peer);
        break;
    case PEER_GARBAGE:
        peer_send_raw(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
        break;
    case PEER_OTHER_HEADER:
        peer_send_raw(peer, "W\2xxxxxxxxxxxxxxxxx", 19);
        break;
    case PEER_WRONG_FRAME:
        peer_send_done(peer, 1, 5, 0, "");
        break;
    case PEER_CLOSE:
        peer_close(peer);
        break;
    case PEER_SILENCE:
        break;
    }
}

void peer_accept(struct peer *peer, struct wsd_client *client)
{
    for (struct pollfd p = {.fd = peer->listen_fd, .events = POLLIN}; client && poll(&p, 1, 1) == 0;)
        wsd_client_process(client);
    peer->fd = accept(peer->listen_fd, NULL, NULL);
    if (peer->fd < 0)
        return;
    peer_expect(peer, client, FRAME_HELLO);
    peer->hello = peer->msg;
    memcpy(peer->hello_directory, peer->msg.hello.directory.data, peer->msg.hello.directory.size + 1);
    memcpy(peer->hello_user, peer->msg.hello.user.data, peer->msg.hello.user.size + 1);
    greet(peer);
}

static void *greet_thread(void *data)
{
    peer_accept(data, NULL);
    return NULL;
}

void peer_init(struct peer *peer, enum peer_greeting greeting, uint32_t window)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *peer = (struct peer){.fd = -1, .greeting = greeting, .window = window, .received_fd = -1};
    snprintf(peer->directory, sizeof(peer->directory), "/tmp/wsd-peer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(peer->directory));
    snprintf(peer->path, sizeof(peer->path), "%s/wsd.sock", peer->directory);
    memcpy(address.sun_path, peer->path, sizeof(peer->path));
    peer->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(peer->listen_fd, 0);
    ck_assert_int_eq(bind(peer->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(peer->listen_fd, 8), 0);
    ck_assert_int_eq(codec_new(&peer->codec), 0);
}

void peer_deinit(struct peer *peer)
{
    peer_close(peer);
    close_fd(peer->listen_fd);
    close_fd(peer->received_fd);
    ck_assert_uint_eq(peer->n_fds, 0); /* each was announced */
    unlink(peer->path);
    rmdir(peer->directory);
    buffer_deinit(&peer->in);
    codec_free(peer->codec);
}

int peer_open(struct peer *peer, struct wsd_client **ret_client, uint64_t timeout_usec)
{
    int r;

    ck_assert_int_eq(pthread_create(&peer->thread, NULL, greet_thread, peer), 0);
    r = wsd_client_open(ret_client, peer->path, timeout_usec);
    pthread_join(peer->thread, NULL);
    peer->client = r == 0 ? *ret_client : NULL;
    return r;
}

void peer_start(struct peer *peer, struct wsd_client **ret_client, uint32_t window, uint64_t features)
{
    peer_init(peer, PEER_WELCOME, window);
    peer->features = features;
    ck_assert_int_eq(peer_open(peer, ret_client, 5000000), 0);
}

unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}
