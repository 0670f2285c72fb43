/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h: what was promised for a job beyond one run: that it is durable, has a key or is retried. [loop]
 */
#pragma once

#include "base/heap.h"
#include "table/job.h"

#define RETRY_FIRST_USEC 1000000u /* the first pause, by default */
/* pauses double up to this; where the first one is longer, they are all as long as that */
#define RETRY_MAX_USEC (300ull * 1000000)
#define RETRY_ON                                                                                                       \
    (1u << JOB_FAILED | 1u << JOB_TIMED_OUT | 1u << JOB_CRASHED | 1u << JOB_INTERRUPTED) /* default of retry_on */
#define DURABLE_INPUT_MAX (256ull << 20) /* bytes of the input of a durable job: STORE_INPUT_MAX */

struct policy {
    struct hash_link by_key; /* in jobs->durable->keys, if the job has a key */
    char *key;
    uint64_t timeout_usec; /* the submitter's own */
    uint64_t retry_usec;   /* the first pause */
    uint32_t retries, retried, retry_on;
    uint32_t attempts_before; /* in earlier tries */
    uint8_t last_state;       /* how the last try ended; its error is in the job */
    int last_exit;
    /* The rest is for a durable job. */
    struct job *job;
    struct list requests;              /* struct disk_request under way */
    struct list stored;                /* in a list of jobs->durable->results */
    struct heap_node expires, by_user; /* in results.expiring and user->expiring, if in results.stored */
    uint64_t number;                   /* on disk */
    /* the newest number on disk when this dead job was queued again: jobs up to it have seen its end; 0: never */
    uint64_t requeued;
    uint64_t bytes; /* bytes on disk, as counted */
    bool durable;
    bool acknowledged;   /* on disk, and its submitter knows; until then it can be refused */
    bool marked;         /* marked on disk as begun: it must not run again after a restart */
    bool awaiting_store; /* QUEUED but in no queue: it waits for the store before its hand-over */
    bool input_away;     /* the input is only on disk */
    bool ending;         /* it has its final state, which is being written; see job_told_state() */
    bool away;           /* the output is only on disk */
    bool reading;        /* the output is being read back */
    bool unsaved;        /* the end could not be written, and will be written again; see policy_unwritten() */
    bool dead;           /* out of retries: kept until a user decides */
};

static inline struct policy *job_policy(const struct job *job)
{
    return job->more ? job->more->policy : NULL;
}

/* It was cancelled, and that could not be written so far. It has ended for nobody: the next wsd would run it. */
static inline bool policy_unwritten(const struct policy *p)
{
    return p->ending && p->unsaved;
}

/* Out of retries, on disk and kept: it can be queued again or forgotten. */
static inline bool policy_dead(const struct policy *p)
{
    return p->dead && !list_empty(&p->stored);
}

/* It is not on disk yet, so it can still be refused. */
static inline bool durable_unacknowledged(const struct job *job)
{
    const struct policy *p = job_policy(job);

    return p && p->durable && !p->acknowledged;
}

/* Its output must not be passed on yet: a later try, or a later wsd, may make another one. */
static inline bool job_withheld(const struct job *job)
{
    const struct policy *p = job_policy(job);

    return p && (p->durable || p->retries) && (!job_final(job) || p->ending || p->away);
}
