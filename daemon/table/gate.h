/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.h: gates, which pause or limit functions, plugins, tags and users; and the drain. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"

struct job;
struct jobs;
struct jobs_gate_info;
struct jobs_gate_request;

struct gates {
    struct hash by_name;
    struct list of_users;
    bool due;             /* some job may leave a gate */
    bool drained, paused; /* by an administrator. drained: no new jobs; paused: no hand-over */
};

bool gate_lets(struct job *job);    /* job: the first of its domain's queue; false: it now waits at a gate */
void job_unqueue(struct job *job);  /* QUEUED: removes it from its queue or gate */
void gate_entered(struct job *job); /* for job_move(): it is handed over (entered), or is not now (left) */
void gate_left(struct job *job);
/* there is a gate for the plugin or the function */
bool gate_known(const struct jobs *jobs, const char *plugin, const char *function);
/* Once a turn of the loop. True: jobs may have come back to their domains' queues, or gates have opened. */
bool gates_turn(struct jobs *jobs);
/* For gate-control.c. gate_set(): as jobs_gate(), for what has a plugin or a tag. */
int gate_set(struct jobs *jobs, const struct jobs_gate_request *r);
void gates_each(const struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata),
                void *userdata);
void gates_free(struct jobs *jobs);
