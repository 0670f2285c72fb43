/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.c: test plugin: jobs that end in each way, for tests/integration/ends.sh. */
#include <wsd/plugin.h>

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static int status_of(const struct wsd_job *job)
{
    return job->argc > 1 ? atoi(job->argv[1]) : 0;
}

/* So that tests/integration/ends.sh sees that a job has begun, in whatever process: the name of its thread. */
static void is_begun(bool begun)
{
    static _Thread_local char name[16];

    if (begun)
        prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, begun ? "begun" : name);
}

/* [STATUS]: prints "begun", waits until it is told to stop, and returns STATUS. */
static int heed(struct wsd_job *job, struct wsd_worker *self)
{
    if (wsd_job_print(job, "begun\n") < 0 || wsd_job_flush(job) < 0)
        return 1;
    is_begun(true);
    while (!wsd_job_cancelled(job))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    is_begun(false);
    return status_of(job) ? wsd_job_fail(job, status_of(job), "woken up") : 0;
}

/* MILLISECONDS: takes so long, looks at nothing, and succeeds. */
static int deaf(struct wsd_job *job, struct wsd_worker *self)
{
    const long long want = job->argc > 1 ? atoll(job->argv[1]) : 100;
    struct timespec start, now;

    is_begun(true);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < want);
    is_begun(false);
    return wsd_job_print(job, "done\n") < 0;
}

/* [STATUS]: ends at once. */
static int at_once(struct wsd_job *job, struct wsd_worker *self)
{
    if (wsd_job_print(job, "done\n") < 0)
        return 1;
    return status_of(job) ? wsd_job_fail(job, status_of(job), "as was wanted") : 0;
}

/* Reads its input to the end. */
static int reads(struct wsd_job *job, struct wsd_worker *self)
{
    char data[4096];
    int64_t n;

    is_begun(true);
    while ((n = wsd_job_read(job, data, sizeof(data))) > 0)
        ;
    is_begun(false);
    return n < 0 ? wsd_job_fail(job, 2, "the input has no end") : 0;
}

/* STEPS [STATUS]: tells so much progress, and ends. */
static int steps(struct wsd_job *job, struct wsd_worker *self)
{
    const uint64_t n = job->argc > 1 ? (uint64_t)atoll(job->argv[1]) : 1;

    for (uint64_t i = 1; i <= n; i++)
        wsd_job_progress(job, i, n + 1);
    return job->argc > 2 ? wsd_job_fail(job, atoi(job->argv[2]), "as was wanted") : 0;
}

static const struct wsd_function functions[] = {
    {.name = "ends", .help = "[STATUS]: at once", .run = at_once},
    {.name = "heed", .help = "[STATUS]: when it is told to stop", .run = heed},
    {.name = "deaf", .help = "MILLISECONDS: after so long", .run = deaf},
    {.name = "reads", .help = "when its input ends", .flags = WSD_FN_STREAMING, .run = reads},
    {.name = "steps", .help = "STEPS [STATUS]: with so much progress", .run = steps},
};
WSD_PLUGIN(.n_functions = 5, .functions = functions, .name = "ends", .version = "1", .help = "ends in each way");
