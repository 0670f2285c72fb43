/* SPDX-License-Identifier: Apache-2.0
 *
 * fork.c: test plugin: forks and joins. */
#include <stdlib.h>
#include <time.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

WSD_TASK_1(long, fib, int, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);
    long b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

/* N: prints the N-th Fibonacci number. */
static int run(struct wsd_job *job, struct wsd_worker *self)
{
    int n = job->argc > 1 ? atoi(job->argv[1]) : 20;

    return wsd_job_print(job, "%ld\n", WSD_CALL(fib, n)) < 0;
}

static void burn(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    uint64_t usec = (uint64_t)(uintptr_t)arg;

    for (uint64_t i = begin; i < end; i++) {
        struct timespec start, now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while ((uint64_t)((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000) < usec);
    }
}

/* PIECES USEC: burns that much CPU in each of so many pieces. */
static int burn_all(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t pieces = job->argc > 1 ? strtoull(job->argv[1], NULL, 10) : 100;
    uint64_t usec = job->argc > 2 ? strtoull(job->argv[2], NULL, 10) : 1000;

    wsd_for(self, 0, pieces, 1, burn, (void *)(uintptr_t)usec);
    return 0;
}

WSD_VOID_TASK_2(write_lines, struct wsd_job *, job, int, number)
{
    char line[200];

    for (size_t i = 0; i < sizeof(line) - 1; i++)
        line[i] = (char)('a' + number % 26);
    line[sizeof(line) - 1] = '\n';
    for (int i = 0; i < 200; i++)
        if (wsd_job_write(job, line, sizeof(line)) < 0)
            return;
}

/* Many tasks write whole lines at once: none may be torn. */
static int lines(struct wsd_job *job, struct wsd_worker *self)
{
    for (int i = 0; i < 64; i++)
        WSD_SPAWN(write_lines, job, i);
    for (int i = 0; i < 64; i++)
        WSD_SYNC(write_lines);
    return 0;
}

/* Breaks the rules: returns without joining. */
static int unjoined(struct wsd_job *job, struct wsd_worker *self)
{
    WSD_SPAWN(fib, 20);
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "fork", .help = "N: the N-th Fibonacci number", .flags = WSD_FN_IDEMPOTENT, .run = run},
    {.name = "burn", .help = "PIECES USEC: burns CPU", .run = burn_all},
    {.name = "lines", .help = "writes from many tasks", .run = lines},
    {.name = "unjoined", .help = "breaks the rules", .run = unjoined},
};
WSD_PLUGIN(.n_functions = 4, .functions = functions, .name = "fork", .version = "1", .help = "forks and joins");
