/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c: test plugin: one function that does what it is told, so that its number in a direct lane can be had by
 * harmless calls first. */
#include <wsd/plugin.h>
#include <wsd/task.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile uintptr_t nowhere = 8;

static int nap(struct wsd_job *job, long msec)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    for (long i = 0; i < msec; i++) {
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "woken up");
        nanosleep(&millisecond, NULL);
    }
    return wsd_job_print(job, "slept\n") < 0;
}

static int gate(struct wsd_job *job, const char *file)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    while (access(file, F_OK) != 0 && !wsd_job_cancelled(job))
        nanosleep(&millisecond, NULL);
    return wsd_job_print(job, "open\n") < 0;
}

static int big(struct wsd_job *job, size_t size)
{
    size_t room;
    char *to = size ? wsd_job_reserve(job, size, &room) : NULL;

    if (size && !to)
        return 1;
    if (size)
        memset(to, 'x', size);
    return wsd_job_commit(job, size) < 0;
}

#define MEET_MAX 64

/* Returns when as many have come that are to meet as many, each of which waits for the others. */
static int meet(struct wsd_job *job, struct wsd_worker *self, int n)
{
    static _Atomic int come[MEET_MAX + 1];
    const struct timespec millisecond = {.tv_nsec = 1000000};

    if (n < 1 || n > MEET_MAX)
        return wsd_job_fail(job, 64, "1 to %d meet", MEET_MAX);
    int all = (atomic_fetch_add(&come[n], 1) / n + 1) * n;
    wsd_blocking_begin(self);
    while (atomic_load(&come[n]) < all && !wsd_job_cancelled(job))
        nanosleep(&millisecond, NULL);
    wsd_blocking_end(self);
    return wsd_job_cancelled(job);
}

/* echo | ok | fail STATUS TEXT | say TEXT | segv | exit | deaf | nap MSEC | gate FILE | meet N | big BYTES | open FILE
 * | pid | name */
static int run(struct wsd_job *job, struct wsd_worker *self)
{
    const char *what = job->argc > 1 ? job->argv[1] : "echo", *arg = job->argc > 2 ? job->argv[2] : "0";

    if (strcmp(what, "echo") == 0)
        return wsd_job_write(job, job->input, job->input_size) < 0;
    if (strcmp(what, "ok") == 0)
        return 0;
    if (strcmp(what, "fail") == 0)
        return wsd_job_fail(job, atoi(arg), "%s", job->argc > 3 ? job->argv[3] : "told to");
    if (strcmp(what, "segv") == 0)
        *(volatile int *)nowhere = 1;
    if (strcmp(what, "exit") == 0)
        exit(3);
    for (volatile int deaf = strcmp(what, "deaf") == 0; deaf;)
        ;
    if (strcmp(what, "nap") == 0)
        return nap(job, atol(arg));
    if (strcmp(what, "gate") == 0)
        return gate(job, arg);
    if (strcmp(what, "meet") == 0)
        return meet(job, self, atoi(arg));
    if (strcmp(what, "say") == 0) {
        wsd_job_status(job, "%s", arg);
        return 0;
    }
    if (strcmp(what, "big") == 0)
        return big(job, strtoul(arg, NULL, 10));
    if (strcmp(what, "name") == 0)
        return wsd_job_write(job, job->argv[0], strlen(job->argv[0])) < 0;
    if (strcmp(what, "pid") == 0)
        return wsd_job_print(job, "%d\n", (int)getpid()) < 0;
    if (strcmp(what, "open") == 0) {
        int fd = wsd_job_open(job, arg);

        if (fd < 0)
            return wsd_job_fail(job, 2, "%s: %s", arg, strerror(-fd));
        close(fd);
        return 0;
    }
    return wsd_job_fail(job, 64, "no such thing: %s", what);
}

static const struct wsd_function functions[] = {
    {.name = "direct", .help = "does what it is told", .run = run},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = run},
    {.name = "stream", .help = "the same, and reads as it comes", .flags = WSD_FN_STREAMING, .run = run},
};
WSD_PLUGIN(.n_functions = 3, .functions = functions, .name = "direct", .version = "1", .help = "does what it is told");
