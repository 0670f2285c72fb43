/* SPDX-License-Identifier: Apache-2.0
 *
 * late.c: test plugin: takes a second to load; its function runs until it is cancelled. */
#include <time.h>

#include <wsd/plugin.h>

static int init(void)
{
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return 0;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    while (!wsd_job_cancelled(job))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 1;
}

static const struct wsd_function functions[] = {
    {.name = "again", .help = "until it is cancelled", .flags = WSD_FN_IDEMPOTENT, .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "late", .version = "1", .help = "is loaded late",
           .init = init);
