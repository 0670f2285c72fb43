/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.h: functions, plugins and tags that are paused, or of which only so many jobs run at once; and the drain.
 * [loop]
 */
#pragma once

#include "jobs/job.h"

bool gate_lets(struct job *job);    /* the first of its domain's queue; false: it waits at a gate now */
void job_unqueue(struct job *job);  /* QUEUED: from wherever it waits */
void gate_entered(struct job *job); /* for job_move(): it is handed over, and no longer is */
void gate_left(struct job *job);
bool gate_known(const struct jobs *jobs, const char *plugin, const char *function); /* there is one for either */
void gates_turn(struct jobs *jobs);                                                 /* once a turn of the loop */
void gates_free(struct jobs *jobs);
