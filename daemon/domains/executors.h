/* SPDX-License-Identifier: Apache-2.0
 *
 * executors.h: what the executors of all domains share: their program, and the processes that start and keep them.
 * [loop]
 */
#pragma once

#include <stdint.h>

#include "domains/direct-lanes.h"
#include "domains/domain.h"
#include "domains/names.h"
#include "domains/query.h"
#include "supervisor/child.h"
#include "supervisor/helper.h"
#include "supervisor/orphans.h"

struct executors {
    const struct domain_part *parts; /* of each domain; ends with one without calls */
    const struct executor_ops *ops;
    struct child_program program; /* the program of the executors */
    struct helper *helper;        /* NULL: executors run under wsd's uid */
    struct cgroups *cgroups;      /* NULL: executors run in wsd's cgroup */
    struct orphans *orphans;      /* NULL: wsd gets no orphans */
    uint32_t next_executor, next_query;
    uint32_t n_taken; /* completions taken in this turn, at most DOMAINS_TAKE */
    uint64_t output;  /* bytes of output with them */
    struct lane_pace lane_pace;
    struct names names;
    struct hash runners; /* struct runners, by user and name */
    struct jobs_trace trace;
};

/* state_dir: the directory by which the next wsd learns that something of this one is left (supervisor/predecessor.h);
 * NULL: none. Returns 0 or a negative errno; then nothing is left. */
int executors_new(struct jobs *jobs, const char *state_dir);
void executors_free(struct jobs *jobs); /* there must be no domains. Waits for the ends of the processes */
/* See jobs_become_spawner(). */
int executors_become_spawner(const struct jobs_options *options, int socket);
