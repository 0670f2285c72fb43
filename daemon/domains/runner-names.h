/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-names.h: the names that runners have offered, and which runner gets a job. [loop]
 *
 * A runner is an executor without a process. Its domain has rings like any other, and runner.c plays the executor's end
 * of them. The domain of the name, which has no executor, has the queue. It is the `successor` of the domains of its
 * runners, so that what comes back from a runner goes to any of them.
 *
 * A name that begins with `@` is a place: its runners take jobs for whatever plugin, `@NAME/PLUGIN:FUNCTION`. The domain
 * of a place has an entry for each plugin that jobs name, as that of an executor has, but nothing is ever loaded.
 */
#pragma once

#include "base/hash.h"
#include "domains/runners.h"
#include "table/job.h"

struct domain;

#define RUNNERS_SHARED UINT32_MAX /* the uid of names with runners that serve all users */
#define PLACE_FUNCTION "*"        /* what a place offers */

/* A name that runners have offered. */
struct runners {
    struct hash_link by_name; /* executors->runners */
    struct domain *domain;
    struct plugin *plugin; /* stands for the name as a plugin would; never a place's jobs */
    bool place;
    struct list all; /* struct runner */
    uint32_t n;
    uint32_t uid;  /* or RUNNERS_SHARED */
    bool outdated; /* by the configuration, jobs go to other runners of this name */
    uint32_t main; /* the plugin's function for jobs that name none; RING_NONE: no runner has said it */
    char name[64];
    uint64_t absent_usec; /* CLOCK_MONOTONIC: when the last runner went; 0: none was there */
    struct event *absent_timer;
};

uint64_t runners_key(uint32_t uid, const char *name); /* in executors->runners */
struct runner_rules runners_rules(const struct jobs *jobs, const char *name);
/* Those that jobs of this user go to. NULL: none has offered the name, and no job waits for one. */
struct runners *runners_of(const struct jobs *jobs, uint32_t uid, const char *name);
/* The name in a request, which is that, or one for a place. The whole request where that is too long for a name. */
const char *runners_name(const char *request, char buffer[static 64]);
bool runners_have_jobs(const struct runners *g);
/* The main function of a plugin at a place, which has the plugin's name there. "": it is at none. */
const char *place_main(const struct plugin *p);
/* What the runners of a place call the function of this job. */
#define PLACE_NAME 128u
void place_name(const struct job *job, char ret[static PLACE_NAME]);
/* Whether a job goes there now. waits: it does so as long as it takes. */
bool runners_take(const struct runners *g, bool waits);
/* The domain for jobs of this user that name this plugin. NULL: no runner has offered the name of late. */
struct domain *runners_find(const struct jobs *jobs, uint32_t uid, const char *request);
/* Describes the first of its runners. Returns how many. */
struct plugin_runner_info;
size_t runners_describe(const struct runners *g, struct plugin_runner_info *ret, size_t most);
/* The domain of the runner that gets this job of the domain's queue. NULL: none can take it now. */
struct domain *runners_choose(const struct domain *d, const struct job *job);
