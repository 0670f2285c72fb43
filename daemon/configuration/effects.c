/* SPDX-License-Identifier: Apache-2.0
 *
 * effects.c: what follows from the configuration for executors and plugins.
 * Owns nothing. [loop] */
#include "configuration/effects.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static void apply_share(const struct config_share *s, struct jobs_domain *to)
{
    if (s->workers)
        to->workers = s->workers;
    if (s->tasks)
        to->tasks = s->tasks;
    if (s->cpu_weight)
        to->cpu_weight = s->cpu_weight;
    if (s->has_memory) {
        to->memory = s->memory;
        to->own_memory = true;
    }
}

struct jobs_domain *config_domains(const struct config *c, uint32_t *ret_n)
{
    struct jobs_domain *all = calloc(c->domains->n + 1, sizeof(*all));

    if (!all)
        return NULL;
    all[0] = (struct jobs_domain){.memory = c->executor_memory, .tasks = c->executor_tasks};
    for (uint32_t i = 0; i < c->domains->n; i++) {
        const struct config_domain *d = &c->domains->list[i];

        all[i + 1] = (struct jobs_domain){.name = d->name,
                                          .uids = d->uids,
                                          .n_uids = d->n_uids,
                                          .tasks = c->executor_tasks,
                                          .memory = c->executor_memory};
        apply_share(&d->share, &all[i + 1]);
    }
    *ret_n = c->domains->n + 1;
    return all;
}

static const struct config_plugin *plugin_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        if (strcmp(c->plugins[i].name, name) == 0)
            return &c->plugins[i];
    return NULL;
}

static const struct config_runner *runner_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_runners; i++)
        if (strcmp(c->runners[i].name, name) == 0)
            return &c->runners[i];
    return NULL;
}

struct runner_rules config_runner_rules(const struct config *c, const char *name)
{
    const struct config_runner *r = runner_find(c, name);

    return r ? (struct runner_rules){.configured = true,
                                     .shared = r->offer.said,
                                     .wait_usec = r->wait_usec,
                                     .max = r->max}
             : (struct runner_rules){.wait_usec = RUNNER_ABSENT_USEC};
}

const struct access_list *config_runner_offer(const struct config *c, const char *name)
{
    const struct config_runner *r = runner_find(c, name);

    return r && r->offer.said ? &r->offer : NULL;
}

const struct access_list *config_plugin_users(const struct config *c, const char *name)
{
    const struct config_plugin *p = plugin_find(c, name);

    const struct config_runner *r = runner_find(c, name); /* no name is both */

    return r && r->users.said ? &r->users : p && p->users.said ? &p->users : NULL;
}

bool config_plugin_enabled(const struct config *c, const char *name, bool opt_in)
{
    const struct config_plugin *p = plugin_find(c, name);

    return p && p->enabled >= 0 ? p->enabled : !opt_in;
}

bool config_plugin_own(const struct config *c, const char *name)
{
    const struct config_plugin *p = plugin_find(c, name);

    return p && p->own;
}

void config_plugin_share(const struct config *c, const char *name, struct jobs_domain *settings)
{
    const struct config_plugin *p = plugin_find(c, name);

    if (!p)
        return;
    apply_share(&p->share, settings);
    settings->plugin_memory = p->share.has_memory;
}

uint64_t config_plugin_max_run(const struct config *c, const char *name, const char **ret_of)
{
    const struct config_plugin *p = plugin_find(c, name);
    bool by_plugin = p && p->max_run_usec;

    *ret_of = by_plugin ? p->name : NULL;
    return by_plugin ? p->max_run_usec : c->limits.max_run_usec;
}

char *config_sandbox(const struct config *c, bool is_system)
{
    /* a user's own plugins may do what the user may; in a wsd for all users only what jobs need, unless it runs
     * commands */
    bool exec = config_plugin_enabled(c, "exec", true), commands = !is_system || exec;
    const char *writable = c->writable ? c->writable : commands ? "/" : "none";
    char *text;

    if (asprintf(&text, "required=%d,commands=%d,children=%d,core=%llu,deny=%s,writable=%s", c->sandbox_required,
                 commands, exec, (unsigned long long)c->core_size, c->deny ? c->deny : "",
                 strcmp(writable, "none") == 0 ? "" : writable) < 0)
        return NULL;
    return text;
}
