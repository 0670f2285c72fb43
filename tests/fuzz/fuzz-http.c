/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-http.c: any bytes to wsd-web's listener. A stand-in for collector.c notes what wsd would be asked.
 * Input: a byte, and the bytes. 0: they are the request, of somebody who does not know the token. 1: they are the body of a
 * POST to /api/act, with the token. 2: they are a path, with the token. Others: as 0, cut in two.
 * Keeps: An answer is one of HTTP. Without the token nothing of wsd is told, and nothing is done. What is done has texts
 * that end where they may. No connection is left behind. */
#include "fuzz.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "web/collector.h"
#include "web/history.h"
#include "web/server.h"

#define ROUNDS 64

static struct event_base *base;
static struct server *server;
static struct guard guard = {.acts = true};
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_size;
static struct collector_options looks;
static bool knows;
static char said[1 << 20];

int __wrap_collector_new(struct collector **ret, const struct collector_options *options);
struct collector *__wrap_collector_free(struct collector *c);
void __wrap_collector_look(struct collector *c);
int __wrap_collector_do(struct collector *c, const struct errand *e);

int __wrap_collector_new(struct collector **ret, const struct collector_options *options)
{
    looks = *options;
    *ret = NULL;
    return 0;
}

struct collector *__wrap_collector_free(struct collector *c)
{
    return NULL;
}

void __wrap_collector_look(struct collector *c)
{
    _cleanup_(json_decrefp) json_t *look = json_pack("{s:I,s:s,s:{s:i}}", "time_usec", (json_int_t)1000000, "wsd",
                                                     "the secret of wsd", "counters", "jobs_open", 1);

    FUZZ_CHECK(knows);
    looks.looked(look, "", looks.context);
}

int __wrap_collector_do(struct collector *c, const struct errand *e)
{
    struct errand copy = *e;

    FUZZ_CHECK(knows && e->kind < ERRAND_KINDS && memchr(e->id, 0, sizeof(e->id)) &&
               memchr(e->plugin, 0, sizeof(e->plugin)) && memchr(e->function, 0, sizeof(e->function)) &&
               memchr(e->person, 0, sizeof(e->person)));
    copy.done(&copy, -ENOENT, "there is none", NULL);
    return 0;
}

static void start(void)
{
    static struct history history = {.n_series = SERVER_SERIES};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    log_set_level(-1);
    base = event_base_new();
    FUZZ_CHECK(base && fd >= 0 && guard_draw(&guard) == 0);
    address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                               (size_t)snprintf(address.sun_path + 1, 64, "wsd-fuzz-http-%d", getpid()));
    FUZZ_CHECK(bind(fd, (struct sockaddr *)&address, address_size) == 0 && listen(fd, 16) == 0);
    const struct server_options options = {.base = base, .guard = &guard, .chart = "/none", .history = &history};
    FUZZ_CHECK(server_new(&server, &options) == 0 && server_listen(server, fd) == 0);
}

static void give(int fd, const void *data, size_t size)
{
    (void)!send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What comes, until the connection ends or nothing comes any more. */
static size_t take(int fd)
{
    size_t n = 0;

    for (int i = 0; i < ROUNDS && n < sizeof(said) - 1; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        ssize_t got = recv(fd, said + n, sizeof(said) - 1 - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    said[n] = 0;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char head[512];

    if (!server)
        start();
    if (size < 2 || size > 16384)
        return 0;
    const uint8_t mode = *data++;
    size--;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, address_size) == 0);
    knows = mode == 1 || mode == 2;
    if (mode == 1) {
        give(fd, head,
             (size_t)snprintf(head, sizeof(head),
                              "POST /api/act HTTP/1.1\r\nHost: localhost\r\nX-Wsd-Web: 1\r\nConnection: close\r\n"
                              "Authorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
                              guard.token, size));
        give(fd, data, size);
    } else if (mode == 2) {
        give(fd, "GET /", 5);
        give(fd, data, size);
        give(fd, head,
             (size_t)snprintf(head, sizeof(head),
                              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n",
                              guard.token));
    } else {
        give(fd, data, mode ? size / 2 : size);
        if (mode)
            event_base_loop(base, EVLOOP_NONBLOCK);
        give(fd, data + (mode ? size / 2 : size), mode ? size - size / 2 : 0);
    }
    shutdown(fd, SHUT_WR);
    size_t n = take(fd);
    close(fd);
    FUZZ_CHECK(n == 0 || strncmp(said, "HTTP/", 5) == 0);
    FUZZ_CHECK(knows || !strstr(said, "the secret of wsd"));
    for (int i = 0; i < 4; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    knows = true; /* a look may be under way that was wanted with the token */
    return 0;
}
