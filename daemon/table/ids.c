/* SPDX-License-Identifier: Apache-2.0
 *
 * ids.c: ids of jobs and batches, and the time in them.
 * Owns nothing; what it needs to make one is in struct jobs. [loop]
 * Keeps: ids sort by age.
 * Does not find a job (find.c). */
#include "table/ids.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "table/job.h"

#define REALTIME_USEC 1000u /* a change of the clock may go unnoticed for so long */
#define ID_TIME       6     /* bytes of milliseconds; 10 bits of microseconds follow */

uint64_t jobs_realtime(struct jobs *jobs, uint64_t now_usec)
{
    if (now_usec - jobs->realtime.at_usec >= REALTIME_USEC) {
        jobs->realtime.at_usec = now_usec;
        jobs->realtime.offset_usec = clock_realtime_usec() - clock_monotonic_usec();
    }
    return now_usec + jobs->realtime.offset_usec;
}

/* 58 bits of time, so that ids sort by age, and 70 random bits, so that machines need not agree (as UUID version 7).
 * Not a secret: the rights of a client that asks by id are checked. The last 64 bits count up from a random start:
 * successive jobs then are neighbours in the table, which saves most of them a cache miss. */
void id_make(struct jobs *jobs, uint64_t now_usec, uint8_t ret[16])
{
    uint64_t ms = now_usec / 1000, number = jobs->ids.seed[0] + jobs->ids.n;
    uint16_t usec = (uint16_t)(now_usec % 1000 << 6 | (hash_mix(jobs->ids.seed[1] + jobs->ids.n) & 63));

    jobs->ids.n++;
    for (int i = 0; i < ID_TIME; i++)
        ret[i] = (uint8_t)(ms >> (40 - 8 * i));
    ret[6] = (uint8_t)(usec >> 8);
    ret[7] = (uint8_t)usec;
    memcpy(ret + 8, &number, sizeof(number));
}

uint64_t job_submitted_usec(const struct job *job)
{
    uint64_t half = job_id_half(job->id), usec = half >> 6 & 1023u;

    return (half >> 16) * 1000 + MIN(usec, 999u);
}

int job_name(struct jobs *jobs, struct job *job)
{
    return hash_insert(job->bundled ? &jobs->bundles.by_first : &jobs->by_id, &job->by_id, job_id_key(job->id));
}

void job_id_of(uint8_t ret[16], const uint8_t first[16], uint32_t i)
{
    memcpy(ret, first, 16);
    id_add(ret, i);
}
