/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.c: one trust domain: its executor, what is handed over to it and what comes back.
 * Owns the executor and the table of slots. [loop]
 * Keeps: each handed job has one slot and each slot one job; what the executor says about a job is taken once.
 * Does not decide what becomes of jobs when the executor dies (recover.c). */
#include "jobs/domain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/inherit.h"
#include "base/log.h"
#include "jobs/arena.h"
#include "jobs/query.h"
#include "jobs/batch.h"
#include "jobs/bundle.h"
#include "jobs/durable.h"
#include "jobs/input.h"
#include "jobs/gate.h"
#include "jobs/job-breaker.h"
#include "jobs/lane.h"
#include "jobs/output.h"
#include "jobs/plugins.h"
#include "jobs/policy.h"
#include "jobs/queue.h"
#include "jobs/recall-timer.h"
#include "jobs/recover.h"
#include "jobs/recycle.h"
#include "jobs/reload.h"
#include "jobs/run-slots.h"
#include "jobs/state.h"
#include "jobs/timers.h"

#define BATCH       256u  /* completions a domain and turn of the loop; */
#define BATCH_BYTES 1024u /* so many bytes of output count as another one */
/* jobs handed over, after which the executor begins before the turn of the loop is over */
#define RING_EARLY     32u
#define HAND_BATCH     128u   /* jobs handed over at a time, so that what comes back is told meanwhile */
#define GATE_BATCH     1024u  /* jobs that are moved to gates at a time */
#define DEATHS_FREE    2u     /* executors may die this often in a row before there are pauses */
#define DEATHS_MAX     8u     /* and this often, before any was of use, until wsd gives up for now */
#define PAUSE_USEC     10000u /* the first one; doubled up to */
#define PAUSE_MAX_USEC 5000000u
#define OWN_MAX        64u          /* plugins of one user that have an executor of their own */
#define OWNER_SHARED   (1ull << 32) /* above every uid: the number of a domain of several users */
#define FINISH_USEC    2000000u     /* for an executor to end in order */
#define TASKS_OWN      16u          /* that an executor may have beside its workers and what plugins and jobs may */

static void on_dead(struct executor *e, int code, int status, void *context)
{
    recover(context, code, status);
}

static void on_ready(struct executor *e, void *context)
{
    struct domain *d = context;

    free(d->start_error);
    d->start_error = NULL;
    if (d->recycling.standby_of) {
        recycle_ready(d);
        return;
    }
    plugin_rearm(d);
    domain_pump(d);
    domain_rest(d);
}

static void on_bell(struct executor *e, void *context)
{
    lanes_belled(context);
    domain_poll(context);
}

static struct job *job_at(struct domain *d, uint32_t slot, uint32_t generation)
{
    struct job *job = slot < RING_SLOTS ? d->slots[slot] : NULL;

    return job && job->generation == generation ? bundle_alone(d, slot) : NULL;
}

static struct watch *owner_of(struct job *job)
{
    for (struct watch *w = job->watches; w; w = w->next)
        if (w->owner)
            return w;
    return NULL;
}

static void open_answer(struct domain *d, uint32_t slot, uint32_t generation, uint32_t serial, int error, int fd)
{
    struct control c = {
        .kind = CONTROL_OPENED, .slot = slot, .generation = generation, .number = serial, .error = (uint32_t)error};

    if (d->executor)
        executor_send(d->executor, &c, fd);
}

static void open_ask(struct domain *d, const struct control *c)
{
    struct job *job = job_at(d, c->slot, c->generation);
    struct watch *w = job ? owner_of(job) : NULL;
    int r = !c->text[0] ? -ENOENT : w && w->ops->open ? w->ops->open(w, c->number, c->text) : -ENOTCONN;

    if (r < 0)
        open_answer(d, c->slot, c->generation, c->number, -r, -1);
}

void jobs_opened(struct watch *w, uint32_t serial, int error, int fd)
{
    if (w->job && w->job->state == JOB_RUNNING)
        open_answer(w->job->domain, w->job->slot, w->job->generation, serial, error, fd);
}

/* The submitter of a job that goes on has gone: what the job still waits to have opened will not come. */
void domain_forget_opens(struct job *job)
{
    open_answer(job->domain, job->slot, job->generation, RING_NONE, ENOTCONN, -1);
}

static void message(struct domain *d, const struct control *c)
{
    struct job *job = job_at(d, c->slot, c->generation);
    char text[JOB_TEXT];

    if (!job)
        return;
    escape_text(text, sizeof(text), c->text);
    const struct log_about about = job_about(job);

    log_event(LOG_KIND_JOB_SAYS, (int)(c->number & 7), &about, "%s", text);
    for (struct watch *w = job->watches; w; w = w->next)
        if (w->ops->message)
            w->ops->message(w, (int)(c->number & 7), text);
}

void domain_distrust(struct domain *d, const char *what)
{
    if (d->distrusted)
        return; /* said once, and it is ending */
    log_event(LOG_KIND_EXECUTOR_ENDED, LOG_WARNING, NULL, "executor %u: %s: it is replaced", d->executor->number, what);
    d->jobs->counters.executors_distrusted++;
    d->distrusted = true;
    executor_kill(d->executor);
}

/* The executor ends by itself, and no other is started: tells the waiting jobs why. */
static void unsafe(struct domain *d, const char *why)
{
    char text[JOB_TEXT];

    log_event(LOG_KIND_UNCONFINED, LOG_ERR, NULL,
              "executor %u is not confined as it should be: %s: it runs no jobs; see [sandbox] in wsd.conf(5)",
              d->executor->number, why);
    snprintf(text, sizeof(text), "wsd cannot confine its executors (%.128s): see its log, and [sandbox] in wsd.conf",
             why);
    job_words_free(d->unconfined);
    d->unconfined = job_words(text);
    executor_kill(d->executor);
}

static void start_failed(struct domain *d, const char *why)
{
    free(d->start_error);
    if (asprintf(&d->start_error, "no executor can be started: %.200s", why) < 0)
        d->start_error = NULL;
}

void domain_fruitless(struct domain *d, const struct executor *e)
{
    if (*e->why)
        start_failed(d, e->why);
    d->n_deaths = e->late ? DEATHS_MAX : d->n_deaths + 1;
}

const char *domain_failure(const struct domain *d)
{
    return d->start_error ? d->start_error : "no executor can be started: see wsd's log";
}

static void on_control(struct executor *e, const struct control *c, void *context)
{
    struct domain *d = context;
    char words[JOB_TEXT] = ""; /* the text, where it is for people */

    if (c->kind == CONTROL_UNSAFE || c->kind == CONTROL_FAILED || c->kind == CONTROL_SPOILT)
        escape_text(words, sizeof(words), c->text);
    switch (c->kind) {
    case CONTROL_LOADING:
        plugin_begun(d, c);
        return;
    case CONTROL_LOADED:
    case CONTROL_FUNCTION:
        if (d->recycling.standby_of)
            recycle_control(d, c);
        else
            plugin_control(d, c);
        return;
    case CONTROL_OPEN:
        open_ask(d, c);
        return;
    case CONTROL_MESSAGE:
        message(d, c);
        return;
    case CONTROL_ASKED:
        query_answered(d, c);
        return;
    case CONTROL_UNSAFE:
        unsafe(d, words);
        return;
    case CONTROL_FAILED:
        start_failed(d, words);
        return;
    case CONTROL_LANED:
        lanes_control(d, c);
        return;
    case CONTROL_SPOILT:
        recycle_spoilt(d, words);
        return;
    default:
        domain_distrust(d, "a packet of unknown kind");
    }
}

static const struct executor_ops ops = {.ready = on_ready, .bell = on_bell, .control = on_control, .dead = on_dead};

void domain_memory_words(const struct domain *d, char *text, size_t size)
{
    const struct jobs_domain *s = &d->settings;

    snprintf(text, size, "[%s%.40s] executor-memory in wsd.conf is %" PRIu64 " MiB",
             s->plugin_memory ? "plugin "
             : s->own_memory  ? "domain "
                              : "limits",
             s->plugin_memory ? d->own_name
             : s->own_memory  ? s->name
                              : "",
             s->memory >> 20);
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
    if (!d->jobs->helper)
        return "wsd has no right to run jobs under the uid of their user, as [executor] user-ids in wsd.conf wants it: "
               "see its log";
    if (uid < d->jobs->options.first_user_id)
        return "this user is below [executor] first-user-id in wsd.conf, and no jobs run under another uid than their "
               "user's";
    return NULL;
}

static const struct jobs_domain *settings_of(const struct jobs *jobs, uint64_t owner)
{
    const struct jobs_options *o = &jobs->options;

    if (owner >= OWNER_SHARED)
        return &o->domains[owner - OWNER_SHARED];
    for (uint32_t i = 1; i < o->n_domains; i++)
        if (o->domains[i].n_uids == 1 && o->domains[i].uids[0] == (uint32_t)owner)
            return &o->domains[i];
    return &o->domains[0];
}

/* Takes the present configuration. A standby takes those of the domain that it will serve. */
static void settings_take(struct domain *d)
{
    const struct jobs_options *o = &d->jobs->options;
    const char *own = d->recycling.standby_of ? d->recycling.standby_of->own : d->own;

    d->settings = *settings_of(d->jobs, d->key);
    if (!own || !o->plugin_share)
        return;
    char buffer[64];
    snprintf(d->own_name, sizeof(d->own_name), "%s", job_breaker_name(d->jobs, d->key, own, buffer));
    o->plugin_share(d->own_name, &d->settings, o->context);
}

static void start_now(struct domain *d)
{
    settings_take(d);
    struct jobs *jobs = d->jobs;
    struct executor_options o = {
        .base = jobs->options.base,
        .program = &jobs->program,
        .helper = jobs->helper,
        .uid = jobs->helper ? uid_of_executor(d) : CHILD_OWN,
        .owner = d->key,
        .workers = domain_workers(d),
        .memory = d->settings.memory,
        .cgroups = jobs->cgroups,
        .tasks = d->settings.tasks ? d->settings.tasks + domain_workers(d) + TASKS_OWN : 0,
        .cpu_weight = d->settings.cpu_weight,
        .leaves_core = jobs->options.leaves_core,
        .number = ++jobs->next_executor,
        .ops = &ops,
        .context = d,
    };
    int r = executor_new(&d->executor, &o);

    d->distrusted = d->finishing = d->useful = false;
    d->only_function = 0;
    d->recycling.n_ended = d->recycling.resident_first = 0;
    d->recycling.spoilt = d->recycling.starved = false;
    d->recycling.started_usec = clock_monotonic_usec();
    if (r < 0) {
        char words[INHERIT_ERROR], limits[JOB_TEXT], why[INHERIT_ERROR + JOB_TEXT];

        if (r == -EAGAIN)
            snprintf(why, sizeof(why), "no more processes or threads: %s", cgroup_tasks_words(limits, sizeof(limits)));
        else
            snprintf(why, sizeof(why), "%s%s%s", strerror(-r), child_lacks(r), inherit_blame(r, words));
        log_event(LOG_KIND_LIMIT, LOG_ERR, NULL, "cannot start an executor: %s", why);
        start_failed(d, why);
        d->n_deaths++;
        return;
    }
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
    list_for_each_entry (struct plugin, p, &d->plugins.all, link) {
        if (plugin_wanted(p))
            return true;
    }
    return false;
}

/* Loads all plugins of the last executor, and those wanted now, so that no job waits for dlopen. */
static void preload(struct domain *d)
{
    list_for_each_entry (struct plugin, p, &d->plugins.all, link) {
        if (!p->stale && ((p->name && !p->looked) || plugin_wanted(p)) && !reload_tries(p))
            plugin_load(p);
    }
}

static void give_up(struct domain *d)
{
    char *unsafe = TAKE(d->unconfined);
    const char *why = unsafe ? unsafe : domain_failure(d);

    plugin_fail_waiting(d, unsafe ? EACCES : EAGAIN, why);
    for (struct job *job; (job = queue_first(&d->queue));) {
        if (job->bundled) {
            bundle_split(job);
            continue;
        }
        job_unqueue(job);
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, why, NULL);
    }
    job_words_free(unsafe);
    d->n_deaths = DEATHS_FREE;
}

static void on_pause_over(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;

    if (d->executor)
        domain_pump(d);
    if (d->executor || !domain_wanted(d))
        return;
    start_now(d);
    if (d->executor)
        preload(d);
    else
        domain_start(d);
}

int domain_start(struct domain *d)
{
    if (d->executor || evtimer_pending(d->pause_timer, NULL))
        return 0;
    const char *missing = misses_uid(d);
    if (missing && !d->unconfined)
        d->unconfined = job_words(missing);
    if (d->n_deaths >= DEATHS_MAX || d->unconfined) {
        give_up(d);
        return -EAGAIN;
    }
    if (d->n_deaths <= DEATHS_FREE) {
        start_now(d);
        if (d->executor) {
            preload(d);
            return 0;
        }
    }
    uint32_t doublings = d->n_deaths > DEATHS_FREE ? d->n_deaths - DEATHS_FREE : 0;
    jobs_timer(d->jobs, d->pause_timer, MIN((uint64_t)PAUSE_USEC << doublings, (uint64_t)PAUSE_MAX_USEC));
    return 0;
}

static void idle_timer_set(struct domain *d, uint64_t usec)
{
    jobs_timer(d->jobs, d->idle_timer, usec);
}

void domain_finish(struct domain *d)
{
    if (!d->executor || d->finishing)
        return;
    d->finishing = true;
    lanes_revoke(d);
    executor_finish(d->executor);
    idle_timer_set(d, FINISH_USEC);
}

static void on_idle(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t limit = d->jobs->options.limits.idle_usec, idle = clock_monotonic_usec() - d->idle_since_usec;

    if (!d->executor)
        return;
    if (d->finishing) { /* a plugin's last words take too long */
        executor_kill(d->executor);
        return;
    }
    if (d->n_handed || domain_wanted(d) || plugin_loading(d) || d->trace.number || d->lanes.armed || d->has_ended) {
        d->idle_since_usec = clock_monotonic_usec();
        idle_timer_set(d, limit);
    } else if (idle >= limit) {
        domain_finish(d);
    } else {
        idle_timer_set(d, limit - idle);
    }
}

void domain_settle(struct domain *d)
{
    if (d->has_ended && d->executor && !d->n_handed && !d->queue.n)
        domain_rest(d);
    d->has_ended = false;
}

void domain_rest(struct domain *d)
{
    if (!d->n_handed && !d->queue.n)
        health_idle(d);
    d->idle_since_usec = clock_monotonic_usec();
    if (!evtimer_pending(d->idle_timer, NULL))
        idle_timer_set(d, d->jobs->options.limits.idle_usec);
}

void domain_rearm(struct domain *d)
{
    bool there = d->executor && d->executor->ready && !d->recycling.standby_of && !d->recycling.successor;

    if (!d->executor && !d->recycling.standby_of && domain_wanted(d))
        (void)domain_start(d);
    else if (d->executor && d->finishing && !evtimer_pending(d->idle_timer, NULL))
        idle_timer_set(d, FINISH_USEC);
    else if (there && !evtimer_pending(d->idle_timer, NULL))
        domain_rest(d);
    if (d->executor && (!there || d->n_handed || d->queue.n))
        health_busy(d);
    if (d->n_handed)
        bundles_watch(d);
    if (queue_first(&d->queue))
        recall_came(d, queue_first(&d->queue));
    plugin_rearm(d);
    if (d->probe)
        reload_rearm(d->probe);
}

uint64_t domain_owner(const struct jobs *jobs, uint32_t uid)
{
    const struct jobs_options *o = &jobs->options;

    for (uint32_t i = 1; i < o->n_domains; i++)
        for (uint32_t j = 0; j < o->domains[i].n_uids; j++)
            if (o->domains[i].uids[j] == uid)
                return o->domains[i].n_uids > 1 ? OWNER_SHARED + i : uid;
    return o->one_domain ? OWNER_SHARED : uid;
}

uint32_t jobs_owner_uid(const struct jobs *jobs, uint64_t owner)
{
    return owner >= OWNER_SHARED ? UINT32_MAX : (uint32_t)owner;
}

static uint32_t count_own(const struct jobs *jobs, uint64_t owner)
{
    uint32_t n = 0;

    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        n += d->key == owner && d->own;
    }
    return n;
}

static struct domain *unmake(struct domain *d)
{
    if (d->pause_timer)
        event_free(d->pause_timer);
    if (d->idle_timer)
        event_free(d->idle_timer);
    health_deinit(d);
    recall_deinit(d);
    if (d->bundle_timer)
        event_free(d->bundle_timer);
    if (d->lanes.timer)
        event_free(d->lanes.timer);
    free(d->own);
    job_words_free(d->unconfined);
    free(d->start_error);
    reload_probe_free(d->probe);
    free(d);
    return NULL;
}

struct domain *domain_new(struct jobs *jobs, uint64_t owner)
{
    struct domain *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->jobs = jobs;
    d->key = owner;
    settings_take(d);
    list_init(&d->plugins.all);
    list_init(&d->handed);
    list_init(&d->run_slot.waiting);
    list_init(&d->link);
    arenas_init(d);
    query_init(d);
    fair_queue_init(&d->queue, &jobs->flows, &jobs->counters.n_queued);
    d->pause_timer = evtimer_new(jobs->options.base, on_pause_over, d);
    d->idle_timer = evtimer_new(jobs->options.base, on_idle, d);
    if (!d->pause_timer || !d->idle_timer || health_init(d) < 0 || recall_init(d) < 0 || bundle_init(d) < 0 ||
        lanes_init(d) < 0)
        return unmake(d);
    list_push_back(&jobs->domains, &d->link);
    return d;
}

struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own)
{
    if (jobs->by_key.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&jobs->by_key, hash_number(owner)); l; l = hash_next(l)) {
        struct domain *d = container_of(l, struct domain, by_key);

        if (d->key == owner && (own ? d->own && strcmp(d->own, own) == 0 : !d->own))
            return d;
    }
    return NULL;
}

static struct domain *find_or_make(struct jobs *jobs, uint64_t domain_key, const char *own)
{
    struct domain *d = domain_find(jobs, domain_key, own);

    if (d)
        return d;
    if (own && count_own(jobs, domain_key) >= OWN_MAX)
        return NULL;
    d = domain_new(jobs, domain_key);
    if (!d)
        return NULL;
    d->own = own ? strdup(own) : NULL;
    if ((own && !d->own) || hash_insert(&jobs->by_key, &d->by_key, hash_number(domain_key)) < 0) {
        list_remove(&d->link);
        return unmake(d);
    }
    return d;
}

struct domain *domain_get(struct jobs *jobs, uint32_t uid)
{
    return find_or_make(jobs, domain_owner(jobs, uid), NULL);
}

struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request)
{
    return domain_for_owner(jobs, domain_owner(jobs, uid), request);
}

struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request)
{
    enum plugin_apart apart = plugin_apart(jobs, owner, request);
    struct domain *shared = find_or_make(jobs, owner, NULL), *d;

    if (apart == PLUGIN_TOGETHER || !shared)
        return shared;
    d = find_or_make(jobs, owner, request);
    if (!d && apart == PLUGIN_APART_CRASHED)
        return shared;                           /* better than nowhere */
    if (d && !d->executor && !d->trace.number) { /* a trace of this user covers all of the user's domains */
        d->trace.number = shared->trace.number;
        d->trace.by = shared->trace.by;
    }
    return d;
}

/* Sends a job's descriptor ahead of the job. */
static int send_input(struct domain *d, struct job *job, uint32_t slot, uint32_t generation)
{
    struct control c = {.kind = CONTROL_INPUT, .slot = slot, .generation = generation};
    struct job_more *m = job->more;
    int r = executor_send(d->executor, &c, job->flags & JOB_PIPE ? m->pipe_fd : m->input_fd);

    /* wsd's copy of the pipe's end stays open: a job that has not begun goes to the next executor with it */
    if (r >= 0 && job->flags & JOB_PIPE)
        job->flags |= JOB_CONSUMED;
    return r;
}

/* A user that can write the file could change it while a function reads it. So an executor that several users share
 * copies it first. */
static uint32_t file_flags(const struct domain *d, const struct job *job)
{
    bool others = d->key >= OWNER_SHARED && !d->jobs->options.user_daemon;

    return !job->more->by_file ? 0 : others ? DOWN_INPUT_FILE | DOWN_INPUT_COPY : DOWN_INPUT_FILE;
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
    return arena_describe(d, job, f);
}

/* What the executor is told of the job. As hand_over(). */
static int describe_job(struct domain *d, const struct job *job, struct front_job *ret)
{
    bool remote = job->directory && *job->directory->path != '/'; /* DIRECTORY_REMOTE */
    bool same_user = job->user->uid == d->jobs->options.own_uid && !remote;
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

/* It has left its queue for this slot. */
static void handed_over(struct domain *d, struct job *job, uint32_t slot, uint32_t generation)
{
    uint64_t function = (job->plugin->load_order << 8 | job_function(job)->index) + 1;
    bool aged = job != queue_first(&d->queue);
    uint32_t n = job_count(job);

    queue_turn(&d->queue, job);
    job_unqueue(job);
    recall_handed(d, job);
    job_move(job, JOB_RUNNING);
    run_slots_taken(d, job->user);
    job->aged = aged;
    d->n_aged += n * aged;
    job->attempts++;
    job->slot = slot;
    job->generation = generation;
    d->slots[slot] = job;
    d->only_function = !d->only_function || d->only_function == function ? function : DOMAIN_MIXED;
    list_push_back(&d->handed, &job->link);
    d->n_handed += n;
    d->jobs->counters.n_handed += n;
}

/* 0, or FRONT_E_FULL, or a negative errno: the executor is dying, or there is no memory, or a descriptor cannot be
 * sent. */
static int hand_over(struct domain *d, struct job *job)
{
    uint32_t slot, generation;
    struct front_job f;
    int r;

    if (d->n_handed + job_count(job) > RING_SLOTS)
        return FRONT_E_FULL;
    r = describe_job(d, job, &f);
    if (r != 0)
        return r;
    r = front_prepare(&d->executor->front, &f, &slot, &generation);
    if (r != 0)
        arena_returned(job);
    if (r == FRONT_E_LARGE)
        return ERROR_UNEXPECTED(r); /* what comes inline is smaller than a frame */
    if (r != 0)
        return r;
    if (job_by_descriptor(job)) {
        r = send_input(d, job, slot, generation);
        if (r < 0) {
            front_abandon(&d->executor->front, slot);
            return r;
        }
    }
    handed_over(d, job, slot, generation);
    front_submit(&d->executor->front, slot, bundle_usec(job));
    if (job->more)
        job_arm(job);
    if (job->bundled)
        bundles_watch(d);
    return 0;
}

void domain_requeue(struct job *job)
{
    arena_returned(job);
    list_remove(&job->link);
    if (job->more && job->more->timer)
        evtimer_del(job->more->timer);
    job_move(job, JOB_QUEUED);
    if (job->domain->recycling.successor)
        job->domain = job->domain->recycling.successor;
    queue_put(&job->domain->queue, job, true);
}

void domain_take_back(struct job *job, bool recalled)
{
    struct domain *d = job->domain;
    uint32_t n = job_count(job) - recalled; /* one is with the slot, which its completion RECALLED gives back */

    if (recalled)
        d->slots[job->slot] = NULL;
    d->n_handed -= n;
    d->jobs->counters.n_handed -= n;
    job->attempts--;
    domain_requeue(job);
}

/* Whether the job is ended because of its function's crashes, or moved elsewhere. */
static bool is_broken(struct job *job)
{
    char text[JOB_TEXT];
    uint64_t retry_usec;

    if (!job_breaker_refuses(job, text, &retry_usec))
        return job_breaker_move(job);
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
                   p->state == PLUGIN_FAILED ? plugin_why(p) : "the plugin no longer has this function", NULL);
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
    if (!plugin_is_there(d, job))
        return next_of(d) == job ? PUMP_WAITS : PUMP_AGAIN;
    if (!gate_lets(job))
        return PUMP_MOVED;
    if (!run_slots_let(d))
        return PUMP_WAITS;
    enum disk_step step = job->more ? durable_before(d, job) : STEP_ON;
    if (step == STEP_AWAITS)
        return PUMP_AGAIN;
    int r = step == STEP_ON ? hand_over(d, job) : FRONT_E_FULL;
    if (r == 0)
        return PUMP_HANDED;
    /* no event reports when there is memory, or when fewer descriptors of this uid are on their way */
    if (r == -ENOMEM || r == -ENOBUFS || r == -EMFILE || r == -ETOOMANYREFS)
        jobs_timer(d->jobs, d->pause_timer, PAUSE_USEC);
    return PUMP_WAITS;
}

/* Whether the executor takes jobs; starts one if there is none. */
static bool takes_jobs(struct domain *d)
{
    if (!d->executor && (domain_start(d) < 0 || !d->executor))
        return false;
    return d->executor->ready && !d->executor->dying && !d->finishing; /* else the next one takes them */
}

void domain_pump(struct domain *d)
{
    uint32_t n = 0, n_handed = 0, n_moved = 0;

    d->unpumped = false;
    for (struct job *job; !d->jobs->gates.paused && (job = next_of(d));) {
        if (n >= HAND_BATCH) {
            d->unpumped = true;
            break;
        }
        if (!takes_jobs(d))
            return;
        uint32_t n_jobs = job_count(job);
        enum pumped what = pump_one(d, job);
        n += what == PUMP_HANDED ? n_jobs : what == PUMP_GONE;
        n_moved += what == PUMP_MOVED;
        if (what == PUMP_WAITS || n_moved == GATE_BATCH)
            break; /* the turn of gates goes on with those that were moved */
        if (what != PUMP_HANDED)
            continue;
        n_handed += n_jobs;
        d->n_unrung += n_jobs;
        /* and again at the end of the turn */
        if (d->n_unrung >= RING_EARLY && d->n_unrung - n_jobs < RING_EARLY && !bundles_brief(d))
            front_ring(&d->executor->front);
    }
    if (n_handed)
        health_busy(d);
}

bool domain_ring(struct domain *d)
{
    bool woken = d->n_unrung && d->executor && !bundles_brief(d) && front_ring(&d->executor->front);

    d->n_unrung = 0;
    return woken;
}

/* A job that was told to stop before its answer was sealed (stop_running()) counts as stopped, whatever it returned.
 * One that has run for its whole time counts as timed out. */
void domain_done(struct job *job, const struct front_completion *c)
{
    struct job_more *m = job->more;
    enum job_stop stop = m ? (enum job_stop)m->stop : STOP_NONE;

    uint64_t usec = c->ended_usec > c->started_usec ? c->ended_usec - c->started_usec : 0;
    bundle_ran(job_function(job), 1, usec, c->output_size);
    bool late = m && m->timeout_usec && usec >= m->timeout_usec;
    int exit = c->exit >= 0 && c->exit <= WSD_STATUS_LAST ? c->exit : WSD_STATUS_LAST;

    if (m)
        output_absorb(job);
    bool rest = output_rest(job, c->data, c->size);
    if (!rest)
        output_add(job, c->data, c->size);
    if (!(job->flags & JOB_TRUNCATED) && !output_adds_up(job, c, rest ? c->size : 0)) {
        domain_distrust(job->domain, "output that does not add up");
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "its output was damaged by the executor", c);
    } else if (stop == STOP_CANCEL)
        job_finish(job, JOB_CANCELLED, CODE_CANCELLED, NULL, c);
    else if (job->flags & JOB_TRUNCATED)
        job_finish(job, JOB_FAILED, WSD_STATUS_LAST, output_lost(job), c);
    else if (stop == STOP_TIMEOUT || late)
        job_finish(job, JOB_TIMED_OUT, CODE_TIMED_OUT, job_time_words(job), c);
    else if (exit == 0)
        job_finish(job, JOB_SUCCEEDED, 0, NULL, c);
    else
        job_finish(job, JOB_FAILED, exit, c->error, c);
}

void domain_complete(struct domain *d, const struct front_completion *c)
{
    struct job *job = d->slots[c->slot];

    if (c->kind == COMPLETION_OUTPUT) {
        job = job ? bundle_alone(d, c->slot) : NULL;
        if (job)
            output_add_chunk(job, c);
        else
            front_release(&d->executor->front, c->chunk, c->run);
        return;
    }
    if (job && c->messages)
        executor_take_control(d->executor);
    bool done = c->kind == COMPLETION_DONE && d->slots[c->slot];
    job = done ? bundle_settled(d, c) : NULL;
    uint32_t n = job ? job_count(job) : 1;
    d->slots[c->slot] = NULL;
    d->n_handed -= n;
    d->jobs->counters.n_handed -= n;
    if (job) {
        arena_returned(job);
        d->useful = true;
        d->n_deaths = 0;
    }
    if (job && job->bundled)
        bundle_done(d, job, c);
    else if (job)
        domain_done(job, c);
    if (c->kind == COMPLETION_DONE)
        front_go_on(&d->executor->front, c->slot);
    front_retire(&d->executor->front, c->slot);
    if (d->recycling.successor && !d->n_handed && !lanes_running(d))
        domain_finish(d);
    else if (!d->n_handed && !d->queue.n)
        d->has_ended = true;
    if (done)
        recycle_look(d, n);
}

bool domain_poll(struct domain *d)
{
    struct front_completion c;

    for (uint32_t i = 0; i < BATCH && d->jobs->n_taken < DOMAINS_TAKE && d->executor && !d->distrusted;) {
        int r = front_next(&d->executor->front, &c);

        if (r == FRONT_E_LIES) {
            domain_distrust(d, "nonsense in its ring");
            return false;
        }
        if (r == FRONT_NONE) {
            if (i || d->unpumped)
                domain_pump(d);
            return d->unpumped;
        }
        uint32_t n = (d->slots[c.slot] ? job_count(d->slots[c.slot]) : 1) + (uint32_t)(c.size / BATCH_BYTES);
        i += n;
        d->jobs->n_taken += n;
        d->jobs->output += c.size;
        domain_complete(d, &c);
    }
    domain_pump(d);
    return d->executor && !d->distrusted;
}

void domain_free(struct domain *d)
{
    list_remove(&d->link);
    list_remove(&d->run_slot.waiting);
    if (d->jobs->by_key.n_buckets)
        hash_remove(&d->jobs->by_key, &d->by_key);
    query_executor_gone(d);
    lanes_gone(d, &(struct lanes_death){.how = "wsd was ended before it was done"});
    arenas_gone(d);
    d->executor = executor_free(d->executor);
    while (!list_empty(&d->plugins.all))
        plugin_free(container_of(d->plugins.all.next, struct plugin, link));
    unmake(d);
}
