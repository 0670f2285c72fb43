/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd.c: many clients that behave badly at once, and an innocent one that has its jobs done meanwhile. One case a
 * run: prints `ok NAME` or `FAIL NAME: why`, exits 0 or 1.
 *
 *     crowd CASE        WSD_SOCKET: where; WSD_PID: of that wsd, to read its memory use; WSD_RELAY: a socket that
 *                       leads to it by TLS */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"
#include "linger.h"

#include "base/code.h"
#include "proto/records.h"

#define TICK_MSEC 100
#define MIB       (1ull << 20)

/* False where the stream has ended. */
static bool next_or_end(struct conn *c)
{
    enum next r = conn_next(c, WAIT_MSEC);

    if (r == NEXT_LATE)
        fail("an answer does not come");
    return r == NEXT_FRAME;
}

/* kill() returns before the process has stopped, which may read what it is sent next. Its main thread is its loop. */
static void stop(pid_t wsd)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", wsd);
    kill(wsd, SIGSTOP);
    for (const char *state = NULL; !state || strncmp(state, ") T", 3) != 0; state = strrchr(text, ')')) {
        FILE *f = fopen(path, "re");

        if (!f || !fgets(text, sizeof(text), f))
            fail("%s: %s", path, strerror(errno));
        fclose(f);
    }
}

static struct msg job_of(const char *plugin, const char *arg)
{
    return (struct msg){.type = FRAME_SUBMIT,
                        .submit = {.plugin = {plugin, strlen(plugin)}, .args = {arg, strlen(arg) + 1}, .argc = 1}};
}

static void submit(struct conn *c, uint32_t tag, const char *plugin, const char *arg)
{
    struct msg m = job_of(plugin, arg);

    put(c, &m, tag, NULL, 0);
}

static uint64_t counter(struct conn *c, const char *counter_name)
{
    put(c, &(struct msg){.type = FRAME_STATS}, 1, NULL, 0);
    next(c);
    for (size_t i = 0; c->msg.type == FRAME_COUNTERS && i < c->msg.stats.n_counters; i++)
        if (strcmp(c->msg.stats.counters[i].name.data, counter_name) == 0)
            return c->msg.stats.counters[i].value;
    fail("there is no counter %s", counter_name);
}

static void pause_msec(long msec)
{
    nanosleep(&(struct timespec){.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000}, NULL);
}

static void wait_for_counter(struct conn *c, const char *counter_name, uint64_t value)
{
    for (int i = 0; counter(c, counter_name) != value; i++) {
        if (i > WAIT_MSEC / 10)
            fail("%s does not become %llu", counter_name, (unsigned long long)value);
        pause_msec(10);
    }
}

static uint64_t memory_of_wsd(void)
{
    char path[64], line[256];
    unsigned long long kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", atoi(getenv("WSD_PID")));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmRSS: %llu", &kib) == 1)
            break;
    if (!f || kib == 0)
        fail("cannot see wsd's memory");
    fclose(f);
    return kib * 1024;
}

/* A sanitizer's own memory is none of ours. */
static void expect_growth(uint64_t before, uint64_t most)
{
    const char *scale = getenv("TIME_SCALE");
    uint64_t now = memory_of_wsd();

    most *= scale && atoi(scale) > 1 ? 4 : 1;
    if (now > before + most)
        fail("wsd has grown by %llu MiB, and %llu were expected at most", (unsigned long long)((now - before) / MIB),
             (unsigned long long)(most / MIB));
}

/* Runs n jobs of the innocent client, one behind the other: each succeeds. */
static void innocent_jobs(struct conn *c, uint32_t n)
{
    for (uint32_t tag = 1; tag <= n; tag++) {
        submit(c, tag, "echo", "x");
        for (next(c); c->msg.type != FRAME_DONE; next(c))
            if (c->msg.type == FRAME_ERROR)
                fail("an innocent job: %s", c->msg.error.text.data);
        if (c->msg.job.state != 5)
            fail("an innocent job ended in state %u", c->msg.job.state);
    }
}

/* --- the cases ---------------------------------------------------------------------------------------------------- */

/* A frame that comes a byte at a time and not within frame-timeout, however busy the bytes: its sender is told, and
 * others are served at each step. One that comes so in time is answered. */
static void writers_of_single_bytes(void)
{
    enum { N = 50 };
    struct conn *slow[N], *innocent = open_conn(1 << 20), *fast = open_conn(0);
    uint8_t ping[FRAME_HEADER_SIZE];
    int open = N;

    frame_put_header(ping, FRAME_PING, 1, 0, 0);
    for (size_t i = 0; i < sizeof(ping); i++)
        if (send(fast->fd, ping + i, 1, MSG_NOSIGNAL) != 1)
            fail("send: %s", strerror(errno));
    next(fast);
    if (fast->msg.type != FRAME_PONG)
        fail("single bytes in time: %s", codec_type_name(fast->msg.type));
    for (int i = 0; i < N; i++)
        slow[i] = open_conn(0);
    for (size_t tick = 0; open > 0; tick++) {
        if (tick > WAIT_MSEC / TICK_MSEC)
            fail("%d of them are still connected", open);
        for (int i = 0; i < N; i++) {
            struct pollfd p = {.fd = slow[i] ? slow[i]->fd : -1, .events = POLLIN};

            /* the last byte never comes */
            if (slow[i] && tick < sizeof(ping) - 1)
                (void)!send(slow[i]->fd, ping + tick, 1, MSG_NOSIGNAL);
            if (!slow[i] || poll(&p, 1, 0) == 0)
                continue;
            if (!next_or_end(slow[i]) || slow[i]->msg.type != FRAME_ERROR || slow[i]->msg.error.code != 76)
                fail("it is not told why");
            if (next_or_end(slow[i]))
                fail("it is told, and stays connected");
            hang_up(slow[i]);
            slow[i] = NULL;
            open--;
        }
        innocent_jobs(innocent, 3);
        pause_msec(TICK_MSEC);
    }
    hang_up(innocent);
    hang_up(fast);
}

/* Output is taken a byte at a time: each such reader costs its window's worth, and no other client waits. */
static void readers_of_single_bytes(void)
{
    enum { N = 12 };
    struct conn *slow[N], *innocent = open_conn(1 << 20);
    uint64_t before;

    innocent_jobs(innocent, 10);
    before = memory_of_wsd();
    for (int i = 0; i < N; i++) {
        slow[i] = open_conn(64 << 20);
        submit(slow[i], 1, "bigoutput", "50000000");
    }
    for (int step = 0; step < 100; step++) {
        for (int i = 0; i < N; i++) {
            uint8_t byte;

            if (recv(slow[i]->fd, &byte, 1, 0) != 1)
                fail("wsd hung up on a slow reader");
        }
        innocent_jobs(innocent, 3);
    }
    expect_growth(before, N * 4 * MIB + 32 * MIB);
    if (counter(innocent, "jobs_open") != N)
        fail("a job whose output nobody has taken is over");
    for (int i = 0; i < N; i++)
        hang_up(slow[i]);
    wait_for_counter(innocent, "jobs_open", 0);
    wait_for_counter(innocent, "bytes_charged", 0);
    hang_up(innocent);
}

/* For a wsd with max-bytes-per-user = 32M: jobs with output that is not taken. They end, and no more than that limit
 * waits. Once it is read, each has its own end: all of the output, or a failure that names the key. */
static void results_that_nobody_reads(void)
{
    enum { N = 400, BYTES = 1000000 };
    struct conn *deaf = open_conn(0), *innocent = open_conn(1 << 20);
    static uint64_t got[N + 1];
    uint32_t whole = 0, refused = 0;
    uint8_t credits[N * 32];
    size_t n_credits = 0;
    uint64_t before;

    innocent_jobs(innocent, 10);
    before = memory_of_wsd();
    for (uint32_t tag = 1; tag <= N; tag++)
        submit(deaf, tag, "bigoutput", "1000000");
    innocent_jobs(innocent, 200);
    wait_for_counter(innocent, "jobs_open", 0);
    expect_growth(before, (32 + 48) * MIB);
    if (counter(innocent, "bytes_charged") > 32 * MIB)
        fail("more is charged than a user may have");
    /* In one piece: wsd stops reading when the first of them have filled its output, and a socket takes many small
     * pieces less well than one large one. */
    for (uint32_t tag = 1; tag <= N; tag++)
        n_credits += codec_encode(&(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = BYTES}}, tag, 0,
                                  credits + n_credits, sizeof(credits) - n_credits);
    conn_send(deaf, credits, n_credits);
    while (whole + refused < N) {
        next(deaf);
        uint32_t tag = deaf->frame.tag;
        const struct msg_job *job = &deaf->msg.job;

        if (deaf->msg.type == FRAME_OUTPUT) {
            got[tag] += deaf->frame.body_size;
        } else if (deaf->msg.type == FRAME_DONE && job->state == 5) {
            if (got[tag] != BYTES)
                fail("job %u has succeeded with %llu bytes", tag, (unsigned long long)got[tag]);
            whole++;
        } else if (deaf->msg.type == FRAME_DONE) {
            if (job->state != 6 || !strstr(job->error.data, "max-bytes-per-user"))
                fail("job %u ended in state %u: %s", tag, job->state, job->error.data);
            refused++;
        } else if (deaf->msg.type != FRAME_ACCEPTED) {
            fail("%s", deaf->msg.type == FRAME_ERROR ? deaf->msg.error.text.data : codec_type_name(deaf->msg.type));
        }
    }
    if (whole == 0 || refused == 0)
        fail("%u came whole, %u failed", whole, refused);
    wait_for_counter(innocent, "bytes_charged", 0);
    hang_up(deaf);
    hang_up(innocent);
}

/* Output that has gone into n connections and is not read there, for a wsd with max-unread-per-user = 4M. Together it
 * is no more than that and a frame for each connection. Another user goes on meanwhile, and so does another connection
 * of the same user. When the output is read at last, it is complete. where: the variable with the socket of that user.
 * */
static void unread_by(const char *where, uint32_t n, const char *bytes)
{
    struct conn *innocent = open_conn(64 << 20), **deaf = calloc(n + 1, sizeof(*deaf));
    uint64_t got, unread, wanted = strtoull(bytes, NULL, 10), before;

    conn_where = where;
    for (uint32_t i = 0; i < n + 1; i++)
        deaf[i] = open_conn(64 << 20);
    innocent_jobs(deaf[n], 1);
    innocent_jobs(innocent, 1);
    before = memory_of_wsd();
    for (uint32_t i = 0; i < n; i++)
        submit(deaf[i], 1, "bigoutput", bytes);
    for (int i = 0; counter(innocent, "bytes_unread") < 4 * MIB; i++) {
        if (i > WAIT_MSEC / 10)
            fail("less is unread");
        pause_msec(10);
    }
    innocent_jobs(innocent, 50);
    innocent_jobs(deaf[n], 50);
    unread = counter(innocent, "bytes_unread");
    if (unread > 4 * MIB + n * FRAME_MAX)
        fail("%llu bytes are unread", (unsigned long long)unread);
    /* results that are kept are charged */
    expect_growth(before, counter(innocent, "bytes_charged") + n * 4 * MIB + 32 * MIB);
    submit(deaf[n], 1, "bigoutput", bytes);
    for (uint32_t i = n + 1; i-- > 0;) {
        for (got = 0, next(deaf[i]); deaf[i]->msg.type != FRAME_DONE; next(deaf[i]))
            got += deaf[i]->msg.type == FRAME_OUTPUT ? deaf[i]->frame.body_size : 0;
        if (got != wanted || deaf[i]->msg.job.state != 5)
            fail("a job has ended in state %u with %llu bytes", deaf[i]->msg.job.state, (unsigned long long)got);
    }
    wait_for_counter(innocent, "bytes_unread", 0);
    for (uint32_t i = 0; i < n + 1; i++)
        hang_up(deaf[i]);
    hang_up(innocent);
    free(deaf);
}

static void outputs_that_nobody_reads(void)
{
    unread_by("WSD_SOCKET", 32, "3000000");
}

/* By TLS: where a relay listens. What the kernel takes is more there. */
static void outputs_that_no_remote_client_reads(void)
{
    unread_by("WSD_RELAY", 8, "12000000");
}

/* Small questions with large answers, which all wait for the same load of a plugin: they are answered when there is
 * room. */
static void questions_that_pile_up(void)
{
    enum { N = 2000 };
    struct conn *deaf = open_conn(0), *innocent = open_conn(0);
    static uint8_t questions[N * FRAME_HEADER_SIZE];
    uint64_t unread;

    for (uint32_t i = 0; i < N; i++)
        frame_put_header(questions + i * FRAME_HEADER_SIZE, FRAME_PLUGINS, i + 1, 0, 0);
    if (send(deaf->fd, questions, sizeof(questions), MSG_NOSIGNAL) != (ssize_t)sizeof(questions))
        fail("send: %s", strerror(errno));
    put(innocent, &(struct msg){.type = FRAME_PLUGINS}, 2, NULL, 0);
    do
        next(innocent);
    while (innocent->msg.type != FRAME_END);
    unread = counter(innocent, "bytes_unread");
    if (unread > MIB + FRAME_MAX)
        fail("%llu bytes are unread", (unsigned long long)unread);
    for (uint32_t n = 0; n < N; n += deaf->msg.type == FRAME_END)
        next(deaf);
    hang_up(deaf);
    hang_up(innocent);
}

/* Sends requests as fast as possible and reads no answer: wsd stops reading, stays small, and serves others. */
static void floods(void)
{
    enum { N = 8, MANY = 1000 };
    struct conn *flood[N], *innocent = open_conn(1 << 20);
    static uint8_t pings[MANY * FRAME_HEADER_SIZE], submits[MANY * 64];
    struct msg job = job_of("echo", "x");
    size_t submits_size = 0, at[N] = {0}, sent[N] = {0};
    int waits[N] = {0}, stopped = 0;
    uint64_t before;

    innocent_jobs(innocent, 10);
    before = memory_of_wsd();
    for (int i = 0; i < N; i++)
        flood[i] = open_conn(1 << 20);
    for (uint32_t i = 0; i < MANY; i++) {
        frame_put_header(pings + i * FRAME_HEADER_SIZE, FRAME_PING, i + 1, 0, 0);
        size_t n = codec_encode(&job, i + 1, 0, submits + submits_size, 64);
        if (!n)
            fail("cannot encode");
        submits_size += n;
    }
    while (stopped < N) {
        stopped = 0;
        for (int i = 0; i < N; i++) {
            struct pollfd p = {.fd = flood[i]->fd, .events = POLLOUT};
            bool jobs = i % 2;
            size_t size = jobs ? submits_size : sizeof(pings);

            /* it stands for as long as many jobs of another take */
            if (waits[i] >= 20 || (jobs && sent[i] >= 64 * MIB)) {
                stopped++;
                continue;
            }
            ssize_t n = poll(&p, 1, 0) > 0 ? send(flood[i]->fd, (jobs ? submits : pings) + at[i], size - at[i],
                                                  MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : -1;
            if (n > 0) {
                at[i] = (at[i] + (size_t)n) % size;
                sent[i] += (size_t)n;
                waits[i] = 0;
            } else {
                waits[i]++;
            }
            if (sent[i] >= 512 * MIB)
                fail("wsd reads on and on from one who does not read");
        }
        innocent_jobs(innocent, 1);
    }
    expect_growth(before, N * 8 * MIB + 32 * MIB);
    innocent_jobs(innocent, 200);
    for (int i = 0; i < N; i++)
        hang_up(flood[i]);
    wait_for_counter(innocent, "jobs_open", 0);
    wait_for_counter(innocent, "connections", 1);
    hang_up(innocent);
}

/* Connections that come and go at once, some with a job under way: nothing of them stays. */
static void comings_and_goings(void)
{
    struct conn *innocent = open_conn(1 << 20);
    uint64_t before;

    innocent_jobs(innocent, 10);
    before = memory_of_wsd();
    for (int i = 0; i < 3000; i++) {
        struct conn *c = open_conn(0);

        if (i % 3 == 0)
            submit(c, 1, "sleep", "60000");
        if (i % 3 == 1)
            submit(c, 1, "bigoutput", "200000");
        hang_up(c);
        if (i % 10 == 0)
            innocent_jobs(innocent, 1);
    }
    wait_for_counter(innocent, "connections", 1);
    wait_for_counter(innocent, "jobs_open", 0);
    wait_for_counter(innocent, "bytes_charged", 0);
    expect_growth(before, 32 * MIB);
    hang_up(innocent);
}

/* CPU time of wsd's own threads so far. */
static uint64_t cpu_of_wsd_usec(void)
{
    char path[64];
    unsigned long long user = 0, kernel = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", atoi(getenv("WSD_PID")));
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel) : 0;

    if (n != 2)
        fail("cannot see wsd's CPU time");
    fclose(f);
    return (user + kernel) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* One that follows the same job 100,000 times, and goes. The end of each costs the same, however many there are, and
 * others are served between. The limit is 30 times what it takes, and a tenth of what it took when each cost a walk
 * through all. */
static void followers(void)
{
    enum { N = 100000, ROUNDS = 5 };
    struct conn *innocent = open_conn(1 << 20);
    struct msg m = job_of("echo", "x");
    const char *scale = getenv("TIME_SCALE");
    bool served = false;

    m.submit.delay_usec = 3600ull * 1000000;
    put(innocent, &m, 2, NULL, 0);
    expect(innocent, FRAME_ACCEPTED, 2);
    struct msg await = {.type = FRAME_AWAIT, .id = innocent->msg.id};
    uint64_t before = cpu_of_wsd_usec();
    for (int round = 0; round < ROUNDS && !served; round++) {
        struct conn *c = open_conn(1 << 20);

        for (uint32_t tag = 2; tag < N + 2; tag++)
            put(c, &await, tag, NULL, 0);
        (void)counter(c, "connections"); /* so they have been taken */
        hang_up(c);
        do
            served |= counter(innocent, "connections_closing") > 0;
        while (counter(innocent, "connections") > 1 || counter(innocent, "connections_closing") > 0);
    }
    if (!served)
        fail("nobody is served while a connection's requests are closed");
    uint64_t spent = cpu_of_wsd_usec() - before, most = 4000000;

    if (scale)
        most *= (uint64_t)atoi(scale);
    if (spent > most)
        fail("wsd spent %llu ms of CPU time", (unsigned long long)spent / 1000);
    hang_up(innocent);
}

/* One job's owner and 300 others follow it; of what it says, the owner hears, and so do the 127 that came last. */
static void messages_for_many(void)
{
    enum { N = 300, HEAR = 128, FIRST = 2 };
    struct conn *c = open_conn(1 << 20);
    struct msg m = job_of("echo", "3");
    bool heard[FIRST + N + 1] = {false};
    uint32_t n = 0;

    m.submit.function = (struct span){"status", 6};
    m.submit.delay_usec = 300000;
    put(c, &m, FIRST, NULL, 0);
    expect(c, FRAME_ACCEPTED, FIRST);
    struct msg await = {.type = FRAME_AWAIT, .id = c->msg.id};
    for (uint32_t i = 1; i <= N; i++)
        put(c, &await, FIRST + i, NULL, 0);
    for (uint32_t ended = 0; ended < N + 1;) {
        next(c);
        if (c->frame.tag > FIRST + N)
            fail("a frame of tag %u", c->frame.tag);
        if (c->msg.type == FRAME_MESSAGE) {
            if (heard[c->frame.tag])
                fail("tag %u hears twice", c->frame.tag);
            heard[c->frame.tag] = true;
            n++;
        }
        ended += c->msg.type == FRAME_DONE;
    }
    if (n != HEAR || !heard[FIRST] || !heard[FIRST + N] || !heard[FIRST + N - HEAR + 2] || heard[FIRST + N - HEAR + 1])
        fail("%u hear it, the owner %d, the last %d", n, heard[FIRST], heard[FIRST + N]);
}

/* Of those that ask for one key while its job waits for a slow load, 128 may wait; the others are refused at once. */
static void joiners_of_a_load(void)
{
    enum { MAY = 128, FIRST = 2 };
    struct conn *c = open_with(1 << 20, "/", FEATURE_STORE);
    struct msg m = job_of("late", "x"), cancel = {.type = FRAME_CANCEL};

    m.submit.function = (struct span){"again", 5};
    m.submit.key = (struct span){"joined", 6};
    for (uint32_t tag = FIRST; tag < FIRST + MAY + 2; tag++)
        put(c, &m, tag, NULL, 0);
    for (uint32_t tag = FIRST + MAY; tag < FIRST + MAY + 2; tag++) {
        expect(c, FRAME_ERROR, tag);
        if (c->msg.error.code != CODE_BUSY)
            fail("refused with %u", c->msg.error.code);
    }
    for (uint32_t n = 0; n < MAY; n++) {
        next(c);
        if (c->msg.type != FRAME_ACCEPTED || c->frame.tag < FIRST || c->frame.tag >= FIRST + MAY)
            fail("%s of tag %u", codec_type_name(c->msg.type), c->frame.tag);
    }
    cancel.id = c->msg.id;
    for (uint32_t tag = FIRST + MAY; tag < FIRST + MAY + 2; tag++) { /* it is accepted: any number may wait */
        put(c, &m, tag, NULL, 0);
        expect(c, FRAME_ACCEPTED, tag);
    }
    put(c, &cancel, 1, NULL, 0);
    for (uint32_t n = 0; n < MAY + 2; n += c->msg.type == FRAME_DONE)
        next(c);
    hang_up(c);
}

/* A request that is sent together with what ends a job is answered before all requests that wait for that end. Then
 * each of those is told, once. */
static void an_end_for_many(void)
{
    enum { N = 100000, FIRST = 2 };
    struct conn *innocent = open_conn(1 << 20), *c = open_conn(1 << 20);
    struct msg m = job_of("echo", "x");
    static bool told[N];

    m.submit.delay_usec = 3600ull * 1000000;
    put(innocent, &m, FIRST, NULL, 0);
    expect(innocent, FRAME_ACCEPTED, FIRST);
    struct msg await = {.type = FRAME_AWAIT, .id = innocent->msg.id},
               cancel = {.type = FRAME_CANCEL, .id = innocent->msg.id};
    for (uint32_t i = 0; i < N; i++)
        put(c, &await, FIRST + i, NULL, 0);
    (void)counter(c, "connections"); /* so they have been taken */
    uint8_t both[256];               /* in one write: between two of them wsd may have many turns */
    size_t size = codec_encode(&cancel, FIRST + 1, 0, both, sizeof(both));
    size += codec_encode(&(struct msg){.type = FRAME_STATS}, 1, 0, both + size, sizeof(both) - size);
    conn_send(innocent, both, size);
    uint64_t unread = UINT64_MAX;
    for (next(innocent); innocent->msg.type != FRAME_COUNTERS; next(innocent))
        if (innocent->msg.type == FRAME_ERROR)
            fail("a cancel: %s", innocent->msg.error.text.data);
    for (size_t i = 0; i < innocent->msg.stats.n_counters; i++)
        if (strcmp(innocent->msg.stats.counters[i].name.data, "bytes_unread") == 0)
            unread = innocent->msg.stats.counters[i].value;
    for (uint32_t n = 0; n < N; n++) {
        next(c);
        uint32_t i = c->frame.tag - FIRST;
        if (c->msg.type != FRAME_DONE || i >= N || told[i])
            fail("answer %u is of type %u, tag %u", n, c->msg.type, c->frame.tag);
        told[i] = true;
    }
    if (unread > N)
        fail("%llu bytes of ends were there before another request was answered", (unsigned long long)unread);
    hang_up(c);
    hang_up(innocent);
}

/* wsd closes unrequested descriptors in a thread that no client waits for, whichever way they came. */
static void descriptors_that_linger(void)
{
    struct conn *innocent = open_conn(1 << 20);
    pid_t wsd = atoi(getenv("WSD_PID"));

    innocent_jobs(innocent, 1);
    for (uint32_t n = 1; n <= 40; n += 13) {
        struct conn *c = open_conn(0);

        /* it reads up to the first descriptor, which ends the connection: the rest is in the socket that it closes
         * then */
        stop(wsd);
        for (int i = 0; i < 3; i++)
            give_lingering(c, "x", 1, n);
        kill(wsd, SIGCONT);
        innocent_jobs(innocent, 10);
        hang_up(c);
        innocent_jobs(innocent, 10);
    }
    wait_for_counter(innocent, "connections", 1);
    hang_up(innocent);
}

/* --- a user beside another one ------------------------------------------------------------------------------------ */

#define NEIGHBOUR  12345u  /* the user with many connections; the innocent client is root's */
#define TURN_UNITS 350000u /* SHARE_TURN, and what a request may overdraw it by */
/* before the innocent one is answered, and one more each time that libevent doubles the events it asks for */
#define TURNS  3u
#define EVENTS 32u /* with which it begins */

static uint32_t many(uint32_t few, uint32_t thorough)
{
    const char *t = getenv("WSD_THOROUGH");

    return t && *t ? thorough : few;
}

static struct conn *unread_of_neighbour(uint64_t features)
{
    if (seteuid(NEIGHBOUR) < 0)
        fail("seteuid: %s", strerror(errno));
    struct conn *c = open_unread(1 << 20, "/", features);
    (void)!seteuid(0);
    return c;
}

static struct conn *open_of_neighbour(uint64_t features)
{
    struct conn *c = unread_of_neighbour(features);

    expect(c, FRAME_WELCOME, 0);
    return c;
}

/* So many descriptors of the neighbour that wsd cannot close yet. Once: a stop ends the closes that wait already. */
static void hold(uint32_t n)
{
    struct conn *c = open_of_neighbour(0);
    pid_t wsd = atoi(getenv("WSD_PID"));

    lingering_room(n);
    stop(wsd);
    give_lingering(c, "x", 1, n);
    kill(wsd, SIGCONT);
    if (conn_next(c, WAIT_MSEC) != NEXT_FRAME || c->msg.type != FRAME_ERROR)
        fail("descriptors that nobody asked for were not refused");
    hang_up(c);
}

/* The code of the refusal of such a request with a memory file; 0 where it is taken. */
static uint32_t refusal_of(struct conn *c, const struct msg *m, uint32_t tag)
{
    uint8_t bytes[FRAME_MAX];
    size_t n = codec_encode(m, tag, 0, bytes, sizeof(bytes));
    int fd = arena_file();

    if (!send_descriptors(c->fd, bytes, n, 1, &fd))
        fail("wsd hung up");
    close(fd);
    for (;;) {
        next(c);
        if (c->msg.type == FRAME_ERROR)
            return c->msg.error.code;
        if (c->msg.type == FRAME_DONE || c->msg.type == FRAME_ARENA)
            return 0;
    }
}

/* Descriptors of a user that cannot be closed yet count with the inputs, arenas and connections of that user. Other
 * users keep theirs. wsd is given 512 descriptors. A user may have 192 in one way and 192 in the other. */
static void what_cannot_be_closed_counts(void)
{
    enum { ROOM = 4 }; /* that is left; the connection that brought the others takes one of it until it is closed */
    const struct msg arena = {.type = FRAME_ARENA_OPEN}, lane = {.type = FRAME_LANE_OPEN};
    struct msg input = job_of("echo", "x");
    struct conn *innocent = open_with(1 << 20, "/", FEATURE_PAYLOAD),
                *greedy = open_of_neighbour(FEATURE_PAYLOAD | FEATURE_LANE), *more[ROOM + 1];
    uint32_t n = 0, tag = 10;

    input.submit.input_from = INPUT_FILE;
    input.submit.input_size = 4096;
    innocent_jobs(innocent, 1); /* the executor is there */
    hold(192 - ROOM);
    wait_for_counter(innocent, "connections", 2);
    if (refusal_of(greedy, &input, 1))
        fail("an input is refused below the limit");
    while (n <= ROOM && !refusal_of(greedy, &arena, tag++)) /* up to the limit */
        n++;
    if (n == 0 || n > ROOM || refusal_of(greedy, &arena, 2) != CODE_BUSY)
        fail("%u arenas are taken", n);
    if (refusal_of(greedy, &input, 3) != CODE_BUSY)
        fail("an input is taken above the limit");
    put(greedy, &lane, 5, NULL, 0);
    expect(greedy, FRAME_ERROR, 5);
    if (!strstr(greedy->msg.error.text.data, "descriptors"))
        fail("a lane is refused above the limit for another reason: %s", greedy->msg.error.text.data);
    for (n = 0; n <= ROOM; n++) {
        more[n] = unread_of_neighbour(0);
        if (conn_next(more[n], WAIT_MSEC) != NEXT_FRAME)
            fail("a connection is neither taken nor refused");
        if (more[n]->msg.type == FRAME_ERROR)
            break;
    }
    if (n == 0 || n > ROOM || more[n]->msg.error.code != CODE_BUSY)
        fail("%u connections are taken", n);
    do
        hang_up(more[n]);
    while (n--);
    if (refusal_of(innocent, &input, 1) || refusal_of(innocent, &arena, 9))
        fail("others are refused, too");
    hang_up(open_conn(0));
    innocent_jobs(innocent, 3);
    lingering_end();
    while (refusal_of(greedy, &input, 4) == CODE_BUSY)
        pause_msec(TICK_MSEC);
    hang_up(greedy);
    hang_up(innocent);
}

/* Another user's connections, each full of such requests, and the innocent one's: all are there before wsd looks. It is
 * answered after so much work for all, counted in wsd's own units. */
static void beside_requests(const struct msg *requests, size_t n_requests, uint32_t n)
{
    struct conn *innocent = open_conn(1 << 20), **flood = calloc(n, sizeof(struct conn *));
    pid_t wsd = atoi(getenv("WSD_PID"));
    uint64_t before, units, all = 0;
    static uint8_t bytes[64 * 1024];
    size_t size = 0, sent = 0;

    innocent_jobs(innocent, 1);
    for (uint32_t i = 0; i < n; i++)
        flood[i] = open_of_neighbour(0);
    for (uint32_t tag = 2; size + 256 < sizeof(bytes); tag++) {
        const struct msg *m = &requests[tag % n_requests];

        size += codec_encode(m, tag, 0, bytes + size, sizeof(bytes) - size);
    }
    before = counter(innocent, "request_units");
    stop(wsd);
    for (uint32_t i = 0; i < n; i++)
        for (ssize_t at = 0, r;
             (r = send(flood[i]->fd, bytes + at, size - (size_t)at, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;
             at = (at + r) % (ssize_t)size)
            sent += (size_t)r;
    put(innocent, &(struct msg){.type = FRAME_STATS}, 1, NULL, 0);
    kill(wsd, SIGCONT);
    next(innocent);
    for (size_t i = 0; innocent->msg.type == FRAME_COUNTERS && i < innocent->msg.stats.n_counters; i++)
        if (strcmp(innocent->msg.stats.counters[i].name.data, "request_units") == 0)
            all = innocent->msg.stats.counters[i].value;
    units = all - before;
    if (all == 0 || sent < n * 20000ull)
        fail("%zu bytes were sent", sent);
    uint64_t turns = TURNS;
    for (uint32_t events = EVENTS; events < n; events *= 2)
        turns++;
    if (units > turns * TURN_UNITS)
        fail("it was answered after %llu units of work", (unsigned long long)units);
    innocent_jobs(innocent, 3);
    /* a turn is at most one request, or one write, longer */
    if (counter(innocent, "request_units_turn_most") > 3 * TURN_UNITS)
        fail("a turn had %llu units", (unsigned long long)counter(innocent, "request_units_turn_most"));
    for (uint32_t i = 0; i < n; i++)
        hang_up(flood[i]);
    wait_for_counter(innocent, "connections", 1);
    hang_up(innocent);
    free(flood);
}

static void beside_tiny_requests(void)
{
    beside_requests(&(struct msg){.type = FRAME_CREDIT}, 1, many(40, 500));
}

static void beside_questions(void)
{
    beside_requests(&(struct msg){.type = FRAME_STATS}, 1, many(40, 500));
}

static void beside_lists(void)
{
    const struct msg m[] = {{.type = FRAME_PLUGINS}, {.type = FRAME_WORKERS},
                            {.type = FRAME_LIMIT},   {.type = FRAME_GATE, .gate = {.action = GATE_LIST}},
                            {.type = FRAME_LIST},    {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_LIST}}};

    beside_requests(m, sizeof(m) / sizeof(m[0]), 16);
}

static void beside_refusals(void)
{
    const struct msg m[] = {job_of("no-such-plugin", "x"), job_of("no-such-plugin-either", "x")};

    beside_requests(m, 2, 16);
}

/* Each connection of another user searches all jobs. The innocent client searches twice, one search after the other,
 * and has both answers before all of the others have theirs. With turns by call instead of by user, its second search
 * would begin when theirs have almost ended. */
static void beside_selections(void)
{
    enum { JOBS = 20000, N = 250 };
    struct conn *innocent = open_conn(1 << 20), *flood[N];
    const struct msg select = {.type = FRAME_LIST_WHERE, .filter = {.plugin = {"none", 4}}};
    pid_t wsd = atoi(getenv("WSD_PID"));
    struct msg m = job_of("echo", "x");
    uint32_t n_ended = 0;

    m.submit.delay_usec = 3600ull * 1000000;
    m.submit.flags = SUBMIT_QUIET;
    for (uint32_t tag = 2; tag < JOBS + 2; tag++)
        put(innocent, &m, tag, NULL, 0);
    (void)counter(innocent, "connections"); /* so they have been taken */
    for (uint32_t i = 0; i < N; i++)
        flood[i] = open_of_neighbour(0);
    stop(wsd);
    for (uint32_t i = 0; i < N; i++)
        put(flood[i], &select, 1, NULL, 0);
    put(innocent, &select, 1, NULL, 0);
    kill(wsd, SIGCONT);
    expect(innocent, FRAME_END, 1);
    put(innocent, &select, 1, NULL, 0);
    expect(innocent, FRAME_END, 1);
    stop(wsd);
    for (uint32_t i = 0; i < N; i++) {
        uint8_t byte;

        n_ended += recv(flood[i]->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
    }
    kill(wsd, SIGCONT);
    if (n_ended == N)
        fail("all %u selections of another user were answered before", n_ended);
    if (counter(innocent, "request_units_turn_most") > 3 * TURN_UNITS)
        fail("a turn had %llu units", (unsigned long long)counter(innocent, "request_units_turn_most"));
    for (uint32_t i = 0; i < N; i++)
        hang_up(flood[i]);
    wait_for_counter(innocent, "connections", 1);
    hang_up(innocent);
}

/* Arrays of jobs that are not due, in one write. */
static void put_arrays(struct conn *c, uint32_t first_tag, uint32_t n, uint32_t batch, uint32_t flags)
{
    static uint8_t body[CODEC_ITEMS_MAX * CODEC_ITEM_SIZE];
    struct msg m = job_of("echo", "x");

    empty_items(body, CODEC_ITEMS_MAX);
    m.type = FRAME_ARRAY;
    m.submit.args.size = m.submit.argc = 0;
    m.submit.items = CODEC_ITEMS_MAX;
    m.submit.delay_usec = 3600ull * 1000000;
    m.submit.batch = batch;
    m.submit.flags = flags;
    for (uint32_t tag = first_tag; tag < first_tag + n; tag++)
        put(c, &m, tag, body, sizeof(body));
}

/* Reads until so many items have ended. All are cancelled, or refused since their batch is. */
static void expect_cancelled(struct conn *c, uint32_t n)
{
    for (bool ended = false; n > 0;) {
        struct msg_end end;

        next(c);
        if (ended && c->msg.type != FRAME_ERROR)
            fail("%s came behind the end of the batch", codec_type_name(c->msg.type));
        ended |= c->msg.type == FRAME_BATCH_STATE && c->msg.batch_state.flags & BATCH_ENDED;
        if (c->msg.type == FRAME_ERROR && c->msg.error.code == CODE_CANCELLED)
            n -= CODEC_ITEMS_MAX;
        else if (c->msg.type != FRAME_ENDS && c->msg.type != FRAME_ACCEPTED && c->msg.type != FRAME_BATCH_STATE)
            fail("%s came", codec_type_name(c->msg.type));
        for (struct span left = {(const char *)c->frame.body, c->frame.body_size};
             c->msg.type == FRAME_ENDS && codec_next_end(&left, &end); n -= end.n)
            if (end.exit != CODE_CANCELLED || end.n > n)
                fail("%u items from %u on ended in state %u with exit %u: %s", end.n, end.index, end.state, end.exit,
                     end.error.data);
    }
}

/* Arrays of another user are submitted, cancelled with their batch, forgotten, and left behind: many turns each, in which
 * others are served. */
static void beside_arrays(void)
{
    enum { N = 8, BATCH = 1000 };
    const uint64_t features = FEATURE_ARRAY | FEATURE_ENDS | FEATURE_TIME | FEATURE_FORGET;
    struct conn *innocent = open_conn(1 << 20), *greedy = open_of_neighbour(features),
                *other = open_of_neighbour(features | FEATURE_WHERE);
    struct msg cancel = {.type = FRAME_BATCH, .batch = {.action = BATCH_CANCEL, .id.has_id = true}};
    uint8_t bytes[1024];
    size_t size = 0;

    innocent_jobs(innocent, 1);
    wait_for_counter(innocent, "jobs_open", 0); /* another case may have left some */
    put_arrays(greedy, 2, N, 0, 0);
    for (uint32_t tag = 2; tag < N + 2; tag++) {
        expect(greedy, FRAME_ACCEPTED, tag);
        if (greedy->msg.id.items != CODEC_ITEMS_MAX)
            fail("%u items were accepted", greedy->msg.id.items);
    }
    if (counter(innocent, "jobs_open") != N * CODEC_ITEMS_MAX)
        fail("%llu jobs are open", (unsigned long long)counter(innocent, "jobs_open"));
    for (uint32_t tag = 2; tag < N + 2; tag++) { /* the first item has ended before */
        size += codec_encode(&(struct msg){.type = FRAME_CANCEL}, tag, 0, bytes + size, sizeof(bytes) - size);
        size += codec_encode(&(struct msg){.type = FRAME_FORGET}, tag, 0, bytes + size, sizeof(bytes) - size);
    }
    conn_send_many(greedy, bytes, size);
    for (uint32_t n = 0; n < N; n += greedy->msg.type == FRAME_END) {
        next(greedy);
        if (greedy->msg.type == FRAME_ENDS && greedy->msg.ends.last)
            fail("a forgotten array has ended twice");
    }
    if (counter(innocent, "jobs_open") != 0)
        fail("some of them are still there");

    put(greedy, &(struct msg){.type = FRAME_BATCH, .batch = {.action = BATCH_OPEN}}, BATCH, NULL, 0);
    expect(greedy, FRAME_BATCH_STATE, BATCH);
    memcpy(cancel.batch.id.id, greedy->msg.batch_state.id, sizeof(cancel.batch.id.id));
    put_arrays(greedy, 2, N, BATCH, 0);
    expect(greedy, FRAME_ACCEPTED, 2);
    put(other, &cancel, 1, NULL, 0);
    expect(other, FRAME_END, 1);
    expect_cancelled(greedy, N * CODEC_ITEMS_MAX);
    if (counter(innocent, "jobs_open") != 0)
        fail("some jobs of the batch are still there");

    put_arrays(greedy, 2000, N, 0, 0);
    hang_up(greedy);
    wait_for_counter(innocent, "connections_closing", 0);
    wait_for_counter(innocent, "connections", 2);
    wait_for_counter(innocent, "jobs_open", 0);
    greedy = open_of_neighbour(features);
    put_arrays(greedy, 2, N, 0, SUBMIT_DETACH | SUBMIT_QUIET);
    hang_up(greedy);
    wait_for_counter(innocent, "jobs_open", N * CODEC_ITEMS_MAX);
    put(other, &(struct msg){.type = FRAME_CANCEL_WHERE, .filter = {.states = CODEC_STATES}}, 2, NULL, 0);
    expect(other, FRAME_COUNT, 2);
    wait_for_counter(innocent, "jobs_open", 0);
    if (counter(innocent, "request_units_turn_most") > 3 * TURN_UNITS)
        fail("a turn had %llu units", (unsigned long long)counter(innocent, "request_units_turn_most"));
    hang_up(other);
    hang_up(innocent);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(writers_of_single_bytes),
    CASE(readers_of_single_bytes),
    CASE(results_that_nobody_reads),
    CASE(outputs_that_nobody_reads),
    CASE(outputs_that_no_remote_client_reads),
    CASE(questions_that_pile_up),
    CASE(floods),
    CASE(comings_and_goings),
    CASE(followers),
    CASE(an_end_for_many),
    CASE(joiners_of_a_load),
    CASE(messages_for_many),
    CASE(descriptors_that_linger),
    CASE(what_cannot_be_closed_counts),
    CASE(beside_tiny_requests),
    CASE(beside_questions),
    CASE(beside_lists),
    CASE(beside_refusals),
    CASE(beside_selections),
    CASE(beside_arrays),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            name = cases[i].name;
            alarm(240);
            cases[i].run();
            printf("ok %s\n", name);
            return 0;
        }
    fprintf(stderr, "usage: crowd CASE\n");
    return 64;
}
