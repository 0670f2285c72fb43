/* SPDX-License-Identifier: Apache-2.0
 *
 * fib.c: the plugin `fib`: the yardstick for the cost of a fork and a join. Each call of the naive recursion spawns,
 * with no cut-off. `nothing` is the yardstick for the cost of a job, which `wsctl bench` uses.
 * Does not compute Fibonacci numbers efficiently. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wsd/plugin.h"
#include "wsd/task.h"

#define N_MAX    93 /* the last that fits */
#define N_POLLED 24 /* some tens of thousands of tasks, below a millisecond: the unit between two polls */

WSD_TASK_1(uint64_t, fib, unsigned, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);

    uint64_t b = WSD_CALL(fib, n - 2);

    return WSD_SYNC(fib) + b;
}

/* The upper part of the same tree, which looks at the cancel flag, so that the lower part need not. */
WSD_TASK_2(uint64_t, fib_polled, unsigned, n, struct wsd_job *, job)
{
    if (n < N_POLLED)
        return WSD_CALL(fib, n);
    if (wsd_job_cancelled(job))
        return 0;
    WSD_SPAWN(fib_polled, n - 1, job);

    uint64_t b = WSD_CALL(fib_polled, n - 2, job);

    return WSD_SYNC(fib_polled) + b;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    char *end = NULL;
    unsigned long n = 0;

    if (job->argc == 2 && strspn(job->argv[1], "0123456789"))
        n = strtoul(job->argv[1], &end, 10);
    if (!end || *end || n > N_MAX)
        return wsd_job_fail(job, 2, "usage: fib N, with N from 0 to %d", N_MAX);

    uint64_t result = WSD_CALL(fib_polled, (unsigned)n, job);

    if (wsd_job_cancelled(job))
        return 1;
    return wsd_job_print(job, "%llu\n", (unsigned long long)result) ? 1 : 0;
}

/* What is left is the way of a job to its function and back. */
static int nothing(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "fib",
     .help = "N: the Nth Fibonacci number by naive recursion, a task each step",
     .flags = WSD_FN_IDEMPOTENT,
     .run = run},
    {.name = "nothing",
     .help = "nothing: what a job costs beside its function",
     .flags = WSD_FN_IDEMPOTENT,
     .run = nothing},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "fib", .version = "0.1.0",
           .help = "fork/join yardstick: naive Fibonacci");
