/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger.c: test plugin: leaves a line behind for each time that it has run. FILE NAME: appends NAME to FILE, prints
 * it. */
#include <wsd/plugin.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* file: which argument it is; the name comes behind it. */
static int enter(struct wsd_job *job, uint32_t file)
{
    char line[256];
    int n = job->argc < file + 2 ? -1 : snprintf(line, sizeof(line), "%s\n", job->argv[file + 1]);
    int fd = n < 0 ? -1 : open(job->argv[file], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t written = fd < 0 ? -1 : write(fd, line, (size_t)n);

    if (fd >= 0)
        close(fd);
    return written == n ? 0 : wsd_job_fail(job, 1, "nothing was entered");
}

static int once(struct wsd_job *job, struct wsd_worker *self)
{
    int r = enter(job, 1);

    return r ? r : wsd_job_print(job, "%s\n", job->argv[2]) < 0;
}

/* FILE: waits until that is there, or the job is cancelled. */
static int gate(struct wsd_job *job, struct wsd_worker *self)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    while (job->argc > 1 && access(job->argv[1], F_OK) != 0 && !wsd_job_cancelled(job))
        nanosleep(&millisecond, NULL);
    return wsd_job_print(job, "open\n") < 0;
}

/* FILE: reads it to its end, and does not say that it may block. */
static int reads(struct wsd_job *job, struct wsd_worker *self)
{
    int fd = job->argc > 1 ? open(job->argv[1], O_RDONLY | O_CLOEXEC) : -1;
    char text[256];
    ssize_t size = 0;

    while (fd >= 0 && (size = read(fd, text, sizeof(text))) > 0 && wsd_job_write(job, text, (size_t)size) == 0)
        ;
    if (fd < 0 || close(fd) < 0 || size < 0)
        return wsd_job_fail(job, 1, "nothing was read");
    return size > 0;
}

/* FILE: until that is there, and fails. */
static int fails(struct wsd_job *job, struct wsd_worker *self)
{
    (void)gate(job, self);
    return wsd_job_fail(job, 7, "failed, as it should");
}

/* GATE FILE NAME: waits for the gate, and enters the name. */
static int after(struct wsd_job *job, struct wsd_worker *self)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    while (job->argc > 1 && access(job->argv[1], F_OK) != 0 && !wsd_job_cancelled(job))
        nanosleep(&millisecond, NULL);
    int r = enter(job, 2);
    return r ? r : wsd_job_print(job, "%s\n", job->argv[3]) < 0;
}

/* Goes well when FILE has as many lines as a third argument says. */
static int nth(struct wsd_job *job, struct wsd_worker *self)
{
    int r = enter(job, 1), wanted = 1, lines = 0;
    FILE *f = r == 0 ? fopen(job->argv[1], "re") : NULL;

    if (job->argc > 3)
        sscanf(job->argv[3], "%d", &wanted);
    for (int c; f && (c = getc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    wsd_job_print(job, "try %d\n", lines);
    return r ? r : lines < wanted ? wsd_job_fail(job, 7, "not yet: %d", lines) : 0;
}

static const struct wsd_function functions[] = {
    {.name = "once", .help = "FILE NAME: enters the name", .run = once},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = once},
    {.name = "gate", .help = "FILE: waits for it", .flags = WSD_FN_IDEMPOTENT, .run = gate},
    {.name = "gate-once", .help = "the same, but may not run twice", .run = gate},
    {.name = "reads", .help = "FILE: to its end", .run = reads},
    {.name = "fails", .help = "FILE: waits for it, and fails", .flags = WSD_FN_IDEMPOTENT, .run = fails},
    {.name = "after", .help = "GATE FILE NAME: waits for the gate, enters the name", .run = after},
    {.name = "nth", .help = "FILE NAME N: fails before the N-th time", .flags = WSD_FN_IDEMPOTENT, .run = nth},
};
WSD_PLUGIN(.n_functions = 8, .functions = functions, .name = "ledger", .version = "1", .help = "keeps a ledger");
