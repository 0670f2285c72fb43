/* SPDX-License-Identifier: Apache-2.0
 *
 * ids.h: ids of jobs and batches, and the time in them. [loop]
 */
#pragma once

#include <stdint.h>
#include <string.h>

struct job;
struct jobs;

void id_make(struct jobs *jobs, uint64_t now_usec, uint8_t ret[16]); /* makes a new id; now_usec: CLOCK_REALTIME */
/* the id of an array's i-th job, from that of the first */
void job_id_of(uint8_t ret[16], const uint8_t first[16], uint32_t i);
/* CLOCK_REALTIME now; now_usec is CLOCK_MONOTONIC now. A change of the clock is noticed within REALTIME_USEC. */
uint64_t jobs_realtime(struct jobs *jobs, uint64_t now_usec);
uint64_t job_submitted_usec(const struct job *job); /* CLOCK_REALTIME */
int job_name(struct jobs *jobs, struct job *job);   /* enters it into by_id; 0 or -ENOMEM */

/* The key of jobs.by_id. */
static inline uint64_t job_id_key(const uint8_t id[16])
{
    uint64_t low;

    memcpy(&low, id + 8, sizeof(low));
    return low;
}
