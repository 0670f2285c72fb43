/* SPDX-License-Identifier: Apache-2.0
 *
 * neighbour.c: one user attacks, and another one calls a function every 2 ms. Run by root.
 *
 *     neighbour ATTACK N CALLS    WSD_SOCKET: where. TLS_PORT, TLS_CALL: for attacks on the TLS listener, its port on
 *                                 this machine, and a command that calls fib by TLS.
 *
 * While the neighbour makes CALLS calls, the attacker does whole rounds, and one at least. Each is of size N (0: the
 * default of the attack). Prints how long the calls took: `calls=N p50=USEC p99=USEC max=USEC`. Exits 1, and says why,
 * where an answer is wrong or missing, or the attack was not answered as it should be. The times never fail the test:
 * see tests/bench/run neighbour. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "conn.h"
#include "linger.h"

#include "base/async-close.h"
#include "base/hash.h"
#include "proto/records.h"

#define ATTACKER  1001u
#define NEIGHBOUR 1002u
#define STRANGER  1003u /* a user to which the configuration gives no right: see neighbour/attacks.sh */
#define CALLS_MAX 1000000u
#define GAP_NSEC  2000000u
#define LONG_USEC (3600ull * 1000000)
#define GAP_CALLS 10u /* in which what is done beside calls is done twice */
#define ROOM      (64 * 1024u)

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct msg job_of(const char *plugin, const char *arg)
{
    return (struct msg){.type = FRAME_SUBMIT,
                        .submit = {.plugin = {plugin, strlen(plugin)}, .args = {arg, strlen(arg) + 1}, .argc = 1}};
}

/* Many requests go in few writes. */
struct pile {
    struct conn *c;
    size_t size;
    uint8_t bytes[ROOM];
};

static void pile_flush(struct pile *p)
{
    conn_send_many(p->c, p->bytes, p->size);
    p->size = 0;
}

static void pile_put(struct pile *p, const struct msg *m, uint32_t tag)
{
    size_t n = codec_encode(m, tag, 0, p->bytes + p->size, sizeof(p->bytes) - p->size);

    if (n == 0) {
        pile_flush(p);
        n = codec_encode(m, tag, 0, p->bytes, sizeof(p->bytes));
    }
    if (n == 0)
        fail("cannot encode a %s: %s", codec_type_name(m->type), codec_problem(m));
    p->size += n;
}

/* Returns when wsd has answered all that was put before. */
static void settle(struct conn *c)
{
    uint8_t bytes[64];

    conn_send_many(c, bytes, codec_encode(&(struct msg){.type = FRAME_PING}, UINT32_MAX, 0, bytes, sizeof(bytes)));
    do
        next(c);
    while (c->msg.type != FRAME_PONG);
}

/* Reads n ends; accepts any. */
static void read_ends(struct conn *c, uint32_t n)
{
    for (uint32_t ended = 0; ended < n; ended += c->msg.type == FRAME_DONE || c->msg.type == FRAME_ERROR)
        next(c);
}

/* The id of a job that is not due for an hour. */
static struct msg_id later(struct conn *c, uint32_t tag)
{
    struct msg m = job_of("fib", "1");

    m.submit.delay_usec = LONG_USEC;
    put(c, &m, tag, NULL, 0);
    do
        next(c);
    while (c->frame.tag != tag);
    if (c->msg.type != FRAME_ACCEPTED)
        fail("%s", c->msg.type == FRAME_ERROR ? c->msg.error.text.data : codec_type_name(c->msg.type));
    return c->msg.id;
}

/* --- the attacks: one round each ---------------------------------------------------------------------------------- */

static void nothing(uint32_t n)
{
    (void)n;
    usleep(100000);
}

/* Sends n descriptors over a connection, twice. Their last close waits for minutes. A child process sends them and
 * closes its own copies at once. Where its close is the last one nevertheless, or the kernel takes no more of
 * this user's, the child waits, until its alarm. */
static void give_away(uint32_t n, bool stranger)
{
    int status;

    lingering_room(2 * n);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd, fds[2 * 253];

        alarm(1);
        for (uint32_t i = 0; i < 2 * n; i++)
            fds[i] = with_lingering_inside();
        if (stranger) {
            snprintf(a.sun_path, sizeof(a.sun_path), "%s", getenv("WSD_SOCKET"));
            fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
                fail("connect: %s", strerror(errno));
        } else {
            fd = open_conn(0)->fd;
        }
        if (send_descriptors(fd, "x", 1, n, fds))
            send_descriptors(fd, "x", 1, n, fds + n);
        for (uint32_t i = 0; i < 2 * n; i++) /* as wsd does, and begins earlier */
            close(fds[i]);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || (status != 0 && WTERMSIG(status) != SIGALRM))
        fail("the process that gives descriptors away has failed");
}

/* Until wsd is in the last close of as many. */
static void lingering_from(uint32_t n, bool stranger, unsigned blocked)
{
    do
        give_away(n, stranger);
    while (lingering_closes() < blocked);
}

/* What such an attack costs where no close waits: what is left are CPUs. */
static void plain_descriptors(uint32_t n)
{
    lingering_on = 0;
    give_away(n, false);
}

static void lingering_descriptors(uint32_t n)
{
    lingering_from(n, false, 1);
}

/* The same by a user without rights. */
static void lingering_of_a_stranger(uint32_t n)
{
    lingering_from(n, true, 1);
}

/* Takes as many of the threads that close for wsd as one user can have; n times over, others wait behind them. */
static void closers_taken(uint32_t n)
{
    static uint32_t given; /* by all rounds: they stay */

    for (; given < n && lingering_closes() < ASYNC_CLOSERS; given++)
        give_away(30, false);
    if (lingering_closes() < ASYNC_CLOSERS_EACH)
        fail("wsd is in the last close of %u only", lingering_closes());
    usleep(1000);
}

/* The descriptor of the neighbour, an unrequested pipe, is closed, too. */
static void closes_for_the_neighbour(void)
{
    struct conn *c = open_conn(0);
    int pipes[2];
    char byte;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        fail("pipe: %s", strerror(errno));
    if (!send_descriptors(c->fd, "x", 1, 1, &pipes[1]))
        fail("wsd closed the neighbour's connection");
    close(pipes[1]);
    if (poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, 60000) != 1)
        fail("what the neighbour brought is not closed");
    if (read(pipes[0], &byte, 1) != 0)
        fail("the neighbour's pipe has a byte");
    close(pipes[0]);
    hang_up(c);
}

/* One connection that follows a job n times, and goes. */
static void followers(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct pile p = {.c = c};
    struct msg await = {.type = FRAME_AWAIT, .id = later(c, 1)};

    for (uint32_t tag = 2; tag < n + 2; tag++)
        pile_put(&p, &await, tag);
    pile_flush(&p);
    settle(c);
    hang_up(c);
}

/* One with n jobs of its own that are not due, and that goes. */
static void open_submits(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "1");

    m.submit.delay_usec = LONG_USEC;
    m.submit.flags = SUBMIT_QUIET;
    for (uint32_t tag = 1; tag < n + 1; tag++)
        pile_put(&p, &m, tag);
    pile_flush(&p);
    settle(c);
    hang_up(c);
}

static uint64_t unshift(uint64_t x, unsigned by) /* of x ^ x >> by */
{
    uint64_t r = x;

    for (unsigned i = 0; i * by < 64; i++)
        r = x ^ r >> by;
    return r;
}

static uint64_t unmix(uint64_t x) /* of hash_mix() */
{
    x = unshift(x, 31) * 0x319642b2d24d8ec3u;
    x = unshift(x, 27) * 0x96de1b173f119089u;
    return unshift(x, 30);
}

/* Whether this frame is the last of an array: it was forgotten, or all of it is refused, as its user has too many. */
static bool is_over(const struct conn *c)
{
    if (c->msg.type == FRAME_ERROR)
        fail("%s", c->msg.error.text.data);
    return c->msg.type == FRAME_END || (c->msg.type == FRAME_ENDS && c->msg.ends.last);
}

/* n arrays of jobs that are not due, forgotten in one write. */
static void forgotten_arrays(uint32_t n)
{
    enum { ITEMS = 2048 };
    static uint8_t body[ITEMS * CODEC_ITEM_SIZE];
    struct conn *c = open_with(1 << 20, "/", FEATURE_ARRAY | FEATURE_ENDS | FEATURE_TIME | FEATURE_FORGET);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "1");
    uint32_t over = 0;

    empty_items(body, ITEMS);
    m.type = FRAME_ARRAY;
    m.submit.args.size = m.submit.argc = 0;
    m.submit.items = ITEMS;
    m.submit.delay_usec = LONG_USEC;
    for (uint32_t tag = 2; tag < n + 2; tag++)
        put(c, &m, tag, body, sizeof(body));
    pile_put(&p, &(struct msg){.type = FRAME_PING}, UINT32_MAX);
    pile_flush(&p);
    for (next(c); c->msg.type != FRAME_PONG; next(c))
        over += is_over(c);
    for (uint32_t tag = 2; tag < n + 2; tag++)
        pile_put(&p, &(struct msg){.type = FRAME_FORGET}, tag);
    for (pile_flush(&p); over < n; over += is_over(c))
        next(c);
    hang_up(c);
}

/* Sends the attacker's executors a signal. Returns how many there are. */
static uint32_t signal_executors(int signal)
{
    DIR *proc = opendir("/proc");
    uint32_t n = 0;

    if (!proc)
        fail("/proc: %s", strerror(errno));
    for (struct dirent *e; (e = readdir(proc));) {
        char path[300], line[256];
        bool executor = false;
        unsigned uid = 0;

        snprintf(path, sizeof(path), "/proc/%s/status", e->d_name);
        FILE *f = atoi(e->d_name) > 0 ? fopen(path, "re") : NULL;
        while (f && fgets(line, sizeof(line), f) && sscanf(line, "Uid: %u", &uid) != 1)
            executor |= strcmp(line, "Name:\twsd-executor\n") == 0;
        if (f)
            fclose(f);
        if (executor && uid == geteuid())
            n += kill(atoi(e->d_name), signal) == 0;
    }
    closedir(proc);
    return n;
}

/* n jobs that wait while their executor, a new one, is stopped before it has loaded anything; then it goes on. */
static void put_while_stopped(struct conn *c, const struct msg *m, uint32_t n)
{
    struct pile p = {.c = c};
    uint32_t ended = 0;

    while (signal_executors(SIGKILL))
        ;
    pile_put(&p, m, 1);
    pile_flush(&p);
    while (!ended && !signal_executors(SIGSTOP)) /* it may be refused, or have crashed */
        ended = next_in(c, 0) && (c->msg.type == FRAME_DONE || c->msg.type == FRAME_ERROR);
    for (uint32_t tag = 2; tag < n + 1; tag++)
        pile_put(&p, m, tag);
    pile_put(&p, &(struct msg){.type = FRAME_PING}, UINT32_MAX);
    pile_flush(&p);
    while (ended < n) { /* some may have an answer already: what is refused at once */
        next(c);
        ended += c->msg.type == FRAME_DONE || c->msg.type == FRAME_ERROR;
        if (c->msg.type == FRAME_PONG)
            signal_executors(SIGCONT);
    }
    signal_executors(SIGCONT);
}

/* n jobs wait for a load, which ends. */
static void jobs_of_a_slow_load(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct msg m = job_of("fib", "1");

    m.submit.flags = SUBMIT_QUIET;
    put_while_stopped(c, &m, n);
    hang_up(c);
}

/* n jobs wait in the queue, of a function that crashes until none of them may run. */
static void jobs_of_a_broken_function(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct msg m = job_of("crash", "1"), release = {.type = FRAME_RELEASE};

    m.submit.function = (struct span){"segv", 4};
    m.submit.flags = SUBMIT_QUIET;
    release.release.name = (struct span){"crash", 5};
    put(c, &release, UINT32_MAX - 1, NULL, 0);
    next(c);
    put_while_stopped(c, &m, n);
    hang_up(c);
}

/* n jobs wait for an executor, and each dies before it is ready. */
static void jobs_without_executor(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "1");

    m.submit.flags = SUBMIT_QUIET;
    signal_executors(SIGKILL);
    for (uint32_t tag = 1; tag < n + 1; tag++) {
        pile_put(&p, &m, tag);
        if (tag % 1000 == 0)
            signal_executors(SIGKILL);
    }
    pile_flush(&p);
    for (uint32_t ended = 0; ended < n;) {
        signal_executors(SIGKILL);
        while (ended < n && next_in(c, 0))
            ended += c->msg.type == FRAME_DONE || c->msg.type == FRAME_ERROR;
    }
    hang_up(c);
}

/* Arrays of brief jobs, 4 times n of them, which wait; and a list of all jobs. */
static void bundles_listed(uint32_t n)
{
    enum { ITEMS = 4096 };
    static uint8_t body[ITEMS * (CODEC_ITEM_SIZE + 2)];
    struct conn *c = open_with(1 << 20, "/", FEATURE_ARRAY | FEATURE_ENDS | FEATURE_ALIKE | FEATURE_WHERE);
    struct msg m = job_of("fib", "1");
    uint8_t *at = body;

    for (uint32_t i = 0; i < n; i++) {
        codec_put_item(&(struct msg_item){.argc = 1, .args.size = 2}, at);
        memcpy(at + CODEC_ITEM_SIZE, "1", 2);
        at += CODEC_ITEM_SIZE + 2;
    }
    m.type = FRAME_ARRAY;
    m.submit.args.size = m.submit.argc = 0;
    m.submit.items = n;
    for (uint32_t tag = 1, stops = 0; tag < 7; tag++) { /* the first two: it is known to be brief */
        if (tag > 2 && !stops++)
            signal_executors(SIGSTOP);
        put(c, &m, tag, body, (size_t)(at - body));
        while (tag < 3 && !(next_in(c, 60000) && c->msg.type == FRAME_ENDS && c->msg.ends.last))
            ;
    }
    put(c, &(struct msg){.type = FRAME_LIST_WHERE, .filter = {.plugin = {"none", 4}}}, 100, NULL, 0);
    bool listed = false;
    for (uint32_t ended = 0; ended < 4 || !listed; ended += c->msg.type == FRAME_ENDS && c->msg.ends.last) {
        next(c);
        listed |= c->frame.tag == 100;
        if (listed)
            signal_executors(SIGCONT);
    }
    hang_up(c);
}

/* n jobs, each with an idempotency key that has the same value under the hash without a secret that wsd once had. */
static void colliding_keys(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_STORE | FEATURE_BRIEF | FEATURE_WHERE);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "1");
    uint64_t words[3] = {0}, seed = hash_mix(geteuid() ^ 0x100 ^ 16);

    if (unmix(hash_mix(12345)) != 12345)
        fail("the hash is not the one whose keys are made here");
    m.submit.delay_usec = LONG_USEC;
    m.submit.flags = SUBMIT_QUIET;
    m.submit.key = (struct span){(char *)words, 16};
    for (uint32_t tag = 1, salt = 1; tag < n + 1; salt++) {
        uint64_t state = hash_mix(salt) | 0x0101010101010101u;

        words[0] = state;
        words[1] = unmix(0x1234567890abcdefu) ^ hash_mix(seed ^ state);
        if (strlen((char *)words) == 16)
            pile_put(&p, &m, tag++);
    }
    pile_flush(&p);
    settle(c);
    /* they would outlive the connection */
    put(c, &(struct msg){.type = FRAME_CANCEL_WHERE, .filter = {.states = CODEC_STATES}}, UINT32_MAX - 1, NULL, 0);
    do
        next(c);
    while (c->frame.tag != UINT32_MAX - 1);
    if (c->msg.type != FRAME_COUNT)
        fail("they are not cancelled: %s",
             c->msg.type == FRAME_ERROR ? c->msg.error.text.data : codec_type_name(c->msg.type));
    settle(c);
    hang_up(c);
}

/* n open requests. The low bits of the hash are the same for all of their tags. */
static void colliding_tags(uint32_t n)
{
    struct conn *c = open_conn(1 << 20);
    struct pile p = {.c = c};
    struct msg await = {.type = FRAME_AWAIT, .id = later(c, UINT32_MAX - 1)};

    for (uint32_t tag = 1, done = 0; done < n && tag < UINT32_MAX - 1; tag++)
        if ((hash_mix(tag) & 0xfff) == 0) {
            pile_put(&p, &await, tag);
            done++;
        }
    pile_flush(&p);
    settle(c);
    hang_up(c);
}

/* As many such requests as `bytes` holds. Each has a tag of its own, since wsd hangs up on the tag of an open one. */
static size_t fill(uint8_t *bytes, size_t room, const struct msg *requests, size_t n_requests, uint32_t *tag)
{
    size_t size = 0;

    for (; size + 256 < room; ++*tag)
        size += codec_encode(&requests[*tag % n_requests], *tag, 0, bytes + size, room - size);
    return size;
}

/* n connections, each full of such requests: all that wsd and its socket take of them. The answers are not read. */
static void crowded(uint32_t n, const struct msg *requests, size_t n_requests, size_t bytes_each)
{
    struct conn **flood = calloc(n, sizeof(*flood));
    uint8_t bytes[ROOM];

    if (!flood)
        fail("no memory");
    for (uint32_t i = 0; i < n; i++)
        flood[i] = open_conn(1 << 20);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tag = 2;
        size_t size = 0, at = 0;

        for (size_t sent = 0; sent < bytes_each;) {
            ssize_t r;

            if (at == size) {
                size = fill(bytes, sizeof(bytes), requests, n_requests, &tag);
                at = 0;
            }
            r = send(flood[i]->fd, bytes + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (r < 0 && errno != EAGAIN)
                fail("send: %s", strerror(errno));
            if (r < 0)
                break;
            sent += (size_t)r;
            at += (size_t)r;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        hang_up(flood[i]);
    free(flood);
}

static void crowded_credits(uint32_t n)
{
    crowded(n, &(struct msg){.type = FRAME_CREDIT}, 1, 200 * 1024);
}

static void crowded_questions(uint32_t n)
{
    crowded(n, &(struct msg){.type = FRAME_STATS}, 1, 200 * 1024);
}

static void crowded_lists(uint32_t n)
{
    const struct msg m[] = {{.type = FRAME_PLUGINS}, {.type = FRAME_WORKERS}, {.type = FRAME_LIMIT}};

    crowded(n, m, sizeof(m) / sizeof(m[0]), 200 * 1024);
}

static void crowded_refusals(uint32_t n)
{
    const struct msg m[] = {job_of("no-such-plugin", "x"), job_of("no-such-plugin-either", "x")};

    crowded(n, m, 2, 200 * 1024);
}

/* n durable jobs that do nothing, as fast as they are acknowledged. */
static void durable_jobs(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_STORE);
    struct msg m = job_of("fib", "1");

    m.submit.flags = SUBMIT_DURABLE;
    for (uint32_t at = 0; at < n; at += 500) {
        struct pile p = {.c = c};
        uint32_t some = n - at < 500 ? n - at : 500;

        for (uint32_t tag = 1; tag <= some; tag++)
            pile_put(&p, &m, tag);
        pile_flush(&p);
        read_ends(c, some);
    }
    hang_up(c);
}

/* n results of 1 MiB at once, that are all read. */
static void large_outputs(uint32_t n)
{
    struct conn *c = open_conn(64 << 20);
    struct pile p = {.c = c};
    struct msg m = job_of("bigoutput", "1048576");

    for (uint32_t tag = 1; tag <= n; tag++)
        pile_put(&p, &m, tag);
    pile_flush(&p);
    read_ends(c, n);
    hang_up(c);
}

/* A job that does nothing but give output, which n on its connection follow from before it begins. It is read for a
 * while. */
static void output_followers(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_TIME);
    struct pile p = {.c = c};
    struct msg m = job_of("bigoutput", "1000000000");

    m.submit.delay_usec = 200000;
    put(c, &m, 1, NULL, 0);
    do
        next(c);
    while (c->msg.type != FRAME_ACCEPTED);
    struct msg await = {.type = FRAME_AWAIT, .id = c->msg.id};
    for (uint32_t tag = 2; tag < n + 2; tag++)
        pile_put(&p, &await, tag);
    pile_flush(&p);
    for (uint32_t i = 0; i < n / 10; i++)
        next(c);
    hang_up(c);
}

/* A batch of a few jobs, followed by n on its connection, which want to see its progress. */
static void batch_followers(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_ARRAY | FEATURE_ENDS);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "20"),
               batch = {.type = FRAME_BATCH, .batch = {.action = BATCH_OPEN, .flags = BATCH_PROGRESS}};

    put(c, &batch, 1, NULL, 0);
    expect(c, FRAME_BATCH_STATE, 1);
    batch.batch.action = BATCH_AWAIT;
    memcpy(batch.batch.id.id, c->msg.batch_state.id, sizeof(batch.batch.id.id));
    batch.batch.id.has_id = true;
    for (uint32_t tag = 2; tag < n + 2; tag++)
        pile_put(&p, &batch, tag);
    pile_flush(&p);
    m.submit.batch = 1;
    for (uint32_t i = 0; i < 3; i++) { /* the next one after the progress of this one */
        put(c, &m, n + 2 + i, NULL, 0);
        do
            next(c);
        while (c->frame.tag != 1 || c->msg.type != FRAME_BATCH_STATE || c->msg.batch_state.done <= i);
    }
    batch.batch = (struct msg_batch){.action = BATCH_CLOSE};
    put(c, &batch, 1, NULL, 0);
    for (uint32_t ended = 0; ended < n + 1;) {
        next(c);
        ended += c->msg.type == FRAME_BATCH_STATE && c->msg.batch_state.flags & BATCH_ENDED;
    }
    hang_up(c);
}

/* A job that is not due, n behind it, each behind the one before it; all are cancelled by the loss of the
 * connection. */
static void after_chain(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_TIME | FEATURE_ORDER);
    struct msg m = job_of("fib", "1");
    struct msg_id before = later(c, 1);

    m.submit.after = (struct span){(char *)before.id, sizeof(before.id)};
    for (uint32_t tag = 2; tag < n + 2; tag++) {
        put(c, &m, tag, NULL, 0);
        expect(c, FRAME_ACCEPTED, tag);
        memcpy(before.id, c->msg.id.id, sizeof(before.id));
    }
    put(c, &(struct msg){.type = FRAME_CANCEL}, 1, NULL, 0);
    read_ends(c, n + 1);
    hang_up(c);
}

/* n jobs that wait for the same one, which is cancelled. */
static void after_fan(uint32_t n)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_TIME | FEATURE_ORDER);
    struct pile p = {.c = c};
    struct msg m = job_of("fib", "1");
    struct msg_id before = later(c, 1);

    m.submit.after = (struct span){(char *)before.id, sizeof(before.id)};
    for (uint32_t tag = 2; tag < n + 2; tag++)
        pile_put(&p, &m, tag);
    pile_flush(&p);
    settle(c);
    put(c, &(struct msg){.type = FRAME_CANCEL}, 1, NULL, 0);
    read_ends(c, n + 1);
    hang_up(c);
}

/* n jobs that each wait for the same 1,024, which are not due; then the connection goes. */
static void after_join(uint32_t n)
{
    enum { MANY = CODEC_AFTER_MAX };
    struct conn *c = open_with(1 << 20, "/", FEATURE_TIME | FEATURE_ORDER);
    struct msg m = job_of("fib", "1");
    static char ids[MANY][16];

    for (uint32_t i = 0; i < MANY; i++) {
        struct msg_id one = later(c, i + 1);

        memcpy(ids[i], one.id, sizeof(ids[i]));
    }
    m.submit.after = (struct span){ids[0], sizeof(ids)};
    for (uint32_t tag = MANY + 1; tag <= MANY + n; tag++)
        put(c, &m, tag, NULL, 0);
    settle(c);
    hang_up(c);
}

/* n connections with a direct lane each. */
static void lanes(uint32_t n)
{
    struct conn **all = calloc(n, sizeof(*all));

    for (uint32_t i = 0; all && i < n; i++) {
        all[i] = open_with(1 << 20, "/", FEATURE_LANE);
        put(all[i], &(struct msg){.type = FRAME_LANE_OPEN}, 1, NULL, 0);
        next(all[i]); /* a lane, or that there are too many */
    }
    for (uint32_t i = 0; all && i < n; i++)
        hang_up(all[i]);
    free(all);
}

/* n arenas of 64 KiB, eight a connection. */
static void arenas(uint32_t n)
{
    struct conn **all = calloc(n / 8 + 1, sizeof(*all));

    for (uint32_t i = 0; all && i < n; i++) {
        struct conn *c = all[i / 8];
        uint8_t bytes[64];
        int fd = arena_file();

        if (!c)
            c = all[i / 8] = open_with(1 << 20, "/", FEATURE_PAYLOAD);
        if (!send_descriptors(c->fd, bytes,
                              codec_encode(&(struct msg){.type = FRAME_ARENA_OPEN}, i + 1, 0, bytes, sizeof(bytes)), 1,
                              &fd))
            fail("wsd hung up");
        close(fd);
        next(c);
    }
    for (uint32_t i = 0; all && i <= n / 8; i++)
        if (all[i])
            hang_up(all[i]);
    free(all);
}

/* Waiters at a descriptor. */
static void sit(int fd, uint32_t n)
{
    enum { DUPS = 1000 };
    int dups[DUPS];

    for (uint32_t i = 0; i < DUPS; i++)
        dups[i] = dup(fd);
    for (uint32_t made = 0; made < n; made += DUPS) {
        int e = epoll_create1(EPOLL_CLOEXEC);

        for (uint32_t i = 0; i < DUPS; i++)
            if (epoll_ctl(e, EPOLL_CTL_ADD, dups[i], &(struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET}) < 0)
                fail("no waiter: %s", strerror(errno));
    }
}

/* n waiters at the attacker's end of its connection, and requests that come in pieces of a byte. */
static void waiters(uint32_t n)
{
    static struct conn *c; /* of all rounds */
    uint8_t bytes[64];
    size_t size = codec_encode(&(struct msg){.type = FRAME_PING}, 1, 0, bytes, sizeof(bytes));

    if (!c) {
        c = open_conn(1 << 20);
        sit(c->fd, n);
    }
    for (size_t i = 0; i < size; i++)
        conn_send_many(c, bytes + i, 1);
    do
        next(c);
    while (c->msg.type != FRAME_PONG);
}

/* A job that ends well. */
static void job(struct conn *c, const char *function, uint32_t n)
{
    char arg[16];

    snprintf(arg, sizeof(arg), "%u", n);
    struct msg m = job_of("waiters", arg);
    m.submit.function = (struct span){function, strlen(function)};
    put(c, &m, 1, NULL, 0);
    do
        next(c);
    while (c->msg.type != FRAME_DONE && c->msg.type != FRAME_ERROR);
    if (c->msg.type == FRAME_ERROR || c->msg.job.state != CODEC_STATE_FINAL || c->msg.job.exit != 0)
        fail("%s has failed: %s", function,
             c->msg.type == FRAME_ERROR ? c->msg.error.text.data : c->msg.job.error.data);
}

/* The same at what an executor has of wsd, which it makes much use of. */
static void waiters_of_an_executor(uint32_t n)
{
    static struct conn *c;

    if (!c) {
        c = open_conn(1 << 20);
        job(c, "sit", n);
    }
    job(c, "talk", 1000);
}

/* To the TLS listener. It waits for nothing. */
static int slow_open(void)
{
    /* a record, a ClientHello in it, a version; 509 bytes more */
    static const uint8_t half_hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)atoi(getenv("TLS_PORT")))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        fail("connect: %s", strerror(errno));
    (void)!send(fd, half_hello, sizeof(half_hello), MSG_DONTWAIT | MSG_NOSIGNAL);
    return fd;
}

/* n connections that have each sent half a ClientHello, and send a byte now and then. Of those that wsd closes a few
 * come again: it is no flood. */
static void slow_handshakes(uint32_t n)
{
    enum { AGAIN = 8 }; /* of the 64 that wsd takes */
    static int *all;    /* by all rounds: they stay */
    uint32_t opened = 0;

    if (!all) {
        all = calloc(n, sizeof(*all));
        for (uint32_t i = 0; all && i < n; i++)
            all[i] = slow_open();
    }
    for (uint32_t i = 0; all && i < n; i++) {
        if (send(all[i], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || opened == AGAIN)
            continue;
        close(all[i]);
        all[i] = slow_open();
        opened++;
    }
    usleep(20000);
}

/* A client of another machine has to shake hands, too. */
static void tls_call_of_the_neighbour(void)
{
    char command[4096], got[64] = "";

    snprintf(command, sizeof(command), "%s 9", getenv("TLS_CALL"));
    FILE *f = popen(command, "re");
    if (!f || !fgets(got, sizeof(got), f) || strcmp(got, "34\n") != 0 || pclose(f) != 0)
        fail("the neighbour's call by TLS said `%s'", got);
}

#define ATTACK(function, few, full)                                                                                    \
    {                                                                                                                  \
#function, function, few, full                                                                                 \
    }
static const struct {
    const char *name;
    void (*round)(uint32_t n);
    uint32_t few, full; /* sizes: of a usual run, of one with WSD_THOROUGH */
} attacks[] = {
    ATTACK(nothing, 0, 0),
    ATTACK(plain_descriptors, 30, 120),
    ATTACK(lingering_descriptors, 30, 120),
    ATTACK(lingering_of_a_stranger, 30, 120),
    ATTACK(closers_taken, 40, 60),
    ATTACK(followers, 20000, 100000),
    ATTACK(open_submits, 20000, 900000),
    ATTACK(forgotten_arrays, 10, 200),
    ATTACK(jobs_of_a_slow_load, 2000, 100000),
    ATTACK(jobs_of_a_broken_function, 2000, 100000),
    ATTACK(jobs_without_executor, 2000, 100000),
    ATTACK(bundles_listed, 1000, 4096),
    ATTACK(colliding_keys, 10000, 75000),
    ATTACK(colliding_tags, 4000, 20000),
    ATTACK(crowded_credits, 100, 500),
    ATTACK(crowded_questions, 100, 3000),
    ATTACK(crowded_lists, 4, 16),
    ATTACK(crowded_refusals, 4, 16),
    ATTACK(durable_jobs, 2000, 101000),
    ATTACK(large_outputs, 60, 60),
    ATTACK(output_followers, 500, 20000),
    ATTACK(batch_followers, 2000, 100000),
    ATTACK(after_chain, 2000, 10000),
    ATTACK(after_fan, 2000, 10000),
    ATTACK(after_join, 20, 1000),
    ATTACK(lanes, 100, 1000),
    ATTACK(arenas, 100, 1000),
    ATTACK(waiters, 20000, 1000000),
    ATTACK(waiters_of_an_executor, 20000, 200000),
    ATTACK(slow_handshakes, 100, 1000),
};

/* What the neighbour does beside its calls. */
static void (*beside_of(void (*round)(uint32_t n)))(void)
{
    if (round == closers_taken)
        return closes_for_the_neighbour;
    return round == slow_handshakes ? tls_call_of_the_neighbour : NULL;
}

/* --- the neighbour ------------------------------------------------------------------------------------------------ */

static uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One call: its answer is the right one. */
static void call(struct conn *c, uint32_t i)
{
    static const unsigned fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    struct msg m;
    char arg[16], wanted[16], got[16] = "";
    size_t n = 0;

    snprintf(arg, sizeof(arg), "%u", i % 10);
    snprintf(wanted, sizeof(wanted), "%u\n", fib[i % 10]);
    m = job_of("fib", arg);
    put(c, &m, i + 1, NULL, 0);
    for (next(c); c->msg.type != FRAME_DONE; next(c)) {
        if (c->frame.tag != i + 1)
            fail("the neighbour has an answer of another call");
        if (c->msg.type == FRAME_ERROR)
            fail("the neighbour is refused: %s", c->msg.error.text.data);
        if (c->msg.type == FRAME_OUTPUT && c->frame.body_size < sizeof(got) - n) {
            memcpy(got + n, c->frame.body, c->frame.body_size);
            n += c->frame.body_size;
        }
    }
    if (c->msg.job.state != CODEC_STATE_FINAL || strcmp(got, wanted) != 0)
        fail("the neighbour's call ended in state %u with `%s' where `%s' was right", c->msg.job.state, got, wanted);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Becomes that user, with as many descriptors as root may have. */
static void become(uint32_t uid)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        fail("cannot become user %u: %s", uid, strerror(errno));
}

struct progress {
    atomic_bool stands; /* one round is over */
    /* the neighbour has made its calls; where something is done beside them, GAP_CALLS of them behind the first
     * round */
    atomic_bool enough;
};

/* A call is late from the time at which it was to begin: one that has to wait delays those behind it, and each is
 * counted. */
static void be_the_neighbour(pid_t attacker, uint32_t calls, void (*beside)(void), struct progress *progress)
{
    uint64_t *took = calloc(CALLS_MAX, sizeof(*took));
    struct conn *c = open_conn(1 << 20);
    uint64_t due = now_nsec();
    uint32_t n = 0;
    int status = 0;
    bool done = false;

    for (; took && !done && n < CALLS_MAX; n++) {
        uint64_t now = now_nsec();

        if (now < due) {
            struct timespec t = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};

            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
            due = now_nsec(); /* how late this process was woken is not wsd's doing */
        }
        call(c, n);
        took[n] = now_nsec() - due;
        due += GAP_NSEC;
        bool stands = atomic_load_explicit(&progress->stands, memory_order_relaxed); /* set by the attacker */
        if (beside && stands && n % (GAP_CALLS / 2) == 0)
            beside();
        if (beside && !stands)
            calls = n + 1 + GAP_CALLS;
        if (n + 1 >= calls)
            /* read by the attacker between its rounds */
            atomic_store_explicit(&progress->enough, true, memory_order_relaxed);
        done = waitpid(attacker, &status, WNOHANG) == attacker;
    }
    if (!done)
        fail("the attack does not end");
    if (status != 0)
        exit(1); /* it has said why */
    for (uint32_t i = 0; i < 20; i++)
        call(c, n + i);
    hang_up(c);
    qsort(took, n, sizeof(*took), compare);
    printf("calls=%u p50=%.0f p99=%.0f max=%.0f\n", n, (double)took[n / 2] / 1e3,
           (double)took[(uint64_t)n * 99 / 100] / 1e3, (double)took[n - 1] / 1e3);
    free(took);
}

int main(int argc, char **argv)
{
    const char *thorough = getenv("WSD_THOROUGH");
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; argc == 4 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        uint32_t n = (uint32_t)strtoul(argv[2], NULL, 10);

        if (strcmp(attacks[i].name, argv[1]) != 0)
            continue;
        name = attacks[i].name;
        if (n == 0)
            n = thorough && *thorough ? attacks[i].full : attacks[i].few;
        signal(SIGPIPE, SIG_IGN);
        pid_t attacker = fork();
        if (progress == MAP_FAILED || attacker < 0)
            fail("no process: %s", strerror(errno));
        if (attacker == 0) {
            alarm(600);
            become(attacks[i].round == lingering_of_a_stranger ? STRANGER : ATTACKER);
            do {
                attacks[i].round(n);
                atomic_store_explicit(&progress->stands, true, memory_order_relaxed); /* read by the neighbour */
            } while (!atomic_load_explicit(&progress->enough, memory_order_relaxed)); /* set by the neighbour */
            return 0;
        }
        alarm(600);
        become(NEIGHBOUR);
        be_the_neighbour(attacker, (uint32_t)strtoul(argv[3], NULL, 10), beside_of(attacks[i].round), progress);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
            if (attacks[i].round != slow_handshakes || getenv("TLS_PORT"))
                puts(attacks[i].name);
        return 0;
    }
    fprintf(stderr, "usage: neighbour ATTACK N CALLS | neighbour --list\n");
    return 64;
}
