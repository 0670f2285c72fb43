/* SPDX-License-Identifier: Apache-2.0
 *
 * follow.c: jobs that are there: followed, shown, given input and cancelled.
 * Owns nothing. [loop]
 * Keeps: a user sees and touches only the user's own jobs; root all.
 * Does not know sockets or messages. */
#include "jobs/follow.h"

#include <errno.h>

#include "base/log.h"
#include "domains/bundle.h"
#include "domains/executor-events.h"
#include "durable/durable.h"
#include "jobs/jobs.h"
#include "table/after.h"
#include "table/batch.h"
#include "table/find.h"
#include "table/input.h"
#include "table/output.h"
#include "table/policy.h"
#include "table/watches.h"

#define EARLY_WATCHES 128u

bool job_is_crowded(const struct job *job)
{
    uint32_t n = 0;

    for (const struct watch *w = job_known(job) ? NULL : job->watches; w && n < EARLY_WATCHES; w = w->next)
        n++;
    return n == EARLY_WATCHES;
}

void job_follow(struct job *job, struct watch *w)
{
    job_add_watch(job, w);
    /* what others have had of a job that is not detached is gone; of one that is withheld, none has had anything */
    w->offset = job->flags & JOB_DETACHED || job_withheld(job) ? 0 : job_received(job);
    watch_late(w, job_final(job));
    if (output_goes_by(job) && w->ops->message)
        w->ops->message(w, LOG_NOTICE,
                        "its output goes to a file or pipe of its submitter's, and not to those who follow it");
    output_give(job, w);
    if (job_final(job))
        job_settle_one(job, w);
}

int jobs_input(struct watch *owner, const void *data, size_t size, bool last)
{
    if (owner->job && owner->owner)
        return input_take(owner->job, data, size, last);
    if (owner->job && size)
        owner->ops->input_taken(owner, size); /* of a job that has its input: see join() */
    return 0;
}

bool jobs_accepted(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    return job_find(jobs, id, uid);
}

int jobs_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct watch *w)
{
    struct job *job = job_find_shown(jobs, id, uid);

    if (!job)
        return jobs->durable->has_deferred ? -EAGAIN : -ENOENT;
    if (job_is_crowded(job))
        return -EUSERS;
    job_follow(job, w);
    return 0;
}

uint32_t jobs_awaited(const struct watch *w)
{
    return w->job && w->job->more && w->job->more->awaiting ? w->job->more->awaiting->n : 0;
}

void jobs_unwatch(struct watch *w)
{
    struct job *job = w->job;

    if (!job)
        return;
    bool waited = output_waits_for(job, w);
    job_remove_watch(w);
    if (job_final(job)) {
        job_settle_one(job, NULL);
        return;
    }
    bool cut = w->owner && job->flags & JOB_MORE_INPUT && !(job->more && job->more->input_last);
    if (w->owner && (cut || !(job->flags & JOB_DETACHED))) {
        job_stop(job, STOP_CANCEL);
        return;
    }
    if (w->owner && job->state == JOB_RUNNING)
        domain_forget_opens(job);
    if (waited)
        output_pump(job);
}

void jobs_output_ready(struct watch *w)
{
    struct job *job = w->job;

    if (!job)
        return;
    bool waited = output_waits_for(job, w);
    output_give(job, w);
    if (waited)
        output_pump(job);
    if (job_final(job))
        job_settle_one(job, w);
}

int jobs_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid,
              void (*each)(const struct job_info *info, void *userdata), void *userdata)
{
    struct job *job = job_find_shown(jobs, id, uid);
    struct job_near near;
    struct job_info info;

    if (!job)
        return -ENOENT;
    job_describe(job, &info);
    after_near(job, &near);
    info.near = &near;
    each(&info, userdata);
    return 0;
}

static int cancel(struct job *job, uint32_t by)
{
    struct log_about about = job_about(job);

    if (job_told_state(job) >= JOB_SUCCEEDED)
        return -EALREADY;
    about.uid = &by;
    if (by != job->user->uid && !job_final(job))
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &about, "job " JOB_ID_FORMAT " of user %u: cancelled by user %u",
                  JOB_ID_ARGS(job->id), job->user->uid, by);
    job_stop(job, STOP_CANCEL);
    return 0;
}

int jobs_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by)
{
    struct job *job = job_find_shown(jobs, id, uid);

    return job ? cancel(job, by) : -ENOENT;
}

bool jobs_watch_cancelled(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct watch *w)
{
    struct job *job = job_find_shown(jobs, id, uid);
    const struct policy *p = job ? job_policy(job) : NULL;

    if (!p || !p->durable || job_told_state(job) >= JOB_SUCCEEDED)
        return false;
    if (!w)
        return true;
    if (job_is_crowded(job))
        return false;
    w->until_disk = true;
    job_follow(job, w);
    if (policy_unwritten(p))
        durable_save(job);
    return true;
}

void jobs_cancel_watched(struct watch *w, uint32_t uid, uint32_t by)
{
    if (w->job && (uid == 0 || uid == w->job->user->uid))
        (void)cancel(w->job, by);
}

void jobs_array_split(struct array_watch *w, uint32_t item)
{
    list_for_each_entry (struct bundle, b, &w->bundles, link) {
        if (item >= b->first && item - b->first < b->n) {
            bundle_split(b->job);
            return;
        }
    }
}

void jobs_array_gone(struct array_watch *w)
{
    batch_let_go(w);
}

void jobs_opened(struct watch *w, uint32_t serial, int error, int fd)
{
    if (w->job && w->job->state == JOB_RUNNING)
        domain_opened(w->job, serial, error, fd);
}

const char *jobs_unreadable(const struct jobs *jobs)
{
    return jobs->options.state_dir && jobs->durable->store ? store_problem(jobs->durable->store) : NULL;
}
