/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.h: a client's connection without the library, frame by frame. It is for programs that run one case and end at
 * the first failure.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/records.h"
#include "proto/frame.h"

#define WAIT_MSEC 20000

static const char *name; /* of the case */

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...)
{
    va_list args;

    printf("FAIL %s: ", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(1);
}

struct conn {
    int fd;
    uint8_t *in;
    size_t used, size, room; /* in[used..size) is not handled yet; room: of `in` */
    struct conn *others;     /* that are open: a leak checker is to find each at whichever end */
    struct codec *codec;
    struct frame frame; /* the last one */
    struct msg msg;
};

static struct conn *conns;
static const char *conn_where = "WSD_SOCKET"; /* the variable that has the path of the socket */

static inline void conn_send(struct conn *c, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = send(c->fd, bytes + at, n - at, MSG_NOSIGNAL);

        if (w < 0)
            fail("send: %s", strerror(errno));
        at += (size_t)w;
    }
}

/* Reads what has come, or waits for some. Returns false at the end of the stream. */
static inline bool conn_read(struct conn *c)
{
    memmove(c->in, c->in + c->used, c->size - c->used);
    c->size -= c->used;
    c->used = 0;
    if (c->size + FRAME_MAX > c->room) {
        c->room *= 2;
        c->in = realloc(c->in, c->room);
        if (!c->in)
            fail("no memory");
    }
    ssize_t n = recv(c->fd, c->in + c->size, c->room - c->size, 0);
    if (n > 0)
        c->size += (size_t)n;
    return n > 0;
}

/* The same as conn_send(), for many requests: where wsd reads no more before its answers are read, they are. */
static inline void conn_send_many(struct conn *c, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = send(c->fd, bytes + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLOUT};

        if (w < 0 && errno != EAGAIN)
            fail("send: %s", strerror(errno));
        at += w > 0 ? (size_t)w : 0;
        if (w < 0 && poll(&p, 1, WAIT_MSEC) <= 0)
            fail("wsd neither reads nor answers");
        if (w < 0 && (p.revents & POLLIN) && !conn_read(c))
            fail("wsd hung up");
    }
}

static inline void put(struct conn *c, const struct msg *m, uint32_t tag, const void *body, size_t body_size)
{
    uint8_t bytes[FRAME_MAX];
    size_t n = codec_encode(m, tag, body_size, bytes, sizeof(bytes));

    if (!n)
        fail("cannot encode a %s", codec_type_name(m->type));
    if (body_size)
        memcpy(bytes + n, body, body_size);
    conn_send(c, bytes, n + body_size);
}

/* So many items of an ARRAY, without arguments and input, CODEC_ITEM_SIZE each. */
static inline void empty_items(uint8_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        codec_put_item(&(struct msg_item){.argc = 0}, to + i * CODEC_ITEM_SIZE);
}

enum next { NEXT_FRAME, NEXT_LATE, NEXT_END };

/* The next frame, or that none came in time, or that the stream has ended. */
static inline enum next conn_next(struct conn *c, int msec)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        size_t used;
        int r = frame_parse(c->in + c->used, c->size - c->used, &c->frame, &used);

        if (r == 0) {
            c->used += used;
            if (codec_decode(c->codec, &c->frame, &c->msg) != 0)
                fail("wsd sent what cannot be decoded");
            return NEXT_FRAME;
        }
        if (r != FRAME_MORE)
            fail("wsd sent what is no frame");
        if (poll(&p, 1, msec) <= 0)
            return NEXT_LATE;
        if (!conn_read(c))
            return NEXT_END;
    }
}

/* A frame that is no farewell, or false where none comes in time. */
static inline bool next_in(struct conn *c, int msec)
{
    enum next r = conn_next(c, msec);

    if (r == NEXT_END)
        fail("wsd hung up");
    if (r == NEXT_FRAME && c->msg.type == FRAME_ERROR && c->frame.tag == 0)
        fail("wsd closes: %s", c->msg.error.text.data);
    return r == NEXT_FRAME;
}

static inline void next(struct conn *c)
{
    if (!next_in(c, WAIT_MSEC))
        fail("an answer does not come");
}

static inline void expect(struct conn *c, uint16_t type, uint32_t tag)
{
    next(c);
    if (c->msg.type != type || c->frame.tag != tag)
        fail("%s of tag %u came where %s of tag %u was expected%s%s", codec_type_name(c->msg.type), c->frame.tag,
             codec_type_name(type), tag, c->msg.type == FRAME_ERROR ? ": " : "",
             c->msg.type == FRAME_ERROR ? c->msg.error.text.data : "");
}

/* HELLO is said, and nothing was read. */
static inline struct conn *open_unread(uint32_t window, const char *directory, uint64_t features)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct conn *c = calloc(1, sizeof(*c));

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", getenv(conn_where));
    if (!c || !(c->in = malloc(4 * FRAME_MAX)) || codec_new(&c->codec) < 0)
        fail("no memory");
    c->room = 4 * FRAME_MAX;
    c->others = conns;
    conns = c;
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        fail("connect: %s", strerror(errno));
    put(c,
        &(struct msg){.type = FRAME_HELLO,
                      .hello = {.version_min = 1,
                                .version_max = 1,
                                .window = window,
                                .features = features,
                                .directory = {directory, strlen(directory)}}},
        0, NULL, 0);
    return c;
}

static inline struct conn *open_with(uint32_t window, const char *directory, uint64_t features)
{
    struct conn *c = open_unread(window, directory, features);

    expect(c, FRAME_WELCOME, 0);
    return c;
}

static inline struct conn *open_in(uint32_t window, const char *directory)
{
    return open_with(window, directory, 0);
}

static inline struct conn *open_conn(uint32_t window)
{
    return open_in(window, "/");
}

static inline void hang_up(struct conn *c)
{
    struct conn **at = &conns;

    while (*at != c)
        at = &(*at)->others;
    *at = c->others;
    close(c->fd);
    codec_free(c->codec);
    free(c->in);
    free(c);
}
