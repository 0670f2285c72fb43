/* SPDX-License-Identifier: Apache-2.0
 *
 * peer-service.c: job servers that Debian packages. Each has a worker that answers what it gets. They are called by
 * their own protocols, as cheaply as those allow.
 *
 * Usage:
 *     peer-service redis|nats|gearmand|beanstalkd call|pipeline|clients|payload|queue|connections|start
 *     peer-service redis|beanstalkd|rabbitmq|jetstream|raw durable
 *
 * redis: RPUSH to a list, the worker pops up to 256 at a time and pushes each answer to the client's own list. In a
 * closed loop RPUSH and BLPOP go in one write. With many in flight the pushes have a connection of their own, without
 * replies.
 * NATS: request and reply with an inbox. Gearmand: foreground jobs; the worker has up to 64 grabs ahead. Beanstalkd: a
 * tube of jobs, and one tube of answers for each client.
 * The transport is a unix socket where the server has one (redis), else TCP on loopback with TCP_NODELAY. The worker is
 * one process. CPU is of server and worker.
 * Durable: jobs that no worker takes, acknowledged when they are on disk. Redis does so by appendfsync always,
 * beanstalkd by -f0. RabbitMQ does so by publisher confirms of persistent messages in a durable queue. JetStream (of
 * nats) acknowledges without any fsync. Raw is pwrite and fdatasync, behind the end of a file and in room that it has
 * already. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "process.h"

#define CALLS     20000u
#define FLIGHT    256u
#define DEEP      8192u /* as many as wsd_map() has under way */
#define PIPE_NSEC 2000000000u
#define CLIENTS   64u
#define SMALL     16u
#define PORT      24730
#define GRABS     64
#define OPEN_MAX  1024

struct buffer {
    char *data;
    size_t begin, end, room;
};

struct conn {
    int fd, push; /* push: redis with many in flight; -1 */
    unsigned id;
    struct buffer in, out, pushed;
    uint64_t begin;
    uint64_t sent, acked; /* rabbitmq: numbers of messages, and which of the last ones are open */
    bool open[OPEN_MAX];
};

struct peer {
    const char *name;
    void (*start)(void);
    void (*hello)(struct conn *c);
    void (*submit)(struct conn *c, const char *payload, size_t size, bool alone);
    /* Takes one whole answer out of the buffer: true where there was one. */
    bool (*answer)(struct conn *c);
    void (*keep)(struct conn *c, const char *payload, size_t size); /* a job that no worker takes */
    unsigned (*kept)(struct conn *c); /* so many were acknowledged by the next thing in the buffer; 0: none is there */
    void (*work)(struct conn *c);     /* never returns */
};

static const struct peer *peer;
static bool durable;
static char dir[] = BENCH_DIR "peer.XXXXXX";
static char path[64];
static char port[8];

/* --- buffers and connections ------------------------------------------------------------------------------------- */

static char *room_for(struct buffer *b, size_t n)
{
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->end + n > b->room && b->begin) {
        memmove(b->data, b->data + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->end + n > b->room) {
        b->room = 2 * (b->end + n);
        b->data = realloc(b->data, b->room);
        if (!b->data)
            give_up("memory");
    }
    return b->data + b->end;
}

static void put(struct buffer *b, const void *data, size_t n)
{
    memcpy(room_for(b, n), data, n);
    b->end += n;
}

__attribute__((format(printf, 2, 3))) static void say_to(struct buffer *b, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    b->end += (size_t)vsnprintf(room_for(b, 256), 256, format, list);
    va_end(list);
}

static size_t held(const struct buffer *b)
{
    return b->end - b->begin;
}

static void flush(int fd, struct buffer *b)
{
    while (held(b)) {
        ssize_t n = write(fd, b->data + b->begin, held(b));

        if (n < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (n <= 0)
            give_up("the server does not take what is written");
        b->begin += (size_t)n;
    }
}

/* Writes and reads whatever is possible at once; both sides may be full. */
static void exchange(struct conn *c)
{
    struct pollfd p[2] = {{.fd = c->fd, .events = (short)(POLLIN | (held(&c->out) ? POLLOUT : 0))},
                          {.fd = held(&c->pushed) ? c->push : -1, .events = POLLOUT}};

    if (held(&c->out) < 65536 && held(&c->pushed) < 65536) { /* small: no need to ask */
        flush(c->fd, &c->out);
        flush(c->push, &c->pushed);
    } else {
        poll(p, 2, -1);
        for (int i = 0; i < 2; i++) {
            struct buffer *b = i ? &c->pushed : &c->out;
            if (p[i].revents & POLLOUT) {
                ssize_t n = send(p[i].fd, b->data + b->begin, held(b), MSG_DONTWAIT);
                b->begin += n > 0 ? (size_t)n : 0;
            }
        }
        if (!(p[0].revents & POLLIN))
            return;
    }
    char *at = room_for(&c->in, 1 << 18);
    ssize_t n = read(c->fd, at, 1 << 18);
    if (n <= 0)
        give_up("the server has closed the connection");
    c->in.end += (size_t)n;
}

static int dial(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(PORT)};
    bool local = strcmp(peer->name, "redis") == 0;

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    for (int i = 0; i < 100000; i++) {
        int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!local)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (connect(fd, local ? (void *)&un : (void *)&in, local ? sizeof(un) : sizeof(in)) == 0)
            return fd;
        close(fd);
        usleep(500);
    }
    give_up("the server does not answer");
}

static struct conn *conn_new(unsigned id)
{
    struct conn *c = calloc(1, sizeof(*c));

    c->fd = dial();
    c->push = -1;
    c->id = id;
    peer->hello(c);
    return c;
}

/* A line that ends with \r\n, NUL-terminated in place; NULL: not there yet. */
static char *line(struct buffer *b)
{
    char *end = memmem(b->data + b->begin, held(b), "\r\n", 2), *begin = b->data + b->begin;

    if (!end)
        return NULL;
    *end = 0;
    b->begin = (size_t)(end + 2 - b->data);
    return begin;
}

/* For parsers that find out that more is needed: the position to go back to, and the byte that line() changed. */
static bool line_and_body(struct buffer *b, char **ret_line, size_t (*body)(const char *line), char **ret_body)
{
    size_t at = b->begin;
    char *l = line(b);

    if (!l)
        return false;
    size_t n = body(l);
    if (n && held(b) < n + 2) {
        l[strlen(l)] = '\r';
        b->begin = at;
        return false;
    }
    *ret_line = l;
    *ret_body = b->data + b->begin;
    b->begin += n ? n + 2 : 0;
    return true;
}

static int ready[2];

/* What is sent to a worker that is not there yet may be lost. */
static void is_ready(void)
{
    if (write(ready[1], "", 1) != 1)
        give_up("pipe");
}

static char *wait_line(struct conn *c)
{
    for (char *l;;) {
        if ((l = line(&c->in)))
            return l;
        exchange(c);
    }
}

/* --- redis -------------------------------------------------------------------------------------------------------- */

static void redis_start(void)
{
    if (fork_server() == 0)
        exec_server((const char *[]){"redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly",
                                     durable ? "yes" : "no", "--appendfsync", "always", "--daemonize", "no",
                                     "--logfile", "/dev/null", "--dir", dir, NULL});
}

static void redis_hello(struct conn *c)
{
}

static size_t redis_length(const char *l)
{
    return *l == '$' && l[1] != '-' ? (size_t)atoll(l + 1) : 0;
}

/* One value of the protocol; nested arrays are counted down by the caller. */
static bool redis_value(struct buffer *b, char **ret_line, char **ret_body)
{
    return line_and_body(b, ret_line, redis_length, ret_body);
}

static void redis_push(struct buffer *b, unsigned id, const char *payload, size_t size)
{
    say_to(b, "*3\r\n$5\r\nRPUSH\r\n$4\r\njobs\r\n$%zu\r\n%08x", size + 8, id);
    put(b, payload, size);
    put(b, "\r\n", 2);
}

static void redis_submit(struct conn *c, const char *payload, size_t size, bool alone)
{
    if (!alone && c->push < 0) {
        static const char off[] = "*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n";

        c->push = dial();
        put(&c->pushed, off, sizeof(off) - 1);
    }
    redis_push(alone ? &c->out : &c->pushed, c->id, payload, size);
    say_to(&c->out, "*3\r\n$5\r\nBLPOP\r\n$9\r\nr%08x\r\n$1\r\n0\r\n", c->id);
}

/* [:n of RPUSH,] *2, key, value */
static bool redis_answer(struct conn *c)
{
    struct buffer *b = &c->in;
    size_t at = b->begin;
    char *l, *body;
    unsigned left = 1;

    while (left > 0) {
        if (!redis_value(b, &l, &body)) {
            /* what was read of it is read again: the lines were cut at their ends */
            for (size_t i = at; i < b->begin; i++)
                if (b->data[i] == 0 && b->data[i + 1] == '\n')
                    b->data[i] = '\r';
            b->begin = at;
            return false;
        }
        if (*l == ':')
            continue;
        left += *l == '*' ? (unsigned)atoi(l + 1) - 1 : (unsigned)-1;
    }
    return true;
}

static void redis_keep(struct conn *c, const char *payload, size_t size)
{
    say_to(&c->out, "*3\r\n$5\r\nRPUSH\r\n$4\r\nkept\r\n$%zu\r\n", size);
    put(&c->out, payload, size);
    put(&c->out, "\r\n", 2);
}

static unsigned redis_kept(struct conn *c)
{
    return line(&c->in) != NULL;
}

static void redis_work(struct conn *c)
{
    static const char first[] = "*3\r\n$5\r\nBLPOP\r\n$4\r\njobs\r\n$1\r\n0\r\n",
                      more[] = "*3\r\n$4\r\nLPOP\r\n$4\r\njobs\r\n$3\r\n256\r\n";
    unsigned acks = 0;

    for (bool waits = true;;) {
        unsigned left = 1, n = 0;
        bool key = waits;

        put(&c->out, waits ? first : more, waits ? sizeof(first) - 1 : sizeof(more) - 1);
        while (left > 0) {
            char *l, *body;
            if (!redis_value(&c->in, &l, &body)) {
                exchange(c);
                continue;
            }
            if (*l == ':' && acks) {
                acks--;
                continue;
            }
            if (*l == '*') {
                left += atoi(l + 1) > 0 ? (unsigned)atoi(l + 1) - 1 : (unsigned)-1;
                continue;
            }
            left--;
            if (*l != '$' || key) {
                key = false;
                continue;
            }
            size_t size = (size_t)atoll(l + 1);
            if (l[1] == '-')
                continue;
            say_to(&c->out, "*3\r\n$5\r\nRPUSH\r\n$9\r\nr%.8s\r\n$%zu\r\n", body, size - 8);
            put(&c->out, body + 8, size - 8);
            put(&c->out, "\r\n", 2);
            acks++;
            n++;
        }
        waits = n < 256 && !(waits && n); /* after the first: is there more? */
    }
}

/* --- nats --------------------------------------------------------------------------------------------------------- */

static void nats_start(void)
{
    char config[96];
    FILE *f;

    snprintf(config, sizeof(config), "%s/conf", dir);
    f = fopen(config, "we");
    if (!f || fputs("max_payload: 67108864\nmax_pending: 268435456\nwrite_deadline: \"60s\"\n", f) < 0 ||
        (durable && fprintf(f, "jetstream { store_dir: \"%s\" }\n", dir) < 0) || fclose(f) != 0)
        give_up("configuration");
    if (fork_server() == 0)
        exec_server(
            (const char *[]){"nats-server", "-c", config, "-a", "127.0.0.1", "-p", port, "-l", "/dev/null", NULL});
}

static void nats_hello(struct conn *c)
{
    wait_line(c); /* INFO */
    say_to(&c->out,
           "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\"}\r\nSUB i%08x 1\r\nPING\r\n",
           c->id);
    while (strcmp(wait_line(c), "PONG") != 0)
        ;
}

static void nats_submit(struct conn *c, const char *payload, size_t size, bool alone)
{
    say_to(&c->out, "PUB jobs i%08x %zu\r\n", c->id, size);
    put(&c->out, payload, size);
    put(&c->out, "\r\n", 2);
}

/* MSG subject sid [reply] size */
static size_t nats_length(const char *l)
{
    return strncmp(l, "MSG ", 4) == 0 ? (size_t)atoll(strrchr(l, ' ') + 1) : 0;
}

static bool nats_answer(struct conn *c)
{
    char *l, *body;

    while (line_and_body(&c->in, &l, nats_length, &body)) {
        if (strncmp(l, "MSG", 3) == 0)
            return true;
        if (strcmp(l, "PING") == 0)
            say_to(&c->out, "PONG\r\n");
        if (*l == '-')
            give_up(l);
    }
    return false;
}

static void nats_work(struct conn *c)
{
    say_to(&c->out, "SUB jobs 2\r\nPING\r\n");
    while (strcmp(wait_line(c), "PONG") != 0)
        ;
    is_ready();
    for (;;) {
        char *l, *body;

        exchange(c);
        while (line_and_body(&c->in, &l, nats_length, &body)) {
            char reply[32];
            unsigned long size;

            if (strcmp(l, "PING") == 0)
                say_to(&c->out, "PONG\r\n");
            if (sscanf(l, "MSG jobs 2 %31s %lu", reply, &size) != 2)
                continue;
            say_to(&c->out, "PUB %s %lu\r\n", reply, size);
            put(&c->out, body, size);
            put(&c->out, "\r\n", 2);
        }
    }
}

/* jetstream: one stream on disk, made by the first connection. Later connections are told that it exists. */
static void jet_hello(struct conn *c)
{
    static const char stream[] = "{\"name\":\"kept\",\"subjects\":[\"kept\"],\"storage\":\"file\"}";

    nats_hello(c);
    if (c->id != 1)
        return;
    say_to(&c->out, "PUB $JS.API.STREAM.CREATE.kept i%08x %zu\r\n%s\r\n", c->id, sizeof(stream) - 1, stream);
    while (!nats_answer(c))
        exchange(c);
}

static void jet_keep(struct conn *c, const char *payload, size_t size)
{
    say_to(&c->out, "PUB kept i%08x %zu\r\n", c->id, size);
    put(&c->out, payload, size);
    put(&c->out, "\r\n", 2);
}

static unsigned jet_kept(struct conn *c)
{
    return nats_answer(c);
}

/* --- gearmand ----------------------------------------------------------------------------------------------------- */

enum {
    CAN_DO = 1,
    PRE_SLEEP = 4,
    NOOP = 6,
    SUBMIT_JOB = 7,
    JOB_CREATED = 8,
    GRAB_JOB = 9,
    NO_JOB = 10,
    JOB_ASSIGN = 11,
    WORK_COMPLETE = 13,
    SUBMIT_JOB_BG = 18
};

static void gear_start(void)
{
    if (fork_server() == 0) {
        execlp("gearmand", "gearmand", "-L", "127.0.0.1", "-p", port, "-l", "/dev/null", "--threads=1", (char *)NULL);
        _exit(127);
    }
}

static void gear_put(struct buffer *b, uint32_t type, const char *a, size_t a_size, const char *p, size_t size)
{
    uint32_t header[2] = {htonl(type), htonl((uint32_t)(a_size + size))};

    put(b, "\0REQ", 4);
    put(b, header, 8);
    put(b, a, a_size);
    put(b, p, size);
}

static bool gear_packet(struct buffer *b, uint32_t *ret_type, char **ret_data, size_t *ret_size)
{
    uint32_t header[2];

    if (held(b) < 12)
        return false;
    memcpy(header, b->data + b->begin + 4, 8);
    *ret_size = ntohl(header[1]);
    if (held(b) < 12 + *ret_size)
        return false;
    *ret_type = ntohl(header[0]);
    *ret_data = b->data + b->begin + 12;
    b->begin += 12 + *ret_size;
    return true;
}

static void gear_hello(struct conn *c)
{
}

static void gear_submit(struct conn *c, const char *payload, size_t size, bool alone)
{
    gear_put(&c->out, SUBMIT_JOB, "jobs\0", 6, payload, size); /* function NUL, unique NUL (empty) */
}

static bool gear_answer(struct conn *c)
{
    uint32_t type;
    size_t size;
    char *data;

    while (gear_packet(&c->in, &type, &data, &size))
        if (type == WORK_COMPLETE)
            return true;
    return false;
}

static void gear_keep(struct conn *c, const char *payload, size_t size)
{
    gear_put(&c->out, SUBMIT_JOB_BG, "kept\0", 6, payload, size);
}

static unsigned gear_kept(struct conn *c)
{
    uint32_t type;
    size_t size;
    char *data;

    while (gear_packet(&c->in, &type, &data, &size))
        if (type == JOB_CREATED)
            return 1;
    return 0;
}

static void gear_work(struct conn *c)
{
    int grabs = GRABS;

    gear_put(&c->out, CAN_DO, "jobs", 4, NULL, 0);
    for (int i = 0; i < grabs; i++)
        gear_put(&c->out, GRAB_JOB, NULL, 0, NULL, 0);
    for (;;) {
        uint32_t type;
        size_t size;
        char *data;

        exchange(c);
        while (gear_packet(&c->in, &type, &data, &size)) {
            if (type == NO_JOB && --grabs == 0)
                gear_put(&c->out, PRE_SLEEP, NULL, 0, NULL, 0);
            if (type == NOOP)
                for (; grabs < GRABS; grabs++)
                    gear_put(&c->out, GRAB_JOB, NULL, 0, NULL, 0);
            if (type != JOB_ASSIGN)
                continue;
            size_t handle = strlen(data) + 1, name = strlen(data + handle) + 1;
            gear_put(&c->out, WORK_COMPLETE, data, handle, data + handle + name, size - handle - name);
            gear_put(&c->out, GRAB_JOB, NULL, 0, NULL, 0);
        }
    }
}

/* --- beanstalkd --------------------------------------------------------------------------------------------------- */

static void bean_start(void)
{
    if (fork_server() == 0) /* what comes behind a NULL is not there */
        exec_server((const char *[]){"beanstalkd", "-l", "127.0.0.1", "-p", port, "-z", "67108864",
                                     durable ? "-f0" : NULL, "-b", dir, NULL});
}

static void bean_hello(struct conn *c)
{
    say_to(&c->out, "use jobs\r\nwatch r%08x\r\nignore default\r\n", c->id);
    for (int i = 0; i < 3; i++)
        wait_line(c);
}

static void bean_put(struct buffer *b, unsigned id, const char *payload, size_t size)
{
    say_to(b, "put 0 0 60 %zu\r\n%08x", size + 8, id);
    put(b, payload, size);
    put(b, "\r\n", 2);
}

static void bean_submit(struct conn *c, const char *payload, size_t size, bool alone)
{
    bean_put(&c->out, c->id, payload, size);
    say_to(&c->out, "reserve\r\n");
}

/* RESERVED id size */
static size_t bean_length(const char *l)
{
    return strncmp(l, "RESERVED ", 9) == 0 ? (size_t)atoll(strrchr(l, ' ') + 1) : 0;
}

static bool bean_answer(struct conn *c)
{
    char *l, *body;

    while (line_and_body(&c->in, &l, bean_length, &body))
        if (*l == 'R') {
            say_to(&c->out, "delete %ld\r\n", atol(l + 9));
            return true;
        }
    return false;
}

static void bean_keep(struct conn *c, const char *payload, size_t size)
{
    say_to(&c->out, "put 0 0 60 %zu\r\n", size);
    put(&c->out, payload, size);
    put(&c->out, "\r\n", 2);
}

static unsigned bean_kept(struct conn *c)
{
    return line(&c->in) != NULL;
}

static void bean_work(struct conn *c)
{
    say_to(&c->out, "watch jobs\r\nreserve\r\n");
    for (;;) {
        char *l, *body;

        exchange(c);
        while (line_and_body(&c->in, &l, bean_length, &body)) {
            if (*l != 'R')
                continue;
            size_t size = bean_length(l) - 8;
            say_to(&c->out, "delete %ld\r\nuse r%.8s\r\nput 0 0 60 %zu\r\n", atol(l + 9), body, size);
            put(&c->out, body + 8, size);
            put(&c->out, "\r\nreserve\r\n", 11);
        }
    }
}

/* --- rabbitmq ----------------------------------------------------------------------------------------------------- */

/* Frames of AMQP 0-9-1: type, channel, size, that many bytes, 0xce. Methods by class << 16 | method. */
enum { AMQP_METHOD = 1, AMQP_HEADER, AMQP_BODY, AMQP_END = 0xce };
enum {
    START_OK = 10 << 16 | 11,
    TUNE_OK = 10 << 16 | 31,
    CONNECTION_OPEN = 10 << 16 | 40,
    CHANNEL_OPEN = 20 << 16 | 10,
    QUEUE_DECLARE = 50 << 16 | 10,
    BASIC_PUBLISH = 60 << 16 | 40,
    BASIC_ACK = 60 << 16 | 80,
    CONFIRM_SELECT = 85 << 16 | 10
};

/* With its names beside those of a rabbitmq that runs here already, and an epmd that ends with us. */
static void rabbit_start(void)
{
    static const char *const variables[][2] = {{"RABBITMQ_MNESIA_BASE", ""},
                                               {"RABBITMQ_LOG_BASE", ""},
                                               {"HOME", ""},
                                               /* the last: no shell around it */
                                               {"RABBITMQ_ENABLED_PLUGINS_FILE", "/plugins"},
                                               {"RABBITMQ_CONFIG_FILE", "/none"},
                                               {"RABBITMQ_PID_FILE", "/pid"},
                                               {"RUNNING_UNDER_SYSTEMD", ""}};
    char value[96], epmd[16];

    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        snprintf(value, sizeof(value), "%s%s", dir, variables[i][1]);
        setenv(variables[i][0], value, 1);
    }
    snprintf(epmd, sizeof(epmd), "%d", PORT + 1);
    snprintf(value, sizeof(value), "%d", PORT + 2);
    setenv("RABBITMQ_NODENAME", "wsd-bench@localhost", 1);
    setenv("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1", 1);
    setenv("RABBITMQ_NODE_PORT", port, 1);
    setenv("RABBITMQ_DIST_PORT", value, 1);
    setenv("ERL_EPMD_PORT", epmd, 1);
    setenv("ERL_EPMD_ADDRESS", "127.0.0.1", 1);
    for (int i = 0; i < 2; i++)
        if (fork_server() == 0) {
            int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

            dup2(null, 1);
            dup2(null, 2);
            if (i == 0)
                execlp("epmd", "epmd", "-port", epmd, (char *)NULL);
            exec_server((const char *[]){"/usr/lib/rabbitmq/bin/rabbitmq-server", NULL});
        }
}

static void put_number(struct buffer *b, unsigned bytes, uint64_t value)
{
    while (bytes-- > 0)
        put(b, &(char){(char)(value >> 8 * bytes)}, 1);
}

static void rabbit_frame(struct buffer *b, unsigned type, unsigned channel, const void *data, size_t size)
{
    put_number(b, 1, type);
    put_number(b, 2, channel);
    put_number(b, 4, size);
    put(b, data, size);
    put_number(b, 1, AMQP_END);
}

static void rabbit_method(struct conn *c, unsigned channel, uint32_t method, const char *data, size_t size)
{
    char whole[256];
    uint32_t network = htonl(method);

    memcpy(whole, &network, 4);
    memcpy(whole + 4, data, size);
    rabbit_frame(&c->out, AMQP_METHOD, channel, whole, size + 4);
}

/* The next frame: its method, or 0 of what is none. */
static bool rabbit_read(struct conn *c, uint32_t *ret_method, const char **ret_data)
{
    const unsigned char *p = (const unsigned char *)c->in.data + c->in.begin;

    if (held(&c->in) < 7)
        return false;
    size_t size = (size_t)p[3] << 24 | (size_t)p[4] << 16 | (size_t)p[5] << 8 | p[6];
    if (held(&c->in) < size + 8)
        return false;
    *ret_method = *p == AMQP_METHOD ? (uint32_t)p[7] << 24 | (uint32_t)p[8] << 16 | (uint32_t)p[9] << 8 | p[10] : 0;
    *ret_data = (const char *)p + 11;
    c->in.begin += size + 8;
    return true;
}

static void rabbit_wait(struct conn *c, uint32_t method)
{
    const char *data;

    for (uint32_t got = 0; got != method;)
        if (!rabbit_read(c, &got, &data))
            exchange(c);
}

/* The answer to a method has the number behind its own. */
static void rabbit_ask(struct conn *c, unsigned channel, uint32_t method, const char *data, size_t size)
{
    rabbit_method(c, channel, method, data, size);
    rabbit_wait(c, method + 1);
}

static void rabbit_hello(struct conn *c)
{
    static const char plain[] = "\0\0\0\0"
                                "\5PLAIN"
                                "\0\0\0\14"
                                "\0guest\0guest"
                                "\5en_US"; /* no properties */
    static const char tuned[] = "\7\377"
                                "\0\2\0\0"
                                "\0\0"; /* 2047 channels, frames of 128 KiB, no heartbeat */
    static const char queue[] = "\0\0"
                                "\4kept"
                                "\2"
                                "\0\0\0\0"; /* durable */

    put(&c->out, "AMQP\0\0\11\1", 8);
    rabbit_wait(c, START_OK - 1);
    rabbit_method(c, 0, START_OK, plain, sizeof(plain) - 1);
    rabbit_wait(c, TUNE_OK - 1);
    rabbit_method(c, 0, TUNE_OK, tuned, sizeof(tuned) - 1);
    rabbit_ask(c, 0, CONNECTION_OPEN, "\1/\0\0", 4);
    rabbit_ask(c, 1, CHANNEL_OPEN, "\0", 1);
    rabbit_ask(c, 1, QUEUE_DECLARE, queue, sizeof(queue) - 1);
    rabbit_ask(c, 1, CONFIRM_SELECT, "\0", 1);
}

static void rabbit_keep(struct conn *c, const char *payload, size_t size)
{
    static const char to[] = "\0\0"
                             "\0"
                             "\4kept"
                             "\0";
    char header[15] = {0, 60};

    c->open[++c->sent % OPEN_MAX] = true;
    header[11] = (char)size;
    header[12] = 0x10; /* of the properties, the delivery mode */
    header[14] = 2;    /* persistent */
    rabbit_method(c, 1, BASIC_PUBLISH, to, sizeof(to) - 1);
    rabbit_frame(&c->out, AMQP_HEADER, 1, header, sizeof(header));
    rabbit_frame(&c->out, AMQP_BODY, 1, payload, size);
}

/* The number of the last one, and whether those before it are meant, too. */
static unsigned rabbit_kept(struct conn *c)
{
    uint32_t method;
    const char *data;
    uint64_t tag;
    unsigned n = 0;

    do {
        if (!rabbit_read(c, &method, &data))
            return 0;
    } while (method != BASIC_ACK);
    memcpy(&tag, data, sizeof(tag));
    tag = be64toh(tag);
    for (uint64_t i = data[8] ? c->acked + 1 : tag; i <= tag; i++) {
        n += c->open[i % OPEN_MAX];
        c->open[i % OPEN_MAX] = false;
    }
    if (data[8])
        c->acked = tag;
    return n;
}

static const struct peer peers[] = {
    {"redis", redis_start, redis_hello, redis_submit, redis_answer, redis_keep, redis_kept, redis_work},
    {"nats", nats_start, nats_hello, nats_submit, nats_answer, NULL, NULL, nats_work},
    {"gearmand", gear_start, gear_hello, gear_submit, gear_answer, gear_keep, gear_kept, gear_work},
    {"beanstalkd", bean_start, bean_hello, bean_submit, bean_answer, bean_keep, bean_kept, bean_work},
    {.name = "rabbitmq", .start = rabbit_start, .hello = rabbit_hello, .keep = rabbit_keep, .kept = rabbit_kept},
    {.name = "jetstream", .start = nats_start, .hello = jet_hello, .keep = jet_keep, .kept = jet_kept},
};

/* --- the benchmarks ----------------------------------------------------------------------------------------------- */

static void start_worker(void)
{
    char c;

    if (pipe2(ready, O_CLOEXEC) < 0)
        give_up("pipe");
    if (fork_server() == 0)
        peer->work(conn_new(0xffffffff));
    if (peer->work == nats_work && read(ready[0], &c, 1) != 1)
        give_up("no worker");
}

static void one(struct conn *c, const char *payload, size_t size)
{
    peer->submit(c, payload, size, true);
    while (!peer->answer(c))
        exchange(c);
}

static void bench_call(const char *pinned)
{
    static double all[CALLS];
    char params[64];
    struct conn *c = conn_new(1);

    for (unsigned i = 0; i < CALLS / 10; i++)
        one(c, "0123456789abcdef", SMALL);
    uint64_t cpu = servers_sum(1);
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t begin = now_nsec();
        one(c, "0123456789abcdef", SMALL);
        all[i] = (double)(now_nsec() - begin) / 1e3;
    }
    cpu = servers_sum(1) - cpu;
    snprintf(params, sizeof(params), "lane=socket,pinned=%s,quantile=p50", pinned);
    say(params, "us", quantile(all, CALLS, 0.5));
    snprintf(params, sizeof(params), "lane=socket,pinned=%s,quantile=p99", pinned);
    say(params, "us", quantile(all, CALLS, 0.99));
    snprintf(params, sizeof(params), "lane=socket,pinned=%s,cpu=server", pinned);
    say(params, "us/job", (double)cpu / 1e3 / CALLS);
}

/* With so many more under way. */
static void pipeline(struct conn *c, unsigned more, const char *params)
{
    uint64_t n = 0, begin = now_nsec(), now;

    for (unsigned i = 0; i < more; i++)
        peer->submit(c, "0123456789abcdef", SMALL, false);
    do {
        unsigned got = 0;
        exchange(c);
        for (; peer->answer(c); got++)
            ;
        for (unsigned i = 0; i < got; i++)
            peer->submit(c, "0123456789abcdef", SMALL, false);
        n += got;
        now = now_nsec();
    } while (now - begin < PIPE_NSEC);
    say(params, "ns/job", (double)(now - begin) / (double)n);
}

static void bench_pipeline(void)
{
    struct conn *c = conn_new(1);

    pipeline(c, FLIGHT, "lane=socket,flight=256");
    pipeline(c, DEEP - FLIGHT, "lane=socket,flight=8192");
}

static void bench_clients(void)
{
    static double all[4000000];
    struct conn *conns[CLIENTS];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    size_t n = 0;

    for (unsigned i = 0; i < CLIENTS; i++) {
        conns[i] = conn_new(i + 1);
        epoll_ctl(ep, EPOLL_CTL_ADD, conns[i]->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = conns[i]});
    }
    uint64_t begin = now_nsec(), now = begin;
    for (unsigned i = 0; i < CLIENTS; i++) {
        conns[i]->begin = now_nsec();
        peer->submit(conns[i], "0123456789abcdef", SMALL, true);
        flush(conns[i]->fd, &conns[i]->out);
    }
    while (now - begin < PIPE_NSEC && n < 4000000) {
        struct epoll_event events[CLIENTS];
        int ready = epoll_wait(ep, events, CLIENTS, -1);

        for (int i = 0; i < ready; i++) {
            struct conn *c = events[i].data.ptr;

            exchange(c);
            if (!peer->answer(c))
                continue;
            now = now_nsec();
            all[n++] = (double)(now - c->begin) / 1e3;
            c->begin = now;
            peer->submit(c, "0123456789abcdef", SMALL, true);
            flush(c->fd, &c->out);
        }
    }
    say("clients=64", "ns/job", (double)(now - begin) / (double)n);
    say("clients=64,quantile=p99", "us", quantile(all, n, 0.99));
}

static void bench_payload(void)
{
    static const size_t sizes[] = {1 << 20, 64 << 20};
    char *payload = malloc(sizes[1]);
    struct conn *c = conn_new(1);

    memset(payload, 'x', sizes[1]);
    for (int i = 0; i < 2; i++) {
        unsigned rounds = i ? 3 : 100;
        char params[64];

        if (i && strcmp(peer->name, "nats") == 0)
            continue; /* 64 MiB is its limit, headers included */
        one(c, payload, sizes[i] - 64);
        uint64_t begin = now_nsec();
        for (unsigned k = 0; k < rounds; k++)
            one(c, payload, sizes[i] - 64); /* what a tag takes counts in the limits of some */
        snprintf(params, sizeof(params), "lane=socket,size=%zuMiB", sizes[i] >> 20);
        say(params, "ms", (double)(now_nsec() - begin) / 1e6 / rounds);
    }
    free(payload);
}

static void bench_queue(void)
{
    static char payload[64];
    struct conn *c = conn_new(1);
    uint64_t queued = 0, empty = server_memory();

    if (!peer->keep)
        return; /* it keeps nothing without a worker */
    memset(payload, 'x', sizeof(payload));
    for (uint64_t step = 1000; step <= 1000000; step *= 10) {
        uint64_t sent = queued, begin = now_nsec(), from = queued;
        char params[64];

        while (queued < step) {
            for (; sent < step && sent - queued < FLIGHT; sent++)
                peer->keep(c, payload, sizeof(payload));
            exchange(c);
            for (unsigned n; (n = peer->kept(c));)
                queued += n;
        }
        snprintf(params, sizeof(params), "queued=%llu", (unsigned long long)step);
        say(params, "ns/job", (double)(now_nsec() - begin) / (double)(step - from));
        if (step >= 100000) {
            snprintf(params, sizeof(params), "queued=%llu,memory=server", (unsigned long long)step);
            say(params, "bytes", (double)(server_memory() - empty) / (double)step);
        }
    }
}

static void bench_connections(void)
{
    for (unsigned n = 1000; n <= 10000; n *= 10) {
        static unsigned open_already;
        uint64_t before = server_memory();
        unsigned from = open_already;
        char params[64];

        for (; open_already < n; open_already++)
            conn_new(open_already + 2);
        snprintf(params, sizeof(params), "connections=%u", n);
        say(params, "KiB", (double)(server_memory() - before) / 1024 / (n - from));
    }
}

/* Jobs that are kept, each submitter with so many open; until so much time is over. */
static void bench_durable(const struct durable_form *form, const char *fsyncs)
{
    static double each[DURABLE_MAX];
    static char payload[DURABLE_SIZE];
    struct conn *conns[64];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    uint64_t n = 0, begin, now, last;

    memset(payload, 'x', sizeof(payload));
    for (unsigned i = 0; i < form->submitters; i++) {
        conns[i] = conn_new(i + 1);
        epoll_ctl(ep, EPOLL_CTL_ADD, conns[i]->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = conns[i]});
    }
    begin = now = last = now_nsec();
    for (unsigned i = 0; i < form->submitters; i++) {
        for (unsigned k = 0; k < form->flight; k++)
            peer->keep(conns[i], payload, sizeof(payload));
        flush(conns[i]->fd, &conns[i]->out);
    }
    while (now - begin < DURABLE_NSEC && n < DURABLE_MAX - OPEN_MAX) {
        struct epoll_event events[64];
        int ready = epoll_wait(ep, events, 64, -1);

        for (int i = 0; i < ready; i++) {
            struct conn *c = events[i].data.ptr;

            exchange(c);
            for (unsigned got; (got = peer->kept(c));) {
                now = now_nsec();
                each[n] = (double)(now - last) / 1e3;
                last = now;
                for (n += got; got > 0; got--)
                    peer->keep(c, payload, sizeof(payload));
            }
            flush(c->fd, &c->out);
        }
    }
    kill_servers(); /* what they hold is thrown away */
    say_durable(form, "", now - begin, n, each, fsyncs);
}

static void bench_raw(bool there)
{
    static double each[DURABLE_MAX];
    static char bytes[1 << 20];
    char name[] = BENCH_DIR "raw.XXXXXX";
    uint64_t n = 0, begin = now_nsec(), now = begin;
    off_t at = 0;
    int fd = mkostemp(name, O_CLOEXEC);

    if (fd < 0 || unlink(name) < 0 || (there && (write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || fsync(fd) < 0)))
        give_up("no file");
    for (; now - begin < DURABLE_NSEC && n < DURABLE_MAX; n++) {
        uint64_t last = now;

        if (pwrite(fd, bytes, DURABLE_SIZE, at) != DURABLE_SIZE || fdatasync(fd) < 0)
            give_up("fdatasync");
        at = there ? (at + DURABLE_SIZE) % (off_t)sizeof(bytes) : at + DURABLE_SIZE;
        now = now_nsec();
        each[n] = (double)(now - last) / 1e3;
    }
    close(fd);
    say_durable(&durable_forms[0], there ? ",room=there" : ",room=new", now - begin, n, each, NULL);
}

static void bench_start(uint64_t begin)
{
    struct conn *c = conn_new(1);

    one(c, "0123456789abcdef", SMALL);
    say("first=job", "ms", (double)(now_nsec() - begin) / 1e6);
}

/* One run, with a server of its own. */
static void with_server(const char *what, bool pinned, const struct durable_form *form, const char *fsyncs)
{
    static const char made[] = BENCH_DIR "peer.XXXXXX";
    char command[64];

    memcpy(dir, made, sizeof(dir));
    if (!mkdtemp(dir))
        give_up("no directory");
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(port, sizeof(port), "%d", PORT);
    if (pinned)
        pin_all();
    uint64_t begin = now_nsec();
    peer->start();
    if (strcmp(what, "queue") != 0 && strcmp(what, "connections") != 0 && !form)
        start_worker();
    if (!strcmp(what, "call"))
        bench_call(pinned ? "yes" : "no");
    else if (!strcmp(what, "pipeline"))
        bench_pipeline();
    else if (!strcmp(what, "clients"))
        bench_clients();
    else if (!strcmp(what, "payload"))
        bench_payload();
    else if (!strcmp(what, "queue"))
        bench_queue();
    else if (!strcmp(what, "connections"))
        bench_connections();
    else if (!strcmp(what, "start"))
        bench_start(begin);
    else if (form)
        bench_durable(form, fsyncs);
    end_servers();
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        give_up("rm");
}

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[2] : "";
    durable = strcmp(what, "durable") == 0;
    for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++)
        if (argc == 3 && strcmp(peers[i].name, argv[1]) == 0)
            peer = &peers[i];
    if (durable && strcmp(argv[1], "raw") == 0) {
        bench_raw(false);
        bench_raw(true);
        return 0;
    }
    if (!peer || (durable ? !peer->keep : !peer->work)) {
        fputs("usage: peer-service redis|nats|gearmand|beanstalkd BENCH, or redis|beanstalkd|rabbitmq|jetstream|raw "
              "durable\n",
              stderr);
        return 64;
    }
    raise_descriptors();
    if (durable) {
        for (unsigned i = 0; i < 2 * DURABLE_FORMS; i++)
            with_server(what, false, &durable_forms[i / 2], count_fsyncs(i % 2));
        return 0;
    }
    for (int pinned = 0; pinned <= (strcmp(what, "call") == 0); pinned++)
        with_server(what, pinned, NULL, NULL);
    return 0;
}
