/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h: what the domains know of runners. [loop]
 *
 * A runner is an executor without a process: its domain has rings like any other, and runner.c plays the executor's
 * end of them. The domain of the name, which has no executor, has the queue. It is the `successor` of the domains of
 * its runners, so that what comes back from a runner goes to any of them.
 */
#pragma once

#include "domains/runners.h"
#include "table/job.h"

struct domain;

/* A name that runners have offered. */
struct runners {
    struct hash_link by_name; /* executors->runners */
    struct domain *domain;
    struct plugin *plugin; /* what stands for the name where there is a plugin else */
    struct list all;       /* struct runner */
    uint32_t n;
    uint32_t uid;
    char name[64];
    struct event *absent_timer;
};

/* The domain for jobs of this user that name this plugin. NULL: no runner has offered the name of late. */
struct domain *runners_find(const struct jobs *jobs, uint32_t uid, const char *request);
/* The domain of the runner that gets this job of the domain's queue. NULL: none can take it now. */
struct domain *runners_choose(const struct domain *d, const struct job *job);
/* Hands to the runner what is in its rings, and passes on output. True: there was something. */
bool runner_turn(struct runner *r);
void runner_stop(struct runner *r, uint32_t slot, enum job_stop why); /* its job is to end */
/* Appends to text: how many runners, and their processes. */
void runners_words(const struct runners *g, char *text, size_t size);
int runners_init(struct domain *d); /* 0 */
void runners_deinit(struct domain *d);
