/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos.c: many connections to wsd with random traffic: valid frames in any order (chaos-valid.c), or noise
 * (chaos-noise.c). Each answer is checked, whatever was sent.
 *
 * Usage:
 *     chaos [-s SECONDS] [-c CONNECTIONS] [-r SEED] PLUGIN[:FUNCTION[=ARGUMENT]]...
 *     chaos -n [-s SECONDS] [-c CONNECTIONS] [-r SEED]
 *
 * With -n it sends noise.
 *
 * Prints the seed and one line of counts; exits 0 where every frame was in order and wsd was always there. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "chaos.h"

static const struct manner *manner = &valid;
static uint64_t seed = 1;
static struct codec *codec;
static struct conn *conns;
static size_t n_conns = 8;

uint64_t dice(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

void fail(const char *format, ...)
{
    va_list args;

    printf("chaos: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(1);
}

static void begin(struct conn *c)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    c->deaf = c->unruly = false;
    c->in_size = c->out_size = 0;
    memset(c->state, 0, manner->state_size);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", getenv("WSD_SOCKET"));
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        fail("wsd is not there: %s", strerror(errno));
    manner->begin(c);
}

void again(struct conn *c)
{
    close(c->fd);
    begin(c);
}

void sent(struct conn *c, size_t n)
{
    memmove(c->out, c->out + n, c->out_size - n);
    c->out_size -= n;
}

static void take(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_size, sizeof(c->in) - c->in_size, MSG_DONTWAIT);
    struct frame f;
    struct msg m;
    size_t used, at = 0;
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* an unruly one may find the end in the middle of a frame: wsd does not wait until it has read */
        if (!c->unruly)
            fail("wsd hung up on one that did nothing wrong: %s", n < 0 ? strerror(errno) : "end of file");
        again(c);
        return;
    }
    c->in_size += (size_t)n;
    while ((r = frame_parse(c->in + at, c->in_size - at, &f, &used)) == 0) {
        if (codec_decode(codec, &f, &m) != 0)
            fail("a frame that cannot be decoded: %s", codec_strerror(codec));
        manner->check(c, &f, &m);
        at += used;
    }
    if (r != FRAME_MORE)
        fail("bytes that are no frame");
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
}

static uint64_t now_msec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void run(uint64_t msec)
{
    for (uint64_t end = now_msec() + msec; now_msec() < end;) {
        manner->turn(&conns[dice(n_conns)]);
        for (size_t i = 0; i < n_conns; i++)
            if (!conns[i].deaf)
                take(&conns[i]);
        if (dice(50) == 0)
            poll(NULL, 0, 1);
    }
}

int main(int argc, char **argv)
{
    uint64_t seconds = 5;

    for (int o; (o = getopt(argc, argv, "ns:c:r:")) != -1;) {
        if (o == 'n') {
            manner = &noise;
            continue;
        }
        uint64_t value = o == '?' ? 0 : strtoull(optarg, NULL, 10);

        if (value == 0)
            return 64;
        *(o == 's' ? &seconds : o == 'c' ? &n_conns : &seed) = value;
    }
    plugins = argv + optind;
    n_plugins = argc - optind;
    if ((n_plugins > 0) != (manner == &valid))
        return 64;
    conns = calloc(n_conns, sizeof(*conns));
    if (!conns || codec_new(&codec) < 0)
        return 70;
    printf("chaos: seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < n_conns; i++) {
        conns[i].state = malloc(manner->state_size);
        if (!conns[i].state)
            return 70;
        begin(&conns[i]);
    }
    run(seconds * 1000);
    manner->print();
    return 0;
}
