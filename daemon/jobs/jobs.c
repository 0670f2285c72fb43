/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c: the interface of the job table: submit, follow, list, cancel, drain.
 * Owns the tables of jobs, users and domains. [loop]
 * Keeps: a user sees and touches only the user's own jobs; root all.
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
#include "base/id.h"
#include "base/inherit.h"
#include "base/log.h"
#include "jobs/admission.h"
#include "jobs/after.h"
#include "jobs/arena.h"
#include "jobs/ids.h"
#include "jobs/plugin-names.h"
#include "jobs/query.h"
#include "jobs/batch.h"
#include "jobs/bundle.h"
#include "jobs/domain.h"
#include "jobs/durable.h"
#include "jobs/gate.h"
#include "jobs/input.h"
#include "jobs/job-breaker.h"
#include "jobs/lane.h"
#include "jobs/names.h"
#include "jobs/output.h"
#include "jobs/plugins.h"
#include "jobs/policy.h"
#include "jobs/restore.h"
#include "jobs/results.h"
#include "jobs/run-slots.h"
#include "jobs/schedule.h"
#include "jobs/timers.h"
#include "jobs/timing.h"
#include "jobs/watches.h"
#include "sched/rate.h"
#include "supervisor/predecessor.h"
#include "supervisor/starter.h"

#define NOT_TAKEN        1 /* of submit() */
#define RUN_SLOTS_A_TURN 1024u
#define ARRIVE_BATCH     64u /* jobs of an array, after which the executor gets some */

/* Whether the job has been accepted, so that it may be shown. */
static bool is_known(const struct job *job)
{
    return job->state != JOB_NEW && !durable_unacknowledged(job);
}

/* NEW, and its plugin is not loaded yet: it can be seen and cancelled, like a job that waits for an executor. */
static bool is_waiting(const struct job *job)
{
    return job->state == JOB_NEW && job->function == JOB_NO_FUNCTION;
}

bool job_shown_to(const struct job *job, uint32_t uid)
{
    return (is_known(job) || is_waiting(job)) && (uid == 0 || uid == job->user->uid);
}

struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    uint64_t key = job_id_key(id);

    for (struct hash_link *l = hash_first(&jobs->by_id, key); l; l = hash_next(l)) {
        struct job *job = container_of(l, struct job, by_id);

        if (memcmp(job->id, id, 16) == 0)
            return job_shown_to(job, uid) ? job : NULL;
    }
    return jobs->bundles.by_first.n && bundles_find(jobs, id) ? job_find_shown(jobs, id, uid) : NULL;
}

struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    struct job *job = job_find_shown(jobs, id, uid);

    return job && is_known(job) ? job : NULL;
}

static void on_progress(evutil_socket_t fd, short what, void *userdata)
{
    struct jobs *jobs = userdata;
    struct list *l;

    if (list_empty(&jobs->progress.due))
        list_move_all(&jobs->progress.due, &jobs->progress.all);
    for (uint32_t i = 0; i < PROGRESS_LOOKS && (l = list_pop_front(&jobs->progress.due)); i++) {
        struct watch *w = container_of(l, struct watch, progress);
        uint64_t done, total;

        list_push_back(&jobs->progress.all, l);
        if (w->job->state != JOB_RUNNING)
            continue;
        front_progress(&w->job->domain->executor->front, w->job->slot, &done, &total);
        if (done != w->last_done) {
            w->last_done = done;
            w->ops->progress(w, done, total);
        }
    }
    if (!list_empty(&jobs->progress.due)) {
        jobs_timer(jobs, jobs->progress.timer, 0);
        return;
    }
    batches_progress(jobs);
    if (!list_empty(&jobs->progress.all) || !list_empty(&jobs->batches.progress))
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

/* Where that is wanted and can be. */
static int start_helper(struct jobs *jobs)
{
    const struct helper_options options = {.base = jobs->options.base,
                                           .file = jobs->options.spawner,
                                           .first_id = jobs->options.first_user_id,
                                           .answer_usec = &jobs->options.limits.hang_usec,
                                           .program = &jobs->program};
    bool wanted = jobs->options.user_ids == JOBS_USER_IDS_YES;

    if (jobs->options.user_daemon || jobs->options.user_ids == JOBS_USER_IDS_NO ||
        (jobs->options.one_domain && jobs->options.n_domains == 1) ||
        (!wanted && !helper_possible(jobs->options.spawner)))
        return 0;
    int r = helper_new(&jobs->helper, &options);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        log_write(wanted ? LOG_ERR : LOG_NOTICE, "executors do not run under the uids of users: %s: %s",
                  r == -EPERM ? "wsd is not root's, and no wsd-spawn.socket is there to ask (wsd(8))"
                              : jobs->options.spawner,
                  strerror(-r));
    return 0;
}

/* Before the helper, which starts in wsd's cgroup of that moment. */
static int start_cgroups(enum jobs_cgroups wanted, struct cgroups **ret_cgroups)
{
    char error[CGROUP_ERROR];

    if (wanted == JOBS_CGROUPS_NO)
        return 0;
    int r = cgroups_new(ret_cgroups, wanted == JOBS_CGROUPS_YES, error);
    if (r == 0)
        return 0;
    if (wanted == JOBS_CGROUPS_YES)
        log_error("no cgroups can be made for executors: %s", error);
    else
        log_write(r == -EOPNOTSUPP ? LOG_DEBUG : LOG_NOTICE, "executors have no cgroups: %s", error);
    return wanted == JOBS_CGROUPS_YES || r == -ENOMEM ? r : 0;
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

static int start_starter(struct jobs *jobs)
{
    char words[INHERIT_ERROR];
    int r = starter_new(&jobs->program.starter);

    if (r < 0 && r != -ENOMEM)
        log_error("cannot start the thread that starts executors: %s%s", strerror(-r), inherit_blame(r, words));
    return r;
}

static struct child_program program_of(const struct jobs_options *o)
{
    return (struct child_program){.predecessor_fd = -1,
                                  .binary_fd = o->executor_fd,
                                  .plugin_dirs = o->plugin_dirs,
                                  .any_path = o->user_daemon,
                                  .pin = o->pin,
                                  .log_level = o->log_level,
                                  .stack_size = o->stack_size,
                                  .static_tls = o->static_tls,
                                  .sandbox = o->sandbox};
}

int jobs_become_spawner(const struct jobs_options *options, int socket)
{
    const struct child_program program = program_of(options);
    const struct helper_options helper = {
        .file = options->spawner, .first_id = options->first_user_id, .program = &program};
    struct cgroups *cgroups = NULL;
    int r = start_cgroups(options->cgroups, &cgroups);

    if (r == 0)
        r = helper_become(&helper, socket, cgroups_fd(cgroups));
    cgroups_unref(cgroups);
    return r;
}

int jobs_new(struct jobs **ret_jobs, const struct jobs_options *options)
{
    struct jobs *jobs = calloc(1, sizeof(*jobs));

    if (!jobs)
        return -ENOMEM;
    jobs->options = *options;
    jobs->n_configured = 1;
    if (getrandom(jobs->ids.seed, sizeof(jobs->ids.seed), 0) != (ssize_t)sizeof(jobs->ids.seed)) {
        free(jobs);
        return -EIO;
    }
    jobs->max_fd = max_fd();
    list_init(&jobs->domains);
    list_init(&jobs->run_slots.waiting);
    list_init(&jobs->progress.all);
    list_init(&jobs->progress.due);
    list_init(&jobs->moved);
    list_init(&jobs->ends_due);
    list_init(&jobs->gates.of_users);
    list_init(&jobs->after_due);
    list_init(&jobs->batches.due);
    list_init(&jobs->batches.kept);
    list_init(&jobs->batches.progress);
    jobs->progress.timer = evtimer_new(options->base, on_progress, jobs);
    jobs->program = program_of(options);
    jobs->boot.fd = jobs->wall.fd = -1;
    int r = results_init(jobs) == 0 && jobs->progress.timer ? start_clocks(jobs) : -ENOMEM;
    if (r == 0)
        r = start_cgroups(options->cgroups, &jobs->cgroups);
    if (r == 0 && options->state_dir && store_make_directory(options->state_dir) == 0)
        jobs->program.predecessor_fd = predecessor_open(options->state_dir); /* which the helper has, too */
    if (r == 0)
        r = start_starter(jobs);
    if (r == 0)
        r = orphans_new(&jobs->orphans, options->base);
    if (r == 0)
        r = start_helper(jobs);
    if (r < 0) {
        helper_free(jobs->helper);
        orphans_free(jobs->orphans);
        starter_free(jobs->program.starter);
        results_deinit(jobs);
        if (jobs->progress.timer)
            event_free(jobs->progress.timer);
        due_deinit(&jobs->boot);
        due_deinit(&jobs->wall);
        cgroups_unref(jobs->cgroups);
        close_fd(jobs->program.predecessor_fd);
        free(jobs);
        return r;
    }
    *ret_jobs = jobs;
    return 0;
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
        if (d->executor) {
            d->distrusted = true; /* nothing that it still says changes an answer that was given */
            executor_kill(d->executor);
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
    restore_end(jobs);
    schedules_free(jobs);
    each_job(jobs, job_free);
    batches_free(jobs);
    after_deinit(jobs);
    list_for_each_safe (l, n, &jobs->domains)
        domain_free(container_of(l, struct domain, link));
    gates_free(jobs);
    for (size_t i = 0; i < jobs->users.n_buckets; i++)
        for (struct hash_link *l = jobs->users.buckets[i], *next; l; l = next) {
            next = l->next;
            free(container_of(l, struct user, by_uid)->own_limits);
            free(container_of(l, struct user, by_uid));
        }
    hash_deinit(&jobs->users);
    breaker_deinit(&jobs->breakers);
    names_deinit(&jobs->names);
    hash_deinit(&jobs->by_id);
    hash_deinit(&jobs->bundles.by_first);
    hash_deinit(&jobs->by_key);
    hash_deinit(&jobs->flows);
    hash_deinit(&jobs->keys);
    results_deinit(jobs);
    due_deinit(&jobs->boot);
    due_deinit(&jobs->wall);
    event_free(jobs->progress.timer);
    remains_wait();
    freelist_deinit(&jobs->free_requests);
    for (size_t i = 0; i < JOBS_FREELISTS; i++)
        freelist_deinit(&jobs->free_jobs[i]);
    helper_free(jobs->helper);
    child_forget_remains();
    orphans_end_wait();
    orphans_free(jobs->orphans);
    starter_free(jobs->program.starter);
    cgroups_unref(jobs->cgroups);
    close_fd(jobs->program.predecessor_fd);
    free(jobs);
    return NULL;
}

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
    const char *text = r->file ? input_refuses(r->file) : NULL;
    if (!text && r->file && r->durable)
        text = "the input of a durable job has to be on wsd's disk: send its bytes";
    if (text) {
        *ret_code = CODE_USAGE;
        return text;
    }
    text = r->parts ? arena_refuses(r->parts, ret_code) : NULL;
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
        job_drop_given(job);
        free(job);
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
    bool has_policy = r->durable || r->retries || (r->key && *r->key);

    if (time_wanted(job, r) < 0 || (has_policy && policy_make(job, r) < 0))
        return -ENOMEM;
    if (r->tags && *r->tags && (!job_more(job) || !(job->more->tags = strdup(r->tags))))
        return -ENOMEM;
    if (!r->more_input && !r->timeout_usec)
        return 0;
    struct job_more *m = job_more(job);
    if (!m)
        return -ENOMEM;
    m->timeout_usec = r->timeout_usec;
    return r->more_input && buffer_put(&m->early, r->input, r->input_size) < 0 ? -ENOMEM : 0;
}

static void follow(struct job *job, struct watch *w)
{
    job_add_watch(job, w);
    /* what others have had of a job that is not detached is gone */
    w->offset = job->flags & JOB_DETACHED ? 0 : job_received(job);
    watch_late(w, job_final(job));
    output_give(job, w);
    if (job_final(job))
        job_settle_one(job, w);
}

/* Joins a job with the same key; the input of this request is not needed. */
static int join(struct job *job, const struct job_request *r, struct watch *w)
{
    if (is_known(job))
        w->ops->accepted(w, job->id);
    if (r->more_input && r->input_size)
        w->ops->input_taken(w, r->input_size);
    follow(job, w);
    return 0;
}

static struct job_place place_of(struct jobs *jobs, const struct job_request *r)
{
    bool has_policy = r->durable || r->retries || (r->key && *r->key),
         timed = r->delay_usec || r->at_usec || r->queue_usec || r->timeout_usec;

    return (struct job_place){.user = user_get(jobs, r->uid),
                              .now_usec = clock_monotonic_usec(),
                              .wants_more = has_policy || timed || r->more_input || (r->tags && *r->tags)};
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
        place->domain = domain_for(jobs, r->uid, request);
        errno = ENOMEM; /* what plugin_get() says it by */
        place->plugin = place->domain ? plugin_get(place->domain, request) : NULL;
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
    bool plain = !place->wants_more && !r->file && !r->parts && !r->n_after && !r->n_after_any;
    struct plugin_function *f =
        plain && place->plugin->state == PLUGIN_READY ? plugin_find_function(place->plugin, r->function) : NULL;

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
    struct domain *d = domain_find(jobs, owner, apart ? request : NULL);
    struct plugin *p = d ? plugin_find(d, request) : NULL;
    if (!p || p->state != PLUGIN_READY || plugin_get(d, request) != p)
        return;
    struct job_place found = {.domain = d, .plugin = p, .wants_more = place->wants_more};
    place->function = known_function(jobs, r, &found);
    if (!place->function)
        return;
    place->domain = d;
    place->plugin = p;
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
    int held = r->file ? input_hold(job, r->file) : r->parts ? arena_hold(job, r->parts) : 0;
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
        place->function && place->plugin->state == PLUGIN_READY && !job_breaker_knows(place->plugin, place->function);

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
    if (same)
        return join(same, r, owner);
    int made = make_job(jobs, r, place, owner, &why);
    if (made == NOT_TAKEN)
        refuse(jobs, r->uid, owner, &why);
    return made;
}

int jobs_submit(struct jobs *jobs, const struct job_request *r, struct watch *owner)
{
    struct job_place place = place_of(jobs, r);
    int answer = submit(jobs, r, &place, owner);

    return answer == NOT_TAKEN ? 0 : answer;
}

uint32_t jobs_submit_array(struct jobs *jobs, struct job_request *r, uint32_t n, uint8_t ret_id[16],
                           struct array_watch *w)
{
    struct job_place place = place_of(jobs, r);
    uint8_t id[16];
    int answer = 0;
    uint32_t i = 0, n_pumped = 0;

    id_make(jobs, jobs_realtime(jobs, place.now_usec), id);
    jobs->ids.n += n - 1;
    memcpy(ret_id, id, sizeof(id));
    r->id = id;
    list_init(&w->bundles);
    w->ops->next(w, r, 0);
    if (place.user)
        place_known(jobs, r, &place);
    jobs->arriving = true;
    while (i < n && answer == 0) {
        uint32_t taken = place.function ? bundle_take(jobs, r, &place, w, ret_id, i, n) : 0;

        if (!taken) {
            struct watch *owner = w->ops->item(w, i, false);

            if (!owner)
                break;
            job_id_of(id, ret_id, i);
            answer = submit(jobs, r, &place, owner);
            if (answer < 0)
                refuse(jobs, r->uid, owner, &(struct refusal){.code = CODE_BUSY, .text = "out of memory"});
            if (i + 1 < n)
                w->ops->next(w, r, i + 1);
        }
        i += taken ? taken : 1;
        if (i - n_pumped < ARRIVE_BATCH || !place.domain)
            continue;
        domain_pump(place.domain);
        n_pumped = i;
    }
    jobs->arriving = false;
    if (place.domain)
        domain_pump(place.domain);
    return i;
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
        return jobs->has_deferred ? -EAGAIN : -ENOENT;
    follow(job, w);
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
        output_moved(job);
}

void jobs_output_ready(struct watch *w)
{
    struct job *job = w->job;

    if (!job)
        return;
    bool waited = output_waits_for(job, w);
    output_give(job, w);
    if (waited)
        output_moved(job);
    if (job_final(job))
        job_settle_one(job, w);
}

int jobs_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid,
              void (*each)(const struct job_info *info, void *userdata), void *userdata)
{
    struct job *job = job_find_shown(jobs, id, uid);
    struct job_info info;

    if (!job)
        return -ENOENT;
    job_describe(job, &info);
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

void jobs_cancel_watched(struct watch *w, uint32_t uid, uint32_t by)
{
    if (w->job && (uid == 0 || uid == w->job->user->uid))
        (void)cancel(w->job, by);
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

bool jobs_poll(struct jobs *jobs)
{
    bool more = false;

    if (jobs->untimed)
        jobs_rearm(jobs);
    after_turn(jobs);
    output_turn(jobs);
    ends_turn(jobs);
    batches_turn(jobs);
    if (gates_turn(jobs))
        list_for_each_entry (struct domain, d, &jobs->domains, link)
            domain_pump(d);
    run_slots_turn(jobs);
    list_for_each (l, &jobs->domains) {
        struct domain *d = container_of(l, struct domain, link);

        if (jobs->n_taken >= DOMAINS_TAKE) { /* this one is the first of the next turn */
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
    jobs->counters.output_most = MAX(jobs->counters.output_most, jobs->output);
    jobs->output = 0;
    jobs->n_taken = 0;
    if (jobs->store)
        store_ring(jobs->store);
    return more || jobs->untimed; /* what has no timer cannot wake the loop: it stays awake until there is memory */
}

bool jobs_asleep(struct jobs *jobs)
{
    if (jobs->untimed || jobs->gates.due || jobs->run_slots.due || !list_empty(&jobs->after_due) ||
        !list_empty(&jobs->batches.due) || !list_empty(&jobs->moved) || !list_empty(&jobs->ends_due) ||
        (jobs->store && store_posted(jobs->store)))
        return false;
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        domain_settle(d);
        if (d->n_unrung || d->unpumped) /* since jobs_poll(), for a connection that had frames held back */
            return false;
        if (d->executor && !d->distrusted && front_asleep(&d->executor->front))
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
           jobs->schedules.by_name.n * SCHEDULE_WEIGHT;
}

bool jobs_shrink(struct jobs *jobs)
{
    if (jobs->n_selections) /* they walk over the table: next time */
        return false;
    for (size_t i = 0; i < JOBS_FREELISTS; i++)
        freelist_deinit(&jobs->free_jobs[i]);
    freelist_deinit(&jobs->free_requests);
    return hash_shrink(&jobs->by_id, SHRINK_BUCKETS) || hash_shrink(&jobs->bundles.by_first, SHRINK_BUCKETS) ||
           hash_shrink(&jobs->keys, SHRINK_BUCKETS) || hash_shrink(&jobs->flows, SHRINK_BUCKETS);
}

void jobs_awake(struct jobs *jobs)
{
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (d->executor)
            front_awake(&d->executor->front);
    }
}

static void drain(struct job *job)
{
    if (!durable_defer(job, false) && job->state == JOB_DELAYED)
        retry_drain(job);
}

void jobs_drain(struct jobs *jobs)
{
    jobs->draining = true;
    schedules_stop(jobs);
    each_job(jobs, drain);
    lanes_review(jobs);
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
        if (!d->executor)
            continue;
        list_for_each_entry (struct job, job, &d->handed, link)
            running += front_running(&d->executor->front, job->slot, &started);
    }
    *ret_running = running;
    *ret_waiting = jobs->counters.n_open - MIN(running, jobs->counters.n_open);
}

void jobs_counters(struct jobs *jobs, struct jobs_counters *ret)
{
    *ret = jobs->counters;
    ret->n_traces = query_traces(jobs);
    lanes_count(jobs, ret);
}
