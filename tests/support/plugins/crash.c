/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c: test plugin: every way to take the process down. Each function has an idempotent twin, NAME-again. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

/* An address that nobody has, and that no compiler can judge. */
static volatile uintptr_t nowhere = 0x1238;

static int segv(struct wsd_job *job, struct wsd_worker *self)
{
    *(volatile uint64_t *)nowhere = 1;
    return 0;
}

static int on_abort(struct wsd_job *job, struct wsd_worker *self)
{
    abort();
}

static int on_exit_call(struct wsd_job *job, struct wsd_worker *self)
{
    exit(0);
}

/* No note can be left of this one. */
static int killed(struct wsd_job *job, struct wsd_worker *self)
{
    raise(SIGKILL);
    return 0;
}

__attribute__((noinline)) static int deeper(volatile char *above, int depth)
{
    volatile char here[4096];

    here[0] = *above;
    return depth < 0 ? here[0] : deeper(here, depth + 1) + here[0];
}

static int overflow(struct wsd_job *job, struct wsd_worker *self)
{
    char top = 0;

    return deeper(&top, 0);
}

WSD_VOID_TASK_2(child, struct wsd_worker *, parent, atomic_int *, started)
{
    if (self != parent)
        *(volatile uint64_t *)nowhere = 1;
    atomic_store(started, 1);
}

/* Crashes in a task that another worker has stolen; needs two workers. */
static int stolen(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(child);
    return 0;
}

/* FILE: crashes where FILE does not exist, and creates it: so the second run goes well. Prints "survived". */
static int once(struct wsd_job *job, struct wsd_worker *self)
{
    if (job->argc < 2)
        return wsd_job_fail(job, 2, "no file named");
    if (access(job->argv[1], F_OK) != 0) {
        int fd = open(job->argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return wsd_job_fail(job, 2, "%s cannot be created", job->argv[1]);
        close(fd);
        *(volatile uint64_t *)nowhere = 1;
    }
    return wsd_job_print(job, "survived\n") < 0;
}

#define BOTH(text, what)                                                                                               \
    {.name = text, .help = "crashes", .run = what},                                                                    \
    {                                                                                                                  \
        .name = text "-again", .help = "crashes, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = what           \
    }

static const struct wsd_function functions[] = {
    BOTH("segv", segv),         BOTH("abort", on_abort), BOTH("exit", on_exit_call), BOTH("kill", killed),
    BOTH("overflow", overflow), BOTH("stolen", stolen),  BOTH("once", once),
};
WSD_PLUGIN(.n_functions = 14, .functions = functions, .name = "crash", .version = "1",
           .help = "takes the process down");
