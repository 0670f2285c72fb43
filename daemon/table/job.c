/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c: one job's way from admission to its end.
 * Owns the job record and what hangs on it. [loop]
 * Keeps: an accepted job comes to exactly one final state, told once to each watch; charges are refunded once.
 * Does not choose an order (sched/fair-queue.c) or know executors (hooks.h). */
#include "table/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/arena-use.h"
#include "table/batch.h"
#include "table/function-stats.h"
#include "table/gate.h"
#include "table/hooks.h"
#include "table/ids.h"
#include "table/input.h"
#include "table/job-trace.h"
#include "table/output.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/timers.h"
#include "table/timing.h"
#include "table/watches.h"
#include <wsd/plugin.h>

static void on_timer(evutil_socket_t fd, short what, void *userdata);

struct log_about job_about(const struct job *job)
{
    return (struct log_about){.job = job->id,
                              .plugin = plugin_title(job->plugin),
                              .function = job_function(job) ? job_function(job)->name : NULL,
                              .uid = &job->user->uid};
}

struct job_more *job_more(struct job *job)
{
    if (!job->more) {
        struct job_more *m = calloc(1, sizeof(*m));

        if (!m)
            return NULL;
        m->job = job;
        m->unkept = job_final(job); /* until job_keep_end(): a timer may have memory where that had none */
        m->input_fd = m->pipe_fd = m->output_fd = -1;
        list_init(&m->held);
        list_init(&m->offers_due);
        list_init(&m->ends_due);
        job->more = m;
    }
    return job->more;
}

void job_timer(struct job *job, uint64_t usec)
{
    struct job_more *m = job_more(job);

    if (m && !m->timer)
        m->timer = evtimer_new(job->domain->jobs->options.base, on_timer, job);
    jobs_timer(job->domain->jobs, m ? m->timer : NULL, usec);
}

#define FREE_KEPT(name, ...) free(m->name);

static void more_free(struct job *job)
{
    struct job_more *m = job->more;

    if (!m)
        return;
    after_forget(job);
    if (m->policy)
        job->domain->jobs->policy_hooks->free(job);
    time_free(job);
    input_free(job);
    output_free(job);
    list_remove(&m->offers_due);
    list_remove(&m->ends_due);
    if (m->timer)
        event_free(m->timer);
    job_words_free(m->error);
    job_words_free(m->status);
    free(m->backtrace);
    free(m->limit);
    KEPT_OPTIONS(FREE_KEPT)
    free(m);
    job->more = NULL;
}

static struct job *cell_new(struct jobs *jobs, size_t size)
{
    size_t class = (size + 7) / 8;

    return slab_take(class < JOBS_SLABS ? &jobs->slabs[class] : NULL, class * 8);
}

struct job *job_alloc(struct jobs *jobs, size_t args_size, size_t input_size, bool batched)
{
    size_t given = args_size + input_size, item = batched ? sizeof(struct batch_item) : 0;
    char *block = given > JOB_INLINE ? malloc(given) : NULL;
    struct job *job =
        block || given <= JOB_INLINE ? cell_new(jobs, sizeof(*job) + item + (block ? sizeof(block) : given)) : NULL;

    if (!job) {
        free(block);
        return NULL;
    }
    memset(job, 0, sizeof(*job) + item);
    list_init(&job->link);
    job->args_size = (uint32_t)args_size;
    job->input_size = (uint32_t)input_size;
    job->function = JOB_NO_FUNCTION;
    job->batched = batched;
    if (block)
        memcpy(job_room(job), &block, sizeof(block));
    return job;
}

void job_drop_given(struct job *job)
{
    char *given = job_given(job);

    if (given != job_room(job))
        free(given);
    job->args_size = job->input_size = 0;
}

void job_discard(struct job *job)
{
    job_drop_given(job);
    slab_give(job);
}

/* Refunds what the job was submitted with, and what was charged beyond that and `rest` bytes. */
static void refund(struct job *job, uint64_t rest)
{
    struct job_more *m = job->more;
    uint64_t bytes = job->args_size + job->input_size;

    if (m && m->charged > rest) {
        bytes += m->charged - rest;
        m->charged = rest;
    }
    user_refund(job->domain->jobs, job->user, bytes);
    job_drop_given(job);
}

/* The end of being open: for jobs that were refused, or have come to their final state. */
void jobs_close_accounts(struct jobs *jobs, struct user *user, uint32_t n)
{
    user->n_jobs -= n;
    jobs->counters.n_open -= n;
    for (uint32_t i = 0;
         i < n && (retry_after_is_wanted(&user->retry_after) || retry_after_is_wanted(&jobs->retry_after)); i++) {
        uint64_t now = clock_monotonic_usec();

        if (retry_after_is_wanted(&user->retry_after))
            retry_after_freed(&user->retry_after, now);
        if (retry_after_is_wanted(&jobs->retry_after))
            retry_after_freed(&jobs->retry_after, now);
    }
}

void job_unmake(struct job *job)
{
    struct jobs *jobs = job->domain->jobs;

    hash_remove(job->bundled ? &jobs->bundles.by_first : &jobs->by_id, &job->by_id);
    job->plugin->n_jobs--;
    directory_unref(job->directory);
    job_discard(job);
}

void job_free(struct job *job)
{
    struct jobs *jobs = job->domain->jobs;

    list_remove(&job->link);
    if (job_final(job) && job->flags & JOB_KEPT) {
        job->user->n_kept--;
        jobs->counters.n_kept--;
    }
    batch_forget(job);
    refund(job, 0);
    more_free(job);
    if (job->function == JOB_NO_FUNCTION)
        free(job->function_name);
    job_unmake(job);
}

static struct watch *watch_first(struct job *job)
{
    struct watch *w = job->watches;

    if (w)
        job_remove_watch(w);
    return w;
}

void watches_refuse(struct job *job, int code, const char *text, uint64_t retry_usec)
{
    for (struct watch *w; (w = watch_first(job));)
        w->ops->refused(w, code, text, retry_usec);
}

void watches_defer(struct job *job, int code, const char *text)
{
    for (struct watch *w; (w = watch_first(job));)
        if (!w->ops->deferred || !w->ops->deferred(w, job->id))
            w->ops->refused(w, code, text, 0);
}

void job_leave(struct job *job, int code, const char *text)
{
    list_remove(&job->link);
    watches_refuse(job, code, text, 0);
    jobs_close_accounts(job->domain->jobs, job->user, 1);
    batch_left(job, 0);
    job_free(job);
}

void job_refuse_until(struct job *job, int code, const char *text, uint64_t retry_usec)
{
    job->domain->jobs->counters.refused++;
    if (job_function(job))
        function_stats_count(job->user, job->plugin, job_function(job), FUNCTION_REFUSED, 1);
    watches_refuse(job, code, text, retry_usec);
    job_leave(job, code, text); /* only its submitters knew of it */
}

void job_refuse(struct job *job, int code, const char *text)
{
    job_refuse_until(job, code, text, 0);
}

/* Whether the job has to go to the disk first, or to wait. */
static bool is_kept_back(struct job *job)
{
    if (job_policy(job) && job->domain->jobs->policy_hooks->add(job))
        return true;
    time_accepted(job);
    return after_holds(job) || time_delays(job);
}

void job_enqueue(struct job *job)
{
    if (job->more && is_kept_back(job))
        return;
    job_move(job, JOB_QUEUED);
    queue_put(&job->domain->queue, job, false);
    if (job->more)
        time_queued(job, 0);
    job->domain->jobs->domain_hooks->queued(job);
}

void job_accept(struct job *job)
{
    batch_accepted(job);
    job_trace_event(job, JOB_TRACE_ACCEPTED);
    if (!job->more || !durable_unacknowledged(job))
        for (struct watch *w = job->watches; w; w = w->next)
            w->ops->accepted(w, job->id);
    if (!(job->flags & JOB_MORE_INPUT)) {
        job_enqueue(job);
        return;
    }
    if (job->flags & JOB_PIPE) {
        input_begin(job); /* what came early goes first */
        job_enqueue(job);
    } else {
        job_move(job, JOB_HELD);
        input_begin(job);
    }
}

const char *job_time_words(const struct job *job)
{
    return job->more && job->more->limit ? job->more->limit : "its time was up";
}

enum job_state job_told_state(const struct job *job)
{
    const struct policy *p = job_policy(job);
    uint64_t started;

    if (p && p->ending)
        return job->attempts || p->attempts_before ? JOB_RUNNING : JOB_QUEUED;
    if (job->state == JOB_NEW) /* its plugin is not there yet */
        return JOB_QUEUED;
    if (job->state == JOB_RUNNING && !front_running(job->domain->front, job->slot, &started))
        return JOB_QUEUED;
    return (enum job_state)job->state;
}

static void describe_more(const struct job *job, const struct job_more *m, struct job_info *ret)
{
    const struct policy *p = m->policy;

    if (p) {
        ret->attempts += p->attempts_before;
        ret->key = p->key ? p->key : "";
        ret->durable = p->durable;
        ret->dead = p->dead && !p->ending; /* its end is told before it is kept */
        ret->retries = p->retries;
    }
    ret->error = m->error ? m->error : "";
    ret->status = m->status ? m->status : "";
    ret->worker = m->worker;
    ret->backtrace = m->backtrace ? m->backtrace : "";
    ret->exit = m->exit;
    ret->waits_for = after_left(job);
    ret->placed = arena_output(job) + m->placed;
    ret->due_usec = job->state == JOB_DELAYED && m->time ? due_left(&m->time->due) : 0;
    ret->queued_usec = m->queued_usec;
    ret->run_usec = m->run_usec;
    ret->cpu_usec = m->cpu_usec;
    ret->done = m->done;
    ret->total = m->total;
}

/* For a job that has not ended: how long it has waited and run. */
static void describe_now(const struct job *job, struct job_info *ret)
{
    uint64_t started, now;
    bool running = job->state == JOB_RUNNING && front_running(job->domain->front, job->slot, &started);

    now = clock_monotonic_usec(); /* after the look: it may have begun just now */
    ret->queued_usec = now - job->accepted_usec;
    if (!running)
        return;
    ret->queued_usec = MIN(started > job->accepted_usec ? started - job->accepted_usec : 0, ret->queued_usec);
    ret->run_usec = now - job->accepted_usec - ret->queued_usec;
    front_progress(job->domain->front, job->slot, &ret->done, &ret->total);
}

#define TELL_KEPT(name, place, told) TELL_KEPT_##told(name)
#define TELL_KEPT_YES(name)          ret->name = job->more && job->more->name ? job->more->name : "";
#define TELL_KEPT_NO(name)

void job_describe(const struct job *job, struct job_info *ret)
{
    *ret = (struct job_info){.plugin = plugin_title(job->plugin),
                             .function = job_function(job) ? job_function(job)->name : "",
                             .error = "",
                             .status = "",
                             .worker = "",
                             .backtrace = "",
                             .key = "",
                             .state = job_told_state(job),
                             .attempts = job->attempts,
                             .uid = job->user->uid,
                             .submitted_usec = job_submitted_usec(job),
                             .batch = batch_id(job)};
    KEPT_OPTIONS(TELL_KEPT)
    memcpy(ret->id, job->id, sizeof(ret->id));
    if (job->more)
        describe_more(job, job->more, ret);
    if (!job_final(job)) {
        describe_now(job, ret);
    } else if (!job->more || job->more->unkept) { /* job_keep_end() had no memory: what is not known is no success */
        ret->state = JOB_INTERRUPTED;
        ret->exit = CODE_INTERRUPTED;
        ret->error = "wsd had no memory to keep how it ended";
    }
}

/* EXECUTOR.WORKER; each job has one, so it is not left to printf. */
static void worker_words(char ret[static 24], uint32_t executor, uint32_t worker)
{
    char digits[24], *p = digits + sizeof(digits);

    *--p = 0;
    for (int part = 0; part < 2; part++) {
        uint32_t n = part == 0 ? worker : executor;

        do
            *--p = (char)('0' + n % 10);
        while (n /= 10);
        if (part == 0)
            *--p = '.';
    }
    memcpy(ret, p, (size_t)(digits + sizeof(digits) - p));
}

void job_describe_end(struct job *job, int exit, const char *error, const struct front_completion *c,
                      char worker[static 24], struct job_info *ret)
{
    job_describe(job, ret);
    ret->state = (enum job_state)job->state;
    ret->exit = exit;
    ret->error = error ? error : "";
    if (!c) {
        ret->queued_usec = clock_monotonic_usec() - job->accepted_usec;
        return;
    }
    /* the executor's clock readings are its word only: they are shown, and nothing hangs on them */
    ret->queued_usec = c->started_usec > job->accepted_usec ? c->started_usec - job->accepted_usec : 0;
    ret->run_usec = c->ended_usec > c->started_usec ? c->ended_usec - c->started_usec : 0;
    ret->cpu_usec = c->cpu_usec;
    ret->status = c->status;
    if (c->worker == RING_NONE)
        return; /* it was ended with its executor, which has not said */
    worker_words(worker, job->domain->executor_number, c->worker);
    ret->worker = worker;
}

static char words_lost[] = "(wsd had no memory to keep the words)";

char *job_words(const char *words)
{
    char *copy = *words ? strdup(words) : NULL;

    return copy || !*words ? copy : words_lost;
}

char *job_words_free(char *words)
{
    if (words != words_lost)
        free(words);
    return NULL;
}

void job_keep_end(struct job *job, const struct job_info *info)
{
    struct job_more *m = job_more(job);

    if (!m)
        return;
    m->unkept = false;
    m->exit = info->exit;
    m->queued_usec = info->queued_usec;
    m->run_usec = info->run_usec;
    m->cpu_usec = info->cpu_usec;
    m->done = info->done;
    m->total = info->total;
    if (info->worker != m->worker)
        snprintf(m->worker, sizeof(m->worker), "%s", info->worker);
    if (info->error != m->error) {
        job_words_free(m->error);
        m->error = job_words(info->error);
    }
    if (info->status != m->status) {
        job_words_free(m->status);
        m->status = job_words(info->status);
    }
}

static void watch_end(struct watch *w, const struct job_info *info)
{
    job_remove_watch(w);
    w->ops->done(w, info);
}

/* Tells the end to the watches from *at on that have all of the output; the others are late. Returns where it stopped:
 * NULL behind the last one. */
static struct watch *tell_end(struct watch **at, uint32_t *left, const struct job_info *info)
{
    while (*at && *left > 0) {
        uint32_t cost = output_give((*at)->job, *at); /* it need not wait for output_turn() */

        *left -= MIN(cost, *left);
        if ((*at)->offset >= job_received((*at)->job)) {
            watch_end(*at, info); /* the next one is at the same link now */
        } else {
            watch_late(*at, true);
            at = &(*at)->next;
        }
    }
    return *at;
}

/* ends_turn() goes on with it. */
static void tell_later(struct job *job, struct watch *untold)
{
    job->more->untold = untold;
    list_remove(&job->more->ends_due);
    list_push_back(&job->domain->jobs->ends_due, &job->more->ends_due);
}

static void count_end(struct job *job)
{
    struct jobs_counters *n = &job->domain->jobs->counters;

    switch (job->state) {
    case JOB_SUCCEEDED:
        n->succeeded++;
        break;
    case JOB_FAILED:
        n->failed++;
        break;
    case JOB_CANCELLED:
        n->cancelled++;
        break;
    case JOB_TIMED_OUT:
        n->timed_out++;
        break;
    case JOB_CRASHED:
        n->crashed++;
        break;
    default:
        n->interrupted++;
        break;
    }
}

/* A detached job's end is kept for its time. */
static void keep_result(struct job *job)
{
    struct jobs *jobs = job->domain->jobs;

    if (job_policy(job) && jobs->policy_hooks->keep(job))
        return;
    /* not during the walk over all jobs at the end. Before this job is in the list, since no client may be reading this
     * one */
    while (job->user->n_kept >= JOBS_KEPT_PER_USER && !jobs->draining && user_evict(job->user))
        ;
    job->flags |= JOB_KEPT;
    list_push_back(&job->user->kept, &job->link);
    jobs->counters.n_kept++;
    job->user->n_kept++;
    job_timer(job, jobs->options.limits.keep_usec);
}

/* It is refused after all, or retried. */
static bool has_no_end(struct job *job, enum job_state state, int exit, const char *error,
                       const struct front_completion *c)
{
    if (!durable_unacknowledged(job))
        return job_policy(job) && job->domain->jobs->policy_hooks->retry(job, state, exit, error, c);
    /* there was something wrong with its input */
    job_refuse(job, state == JOB_CANCELLED ? CODE_CANCELLED : CODE_BUSY, error ? error : "cancelled");
    return true;
}

/* Before its end. */
static void last_progress(const struct job *job, const struct front_completion *c, uint64_t *ret_done,
                          uint64_t *ret_total)
{
    *ret_done = c ? c->done : 0;
    *ret_total = c ? c->total : 0;
    if (!c && job->state == JOB_RUNNING && job->domain->front)
        front_progress(job->domain->front, job->slot, ret_done, ret_total);
}

void job_finish(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c)
{
    struct job_info info;
    uint64_t done, total;
    char worker[24];

    list_remove(&job->link);
    if (job->more && has_no_end(job, state, exit, error, c))
        return;
    last_progress(job, c, &done, &total);
    job_move(job, state);
    job_trace_end(job, exit, c);
    count_end(job);
    if (state != JOB_CRASHED && job_function(job) && job_breaker_suspects(job))
        job->domain->jobs->domain_hooks->ended(job, c && (state == JOB_SUCCEEDED || state == JOB_FAILED));
    if (job->more) {
        time_begun(job);
        if (job_policy(job))
            job->domain->jobs->policy_hooks->closing(job);
        output_absorb(job);
        output_pump(job);
    }
    job_describe_end(job, exit, error, c, worker, &info);
    function_stats_job(job, &info, c);
    info.done = done;
    info.total = total;
    if (job->domain->successor) /* its own does not last */
        job->domain = job->domain->successor;
    if (job->more) {
        input_free(job);
        if (job->more->timer)
            evtimer_del(job->more->timer);
    }
    /* arguments and input are gone */
    refund(job, job->more ? buffer_size(&job->more->output) : 0);
    if (!job_policy(job) || !job->domain->jobs->policy_hooks->end(job, &info))
        job_ended(job, &info);
}

void job_ended(struct job *job, const struct job_info *info)
{
    jobs_close_accounts(job->domain->jobs, job->user, 1);
    batch_left(job, info->exit);
    if (job->more)
        after_ended(job);
    if (job_policy(job))
        output_pump(job); /* it was held back until now */
    uint32_t left = ENDS_A_TURN;
    struct watch *untold = tell_end(&job->watches, &left, info);
    if (!untold)
        job_trace_event(job, JOB_TRACE_TOLD);
    if (!job->watches && !(job->flags & JOB_DETACHED)) {
        job_free(job);
        return;
    }
    job_keep_end(job, info);
    if (untold && job_more(job))
        tell_later(job, untold);
    else if (untold)
        tell_end(untold->link, &(uint32_t){UINT32_MAX}, info); /* there is no memory to do it piece by piece */
    if (job->flags & JOB_DETACHED)
        keep_result(job);
}

static void settled(struct job *job)
{
    if (job->watches)
        return;
    if (!(job->flags & JOB_DETACHED))
        job_free(job);
    else if (job_policy(job))
        job->domain->jobs->policy_hooks->rest(job);
}

/* Its output is on disk only, and is being read back. */
static bool is_fetched(struct job *job)
{
    return job_policy(job) && job->domain->jobs->policy_hooks->fetch(job);
}

void job_settle(struct job *job)
{
    if (!is_fetched(job) && !job_withheld(job))
        tell_later(job, job->watches);
}

void ends_turn(struct jobs *jobs)
{
    for (uint32_t left = ENDS_A_TURN; left > 0 && !list_empty(&jobs->ends_due);) {
        struct job_more *m = container_of(list_pop_front(&jobs->ends_due), struct job_more, ends_due);
        struct job *job = m->job;
        struct watch *untold = TAKE(m->untold);
        struct job_info info;

        job_describe(job, &info);
        if (untold)
            untold = tell_end(untold->link, &left, &info);
        if (untold) {
            tell_later(job, untold);
        } else {
            job_trace_event(job, JOB_TRACE_TOLD);
            settled(job);
        }
    }
}

void job_settle_one(struct job *job, struct watch *w)
{
    struct job_info info;

    if (is_fetched(job) || job_withheld(job))
        return;
    if (w && w->offset >= job_received(job)) {
        job_describe(job, &info);
        watch_end(w, &info);
    }
    settled(job);
}

void job_stop_unbegun(struct job *job, enum job_stop why)
{
    if (job->state == JOB_RUNNING)
        job->attempts--;
    if (why == STOP_WAITED)
        time_out(job);
    else
        job_finish(job, JOB_CANCELLED, CODE_CANCELLED, NULL, NULL);
}

void job_stop(struct job *job, enum job_stop why)
{
    if (job_policy(job) && job->domain->jobs->policy_hooks->stop(job, why))
        return;
    switch ((enum job_state)job->state) {
    case JOB_NEW:
        job_refuse(job, CODE_CANCELLED, "cancelled");
        return;
    case JOB_QUEUED:
        job_unqueue(job);
        job_stop_unbegun(job, why);
        return;
    case JOB_HELD:
    case JOB_DELAYED:
        job_finish(job, JOB_CANCELLED, CODE_CANCELLED, NULL, NULL);
        return;
    case JOB_RUNNING:
        job->domain->jobs->domain_hooks->stop(job, why);
        return;
    default:
        return;
    }
}

void job_arm(struct job *job)
{
    if (job->more)
        job->more->sealed = STOP_NONE;
    if (job->more && job->more->timeout_usec)
        job_timer(job, job->more->timeout_usec);
}

static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
    struct job *job = userdata;

    if (job_final(job)) {
        if (job->watches) /* a client is still reading it */
            job_timer(job, job->domain->jobs->options.limits.keep_usec);
        else
            job_free(job);
    } else if (job->state == JOB_RUNNING) {
        job->domain->jobs->domain_hooks->timer(job);
    }
}
