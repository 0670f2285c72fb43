/* SPDX-License-Identifier: Apache-2.0
 *
 * liar.c: an executor that lies, for `wsd --executor`. It loads nothing: every plugin that is asked for is there, and
 * its name says how its jobs are served:
 *
 *     honest   answered at once: exit 0, no output
 *     toggle   answered while the state of the slot changes all the time
 *     held     one piece of output, announced for ever
 *     seals    says that its answer is there, and sends none
 *     opens    asks for files for ever, and does not read the answers
 *     fork     leaves a child behind that writes completions for ever, and ends
 *     asks     asks its submitter for files for ever
 *     slowN    takes 800 ms to load
 *     silent   says a message without text
 *     die      ends as soon as a job is there, before it is touched
 *     written  writes an answer, and is killed before it has told so
 *     unheard  the same with much output, and a doorbell that has not been rung when it is killed
 *     lazy     never begun; whatever else it is asked it answers
 *     faulty   leaves a note of a fault, and does not die of it
 *     stay     as honest; does not end when it is told to
 *     asked-X  as honest; what wsd asks about its workers or a trace is answered as X says:
 *              never, late (what was asked before), twice, size (more than there is room for), error (no errno),
 *              kinds and order (workers that cannot be), text (a trace that is no JSON), die
 *     elsewhere  says that its file is never/elsewhere.so below the last plugin directory
 *     escapes  all that it says (description, message, error, status, stderr) would steer a terminal
 *     escapes-load, escapes-fault, escapes-spoilt  the same of: why it cannot be loaded, a backtrace and last words,
 *              why it is spoilt
 *     random   all of that, and scribbles over the shared memory
 * Where /never-ready is among the plugin directories it never says that it is there; where /descriptors is, it tells
 * those that it was started with on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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

#define PLUGINS 256

static struct back back;
static char modes[PLUGINS][16];
static uint64_t seed;
static volatile bool stay;
static const char *asked = "";
static const char *last_dir = "";

static uint64_t dice(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

static void tell(struct control *c, int fd)
{
    (void)control_send(CONTROL_FD_CONTROL, c, fd);
}

/* A title of the window, a line that looks like another one, C1 in both ways, what turns text around, half a
 * character. */
#define STEERS                                                                                                         \
    "\x1b]0;x\a\nstate     succeeded\r\b\x7f\xc2\x9b"                                                                  \
    "31m\x9b"                                                                                                          \
    "2J\xe2\x80\xae\xe2\x80\xa8\xf3\xa0\x81\xa1\xe2\x82"

static void load_steering(const struct control *c)
{
    struct control r = {.kind = CONTROL_LOADED, .number = c->number, .functions = 1};

    if (strcmp(c->text, "escapes-load") == 0) {
        r.error = ENOEXEC;
        r.text_size = (uint32_t)snprintf(r.text, sizeof(r.text), "not loaded" STEERS) + 1;
        tell(&r, -1);
        return;
    }
    r.text_size = (uint32_t)snprintf(r.text, sizeof(r.text),
                                     "%s" STEERS "%c1" STEERS "%chelp" STEERS "%c/path" STEERS "%cbuild" STEERS,
                                     c->text + 7, 0, 0, 0, 0) +
                  1;
    tell(&r, -1);
    r = (struct control){.kind = CONTROL_FUNCTION, .number = c->number, .flags = 1};
    r.text_size = (uint32_t)snprintf(r.text, sizeof(r.text), "f" STEERS "%chelp" STEERS, 0) + 1;
    tell(&r, -1);
}

static void load(const struct control *c)
{
    struct control r = {.kind = CONTROL_LOADED, .number = c->number, .functions = 1};
    const char *name = c->text;

    if (strcmp(name, "unbegun") == 0)
        return;
    if (strncmp(name, "slow", 4) == 0)
        usleep(800000);
    snprintf(modes[c->number % PLUGINS], sizeof(modes[0]), "%.15s", name);
    stay |= strcmp(name, "stay") == 0;
    if (strncmp(name, "asked-", 6) == 0)
        asked = modes[c->number % PLUGINS] + 6;
    if (strncmp(name, "escapes", 7) == 0) {
        load_steering(c);
        return;
    }
    bool elsewhere = strcmp(name, "elsewhere") == 0;
    r.text_size =
        (uint32_t)snprintf(r.text, sizeof(r.text), "%s%c1%chelp%c%s/%s%s%c", name, 0, 0, 0, elsewhere ? last_dir : "",
                           elsewhere ? "never/" : "", elsewhere ? "elsewhere.so" : name, 0) +
        1;
    tell(&r, -1);
    r = (struct control){.kind = CONTROL_FUNCTION, .number = c->number, .flags = 1};
    r.text_size = (uint32_t)snprintf(r.text, sizeof(r.text), "%s%chelp", name, 0) + 1;
    tell(&r, -1);
}

static void answer(uint32_t slot, uint32_t generation, int exit)
{
    struct up_slot *u = back_answer(&back, slot);

    u->small_size = 0;
    u->output_size = 0;
    u->exit = exit;
    u->messages = 0;
    u->worker = 0;
    u->ended_usec = u->started_usec;
    back_done(&back, slot, generation);
}

static void set_state(uint32_t slot, uint32_t generation, enum ring_state state)
{
    atomic_store(&back.up->slots[slot].state, ring_word(generation, state));
}

struct toggled {
    uint32_t slot, generation;
};

static void *toggle_thread(void *arg)
{
    struct toggled *t = arg;

    for (;;) {
        set_state(t->slot, t->generation, RING_QUEUED);
        set_state(t->slot, t->generation, RING_DONE);
    }
    return NULL;
}

static void toggle(uint32_t slot, uint32_t generation)
{
    struct toggled *t = malloc(sizeof(*t)); /* the thread's, which ends with the process */
    pthread_t thread;
    struct up_slot *u = back_answer(&back, slot);

    *t = (struct toggled){slot, generation};
    u->small_size = RING_SMALL;
    u->output_size = RING_SMALL;
    u->exit = 0;
    u->messages = 0;
    pthread_create(&thread, NULL, toggle_thread, t);
    poll(NULL, 0, 5); /* it changes by now */
    back_done(&back, slot, generation);
}

static void steer(const char *how, uint32_t slot, uint32_t generation)
{
    struct control c = {.kind = CONTROL_MESSAGE,
                        .slot = slot,
                        .generation = generation,
                        .number = 6,
                        .text = "message" STEERS,
                        .text_size = sizeof("message" STEERS)};
    struct up_slot *u = back_answer(&back, slot);

    dprintf(2, "stderr" STEERS "\n");
    if (strcmp(how, "-fault") == 0) {
        snprintf(back_fault(&back, slot, generation, 0, SIGABRT, 0, NULL), FAULT_TRACE,
                 "#0 frame" STEERS "\n#1 frame" STEERS "\n");
        back_fault_told(&back);
        abort();
    }
    tell(&c, -1);
    if (strcmp(how, "-spoilt") == 0) {
        c = (struct control){.kind = CONTROL_SPOILT, .text = "spoilt" STEERS, .text_size = sizeof("spoilt" STEERS)};
        tell(&c, -1);
    }
    snprintf(u->error, sizeof(u->error), "error" STEERS);
    snprintf(u->status, sizeof(u->status), "status" STEERS);
    u->texts = UP_TEXTS;
    u->small_size = 0;
    u->output_size = 0;
    u->exit = 1;
    u->messages = 1;
    u->worker = 0;
    u->ended_usec = u->started_usec + 100000; /* else they would come in bundles, which we do not know */
    back_done(&back, slot, generation);
}

static void held(uint32_t slot, uint32_t generation)
{
    uint64_t serial;
    uint32_t chunk = back_alloc(&back, RING_RUN_MAX, &serial);

    for (uint64_t n = 0;; n++) {
        back_output(&back, slot, generation, chunk, RING_RUN_MAX, RING_RUN_MAX * RING_CHUNK);
        if (n % 64 == 63) /* never more than the ring holds: those would only hide each other */
            poll(NULL, 0, 20);
    }
}

static void pretend(uint32_t slot, uint32_t generation)
{
    set_state(slot, generation, RING_RUNNING);
    back_fault(&back, slot, generation, 0, SIGSEGV, SEGV_MAPERR, NULL);
    back_fault_told(&back);
    for (;;)
        pause();
}

/* Between two stores of a worker: the answer is there, and nothing in the ring tells of it, or all of it does and wsd
 * sleeps. */
static void written(uint32_t slot, uint32_t generation, bool unheard)
{
    static const char text[] = "written\n";
    struct up_slot *u = back_answer(&back, slot);
    uint64_t serial;
    uint32_t chunk;

    if (unheard) {
        /* wsd hears of the death by nothing else: our end of the socket stays until wsd closes its own */
        if (fork() == 0) {
            struct pollfd p = {.fd = CONTROL_FD_CONTROL};

            (void)poll(&p, 1, -1);
            _exit(0);
        }
        while (!atomic_load(&back.up->asleep)) /* wsd's loop sleeps */
            usleep(1000);
        atomic_store(&back.up->asleep, 0);
        chunk = back_alloc(&back, 1, &serial);
        memset(back_chunk(&back, chunk), 'x', RING_CHUNK);
        back_output(&back, slot, generation, chunk, 1, RING_CHUNK);
    }
    memcpy(back_small(&back, slot), text, sizeof(text) - 1);
    u->small_size = sizeof(text) - 1;
    u->output_size = sizeof(text) - 1 + (unheard ? RING_CHUNK : 0);
    u->exit = 0;
    u->messages = 0;
    u->worker = 0;
    u->ended_usec = u->started_usec;
    if (unheard)
        back_done(&back, slot, generation);
    else
        set_state(slot, generation, RING_DONE);
    kill(getpid(), SIGKILL);
}

static void ask_for_ever(uint32_t slot, uint32_t generation)
{
    struct control c = {.kind = CONTROL_OPEN, .slot = slot, .generation = generation, .text_size = 2, .text = "x"};

    for (c.number = 0;; c.number++)
        tell(&c, -1);
}

/* Completions that look right, each as soon as wsd has taken one before it (its chunk is released then). */
static void write_for_ever(uint32_t slot, uint32_t generation)
{
    struct up *u = back.up;

    for (uint64_t at = 0;; at++) {
        uint32_t chunk = (uint32_t)(at % RING_CHUNKS);

        while (at >= RING_CHUNKS && atomic_load(&u->chunks[chunk].used))
            ;
        u->chunks[chunk].slot = slot;
        u->chunks[chunk].size = 0;
        u->chunks[chunk].run = 1;
        atomic_store(&u->chunks[chunk].used, 1);
        atomic_store(&u->completions[at % RING_COMPLETIONS].value,
                     completion_word(COMPLETION_OUTPUT, chunk, generation));
        atomic_store(&u->completions[at % RING_COMPLETIONS].seq, at + 1);
    }
}

static void leave_a_child(unsigned seconds, uint32_t slot, uint32_t generation)
{
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        close(CONTROL_FD_CONTROL);
        close(CONTROL_FD_BELL);
        alarm(seconds);
        write_for_ever(slot, generation);
    }
}

/* --- at random -----------------------------------------------------------------------------------------------------
 */

static uint32_t some_generation(uint32_t slot)
{
    return dice(4) ? back.down->slots[slot].generation : (uint32_t)dice(8);
}

static void random_packet(void)
{
    static const uint32_t kinds[] = {CONTROL_LOADED,
                                     CONTROL_FUNCTION,
                                     CONTROL_OPEN,
                                     CONTROL_MESSAGE,
                                     CONTROL_ASKED,
                                     CONTROL_READY,
                                     0,
                                     CONTROL_LOADING,
                                     99};
    uint32_t slot = (uint32_t)dice(dice(8) ? 4 : RING_SLOTS + 8);
    struct control c = {.kind = kinds[dice(dice(20) ? 4 : 9)],
                        .slot = slot,
                        .generation = some_generation(slot % RING_SLOTS),
                        .number = (uint32_t)dice(6),
                        .error = dice(3) ? 0 : (uint32_t)dice(200),
                        .functions = (uint32_t)dice(5),
                        .flags = dice(16),
                        .text_size = (uint32_t)dice(dice(4) ? 20 : CONTROL_TEXT)};

    for (uint32_t i = 0; i < c.text_size; i++)
        c.text[i] = (char)dice(dice(3) ? 256 : 2);
    if (c.text_size && dice(10))
        c.text[c.text_size - 1] = 0;
    tell(&c, dice(10) ? -1 : 0);
}

static void random_scribble(void)
{
    uint32_t slot = (uint32_t)dice(dice(8) ? 4 : RING_SLOTS), chunk = (uint32_t)dice(dice(4) ? 8 : RING_CHUNKS);
    struct up_slot *u = &back.up->slots[slot];
    struct up_chunk *c = &back.up->chunks[chunk];

    switch (dice(12)) {
    case 0:
        set_state(slot, some_generation(slot), (enum ring_state)dice(6));
        break;
    case 1:
        u->small_size = (uint32_t)dice(RING_SMALL + 2);
        break;
    case 2:
        u->output_size = dice(100000);
        break;
    case 3:
        u->messages = (uint32_t)dice(3);
        break;
    case 4:
        u->exit = (int)dice(300) - 100;
        break;
    case 5:
        atomic_store(&u->started_usec, dice(2) ? dice(1u << 30) : UINT64_MAX);
        break;
    case 6:
        c->slot = slot;
        c->size = (uint32_t)dice(RING_CHUNK * 17);
        c->run = (uint32_t)dice(18);
        break;
    case 7:
        atomic_store(&c->used, (uint32_t)dice(3));
        break;
    case 8:
        back_output(&back, slot, some_generation(slot), chunk, 1 + (uint32_t)dice(16), (uint32_t)dice(70000));
        break;
    case 9:
        memset(u->error, (int)dice(256), sizeof(u->error));
        break;
    case 10:
        atomic_store(&back.up->asleep, (uint32_t)dice(2));
        break;
    default:
        memset(u->status, (int)dice(256), sizeof(u->status));
        break;
    }
}

static void random_disaster(void)
{
    struct up *u = back.up;

    switch (dice(9)) {
    case 0:
        for (uint64_t *at = (uint64_t *)u, *end = (uint64_t *)(u + 1); at < end; at += 1 + dice(64))
            *at = dice(2) ? dice(UINT64_MAX) : 0;
        break;
    case 1:
        u->fault.slot = (uint32_t)dice(dice(2) ? 4 : 3000);
        u->fault.generation = some_generation(u->fault.slot % RING_SLOTS);
        u->fault.signal = (int)dice(70) - 2;
        atomic_store(&u->fault.written, (uint32_t)dice(3));
        _exit(1);
    case 2:
        abort();
    case 3:
        _exit(0);
    case 4:
        leave_a_child(1, 0, back.down->slots[0].generation);
        _exit(0);
    case 5:
        memset(&u->completions[dice(RING_COMPLETIONS)], (int)dice(256), 16);
        break;
    case 6:
        atomic_store(&u->tail, dice(UINT64_MAX));
        break;
    case 7:
        close(CONTROL_FD_CONTROL);
        break;
    default:
        kill(getpid(), SIGKILL);
    }
}

static void random_job(uint32_t slot, uint32_t generation)
{
    uint64_t serial;
    uint32_t chunk;

    if (!dice(10))
        set_state(slot, generation, RING_RUNNING);
    switch (dice(8)) {
    case 0:
        return; /* never answered */
    case 1:
        chunk = back_alloc(&back, 1, &serial);
        if (chunk != RING_NONE)
            back_output(&back, slot, generation, chunk, 1, 1 + (uint32_t)dice(RING_CHUNK));
        return;
    case 2:
        back_done(&back, slot, generation);
        break; /* whatever stands there */
    default:
        break;
    }
    answer(slot, generation, dice(3) ? 0 : 1 + (int)dice(63));
    if (!dice(20))
        back_done(&back, slot, generation);
}

static void random_turn(void)
{
    if (!dice(3000))
        random_disaster();
    if (!dice(200))
        random_scribble();
    if (!dice(100))
        random_packet();
}

/* --------------------------------------------------------------------------------------------------------------------
 */

static void serve(const char *mode, uint32_t slot, uint32_t generation)
{
    if (strcmp(mode, "die") == 0)
        _exit(1);
    if (strcmp(mode, "lazy") == 0)
        return;
    if (strcmp(mode, "toggle") == 0) {
        toggle(slot, generation);
        return;
    }
    if (!back_claim(&back, slot, generation, clock_monotonic_usec()))
        return;
    if (strncmp(mode, "escapes", 7) == 0) {
        steer(mode + 7, slot, generation);
    } else if (strcmp(mode, "seals") == 0) {
        set_state(slot, generation, RING_DONE); /* and nothing comes */
    } else if (strcmp(mode, "held") == 0) {
        held(slot, generation);
    } else if (strcmp(mode, "opens") == 0) {
        ask_for_ever(slot, generation + 7);
    } else if (strcmp(mode, "asks") == 0) {
        ask_for_ever(slot, generation);
    } else if (strcmp(mode, "faulty") == 0) {
        pretend(slot, generation);
    } else if (strcmp(mode, "written") == 0 || strcmp(mode, "unheard") == 0) {
        written(slot, generation, *mode == 'u');
    } else if (strcmp(mode, "fork") == 0) {
        leave_a_child(20, slot, generation);
        _exit(0);
    } else if (strcmp(mode, "silent") == 0) {
        struct control c = {.kind = CONTROL_MESSAGE, .slot = slot, .generation = generation, .number = 6};

        tell(&c, -1);
        back_answer(&back, slot)->messages = 1;
        back_answer(&back, slot)->small_size = 0;
        back_answer(&back, slot)->output_size = 0;
        back_answer(&back, slot)->exit = 0;
        back_done(&back, slot, generation);
    } else if (strcmp(mode, "random") == 0) {
        random_job(slot, generation);
    } else {
        answer(slot, generation, 0);
    }
}

static void put(int fd, const void *data, size_t size, struct control *answer)
{
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        _exit(2);
    answer->flags = size;
}

static void put_nonsense(int fd, struct control *answer)
{
    static const char lines[] =
        "{\"ph\":\"M\",\"pid\":1}\n{\"a\":}\n]\n\n{}{}\n\x1b[2J\n{\"b\":\"\x01\"}\n{\"c\":\"\x7f\xc2\x9b"
        "31m\xe2\x80\xae\"}\n";
    size_t size = 200000; /* the rest is one long line */
    char *text = malloc(size);

    memset(text, 'x', size);
    memcpy(text, lines, sizeof(lines) - 1);
    put(fd, text, size, answer);
    free(text);
}

static void ask(const struct control *c, int fd)
{
    struct control answer = {.kind = CONTROL_ASKED, .number = c->number, .functions = 1};
    struct control_worker w[2] = {{.index = 0, .kind = 1}, {.index = 1, .kind = 1}};

    if (strcmp(asked, "never") == 0)
        return;
    if (strcmp(asked, "die") == 0)
        _exit(1);
    if (strcmp(asked, "late") == 0)
        answer.number--;
    if (strcmp(asked, "error") == 0)
        answer.error = 1u << 31;
    w[1].kind = strcmp(asked, "kinds") == 0 ? 77 : 1;
    w[1].index = strcmp(asked, "order") == 0 ? 0 : 1;
    if (c->functions == ASK_WORKERS)
        put(fd, w, sizeof(w), &answer);
    if (c->functions == ASK_TRACE_STOP && strcmp(asked, "text") == 0)
        put_nonsense(fd, &answer);
    if (strcmp(asked, "size") == 0)
        answer.flags = UINT64_MAX / sizeof(w[0]) * sizeof(w[0]);
    tell(&answer, -1);
    if (strcmp(asked, "twice") == 0)
        tell(&answer, -1);
}

static bool control(void)
{
    struct pollfd p = {.fd = CONTROL_FD_CONTROL, .events = POLLIN};
    struct control c;
    int fd = -1;

    if (poll(&p, 1, 0) <= 0)
        return true;
    if (control_receive(CONTROL_FD_CONTROL, ASYNC_CLOSE_OWN, &c, &fd) < 0)
        return false;
    if (c.kind == CONTROL_ASK)
        ask(&c, fd);
    if (fd >= 0)
        close(fd);
    if (c.kind == CONTROL_LOAD)
        load(&c);
    while (c.kind == CONTROL_FINISH && stay)
        pause();
    return c.kind != CONTROL_FINISH;
}

static void tell_descriptors(void)
{
    char path[32], target[256];

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target));
        if (n >= 0)
            dprintf(STDERR_FILENO, "descriptor %d %.*s\n", fd, (int)n, target);
    }
}

int main(int argc, char **argv)
{
    uint32_t generation, slot;
    bool random = false;
    uint32_t usec;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 8 && strstr(argv[2], "/descriptors"))
        tell_descriptors();
    if (argc != 8 || back_init(&back, CONTROL_FD_DOWN, CONTROL_FD_UP, CONTROL_FD_BELL) < 0)
        return 64;
    seed = (uint64_t)getpid() * 0x9e3779b97f4a7c15u | 1;
    last_dir = strrchr(argv[2], ':') ? strrchr(argv[2], ':') + 1 : argv[2];
    while (strstr(argv[2], "/never-ready"))
        pause();
    tell(&(struct control){.kind = CONTROL_READY, .number = 1}, -1);
    while (control()) {
        while ((slot = back_take(&back, &generation, &usec)) != RING_NONE) {
            const char *mode = modes[back.down->slots[slot].plugin % PLUGINS];

            random |= strcmp(mode, "random") == 0;
            serve(mode, slot, generation);
        }
        if (random)
            random_turn();
        else
            poll(NULL, 0, 1);
    }
    return 0;
}
