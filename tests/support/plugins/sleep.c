/* SPDX-License-Identifier: Apache-2.0
 *
 * sleep.c: test plugin: waits without using the CPU. */
#include <wsd/plugin.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* MILLISECONDS: sleeps a millisecond at a time, and looks at the cancel flag. Prints "slept". */
static int nap(struct wsd_job *job, struct wsd_worker *self)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    struct timespec start, now;
    long long want = job->argc > 1 ? atoll(job->argv[1]) : 100;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 >= want)
            break;
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "woken up");
        nanosleep(&millisecond, NULL);
    }
    return wsd_job_print(job, "slept\n") < 0;
}

/* N: until N of them run at once. */
static int together(struct wsd_job *job, struct wsd_worker *self)
{
    static atomic_uint all;
    const struct timespec millisecond = {.tv_nsec = 1000000};
    unsigned n = job->argc > 1 ? (unsigned)atoi(job->argv[1]) : 1, before = atomic_fetch_add(&all, 1);

    while (atomic_load(&all) < before - before % n + n) {
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "alone");
        nanosleep(&millisecond, NULL);
    }
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "sleep", .help = "[MILLISECONDS]: sleeps", .run = nap},
    {.name = "together", .help = "N: waits until N of them run at once", .run = together},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = nap},
};
WSD_PLUGIN(.n_functions = 3, .functions = functions, .name = "sleep", .version = "1", .help = "waits");
