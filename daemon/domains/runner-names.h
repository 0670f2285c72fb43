/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-names.h: the names that runners have offered, and which runner gets a job. [loop]
 *
 * A runner is an executor without a process: its domain has rings like any other, and runner.c plays the executor's
 * end of them. The domain of the name, which has no executor, has the queue. It is the `successor` of the domains of
 * its runners, so that what comes back from a runner goes to any of them.
 */
#pragma once

#include "base/hash.h"
#include "table/job.h"

struct domain;

/* A name that runners have offered. */
struct runners {
    struct hash_link by_name; /* executors->runners */
    struct domain *domain;
    struct plugin *plugin; /* stands for the name as a plugin would */
    struct list all;       /* struct runner */
    uint32_t n;
    uint32_t uid;
    char name[64];
    struct event *absent_timer;
};

uint64_t runners_key(uint32_t uid, const char *name); /* in executors->runners */
/* NULL: none of this user's ever offered it. */
struct runners *runners_named(const struct jobs *jobs, uint32_t uid, const char *name);
/* The domain for jobs of this user that name this plugin. NULL: no runner has offered the name of late. */
struct domain *runners_find(const struct jobs *jobs, uint32_t uid, const char *request);
/* No runner is there: starts the time for which jobs wait for one. Also where the timer could not be set. */
void runners_rearm(struct runners *g);
/* The domain of the runner that gets this job of the domain's queue. NULL: none can take it now. */
struct domain *runners_choose(const struct domain *d, const struct job *job);
