/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins.c: the plugins of a domain, as its executor reports them.
 * Owns the entries, the jobs that wait for a load, and the questions about plugins. [loop]
 * Keeps: a number means the same plugin in each executor of the domain. Entries live as long as the domain, so jobs may
 * point at functions.
 * Does not open or load plugin files: the executor does. Looks at a file only where wsd's own configuration, or the
 * user of a user's own wsd, names it. */
#include "domains/plugins.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/log.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/job-breaker.h"
#include "domains/lifetime.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "domains/recycle.h"
#include "domains/reload.h"
#include "domains/resolve.h"
#include "domains/runner-names.h"
#include "table/plugin-names.h"
#include "table/timers.h"
#include "table/timing.h"

#define NAME_ROOM       64u /* of names and versions, with NUL */
#define BUILD_ROOM      65u /* of build ids, likewise */
#define LOAD_DEATHS_MAX 2u
#define RETRY_USEC      10000000u /* between loads of a plugin that killed its executor */
#define CHECK_USEC      1000000u  /* between looks at the file of a plugin that was found by name */
#define SETTLES_A_TURN  256u      /* jobs and queries: more than may come in a turn (share.h) */

/* Whether the request leads to the entry's path. Otherwise the path is only an executor's word, and the loop must not
 * look there: a file system that does not answer would stop it. */
static bool leads_to_path(const struct plugin *p)
{
    size_t n = strlen(p->request), dir_size;

    if (plugin_is_path(p->request)) /* of a user's own wsd */
        return strcmp(p->path, p->request) == 0;
    bool has_suffix = n > 3 && strcmp(p->request + n - 3, ".so") == 0;
    for (const char *dir = p->domain->jobs->options.plugin_dirs; *dir; dir += dir_size + (dir[dir_size] == ':')) {
        dir_size = strcspn(dir, ":");
        if (strncmp(p->path, dir, dir_size) == 0 && p->path[dir_size] == '/' &&
            strncmp(p->path + dir_size + 1, p->request, n) == 0 &&
            strcmp(p->path + dir_size + 1 + n, has_suffix ? "" : ".so") == 0)
            return true;
    }
    return false;
}

static void stamp_take(const struct plugin *p, uint64_t ret[4])
{
    struct stat st;

    memset(ret, 0, 4 * sizeof(ret[0]));
    if (!p->path || !leads_to_path(p) || stat(p->path, &st) < 0)
        return;
    ret[0] = st.st_dev;
    ret[1] = st.st_ino;
    ret[2] = (uint64_t)st.st_size;
    ret[3] = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

/* Whether the file of a loaded plugin is another one now. A missing file does not count: the loaded copy goes on. */
static bool has_changed(struct plugin *p)
{
    uint64_t stamp[4], now = clock_usec(CLOCK_MONOTONIC_COARSE); /* each submit looks at it */

    if (!plugin_is_path(p->request) && now - p->checked_usec < CHECK_USEC)
        return false;
    p->checked_usec = now;
    stamp_take(p, stamp);
    return stamp[1] && memcmp(stamp, p->stamp, sizeof(stamp)) != 0;
}

void plugin_accept_file(struct plugin *p)
{
    uint64_t stamp[4];

    stamp_take(p, stamp);
    if (stamp[1])
        memcpy(p->stamp, stamp, sizeof(stamp));
}

static void answer(struct plugin *p, struct plugin_query *q)
{
    struct plugin_function_info functions[PLUGIN_FUNCTIONS_MAX];
    struct plugin_runner_info runners[PLUGIN_RUNNERS_SHOWN];
    struct plugin_info info = {
        .name = plugin_title(p),
        .version = p->version ? p->version : "",
        .help = p->help ? p->help : "",
        .path = p->path ? p->path : "",
        .error = p->state == PLUGIN_FAILED ? plugin_why(p) : "",
        .functions = functions,
        .apart = plugin_apart(p->domain->jobs, p->domain->key, p->request),
        .build = p->build ? p->build : "",
        .runs = p->domain->priv->runners,
        .waiting = p->domain->priv->runners ? p->domain->queue.n : 0,
        .runners = runners,
    };

    reload_describe(p, &info);
    if (info.runs)
        info.n_runners = runners_describe(p->domain->priv->runners, runners, PLUGIN_RUNNERS_SHOWN);
    for (uint32_t i = 0; i < p->n_functions && p->state == PLUGIN_READY; i++) {
        struct plugin_function *f = &p->functions[i];

        if (f->index != RING_NONE) {
            functions[info.n_functions] =
                (struct plugin_function_info){.name = f->name, .help = f->help, .flags = f->flags};
            job_breaker_describe(p, f, &functions[info.n_functions++]);
        }
    }
    list_remove(&q->link);
    q->answer(q, &info, p->state == PLUGIN_FAILED ? p->error : 0);
}

bool plugin_wanted(const struct plugin *p)
{
    return p->state == PLUGIN_UNKNOWN && !p->settling && (!list_empty(&p->waiting) || !list_empty(&p->queries)) &&
           !reload_tries(p);
}

struct plugin *plugin_loading(struct domain *d)
{
    struct plugin *first = NULL;

    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (p->state == PLUGIN_LOADING && (!first || p->load_order < first->load_order))
            first = p;
    }
    return first;
}

/* Sets the time limit of the present load. Those behind it do not use theirs yet, nor do any before there is an
 * executor. */
static void load_timer_set(struct domain *d)
{
    struct plugin *p = plugin_loading(d);

    if (p && d->priv->executor && d->priv->executor->ready && !evtimer_pending(p->timer, NULL))
        jobs_timer(d->jobs, p->timer, d->jobs->options.limits.load_usec);
}

void plugin_rearm(struct domain *d)
{
    load_timer_set(d);
}

struct plugin_function *plugin_wait(struct job *job, const char *function)
{
    struct plugin *p = job->plugin;

    if (!p->settling && (p->state == PLUGIN_READY || p->state == PLUGIN_FAILED))
        return job_resolve(job, function);
    job->function_name = strdup(function);
    if (!job->function_name) {
        job_refuse(job, CODE_BUSY, "out of memory");
        return NULL;
    }
    if (time_waits(job) < 0) {
        job_refuse(job, CODE_BUSY, "out of memory");
        return NULL;
    }
    list_push_back(&p->waiting, &job->link);
    if (p->state == PLUGIN_UNKNOWN)
        plugin_load(p);
    return NULL;
}

/* Only now is the plugin's name known, by which the configuration may want it apart. */
static bool moved(struct plugin *p, struct job *job, const char *function)
{
    struct domain *d = p->domain, *own;
    struct plugin *there;

    if (d->priv->own || p->state != PLUGIN_READY ||
        plugin_apart(d->jobs, d->key, p->request) != PLUGIN_APART_CONFIGURED)
        return false;
    own = domain_for(d->jobs, job->user->uid, p->request);
    there = own && own != d ? plugin_get(own, p->request) : NULL;
    if (!there)
        return false; /* then it runs here */
    list_remove(&job->link);
    p->n_jobs--;
    there->n_jobs++;
    job->domain = own;
    job->plugin = there;
    plugin_wait(job, function);
    return true;
}

/* The load has ended: all that waits for it goes on, here and in plugins_turn(). */
static void settled(struct plugin *p)
{
    if (p->reload)
        reload_settled(p);
    assert(list_empty(&p->settle_due));
    p->settling = true;
    evtimer_del(p->timer);
    load_timer_set(p->domain);
    list_push_back(&p->domain->jobs->settle_due, &p->settle_due);
    p->domain->priv->unpumped = true;
}

static void settle_stop(struct plugin *p)
{
    list_remove(&p->settle_due);
    p->settling = false;
    p->reload = reload_free(p->reload);
    p->domain->priv->unpumped = true;
}

static void settle_one(struct plugin *p)
{
    if (list_empty(&p->waiting)) {
        answer(p, container_of(p->queries.next, struct plugin_query, link));
        return;
    }
    struct job *job = container_of(p->waiting.next, struct job, link);
    _cleanup_(freep) char *function = TAKE(job->function_name);

    if (!moved(p, job, function))
        job_resolve(job, function);
}

void plugins_turn(struct jobs *jobs)
{
    for (uint32_t left = SETTLES_A_TURN; left > 0 && !list_empty(&jobs->settle_due); left--) {
        struct plugin *p = container_of(jobs->settle_due.next, struct plugin, settle_due);

        if (!list_empty(&p->waiting) || !list_empty(&p->queries)) {
            settle_one(p);
            list_remove(&p->settle_due); /* the others in turn */
            list_push_back(&jobs->settle_due, &p->settle_due);
            continue;
        }
        settle_stop(p);
    }
}

/* The executor has gone before all were told: jobs that still wait do so for the next one. What a reload has come to is
 * told now: it is not tried again. */
static void settle_again(struct plugin *p)
{
    while (p->reload && !list_empty(&p->queries))
        answer(p, container_of(p->queries.next, struct plugin_query, link));
    settle_stop(p);
}

void plugin_unloaded(struct plugin *p)
{
    if (p->state == PLUGIN_READY && p->settling)
        settle_again(p);
    if (p->state != PLUGIN_FAILED)
        p->state = PLUGIN_UNKNOWN;
}

void plugin_failed(struct plugin *p, int error, const char *text)
{
    char words[JOB_TEXT]; /* an executor may have said them */

    p->state = PLUGIN_FAILED;
    p->error = error;
    escape_text(words, sizeof(words), text);
    job_words_free(p->error_text);
    p->error_text = job_words(words);
    if (error != ENOENT && error != EAGAIN) { /* otherwise it is only a mistyped name, or a repeated request */
        const struct log_about about = {.plugin = p->request};

        log_event(LOG_KIND_PLUGIN_REFUSED, LOG_WARNING, &about, "plugin %s: refused: %s", p->request, words);
    }
    settled(p);
}

static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
    struct plugin *p = userdata;

    if (p->state != PLUGIN_LOADING)
        return;
    uint64_t msec = p->domain->jobs->options.limits.load_usec / 1000;
    if (p->begun) {
        log_warning("plugin %s: takes longer than %" PRIu64
                    " ms to load ([limits] plugin-load): its executor is replaced",
                    p->request, msec);
        p->n_load_deaths = LOAD_DEATHS_MAX;
    } else {
        log_event(LOG_KIND_EXECUTOR_HANGS, LOG_WARNING, NULL,
                  "executor %u hangs: it did not begin to load plugin %s for %" PRIu64
                  " ms ([limits] plugin-load): it is replaced",
                  p->domain->priv->executor->number, p->request, msec);
        p->excused = true;
    }
    executor_kill(p->domain->priv->executor);
}

/* An entry that could not be loaded, or of an older file that no executor has, and that no query waits for. */
bool plugin_forgettable(const struct plugin *p)
{
    return !p->n_jobs && !p->settling && !reload_tries(p) && list_empty(&p->waiting) && list_empty(&p->queries) &&
           ((p->state == PLUGIN_FAILED && clock_monotonic_usec() >= p->retry_usec) ||
            (p->state == PLUGIN_UNKNOWN && (p->stale || p->reload)));
}

/* An entry that an executor may have but does not need: the next request loads it again. Not while another executor
 * loads what this one has. */
static bool is_unused(const struct plugin *p)
{
    const struct runners *g = p->domain->priv->runners;

    return (p->state == PLUGIN_READY || p->state == PLUGIN_UNKNOWN) && !p->n_jobs && !p->settling && !p->reload &&
           !(g && g->plugin == p) && !reload_tries(p) && !p->domain->priv->recycling.standby &&
           !p->domain->priv->recycling.standby_of && list_empty(&p->waiting) && list_empty(&p->queries);
}

void plugins_forget_looked(struct domain *d)
{
    list_for_each_entry_safe (struct plugin, p, after_p, &d->priv->plugins.all, link) {
        if (p->looked && is_unused(p))
            plugin_free(p);
    }
}

static void forget_least_used(struct domain *d)
{
    struct plugin *least = NULL;

    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (is_unused(p) && (!least || p->used < least->used))
            least = p;
    }
    plugin_free(least);
}

/* Entries of older files are dropped with the executor that has them, so an idle executor is ended now. */
static void forget_stale_loads(struct domain *d)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (p->stale && p->state == PLUGIN_READY && !p->n_jobs && domain_hands_nothing(d) && !plugin_loading(d)) {
            domain_finish(d);
            return;
        }
    }
}

/* Returns a number that no entry has, or RING_NONE. An executor knows a number only once it has loaded the plugin. So
 * the number of a failed load is free. */
static uint32_t number_take(struct domain *d)
{
    bool used[JOBS_PLUGINS] = {false};

    list_for_each_entry (struct plugin, plugin, &d->priv->plugins.all, link)
        used[plugin->number] = true;
    for (uint32_t i = 0; i < JOBS_PLUGINS; i++)
        if (!used[i])
            return i;
    return RING_NONE;
}

struct plugin *plugin_make(struct domain *d, const char *request)
{
    uint32_t number = number_take(d);

    if (number == RING_NONE) {
        list_for_each_safe (l, n, &d->priv->plugins.all)
            if (plugin_forgettable(container_of(l, struct plugin, link)))
                plugin_free(container_of(l, struct plugin, link));
        plugins_forget_looked(d);
        number = number_take(d);
    }
    if (number == RING_NONE) {
        forget_least_used(d);
        number = number_take(d);
    }
    struct plugin *p = number != RING_NONE ? calloc(1, sizeof(*p)) : NULL;

    if (number == RING_NONE) {
        forget_stale_loads(d);
        errno = EMFILE;
    }
    if (!p)
        return NULL;
    p->request = strdup(request);
    p->timer = evtimer_new(d->jobs->options.base, on_timer, p);
    list_init(&p->waiting);
    list_init(&p->queries);
    list_init(&p->link);
    list_init(&p->settle_due);
    if (!p->request || !p->timer) {
        plugin_free(p);
        errno = ENOMEM;
        return NULL;
    }
    p->domain = d;
    p->number = number;
    list_push_back(&d->priv->plugins.all, &p->link);
    return p;
}

static struct plugin *get(struct domain *d, const char *request)
{
    struct plugin *p = plugin_find(d, request);

    /* one that is being reloaded stays until that has an end: it does not change the file's stamp */
    if (p && p->state == PLUGIN_READY && !reload_under_way(d, request) && has_changed(p)) {
        p->n_jobs++; /* it does not give way to the newer one */
        struct plugin *newer = plugin_make(d, request);
        p->n_jobs--;

        if (newer) {
            p->stale = true;
            lanes_stale(p);
            breaker_release(&d->jobs->breakers, false, d->key, request, ""); /* it may have been mended */
            return newer;
        }
    }
    if (p && p->state == PLUGIN_FAILED && !p->settling && clock_monotonic_usec() >= p->retry_usec)
        p->state = PLUGIN_UNKNOWN; /* it may have been mended meanwhile */
    return p ? p : plugin_make(d, request);
}

struct plugin *plugin_get(struct domain *d, const char *request)
{
    struct plugin *p = get(d, request);

    if (p) {
        p->looked = false;
        p->used = ++d->priv->plugins.n_used;
    }
    return p;
}

/* For a query only. */
static struct plugin *look(struct domain *d, const char *request)
{
    struct plugin *known = plugin_find(d, request), *p;
    bool looked = !known || known->looked;

    p = get(d, request);
    if (p && looked)
        p->looked = true;
    return p;
}

void plugin_load(struct plugin *p)
{
    struct control c = {.kind = CONTROL_LOAD, .number = p->number, .text_size = (uint32_t)strlen(p->request) + 1};
    struct domain *d = p->domain;

    if (p->state != PLUGIN_UNKNOWN || d->priv->recycling.starved)
        return;
    if (plugin_is_elsewhere(p->request)) {
        plugin_failed(p, ENOENT, "no runner has this name: start the program that offers it");
        return;
    }
    if (domain_start(d) < 0) {
        if (p->state == PLUGIN_UNKNOWN) /* not told so already */
            plugin_failed(p, EAGAIN, domain_failure(d));
        return;
    }
    if (!d->priv->executor || d->priv->executor->dying || d->priv->finishing || p->state != PLUGIN_UNKNOWN)
        return; /* the next start loads what is wanted; or it has done so just now */
    assert(c.text_size <= CONTROL_TEXT);
    memcpy(c.text, p->request, c.text_size);
    p->state = PLUGIN_LOADING;
    p->begun = p->excused = false;
    p->n_announced = 0;
    p->load_order = ++d->priv->plugins.n_loads;
    load_timer_set(d);
    log_debug("plugin %s: executor %u is to load it", p->request, d->priv->executor->number);
    executor_send(d->priv->executor, &c, -1); /* a failure means that it is dying: plugin_executor_gone follows */
}

/* Copies the text at *at, shorter than max, with its NUL, into *ret, and moves *at behind it. False: there is none.
 * Without memory that is noted, and *ret stays. */
static bool text_take(struct plugin *p, const struct control *c, size_t *at, size_t max, char **ret)
{
    size_t room = MIN(c->text_size - *at, max), n = strnlen(c->text + *at, room);

    if (n == room)
        return false;
    char *text = strndup(c->text + *at, n);
    *at += n + 1;
    if (!text) {
        p->unread = true;
        return true;
    }
    free(*ret);
    *ret = text;
    return true;
}

/* The same of what people read: as they may see it. */
static bool words_take(struct plugin *p, const struct control *c, size_t *at, size_t max, char **ret)
{
    _cleanup_(freep) char *text = NULL;
    char words[JOB_TEXT];

    if (!text_take(p, c, at, max, &text))
        return false;
    if (!text)
        return true;
    escape_text(words, MIN(max, sizeof(words)), text);
    free(text);
    text = strdup(words);
    p->unread |= !text;
    if (text) {
        free(*ret);
        *ret = TAKE(text);
    }
    return true;
}

/* The executor has described the plugin completely. What found no memory is not known: the next request asks again. */
static void described(struct plugin *p)
{
    if (p->unread) {
        log_warning("plugin %s: no memory for its description", p->request);
        p->retry_usec = 0;
        plugin_failed(p, EAGAIN, "out of memory");
        return;
    }
    p->state = PLUGIN_READY;
    p->n_load_deaths = 0;
    p->checked_usec = clock_usec(CLOCK_MONOTONIC_COARSE);
    stamp_take(p, p->stamp);
    settled(p);
}

void plugin_load_wanted(struct domain *d)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (plugin_wanted(p))
            plugin_load(p);
    }
}

/* The executor lacks descriptors, memory or threads, which its jobs have used up; the plugin is fine. If a fresh
 * executor comes, the plugin is loaded there. */
static bool is_starved(struct plugin *p, const struct control *c)
{
    struct domain *d = p->domain;

    if (c->error != EMFILE && c->error != ENFILE && c->error != ENOMEM && c->error != EAGAIN)
        return false;
    p->state = PLUGIN_UNKNOWN;
    evtimer_del(p->timer);
    load_timer_set(d);
    d->priv->recycling.starved = true;
    p->settling = true; /* it stays, though nothing may use it: to begin a next executor forgets such */
    bool replaced = recycle_starved(d, c->text);
    p->settling = false;
    if (replaced)
        return true;
    d->priv->recycling.starved = false;
    /* a file that says that it needs more memory than there is does not get better by waiting */
    plugin_failed(p, c->error == ENOMEM ? ENOMEM : EAGAIN, c->text_size ? c->text : strerror((int)c->error));
    return true;
}

static bool loaded(struct plugin *p, const struct control *c)
{
    size_t at = 0;

    p->unread = false;
    if (c->error && is_starved(p, c))
        return true;
    if (c->error) {
        plugin_failed(p, (int)c->error, c->text_size ? c->text : strerror((int)c->error));
        return true;
    }
    if (c->functions < 1 || c->functions > PLUGIN_FUNCTIONS_MAX || !words_take(p, c, &at, NAME_ROOM, &p->name) ||
        !words_take(p, c, &at, NAME_ROOM, &p->version) || !words_take(p, c, &at, CONTROL_TEXT, &p->help) ||
        !text_take(p, c, &at, CONTROL_TEXT, &p->path) || !words_take(p, c, &at, BUILD_ROOM, &p->build))
        return false;
    p->digest = c->flags;
    p->n_announced = c->functions;
    /* those of an earlier life that do not come again are gone */
    for (uint32_t i = 0; i < p->n_functions; i++)
        p->functions[i].index = RING_NONE;
    return true;
}

static bool function_take(struct plugin *p, const struct control *c)
{
    _cleanup_(freep) char *name = NULL, *help = NULL;
    struct plugin_function *f;
    size_t at = 0;

    if (c->functions >= p->n_announced || !words_take(p, c, &at, NAME_ROOM, &name) ||
        !words_take(p, c, &at, CONTROL_TEXT, &help))
        return false;
    f = NULL;
    for (uint32_t i = 0; i < p->n_functions && !f && name; i++)
        if (strcmp(p->functions[i].name, name) == 0)
            f = &p->functions[i];
    if (!f && name && help) {
        if (p->n_functions == PLUGIN_FUNCTIONS_MAX)
            return false;
        p->unread |= plugin_functions_room(p) < 0;
        if (p->functions) {
            f = &p->functions[p->n_functions++];
            f->name = TAKE(name);
        }
    }
    if (f && help) {
        free(f->help);
        f->help = TAKE(help);
        f->flags = c->flags;
        f->index = c->functions;
    }
    if (c->functions + 1 == p->n_announced)
        described(p);
    return true;
}

void plugin_control(struct domain *d, const struct control *c)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (p->number != c->number)
            continue;
        if (p->state == PLUGIN_LOADING && (c->kind == CONTROL_LOADED ? loaded(p, c) : function_take(p, c)))
            return;
        break;
    }
    domain_distrust(d, "nonsense about a plugin");
}

void plugin_begun(struct domain *d, const struct control *c)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (p->number == c->number && p->state == PLUGIN_LOADING)
            p->begun = true;
    }
}

void plugin_executor_gone(struct domain *d, bool blame)
{
    struct plugin *suspect = blame ? plugin_loading(d) : NULL;

    if (suspect && suspect->excused)
        suspect = NULL;
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        evtimer_del(p->timer);
        plugin_unloaded(p);
    }
    if (suspect && ++suspect->n_load_deaths >= LOAD_DEATHS_MAX) {
        suspect->n_load_deaths = 0;
        suspect->retry_usec = clock_monotonic_usec() + RETRY_USEC;
        plugin_failed(suspect, ELIBBAD,
                      d->priv->probe ? "crashed or hung while it was loaded"
                                     : "crashed or hung while it was loaded; not tried again for 10 seconds");
    }
}

void plugin_fail_waiting(struct domain *d, int error, const char *text)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (plugin_wanted(p))
            plugin_failed(p, error, text);
    }
}

struct plugin_function *plugin_function_copy(struct plugin *p, const struct plugin_function *f)
{
    for (uint32_t i = 0; i < p->n_functions; i++)
        if (strcmp(p->functions[i].name, f->name) == 0)
            return &p->functions[i];
    return p->state == PLUGIN_READY ? NULL : plugin_function_add(p, f->name, f->help, f->flags);
}

int jobs_plugin(struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                struct plugin_query *q)
{
    _cleanup_(freep) char *request = NULL;

    list_init(&q->link);
    int r = plugin_request(jobs, uid, plugin, directory, &request);
    if (r < 0)
        return r;
    struct domain *d = domain_for(jobs, uid, request);
    struct plugin *p = !d ? NULL : d->priv->runners ? d->priv->runners->plugin : look(d, request);
    if (!p)
        return -ENOMEM;
    list_push_back(&p->queries, &q->link);
    if (p->state == PLUGIN_UNKNOWN)
        plugin_load(p);
    else if (p->state != PLUGIN_LOADING)
        answer(p, q);
    return 0;
}

void jobs_plugin_forget(struct plugin_query *q)
{
    list_remove(&q->link);
}

void plugin_free(struct plugin *p)
{
    if (!p)
        return;
    list_remove(&p->link);
    list_remove(&p->settle_due);
    for (uint32_t i = 0; i < p->n_functions; i++) {
        free(p->functions[i].name);
        free(p->functions[i].help);
    }
    if (p->timer)
        event_free(p->timer);
    free(p->functions);
    free(p->request);
    free(p->title);
    free(p->name);
    free(p->version);
    free(p->help);
    free(p->path);
    free(p->build);
    job_words_free(p->error_text);
    reload_free(p->reload);
    free(p);
}

int plugins_init(struct domain *d)
{
    list_init(&d->priv->plugins.all);
    return 0;
}

void plugins_deinit(struct domain *d)
{
    while (!list_empty(&d->priv->plugins.all))
        plugin_free(container_of(d->priv->plugins.all.next, struct plugin, link));
}
