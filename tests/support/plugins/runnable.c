/* SPDX-License-Identifier: Apache-2.0
 *
 * runnable.c: a plugin that is a runner, too: support/clients/c-runner.c takes this file as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <wsd/plugin.h>

static const char *argument(const struct wsd_job *job, const char *otherwise)
{
    return job->argc > 1 ? job->argv[1] : otherwise;
}

static void nap(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

static int nothing(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static int echo(struct wsd_job *job, struct wsd_worker *self)
{
    const char *from = job->input;

    for (uint64_t left = job->input_size; left > 0;) {
        size_t n = 0;
        void *room = wsd_job_reserve(job, 1, &n);

        if (!room)
            return 1;
        n = n < left ? n : (size_t)left;
        memcpy(room, from, n);
        wsd_job_commit(job, n);
        from += n;
        left -= n;
    }
    return 0;
}

static int args(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint32_t i = 1; i < job->argc; i++)
        wsd_job_print(job, "%s%s", i > 1 ? "|" : "", job->argv[i]);
    return 0;
}

static int line(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_print(job, "%s\n", argument(job, "")) < 0;
}

static int append(const char *file, const char *line)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int r = fd < 0 || write(fd, line, strlen(line)) < 0 ? -errno : 0;

    if (fd >= 0)
        close(fd);
    return r;
}

/* Whether the file LEDGER.hold is there, with a number that is less than this. */
static bool is_held(const char *ledger, long number)
{
    char path[4096], text[32] = "";
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s.hold", ledger);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n > 0 && number > atol(text);
}

/* Writes its last argument, a number, into the file LEDGER that the first one names, and two milliseconds later is as
 * line. One that is held writes `PID NUMBER` into LEDGER.held, and waits until it is not. */
static int slow(struct wsd_job *job, struct wsd_worker *self)
{
    const char *ledger = argument(job, ""), *last = job->argv[job->argc - 1];
    char text[64], path[4096];
    int r;

    (void)snprintf(text, sizeof(text), "%.60s\n", last);
    r = append(ledger, text);
    if (is_held(ledger, atol(last))) {
        (void)snprintf(path, sizeof(path), "%s.held", ledger);
        (void)snprintf(text, sizeof(text), "%d %.40s\n", getpid(), last);
        r = r < 0 ? r : append(path, text);
        while (is_held(ledger, atol(last)))
            nap(0.002);
    }
    if (r < 0)
        return wsd_job_fail(job, 1, "the ledger: %s", strerror(-r));
    nap(0.002);
    return wsd_job_print(job, "%s\n", last) < 0;
}

static int fail(struct wsd_job *job, struct wsd_worker *self)
{
    wsd_job_print(job, "so far");
    return wsd_job_fail(job, atoi(argument(job, "1")), "as asked");
}

static int say(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint32_t i = 1; i < job->argc; i++)
        wsd_job_log(job, WSD_LOG_INFO, "%s", job->argv[i]);
    wsd_job_progress(job, 3, 7);
    wsd_job_status(job, "said %u", job->argc - 1);
    return 0;
}

/* Tells how far it is, so many times. */
static int far(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t n = (uint64_t)atol(argument(job, "1"));

    for (uint64_t i = 1; i <= n; i++)
        wsd_job_progress(job, i, n);
    return 0;
}

/* The trace that it belongs to. */
static int trace(struct wsd_job *job, struct wsd_worker *self)
{
    const char *traceparent = wsd_job_traceparent(job);

    return wsd_job_print(job, "%s\n", traceparent ? traceparent : "none") < 0;
}

/* SECONDS [FILE]: until it is cancelled, or FILE is there. */
static int sleep_for(struct wsd_job *job, struct wsd_worker *self)
{
    const char *gate = job->argc > 2 ? job->argv[2] : "";

    for (double left = atof(argument(job, "1")); left > 0 && !wsd_job_cancelled(job) && access(gate, F_OK) != 0;
         left -= 0.005)
        nap(0.005);
    return 0;
}

/* Does not heed that it is cancelled. */
static int deaf(struct wsd_job *job, struct wsd_worker *self)
{
    nap(atof(argument(job, "1")));
    return 0;
}

/* So many bytes. */
static int stream(struct wsd_job *job, struct wsd_worker *self)
{
    static const char piece[10000] = "x";

    for (long left = atol(argument(job, "0")); left > 0; left -= (long)sizeof(piece))
        if (wsd_job_write(job, piece, left < (long)sizeof(piece) ? (size_t)left : sizeof(piece)) < 0)
            return 1;
    return 0;
}

/* How many bytes of input come. */
static int count(struct wsd_job *job, struct wsd_worker *self)
{
    char room[30000];
    int64_t n, sum = 0;

    while ((n = wsd_job_read(job, room, sizeof(room))) > 0)
        sum += n;
    return n < 0 ? 1 : wsd_job_print(job, "%lld", (long long)sum) < 0;
}

static int cat(struct wsd_job *job, struct wsd_worker *self)
{
    char room[4096];
    int fd = wsd_job_open(job, argument(job, ""));
    ssize_t n;

    if (fd < 0)
        return wsd_job_fail(job, 1, "%s", strerror(-fd));
    while ((n = read(fd, room, sizeof(room))) > 0)
        wsd_job_write(job, room, (size_t)n);
    close(fd);
    return 0;
}

static int die(struct wsd_job *job, struct wsd_worker *self)
{
    _exit(1);
}

static const struct wsd_function functions[] = {
    {.name = "nothing", .help = "does nothing", .flags = WSD_FN_IDEMPOTENT, .run = nothing},
    {.name = "echo", .help = "gives its input back", .flags = WSD_FN_IDEMPOTENT, .run = echo},
    {.name = "args", .help = "its arguments", .flags = WSD_FN_IDEMPOTENT, .run = args},
    {.name = "line", .help = "its argument as a line", .flags = WSD_FN_IDEMPOTENT, .run = line},
    {.name = "trace", .help = "the trace that it belongs to", .flags = WSD_FN_IDEMPOTENT, .run = trace},
    {.name = "slow", .help = "its last argument as a line, later", .flags = WSD_FN_IDEMPOTENT, .run = slow},
    {.name = "once", .help = "likewise", .run = slow},
    {.name = "fail", .help = "fails with that status", .run = fail},
    {.name = "say", .help = "says its arguments", .run = say},
    {.name = "far", .help = "tells how far it is, so many times", .run = far},
    {.name = "sleep", .help = "sleeps, unless it is cancelled", .flags = WSD_FN_IDEMPOTENT, .run = sleep_for},
    {.name = "deaf", .help = "sleeps", .run = deaf},
    {.name = "stream", .help = "so many bytes", .run = stream},
    {.name = "count", .help = "how many bytes come", .flags = WSD_FN_STREAMING, .run = count},
    {.name = "cat", .help = "a file", .run = cat},
    {.name = "die", .help = "ends the process", .run = die},
};
WSD_PLUGIN(.n_functions = sizeof(functions) / sizeof(*functions), .functions = functions, .name = "runnable",
           .version = "1", .help = "for tests");
