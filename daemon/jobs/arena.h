/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h: memory that a client shares with the jobs of its connection: inputs lie there, and outputs go there.
 * [loop]
 */
#pragma once

#include "jobs/job.h"

const char *arena_refuses(const struct job_parts *parts, int *ret_code); /* NULL: nothing against it */
int arena_hold(struct job *job, const struct job_parts *parts);          /* 0 or -ENOMEM */
void arena_free(struct job *job);                                        /* it has ended: its parts are free */
/* Where it uses one: the executor has it then, and keeps it until arena_returned(). 0 or a negative errno. */
int arena_describe(struct domain *d, const struct job *job, struct front_job *ret);
void arena_returned(struct job *job); /* the job is not with the executor, or no more, whatever became of it */
void arenas_init(struct domain *d);
/* the executor of d is that of fresh, which has shown nothing */
void arenas_swap(struct domain *d, struct domain *fresh);
void arenas_gone(struct domain *d);                /* the executor is */
bool arena_writes(const struct job *job);          /* its output goes there */
void arena_died(struct job *job);                  /* so did its executor, while it ran */
bool arena_placed(struct job *job, uint64_t size); /* so much output is there now; false: that cannot be */
uint64_t arena_output(const struct job *job);

/* Descriptors of its go to the executor with it. */
static inline bool job_by_descriptor(const struct job *job)
{
    return job->more && (job->more->input_fd >= 0 || job->more->pipe_fd >= 0);
}

/* What goes with it through the ring; NULL: nothing. */
static inline const void *job_input(const struct job *job)
{
    if (job->more && !(job->flags & JOB_PIPE) && buffer_size(&job->more->early))
        return buffer_data(&job->more->early);
    return job->input_size ? job_given(job) + job->args_size : NULL;
}
