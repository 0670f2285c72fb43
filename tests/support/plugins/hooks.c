/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.c: a plugin with worker_start and worker_stop. The job `hooks [FILE]` runs tasks on all workers and says how
 * many of those tasks ran on a thread that had not been started. Each worker_stop writes a line to FILE. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

#ifndef IN_RUNNER /* where a worker's index is not its thread's number */
#define IN_RUNNER false
#endif

static _Thread_local uint32_t started; /* plus 1 */
static _Atomic unsigned n_strangers, n_starts, n_stops;
static char file[PATH_MAX];

static void worker_start(uint32_t worker)
{
    if (started)
        abort(); /* twice */
    started = worker + 1;
    atomic_fetch_add(&n_starts, 1);
}

static void worker_stop(uint32_t worker)
{
    char line[64];
    int fd = *file ? open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (started != worker + 1)
        abort(); /* on another thread, or never started */
    started = 0;
    atomic_fetch_add(&n_stops, 1);
    if (fd < 0)
        return;
    snprintf(line, sizeof(line), "stop %u of %d\n", worker, (int)getpid());
    if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
        abort();
    close(fd);
}

static void fini(void)
{
    if (atomic_load(&n_starts) != atomic_load(&n_stops))
        abort(); /* some are not stopped yet */
}

/* A leaf that asks, and is long enough to be stolen from. */
WSD_VOID_TASK_1(tree, int, n)
{
    if (IN_RUNNER ? !started : started != self->index + 1)
        atomic_fetch_add(&n_strangers, 1);
    if (n == 0) {
        for (volatile int i = 0; i < 2000; i++)
            ;
        return;
    }
    WSD_SPAWN(tree, n - 1);
    WSD_CALL(tree, n - 1);
    WSD_SYNC(tree);
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    if (job->argc > 1)
        snprintf(file, sizeof(file), "%s", job->argv[1]);
    WSD_CALL(tree, 12);
    return wsd_job_print(job, "%u strangers, started %u, stopped %u, process %d\n", atomic_load(&n_strangers),
                         atomic_load(&n_starts), atomic_load(&n_stops), (int)getpid()) < 0;
}

static const struct wsd_function functions[] = {
    {.name = "hooks", .help = "[FILE]: looks whether each worker was started", .run = run},
};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "hooks", .version = "1",
           .help = "worker_start and worker_stop", .fini = fini, .worker_start = worker_start,
           .worker_stop = worker_stop);
