/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.c: `wsctl plugin reload`: loads a plugin's file now, and replaces the one in use if that succeeds.
 * Owns what is remembered of the old file while the new one is on trial. Owns the domain of the executor that tries the
 * new file. That domain is in no table, has no jobs and goes afterwards. [loop]
 * Keeps: the executor that runs jobs loads a file only after another executor has. Until then jobs get the old one, and
 * those submitted before end on it. A file that cannot be loaded changes nothing, whether it is refused, crashes or
 * hangs; it is not loaded again until it changes.
 * Does not load: it makes an entry that jobs do not find, and plugins.c treats it like any other. */
#include "domains/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/lifetime.h"
#include "domains/owners.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "domains/plugins.h"
#include "table/timers.h"

/* What was in use at the request for the reload; version NULL: nothing. */
struct plugin_reload {
    char *version, *build;
    uint64_t digest;
    enum plugin_reloaded outcome;
    struct probe *probe; /* NULL: over */
};

struct probe {
    struct domain *domain;    /* its own */
    struct plugin *candidate; /* in the domain that runs jobs; NULL: gone */
    struct plugin_query query;
    struct event *timer; /* over, and there is no executor that has to end first */
    bool over;
};

struct plugin_reload *reload_free(struct plugin_reload *r)
{
    if (!r)
        return NULL;
    if (r->probe)
        r->probe->candidate = NULL;
    free(r->version);
    free(r->build);
    free(r);
    return NULL;
}
DEFINE_CLEANUP(struct plugin_reload, reload_free)

/* --- the probe -------------------------------------------------------------------------------------------------- */

bool reload_tries(const struct plugin *p)
{
    return p->reload && p->reload->probe;
}

int reload_init(struct domain *d)
{
    d->priv->probe = NULL;
    return 0;
}

void reload_deinit(struct domain *d)
{
    struct probe *t = d->priv->probe;

    if (!t)
        return;
    if (t->candidate)
        t->candidate->reload->probe = NULL;
    if (t->timer)
        event_free(t->timer);
    free(t);
}

bool reload_gone(struct domain *d)
{
    if (!d->priv->probe || !d->priv->probe->over)
        return false;
    domain_free(d);
    return true;
}

static void on_over(evutil_socket_t fd, short what, void *userdata)
{
    struct probe *t = userdata;

    if (t->domain->priv->executor)
        domain_finish(t->domain); /* reload_gone() follows */
    else
        reload_gone(t->domain);
}

void reload_rearm(struct probe *t)
{
    if (t->over && !evtimer_pending(t->timer, NULL) && !(t->domain->priv->executor && t->domain->priv->finishing))
        jobs_timer(t->domain->jobs, t->timer, 0);
}

/* The trial executor has loaded the file, or has not. Must not free anything, since the caller still uses it. */
static void on_tried(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct probe *t = container_of(q, struct probe, query);
    struct plugin *p = t->candidate;

    t->over = true;
    t->candidate = NULL;
    jobs_timer(t->domain->jobs, t->timer, 0);
    if (!p)
        return;
    p->reload->probe = NULL;
    if (error)
        plugin_failed(p, error, info->error);
    else
        plugin_load(p);
}

/* 0 or -ENOMEM. The answer may come at once. */
static int probe_begin(struct plugin *candidate)
{
    struct jobs *jobs = candidate->domain->jobs;
    struct domain *d = domain_new(jobs, candidate->domain->key);
    struct plugin *p = d ? plugin_make(d, candidate->request) : NULL;
    struct probe *t = p ? calloc(1, sizeof(*t)) : NULL;

    if (t) {
        d->priv->trace.number = 0; /* see trace_start() */
        d->priv->probe = t;
        t->domain = d;
        t->timer = evtimer_new(jobs->options.base, on_over, t);
    }
    if (!t || !t->timer) {
        if (d)
            domain_free(d);
        return -ENOMEM;
    }
    t->candidate = candidate;
    candidate->reload->probe = t;
    t->query.answer = on_tried;
    list_push_back(&p->queries, &t->query.link);
    plugin_load(p);
    return 0;
}

/* --- the change --------------------------------------------------------------------------------------------------- */

/* False also where no query is left and the executor that was to load it has gone. */
static bool is_under_way(const struct plugin *p)
{
    return p->reload && (reload_tries(p) || p->state == PLUGIN_LOADING || p->settling || !list_empty(&p->queries));
}

bool reload_under_way(struct domain *d, const char *request)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (is_under_way(p) && strcmp(p->request, request) == 0)
            return true;
    }
    return false;
}

static uint32_t count_under_way(struct domain *d)
{
    uint32_t n = 0;

    list_for_each_entry (struct plugin, plugin, &d->priv->plugins.all, link)
        n += is_under_way(plugin);
    return n;
}

static void forget(struct plugin *p)
{
    p->stale = true; /* plugin_forgettable(). Its number may go to another file: no job has been handed over with it */
    if (p->state == PLUGIN_READY)
        p->state = PLUGIN_UNKNOWN;
    p->retry_usec = 0;
}

void reload_settled(struct plugin *p)
{
    struct domain *d = p->domain;
    struct plugin *old = plugin_find(d, p->request);
    struct plugin_reload *r = p->reload;
    const struct log_about about = {.plugin = p->request};
    bool in_use = old && old->state == PLUGIN_READY;

    if (p->state == PLUGIN_FAILED) {
        r->outcome = in_use && r->version ? RELOADED_KEPT : RELOADED_NOT;
        if (in_use)
            plugin_accept_file(old);
        forget(p);
        log_event(LOG_KIND_RELOADED, LOG_NOTICE, &about, "plugin %s: cannot be reloaded: %s", p->request,
                  plugin_why(p));
        return;
    }
    r->outcome = !r->version ? RELOADED_FIRST : r->digest == p->digest ? RELOADED_SAME : RELOADED_CHANGED;
    if (in_use && old->digest == p->digest) {
        plugin_accept_file(old);
        forget(p);
        return;
    }
    if (old) {
        old->stale = true;
        lanes_stale(old);
    }
    breaker_release(&d->jobs->breakers, false, d->key, p->request, ""); /* it may have been mended */
    log_event(LOG_KIND_RELOADED, LOG_NOTICE, &about, "plugin %s: reloaded: %s instead of %s", p->request, p->version,
              r->version ? r->version : "nothing");
}

void reload_describe(const struct plugin *p, struct plugin_info *ret)
{
    const struct plugin_reload *r = p->reload;

    if (!r)
        return;
    ret->reloaded = r->outcome;
    ret->old_version = r->version ? r->version : "";
    ret->old_build = r->build ? r->build : "";
}

/* Makes the entry for the trial. NULL: too many, or no memory. */
static struct plugin *try_new(struct domain *d, const char *request)
{
    _cleanup_(reload_freep) struct plugin_reload *r = calloc(1, sizeof(*r));
    struct plugin *old = plugin_find(d, request), *p;

    if (!r)
        return NULL;
    if (old && old->name && old->version && old->build && old->state != PLUGIN_FAILED) {
        r->version = strdup(old->version);
        r->build = strdup(old->build);
        r->digest = old->digest;
        if (!r->version || !r->build)
            return NULL;
    }
    /* those of earlier reloads */
    list_for_each_safe (l, n, &d->priv->plugins.all) {
        p = container_of(l, struct plugin, link);
        if (p->stale && plugin_forgettable(p))
            plugin_free(p);
    }
    if (old)
        old->n_jobs++; /* it does not give way to the new one */
    p = plugin_make(d, request);
    if (old)
        old->n_jobs--;
    if (p)
        p->reload = TAKE(r);
    return p;
}

int jobs_plugin_reload(struct jobs *jobs, uint32_t uid, uint64_t owner, const char *plugin,
                       const struct directory *directory, struct plugin_query *q)
{
    _cleanup_(freep) char *request = NULL;
    int r = plugin_request(jobs, uid, plugin, directory, &request);

    list_init(&q->link);
    if (r < 0)
        return r;
    struct domain *d = domain_for_owner(jobs, owner, request);
    if (!d)
        return -ENOMEM;
    if (uid == 0 || uid == jobs->options.own_uid)
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &(struct log_about){.plugin = request, .uid = &uid},
                  "plugin %s: reload asked for by user %u", request, uid);
    if (reload_under_way(d, request) || count_under_way(d) >= JOBS_RELOADS)
        return -EBUSY;
    struct plugin *p = try_new(d, request);
    if (!p)
        return -ENOMEM;
    list_push_back(&p->queries, &q->link);
    r = probe_begin(p);
    if (r < 0) {
        list_remove(&q->link);
        plugin_free(p);
    }
    return r;
}

/* --- users -------------------------------------------------------------------------------------------------------- */

int jobs_plugin_users(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const struct directory *directory,
                      uint64_t **ret_owners, size_t *ret_n)
{
    uint64_t own = domain_owner(jobs, uid);
    _cleanup_(freep) uint64_t *owners = NULL;
    _cleanup_(freep) char *request = NULL;
    size_t n = 0, room = 1;
    int r = plugin_request(jobs, uid, plugin, directory, &request);

    if (r < 0)
        return r;
    list_for_each (l, &jobs->domains)
        room++;
    owners = calloc(room, sizeof(*owners));
    if (!owners)
        return -ENOMEM;
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        struct plugin *p = d->successor || d->priv->recycling.standby_of || d->priv->probe || !(all || d->key == own)
                               ? NULL
                               : plugin_find(d, request);
        bool known = false;

        for (size_t i = 0; i < n; i++)
            known |= owners[i] == d->key; /* of one user's executors, it is the one that gets the new jobs */
        if (p && p->name && p->state != PLUGIN_FAILED && !known)
            owners[n++] = d->key;
    }
    if (n == 0)
        owners[n++] = own;
    *ret_owners = TAKE(owners);
    *ret_n = n;
    return 0;
}
