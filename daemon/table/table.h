/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h: the job table, and what it knows of the trust domains. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "base/hash.h"
#include "base/list.h"
#include "ring/front.h"
#include "sched/breaker.h"
#include "sched/due.h"
#include "sched/fair-queue.h"
#include "sched/fair-slots.h"
#include "sched/retry-after.h"
#include "table/batch.h"
#include "table/function-stats.h"
#include "table/gate.h"
#include "table/interface.h"
#include "table/plugin.h"

struct domain_hooks;
struct domain_private;
struct durable;
struct executors;
struct policy_hooks;
struct schedules;

/* One trust domain: an executor and the jobs for it. Of the executor the table knows the rings only. */
struct domain {
    struct hash_link by_key;
    struct list link; /* jobs->domains */
    struct jobs *jobs;
    uint64_t key;             /* its owner: domain_owner() */
    struct front *front;      /* the rings of the executor; NULL: none runs */
    uint32_t executor_number; /* of the last one; 0: there was none */
    struct domain *successor; /* while retiring: requeued jobs go here */
    struct fair_queue queue;  /* the jobs that wait */
    struct slot_waiter run_slot;
    struct list handed; /* the jobs that the executor has, in the order of their hand-over */
    struct job *slots[RING_SLOTS];
    uint32_t n_handed;
    uint32_t n_aged;             /* aged jobs among those handed over */
    uint32_t n_awaiting_store;   /* jobs that wait for the store before their hand-over */
    struct domain_private *priv; /* what only domains/ knows of it (domains/domain.h) */
};

#define JOBS_SLABS 50u

/* Makes ids of jobs and batches: a time, and a part that cannot be guessed. */
struct id_maker {
    uint64_t seed[2], n;
};

/* See jobs_realtime(). */
struct realtime {
    uint64_t offset_usec; /* CLOCK_REALTIME minus CLOCK_MONOTONIC at at_usec */
    uint64_t at_usec;     /* CLOCK_MONOTONIC; 0: never looked at */
};

/* Watches that want progress. */
struct progress {
    struct list all;
    struct list due; /* of those, the ones still to be looked at in this round */
    struct event *timer;
};

/* Brief jobs that share one entry of the table. */
struct bundles {
    struct hash by_first; /* by the id of the bundle's first job */
    uint32_t n;           /* jobs in bundles */
};

/* The drain's walk over by_id: see jobs_drain(). */
struct drain_walk {
    size_t bucket; /* the next one */
    bool due;
};

/* Traces of jobs: see job-trace.h. */
struct job_traces {
    struct job_trace_ring *ring; /* NULL: there is no trace */
    struct list all;             /* those that go on */
    uint32_t n;                  /* with those that are being read */
};

struct jobs {
    struct jobs_options options;
    const struct domain_hooks *domain_hooks;
    const struct policy_hooks *policy_hooks;
    struct executors *executors; /* what only domains/ knows */
    struct durable *durable;     /* what only durable/ knows */
    struct schedules *schedules; /* what only schedule.c knows */
    struct hash by_id, users, by_key;
    struct hash flows; /* struct flow: of all queues */
    struct gates gates;
    struct bundles bundles;
    struct slab slabs[JOBS_SLABS];                     /* jobs, by size in steps of 8 bytes */
    uint64_t rate_nsec;                                /* for all users: see rate_wait() */
    struct retry_after retry_after, bytes_retry_after; /* for limits.jobs; for limits.bytes */
    struct list domains;                               /* in the order of polling */
    struct fair_slots run_slots;
    struct list after_due; /* struct awaited: ended, and the waiting jobs were not told yet */
    struct progress progress;
    struct list offers_due; /* jobs with several watches that are to be offered output: see output_turn() */
    struct list ends_due;   /* ended jobs that have watches that were not told yet: see ends_turn() */
    struct list settle_due; /* plugins with a load that has ended, for which something waits: see plugins_turn() */
    struct jobs_counters counters;
    struct breakers breakers;
    struct function_table functions;
    struct due_clock boot, wall; /* dues after a span; dues at a time of day */
    struct job_traces traces;
    uint32_t n_selections; /* select.c: selections that walk over by_id */
    struct batches batches;
    uint64_t n_configured; /* number of times that the configuration was read */
    struct id_maker ids;
    struct realtime realtime;
    uint32_t max_fd; /* the highest descriptor that an input may have */
    struct drain_walk drain;
    bool draining;
    bool arriving;    /* many jobs are arriving: hand-over waits until all are there */
    bool untimed;     /* a needed timer could not be set for want of memory */
    bool was_untimed; /* that was logged */
};

/* Whether there may be a breaker entry for a plugin or its function. Mostly false: then no function of
 * job-breaker.h need be called. */
static inline bool job_breaker_knows(const struct plugin *p, const struct plugin_function *f)
{
    uint64_t n = p->domain->jobs->breakers.n_added;

    return p->innocent != n || f->innocent != n;
}
