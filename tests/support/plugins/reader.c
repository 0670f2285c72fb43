/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c: test plugin: BEGUN GO: makes the file BEGUN, waits until GO is there, and then reads its input for the
 * first time: gives it back. With 1 when it is cancelled. */
#include <wsd/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int await(struct wsd_job *job)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    if (job->argc < 3)
        return 2;
    int fd = open(job->argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return wsd_job_fail(job, 3, "%s: %s", job->argv[1], strerror(errno));
    close(fd);
    while (access(job->argv[2], F_OK) < 0) {
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "cancelled");
        nanosleep(&millisecond, NULL);
    }
    return 0;
}

static int reader(struct wsd_job *job, struct wsd_worker *self)
{
    int r = await(job);

    if (r == 0 && job->input && wsd_job_write(job, job->input, job->input_size) < 0)
        return 1;
    return r;
}

static int stream(struct wsd_job *job, struct wsd_worker *self)
{
    int r = await(job);
    char piece[65536];
    int64_t n = 0;

    while (r == 0 && (n = wsd_job_read(job, piece, sizeof(piece))) > 0)
        if (wsd_job_write(job, piece, (size_t)n) < 0)
            return 1;
    return n < 0 ? 4 : r;
}

static const struct wsd_function functions[] = {
    {.name = "reader", .help = "BEGUN GO: its input, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = reader},
    {.name = "once", .help = "BEGUN GO: and may not", .run = reader},
    {.name = "stream", .help = "BEGUN GO: its input as it comes", .flags = WSD_FN_STREAMING, .run = stream},
};
WSD_PLUGIN(.n_functions = 3, .functions = functions, .name = "reader", .version = "1",
           .help = "reads when it is told to");
