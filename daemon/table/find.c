/* SPDX-License-Identifier: Apache-2.0
 *
 * find.c: finds a job by its id.
 * Owns nothing. [loop]
 * Keeps: a user finds only the user's own jobs; root all. One that may still be refused is not found.
 * Does not walk over all jobs (jobs/select.c). */
#include "table/find.h"

#include <string.h>

#include "base/cleanup.h"
#include "table/hooks.h"
#include "table/ids.h"

/* NEW, and its plugin is not loaded yet: it can be seen and cancelled, like a job that waits for an executor. */
static bool is_waiting(const struct job *job)
{
    return job->state == JOB_NEW && job->function == JOB_NO_FUNCTION;
}

bool job_shown_to(const struct job *job, uint32_t uid)
{
    return (job_known(job) || is_waiting(job)) && (uid == 0 || uid == job->user->uid);
}

struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    uint64_t key = job_id_key(id);

    for (struct hash_link *l = hash_first(&jobs->by_id, key); l; l = hash_next(l)) {
        struct job *job = container_of(l, struct job, by_id);

        if (memcmp(job->id, id, 16) == 0)
            return job_shown_to(job, uid) ? job : NULL;
    }
    return jobs->bundles.by_first.n && jobs->domain_hooks->find(jobs, id) ? job_find_shown(jobs, id, uid) : NULL;
}

struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    struct job *job = job_find_shown(jobs, id, uid);

    return job && job_known(job) ? job : NULL;
}
