/* SPDX-License-Identifier: Apache-2.0
 *
 * echo.c: test plugin: gives back what it was given, in every way that there is. */
#include <wsd/plugin.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The arguments, one a line; without any, the input. */
static int echo(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint32_t i = 1; i < job->argc; i++)
        if (wsd_job_print(job, "%s\n", job->argv[i]) < 0)
            return 1;
    if (job->argc == 1 && job->input && wsd_job_write(job, job->input, job->input_size) < 0)
        return 1;
    return 0;
}

/* The input, read in small pieces as it comes. */
static int stream(struct wsd_job *job, struct wsd_worker *self)
{
    char piece[1000];
    int64_t n;

    while ((n = wsd_job_read(job, piece, sizeof(piece))) > 0)
        if (wsd_job_write(job, piece, (size_t)n) < 0)
            return 1;
    return n < 0 ? wsd_job_fail(job, 2, "the input broke off: %s", strerror((int)-n)) : 0;
}

/* The input, in place where both lie in the submitter's memory. */
static int shared(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint64_t at = 0; at < job->input_size;) {
        size_t room = 0, n;
        char *to = wsd_job_reserve(job, 1, &room);

        if (!to)
            return 1;
        n = room < job->input_size - at ? room : (size_t)(job->input_size - at);
        memcpy(to, (const char *)job->input + at, n);
        if (wsd_job_commit(job, n) < 0)
            return 1;
        at += n;
    }
    return 0;
}

/* The bytes of each file named. */
static int cat(struct wsd_job *job, struct wsd_worker *self)
{
    char piece[65536];

    for (uint32_t i = 1; i < job->argc; i++) {
        int fd = wsd_job_open(job, job->argv[i]);
        ssize_t n;
        if (fd < 0)
            return wsd_job_fail(job, 1, "%s: %s", job->argv[i], strerror(-fd));
        while ((n = read(fd, piece, sizeof(piece))) > 0)
            if (wsd_job_write(job, piece, (size_t)n) < 0)
                break;
        close(fd);
        if (n < 0)
            return wsd_job_fail(job, 1, "%s: cannot be read", job->argv[i]);
    }
    return 0;
}

/* STATUS [TEXT]: ends with that number, as it is. */
static int status(struct wsd_job *job, struct wsd_worker *self)
{
    int value = 0;

    if (job->argc > 1)
        sscanf(job->argv[1], "%d", &value);
    if (job->argc > 2)
        wsd_job_fail(job, value, "%s", job->argv[2]);
    wsd_job_status(job, "asked for %d", value);
    wsd_job_log(job, WSD_LOG_INFO, "ends with %d", value);
    wsd_job_progress(job, 1, 2);
    return value;
}

static int directory(struct wsd_job *job, struct wsd_worker *self)
{
    const char *text = wsd_job_directory(job);

    return wsd_job_print(job, "%s\n", text ? text : "(none)") < 0;
}

static const struct wsd_function functions[] = {
    {.name = "echo", .help = "gives back its arguments or input", .flags = WSD_FN_IDEMPOTENT, .run = echo},
    {.name = "stream", .help = "gives back its input as it comes", .flags = WSD_FN_STREAMING, .run = stream},
    {.name = "cat", .help = "FILE...: their bytes", .flags = WSD_FN_IDEMPOTENT, .run = cat},
    {.name = "status", .help = "STATUS [TEXT]: ends with it", .run = status},
    {.name = "directory", .help = "the working directory", .run = directory},
    {.name = "shared", .help = "gives back its input, in place", .flags = WSD_FN_SHARED, .run = shared},
};
WSD_PLUGIN(.n_functions = 6, .functions = functions, .name = "echo", .version = "1",
           .help = "gives back what it was given");
