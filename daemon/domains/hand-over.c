/* SPDX-License-Identifier: Apache-2.0
 *
 * hand-over.c: hands the jobs of a domain's queue over to its executor.
 * Owns nothing; the table of slots is the domain's. [loop]
 * Keeps: each handed job has one slot and each slot one job. The order is that of the queue.
 * Does not take answers (completions.c). */
#include "domains/hand-over.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/arena.h"
#include "domains/bundle-cost.h"
#include "domains/bundle.h"
#include "domains/domain.h"
#include "domains/health.h"
#include "domains/job-breaker.h"
#include "domains/lifetime.h"
#include "domains/owners.h"
#include "domains/places.h"
#include "domains/plugin-lookup.h"
#include "domains/plugins.h"
#include "domains/recall-timer.h"
#include "domains/run-slots.h"
#include "domains/runner-admit.h"
#include "domains/runner-wait.h"
#include "table/arena-use.h"
#include "table/batch.h"
#include "table/gate.h"
#include "table/hooks.h"
#include "table/input.h"
#include "table/output.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/timers.h"

/* jobs handed over, after which the executor begins before the turn of the loop is over */
#define RING_EARLY 32u
#define HAND_BATCH 128u  /* jobs handed over at a time, so that what comes back is told meanwhile */
#define GATE_BATCH 1024u /* jobs that are moved to gates at a time */

/* Sends a job's descriptor ahead of the job. lent: that of its arena, or -1. */
static int send_input(struct domain *d, struct job *job, int lent, uint32_t slot, uint32_t generation)
{
    struct control c = {.kind = CONTROL_INPUT, .slot = slot, .generation = generation};
    struct job_more *m = job->more;
    int fd = lent >= 0 ? lent : job->flags & JOB_PIPE ? m->pipe_fd : m->input_fd;
    int r = executor_send(d->priv->executor, &c, fd);

    /* wsd's copy of the pipe's end stays open: a job that has not begun goes to the next executor with it */
    if (r >= 0 && job->flags & JOB_PIPE)
        job->flags |= JOB_CONSUMED;
    return r;
}

/* The same for the descriptor of its output. */
static int send_output(struct domain *d, const struct job *job, uint32_t slot, uint32_t generation)
{
    struct control c = {.kind = CONTROL_OUTPUT, .slot = slot, .generation = generation};

    return executor_send(d->priv->executor, &c, job->more->output_fd);
}

/* Whether several users share the executor. */
static bool is_shared(const struct domain *d)
{
    return d->key >= OWNER_SHARED && !d->jobs->options.user_daemon;
}

const char *hand_over_refuses_output(const struct domain *d)
{
    return d->priv->runners || d->priv->runner
               ? "a runner's output cannot go to a descriptor: have it by the connection"
           : is_shared(d)
               ? "executors that several users share write to no descriptor: have the output by the connection"
               : NULL;
}

/* A user that can write the file could change it while a function reads it. So an executor that several users share
 * copies it first. */
static uint32_t file_flags(const struct domain *d, const struct job *job)
{
    return !job->more->by_file ? 0 : is_shared(d) ? DOWN_INPUT_FILE | DOWN_INPUT_COPY : DOWN_INPUT_FILE;
}

static void describe_output(const struct job_more *m, struct front_job *f)
{
    f->flags |= DOWN_OUTPUT_FD | (m->output_again ? DOWN_OUTPUT_AGAIN : 0u);
    f->output_at = m->output_begin;
    f->output_size = m->output_written;
}

/* What only some jobs have. As hand_over(). */
static int describe_more(struct domain *d, const struct job *job, struct front_job *f)
{
    bool by_descriptor = job_by_descriptor(job);

    f->flags |= (job->flags & JOB_PIPE ? DOWN_INPUT_PIPE : by_descriptor ? DOWN_INPUT_FD : 0u) | file_flags(d, job);
    f->input = by_descriptor ? NULL : job_input(job);
    f->input_size = job->flags & JOB_PIPE ? 0 : job_input_size(job);
    f->input_at = job->more->input_at;
    f->timeout_usec = job->more->timeout_usec;
    if (output_goes_by(job))
        describe_output(job->more, f);
    f->traceparent = job->more->traceparent;
    return d->priv->runner ? 0 : arena_describe(d, job, f);
}

/* What the executor is told of the job. As hand_over(). */
static int describe_job(struct domain *d, const struct job *job, struct front_job *ret)
{
    bool remote = job->directory && *job->directory->path != '/'; /* DIRECTORY_REMOTE */
    uint64_t executor_uid = d->priv->runner ? d->key : d->jobs->options.own_uid;
    bool same_user = job->user->uid == executor_uid && !remote;
    int r = 0;

    *ret = (struct front_job){
        .id = job->id,
        .plugin = job->plugin->number,
        .function = job_function(job)->index,
        .argc = job->argc,
        .flags = same_user ? DOWN_SAME_USER : 0u,
        .directory = job->directory && !remote ? job->directory->path : NULL,
        .args = job_given(job),
        .args_size = job->args_size,
        .input = job_input(job),
        .input_size = job->input_size,
    };
    if (job->more)
        r = describe_more(d, job, ret);
    if (r == 0 && job->bundled)
        bundle_describe(job, ret);
    return r;
}

/* It leaves the queue of this domain for a slot of that one, mostly the same. */
static void handed_over(struct domain *from, struct domain *d, struct job *job, uint32_t slot, uint32_t generation)
{
    uint64_t function = (job->plugin->load_order << 8 | job_function(job)->index) + 1;
    bool aged = job != queue_first(&from->queue);
    uint32_t n = job_count(job);

    queue_turn(&from->queue, job);
    job_unqueue(job);
    recall_handed(d, job);
    job_move(job, JOB_RUNNING);
    run_slots_taken(from, job->user);
    job->domain = d;
    job->aged = aged;
    d->n_aged += n * aged;
    job->attempts++;
    job->slot = slot;
    job->generation = generation;
    d->slots[slot] = job;
    d->priv->only_function = !d->priv->only_function || d->priv->only_function == function ? function : DOMAIN_MIXED;
    list_push_back(&d->handed, &job->link);
    d->n_handed += n;
    d->jobs->counters.n_handed += n;
}

/* 0, or FRONT_E_FULL, or a negative errno: the executor is dying, or there is no memory, or a descriptor cannot be
 * sent. */
static int hand_over(struct domain *from, struct job *job)
{
    struct domain *d = from->priv->runners ? runners_choose(from, job) : from;
    uint32_t slot, generation;
    struct front_job f;
    int r;

    if (output_goes_by(job) && job->more->output_either && hand_over_refuses_output(from))
        output_let_go(job);

    if (!d || d->n_handed + job_count(job) > RING_SLOTS)
        return FRONT_E_FULL;
    r = describe_job(d, job, &f);
    if (r != 0)
        return r;
    int lent = d->priv->runner ? arena_lend(job, &f) : -1;
    r = front_prepare(d->front, &f, &slot, &generation);
    if (r != 0)
        arena_returned(job);
    if (r == FRONT_E_LARGE)
        return ERROR_UNEXPECTED(r); /* what comes inline is smaller than a frame */
    if (r != 0)
        return r;
    if (job_by_descriptor(job) || lent >= 0)
        r = send_input(d, job, lent, slot, generation);
    if (r == 0 && output_goes_by(job))
        r = send_output(d, job, slot, generation);
    if (r < 0) {
        front_abandon(d->front, slot);
        return r;
    }
    handed_over(from, d, job, slot, generation);
    front_submit(d->front, slot, bundle_usec(job));
    if (job->more)
        job_arm(job);
    if (job->bundled)
        bundles_watch(d);
    d->priv->n_unrung += job_count(job);
    if (d != from)
        health_busy(d);
    return 0;
}

/* A QUEUED job goes to another queue, where it is a job of this function of that plugin. */
static void move_to(struct job *job, struct domain *d, struct plugin *p, struct plugin_function *f)
{
    job_unqueue(job);
    job->plugin->n_jobs--;
    p->n_jobs++;
    job->domain = d;
    job->plugin = p;
    job_set_function(job, f);
    queue_put(&d->queue, job, false);
}

/* The configuration has other runners for this QUEUED job since. False: no memory, or no room there. */
static bool move_on(struct job *job)
{
    struct runners *there = runners_get(job->domain->jobs, job->user->uid, job->plugin->request);
    struct plugin_function *f = job_function(job);

    const char *why = there && job->more && job->more->arena ? runners_refuse_arena(there, arena_writes(job)) : NULL;
    /* what an earlier try has written there cannot come by frames */
    if (!why && there && output_goes_by(job) && (!job->more->output_either || job->more->output_again))
        why = hand_over_refuses_output(there->domain);
    if (why) {
        job_unqueue(job);
        job_finish(job, JOB_FAILED, CODE_NOT_FOUND, why, NULL);
        return true;
    }
    struct plugin *p = there ? runners_plugin(there, job->user->uid, job->plugin->request, true) : NULL;
    f = p ? runners_expect(p, f->name, f->flags) : NULL;
    if (!f)
        return false;
    move_to(job, there->domain, p, f);
    runners_queued(job);
    there->domain->priv->unpumped = true;
    return true;
}

/* If the plugin of this QUEUED job has to run apart: moves the job there. False: it stays. */
static bool move_apart(struct job *job)
{
    struct domain *d = job->domain, *own;
    struct plugin *p = job->plugin, *there;
    struct plugin_function *f;

    if (d->priv->own || d->priv->runners || !job_breaker_apart(job))
        return false;
    own = domain_for(d->jobs, job->user->uid, p->request);
    there = own && own != d ? plugin_get(own, p->request) : NULL;
    f = there ? plugin_function_copy(there, job_function(job)) : NULL;
    if (!f)
        return false; /* then it runs here */
    move_to(job, own, there, f);
    domain_pump(own);
    return true;
}

/* Whether the job is ended because of its function's crashes, or moved elsewhere. */
static bool is_broken(struct job *job)
{
    char text[JOB_TEXT];
    uint64_t retry_usec;

    if (!job_breaker_refuses(job, text, &retry_usec))
        return move_apart(job);
    job_unqueue(job);
    job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, text, NULL);
    return true;
}

/* Whether the first job of the queue can go; one that never can is ended. */
static bool plugin_is_there(struct domain *d, struct job *job)
{
    struct plugin *p = job->plugin;

    if (job_breaker_suspects(job) && is_broken(job))
        return false;
    if (p->state == PLUGIN_UNKNOWN)
        plugin_load(p);
    if (p->state == PLUGIN_READY && job_function(job)->index != RING_NONE) {
        if (job_breaker_suspects(job))
            job_breaker_try(job);
        return true;
    }
    if (job->state == JOB_QUEUED && (p->state == PLUGIN_FAILED || p->state == PLUGIN_READY)) {
        job_unqueue(job);
        job_finish(job, JOB_FAILED, CODE_NOT_FOUND,
                   p->state == PLUGIN_FAILED ? plugin_why(p)
                   : d->priv->runners        ? "no runner of this name offers the function"
                                             : "the plugin no longer has this function",
                   NULL);
    }
    return false;
}

static uint64_t aged_before(const struct domain *d)
{
    uint64_t now = clock_monotonic_usec(), usec = d->jobs->options.limits.ageing_usec;

    return now > usec ? now - usec : 0;
}

/* The job that has its turn. */
static struct job *next_of(struct domain *d)
{
    bool may_be_aged = d->queue.turns == AGEING_TURNS - 1 && d->n_aged < AGED_WORKERS(domain_workers(d));
    struct job *job = may_be_aged ? queue_aged(&d->queue, aged_before(d)) : NULL;

    return job ? job : queue_first(&d->queue);
}

/* What became of a job that had its turn. */
enum pumped {
    PUMP_HANDED, /* it was handed over */
    PUMP_GONE,   /* it has left the queue otherwise, at the cost of a hand-over */
    PUMP_MOVED,  /* it waits at a gate */
    PUMP_AGAIN,  /* there may be another one first now */
    PUMP_WAITS,  /* it stays the first */
};

/* Hands the job over that has its turn, if nothing keeps it. */
static enum pumped pump_one(struct domain *d, struct job *job)
{
    bool stopped = batch_stops(job);

    if (job->bundled && (stopped || bundle_counts(d, job))) {
        bundle_split(job);
        return PUMP_AGAIN;
    }
    if (stopped) { /* batches_turn() is on its way to it */
        job_stop(job, STOP_CANCEL);
        return PUMP_GONE;
    }
    if (d->priv->runners && d->priv->runners->outdated)
        return move_on(job) ? PUMP_GONE : PUMP_WAITS;
    if (!plugin_is_there(d, job))
        return next_of(d) == job ? PUMP_WAITS : PUMP_AGAIN;
    if (d->priv->runners && !runners_choose(d, job)) /* before it is noted on disk that the job may have begun */
        return PUMP_WAITS;
    if (!gate_lets(job))
        return PUMP_MOVED;
    if (!run_slots_let(d))
        return PUMP_WAITS;
    enum disk_step step = job_policy(job) ? d->jobs->policy_hooks->before(d, job) : STEP_ON;
    if (step == STEP_AWAITS)
        return PUMP_AGAIN;
    int r = step == STEP_ON ? hand_over(d, job) : FRONT_E_FULL;
    if (r == 0)
        return PUMP_HANDED;
    /* no event reports when there is memory, or when fewer descriptors of this uid are on their way */
    if (r == -ENOMEM || r == -ENOBUFS || r == -EMFILE || r == -ETOOMANYREFS)
        jobs_timer(d->jobs, d->priv->pause_timer, DOMAIN_PAUSE_USEC);
    return PUMP_WAITS;
}

/* Whether the executor takes jobs; starts one if there is none. */
static bool takes_jobs(struct domain *d)
{
    if (d->priv->runners)
        return true; /* hand_over() looks which of them */
    if (!d->priv->executor && (domain_start(d) < 0 || !d->priv->executor))
        return false;
    return d->priv->executor->ready && !d->priv->executor->dying &&
           !d->priv->finishing; /* else the next one takes them */
}

void domain_pump(struct domain *d)
{
    uint32_t n = 0, n_handed = 0, n_moved = 0;

    d->priv->unpumped = false;
    if (d->priv->runner) /* which has no queue of its own */
        d = d->successor;
    d->priv->unpumped = false;
    if (d->priv->given_up) {
        domain_end_given_up(d);
        return;
    }
    for (struct job *job; !d->jobs->gates.paused && (job = next_of(d));) {
        if (n >= HAND_BATCH) {
            d->priv->unpumped = true;
            break;
        }
        if (!takes_jobs(d))
            return;
        uint32_t n_jobs = job_count(job);
        enum pumped what = pump_one(d, job);
        n += what == PUMP_HANDED ? n_jobs : what == PUMP_GONE || what == PUMP_AGAIN;
        n_moved += what == PUMP_MOVED;
        if (what == PUMP_WAITS || n_moved == GATE_BATCH)
            break; /* the turn of gates goes on with those that were moved */
        if (what != PUMP_HANDED)
            continue;
        n_handed += n_jobs;
        /* and again at the end of the turn */
        if (d->front && d->priv->n_unrung >= RING_EARLY && d->priv->n_unrung - n_jobs < RING_EARLY && !bundles_brief(d))
            front_ring(d->front);
    }
    if (n_handed && d->priv->executor)
        health_busy(d);
}

void domain_queued(struct job *job)
{
    recall_came(job->domain, job);
    runners_queued(job);
    if (job->domain->jobs->arriving)
        job->domain->priv->unpumped = true;
    else
        domain_pump(job->domain);
}
