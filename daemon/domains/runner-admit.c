/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-admit.c: names of runners, and which jobs go to one.
 * Owns the names. [loop]
 * Keeps: a name is a plugin's or runners', never both. What a job is refused for, it is told.
 * Does not know runners (runner-life.c), or how long jobs wait (runner-wait.c). */
#include "domains/runner-admit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/owners.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "domains/plugins.h"
#include "domains/runner-wait.h"
#include "domains/runner.h"

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool is_plain_name(const char *name)
{
    size_t n = strlen(name);

    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != n || *name == '-' ||
        *name == '.')
        return false;
    return n > 0 && n < 64 && !(n > 3 && strcmp(name + n - 3, ".so") == 0);
}

bool runners_is_name(const char *name)
{
    return is_plain_name(plugin_is_elsewhere(name) ? name + 1 : name) && strlen(name) < 64;
}

bool runners_is_plugin(struct jobs *jobs, const char *name, char words[static JOB_TEXT])
{
    _cleanup_(freep) char *names = NULL;
    size_t size = 0, at = 0;

    if (jobs_plugin_names(jobs, &names, &size) < 0)
        return false;
    while (at < size && strcmp(names + at, name) != 0)
        at += strlen(names + at) + 1;
    if (at == size)
        return false;
    if (runners_rules(jobs, name).configured)
        snprintf(words, JOB_TEXT,
                 "%.63s is a plugin in wsd's plugin directories, and [runner %.63s] of wsd.conf names runners: one of "
                 "them needs another name",
                 name, name);
    else
        snprintf(words, JOB_TEXT, "%.63s is a plugin in wsd's plugin directories: a runner needs another name", name);
    return true;
}

int runners_init(struct domain *d)
{
    return 0;
}

void runners_deinit(struct domain *d)
{
    struct runners *g = d->priv->runners;

    if (!g)
        return;
    hash_remove(&d->jobs->executors->runners, &g->by_name);
    if (g->absent_timer)
        event_free(g->absent_timer);
    free(g);
    d->priv->runners = NULL;
}

/* No runner has it, and no job. */
static bool is_forgettable(const struct runners *g)
{
    const struct plugin *p = g->plugin;

    return !g->n && !runners_have_jobs(g) && !p->settling && list_empty(&p->waiting) && list_empty(&p->queries);
}

static uint32_t count_of(const struct runners *g, uint32_t uid)
{
    uint32_t n = 0;

    list_for_each_entry (const struct runner, r, &g->all, link)
        n += r->user->uid == uid;
    return n;
}

void runners_count(const struct jobs *jobs, uint32_t uid, uint32_t *ret_runners, uint32_t *ret_names)
{
    *ret_runners = *ret_names = 0;
    for (size_t i = 0; i < jobs->executors->runners.n_buckets; i++)
        for (struct hash_link *l = jobs->executors->runners.buckets[i], *next; l; l = next) {
            struct runners *g = container_of(l, struct runners, by_name);

            next = l->next;
            if (g->uid != uid && g->uid != RUNNERS_SHARED)
                continue;
            if (is_forgettable(g)) {
                domain_free(g->domain);
                continue;
            }
            *ret_runners += count_of(g, uid);
            *ret_names += g->uid == uid;
        }
}

static void on_absent(evutil_socket_t fd, short what, void *userdata)
{
    runners_look(userdata);
}

static struct runners *make(struct jobs *jobs, uint32_t uid, const char *name)
{
    struct domain *d = domain_new(jobs, uid == RUNNERS_SHARED ? OWNER_SHARED : uid);
    struct runners *g = d ? calloc(1, sizeof(*g)) : NULL;

    if (!g) {
        if (d)
            domain_free(d);
        return NULL;
    }
    d->priv->runners = g;
    g->domain = d;
    g->uid = uid;
    g->main = RING_NONE;
    g->place = plugin_is_elsewhere(name);
    list_init(&g->all);
    snprintf(g->name, sizeof(g->name), "%s", name);
    g->absent_timer = evtimer_new(jobs->options.base, on_absent, g);
    g->plugin = plugin_make(d, name);
    if (g->plugin)
        g->plugin->name = strdup(name);
    if (!g->absent_timer || !g->plugin || !g->plugin->name ||
        hash_insert(&jobs->executors->runners, &g->by_name, runners_key(uid, name)) < 0) {
        domain_free(d);
        return NULL;
    }
    g->plugin->state = PLUGIN_READY; /* it is never loaded */
    return g;
}

const char *runners_refuse_arena(const struct runners *g, bool writes)
{
    if (g->uid == RUNNERS_SHARED) /* it would get the whole arena */
        return "a runner of another user cannot use an arena: send the input by its bytes or as a file";
    if (writes)
        list_for_each_entry (const struct runner, r, &g->all, link) {
            if (!r->places)
                return runner_cannot_place;
        }
    return NULL;
}

struct runners *runners_get(struct jobs *jobs, uint32_t uid, const char *name)
{
    struct runners *g = runners_of(jobs, uid, name);
    char buffer[64];

    name = runners_name(name, buffer);
    return g ? g : make(jobs, runners_rules(jobs, name).shared ? RUNNERS_SHARED : uid, name);
}

/* --- which jobs wait ---------------------------------------------------------------------------------------------- */

/* Why a job may not wait for a runner of this name, which no runner has. NULL: it may. */
static const char *refuses(struct jobs *jobs, const struct job_request *r, const char *name,
                           const struct runner_rules *rules, struct refusal *ret)
{
    uint32_t n_runners, n_names;

    ret->code = CODE_NOT_FOUND;
    ret->text = ret->words;
    if (!r->waits && !rules->wait_usec) {
        snprintf(ret->words, JOB_TEXT,
                 "no runner of %.63s is connected ([runner %.63s] wait = 0 in wsd.conf): start the program that offers "
                 "it",
                 name, name);
        return ret->text;
    }
    if (rules->shared)
        return NULL;
    runners_count(jobs, r->uid, &n_runners, &n_names);
    ret->code = CODE_BUSY;
    if (n_names >= RUNNERS_NAMES && !runners_of(jobs, r->uid, name)) {
        snprintf(ret->words, JOB_TEXT,
                 "runners and waiting jobs of this user have %u names, as many as may be: try again later",
                 RUNNERS_NAMES);
        return ret->text;
    }
    return NULL;
}

/* As runners_admit(), for a name. */
static int admit(struct jobs *jobs, const struct job_request *r, const char *name, struct domain **ret_domain,
                 struct refusal *ret)
{
    struct runners *g = runners_of(jobs, r->uid, name);

    if (g && g->n) {
        *ret_domain = g->domain;
        return 0;
    }
    const struct runner_rules rules = runners_rules(jobs, name);
    if (!r->waits && !rules.configured) {
        *ret_domain = g && runners_take(g, false) ? g->domain : NULL;
        return 0;
    }
    if (!runners_is_name(name))
        return 0;
    if (runners_is_plugin(jobs, name, ret->words)) {
        ret->code = CODE_USAGE;
        ret->text = ret->words;
        return rules.configured; /* else it is that plugin that is meant */
    }
    if (refuses(jobs, r, name, &rules, ret))
        return 1;
    g = runners_get(jobs, r->uid, name);
    if (g) {
        *ret_domain = g->domain;
        return 0;
    }
    ret->code = CODE_BUSY;
    ret->text = "out of memory";
    return 1;
}

int runners_admit(struct jobs *jobs, const struct job_request *r, const char *request, struct domain **ret_domain,
                  struct refusal *ret)
{
    char buffer[64];
    const char *name = runners_name(request, buffer), *plugin = strchr(request, '/');

    *ret_domain = NULL;
    if (!plugin_is_elsewhere(request))
        return admit(jobs, r, request, ret_domain, ret);
    ret->text = ret->words;
    ret->code = CODE_USAGE;
    if (!runners_is_name(name) || !plugin || !is_plain_name(plugin + 1)) {
        snprintf(ret->words, JOB_TEXT,
                 "what begins with @ is for a place: write @PLACE/PLUGIN, or @PLACE/PLUGIN:FUNCTION");
        return 1;
    }
    if (admit(jobs, r, name, ret_domain, ret) != 0)
        return 1;
    if (*ret_domain)
        return 0;
    ret->code = CODE_NOT_FOUND;
    ret->text = ret->words;
    snprintf(ret->words, JOB_TEXT, "no runner of %.63s is connected: start the program that offers it", name);
    return 1;
}

struct domain *runners_readmit(struct jobs *jobs, uint32_t uid, const char *request)
{
    char buffer[64];
    struct runners *g = runners_is_name(runners_name(request, buffer)) ? runners_get(jobs, uid, request) : NULL;

    if (!g)
        return NULL;
    if (!g->n)
        g->absent_usec = clock_monotonic_usec();
    return g->domain;
}
