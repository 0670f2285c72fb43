/* SPDX-License-Identifier: Apache-2.0
 *
 * apply.c: the configuration, as the parts are told of it.
 * Owns nothing. [loop]
 * Keeps: each part gets what it needs, and nothing of the others. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cpus.h"
#include "base/log.h"
#include "configuration/effects.h"

uint32_t workers_of(const struct config *c, uint32_t now)
{
    int error;
    uint32_t cpus = c->workers ? c->workers : cpus_usable(&error);

    if (c->workers || error == 0)
        return cpus;
    if (now)
        cpus = now;
    log_warning(
        "the CPU quota of wsd cannot be read: %s: each executor has %u workers; workers = N in wsd.conf says how many",
        strerror(-error), cpus);
    return cpus;
}

static bool plugin_enabled(const char *plugin, bool opt_in, void *context)
{
    struct daemon *d = context;

    return config_plugin_enabled(&d->config, plugin, opt_in);
}

static const struct access_list *plugin_users(const char *plugin, void *context)
{
    struct daemon *d = context;

    return config_plugin_users(&d->config, plugin);
}

static const struct access_list *runner_offer(const char *name, void *context)
{
    struct daemon *d = context;

    return config_runner_offer(&d->config, name);
}

static struct runner_rules runner_rules(const char *name, void *context)
{
    struct daemon *d = context;

    return config_runner_rules(&d->config, name);
}

static bool plugin_restricted(const char *plugin, void *context)
{
    return plugin_users(plugin, context) != NULL;
}

void apply_rules(struct daemon *d)
{
    d->config.access.plugin = plugin_users;
    d->config.access.offer = runner_offer;
    d->config.access.context = d;
    frontend_set_rules(d->frontend, &d->config.access);
}

int load_remote(const struct config *c, struct remote **ret, char error[REMOTE_ERROR])
{
    const struct remote_options o = {.certificate = c->tls_certificate,
                                     .key = c->tls_key,
                                     .ca = c->tls_ca,
                                     .crl = c->tls_crl,
                                     .user_map = c->tls_user_map};

    *ret = NULL;
    return c->tls_listen ? remote_load(ret, &o, error) : 0;
}

static bool plugin_own(const char *plugin, void *context)
{
    struct daemon *d = context;

    return config_plugin_own(&d->config, plugin);
}

static void plugin_share(const char *plugin, struct jobs_domain *settings, void *context)
{
    struct daemon *d = context;

    config_plugin_share(&d->config, plugin, settings);
}

static uint64_t plugin_max_run(const char *plugin, const char **ret_of, void *context)
{
    struct daemon *d = context;

    return config_plugin_max_run(&d->config, plugin, ret_of);
}

static void limit(struct daemon *d, const char *plugin, const char *tag, uint32_t n, bool off)
{
    const struct jobs_gate_request r = {.action = JOBS_GATE_LIMIT,
                                        .uid = JOBS_BY_CONFIGURATION,
                                        .plugin = plugin,
                                        .function = "",
                                        .tag = tag,
                                        .limit = off ? 0 : n};

    if (n && jobs_gate(d->jobs, &r) < 0 && !off)
        log_error("[%s %s] max-running could not be set", *tag ? "tag" : "plugin", *tag ? tag : plugin);
}

void apply_gates(struct daemon *d, const struct config *c, bool off)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        limit(d, c->plugins[i].name, "", c->plugins[i].max_running, off);
    for (uint32_t i = 0; i < c->n_tags; i++)
        limit(d, "", c->tags[i].name, c->tags[i].max_running, off);
}

void apply_schedules(struct daemon *d, const struct config *c)
{
    struct schedule_request *list = calloc(c->n_schedules + 1, sizeof(*list));
    struct directory *root = directory_new("/"); /* without one, jobs that need a place to run in could not */

    if (!list || !root) {
        log_error("no memory for the schedules of the configuration");
        directory_unref(root);
        free(list);
        return;
    }
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const struct config_schedule *s = &c->schedules[i];

        list[i] = (struct schedule_request){.name = s->name,
                                            .calendar = s->on,
                                            .persistent = s->persistent,
                                            .job = {.plugin = s->plugin,
                                                    .function = s->function,
                                                    .args = s->args,
                                                    .args_size = s->args_size,
                                                    .argc = s->argc,
                                                    .directory = root,
                                                    .uid = s->has_uid ? s->uid : geteuid()}};
    }
    jobs_schedules_configure(d->jobs, list, c->n_schedules);
    directory_unref(root);
    free(list);
}

struct jobs_options options_of(struct daemon *d)
{
    return (struct jobs_options){
        .base = d->base,
        .limits = d->config.limits,
        .executor_fd = d->executor_fd,
        .workers = d->workers ? d->workers : workers_of(&d->config, 0),
        .pin = d->config.pin,
        .stack_size = d->config.stack_size,
        .static_tls = d->config.static_tls,
        .plugin_dirs = d->config.plugin_dirs,
        .one_domain = d->config.one_domain,
        .own_uid = geteuid(),
        .far_ends = d->far_ends,
        .user_daemon = !d->is_system,
        .log_level = d->config.log_level,
        .state_dir = d->state,
        .sandbox = d->sandbox,
        .leaves_core = d->config.core_size > 0,
        .domains = d->domains,
        .n_domains = d->n_domains,
        .user_ids = (enum jobs_user_ids)d->config.user_ids,
        .cgroups = (enum jobs_cgroups)d->config.cgroups,
        .first_user_id = (uint32_t)d->config.first_user_id,
        .spawner = d->config.spawner,
        .plugin_enabled = plugin_enabled,
        .plugin_restricted = plugin_restricted,
        .plugin_own = plugin_own,
        .plugin_share = plugin_share,
        .plugin_max_run = plugin_max_run,
        .runner_rules = runner_rules,
        .context = d,
    };
}
