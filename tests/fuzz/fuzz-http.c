/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-http.c: any bytes to wsd-web's listener. A stand-in for collector.c notes what wsd would be asked.
 * Input: a byte, and the bytes. 0: they are the request, of a client that does not know the token. 1: they are the body
 * of a POST to /api/act, with the token. 2: they are a path, with the token. 4: as 0, where TOKEN stands for the token.
 * Others: as 0, cut in two. Of the byte, BUSY: there is no wsd, or it has too much to do. LATE: it answers when the
 * connection has ended. PROXY: persons have to be named.
 * Keeps: An answer is one of HTTP, and lets no other site read it. Without the token nothing of wsd is told, and nothing
 * is done. What is done has texts that end where they may. No connection and nothing that waits is left behind. */
#include "fuzz.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "web/collector.h"
#include "web/history.h"
#include "web/server.h"

#define ROUNDS  64
#define BUSY    0x80u
#define LATE    0x40u
#define PROXY   0x20u
#define TOKEN   "@@"
#define ERRANDS 64

static struct event_base *base;
static struct server *server;
static struct guard guard = {.acts = true, .persons = {"anna", "otto"}};
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_size;
static struct collector_options looks;
static bool knows, busy, late, wanted;
static struct errand errands[ERRANDS]; /* that wsd has not answered */
static size_t n_errands;
static json_t *look; /* with names as only an enemy has them */
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

static json_t *load(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);

    FUZZ_CHECK(j);
    return j;
}

static void make_look(void)
{
    look = json_pack(
        "{s:I,s:s,s:o,s:o,s:o}", "time_usec", (json_int_t)1000000, "wsd", "the secret of wsd \"\n", "counters",
        load("{\"jobs_open\":1,\"jobs_crashed\":-1,\"store_commit_usec\":9223372036854775807}"), "functions",
        load("[{\"plugin\":\"<script>\\n\\\"}\",\"function\":\"\\u001b[2J\\u202e\",\"user\":null,"
             "\"succeeded\":7,\"in_quarantine\":true,\"cpu_usec\":{\"sum\":5},"
             "\"run_usec\":{\"count\":1,\"sum\":2,\"below\":[1,1]},\"queue_usec\":[]},7]"),
        "pool",
        load("{\"workers\":[{\"executor\":1,\"worker\":2,\"counters\":{\"roots\":3,\"cpu_usec\":4}},{}],"
             "\"executors\":[{\"executor\":1,\"user\":\"\\u0001\",\"memory\":1e9},{}]}"));
    FUZZ_CHECK(look);
}

static void tell_look(void)
{
    wanted = false;
    json_integer_set(json_object_get(look, "time_usec"),
                     json_integer_value(json_object_get(look, "time_usec")) + 1000000);
    looks.looked(busy ? NULL : look, busy ? "no wsd is there" : "", looks.context);
}

void __wrap_collector_look(struct collector *c)
{
    FUZZ_CHECK(knows);
    wanted = true;
    if (!late)
        tell_look();
}

static void tell_errand(struct errand *e)
{
    _cleanup_(json_decrefp) json_t *job = json_pack("{s:s,s:s}", "id", e->id, "person", e->person);

    if (e->kind == ERRAND_JOB && job) /* there is none where the id is no UTF-8 */
        e->done(e, 0, "", job);
    else
        e->done(e, e->number % 2 ? -EACCES : -ENOENT, "there is none", NULL);
}

int __wrap_collector_do(struct collector *c, const struct errand *e)
{
    struct errand copy = *e;

    FUZZ_CHECK(knows && e->kind < ERRAND_KINDS && memchr(e->id, 0, sizeof(e->id)) &&
               memchr(e->plugin, 0, sizeof(e->plugin)) && memchr(e->function, 0, sizeof(e->function)) &&
               memchr(e->person, 0, sizeof(e->person)));
    if (busy || n_errands == ERRANDS)
        return -EAGAIN;
    if (late)
        errands[n_errands++] = copy;
    else
        tell_errand(&copy);
    return 0;
}

static void tell_all(void)
{
    for (size_t i = 0; i < n_errands; i++)
        tell_errand(&errands[i]);
    n_errands = 0;
    if (wanted)
        tell_look();
}

/* By poll(2): each connection would be a handful of calls for epoll. */
static struct event_base *make_base(void)
{
    struct event_config *c = event_config_new();

    FUZZ_CHECK(c && event_config_avoid_method(c, "epoll") == 0);
    struct event_base *made = event_base_new_with_config(c);
    event_config_free(c);
    return made;
}

static void start(void)
{
    static struct history history = {.n_series = SERVER_SERIES};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    log_set_level(-1);
    signal(SIGPIPE, SIG_IGN); /* as main() does */
    base = make_base();
    FUZZ_CHECK(base && fd >= 0 && guard_draw(&guard) == 0);
    address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                               (size_t)snprintf(address.sun_path + 1, 64, "wsd-fuzz-http-%d", getpid()));
    FUZZ_CHECK(bind(fd, (struct sockaddr *)&address, address_size) == 0 && listen(fd, 16) == 0);
    char chart[32];
    int file = memfd_create("chart", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, "chart", 5) == 5);
    snprintf(chart, sizeof(chart), "/proc/self/fd/%d", file);
    make_look();
    const struct server_options options = {.base = base, .guard = &guard, .chart = chart, .history = &history};
    FUZZ_CHECK(server_new(&server, &options) == 0 && server_listen(server, fd) == 0);
}

static void give(int fd, const void *data, size_t size)
{
    (void)!send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Takes what comes, until the connection ends or nothing comes any more. Returns whether wsd-web has closed it. */
static bool take(int fd)
{
    ssize_t got = -1;
    size_t n = 0;

    event_base_loop(base, EVLOOP_NONBLOCK); /* it is accepted */
    for (int i = 0; i < ROUNDS && n < sizeof(said) - 1 && got != 0; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        got = recv(fd, said + n, sizeof(said) - 1 - n, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    said[n] = 0;
    return got == 0;
}

/* With the token where TOKEN stands. */
static void give_filled(int fd, const uint8_t *data, size_t size)
{
    const size_t n = strlen(TOKEN);

    for (const uint8_t *at; (at = memmem(data, size, TOKEN, n));) {
        give(fd, data, (size_t)(at - data));
        give(fd, guard.token, strlen(guard.token));
        size -= (size_t)(at - data) + n;
        data = at + n;
    }
    give(fd, data, size);
}

/* The headers of an answer: of the first one, where there are more. */
static void check_headers(void)
{
    char *end = strstr(said, "\r\n\r\n");

    FUZZ_CHECK(strncmp(said, "HTTP/", 5) == 0);
    if (end)
        *end = 0;
    FUZZ_CHECK(!strcasestr(said, "\nAccess-Control") && !strcasestr(said, "\nSet-Cookie"));
    if (end)
        *end = '\r';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char head[512];

    if (!server)
        start();
    if (size < 2 || size > 16384)
        return 0;
    const uint8_t flags = *data++, mode = flags & (uint8_t) ~(BUSY | LATE | PROXY);
    size--;
    busy = flags & BUSY;
    late = flags & LATE;
    guard.person_header = flags & PROXY ? "X-Remote-User" : NULL;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, address_size) == 0);
    knows = mode == 1 || mode == 2 || mode == 4;
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
    } else if (mode == 4) {
        give_filled(fd, data, size);
    } else {
        give(fd, data, mode ? size / 2 : size);
        if (mode)
            event_base_loop(base, EVLOOP_NONBLOCK);
        give(fd, data + (mode ? size / 2 : size), mode ? size - size / 2 : 0);
    }
    shutdown(fd, SHUT_WR);
    bool closed = take(fd);
    close(fd);
    if (*said)
        check_headers();
    FUZZ_CHECK(knows || !strstr(said, "the secret of wsd"));
    for (int i = 0; !closed && i < 4; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    tell_all();
    knows = true; /* a look may be under way that was wanted with the token */
    return 0;
}
