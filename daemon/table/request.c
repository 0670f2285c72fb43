/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c: applies a request to its job: that of a client, or one that was read from the disk.
 * Owns nothing. [loop]
 * Keeps: a job without any of this has no struct job_more.
 * Does not refuse, and does not know input (input.c), order (after.c) or promises (durable/retry.c). */
#include "table/request.h"

#include <errno.h>
#include <string.h>

#include "table/timing.h"

bool request_has_policy(const struct job_request *r)
{
    return r->durable || r->retries || (r->key && *r->key);
}

#define OR_GIVEN(name, ...)   || (r->name && *r->name)
#define OR_NO_ROOM(name, ...) || keep_text(r->name, &job->more->name) < 0

bool request_wants_more(const struct job_request *r)
{
    bool timed = r->delay_usec || r->at_usec || r->queue_usec || r->timeout_usec;

    return request_has_policy(r) || timed || r->more_input KEPT_OPTIONS(OR_GIVEN);
}

/* The text into *ret of the job's struct job_more. NULL and "" are none. 0 or -ENOMEM. */
static int keep_text(const char *text, char **ret)
{
    *ret = text && *text ? strdup(text) : NULL;
    return text && *text && !*ret ? -ENOMEM : 0;
}

int request_apply(const struct job_request *r, struct job *job)
{
    if (time_wanted(job, r) < 0)
        return -ENOMEM;
    if (!request_wants_more(r))
        return 0;
    if (!job_more(job) KEPT_OPTIONS(OR_NO_ROOM))
        return -ENOMEM;
    job->more->timeout_usec = r->timeout_usec;
    return 0;
}
