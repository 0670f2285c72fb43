/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.h: the calls from the job table to the layers above it. Both tables are given to the jobs before the first job
 * comes. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "table/interface.h"
#include "table/job.h"

struct domain;
struct front_completion;

/* What the executors' side does for a job. */
struct domain_hooks {
    void (*queued)(struct job *job);                  /* it is in its domain's queue now. May end and free the job */
    void (*stop)(struct job *job, enum job_stop why); /* RUNNING. May end and free the job */
    void (*timer)(struct job *job);                   /* RUNNING: its timer has run out */
    void (*ended)(struct job *job, bool went_well);   /* final, not crashed, and job_breaker_suspects() */
    bool (*ready)(const struct domain *d);            /* its executor has started */
    void (*distrust)(struct domain *d, const char *what);  /* the executor sent invalid data */
    void (*arena_free)(struct job *job);                   /* it needs its parts of an arena no more */
    void (*split)(struct job *bundle);                     /* makes its members jobs of their own */
    bool (*find)(struct jobs *jobs, const uint8_t id[16]); /* true: a bundle had this id, and was split */
};

/* What becomes of a job that is to be handed over. */
enum disk_step {
    STEP_ON,     /* it may go */
    STEP_AWAITS, /* it was taken out of the queue, and comes back */
    STEP_WAIT,   /* nothing can go now */
};

/* What the disk and the retries do for a job with a policy. */
struct policy_hooks {
    /* The input is complete. True: the job first goes to disk, and then comes back to job_enqueue(). */
    bool (*add)(struct job *job);
    enum disk_step (*before)(struct domain *d, struct job *job);
    /* Stops the job. True: it is stopped, or will be when the store has answered. */
    bool (*stop)(struct job *job, enum job_stop why);
    /* The job comes to this end. True: it is delayed for another try instead. */
    bool (*retry)(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
    void (*closing)(struct job *job); /* it got its final state */
    /* The end is known. True: it is told, by job_ended(), once it is on disk. */
    bool (*end)(struct job *job, const struct job_info *info);
    bool (*keep)(struct job *job);  /* ended and told; true: the store keeps it */
    void (*rest)(struct job *job);  /* it has no watches: frees from memory what is on disk */
    bool (*fetch)(struct job *job); /* true: its output is being read back first */
    void (*free)(struct job *job);
};
