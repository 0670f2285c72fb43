/* SPDX-License-Identifier: Apache-2.0
 *
 * teller.c: test plugin. Its argument is a FIFO; it does what each line of that says, as it comes. Lines are `out
 * TEXT`, `say TEXT`, `progress DONE TOTAL`, `flood BYTES`, and `end STATUS`. */
#include <wsd/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int flood(struct wsd_job *job, unsigned long long left)
{
    static char block[65536];

    memset(block, 'x', sizeof(block));
    for (unsigned long long n; left > 0; left -= n) {
        n = left < sizeof(block) ? left : sizeof(block);
        if (wsd_job_write(job, block, n) < 0)
            return 1;
        wsd_job_progress(job, left, 0);
    }
    return 0;
}

/* -1: go on; else the status. */
static int obey(struct wsd_job *job, const char *line)
{
    unsigned long long done, total;

    if (strncmp(line, "out ", 4) == 0)
        return wsd_job_print(job, "%s\n", line + 4) < 0 || wsd_job_flush(job) < 0 ? 1 : -1;
    if (strncmp(line, "say ", 4) == 0)
        wsd_job_log(job, WSD_LOG_INFO, "%s", line + 4);
    else if (sscanf(line, "progress %llu %llu", &done, &total) == 2)
        wsd_job_progress(job, done, total);
    else if (sscanf(line, "flood %llu", &total) == 1)
        return flood(job, total) ? 1 : -1;
    else if (strncmp(line, "end ", 4) == 0)
        return atoi(line + 4);
    return -1;
}

static int teller(struct wsd_job *job, struct wsd_worker *self)
{
    int fd = job->argc > 1 ? open(job->argv[1], O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1, status = -1;
    char line[256];
    size_t n = 0;

    if (fd < 0)
        return wsd_job_fail(job, 60, "no FIFO: %s", strerror(errno));
    while (status < 0 && !wsd_job_cancelled(job)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (poll(&p, 1, 10) <= 0 || read(fd, line + n, 1) != 1)
            continue;
        if (line[n] != '\n' && n < sizeof(line) - 1) {
            n++;
            continue;
        }
        line[n] = 0;
        n = 0;
        status = obey(job, line);
    }
    close(fd);
    return status < 0 ? wsd_job_fail(job, 61, "cancelled") : status;
}

static const struct wsd_function functions[] = {{.name = "teller", .help = "does as it is told", .run = teller}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "teller", .version = "1", .help = "does as it is told");
