/* SPDX-License-Identifier: Apache-2.0
 *
 * slow.c: test plugin: gives back its input after a millisecond, and is not to be run twice: what runs when its
 * executor dies is interrupted. Its twin may be. */
#include <wsd/plugin.h>

#include <time.h>

static int slow(struct wsd_job *job, struct wsd_worker *self)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return job->input && wsd_job_write(job, job->input, job->input_size) < 0;
}

static const struct wsd_function functions[] = {
    {.name = "slow", .help = "echo after a millisecond, once", .run = slow},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = slow},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "slow", .version = "1",
           .help = "a job that takes its time");
