/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h: passes output from an executor's memory to the watches of the job. [loop]
 */
#pragma once

#include "table/job.h"

/* Whether the output goes to a descriptor of the submitter's, past wsd. */
static inline bool output_goes_by(const struct job *job)
{
    return job->more && job->more->output_fd >= 0;
}

void output_add(struct job *job, const void *data, size_t size);
/* Passes the last output together with the end, if the job has one watch, which has had all before and accepts that.
 * False: use output_add(). */
bool output_rest(struct job *job, const void *data, size_t size);
const char *output_lost(const struct job *job); /* JOB_TRUNCATED: the reason */
/* Whether the executor's count at the end equals what came; `rest` bytes are not added yet. */
bool output_adds_up(struct job *job, const struct front_completion *c, size_t rest);
void output_add_chunk(struct job *job, const struct front_completion *c);
void output_absorb(struct job *job); /* copies every piece still in the executor's memory */
/* Gives the watches what they can take: at once where there is one, in output_turn() where there are more. Call where
 * there is new output, and where a watch for which output_waits_for() was true has read, or gone. */
void output_pump(struct job *job);
void output_turn(struct jobs *jobs); /* once a turn of the loop */
/* Gives this watch what it can take now. Returns what that cost, in offers: more for many bytes. It does not grow with
 * the other watches. */
uint32_t output_give(struct job *job, struct watch *w);
/* Whether output is kept, or waits in the executor's memory, because of this watch. */
bool output_waits_for(const struct job *job, const struct watch *w);
void output_discard(struct job *job); /* before it runs again */
void output_free(struct job *job);
