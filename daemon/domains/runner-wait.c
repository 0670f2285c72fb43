/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-wait.c: jobs that wait for a runner that is not there.
 * Owns nothing. [loop]
 * Keeps: a job that has its name's time waits for so long, from when it was queued or its last runner went. One with
 * `waits` does so until a runner comes, its time in the queue is over, or it is cancelled. A drain ends both, but leaves
 * durable ones to the next wsd.
 * Does not hand jobs over (hand-over.c). */
#include "domains/runner-wait.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "domains/domain.h"
#include "domains/plugin-lookup.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/timers.h"

#define OVERDUE_A_TURN 256u /* jobs that are ended at a time */
#define LATE_PART      64u  /* jobs end at most so much of their time late, so that looks at a long queue are few */

bool runners_leave_open(const struct domain *d)
{
    const struct runners *g = d->priv->runners;

    return g && (g->place || !g->n);
}

struct plugin_function *runners_expect(struct plugin *p, const char *function, uint64_t flags)
{
    struct runners *g = p->domain->priv->runners;

    for (uint32_t i = 0; i < p->n_functions; i++)
        if (strcmp(p->functions[i].name, function) == 0)
            return &p->functions[i];
    if (g->place && g->plugin->n_functions > 0)
        flags = g->plugin->functions[0].flags; /* what the place says of all */
    struct plugin_function *f = plugin_function_add(p, function, "jobs wait for it", flags);
    if (!f)
        return NULL;
    if (g->place)
        f->index = strcmp(function, place_main(p)) == 0 ? 0 : p->n_functions;
    else if (!g->n)
        f->index = p->n_functions; /* 0 is the main one, which nothing has said yet */
    return f;
}

struct plugin_function *runners_await(struct plugin *p, const char *function, struct refusal *ret)
{
    struct runners *g = p->domain->priv->runners;

    ret->text = ret->words;
    if (!*function)
        function = place_main(p);
    if (!*function) {
        ret->code = CODE_USAGE;
        snprintf(ret->words, JOB_TEXT, "no runner of %s has said which function is meant: name it, as %s:FUNCTION",
                 g->name, g->name);
        return NULL;
    }
    bool has_room = g->place || p->n_functions < RUNNERS_AWAITED;
    struct plugin_function *f = has_room ? runners_expect(p, function, 0) : NULL;
    if (f)
        return f;
    ret->code = CODE_BUSY;
    snprintf(ret->words, JOB_TEXT,
             "jobs for %.127s name %u functions, as many as may be: try again when some have ended", p->request,
             p->n_functions);
    if (!g->place)
        snprintf(ret->words, JOB_TEXT,
                 "jobs for %s that have no runner yet name %u functions, as many as may be: start the program that "
                 "offers it",
                 g->name, p->n_functions);
    return NULL;
}

/* --- how long ----------------------------------------------------------------------------------------------------- */

/* A look at the queue of a name. */
struct look {
    const struct runners *g;
    uint64_t now, wait_usec;
    uint64_t next_usec; /* when the next job is due; UINT64_MAX: none is */
    uint32_t n;
    struct job *overdue[OVERDUE_A_TURN];
};

static uint64_t due_of(const struct look *l, const struct job *job)
{
    uint64_t queued = job->more && job->more->enqueued_usec ? job->more->enqueued_usec : job->accepted_usec;

    if (l->g->domain->jobs->draining)
        return 0; /* no runner comes any more */
    return MAX(queued, l->g->absent_usec) + l->wait_usec;
}

static bool look_at(struct list *item, void *context)
{
    struct job *job = queue_job(item);
    struct look *l = context;

    bool draining = l->g->domain->jobs->draining;

    if (draining ? job_policy(job) && job_policy(job)->durable : job->waits)
        return true;
    uint64_t due = due_of(l, job);
    if (due <= l->now && l->n < OVERDUE_A_TURN)
        l->overdue[l->n++] = job;
    else
        l->next_usec = MIN(l->next_usec, due);
    return l->next_usec > l->now;
}

static void words_of(const struct look *l, char text[static JOB_TEXT])
{
    if (l->g->domain->jobs->draining) {
        snprintf(text, JOB_TEXT, "wsd was ended before a runner of %.63s came", l->g->name);
        return;
    }
    bool configured = runners_rules(l->g->domain->jobs, l->g->name).configured;
    uint64_t usec = l->wait_usec;

    snprintf(text, JOB_TEXT,
             "no runner of %.63s came within %llu%s: start the program that offers it, and submit again (wait in "
             "its [runner] section of wsd.conf%s)",
             l->g->name, (unsigned long long)(usec % 1000000 ? usec / 1000 : usec / 1000000),
             usec % 1000000 ? "ms" : "s", configured ? "" : " makes jobs wait longer");
}

void runners_look(struct runners *g)
{
    struct look l = {.g = g,
                     .now = clock_monotonic_usec(),
                     .wait_usec = runners_rules(g->domain->jobs, g->name).wait_usec,
                     .next_usec = UINT64_MAX};
    bool draining = g->domain->jobs->draining;
    char text[JOB_TEXT];

    if (g->n)
        return;
    evtimer_del(g->absent_timer);
    fair_queue_each(&g->domain->queue, look_at, &l);
    if (l.next_usec != UINT64_MAX)
        jobs_timer(g->domain->jobs, g->absent_timer,
                   l.next_usec > l.now ? MAX(l.next_usec - l.now, l.wait_usec / LATE_PART) : 0);
    words_of(&l, text);
    for (uint32_t i = 0; i < l.n; i++) {
        job_unqueue(l.overdue[i]);
        job_finish(l.overdue[i], draining ? JOB_INTERRUPTED : JOB_FAILED, draining ? CODE_INTERRUPTED : CODE_NOT_FOUND,
                   text, NULL);
    }
}

void runners_rearm(struct runners *g)
{
    struct jobs *jobs = g->domain->jobs;

    if (!g->n && g->domain->queue.n && !evtimer_pending(g->absent_timer, NULL))
        jobs_timer(jobs, g->absent_timer, jobs->draining ? 0 : runners_rules(jobs, g->name).wait_usec);
}

void runners_queued(struct job *job)
{
    struct runners *g = job->domain->priv->runners;

    if (!g)
        return;
    if (job->more)
        job->more->enqueued_usec = clock_monotonic_usec();
    runners_rearm(g);
}
