/* SPDX-License-Identifier: Apache-2.0
 *
 * restore.c: makes jobs of the rows on disk, at the start.
 * Owns nothing. [loop]
 * Keeps: each acknowledged job is there under its id before the first client asks. One that may have begun, and must
 * not run twice, is interrupted. A row that cannot become a job now stays on disk.
 * The plugin is not loaded yet then. What was known of the function at the submit stands for it, as for a job of a
 * plugin that goes apart (domains/hand-over.c). The job ends if the plugin, once loaded, does not have the function. */
#include "durable/restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/places.h"
#include "domains/plugins.h"
#include "domains/resolve.h"
#include "domains/runner-admit.h"
#include "domains/runner-wait.h"
#include "durable/durable.h"
#include "durable/results.h"
#include "durable/retry.h"
#include "durable/rows.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/ids.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/request.h"
#include "table/state.h"
#include "table/timing.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* False: no memory. */
static bool copy(const char *text, char **ret)
{
    *ret = text && *text ? strdup(text) : NULL;
    return *ret || !text || !*text;
}

/* Restores the details of its end, or of its wait. Returns 0 or -ENOMEM. */
static int fill_more(struct job *job, const struct store_row *row)
{
    struct job_more *m = job->more;
    struct policy *p = job_policy(job);

    snprintf(m->worker, sizeof(m->worker), "%s", or_empty(row->worker));
    m->unkept = false;
    m->exit = (int)row->exit;
    m->queued_usec = row->queued_usec;
    m->run_usec = row->run_usec;
    m->cpu_usec = row->cpu_usec;
    m->done = row->done;
    m->total = row->total;
    p->number = row->number;
    p->requeued = row->requeued;
    p->acknowledged = true;
    p->retried = row->retried;
    p->attempts_before = row->attempts;
    p->dead = row->dead;
    p->marked = row->started;
    return copy(row->error, &m->error) && copy(row->status, &m->status) && copy(row->backtrace, &m->backtrace)
               ? 0
               : -ENOMEM;
}

/* The size of inline input; input that is read from disk only when needed has no room in the job. */
static size_t inline_input(const struct store_row *row)
{
    return row->input_size <= STORE_INLINE ? row->input_size : 0;
}

static void fill_given(struct job *job, const struct store_row *row, const void *given)
{
    if (given && job->args_size + job->input_size) {
        memcpy(job_given(job), given, job->args_size + job->input_size);
    } else {
        if (row->args && job->args_size)
            memcpy(job_given(job), row->args, job->args_size);
        if (row->input && job->input_size)
            memcpy(job_given(job) + job->args_size, row->input, job->input_size);
    }
    job_policy(job)->input_away = row->input_size > STORE_INLINE;
    job->more->input_size = row->input_size - job->input_size;
}

static struct job *make(struct jobs *jobs, const struct store_row *row, bool final)
{
    struct plugin_function f = {.name = (char *)(uintptr_t)row->function,
                                .help = (char *)(uintptr_t) "",
                                .flags = row->function_flags & ~ROW_MARKS};
    struct job_request r = row_request(row);
    struct user *user = user_get(jobs, row->uid);
    struct domain *d = row->function_flags & ROW_RUNNER ? runners_readmit(jobs, row->uid, row->plugin)
                                                        : domain_for(jobs, row->uid, row->plugin);
    struct runners *g = d ? d->priv->runners : NULL;
    struct plugin *p = !user || !d ? NULL
                       : g         ? runners_plugin(g, row->uid, row->plugin, true)
                                   : plugin_get(d, row->plugin);
    struct plugin_function *function = !p ? NULL : g ? runners_expect(p, f.name, f.flags) : plugin_function_copy(p, &f);
    struct job *job =
        function ? job_alloc(jobs, final ? 0 : row->args_size, final ? 0 : inline_input(row), false) : NULL;

    if (!job)
        return NULL;
    r.durable = true;
    r.key = row->key;
    memcpy(job->id, row->id, sizeof(job->id));
    job->user = user;
    job->domain = d;
    job->plugin = p;
    job_set_function(job, function);
    job->priority = (int8_t)row->priority;
    job->argc = row->argc & JOB_ARGS;
    job->flags = JOB_DETACHED;
    job->waits = r.waits;
    job->accepted_usec = clock_monotonic_usec();
    if (job_name(jobs, job) < 0) {
        job_discard(job);
        return NULL;
    }
    p->n_jobs++;
    if (!p->title && row->title)
        p->title = strdup(row->title); /* without memory it is told as it was asked for */
    /* it was admitted once: no quota is asked again */
    user->n_bytes += job->args_size + job->input_size;
    jobs->counters.n_bytes += job->args_size + job->input_size;
    if (request_apply(&r, job) < 0 || policy_make(job, &r) < 0 || !time_make(job) ||
        (row->directory && !(job->directory = directory_new(row->directory)))) {
        job_free(job);
        return NULL;
    }
    return job;
}

/* Restores a job that has ended. Sets its state directly, without a state change. */
static void restore_ended(struct job *job, const struct store_row *row)
{
    uint64_t keep = job->domain->jobs->options.limits.store_keep_usec, now = clock_realtime_usec();
    uint64_t since = now > row->ended_usec ? now - row->ended_usec : 0;

    job->state = row->state & 15u;
    job->more->received = row->output_size;
    job_policy(job)->away = row->output_size > 0;
    results_insert(job, keep > since ? keep - since : 0);
}

static void restore_open(struct job *job, const struct store_row *row)
{
    struct jobs *jobs = job->domain->jobs;
    struct policy *p = job_policy(job);
    uint64_t now = clock_realtime_usec(), since = MAX(row->submitted_usec, row->due_usec);

    uint64_t charge = after_charge(job->more->awaiting);

    job->more->charged += charge;
    job->user->n_bytes += charge;
    jobs->counters.n_bytes += charge;
    job->user->n_jobs++;
    jobs->counters.n_open++;
    if (p->marked) {
        job->attempts = 1;         /* that may have begun, and counts */
        job_move(job, JOB_QUEUED); /* in no queue: restore_look_again() */
    } else if (job->more->awaiting) {
        job_move(job, JOB_HELD); /* restore_look_again() */
        time_hold(job, row->due_usec, row->due_at);
    } else if (row->state == JOB_DELAYED) {
        job_move(job, JOB_DELAYED);
        time_resume(job, row->due_usec, row->due_at);
    } else {
        job_move(job, JOB_QUEUED);
        queue_put(&job->domain->queue, job, false);
        runners_queued(job);
        time_queued(job, now > since ? now - since : 0);
    }
}

int restore_job(struct jobs *jobs, const struct store_row *row, const void *given, struct job **ret_job)
{
    bool final = row->state >= JOB_SUCCEEDED && row->state <= JOB_INTERRUPTED;
    struct job *job;

    if (row->state > JOB_INTERRUPTED || row->args_size > UINT32_MAX || row->argc > JOB_ARGS || row->priority < -100 ||
        row->priority > 100)
        return -EBADMSG;
    job = make(jobs, row, final);
    if (!job)
        return -ENOMEM;
    if (!final)
        fill_given(job, row, given);
    if (fill_more(job, row) < 0 || (!final && (job_limit_run(job) < 0 || time_limit_wait(job) < 0))) {
        job_free(job);
        return -ENOMEM;
    }
    /* a job that is marked, or had a try before, has waited already */
    if (!final && row->after_size && !row->started && !row->retried) {
        const struct after_row after = {.names = row->after, .size = row->after_size, .number = row->number};
        int r = after_restore(jobs, &after, &job->more->awaiting);

        if (r < 0) {
            job_free(job);
            return r;
        }
        job->more->awaiting->job = job;
    }
    durable_count(job, row->args_size + row->input_size + row->output_size + STORE_OVERHEAD);
    jobs->durable->last_number = MAX(jobs->durable->last_number, row->number);
    if (final)
        restore_ended(job, row);
    else
        restore_open(job, row);
    *ret_job = job;
    return 0;
}

int restore_row(const struct store_row *row, void *userdata)
{
    struct restored *reading = userdata;
    struct job *job;
    int r = restore_job(reading->jobs, row, NULL, &job);

    reading->jobs->durable->last_number = MAX(reading->jobs->durable->last_number, row->number);
    reading->n++;
    if (r < 0) {
        reading->n_left++;
        log_error("durable job %llu of uid %u (%s) stays on disk: %s", (unsigned long long)row->number, row->uid,
                  row->plugin, strerror(-r));
    }
    return 0;
}

void restore_look_again(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->by_id.n_buckets; i++)
        for (struct hash_link *l = jobs->by_id.buckets[i]; l; l = l->next) {
            struct job *job = container_of(l, struct job, by_id);
            struct policy *p = job_policy(job);

            if (p && p->marked && job->state == JOB_QUEUED)
                job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "wsd was ended while it may have been running",
                           NULL);
            else if (job->state == JOB_HELD)
                job_enqueue(job); /* durable, so that it stays, whatever comes of it */
        }
}
