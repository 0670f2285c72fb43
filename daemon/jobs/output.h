/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h: output on its way from an executor's memory to those who follow the job. [loop]
 */
#pragma once

#include "jobs/job.h"

void output_add(struct job *job, const void *data, size_t size);
/* The last of it, where its one reader has had all before and takes it with the end. False: output_add() it. */
bool output_rest(struct job *job, const void *data, size_t size);
const char *output_lost(const struct job *job); /* JOB_TRUNCATED: why */
/* Whether the executor's count at the end is that of what came; `rest` bytes are not added yet. */
bool output_adds_up(struct job *job, const struct front_completion *c, size_t rest);
void output_add_chunk(struct job *job, const struct front_completion *c);
void output_absorb(struct job *job); /* takes over every held piece */
void output_pump(struct job *job);
/* What this watch can take now, at a cost that does not grow with the others. */
void output_give(struct job *job, struct watch *w);
/* Whether output is kept, or waits in the executor's memory, for the sake of this watch. */
bool output_waits_for(const struct job *job, const struct watch *w);
/* A watch of which that was so has read, or gone: output_pump(), at once for one reader, in output_turn() for many. */
void output_moved(struct job *job);
void output_turn(struct jobs *jobs);  /* once a turn of the loop */
void output_discard(struct job *job); /* before it runs again */
void output_free(struct job *job);
