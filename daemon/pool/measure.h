/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h: work and span of what a root spawns, as Cilkview has them: how parallel it is, on any number of workers.
 *
 * A pool that measures has one worker, which runs each child inside its spawn. So the order is that of the program without
 * spawns, and the worker sees where each strand ends. A strand is a piece without a spawn, a sync, or the end of a
 * task. The length of the longest path through the strands is the span (T-infinity), their sum is the work (T1).
 * All [the one worker], once the pool has ended [any].
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What a steal is charged with, where the path goes through a spawned task: about a steal with its wake-up. */
#define MEASURE_BURDEN_NSEC 10000u

/* Of one path, or of all. */
struct measure_sum {
    uint64_t nsec, strands;
};

struct measure {
    uint32_t workers; /* in: how many the program is to believe it has, for the grain of its loops */
    struct measure_sum work, span;
    uint64_t burdened_nsec; /* the span where each spawned task on the path costs MEASURE_BURDEN_NSEC */
    uint64_t spawns;
    /* a future or graph was begun: it ran where it was waited for, and its parallelism is not in these numbers */
    uint64_t hidden;
    int error; /* -ENOMEM: the numbers are of no use */
    struct measure_state *state;
};

/* The path that a task is on. */
struct measure_path {
    struct measure_sum sum;
    uint64_t burdened_nsec;
};

/* Around a root. A root after the first one adds to the numbers. */
void measure_root_begin(struct measure *m);
void measure_root_end(struct measure *m);
/* Around a child that runs inside its spawn. begin returns where its spawner goes on from. */
struct measure_path measure_spawn_begin(struct measure *m);
void measure_spawn_end(struct measure *m, const struct measure_path *from);
/* The youngest child is joined. */
void measure_sync(struct measure *m);
/* What begins has a parallelism that is not measured. NULL is fine. */
static inline void measure_hidden(struct measure *m)
{
    if (m)
        m->hidden++;
}
