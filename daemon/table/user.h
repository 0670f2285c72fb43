/* SPDX-License-Identifier: Apache-2.0
 *
 * user.h: one user, for accounting; and the directories that jobs share. [loop]
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "sched/retry-after.h"
#include "table/interface.h"

struct user {
    struct hash_link by_uid;
    uint32_t uid;
    uint32_t n_jobs;  /* not in a final state */
    struct list kept; /* jobs in a final state with a kept result, oldest first */
    uint32_t n_kept;
    uint32_t n_fds;       /* descriptors of inputs */
    uint32_t n_schedules; /* schedules, without those of the configuration */
    uint32_t n_batches;   /* batches that can be found by their id */
    uint32_t n_functions; /* function-stats.c: rows */
    struct heap expiring; /* struct policy: durable jobs that have ended, by the time when they go */
    uint32_t n_stored;
    uint64_t store_bytes; /* bytes on disk of all durable jobs of the user */
    uint32_t n_direct;    /* calls that the user's direct lanes may have under way */
    uint64_t n_bytes;     /* arguments, inputs and kept results */
    uint32_t n_running;   /* jobs handed over */
    uint64_t placed;      /* run_slots.n_taken when a job of this user was last handed over */
    uint64_t rate_nsec;   /* see rate_wait() */
    struct gate *gate;    /* where jobs above running_per_user wait; NULL: none does */
    uint64_t n_selected;  /* ids that the user's selections hold */
    struct retry_after retry_after, bytes_retry_after; /* for jobs_per_user; for bytes_per_user */
    struct jobs_limits *own_limits;                    /* in place of the general limits; NULL: none */
};

/* A path that many jobs of one connection share. */
struct directory {
    uint32_t n_refs;
    char path[];
};
