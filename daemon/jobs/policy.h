/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h: the persistence and retry policy of jobs that have one: durable ones (durable.c, restore.c), those with a
 * key or with retries (policy.c). [loop]
 */
#pragma once

#include "jobs/job.h"
#include "store/store.h"

#define RETRY_FIRST_USEC 1000000u /* the first pause, where the submitter does not say */
/* pauses double up to this, or stay as the first one where that is longer */
#define RETRY_MAX_USEC (300ull * 1000000)
#define RETRY_ON                                                                                                       \
    (1u << JOB_FAILED | 1u << JOB_TIMED_OUT | 1u << JOB_CRASHED | 1u << JOB_INTERRUPTED) /* where he does not say */
#define STORE_OVERHEAD   1024u    /* bytes that a job is counted with on disk, beside those of its own */
#define STORE_RECORDS    100000u  /* ended jobs that are kept: each has a record in memory, too */
#define STORE_AGAIN_USEC 1000000u /* between tries, where the disk does not take what must be written */
#define STORE_READS      64u      /* inputs that are being read back, a domain */

struct policy {
    struct hash_link by_key; /* jobs->keys, where there is one */
    char *key;
    uint64_t timeout_usec; /* the submitter's own */
    uint64_t retry_usec;   /* the first pause */
    uint32_t retries, retried, retry_on;
    uint32_t attempts_before; /* in earlier tries */
    uint8_t last_state;       /* how the last try ended; its error is the job's */
    int last_exit;
    /* of a durable one */
    struct job *job;
    struct list requests; /* struct disk_request: under way */
    struct list stored;   /* jobs->stored or jobs->dead: ended, and on disk */
    struct list by_user;  /* user->stored: with jobs->stored */
    uint64_t number;      /* on disk */
    /* when it was dead and queued again, the newest number: those up to it have met its end; 0: never was */
    uint64_t requeued;
    uint64_t bytes;        /* there, as counted */
    uint64_t expires_usec; /* CLOCK_MONOTONIC */
    bool durable;
    bool acknowledged; /* it is on disk, and its submitter knows; before that it can be refused */
    bool marked;       /* on disk as begun: it must not run again after a restart */
    bool aside;        /* QUEUED, but in no queue: the store is asked for what must come before it is handed over */
    bool input_away;   /* the input is on disk only */
    bool ending;       /* has its final state, which is on its way to the disk: to the world it still runs */
    bool away;         /* the output is on disk only */
    bool reading;      /* and on its way back */
    bool unsaved;      /* the end could not be written: it is tried again */
    bool dead;         /* out of retries: kept until somebody decides */
};

struct disk_request {
    struct list link; /* policy->requests */
    struct jobs *jobs;
    struct job *job;           /* NULL: it has gone */
    struct dead_query *query;  /* NULL: none, or gone */
    struct schedule *schedule; /* NULL: it is of a job */
    struct store_request r;
    char error[JOB_TEXT];
};

static inline struct policy *job_policy(const struct job *job)
{
    return job->more ? job->more->policy : NULL;
}

/* Out of retries, on disk, and kept: what is listed so can be decided on. */
static inline bool policy_dead(const struct policy *p)
{
    return p->dead && !list_empty(&p->stored);
}

int policy_make(struct job *job, const struct job_request *r); /* 0 or -ENOMEM */
void policy_free(struct job *job);
struct job *key_find(struct jobs *jobs, uint32_t uid, const char *key);
/* It comes to this end: true where it will be tried again instead. */
bool retry_again(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
/* DELAYED, not durable, and wsd is ending: the last end is the end, where there was one. */
void retry_drain(struct job *job);
/* Its output is not to be told now: a later try, or a later wsd, may have another one. */
bool job_withheld(const struct job *job);
