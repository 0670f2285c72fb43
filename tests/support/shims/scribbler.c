/* SPDX-License-Identifier: Apache-2.0
 *
 * scribbler.c: an executor with random faults, for `wsd --executor`. It has whatever plugin it is asked for. At first
 * it serves jobs rightly for a random time, so that wsd trusts it with more. Then, between right answers, it does at
 * random what a broken or hostile executor can do:
 *
 *     It writes anything over the whole of `up`: numbers that harm, runs of bytes, copies of other parts of it.
 *     It writes plausible words into completion ring, slots, chunk table and fault note.
 *     It sends any packets, whole and broken, with no descriptor, one or several.
 *     It closes its control socket, stops reading, or leaves a child behind that goes on writing.
 *
 * It dies in the middle of it: by a signal, by exit, with a forged note or without. At the latest an alarm ends it.
 * Where the first plugin that it is asked for is called `innocent` it becomes the real wsd-executor. That serves the
 * user that must not notice anything.
 * A right answer is `SCRIBBLE ` and the bytes of the input. The seed is told on stderr, that is, in wsd's log. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/async-close.h"
#include "base/clock.h"
#include "ring/back.h"
#include "ring/control.h"

#define LIFE_SECONDS 4
#define HONEST_MAX   400 /* jobs before the rest begins */
#define FDS_MAX      8
#define PENDING_MAX  16

static const char mark[] = "SCRIBBLE ";

static struct back back;
static uint64_t seed;
static uint32_t last_slot, n_served, n_honest;
static size_t bent;
static struct {
    uint32_t slot, generation;
} unanswered[PENDING_MAX]; /* jobs that run, and so are there to be scribbled over */
static uint32_t n_unanswered;

static uint64_t dice(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

/* Small, large, near a limit, or a power of two: what breaks sums. */
static uint64_t number(void)
{
    static const uint64_t odd[] = {0,          1,           RING_SLOTS - 1,
                                   RING_SLOTS, RING_CHUNKS, RING_RUN_MAX,
                                   RING_SMALL, RING_CHUNK,  RING_CHUNK * RING_RUN_MAX,
                                   UINT32_MAX, INT32_MAX,   UINT64_MAX,
                                   1ull << 63};

    switch (dice(4)) {
    case 0:
        return odd[dice(sizeof(odd) / sizeof(*odd))] + dice(3) - 1;
    case 1:
        return 1ull << dice(64);
    case 2:
        return dice(RING_SLOTS);
    default:
        return dice(UINT64_MAX);
    }
}

static uint32_t some_slot(void)
{
    if (n_unanswered && dice(8))
        return unanswered[dice(n_unanswered)].slot;
    return dice(3) ? last_slot : (uint32_t)dice(dice(8) ? 8 : RING_SLOTS);
}

static uint32_t some_generation(uint32_t slot)
{
    return dice(4) ? back.down->slots[slot % RING_SLOTS].generation : (uint32_t)number();
}

/* --- packets ---------------------------------------------------------------------------------------------------- */

static void tell(const struct control *c)
{
    (void)control_send(CONTROL_FD_CONTROL, c, -1);
}

static void loaded(const struct control *c)
{
    struct control r = {.kind = CONTROL_LOADED, .number = c->number, .functions = 1};

    r.text_size =
        (uint32_t)snprintf(r.text, sizeof(r.text), "%.60s%c1%chelp%c/%.60s%c", c->text, 0, 0, 0, c->text, 0) + 1;
    tell(&r);
    r = (struct control){.kind = CONTROL_FUNCTION, .number = c->number, .flags = dice(2)}; /* idempotent or not */
    r.text_size = (uint32_t)snprintf(r.text, sizeof(r.text), "%.60s%chelp", c->text, 0) + 1;
    tell(&r);
}

static void any_packet(void)
{
    static const uint32_t kinds[] = {CONTROL_LOADED, CONTROL_FUNCTION, CONTROL_OPEN, CONTROL_MESSAGE,
                                     CONTROL_ASKED,  CONTROL_READY,    CONTROL_LOAD, 0,
                                     UINT32_MAX};
    uint32_t slot = dice(4) ? some_slot() : (uint32_t)number();
    struct control c = {.kind = kinds[dice(dice(6) ? 4 : sizeof(kinds) / sizeof(*kinds))],
                        .slot = slot,
                        .generation = some_generation(slot),
                        .number = (uint32_t)(dice(2) ? dice(8) : number()),
                        .error = (uint32_t)(dice(3) ? 0 : number()),
                        .functions = (uint32_t)(dice(2) ? dice(4) : number()),
                        .flags = number(),
                        .text_size = (uint32_t)dice(dice(4) ? 24 : CONTROL_TEXT)};

    for (uint32_t i = 0; i < c.text_size; i++)
        c.text[i] = (char)dice(dice(3) ? 256 : 2);
    if (c.text_size)
        c.text[c.text_size - 1] = 0;
    tell(&c);
}

/* No struct control at all, or one that is cut off, with unrequested descriptors. */
static void broken_packet(void)
{
    static uint8_t bytes[sizeof(struct control) + 64];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } ancillary = {0};
    int fds[FDS_MAX], pipes[2] = {-1, -1};
    struct iovec iov = {.iov_base = bytes, .iov_len = dice(dice(2) ? 64 : sizeof(bytes))};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t n = dice(2) ? dice(FDS_MAX + 1) : 0;

    for (size_t i = 0; i < iov.iov_len; i++)
        bytes[i] = (uint8_t)dice(dice(2) ? 256 : 2);
    if (n && pipe2(pipes, O_CLOEXEC) == 0) {
        const int some[] = {pipes[0], pipes[1], CONTROL_FD_CONTROL, CONTROL_FD_UP, CONTROL_FD_BELL, 2};

        for (size_t i = 0; i < n; i++)
            fds[i] = some[dice(sizeof(some) / sizeof(*some))];
        m.msg_control = &ancillary;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), fds, n * sizeof(int));
    }
    (void)!sendmsg(CONTROL_FD_CONTROL, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n) {
        close(pipes[0]);
        close(pipes[1]);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static size_t some_offset(void)
{
    /* the tables, mostly: the arenas behind them are a hundred times as large */
    return (size_t)dice(dice(5) ? sizeof(struct up) : back.up_size) & ~(size_t)7;
}

static void write_anywhere(void)
{
    uint8_t *up = (uint8_t *)back.up;
    size_t at = some_offset(), from = some_offset(), n = (size_t)dice(dice(4) ? 64 : 65536) & ~(size_t)7;

    n = at + n <= back.up_size ? n : back.up_size - at;
    n = from + n <= back.up_size ? n : back.up_size - from;
    switch (dice(4)) {
    case 0:
        memset(up + at, (int)dice(256), n);
        break;
    case 1:
        memmove(up + at, up + from, n);
        break;
    default:
        for (uint64_t i = 1 + dice(8); i > 0; i--) {
            uint64_t value = number();

            memcpy(up + some_offset(), &value, sizeof(value));
        }
    }
}

static void write_all(void)
{
    uint64_t *at = (uint64_t *)(void *)back.up, *end = at + sizeof(struct up) / sizeof(*at);
    uint64_t stride = 1 + dice(200);

    for (; at < end; at += 1 + dice(stride))
        *at = dice(2) ? number() : 0;
}

static void write_slot(void)
{
    uint32_t slot = some_slot();
    struct up_slot *u = &back.up->slots[slot];

    switch (dice(7)) {
    case 0:
        atomic_store(&u->state, ring_word(some_generation(slot), (uint32_t)dice(6)));
        break;
    case 1:
        u->small_size = (uint32_t)number();
        break;
    case 2:
        u->output_size = number();
        break;
    case 3:
        u->messages = (uint32_t)number();
        u->exit = (int)number();
        break;
    case 4:
        atomic_store(&u->started_usec, number());
        u->ended_usec = number();
        u->cpu_usec = number();
        break;
    case 5:
        atomic_store(&u->progress_done, number());
        atomic_store(&u->progress_total, number());
        break;
    default:
        memset(u->error, (int)dice(256), sizeof(u->error) + sizeof(u->status));
    }
}

static void write_ring(void)
{
    uint64_t at = atomic_load(&back.up->tail) + dice(3);
    uint32_t slot = some_slot();
    struct completion *c = &back.up->completions[at % RING_COMPLETIONS];

    atomic_store(&c->value, dice(4) ? completion_word((enum completion_kind)dice(5),
                                                      dice(4) ? slot : (uint32_t)number(), some_generation(slot))
                                    : number());
    atomic_store(&c->seq, dice(4) ? at + 1 : number());
    if (dice(2))
        atomic_store(&back.up->tail, dice(8) ? at + 1 : number());
}

static void write_output(void)
{
    uint32_t slot = some_slot(), chunk = (uint32_t)(dice(4) ? dice(RING_CHUNKS) : number());
    struct up_chunk *c = &back.up->chunks[chunk % RING_CHUNKS];
    uint32_t run = (uint32_t)(dice(8) ? 1 + dice(RING_RUN_MAX) : number()), size = 0;

    if (dice(2)) /* nothing at all, less than there is, a little more, anything */
        size = (uint32_t)(!dice(3)  ? dice(RING_CHUNK)
                          : dice(3) ? (uint64_t)run * RING_CHUNK + 1 + dice(1 << 27)
                                    : number());
    atomic_store(&c->used, (uint32_t)dice(3));
    back_output(&back, slot, some_generation(slot), chunk % RING_CHUNKS, run, size);
}

static void write_fault(void)
{
    struct fault_note *n = &back.up->fault;

    n->slot = dice(3) ? some_slot() : (uint32_t)number();
    n->generation = some_generation(n->slot % RING_SLOTS);
    n->signal = dice(2) ? 11 : (int)number();
    n->code = dice(2) ? FAULT_STACK : (int)number();
    n->worker = (uint32_t)number();
    n->address = number();
    atomic_store(&n->written, dice(3) ? 1 : (uint32_t)number());
}

/* --- life and death ----------------------------------------------------------------------------------------------- */

static void die(void)
{
    switch (dice(6)) {
    case 0:
        kill(getpid(), SIGKILL);
        break;
    case 1:
        abort();
    case 2:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case 3:
        write_fault();
        _exit(1);
    case 4:
        if (fork() == 0) { /* goes on for a while behind our death */
            prctl(PR_SET_PDEATHSIG, 0);
            alarm(1);
            for (;;)
                dice(2) ? write_anywhere() : write_ring();
        }
        break;
    default:
        break;
    }
    _exit((int)dice(3));
}

/* Most lives have a bent, so that not everything is found out by the first packet that makes no sense. */
static void misbehave(void)
{
    static const uint8_t bents[][4] = {{4, 5, 4, 9}, {7, 7, 7, 14}, {8, 7, 4, 14}, {0, 0, 2, 3}, {6, 10, 11, 6}};
    const size_t n_bents = sizeof(bents) / sizeof(*bents);

    switch (bent < n_bents ? bents[bent][dice(4)] : dice(24)) {
    case 0:
    case 1:
        any_packet();
        break;
    case 2:
        if (!dice(10))
            broken_packet();
        break;
    case 3:
        for (uint64_t n = dice(30) ? 0 : dice(3000); n > 0; n--)
            any_packet();
        break;
    case 4:
    case 5:
        write_slot();
        break;
    case 6:
        if (!dice(4))
            write_anywhere();
        break;
    case 7:
        write_output();
        break;
    case 8:
        if (!dice(2))
            write_ring();
        break;
    case 9:
        write_fault();
        break;
    case 10:
        if (!dice(40))
            write_all();
        break;
    case 11:
        atomic_store(&back.up->asleep, (uint32_t)number());
        atomic_store(&back.up->doorbell.waiters, (uint32_t)number());
        atomic_store(&back.up->space.waiters, (uint32_t)number());
        break;
    case 12:
        if (!dice(60))
            close(CONTROL_FD_CONTROL);
        break;
    case 13:
        if (!dice(20))
            die();
        break;
    default:
        break;
    }
}

static size_t put_answer(const struct back_request *q, uint8_t *to, size_t room)
{
    size_t n = sizeof(mark) - 1, rest = q->input ? (size_t)q->input_size : 0;

    memcpy(to, mark, n);
    rest = rest < room - n ? rest : room - n;
    if (rest)
        memcpy(to + n, q->input, rest);
    return n + rest;
}

static void answer(uint32_t slot, uint32_t generation)
{
    struct up_slot *u = back_answer(&back, slot);
    struct back_request q;
    uint64_t serial;
    uint32_t chunk = RING_NONE;
    size_t n;

    if (back_read(&back, slot, generation, &q) < 0)
        return;
    if (!dice(4))
        chunk = back_alloc(&back, 1, &serial);
    n = put_answer(&q, chunk == RING_NONE ? back_small(&back, slot) : back_chunk(&back, chunk), RING_SMALL);
    if (chunk != RING_NONE)
        back_output(&back, slot, generation, chunk, 1, (uint32_t)n);
    u->small_size = chunk == RING_NONE ? (uint32_t)n : 0;
    u->output_size = n;
    u->exit = 0;
    u->messages = 0;
    u->worker = 0;
    u->cpu_usec = 1;
    u->ended_usec = u->started_usec + 1;
    u->error[0] = u->status[0] = 0;
    back_done(&back, slot, generation);
}

static void serve(uint32_t slot, uint32_t generation)
{
    bool honest = n_served++ < n_honest;

    last_slot = slot;
    if (!honest)
        misbehave();
    if (!back_claim(&back, slot, generation, clock_monotonic_usec()))
        return;
    if (!honest)
        misbehave();
    if (!honest && dice(3) && n_unanswered < PENDING_MAX) {
        unanswered[n_unanswered].slot = slot;
        unanswered[n_unanswered++].generation = generation;
        return;
    }
    answer(slot, generation);
    if (!honest && !dice(60)) /* twice */
        back_done(&back, slot, generation);
}

/* One of those that wait, or, now and then, none. */
static void serve_late(void)
{
    uint32_t i = n_unanswered ? (uint32_t)dice(n_unanswered) : 0;

    if (n_unanswered == 0 || !dice(4))
        return;
    answer(unanswered[i].slot, unanswered[i].generation);
    unanswered[i] = unanswered[--n_unanswered];
}

/* False: it is over. */
static bool control(void)
{
    struct pollfd p = {.fd = CONTROL_FD_CONTROL, .events = POLLIN};
    struct control c;
    int fd = -1;

    if (poll(&p, 1, 0) <= 0)
        return true;
    if (control_receive(CONTROL_FD_CONTROL, ASYNC_CLOSE_OWN, &c, &fd) < 0)
        return false;
    if (fd >= 0)
        close(fd);
    if (c.kind == CONTROL_LOAD)
        loaded(&c);
    return c.kind != CONTROL_FINISH;
}

/* What wsd wants first stays in the socket. */
static bool is_for_the_real_one(void)
{
    struct control c = {0};

    return recv(CONTROL_FD_CONTROL, &c, sizeof(c), MSG_PEEK) > (ssize_t)CONTROL_HEADER && c.kind == CONTROL_LOAD &&
           strcmp(c.text, "innocent") == 0;
}

int main(int argc, char **argv)
{
    const char *given = getenv("MALLOC_SCRIBBLE_SEED"); /* wsd hands on what begins with MALLOC_ */
    struct timespec now;
    uint32_t generation, slot;
    uint32_t usec;

    if (argc != 8)
        return 64;
    if (is_for_the_real_one()) {
        execv(WSD_REAL_EXECUTOR, argv);
        return 70;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIFE_SECONDS);
    if (back_init(&back, CONTROL_FD_DOWN, CONTROL_FD_UP, CONTROL_FD_BELL) < 0)
        return 70;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = given ? strtoull(given, NULL, 10) : ((uint64_t)now.tv_nsec << 20 ^ (uint64_t)getpid()) * 2 + 1;
    fprintf(stderr, "scribbler %d: seed %llu\n", (int)getpid(), (unsigned long long)seed);
    n_honest = (uint32_t)dice(HONEST_MAX);
    bent = (size_t)dice(8);
    tell(&(struct control){.kind = CONTROL_READY, .number = 1});
    while (control()) {
        while ((slot = back_take(&back, &generation, &usec)) != RING_NONE)
            serve(slot, generation);
        if (n_served > n_honest)
            misbehave();
        serve_late();
        poll(NULL, 0, (int)dice(2));
    }
    return 0;
}
