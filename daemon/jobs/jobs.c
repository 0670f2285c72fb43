/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c: the jobs as a whole: their life, their turn of the loop, and their limits.
 * Owns struct jobs. [loop]
 * Keeps: what the layers below are not to know of each other is put together here.
 * Does not know sockets or messages. */
#include "jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/bundle-cost.h"
#include "domains/bundle.h"
#include "domains/completions.h"
#include "domains/direct-lane.h"
#include "domains/domain-hooks.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "domains/lifetime.h"
#include "domains/query.h"
#include "domains/run-slots.h"
#include "domains/runner.h"
#include "durable/durable.h"
#include "durable/policy-hooks.h"
#include "durable/results.h"
#include "durable/retry.h"
#include "jobs/schedule.h"
#include "jobs/start.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/batch.h"
#include "table/gate.h"
#include "table/job-trace.h"
#include "table/output.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/timers.h"

#define RUN_SLOTS_A_TURN 1024u
#define OLDEST_FLOWS     4096u /* users and priorities that are looked at for the oldest job */
#define DRAINED_A_TURN   128u  /* buckets of the table */

/* Of a round of looks, some are left. */
static bool progress_is_due(const struct jobs *jobs)
{
    return !list_empty(&jobs->progress.due) || !list_empty(&jobs->batches.progress_due);
}

static bool progress_is_wanted(const struct jobs *jobs)
{
    return progress_is_due(jobs) || !list_empty(&jobs->progress.all) || !list_empty(&jobs->batches.progress);
}

static void on_progress(evutil_socket_t fd, short what, void *userdata)
{
    struct jobs *jobs = userdata;
    uint32_t left = PROGRESS_LOOKS;

    if (!progress_is_due(jobs)) {
        list_move_all(&jobs->progress.due, &jobs->progress.all);
        list_move_all(&jobs->batches.progress_due, &jobs->batches.progress);
    }
    for (struct list *l; left > 0 && (l = list_pop_front(&jobs->progress.due)); left--) {
        struct watch *w = container_of(l, struct watch, progress);
        uint64_t done, total;

        list_push_back(&jobs->progress.all, l);
        if (w->job->state != JOB_RUNNING)
            continue;
        front_progress(w->job->domain->front, w->job->slot, &done, &total);
        if (done != w->last_done) {
            w->last_done = done;
            w->ops->progress(w, done, total);
        }
    }
    batches_progress(jobs, &left);
    if (progress_is_due(jobs))
        jobs_timer(jobs, jobs->progress.timer, 0);
    else if (progress_is_wanted(jobs))
        jobs_timer(jobs, jobs->progress.timer, PROGRESS_USEC);
}

/* The highest descriptor that inputs may have: three quarters of what wsd may open. */
static uint32_t max_fd(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return 0;
    return (uint32_t)(MIN(l.rlim_cur, (rlim_t)1 << 30) / 4 * 3);
}

static int start_clocks(struct jobs *jobs)
{
    int r = due_init(&jobs->boot, jobs->options.base, CLOCK_BOOTTIME, NULL, NULL);

    if (r == 0)
        r = due_init(&jobs->wall, jobs->options.base, CLOCK_REALTIME, schedules_were_set, jobs);
    if (r < 0 && r != -ENOMEM)
        log_error("cannot make a timer: %s", strerror(-r));
    return r;
}

/* The jobs, with what each layer keeps for itself. */
struct whole {
    struct jobs jobs;
    struct executors executors;
    struct durable durable;
    struct schedules schedules;
};

static struct jobs *whole_new(const struct jobs_options *options)
{
    struct whole *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->jobs = (struct jobs){.options = *options,
                            .domain_hooks = &domain_hooks,
                            .policy_hooks = &policy_hooks,
                            .executors = &w->executors,
                            .durable = &w->durable,
                            .schedules = &w->schedules,
                            .n_configured = 1,
                            .max_fd = max_fd(),
                            .boot.fd = -1,
                            .wall.fd = -1};
    list_init(&w->jobs.domains);
    list_init(&w->jobs.run_slots.waiting);
    list_init(&w->jobs.progress.all);
    list_init(&w->jobs.progress.due);
    list_init(&w->jobs.offers_due);
    list_init(&w->jobs.ends_due);
    list_init(&w->jobs.traces.all);
    list_init(&w->jobs.settle_due);
    list_init(&w->jobs.gates.of_users);
    list_init(&w->jobs.after_due);
    list_init(&w->jobs.batches.due);
    list_init(&w->jobs.batches.kept);
    list_init(&w->jobs.batches.progress);
    list_init(&w->jobs.batches.progress_due);
    return &w->jobs;
}

static void whole_free(struct jobs *jobs)
{
    free(container_of(jobs, struct whole, jobs));
}

int jobs_new(struct jobs **ret_jobs, const struct jobs_options *options)
{
    struct jobs *jobs = whole_new(options);

    if (!jobs)
        return -ENOMEM;
    if (getrandom(jobs->ids.seed, sizeof(jobs->ids.seed), 0) != (ssize_t)sizeof(jobs->ids.seed)) {
        whole_free(jobs);
        return -EIO;
    }
    jobs->progress.timer = evtimer_new(options->base, on_progress, jobs);
    int r = results_init(jobs) == 0 && jobs->progress.timer ? start_clocks(jobs) : -ENOMEM;
    if (r == 0)
        r = executors_new(jobs, options->state_dir && store_make_directory(options->state_dir) == 0 ? options->state_dir
                                                                                                    : NULL);
    if (r < 0) {
        results_deinit(jobs);
        if (jobs->progress.timer)
            event_free(jobs->progress.timer);
        due_deinit(&jobs->boot);
        due_deinit(&jobs->wall);
        whole_free(jobs);
        return r;
    }
    *ret_jobs = jobs;
    return 0;
}

int jobs_become_spawner(const struct jobs_options *options, int socket)
{
    return executors_become_spawner(options, socket);
}

/* Every job of the table; each may free the job it is given. */
static void each_job(struct jobs *jobs, void (*each)(struct job *job))
{
    bundles_split(jobs);
    for (size_t i = 0; i < jobs->by_id.n_buckets; i++)
        for (struct hash_link *l = jobs->by_id.buckets[i], *next; l; l = next) {
            next = l->next;
            each(container_of(l, struct job, by_id));
        }
}

static void interrupt(struct job *job)
{
    struct domain *d = job->domain;

    if (durable_defer(job, true))
        return;
    if (job_policy(job) && !list_empty(&job_policy(job)->requests))
        return; /* the store's answer brings it to its end */
    switch ((enum job_state)job->state) {
    case JOB_NEW:
        job_refuse(job, CODE_BUSY, "wsd is ending");
        return;
    case JOB_RUNNING:
        d->slots[job->slot] = NULL;
        break;
    case JOB_QUEUED:
        job_unqueue(job);
        break;
    case JOB_HELD:
    case JOB_DELAYED:
        break;
    default:
        return;
    }
    job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "wsd was ended before it was done", NULL);
}

void jobs_interrupt_all(struct jobs *jobs)
{
    jobs->draining = true;
    schedules_stop(jobs);
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (d->priv->executor) {
            d->priv->distrusted = true; /* nothing that it still says changes an answer that was given */
            executor_kill(d->priv->executor);
        }
    }
    each_job(jobs, interrupt);
}

void jobs_finish_executors(struct jobs *jobs)
{
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        domain_finish(d);
    }
}

struct jobs *jobs_free(struct jobs *jobs)
{
    if (!jobs)
        return NULL;
    jobs_interrupt_all(jobs);
    start_end(jobs);
    schedules_free(jobs);
    each_job(jobs, job_free);
    batches_free(jobs);
    after_deinit(jobs);
    list_for_each_safe (l, n, &jobs->domains)
        domain_free(container_of(l, struct domain, link));
    gates_free(jobs);
    function_stats_deinit(jobs);
    job_traces_deinit(jobs);
    for (size_t i = 0; i < jobs->users.n_buckets; i++)
        for (struct hash_link *l = jobs->users.buckets[i], *next; l; l = next) {
            next = l->next;
            free(container_of(l, struct user, by_uid)->own_limits);
            free(container_of(l, struct user, by_uid));
        }
    hash_deinit(&jobs->users);
    breaker_deinit(&jobs->breakers);
    hash_deinit(&jobs->by_id);
    hash_deinit(&jobs->bundles.by_first);
    hash_deinit(&jobs->by_key);
    hash_deinit(&jobs->flows);
    hash_deinit(&jobs->durable->keys);
    results_deinit(jobs);
    due_deinit(&jobs->boot);
    due_deinit(&jobs->wall);
    event_free(jobs->progress.timer);
    slab_trim(&jobs->durable->request_cells);
    for (size_t i = 0; i < JOBS_SLABS; i++)
        slab_trim(&jobs->slabs[i]);
    hash_deinit(&jobs->executors->runners);
    executors_free(jobs);
    whole_free(jobs);
    return NULL;
}

/* Once a turn of the loop: gives free run slots to the domains that wait for them. */
static void run_slots_turn(struct jobs *jobs)
{
    uint64_t now, ageing = jobs->options.limits.ageing_usec, limit = jobs->options.limits.running;
    struct fair_slots *s = &jobs->run_slots;
    struct domain *d;

    if (!s->due)
        return;
    now = clock_monotonic_usec();
    for (uint32_t i = 0; i < RUN_SLOTS_A_TURN && fair_slots_free(s, limit) &&
                         (d = run_slots_next(jobs, now > ageing ? now - ageing : 0));
         i++) {
        d->run_slot.has_turn = true;
        domain_pump(d);
        d->run_slot.has_turn = false;
    }
    s->due = fair_slots_free(s, limit) && !list_empty(&s->waiting);
}

/* Once a turn of the loop, while a drain is under way: ends or defers what need not run now. Bundles are left whole:
 * their jobs are neither durable nor delayed. */
static void drain_turn(struct jobs *jobs)
{
    const struct hash *h = &jobs->by_id;

    for (uint32_t i = 0; i < DRAINED_A_TURN && jobs->drain.due; i++) {
        /* In the order of the buckets, which is that of jobs in memory. A bucket that is split moves jobs to the end of
         * the table: these may be met twice. None is passed over, since the table does not shrink meanwhile. */
        for (struct hash_link *l = h->n_buckets ? h->buckets[jobs->drain.bucket] : NULL, *next; l; l = next) {
            struct job *job = container_of(l, struct job, by_id);

            next = l->next;
            if (!durable_defer(job, false) && job->state == JOB_DELAYED)
                retry_drain(job);
        }
        jobs->drain.due = ++jobs->drain.bucket < h->n_buckets;
    }
}

/* Sets the timers again that found no memory. */
static void rearm(struct jobs *jobs)
{
    const struct jobs_limits *limits = &jobs->options.limits;

    jobs->untimed = false; /* until it fails again */
    jobs->was_untimed = true;
    if (progress_is_wanted(jobs) && !evtimer_pending(jobs->progress.timer, NULL))
        jobs_timer(jobs, jobs->progress.timer, PROGRESS_USEC);
    list_for_each_entry (struct domain, domain, &jobs->domains, link)
        domain_rearm(domain);
    for (size_t i = 0; i < jobs->by_id.n_buckets; i++)
        for (struct hash_link *l = jobs->by_id.buckets[i]; l && !jobs->untimed; l = l->next) {
            struct job *job = container_of(l, struct job, by_id);
            struct job_more *m = job->more;

            if (m && m->timer && evtimer_pending(m->timer, NULL))
                continue;
            if (job_final(job) && job->flags & JOB_KEPT)
                job_timer(job, limits->keep_usec);
            else if (job->state == JOB_RUNNING && m && (m->stop != STOP_NONE || m->sealed != STOP_NONE))
                job_timer(job, limits->grace_usec);
            else if (job->state == JOB_RUNNING && m && m->timeout_usec)
                job_timer(job, m->timeout_usec);
        }
    results_rearm(jobs);
    jobs->was_untimed = jobs->untimed;
}

bool jobs_poll(struct jobs *jobs)
{
    bool more = false;

    if (jobs->untimed)
        rearm(jobs);
    drain_turn(jobs);
    after_turn(jobs);
    output_turn(jobs);
    ends_turn(jobs);
    batches_turn(jobs);
    plugins_turn(jobs);
    if (gates_turn(jobs))
        list_for_each_entry (struct domain, d, &jobs->domains, link)
            domain_pump(d);
    run_slots_turn(jobs);
    list_for_each (l, &jobs->domains) {
        struct domain *d = container_of(l, struct domain, link);

        if (jobs->executors->n_taken >= DOMAINS_TAKE) { /* this one is the first of the next turn */
            list_remove(&jobs->domains);
            list_insert_before(l, &jobs->domains);
            more = true;
            break;
        }
        more |= domain_poll(d);
        if (!domain_ring(d))
            continue;
        /* mostly the worker that was woken had this CPU, and is done */
        more |= domain_poll(d);
        (void)domain_ring(d);
    }
    jobs->counters.output_most = MAX(jobs->counters.output_most, jobs->executors->output);
    jobs->executors->output = 0;
    jobs->executors->n_taken = 0;
    if (jobs->durable->store)
        store_ring(jobs->durable->store);
    return more || jobs->untimed; /* what has no timer cannot wake the loop: it stays awake until there is memory */
}

bool jobs_asleep(struct jobs *jobs)
{
    if (jobs->untimed || jobs->drain.due || jobs->gates.due || jobs->run_slots.due || !list_empty(&jobs->after_due) ||
        !list_empty(&jobs->batches.due) || !list_empty(&jobs->offers_due) || !list_empty(&jobs->ends_due) ||
        !list_empty(&jobs->settle_due) || (jobs->durable->store && store_posted(jobs->durable->store)))
        return false;
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        domain_settle(d);
        if (d->priv->n_unrung || d->priv->unpumped) /* since jobs_poll(), for a connection that had frames held back */
            return false;
        if (d->priv->runner && runner_turn(d->priv->runner)) /* room that came when the jobs had had their turn */
            return false;
        if (d->priv->executor && !d->priv->distrusted && front_asleep(d->front) && executor_hears(d->priv->executor))
            return false;
    }
    return true;
}

bool jobs_have_told(const struct jobs *jobs)
{
    return jobs->counters.n_unread == 0 && list_empty(&jobs->ends_due);
}

#define JOB_WEIGHT      192u /* bytes, with its place in the tables; the rest is charged to its user */
#define SCHEDULE_WEIGHT 1024u
#define SHRINK_BUCKETS  65536u

uint64_t jobs_weight(const struct jobs *jobs)
{
    return (jobs->by_id.n + jobs->counters.n_open) * JOB_WEIGHT + jobs->counters.n_bytes +
           jobs->schedules->by_name.n * SCHEDULE_WEIGHT;
}

bool jobs_shrink(struct jobs *jobs)
{
    if (jobs->n_selections || jobs->drain.due) /* something walks over the table: next time */
        return false;
    for (size_t i = 0; i < JOBS_SLABS; i++)
        slab_trim(&jobs->slabs[i]);
    slab_trim(&jobs->durable->request_cells);
    return hash_shrink(&jobs->by_id, SHRINK_BUCKETS) || hash_shrink(&jobs->bundles.by_first, SHRINK_BUCKETS) ||
           hash_shrink(&jobs->durable->keys, SHRINK_BUCKETS) || hash_shrink(&jobs->flows, SHRINK_BUCKETS);
}

void jobs_awake(struct jobs *jobs)
{
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (d->priv->executor)
            front_awake(d->front);
    }
}

void jobs_drain(struct jobs *jobs)
{
    jobs->draining = true;
    jobs->drain = (struct drain_walk){.due = true};
    schedules_stop(jobs);
    lanes_review(jobs);
    jobs_review_runners(jobs);
}

/* Resets the rates, since what was counted by other limits does not apply. */
static void forget_rates(struct jobs *jobs)
{
    jobs->rate_nsec = 0;
    for (size_t i = 0; i < jobs->users.n_buckets; i++)
        for (struct hash_link *l = jobs->users.buckets[i]; l; l = l->next)
            container_of(l, struct user, by_uid)->rate_nsec = 0;
}

void jobs_set_limits(struct jobs *jobs, const struct jobs_limits *limits)
{
    const struct jobs_limits *old = &jobs->options.limits;

    if (limits->rate != old->rate || limits->rate_per_user != old->rate_per_user ||
        limits->rate_burst != old->rate_burst)
        forget_rates(jobs);
    jobs->options.limits = *limits;
    jobs->n_configured++;
    jobs->gates.due = true; /* all domains look at their queues */
    jobs->run_slots.due = true;
    lanes_review(jobs);
}

int jobs_set_user_limits(struct jobs *jobs, uint32_t uid, const struct jobs_limits *limits)
{
    struct user *user = user_get(jobs, uid);
    struct jobs_limits *own = user && limits ? malloc(sizeof(*own)) : NULL;

    if (!user || (limits && !own))
        return -ENOMEM;
    if (limits)
        *own = *limits;
    if (user_limits(jobs, user)->rate_per_user != (limits ? limits : &jobs->options.limits)->rate_per_user)
        user->rate_nsec = 0;
    free(user->own_limits);
    user->own_limits = own;
    jobs->gates.due = true;
    lanes_review(jobs);
    return 0;
}

uint64_t jobs_open(const struct jobs *jobs)
{
    return jobs->counters.n_open;
}

void jobs_load(const struct jobs *jobs, uint64_t *ret_running, uint64_t *ret_waiting)
{
    uint64_t running = 0, started;

    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (!d->priv->executor)
            continue;
        list_for_each_entry (struct job, job, &d->handed, link)
            running += front_running(d->front, job->slot, &started);
    }
    *ret_running = running;
    *ret_waiting = jobs->counters.n_open - MIN(running, jobs->counters.n_open);
}

static uint64_t oldest_queued(const struct jobs *jobs)
{
    uint64_t oldest = UINT64_MAX, now = clock_monotonic_usec();
    uint32_t budget = OLDEST_FLOWS;

    list_for_each_entry (const struct domain, d, &jobs->domains, link)
        oldest = MIN(oldest, fair_queue_oldest(&d->queue, queue_accepted_usec, &budget));
    return oldest < now ? now - oldest : 0;
}

void jobs_counters(struct jobs *jobs, struct jobs_counters *ret)
{
    *ret = jobs->counters;
    ret->n_traces = query_traces(jobs);
    lanes_count(jobs, ret);
    ret->oldest_queued_usec = oldest_queued(jobs);
    durable_health(jobs, ret);
}
