/* SPDX-License-Identifier: Apache-2.0
 *
 * waiters.c: test plugin: many wait for what its executor has of wsd (epoll(7)), so that each of wsd's calls on the other
 * ends wakes all of them. */
#include <wsd/plugin.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <unistd.h>

#define CONTROL 6 /* of ring/control.h; */
#define WORDS   1 /* and of the pipe that is its stdout */
#define DUPS    100

/* N: so many at each of the two, until the executor ends. */
static int sit(struct wsd_job *job, struct wsd_worker *self)
{
    static const int fds[] = {CONTROL, WORDS};
    unsigned n = job->argc > 1 ? (unsigned)atoi(job->argv[1]) : 0;

    for (unsigned i = 0; i < 2; i++) {
        int dups[DUPS];

        for (unsigned j = 0; j < DUPS; j++)
            dups[j] = dup(fds[i]);
        for (unsigned made = 0; made < n; made += DUPS) {
            int e = epoll_create1(EPOLL_CLOEXEC);

            for (unsigned j = 0; j < DUPS; j++)
                if (epoll_ctl(e, EPOLL_CTL_ADD, dups[j], &(struct epoll_event){.events = EPOLLIN | EPOLLOUT}) < 0)
                    return wsd_job_fail(job, 1, "no waiter: %s", strerror(errno));
        }
    }
    return 0;
}

/* N: so many messages, and lines on its stdout. Then it prints "said". */
static int talk(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned n = job->argc > 1 ? (unsigned)atoi(job->argv[1]) : 1;

    for (unsigned i = 0; i < n; i++) {
        wsd_job_log(job, WSD_LOG_INFO, "message %u", i);
        printf("a line of sixty-four bytes, so that a thousand of them fill a pipe\n");
    }
    fflush(stdout);
    return wsd_job_print(job, "said\n") < 0;
}

static const struct wsd_function functions[] = {
    {.name = "sit", .help = "N: so many wait for wsd's descriptors", .run = sit},
    {.name = "talk", .help = "N: so many messages and lines", .run = talk},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "waiters", .version = "1", .help = "waits");
