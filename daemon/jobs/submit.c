/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c: new jobs: what refuses them, and what each gets.
 * Owns nothing: what it makes is the table's. [loop]
 * Keeps: a request is accepted or refused, once. A refused one leaves no charge.
 * Does not know sockets or messages. */
#include "jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/arena.h"
#include "domains/bundle.h"
#include "domains/domain.h"
#include "domains/hand-over.h"
#include "domains/owners.h"
#include "domains/places.h"
#include "domains/plugin-lookup.h"
#include "domains/plugins.h"
#include "domains/runner-admit.h"
#include "durable/durable.h"
#include "durable/retry.h"
#include "jobs/follow.h"
#include "sched/rate.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/batch.h"
#include "table/find.h"
#include "table/function-stats.h"
#include "table/ids.h"
#include "table/input.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/request.h"
#include "table/watches.h"

#define NOT_TAKEN    1   /* of submit() */
#define ARRIVE_BATCH 64u /* jobs of an array, after which the executor gets some */

/* How long until this user may submit another job; counts the job if that is now. */
static uint64_t rate_limit(struct jobs *jobs, struct user *user)
{
    const struct jobs_limits *l = &jobs->options.limits;
    uint64_t rate = user_limits(jobs, user)->rate_per_user, now, own, all;

    if (!l->rate && !rate)
        return 0;
    now = clock_monotonic_usec() * 1000;
    own = rate_wait(user->rate_nsec, rate, l->rate_burst, now);
    all = rate_wait(jobs->rate_nsec, l->rate, l->rate_burst, now);
    if (own || all)
        return MAX(own, all);
    rate_take(&user->rate_nsec, rate, now);
    rate_take(&jobs->rate_nsec, l->rate, now);
    return 0;
}

/* Whether the limit is reached; if so, when the next one may come. */
static bool is_full(struct retry_after *retry_after, uint64_t n, uint64_t most, uint64_t *ret_retry_usec)
{
    if (n >= most)
        *ret_retry_usec = retry_after_refuse(retry_after, clock_monotonic_usec());
    else if (n + 1 < most)
        retry_after->due_usec = 0; /* more than one place is free: no client need wait */
    return n >= most;
}

/* The refusals that need no job. NULL: none. */
static const char *refusal(struct jobs *jobs, const struct job_request *r, struct user *user,
                           char words[static JOB_TEXT], int *ret_code, uint64_t *ret_retry_usec)
{
    const struct jobs_limits *l = &jobs->options.limits;

    *ret_code = CODE_BUSY;
    if (jobs->draining)
        return "wsd is draining and takes no new jobs";
    if (jobs->gates.drained)
        return "wsd was drained by `wsctl drain` and takes no new jobs until `wsctl resume`";
    if (r->batch && batch_refuses(r->batch)) {
        *ret_code = CODE_CANCELLED;
        return batch_refuses(r->batch);
    }
    if (is_full(&jobs->retry_after, jobs->counters.n_open, l->jobs, ret_retry_usec))
        return "the queue is full (max-jobs in wsd.conf): try again later";
    if (is_full(&user->retry_after, user->n_jobs, user_limits(jobs, user)->jobs_per_user, ret_retry_usec))
        return "too many jobs of this user (max-jobs-per-user in wsd.conf): try again later";
    if (!r->more_input && r->input_size > l->input)
        return "the input is larger than a job's may be (max-input in wsd.conf)";
    const char *text = r->file ? input_refuses(r->file) : r->pipe ? input_refuses_pipe(*r->pipe) : NULL;
    if (!text && r->file && r->durable)
        text = "the input of a durable job has to be on wsd's disk: send its bytes";
    if (text) {
        *ret_code = CODE_USAGE;
        return text;
    }
    text = r->parts ? arena_refuses(r->parts, ret_code) : NULL;
    if (!text && r->output && (text = output_refuses(r->output)))
        *ret_code = CODE_USAGE;
    if (text)
        return text;
    *ret_code = CODE_BUSY;
    *ret_retry_usec = rate_limit(jobs, user);
    if (!*ret_retry_usec)
        return NULL;
    snprintf(words, JOB_TEXT, "too many jobs a second (max-rate, max-rate-per-user in wsd.conf): try again in %.3f s",
             (double)*ret_retry_usec / 1e6);
    return words;
}

static struct job *job_new(struct jobs *jobs, const struct job_request *r, struct user *user, uint64_t now_usec)
{
    struct job *job = job_alloc(jobs, r->args_size, r->more_input ? 0 : r->input_size, r->batch);

    if (!job)
        return NULL;
    job->accepted_usec = now_usec;
    if (r->id)
        memcpy(job->id, r->id, sizeof(job->id));
    else
        id_make(jobs, jobs_realtime(jobs, job->accepted_usec), job->id);
    if (job_name(jobs, job) < 0) {
        job_discard(job);
        return NULL;
    }
    if (job->args_size)
        memcpy(job_given(job), r->args, job->args_size);
    if (job->input_size)
        memcpy(job_given(job) + job->args_size, r->input, job->input_size);
    job->user = user;
    job->argc = r->argc & JOB_ARGS;
    job->priority = (int8_t)r->priority;
    /* what is durable, or has a key, is there to be asked for again */
    job->flags = (uint8_t)((r->detached || r->durable || (r->key && *r->key) ? JOB_DETACHED : 0) |
                           (r->more_input ? JOB_MORE_INPUT : 0));
    job->waits = r->waits;
    job->directory = directory_ref(r->directory);
    return job;
}

static void refuse(struct jobs *jobs, uint32_t uid, struct watch *owner, const struct refusal *why)
{
    jobs->counters.refused++;
    if (why->code == CODE_BUSY)
        log_event(LOG_KIND_LIMIT, LOG_INFO, &(struct log_about){.uid = &uid}, "user %u: refused: %s", uid, why->text);
    owner->ops->refused(owner, why->code, why->text, why->retry_usec);
}

static int more_init(struct job *job, const struct job_request *r)
{
    if (request_apply(r, job) < 0 || (request_has_policy(r) && policy_make(job, r) < 0))
        return -ENOMEM;
    if (!r->more_input)
        return 0;
    struct job_more *m = job_more(job);
    return m && buffer_put(&m->early, r->input, r->input_size) == 0 ? 0 : -ENOMEM;
}

/* Joins a job with the same key; the input of this request is not needed. Returns 0, or NOT_TAKEN with the refusal. */
static int join(struct job *job, const struct job_request *r, struct watch *w, struct refusal *ret)
{
    if (job_is_crowded(job)) {
        ret->code = CODE_BUSY;
        ret->text = "too many wait for the job of this key, which is not accepted yet: try again later";
        return NOT_TAKEN;
    }
    if (job_known(job))
        w->ops->accepted(w, job->id);
    if (r->more_input && r->input_size)
        w->ops->input_taken(w, r->input_size);
    job_follow(job, w);
    return 0;
}

static struct job_place place_of(struct jobs *jobs, const struct job_request *r)
{
    return (struct job_place){
        .user = user_get(jobs, r->uid), .now_usec = clock_monotonic_usec(), .wants_more = request_wants_more(r)};
}

/* Finds or makes the domain and the plugin. Returns 0; NOT_TAKEN, with the refusal; -ENOMEM. */
static int place_look(struct jobs *jobs, const struct job_request *r, struct job_place *place, struct refusal *ret)
{
    _cleanup_(freep) char *request = NULL;

    if (place->plugin && place->plugin->n_jobs) /* it stays as long as it has some */
        return 0;
    place->function = NULL;
    int named = plugin_request(jobs, r->uid, r->plugin, r->directory, &request);
    if (named == 0) {
        if (runners_admit(jobs, r, request, &place->domain, ret) != 0)
            return NOT_TAKEN;
        if (!place->domain)
            place->domain = domain_for_owner(jobs, domain_owner(jobs, r->uid), request);
        errno = ENOMEM; /* what plugin_get() says it by */
        struct domain *d = place->domain;
        place->plugin = !d                 ? NULL
                        : d->priv->runners ? runners_plugin(d->priv->runners, r->uid, request, true)
                                           : plugin_get(d, request);
        ret->code = CODE_BUSY;
        ret->text = errno == EMFILE ? "too many plugins in use: try again later" : "out of memory";
        return place->plugin ? 0 : NOT_TAKEN;
    }
    ret->code = named == -EACCES ? CODE_DENIED : CODE_NOT_FOUND;
    ret->text = named == -EACCES
                    ? "plugins by path are for a user's own wsd: install it in the plugin directory, and give its name"
                    : "the path of the plugin is too long";
    return named == -EACCES || named == -ENAMETOOLONG ? NOT_TAKEN : named;
}

/* The function that job_resolve() found for a request like these, since the configuration was read. */
static struct plugin_function *known_function(struct jobs *jobs, const struct job_request *r,
                                              const struct job_place *place)
{
    bool plain = !place->wants_more && !r->file && !r->parts && !r->output && !r->n_after && !r->n_after_any;
    struct plugin_function *f =
        plain && plugin_is_ready(place->plugin) ? plugin_find_function(place->plugin, r->function) : NULL;

    return f && f->cacheable == jobs->n_configured ? f : NULL;
}

/* Finds the domain, plugin and function, if all are known; makes nothing, since the jobs may be refused. */
static void place_known(struct jobs *jobs, const struct job_request *r, struct job_place *place)
{
    _cleanup_(freep) char *request = NULL;
    uint64_t owner = domain_owner(jobs, r->uid);

    if (plugin_request(jobs, r->uid, r->plugin, r->directory, &request) < 0)
        return;
    bool apart = plugin_apart(jobs, owner, request) != PLUGIN_TOGETHER;
    const struct runners *g = runners_of(jobs, r->uid, request);
    struct domain *d = g && runners_take(g, r->waits) ? g->domain : domain_find(jobs, owner, apart ? request : NULL);
    struct plugin *p = !d                 ? NULL
                       : d->priv->runners ? runners_plugin(d->priv->runners, r->uid, request, false)
                                          : plugin_find(d, request);
    if (!p || !plugin_is_ready(p) || (!d->priv->runners && plugin_get(d, request) != p))
        return;
    struct job_place found = {.domain = d, .plugin = p, .wants_more = place->wants_more};
    place->function = known_function(jobs, r, &found);
    if (!place->function)
        return;
    place->domain = d;
    place->plugin = p;
}

/* The plugin of this request, whether it can be used now or not. NULL: wsd has not seen it. */
static struct plugin *seen_plugin(struct jobs *jobs, const struct job_request *r)
{
    _cleanup_(freep) char *request = NULL;
    uint64_t owner = domain_owner(jobs, r->uid);

    if (plugin_request(jobs, r->uid, r->plugin, r->directory, &request) < 0)
        return NULL;
    const struct runners *g = runners_of(jobs, r->uid, request);
    if (g)
        return runners_plugin(g->domain->priv->runners, r->uid, request, false);
    struct domain *apart = domain_find(jobs, owner, request), *together = domain_find(jobs, owner, NULL);
    struct plugin *p = apart ? plugin_find(apart, request) : NULL;

    return p || !together ? p : plugin_find(together, request);
}

/* Counts a refusal against its function, if wsd has seen that: a user could fill the table with other names. */
static void count_refusal(struct jobs *jobs, const struct job_request *r, struct user *user)
{
    struct plugin *p = seen_plugin(jobs, r);
    struct plugin_function *f = p ? plugin_find_function(p, r->function) : NULL;

    if (f)
        function_stats_count(user, p, f, FUNCTION_REFUSED, 1);
}

/* Returns 0; NOT_TAKEN, with the refusal; -ENOMEM. What holds for the next request like this, too. */
static int check_request(struct jobs *jobs, const struct job_request *r, struct user *user,
                         struct awaiting **ret_awaiting, struct refusal *ret)
{
    ret->text = refusal(jobs, r, user, ret->words, &ret->code, &ret->retry_usec);
    if (!ret->text && (r->durable || (r->key && *r->key && jobs_unreadable(jobs))))
        ret->text = durable_refuses(jobs, r, &ret->code, ret->words);
    if (!ret->text && r->n_after + r->n_after_any &&
        after_new(jobs, r, ret_awaiting, &ret->text, &ret->code, ret->words) < 0)
        return -ENOMEM;
    return ret->text ? NOT_TAKEN : 0;
}

/* Charges the user for what the job will have. Returns as above. */
static int charge(struct jobs *jobs, struct user *user, uint64_t bytes, struct refusal *ret)
{
    int charged = user_admit(jobs, user, bytes, &ret->retry_usec);

    if (charged == 0)
        return 0;
    ret->code = CODE_BUSY;
    ret->text = user_charge_words(charged);
    return NOT_TAKEN;
}

/* The job is one of the user's from now on, and its owner follows it. */
static void enter(struct job *job, const struct job_request *r, const struct job_place *place, struct watch *owner)
{
    struct jobs *jobs = place->domain->jobs;

    job->domain = place->domain;
    job->plugin = place->plugin;
    job->plugin->n_jobs++;
    job->user->n_jobs++;
    jobs->counters.submitted++;
    jobs->counters.n_open++;
    owner->owner = true;
    job_add_watch(job, owner);
    if (r->batch)
        batch_add(r->batch, job);
}

/* Gives the job what only some requests have. Returns 0, or the words of a refusal. */
static const char *equip(struct job *job, const struct job_request *r, const struct job_place *place,
                         struct awaiting **awaiting, char words[static JOB_TEXT])
{
    if ((place->wants_more && more_init(job, r) < 0) || (*awaiting && !job_more(job)))
        return "out of memory";
    bool to_executor = !hand_over_refuses_output(job->domain);
    int held = r->file    ? input_hold(job, r->file)
               : r->pipe  ? input_hold_pipe(job, r->pipe, to_executor)
               : r->parts ? arena_hold(job, r->parts)
                          : 0;
    if (held == 0 && r->output && to_executor)
        held = output_hold(job, r->output);
    if (held < 0) {
        input_words(job, held, words);
        return words;
    }
    if (!*awaiting)
        return NULL;
    (*awaiting)->job = job;
    job->more->charged += after_charge(*awaiting);
    job->more->awaiting = TAKE(*awaiting);
    return NULL;
}

/* Accepts the job, or lets it wait for its plugin. */
static void go_on(struct job *job, const struct job_request *r, struct job_place *place)
{
    bool known =
        place->function && plugin_is_ready(place->plugin) && !job_breaker_knows(place->plugin, place->function);

    if (!known) {
        place->function = plugin_wait(job, r->function);
        return;
    }
    job_set_function(job, place->function);
    job_accept(job);
}

/* A request that joins no other job. Returns 0; NOT_TAKEN, with the refusal; -ENOMEM. */
static int make_job(struct jobs *jobs, const struct job_request *r, struct job_place *place, struct watch *owner,
                    struct refusal *ret)
{
    _cleanup_(after_freep) struct awaiting *awaiting = NULL;
    const char *why;
    int checked = check_request(jobs, r, place->user, &awaiting, ret);

    if (checked == 0)
        checked = place_look(jobs, r, place, ret);
    if (checked != 0)
        return checked;
    if (r->parts && place->domain->priv->runners &&
        (why = runners_refuse_arena(place->domain->priv->runners, r->parts->output.size))) {
        ret->code = CODE_USAGE;
        ret->text = why;
        return NOT_TAKEN;
    }
    if (r->output && !r->output->either && (why = hand_over_refuses_output(place->domain))) {
        ret->code = CODE_USAGE;
        ret->text = why;
        return NOT_TAKEN;
    }
    if (!place->function)
        place->function = known_function(jobs, r, place);
    uint64_t for_others = after_charge(awaiting),
             bytes = r->args_size + (r->more_input ? 0 : r->input_size) + for_others;
    if (charge(jobs, place->user, bytes, ret) != 0)
        return NOT_TAKEN;
    struct job *job = job_new(jobs, r, place->user, place->now_usec);
    if (!job) {
        user_refund(jobs, place->user, bytes);
        return -ENOMEM;
    }
    enter(job, r, place, owner);
    why = equip(job, r, place, &awaiting, ret->words);
    if (why) {
        user_refund(jobs, place->user, for_others);
        job_refuse(job, CODE_BUSY, why);
    } else {
        go_on(job, r, place);
    }
    return 0;
}

/* Returns 0 also if the job was refused for a reason of its own; NOT_TAKEN: for one that holds for the next job as
 * well; -ENOMEM. */
static int submit(struct jobs *jobs, const struct job_request *r, struct job_place *place, struct watch *owner)
{
    struct refusal why;

    why.retry_usec = 0;
    list_init(&owner->progress);
    if (!place->user)
        return -ENOMEM;
    struct job *same = r->key && *r->key ? key_find(jobs, r->uid, r->key) : NULL;
    int made = same ? join(same, r, owner, &why) : make_job(jobs, r, place, owner, &why);
    if (made == NOT_TAKEN) {
        count_refusal(jobs, r, place->user);
        refuse(jobs, r->uid, owner, &why);
    }
    return made;
}

int jobs_submit(struct jobs *jobs, const struct job_request *r, struct watch *owner)
{
    struct job_place place = place_of(jobs, r);
    int answer = submit(jobs, r, &place, owner);

    return answer == NOT_TAKEN ? 0 : answer;
}

/* Submits the next job by itself. Returns as submit(); 1 also where there is no memory to follow it. */
static int submit_alone(struct jobs *jobs, struct job_request *r, struct job_place *place, struct array_watch *w)
{
    struct watch *owner = w->ops->item(w, w->taken, false);
    uint8_t id[16];

    if (!owner)
        return NOT_TAKEN;
    job_id_of(id, w->id, w->taken);
    r->id = id;
    int answer = submit(jobs, r, place, owner);
    r->id = NULL;
    if (answer < 0)
        refuse(jobs, r->uid, owner, &(struct refusal){.code = CODE_BUSY, .text = "out of memory"});
    if (w->taken + 1 < w->n)
        w->ops->next(w, r, w->taken + 1);
    return answer;
}

bool jobs_submit_array(struct jobs *jobs, struct job_request *r, struct array_watch *w)
{
    struct job_place place = place_of(jobs, r);
    int answer = 0;
    uint32_t n, n_pumped = w->taken;

    if (!w->taken) {
        id_make(jobs, jobs_realtime(jobs, place.now_usec), w->id);
        jobs->ids.n += w->n - 1;
        list_init(&w->bundles);
        if (r->batch)
            batch_hold(r->batch, w);
    }
    w->ops->next(w, r, w->taken);
    if (place.user)
        place_known(jobs, r, &place);
    jobs->arriving = true;
    do {
        n = place.function ? bundle_take(jobs, r, &place, w) : 0;
        if (!n) {
            answer = submit_alone(jobs, r, &place, w);
            n = 1;
        }
        w->taken += n;
        if (w->taken - n_pumped >= ARRIVE_BATCH && place.domain) {
            domain_pump(place.domain);
            n_pumped = w->taken;
        }
    } while (w->ops->goes_on(w, n) && answer == 0 && w->taken < w->n);
    jobs->arriving = false;
    if (place.domain)
        domain_pump(place.domain);
    bool over = answer != 0 || w->taken == w->n;
    if (over)
        batch_let_go(w);
    return over;
}
