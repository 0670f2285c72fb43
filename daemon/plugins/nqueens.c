/* SPDX-License-Identifier: Apache-2.0
 *
 * nqueens.c: the plugin `nqueens`: the yardstick for an uneven tree. Every queen that can be placed is a task, with no
 * cut-off; a board is three sets of bits, carried in the task.
 * Does not use symmetry: the published counts are of the plain search. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wsd/plugin.h"
#include "wsd/task.h"

#define N_MAX       24
#define ROWS_POLLED 8 /* rows left at which a subtree is below a millisecond or two */

/* all: one bit a column; the others: where a queen attacks the next row. */
WSD_TASK_4(uint64_t, place, uint32_t, all, uint32_t, columns, uint32_t, left, uint32_t, right)
{
    uint32_t free = all & ~(columns | left | right);
    unsigned n = 0;
    uint64_t found = 0;

    if (columns == all)
        return 1;
    for (; free; free &= free - 1, n++) {
        uint32_t bit = free & -free;

        WSD_SPAWN(place, all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    while (n--)
        found += WSD_SYNC(place);
    return found;
}

/* The upper rows of the same tree, which look at the cancel flag. */
WSD_TASK_5(uint64_t, place_polled, struct wsd_job *, job, uint32_t, all, uint32_t, columns, uint32_t, left, uint32_t,
           right)
{
    uint32_t free = all & ~(columns | left | right);
    unsigned n = 0;
    uint64_t found = 0;

    if (__builtin_popcount(all & ~columns) <= ROWS_POLLED)
        return WSD_CALL(place, all, columns, left, right);
    if (wsd_job_cancelled(job))
        return 0;
    for (; free; free &= free - 1, n++) {
        uint32_t bit = free & -free;

        WSD_SPAWN(place_polled, job, all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    while (n--)
        found += WSD_SYNC(place_polled);
    return found;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    char *end = NULL;
    unsigned long n = 0;

    if (job->argc == 2 && strspn(job->argv[1], "0123456789"))
        n = strtoul(job->argv[1], &end, 10);
    if (!end || *end || n < 1 || n > N_MAX)
        return wsd_job_fail(job, 2, "usage: nqueens N, with N from 1 to %d", N_MAX);

    uint64_t found = WSD_CALL(place_polled, job, (1u << n) - 1, 0, 0, 0);

    if (wsd_job_cancelled(job))
        return 1;
    return wsd_job_print(job, "%llu\n", (unsigned long long)found) ? 1 : 0;
}

static const struct wsd_function functions[] = {
    {.name = "nqueens",
     .help = "N: the ways to place N queens on a board of N by N, a task each queen",
     .flags = WSD_FN_IDEMPOTENT,
     .run = run},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "nqueens", .version = "0.1.0",
           .help = "fork/join yardstick: the N queens problem");
