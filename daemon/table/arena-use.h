/* SPDX-License-Identifier: Apache-2.0
 *
 * arena-use.h: a job's use of an arena (arena.c) for its input or its output. [loop]
 */
#pragma once

#include "table/job.h"

struct arena;
struct arena_shown;

struct arena_use {
    struct list link;
    struct arena *arena;
    struct arena_shown *shown; /* its job is with an executor: with which; NULL */
    struct job_part input, output;
    uint64_t placed; /* bytes of output */
};

/* Whether the job's output goes to an arena. */
static inline bool arena_writes(const struct job *job)
{
    return job->more && job->more->arena && job->more->arena->output.size;
}

/* So much output is in the arena. False: impossible. */
static inline bool arena_placed(struct job *job, uint64_t size)
{
    struct arena_use *u = job->more->arena;

    if (size > u->output.size)
        return false;
    u->placed = size;
    return true;
}

/* How much output is in the arena. */
static inline uint64_t arena_output(const struct job *job)
{
    return arena_writes(job) ? job->more->arena->placed : 0;
}
