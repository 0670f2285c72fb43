/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.c: when a domain's executor is started, and when it is ended.
 * Owns the executor and its two timers. [loop]
 * Keeps: an executor is started for work only. Executors that die without being of use are started with growing pauses,
 * then not for now; then what waits is told why. An executor without work ends after its idle time.
 * Does not decide what becomes of jobs when an executor dies (recover.c). */
#include "domains/lifetime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/inherit.h"
#include "base/log.h"
#include "domains/bundle.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/health.h"
#include "domains/plugin-lookup.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "domains/recall-timer.h"
#include "domains/reload.h"
#include "domains/runner-wait.h"
#include "table/gate.h"
#include "table/queue.h"
#include "table/timers.h"

#define DEATHS_FREE     2u       /* executors may die this often in a row before there are pauses */
#define DEATHS_MAX      8u       /* and this often, before any was of use, until wsd gives up for now */
#define PAUSE_MAX_USEC  5000000u /* pauses double from DOMAIN_PAUSE_USEC up to this */
#define FINISH_USEC     2000000u /* for an executor to end in order */
#define GIVEN_UP_A_TURN 128u
#define TASKS_OWN       16u /* that an executor may have beside its workers and what plugins and jobs may */

void domain_start_failed(struct domain *d, const char *why)
{
    free(d->priv->start_error);
    if (asprintf(&d->priv->start_error, "no executor can be started: %.200s", why) < 0)
        d->priv->start_error = NULL;
}

void domain_fruitless(struct domain *d, const struct executor *e)
{
    if (*e->why)
        domain_start_failed(d, e->why);
    d->priv->n_deaths = e->late ? DEATHS_MAX : d->priv->n_deaths + 1;
}

bool domain_ready(const struct domain *d)
{
    return (d->priv->executor && d->priv->executor->ready) || d->priv->runners;
}

const char *domain_failure(const struct domain *d)
{
    if (d->priv->given_up)
        return d->priv->given_up;
    return d->priv->start_error ? d->priv->start_error : "no executor can be started: see wsd's log";
}

/* Several users have no uid in common but wsd's. */
static uint32_t uid_of_executor(const struct domain *d)
{
    uint32_t uid = jobs_owner_uid(d->jobs, d->key);

    return uid == d->jobs->options.own_uid || uid < d->jobs->options.first_user_id ? CHILD_OWN : uid;
}

/* NULL, or why it must not run under wsd's uid. */
static const char *misses_uid(const struct domain *d)
{
    uint32_t uid = jobs_owner_uid(d->jobs, d->key);

    if (d->jobs->options.user_ids != JOBS_USER_IDS_YES || d->jobs->options.user_daemon ||
        uid == d->jobs->options.own_uid || uid == UINT32_MAX)
        return NULL;
    if (!d->jobs->executors->helper)
        return "wsd has no right to run jobs under the uid of their user, as [executor] user-ids in wsd.conf wants it: "
               "see its log";
    if (uid < d->jobs->options.first_user_id)
        return "this user is below [executor] first-user-id in wsd.conf, and no jobs run under another uid than their "
               "user's";
    return NULL;
}

static void start_now(struct domain *d)
{
    domain_configure(d);
    struct jobs *jobs = d->jobs;
    struct executor_options o = {
        .base = jobs->options.base,
        .program = &jobs->executors->program,
        .helper = jobs->executors->helper,
        .uid = jobs->executors->helper ? uid_of_executor(d) : CHILD_OWN,
        .owner = d->key,
        .far_ends = d->key == 0 || d->key == jobs->options.own_uid ? NULL : jobs->options.far_ends,

        .workers = domain_workers(d),
        .memory = d->priv->settings.memory,
        .cgroups = jobs->executors->cgroups,
        .tasks = d->priv->settings.tasks ? d->priv->settings.tasks + domain_workers(d) + TASKS_OWN : 0,
        .cpu_weight = d->priv->settings.cpu_weight,
        .leaves_core = jobs->options.leaves_core,
        .number = ++jobs->executors->next_executor,
        .ops = jobs->executors->ops,
        .context = d,
    };
    int r = executor_new(&d->priv->executor, &o);

    d->priv->distrusted = d->priv->finishing = d->priv->useful = false;
    d->priv->only_function = 0;
    d->priv->recycling.n_ended = d->priv->recycling.resident_first = 0;
    d->priv->recycling.spoilt = d->priv->recycling.starved = false;
    d->priv->recycling.started_usec = clock_monotonic_usec();
    if (r < 0) {
        char words[INHERIT_ERROR], limits[JOB_TEXT], why[INHERIT_ERROR + JOB_TEXT];

        if (r == -EAGAIN)
            snprintf(why, sizeof(why), "no more processes or threads: %s", cgroup_tasks_words(limits, sizeof(limits)));
        else
            snprintf(why, sizeof(why), "%s%s%s", strerror(-r), child_lacks(r), inherit_blame(r, words));
        log_event(LOG_KIND_LIMIT, LOG_ERR, NULL, "cannot start an executor: %s", why);
        domain_start_failed(d, why);
        d->priv->n_deaths++;
        return;
    }
    d->front = &d->priv->executor->front;
    d->executor_number = d->priv->executor->number;
    jobs->counters.executors_started++;
    jobs->counters.n_executors++;
    health_started(d);
    query_started(d);
}

void domain_start_executor(struct domain *d)
{
    start_now(d);
}

bool domain_wanted(struct domain *d)
{
    if (d->queue.n)
        return true;
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (plugin_wanted(p))
            return true;
    }
    return false;
}

/* Loads all plugins of the last executor, and those wanted now, so that no job waits for dlopen. */
static void preload(struct domain *d)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (((!p->stale && p->name && !p->looked) || plugin_wanted(p)) && !reload_tries(p))
            plugin_load(p);
    }
}

void domain_end_given_up(struct domain *d)
{
    struct job *job = NULL;

    for (uint32_t n = 0; n < GIVEN_UP_A_TURN && d->priv->n_given_up && (job = queue_first(&d->queue)); n++) {
        if (job->bundled) {
            bundle_split(job);
            continue;
        }
        d->priv->n_given_up--;
        job_unqueue(job);
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, d->priv->given_up, NULL);
    }
    if (!d->priv->n_given_up || !job)
        d->priv->given_up = job_words_free(d->priv->given_up);
    d->priv->unpumped = true;
}

static void give_up(struct domain *d)
{
    char *unsafe = TAKE(d->priv->unconfined);

    d->priv->given_up = unsafe ? unsafe : job_words(domain_failure(d));
    d->priv->n_given_up = d->queue.n;
    d->priv->n_deaths = DEATHS_FREE;
    plugin_fail_waiting(d, unsafe ? EACCES : EAGAIN, d->priv->given_up);
    domain_end_given_up(d);
}

static void on_pause_over(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;

    d->priv->unpumped = true;
    if (d->priv->executor || !domain_wanted(d))
        return;
    start_now(d);
    if (d->priv->executor)
        preload(d);
    else
        domain_start(d);
}

int domain_start(struct domain *d)
{
    if (d->priv->executor || d->priv->runner || d->priv->runners || evtimer_pending(d->priv->pause_timer, NULL))
        return 0;
    if (d->priv->given_up)
        return -EAGAIN;
    const char *missing = misses_uid(d);
    if (missing && !d->priv->unconfined)
        d->priv->unconfined = job_words(missing);
    if (d->priv->n_deaths >= DEATHS_MAX || d->priv->unconfined) {
        give_up(d);
        return -EAGAIN;
    }
    if (d->priv->n_deaths <= DEATHS_FREE) {
        start_now(d);
        if (d->priv->executor) {
            preload(d);
            return 0;
        }
    }
    uint32_t doublings = d->priv->n_deaths > DEATHS_FREE ? d->priv->n_deaths - DEATHS_FREE : 0;
    jobs_timer(d->jobs, d->priv->pause_timer, MIN((uint64_t)DOMAIN_PAUSE_USEC << doublings, (uint64_t)PAUSE_MAX_USEC));
    return 0;
}

static void idle_timer_set(struct domain *d, uint64_t usec)
{
    jobs_timer(d->jobs, d->priv->idle_timer, usec);
}

void domain_finish(struct domain *d)
{
    if (!d->priv->executor || d->priv->finishing)
        return;
    d->priv->finishing = true;
    lanes_revoke(d);
    executor_finish(d->priv->executor);
    idle_timer_set(d, FINISH_USEC);
}

static void on_idle(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t limit = d->jobs->options.limits.idle_usec, idle = clock_monotonic_usec() - d->priv->idle_since_usec;

    if (!d->priv->executor)
        return;
    if (d->priv->finishing) { /* a plugin's last words take too long */
        executor_kill(d->priv->executor);
        return;
    }
    if (d->n_handed || domain_wanted(d) || plugin_loading(d) || d->priv->trace.number || d->priv->lanes.armed ||
        d->priv->has_ended) {
        d->priv->idle_since_usec = clock_monotonic_usec();
        idle_timer_set(d, limit);
    } else if (idle >= limit) {
        domain_finish(d);
    } else {
        idle_timer_set(d, limit - idle);
    }
}

void domain_settle(struct domain *d)
{
    if (d->priv->has_ended && d->priv->executor && !d->n_handed && !d->queue.n)
        domain_rest(d);
    d->priv->has_ended = false;
}

void domain_rest(struct domain *d)
{
    if (!d->n_handed && !d->queue.n)
        health_idle(d);
    if (d->priv->runner) /* its client decides how long it stays */
        return;
    d->priv->idle_since_usec = clock_monotonic_usec();
    if (!evtimer_pending(d->priv->idle_timer, NULL))
        idle_timer_set(d, d->jobs->options.limits.idle_usec);
}

void domain_rearm(struct domain *d)
{
    bool there = d->priv->executor && d->priv->executor->ready && !d->priv->recycling.standby_of && !d->successor;

    if (!d->priv->executor && !d->priv->recycling.standby_of && domain_wanted(d))
        (void)domain_start(d);
    else if (d->priv->executor && d->priv->finishing && !evtimer_pending(d->priv->idle_timer, NULL))
        idle_timer_set(d, FINISH_USEC);
    else if (there && !evtimer_pending(d->priv->idle_timer, NULL))
        domain_rest(d);
    if (d->priv->executor && (!there || d->n_handed || d->queue.n))
        health_busy(d);
    if (d->n_handed)
        bundles_watch(d);
    if (queue_first(&d->queue))
        recall_came(d, queue_first(&d->queue));
    plugin_rearm(d);
    if (d->priv->runners)
        runners_rearm(d->priv->runners);
    if (d->priv->probe)
        reload_rearm(d->priv->probe);
}

int lifetime_init(struct domain *d)
{
    d->priv->pause_timer = evtimer_new(d->jobs->options.base, on_pause_over, d);
    d->priv->idle_timer = evtimer_new(d->jobs->options.base, on_idle, d);
    if (d->priv->pause_timer && d->priv->idle_timer)
        return 0;
    lifetime_deinit(d);
    return -ENOMEM;
}

void lifetime_deinit(struct domain *d)
{
    d->priv->executor = executor_free(d->priv->executor);
    d->front = NULL;
    if (d->priv->pause_timer)
        event_free(d->priv->pause_timer);
    if (d->priv->idle_timer)
        event_free(d->priv->idle_timer);
    job_words_free(d->priv->unconfined);
    job_words_free(d->priv->given_up);
    free(d->priv->start_error);
}
