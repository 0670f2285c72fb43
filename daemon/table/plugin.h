/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h: a plugin as one domain's executor has it, and its functions. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cost.h"
#include "base/list.h"
#include "table/function-stats.h"

struct domain;
struct event;
struct plugin_reload;

struct plugin_function {
    char *name, *help;
    uint64_t flags;
    uint32_t index;    /* in the plugin's table; RING_NONE: a newer file lacks the function */
    uint64_t innocent; /* job-breaker.c: breakers.n_added when this function was last looked up and not found */
    /* job_resolve(): equals jobs->n_configured where every job that has nothing but arguments and input can skip the
     * checks */
    uint64_t cacheable;
    /* bundle-cost.c: how long recent jobs took, and the most that they wrote (bytes, in 1/64) */
    struct cost cost;
    uint32_t output;
    struct function_stats_near
        near[FUNCTION_STATS_NEAR]; /* function-stats.c: of users with jobs that ended of late, by uid */
};

enum plugin_state { PLUGIN_UNKNOWN, PLUGIN_LOADING, PLUGIN_READY, PLUGIN_FAILED };

/* A plugin as one domain's executor has it. */
struct plugin {
    struct list link; /* domain->priv->plugins.all */
    struct domain *domain;
    uint32_t number; /* the same in each executor of the domain */
    enum plugin_state state;
    bool stale; /* the file has changed: new jobs use a newer entry */
    /* only questions have asked for it so far: it is dropped first, and no executor preloads it */
    bool looked;
    uint64_t used; /* domain->priv->plugins.n_used at its last use */
    char *request; /* name or path, as submitted */
    uint32_t uid;  /* of a place: this user's jobs name it */
    char *title;   /* its own name, as an earlier wsd had learnt it; NULL: not known */
    char *name, *version, *help, *path;
    char *build;                  /* build id of the file, or "" */
    uint64_t digest;              /* of the file */
    struct plugin_reload *reload; /* the file is on trial, and jobs do not find this entry; NULL: no reload */
    struct plugin_function *functions;
    uint32_t n_functions, n_announced;
    bool begun;        /* LOADING: the executor has said that it is at it */
    bool excused;      /* LOADING: its executor is replaced, which had not begun with it */
    bool unread;       /* LOADING: some of what the executor reported was lost for want of memory */
    uint32_t n_jobs;   /* jobs that point here */
    uint64_t innocent; /* as for a function */
    uint8_t in_next;   /* in the standby's executor: 1: being loaded, 2: loaded */
    /* the waiting jobs and queries are being told: it must not be freed, and new jobs wait behind those */
    bool settling;
    struct list settle_due; /* jobs->settle_due */
    uint64_t stamp[4];      /* device, inode, size, time of change of the file */
    int error;              /* positive errno of a load that failed */
    char *error_text;       /* of job_words(): why it cannot be loaded */
    uint64_t load_order;    /* LOADING: its place in the order of loads, which the executor does one by one */
    uint32_t n_load_deaths; /* successive executors that died while loading it */
    uint64_t retry_usec;    /* CLOCK_MONOTONIC: no new load before */
    uint64_t checked_usec;  /* when the file was last looked at */
    struct list waiting;    /* jobs (NEW) and plugin queries that wait for the load */
    struct list queries;
    struct event *timer; /* a load that takes too long */
};

/* A new job need not wait: neither for a load, nor behind jobs that did. */
static inline bool plugin_is_ready(const struct plugin *p)
{
    return p->state == PLUGIN_READY && !p->settling;
}
