/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c: test plugin: writes output that says where it is. N: so many bytes. N BEGUN GO: makes BEGUN when it has
 * written these, waits until GO is there, and writes as many again; with 1 when it is cancelled. */
#include <wsd/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 16u /* "%015llu\n": the offset */

static int put(struct wsd_job *job, uint64_t from, uint64_t size)
{
    char lines[64 * LINE + 1];

    for (uint64_t at = from; at < from + size;) {
        size_t n = 0;

        for (uint64_t line = at / LINE * LINE; n < sizeof(lines) - 1; line += LINE, n += LINE)
            snprintf(lines + n, LINE + 1, "%015llu\n", (unsigned long long)line);
        size_t skip = at % LINE, left = n - skip;
        if (left > from + size - at)
            left = from + size - at;
        int r = wsd_job_write(job, lines + skip, left);
        if (r < 0)
            return r;
        at += left;
    }
    return 0;
}

static void make(const char *path)
{
    FILE *f = fopen(path, "we");

    if (f)
        fclose(f);
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    uint64_t size = job->argc > 1 ? strtoull(job->argv[1], NULL, 10) : 0;

    if (put(job, 0, size) < 0 || (job->argc > 2 && wsd_job_flush(job) < 0))
        return wsd_job_fail(job, 1, "cannot write");
    if (job->argc < 4)
        return 0;
    make(job->argv[2]);
    while (access(job->argv[3], F_OK) < 0) {
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "cancelled");
        nanosleep(&millisecond, NULL);
    }
    return put(job, size, size) < 0 ? wsd_job_fail(job, 1, "cannot write") : 0;
}

static const struct wsd_function functions[] = {
    {.name = "again", .help = "N [BEGUN GO]: may run twice", .flags = WSD_FN_IDEMPOTENT, .run = run},
    {.name = "once", .help = "N [BEGUN GO]: may not", .run = run},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "writer", .version = "1", .help = "writes where it is");
