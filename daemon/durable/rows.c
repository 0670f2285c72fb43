/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c: the fields of a request on disk: of durable jobs, and of the runs of schedules.
 * Owns nothing. [loop]
 * Keeps: what row_set_job() and row_set_request() put into a row, row_request() finds there.
 * Does not know what becomes of a job: state, end and waiting are for durable.c, results.c and restore.c. */
#include "durable/rows.h"

#include <string.h>

#include "domains/domain.h"
#include "table/ids.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/timing.h"

#define FROM_ROW(name, ...) .name = row->name,
#define TO_ROW(name, ...)   row->name = job->more->name;

/* A file may have been damaged, and it goes to the executor by its length. */
static bool is_traceparent(const char *text)
{
    return text && strlen(text) == JOB_TRACEPARENT - 1 && strspn(text, "0123456789abcdef-") == JOB_TRACEPARENT - 1;
}

struct job_request row_request(const struct store_row *row)
{
    struct job_request r = {.uid = row->uid,
                            .plugin = row->plugin,
                            .function = row->function,
                            .args = row->args,
                            .args_size = row->args_size,
                            .argc = row->argc,
                            .priority = row->priority,
                            .timeout_usec = row->timeout_usec,
                            .retries = row->retries,
                            .retry_on = row->retry_on,
                            .retry_usec = row->retry_usec,
                            .delay_usec = row->delay_usec,
                            .queue_usec = row->wait_usec,
                            .waits = row->function_flags & ROW_WAITS,
                            .durable = row->durable,
                            KEPT_OPTIONS(FROM_ROW)};

    if (!is_traceparent(r.traceparent))
        r.traceparent = NULL;
    return r;
}

void row_set_request(struct store_row *row, const struct job_request *r)
{
    row->uid = r->uid;
    row->plugin = r->plugin;
    row->function = r->function;
    row->directory = r->directory ? r->directory->path : NULL;
    row->args = r->args;
    row->args_size = r->args_size;
    row->argc = r->argc;
    row->priority = r->priority;
    row->timeout_usec = r->timeout_usec;
    row->retries = r->retries;
    row->retry_on = r->retry_on;
    row->retry_usec = r->retry_usec;
    row->wait_usec = r->queue_usec;
    row->durable = r->durable;
    row->traceparent = r->traceparent && *r->traceparent ? r->traceparent : NULL;
    row->function_flags = r->waits ? ROW_WAITS : 0;
}

void row_set_job(struct store_row *row, const struct job *job)
{
    const struct policy *p = job_policy(job);
    const struct job_time *t = job_time(job);

    memcpy(row->id, job->id, sizeof(row->id));
    row->uid = job->user->uid;
    row->plugin = job->plugin->request;
    row->title = plugin_title(job->plugin);
    row->function = job_function(job)->name;
    row->function_flags = (job_function(job)->flags & ~ROW_MARKS) | (job->waits ? ROW_WAITS : 0) |
                          (job->plugin->domain->priv->runners ? ROW_RUNNER : 0);
    row->directory = job->directory ? job->directory->path : NULL;
    row->argc = job->argc;
    row->priority = job->priority;
    row->timeout_usec = p->timeout_usec;
    row->retries = p->retries;
    row->retry_on = p->retry_on;
    row->retry_usec = p->retry_usec;
    row->wait_usec = !t || t->by_configuration ? 0 : t->wait_usec;
    KEPT_OPTIONS(TO_ROW)
    row->submitted_usec = job_submitted_usec(job);
}
