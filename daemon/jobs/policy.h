/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h: persistence and retries: durable jobs (durable.c, restore.c), and jobs with a key or with retries
 * (policy.c). [loop]
 */
#pragma once

#include "jobs/job.h"
#include "store/store.h"

#define RETRY_FIRST_USEC 1000000u /* the first pause, by default */
/* pauses double up to this; where the first one is longer, they are all as long as that */
#define RETRY_MAX_USEC (300ull * 1000000)
#define RETRY_ON                                                                                                       \
    (1u << JOB_FAILED | 1u << JOB_TIMED_OUT | 1u << JOB_CRASHED | 1u << JOB_INTERRUPTED) /* default of retry_on */
#define STORE_OVERHEAD   1024u    /* bytes counted for a job on disk beside its own */
#define STORE_RECORDS    100000u  /* ended jobs that are kept; each has a record in memory, too */
#define STORE_AGAIN_USEC 1000000u /* between two attempts to write what the disk refused */
#define STORE_READS      64u      /* inputs of one domain that are being read back */

struct policy {
    struct hash_link by_key; /* in jobs->keys, if the job has a key */
    char *key;
    uint64_t timeout_usec; /* the submitter's own */
    uint64_t retry_usec;   /* the first pause */
    uint32_t retries, retried, retry_on;
    uint32_t attempts_before; /* in earlier tries */
    uint8_t last_state;       /* how the last try ended; its error is in the job */
    int last_exit;
    /* The rest is for a durable job. */
    struct job *job;
    struct list requests; /* struct disk_request under way */
    struct list stored;   /* in jobs->results.stored or jobs->results.dead: ended, and on disk */
    struct list by_user;  /* in user->stored, if in jobs->results.stored */
    uint64_t number;      /* on disk */
    /* the newest number on disk when this dead job was queued again: jobs up to it have seen its end; 0: never */
    uint64_t requeued;
    uint64_t bytes;        /* bytes on disk, as counted */
    uint64_t expires_usec; /* CLOCK_MONOTONIC */
    bool durable;
    bool acknowledged;   /* on disk, and its submitter knows; until then it can be refused */
    bool marked;         /* marked on disk as begun: it must not run again after a restart */
    bool awaiting_store; /* QUEUED but in no queue: it waits for the store before its hand-over */
    bool input_away;     /* the input is only on disk */
    bool ending;         /* it has its final state, which is being written; until then it is shown as running */
    bool away;           /* the output is only on disk */
    bool reading;        /* the output is being read back */
    bool unsaved;        /* the end could not be written, and will be written again */
    bool dead;           /* out of retries: kept until a user decides */
};

struct disk_request {
    struct list link; /* policy->requests */
    struct jobs *jobs;
    struct job *job;           /* NULL: it has gone */
    struct dead_query *query;  /* NULL: none, or gone */
    struct schedule *schedule; /* NULL: the request is a job's */
    struct store_request r;
    char error[JOB_TEXT];
};

static inline struct policy *job_policy(const struct job *job)
{
    return job->more ? job->more->policy : NULL;
}

/* Out of retries, on disk and kept: it can be queued again or forgotten. */
static inline bool policy_dead(const struct policy *p)
{
    return p->dead && !list_empty(&p->stored);
}

int policy_make(struct job *job, const struct job_request *r); /* 0 or -ENOMEM */
void policy_free(struct job *job);
struct job *key_find(struct jobs *jobs, uint32_t uid, const char *key);
/* The job comes to this end. True: it is delayed for another try instead. */
bool retry_again(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
/* For a job that is DELAYED and not durable while wsd ends: the last try's end becomes its end; without one it is
 * interrupted. */
void retry_drain(struct job *job);
/* Its output must not be passed on yet: a later try, or a later wsd, may make another one. */
bool job_withheld(const struct job *job);
