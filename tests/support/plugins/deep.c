/* SPDX-License-Identifier: Apache-2.0
 *
 * deep.c: a plugin that uses so many MiB of its worker's stack. */
#include <stdlib.h>

#include <wsd/plugin.h>

/* One MiB a level, each page touched. */
__attribute__((noinline)) static long level(long n)
{
    volatile char page[1 << 20];

    for (size_t i = 0; i < sizeof(page); i += 4096)
        page[i] = (char)n;
    return n > 1 ? level(n - 1) + (page[0] == (char)n) : 1;
}

static int deep(struct wsd_job *job, struct wsd_worker *self)
{
    long n = job->argc > 1 ? strtol(job->argv[1], NULL, 10) : 1;

    return wsd_job_print(job, "%ld\n", level(n)) < 0;
}

static const struct wsd_function functions[] = {
    {.name = "deep", .help = "MIB: uses so much stack", .run = deep},
};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "deep", .version = "1", .help = "uses stack");
