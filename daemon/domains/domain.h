/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.h: the trust domains: which there are, and their life. [loop]
 */
#pragma once

#include "domains/arena.h"
#include "domains/direct-lane.h"
#include "domains/health.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "domains/recall.h"
#include "domains/recycle.h"
#include "supervisor/executor.h"
#include "table/job.h"

struct probe;
struct runner;
struct runners;

#define DOMAIN_MIXED UINT64_MAX

/* What a domain is besides the queue and the jobs that were handed over. */
struct domain_private {
    struct jobs_domain settings; /* the executor's settings at its start */
    char own_name[64];           /* apart: the plugin's name in the configuration; else "" */
    char *own;                   /* apart: the request of its only plugin; NULL: it serves all other plugins */
    struct executor *executor;   /* NULL: none runs */
    struct runner *runner;       /* the executor is this one; NULL: it is a process */
    struct runners *runners;     /* its queue is for the runners of a name; NULL: for its own executor */
    struct event *pause_timer;   /* until the next start, or the next try to hand a job over */
    struct event *idle_timer;    /* until an executor without work is ended */
    uint64_t idle_since_usec;
    bool has_ended;         /* its last job has ended; cleared by domain_settle() */
    bool distrusted;        /* the executor sent invalid data and is being ended */
    bool finishing;         /* the executor was told to end and gets no more jobs */
    bool useful;            /* the executor has ended a job, or is suspected because of a plugin */
    bool unpumped;          /* more can be handed over in this or the next turn of the loop */
    uint32_t n_unrung;      /* jobs handed over since the executor's doorbell was last rung */
    uint32_t n_deaths;      /* successive executors that ended before they were `useful` */
    char *unconfined;       /* of job_words(): why the executor cannot confine itself; NULL: it can */
    char *given_up;         /* of job_words(): why queued jobs are ended, some a turn; NULL: they are not */
    uint64_t n_given_up;    /* of those, still in the queue */
    char *start_error;      /* why the last executor could not be started; NULL: it could, or that is not known */
    uint64_t only_function; /* the function of all jobs handed to this executor; 0: none yet; DOMAIN_MIXED: several */
    struct event *bundle_timer; /* while there are bundles */
    struct probe *probe;        /* the executor only tries a file for a reload; else NULL */
    struct plugins plugins;
    struct recall recall;
    struct recycling recycling;
    struct health health;
    struct queries queries;
    struct domain_trace trace;
    struct arenas arenas;
    struct lanes lanes;
};

/* What each domain has of one feature. */
struct domain_part {
    int (*init)(struct domain *d);    /* 0 or a negative errno; then deinit is not called */
    void (*deinit)(struct domain *d); /* the parts behind it have been deinited */
};

/* the workers of its executor */
static inline uint32_t domain_workers(const struct domain *d)
{
    return d->priv->settings.workers ? d->priv->settings.workers : d->jobs->options.workers;
}
/* Its executor has no job, and gets none before the domain is marked anew. */
static inline bool domain_hands_nothing(const struct domain *d)
{
    return !d->n_handed && !(d->priv->unpumped && d->queue.n);
}
/* Takes the present configuration. A standby takes that of the domain that it will serve. */
void domain_configure(struct domain *d);
/* the configuration key of its memory limit, and the value */
void domain_memory_words(const struct domain *d, char *text, size_t size);
struct domain *domain_get(struct jobs *jobs, uint32_t uid); /* NULL: no memory */
/* The domain for this plugin's jobs. NULL: no memory, or too many plugins are apart. */
struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request);
struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request);
struct domain *domain_new(struct jobs *jobs, uint64_t owner); /* in no table; NULL: no memory */
void domain_free(struct domain *d);
void domain_distrust(struct domain *d, const char *what); /* the executor sent invalid data: distrusts and ends it */
