/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h: arenas: memory that a client shares with the jobs of its connection, for their inputs and outputs. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ring/layout.h"

struct domain;
struct front_job;
struct job;
struct job_parts;

/* The arenas that a domain's executor has. */
struct arenas {
    struct list all;                 /* the last used at the end */
    uint64_t used[RING_ARENAS / 64]; /* their places in the executor */
    uint32_t n_shown;                /* so far: the source of numbers that are unique in an executor */
};

const char *arena_refuses(const struct job_parts *parts, int *ret_code); /* NULL: accepted; else why not */
int arena_hold(struct job *job, const struct job_parts *parts);          /* 0 or -ENOMEM */
void arena_free(struct job *job);                                        /* the job has ended: frees its parts */
/* If the job uses an arena: gives it to the executor, which keeps it until arena_returned(). Returns 0 or a negative
 * errno. */
int arena_describe(struct domain *d, const struct job *job, struct front_job *ret);
/* If the job uses an arena: a runner gets its parts as those of a file. Returns the descriptor, which stays the
 * arena's; -1: the job uses none. */
int arena_lend(const struct job *job, struct front_job *ret);
void arena_returned(struct job *job); /* the executor does not have the job, or has it back from it, however it ended */
int arenas_init(struct domain *d);    /* 0 */
/* d takes over the executor of fresh, which has no arenas yet */
void arenas_swap(struct domain *d, struct domain *fresh);
void arenas_gone(struct domain *d); /* the executor has ended */
void arena_died(struct job *job);   /* its executor died while the job ran */
