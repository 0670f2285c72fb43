/* SPDX-License-Identifier: Apache-2.0
 *
 * scribble.c: test plugin. It writes at random over all that its own process may write: the heap, stacks, data of the
 * engine and of libraries, and memory shared with wsd. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/plugin.h>

#define AREAS 512

struct area {
    uintptr_t begin, size;
};

static uint64_t mix(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
}

/* [in place] What the kernel says can be written; read before anything is scribbled. */
static size_t find_areas(struct area areas[static AREAS])
{
    static char text[1u << 18];
    size_t size = 0, n = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && size < sizeof(text) - 1 && (got = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    if (fd >= 0)
        close(fd);
    text[size] = 0;
    for (char *line = text; *line && n < AREAS; line = strchr(line, '\n') + 1) {
        unsigned long begin, end;
        char mode[8];

        if (!strchr(line, '\n'))
            break;
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3 && strncmp(mode, "rw", 2) == 0)
            areas[n++] = (struct area){begin, end - begin};
    }
    return n;
}

/* SEED [WRITES]: so many words, of which half go to the areas that are shared or small, where they tell most. */
__attribute__((no_sanitize("address", "undefined"))) static int scribble(struct wsd_job *job, struct wsd_worker *self)
{
    static struct area areas[AREAS];
    uint64_t state = job->argc > 1 ? strtoull(job->argv[1], NULL, 10) : 1;
    unsigned long writes = job->argc > 2 ? strtoul(job->argv[2], NULL, 10) : 1000;
    size_t n = find_areas(areas);

    if (n == 0)
        return wsd_job_fail(job, 1, "nothing that can be written was found");
    for (unsigned long i = 0; i < writes; i++) {
        const struct area *a = &areas[mix(&state) % n]; /* each area as often, however large */
        uint64_t word = mix(&state);

        word = word & 1 ? word : word & 2 ? 0 : UINT64_MAX;
        *(volatile uint64_t *)(a->begin + mix(&state) % (a->size / 8) * 8) = word;
    }
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "scribble", .help = "SEED [WRITES]: writes over its own process", .run = scribble},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = scribble},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "scribble", .version = "1",
           .help = "writes where it should not");
