/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos-noise.c: clients that send noise. Noise is random bytes, right frames with random contents, and damaged frames
 * (bits, bytes gone, doubled or new, lengths that lie). It is cut into pieces of any size, with descriptors where none
 * belong. A client vanishes after any byte, shuts down one half, or goes on without reading.
 *
 * Whatever was sent, the answers must be right. Their frames can be decoded. An ERROR about the connection has words,
 * and nothing comes after it. A connection on which nothing was damaged is never closed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "chaos.h"

struct span_of_life {
    size_t left; /* bytes until it vanishes */
    bool told;   /* wsd has said why it closes */
};

static struct {
    uint64_t connections, frames, damaged, random_bytes, sent, answers, errors, vanished;
} counts;

static struct span_of_life *life(struct conn *c)
{
    return c->state;
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

static struct span words(void)
{
    static const char *const some[] = {"echo", "", "/", "fib", "no such", "../../x", "\xff\xfe", "/dev/null", "stream"};
    const char *text = some[dice(sizeof(some) / sizeof(*some))];

    return (struct span){text, strlen(text)};
}

static uint64_t number(void)
{
    return dice(3) ? dice(5) : dice(2) ? dice(100000) : dice(UINT64_MAX);
}

/* Something of each kind that a client may send, and, seldom, that only wsd may. */
static struct msg any_message(void)
{
    struct msg m = {.type = (uint16_t)(dice(40) ? (dice(20) ? 1 + dice(FRAME_FORGET) : FRAME_DEAD) : dice(90))};

    switch (m.type) {
    case FRAME_HELLO:
        m.hello = (struct msg_hello){.version_min = 1, .version_max = 1, .window = (uint32_t)number()};
        break;
    case FRAME_SUBMIT:
        m.submit = (struct msg_submit){.plugin = dice(3) ? (struct span){"echo", 4} : words(),
                                       .function = dice(3) ? (struct span){"", 0} : words(),
                                       .args = {"a\0b", 4},
                                       .argc = 2,
                                       .timeout_usec = dice(2) ? 0 : 1 + dice(100000),
                                       .priority = (int32_t)dice(201) - 100,
                                       .flags = (uint32_t)dice(16),
                                       .key = dice(3) ? (struct span){"", 0} : words(),
                                       .retries = dice(4) ? 0 : (uint32_t)dice(3),
                                       .retry_usec = 1 + dice(1000)};
        break;
    case FRAME_INPUT:
        m.chunk = (struct msg_chunk){.offset = number(), .last = dice(2)};
        break;
    case FRAME_CREDIT:
        m.credit.bytes = number();
        break;
    case FRAME_CANCEL:
    case FRAME_AWAIT:
    case FRAME_STATUS:
        m.id.has_id = m.type != FRAME_CANCEL || dice(2);
        for (size_t i = 0; i < sizeof(m.id.id); i++)
            m.id.id[i] = (uint8_t)dice(256);
        break;
    case FRAME_PLUGINS:
        m.plugins.name = dice(3) ? (struct span){"echo", 4} : words();
        break;
    case FRAME_RELEASE:
        m.release = (struct msg_release){.name = {"echo", 4}, .function = words()};
        break;
    case FRAME_RELOAD:
        m.reload.name = dice(3) ? (struct span){"echo", 4} : (struct span){"no such", 7};
        break;
    case FRAME_GATE: /* never of what the innocent use */
        m.gate = (struct msg_gate){.action = 1 + (uint32_t)dice(5), .plugin = {"none", 4}, .limit = (uint32_t)number()};
        m.gate.action = m.gate.action == GATE_DRAIN ? GATE_LIST : m.gate.action;
        break;
    case FRAME_OPENED:
        m.opened = (struct msg_opened){.serial = (uint32_t)number(), .error = (uint32_t)dice(3)};
        break;
    case FRAME_DEAD:
        m.dead.action = 1 + (uint32_t)dice(3);
        m.dead.id.has_id = m.dead.action != DEAD_LIST;
        break;
    case FRAME_TRACE:
        m.trace.action = 1 + (uint32_t)dice(3);
        break;
    default:
        break;
    }
    return m;
}

static bool takes_body(const struct msg *m)
{
    return m->type == FRAME_SUBMIT || m->type == FRAME_INPUT || m->type == FRAME_PING;
}

static size_t damage(uint8_t *p, size_t n, size_t room)
{
    size_t at = (size_t)dice(n), k = 1 + (size_t)dice(dice(3) ? 4 : 64);

    switch (dice(6)) {
    case 0:
        p[at] ^= (uint8_t)(1u << dice(8));
        return n;
    case 1:
        p[at] = (uint8_t)dice(256);
        return n;
    case 2: /* in the fixed header: type, tag, lengths */
        p[dice(MIN(n, FRAME_HEADER_SIZE))] = (uint8_t)(dice(2) ? dice(256) : dice(3) - 1);
        return n;
    case 3: /* gone */
        k = MIN(k, n - at);
        memmove(p + at, p + at + k, n - at - k);
        return n - k;
    default: /* new, or doubled */
        k = MIN(MIN(k, n), room - n);
        memmove(p + at + k, p + at, n - at);
        for (size_t i = 0; i < k && dice(2); i++)
            p[at + i] = (uint8_t)dice(256);
        return n + k;
    }
}

static void put_frame(struct conn *c, const struct msg *m, uint32_t tag)
{
    size_t size = codec_room(m), body = takes_body(m) ? (size_t)dice(dice(4) ? 100 : 30000) : 0;
    uint8_t *p = c->out + c->out_size;

    if (!size || c->out_size + size + body + 64 > OUT_MAX)
        return;
    size = codec_encode(m, tag, body, p, size);
    if (!size)
        return;
    memset(p + size, 'x', body);
    size += body;
    counts.frames++;
    if (c->unruly && !dice(6)) {
        for (uint64_t n = 1 + dice(3); n > 0 && size > 0; n--)
            size = damage(p, size, OUT_MAX - c->out_size);
        counts.damaged++;
        if (size >= FRAME_HEADER_SIZE && (p[2] | p[3] << 8) == FRAME_GATE) /* frame.h: the type */
            return; /* it may say to pause everything, or to drain: that would be done */
    }
    c->out_size += size;
}

static void put_random(struct conn *c)
{
    size_t n = (size_t)dice(dice(4) ? 64 : 20000);

    n = MIN(n, OUT_MAX - c->out_size);
    for (size_t i = 0; i < n; i++)
        c->out[c->out_size++] = (uint8_t)dice(256);
    counts.random_bytes += n;
}

/* Right but for what only an unruly one does: such a connection wsd must not close. */
static void put_right(struct conn *c)
{
    static uint32_t tag = 1;
    struct msg m = {.type = dice(2) ? FRAME_PING : dice(2) ? FRAME_LIST : FRAME_STATS};

    put_frame(c, &m, tag);
    tag = tag % 1000000 + 1;
}

static void begin(struct conn *c)
{
    struct msg hello = {.type = FRAME_HELLO,
                        .hello = {.version_min = 1, .version_max = 1, .directory = {"/", 1}, .window = 65536}};

    counts.connections++;
    life(c)->left = (size_t)(dice(4) ? dice(dice(2) ? 200 : 5000) : 1000000);
    if (dice(10))
        put_frame(c, &hello, 0);
    else
        c->unruly = true;
    c->unruly = c->unruly || dice(5);
    c->deaf = c->unruly && !dice(8);
}

static void more(struct conn *c)
{
    struct msg m;

    if (!c->unruly) {
        put_right(c);
    } else if (dice(30)) {
        m = any_message();
        put_frame(c, &m, (uint32_t)(dice(10) ? dice(6) : number()));
    } else {
        put_random(c);
    }
}

/* --- the connection ----------------------------------------------------------------------------------------------- */

static ssize_t send_piece(struct conn *c, size_t n)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = c->out, .iov_len = n};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    static int null_fd = -1;
    size_t fds = c->unruly && !dice(50) ? 1 + (size_t)dice(3) : 0;

    if (null_fd < 0 && (null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
        fail("/dev/null: %s", strerror(errno));
    if (fds) {
        h.msg_control = &ancillary;
        h.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(fds * sizeof(int));
        for (size_t i = 0; i < fds; i++)
            memcpy(CMSG_DATA(&ancillary.header) + i * sizeof(int), &null_fd, sizeof(int));
    }
    return sendmsg(c->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void push(struct conn *c)
{
    size_t n = 1 + (size_t)dice(dice(2) ? 20 : dice(2) ? 2000 : OUT_MAX);
    ssize_t n_sent;

    n = MIN(n, MIN(c->out_size, life(c)->left));
    n_sent = n ? send_piece(c, n) : 0;
    if (n_sent < 0 && errno != EAGAIN && errno != EINTR && errno != ETOOMANYREFS) {
        c->out_size = 0; /* closed on us: what it said is read first */
        if (!c->unruly)
            fail("send: %s", strerror(errno));
        c->deaf = false;
        return;
    }
    if (n_sent > 0) {
        sent(c, (size_t)n_sent);
        life(c)->left -= (size_t)n_sent;
        counts.sent += (uint64_t)n_sent;
    }
    if (life(c)->left == 0) {
        counts.vanished++;
        if (dice(4) == 0 && shutdown(c->fd, SHUT_WR) == 0) { /* half: it still reads what comes */
            life(c)->left = SIZE_MAX;
            c->out_size = 0;
            c->unruly = true;
            c->deaf = false;
        } else {
            again(c);
        }
    }
}

static void turn(struct conn *c)
{
    if (c->out_size < FRAME_MAX && life(c)->left != SIZE_MAX && !life(c)->told)
        for (uint64_t n = dice(6); n; n--)
            more(c);
    push(c);
}

static void check(struct conn *c, const struct frame *f, const struct msg *m)
{
    if (life(c)->told)
        fail("%s behind the error that closes", codec_type_name(m->type));
    life(c)->told = m->type == FRAME_ERROR && f->tag == 0;
    if (life(c)->told && (!c->unruly || !m->error.text.size))
        fail("wsd closes: %s", m->error.text.data);
    counts.errors += m->type == FRAME_ERROR;
    counts.answers++;
}

static void print(void)
{
    printf("connections %llu frames %llu damaged %llu random bytes %llu sent %llu answers %llu errors %llu vanished "
           "%llu\n",
           (unsigned long long)counts.connections, (unsigned long long)counts.frames,
           (unsigned long long)counts.damaged, (unsigned long long)counts.random_bytes, (unsigned long long)counts.sent,
           (unsigned long long)counts.answers, (unsigned long long)counts.errors, (unsigned long long)counts.vanished);
}

const struct manner noise = {
    .state_size = sizeof(struct span_of_life), .begin = begin, .turn = turn, .check = check, .print = print};
