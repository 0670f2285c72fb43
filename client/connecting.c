/* SPDX-License-Identifier: Apache-2.0
 *
 * connecting.c: the beginning of a connection: the way to wsd, and the handshake; waited for, or in an event loop.
 * Owns nothing: the socket is the connection's. One thread a handle.
 * Keeps: what is begun in an event loop never blocks, but for looking up the name of another machine. */
#include "connecting.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "config.h"

#define RECONNECT_MSEC 20 /* between two tries of a call that waits */

static int send_hello(struct connection *c)
{
    struct msg msg = {
        .type = FRAME_HELLO,
        .hello = {
            .version_min = CONNECTION_VERSION_MIN,
            .version_max = CONNECTION_VERSION_MAX,
            .features = c->remote.tls ? FEATURES_ALL & ~(uint64_t)(FEATURE_LANE | FEATURE_PAYLOAD) : FEATURES_ALL,
            .directory = {.data = c->directory},
            .window = OUTPUT_WINDOW,
            .user = {.data = c->user, .size = strlen(c->user)},
        }};
    char program[64];
    int n = snprintf(program, sizeof(program), "%.40s libwsclient/%s", program_invocation_short_name, WSD_VERSION);

    c->directory_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c->remote.tls) /* nothing here is anything there */
        c->directory[0] = 0;
    else if (!getcwd(c->directory, sizeof(c->directory)) || c->directory[0] != '/')
        c->directory[0] = 0; /* removed, unreachable or too long: wsd gets no name for it, files open all the same */
    msg.hello.directory.size = strlen(c->directory);
    msg.hello.program = (struct span){.data = program, .size = (size_t)MIN(n, (int)sizeof(program) - 1)};
    return connection_send(c, &msg, 0, NULL, 0);
}

/* Where wsd is. 0 or a negative errno, said. */
static int connect_to(struct connection *c, uint64_t deadline_usec)
{
    int r = c->remote.there ? remote_connect(&c->remote, &c->waiting, deadline_usec, c->failure)
                            : address_connect(&c->address, &c->waiting, deadline_usec, c->failure);

    if (r < 0)
        return r;
    c->fd = r;
    return 0;
}

static int failed(struct connection *c, int error)
{
    if (!c->broken)
        connection_fail(c, error);
    return error;
}

/* Until wsd has said WELCOME. */
static int finish_connect(struct connection *c, uint64_t deadline_usec)
{
    int r = 0;

    while (r == 0 && !c->welcomed) {
        connection_advance(c);
        r = connection_step(c, deadline_usec);
    }
    if (r == -ETIMEDOUT)
        c->failure->exit = CODE_NO_DAEMON;
    return r < 0 ? failed(c, r) : 0;
}

int connection_connect(struct connection *c, uint64_t deadline_usec)
{
    int r = connect_to(c, deadline_usec);

    c->connect_deadline_usec = UINT64_MAX; /* the caller has one */
    if (r == 0 && (r = send_hello(c)) < 0)
        failure_set(c->failure, r, CODE_IO, "%s", strerror(-r));
    return r < 0 ? failed(c, r) : finish_connect(c, deadline_usec);
}

/* wsd may be on its way. */
static bool is_worth_another(int error)
{
    return error == -ECONNREFUSED || error == -ENOENT || error == -ECONNRESET;
}

int connection_reconnect(struct connection *c, uint64_t deadline_usec)
{
    int r = c->broken ? -ECONNRESET : finish_connect(c, deadline_usec); /* it stands, or was begun */

    if (!is_worth_another(r))
        return r;
    if (!c->remote.there && !c->address.sun_path[0]) /* it is unknown where wsd is, as was said */
        return connection_broken(c);
    if (!connection_is_idle(c))
        return failure_set(c->failure, -EDEADLK, CODE_USAGE,
                           "a callback of this handle is under way: reconnect when it has returned");
    for (;;) {
        connection_reset(c);
        r = connection_connect(c, deadline_usec);
        if (!is_worth_another(r) || clock_monotonic_usec() >= deadline_usec)
            return r;
        poll(NULL, 0, RECONNECT_MSEC); /* wsd is not there again yet */
        if (waiting_interrupted(&c->waiting))
            return connection_given_up(c, -EINTR);
    }
}

/* --- in an event loop --------------------------------------------------------------------------------------------- */

static void no_way(struct connection *c, int error)
{
    char words[sizeof(c->failure->text)];

    memcpy(words, c->failure->text, sizeof(words));
    connection_break(c, error, c->failure->exit, "%s", words);
}

static void greet(struct connection *c)
{
    int r = send_hello(c);

    c->connecting = false;
    if (c->remote.tls)
        connection_send_early(c); /* begins the handshake */
    if (r < 0)
        connection_break(c, r, CODE_IO, "%s", strerror(-r));
}

/* The descriptor of a way that is being made, or the error that there is none. */
static void take_way(struct connection *c, int fd)
{
    if (fd < 0)
        no_way(c, fd);
    else
        c->fd = fd;
}

void connection_begin(struct connection *c, uint64_t deadline_usec)
{
    c->connect_deadline_usec = deadline_usec;
    if (c->remote.there) {
        c->connecting = true;
        take_way(c, remote_begin(&c->remote, c->failure));
        return;
    }
    take_way(c, address_begin(&c->address, c->failure));
    if (!c->broken)
        greet(c);
}

/* Bytes are there, which may be its answer: a loop that was busy for long reads them first. */
static bool has_answer(const struct connection *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    return !c->connecting && poll(&p, 1, 0) > 0;
}

void connection_advance(struct connection *c)
{
    if (c->broken || c->welcomed)
        return;
    if (clock_monotonic_usec() >= c->connect_deadline_usec && !has_answer(c)) {
        connection_break(c, -ETIMEDOUT, CODE_NO_DAEMON, "no answer from wsd in time");
        return;
    }
    if (!c->connecting)
        return;
    int r = remote_connected(c->fd);
    if (r == -EINPROGRESS)
        return;
    if (r == 0 && (r = remote_secure(&c->remote, c->fd, c->failure)) == 0) {
        greet(c);
        return;
    }
    if (c->ops->closing)
        c->ops->closing(c);
    c->fd = close_fd(c->fd);
    take_way(c, remote_next(&c->remote, r, c->failure));
}
