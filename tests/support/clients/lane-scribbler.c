/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-scribbler.c: a hostile client. It gets a direct lane by honest calls, then writes over all of it that it can,
 * and rings its bell, until it is killed. How its own library reacts does not matter.
 *
 * Usage:
 *     lane-scribbler SEED|greedy|credit PLUGIN:FUNCTION
 *
 * With SEED it says "scribbling" when it has begun.
 * With `greedy` it pushes calls of function numbers that it was not given, and one slot twice. It exits with 0 where
 * those calls were refused and that slot ran once.
 * With `credit` it pushes calls that last, beyond its credit of 1. It exits with 0 where one was begun. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <wsd/client.h>

#include "ring/lane-ring.h"

static struct lane_memory *memory;
static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Where the library has mapped it. */
static struct lane_memory *find_memory(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long from;
    char line[512];

    while (f && fgets(line, sizeof(line), f))
        if (strstr(line, "memfd:wsd-lane") && sscanf(line, "%llx-", &from) == 1) {
            fclose(f);
            return (struct lane_memory *)(uintptr_t)from;
        }
    return NULL;
}

static void ring_bell(void)
{
    atomic_fetch_add(&memory->bell.epoch, 1);
    syscall(SYS_futex, &memory->bell.epoch, FUTEX_WAKE, 1 + next() % 3, NULL, NULL, 0);
}

/* A call that looks like one, with numbers that do not. */
static void almost_call(void)
{
    uint32_t slot = (uint32_t)(next() % LANE_SLOTS), generation = (uint32_t)(next() % 4);
    struct lane_slot *s = &memory->slots[slot];
    uint64_t tail = atomic_load(&memory->tail);

    s->bind = (uint32_t)(next() % 3 ? 0 : next());
    s->n_items = (uint32_t)(next() % 8 ? next() % 4 : next());
    s->size = (uint32_t)(next() % 8 ? next() % 400 : next());
    s->timeout_usec = next() % 3 ? 0 : next();
    atomic_store(&s->turn, 0);
    for (uint32_t i = 0, at = 0; i < 4; i++) {
        struct lane_item item = {.argc = (uint32_t)(next() % 5),
                                 .args_size = (uint32_t)(next() % 8 ? next() % 40 : next()),
                                 .input_size = (uint32_t)(next() % 8 ? next() % 40 : next()),
                                 .room = (uint32_t)(next() % 1000)};

        memcpy(s->bytes + at, &item, sizeof(item));
        for (uint32_t k = 0; k < 40; k++)
            s->bytes[at + sizeof(item) + k] = (uint8_t)(next() % 8 ? 0 : next());
        at += 32 + (item.args_size + item.input_size) / 16 % 8 * 16;
    }
    atomic_store(&s->state, ring_word(generation, LANE_QUEUED));
    atomic_store(&memory->ring[tail % LANE_SLOTS], ring_word(generation, slot));
    atomic_store(&memory->tail, tail + 1);
    ring_bell();
}

static void *scribble(void *arg)
{
    uint8_t *bytes = (uint8_t *)memory;

    for (;;) {
        uint64_t value = next(), where = next();

        switch (next() % 9) {
        case 0:
            memcpy(bytes + where % (sizeof(*memory) - 8), &value, 8);
            break;
        case 1:
            atomic_store(&memory->ring[where % LANE_SLOTS], value);
            break;
        case 2:
            atomic_store(&memory->tail, next() % 16 ? atomic_load(&memory->tail) + value % 70 : value);
            break;
        case 3:
            atomic_store(&memory->slots[where % LANE_SLOTS].state,
                         ring_word((uint32_t)(value % 4), (uint32_t)(where >> 32 & 7)));
            break;
        case 4:
            atomic_store(&memory->bell.waiters, (uint32_t)value);
            break;
        case 5:
            atomic_store(where & 1 ? &memory->done.waiters : &memory->looking, (uint32_t)value);
            break;
        case 6:
            ring_bell();
            break;
        case 7:
            atomic_store(&memory->slots[where % LANE_SLOTS].turn, (uint32_t)(value % 3 ? value % 4 : value));
            break;
        default:
            almost_call();
        }
    }
    return arg;
}

/* --- calls that keep to the layout and to nothing else ------------------------------------------------------------ */

static void push(uint32_t slot, uint32_t bind, const char *args, uint32_t size, uint32_t argc)
{
    struct lane_slot *s = &memory->slots[slot];
    uint64_t tail = atomic_load(&memory->tail), word = ring_word(1000, LANE_QUEUED);

    struct lane_item item = {.argc = argc, .args_size = size, .room = 100};

    s->bind = bind;
    s->n_items = 1;
    s->size = LANE_ROOM;
    memcpy(s->bytes, &item, sizeof(item));
    memcpy(s->bytes + sizeof(item), args, size);
    s->timeout_usec = 0;
    atomic_store(&s->turn, 0);
    atomic_store(&s->cancel, 0);
    atomic_store(&s->state, word);
    atomic_store(&memory->ring[tail % LANE_SLOTS], ring_word(1000, slot));
    atomic_store(&memory->tail, tail + 1);
    ring_bell();
}

static uint32_t outcome(uint32_t slot)
{
    while ((uint32_t)atomic_load(&memory->slots[slot].state) != LANE_DONE)
        usleep(1000);
    return memory->slots[slot].outcome;
}

static int greedy(void)
{
    static const uint32_t binds[] = {1, 7, LANE_BINDS - 1, LANE_BINDS, UINT32_MAX};

    for (uint32_t i = 0; i < sizeof(binds) / sizeof(*binds); i++) {
        push(i, binds[i], "ok", 3, 1);
        if (outcome(i) != LANE_REFUSED) {
            printf("number %u was not refused\n", binds[i]);
            return 1;
        }
    }
    /* the same slot twice, while it runs: the second entry is ignored */
    push(10, 0, "nap\000200", 8, 2);
    uint64_t tail = atomic_load(&memory->tail);
    atomic_store(&memory->ring[tail % LANE_SLOTS], ring_word(1000, 10));
    atomic_store(&memory->tail, tail + 1);
    ring_bell();
    push(11, 0, "ok", 3, 1);
    printf("twice: %u, the next one: %u\n", outcome(10), outcome(11));
    fflush(stdout);
    return outcome(10) != LANE_ENDED || outcome(11) != LANE_ENDED;
}

static int credit(void)
{
    uint32_t begun = 0;

    for (uint32_t i = 0; i < 8; i++)
        push(i, 0, "nap\00060000", 10, 2);
    for (uint32_t i = 0, ended = 0; ended < 7; i = (i + 1) % 8, usleep(1000)) {
        ended = 0;
        for (uint32_t k = 0; k < 8; k++)
            ended += (uint32_t)atomic_load(&memory->slots[k].state) == LANE_DONE;
    }
    for (uint32_t i = 0; i < 8; i++)
        if ((uint32_t)atomic_load(&memory->slots[i].state) == LANE_DONE)
            begun += memory->slots[i].outcome != LANE_REFUSED;
    return begun != 0;
}

int main(int argc, char **argv)
{
    const char *const ok[] = {"ok"};
    struct wsd_client *client;
    pthread_t thread;
    char plugin[256];

    if (argc != 3)
        return 64;
    seed = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
    snprintf(plugin, sizeof(plugin), "%s", argv[2]);
    char *function = strchr(plugin, ':');
    if (function)
        *function++ = 0;
    if (wsd_client_open(&client, NULL, 0) < 0)
        return 1;
    for (;;) {
        struct wsd_call_request q = {
            .size = sizeof(q), .plugin = plugin, .function = function, .args = ok, .n_args = 1};
        struct wsd_call_result r = {.size = sizeof(r)};

        if (wsd_call(client, &q, &r) < 0 && !memory)
            return 1;
        if (!memory && r.direct) {
            memory = find_memory();
            if (memory && strcmp(argv[1], "greedy") == 0)
                _exit(greedy()); /* the library's view of the lane is no more */
            if (memory && strcmp(argv[1], "credit") == 0)
                _exit(credit());
            if (!memory || pthread_create(&thread, NULL, scribble, NULL) != 0)
                return 1;
            puts("scribbling");
            fflush(stdout);
            pthread_join(thread, NULL); /* never: the library would be in the way */
        }
    }
}
