/* SPDX-License-Identifier: Apache-2.0
 *
 * puppet.c: test plugin: does what it is told. FILE: waits until that is there, takes it away, and ends with the status
 * in it (a crash where that is negative); or
 * with 1 when it is cancelled. TOLD: makes that when it is cancelled, and waits on. */
#include <wsd/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void make(const char *path)
{
    FILE *f = fopen(path, "we");

    if (f)
        fclose(f);
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    int status = 0;
    FILE *f;

    if (job->argc < 2)
        return 2;
    while (!(f = fopen(job->argv[1], "re"))) {
        if (wsd_job_cancelled(job) && job->argc < 3)
            return wsd_job_fail(job, 1, "cancelled");
        if (wsd_job_cancelled(job))
            make(job->argv[2]);
        nanosleep(&millisecond, NULL);
    }
    if (fscanf(f, "%d", &status) != 1)
        status = 3;
    fclose(f);
    unlink(job->argv[1]);
    if (status < 0)
        abort();
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "again", .help = "FILE [TOLD]: may run twice", .flags = WSD_FN_IDEMPOTENT, .run = run},
    {.name = "once", .help = "FILE [TOLD]: may not", .run = run},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "puppet", .version = "1", .help = "does what it is told");
