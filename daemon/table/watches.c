/* SPDX-License-Identifier: Apache-2.0
 *
 * watches.c: the list of a job's watches.
 * Owns nothing: a watch is embedded in an object of the one that follows the job. [loop]
 * Keeps: adding and removing cost the same, however many watches the job has. So does finding the owner: it is the
 * first watch.
 * Does not tell a watch anything. */
#include "table/watches.h"

#include "table/job.h"
#include "table/timers.h"

void watch_late(struct watch *w, bool late)
{
    struct jobs_counters *n = &w->job->domain->jobs->counters;

    if (late && !w->late)
        n->n_unread++;
    if (!late && w->late)
        n->n_unread--;
    w->late = late;
}

struct watch *job_owner(const struct job *job)
{
    return job->watches && job->watches->owner ? job->watches : NULL;
}

void job_add_watch(struct job *job, struct watch *w)
{
    struct jobs *jobs = job->domain->jobs;
    struct watch *owner = job_owner(job), **at = owner ? &owner->next : &job->watches;

    w->owner = w->owner && !owner;
    w->job = job;
    w->next = *at;
    w->link = at;
    if (w->next)
        w->next->link = &w->next;
    *at = w;
    list_init(&w->progress);
    if (!w->wants_progress)
        return;
    list_push_back(&jobs->progress.all, &w->progress);
    if (!evtimer_pending(jobs->progress.timer, NULL))
        jobs_timer(jobs, jobs->progress.timer, PROGRESS_USEC);
}

void job_remove_watch(struct watch *w)
{
    struct job_more *m = w->job->more;

    watch_late(w, false);
    if (m && m->untold == w)
        m->untold = w->next;
    if (m && m->unoffered == w)
        m->unoffered = w->next;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->job = NULL;
    list_remove(&w->progress);
}
