/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-plugins.c: plugins: PLUGINS, RELOAD, RELEASE.
 * Owns nothing beyond the calls. [loop]
 * Keeps: one plugin, or executor, after the other, since each may have to be loaded first. A client that does not read
 * holds up itself only. */
#include "frontend/serve-plugins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"

/* The exit code for what a plugin query ended with. */
static uint32_t error_code(int error)
{
    return error == EACCES ? CODE_DENIED : error == EAGAIN ? CODE_BUSY : CODE_NOT_FOUND;
}

/* For what the job table returned instead of an answer. */
static uint32_t result_code(int result)
{
    return result == -EACCES ? CODE_DENIED : result == -ENAMETOOLONG ? CODE_NOT_FOUND : CODE_BUSY;
}

static const char *result_text(int result)
{
    return result == -EACCES ? "plugins by path are for a user's own wsd" : strerror(-result);
}

/* --- PLUGINS ------------------------------------------------------------------------------------------------------ */

static struct msg_function function_msg(const struct plugin_function_info *f)
{
    return (struct msg_function){.name = span(f->name),
                                 .help = line(f->help),
                                 .flags = f->flags,
                                 .crashes = f->crashes,
                                 .quarantine = f->in_quarantine ? 1u + f->on_probe : 0,
                                 .quarantine_usec = f->quarantine_usec,
                                 .why = line(f->why ? f->why : "")};
}

/* A client without FEATURE_CREDIT refuses a larger credit than it knows. */
static struct msg_runner runner_msg(const struct plugin_runner_info *r, uint64_t features)
{
    return (struct msg_runner){.uid = r->uid,
                               .pid = (uint32_t)r->pid,
                               .credit = features & FEATURE_CREDIT ? r->credit : MIN(r->credit, CODEC_CREDIT_PLAIN),
                               .running = r->running,
                               .since_usec = r->since_usec,
                               .leaving = r->leaving};
}

static void on_plugin(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct call *c = container_of(q, struct call, plugins.query);
    struct msg_function functions[CODEC_FUNCTIONS];
    struct msg_runner runners[CODEC_RUNNERS];
    struct msg m = {.type = FRAME_PLUGIN,
                    .plugin = {.name = span_within(info->name, CODEC_NAME_MAX),
                               .version = span(info->version),
                               .help = line(info->help),
                               .path = span(info->path),
                               .error = line(info->error),
                               .functions = functions,
                               .n_functions = MIN(info->n_functions, (size_t)CODEC_FUNCTIONS),
                               .apart = info->apart,
                               .runs = info->runs,
                               .waiting = info->waiting,
                               .runners = runners,
                               .n_runners = MIN(info->n_runners, (size_t)CODEC_RUNNERS),
                               .build = span(info->build)}};

    if (peer_full(c->peer)) { /* a small question has a large answer: it is asked again when there is room */
        c->plugins.at = c->plugins.asked;
        call_stall(c);
        return;
    }
    for (size_t i = 0; i < m.plugin.n_functions; i++)
        functions[i] = function_msg(&info->functions[i]);
    for (size_t i = 0; i < m.plugin.n_runners; i++)
        runners[i] = runner_msg(&info->runners[i], c->peer->features);
    if (error && c->plugins.one) {
        call_refuse(c, error_code(error), info->error);
        return;
    }
    peer_send(c->peer, &m, c->tag, NULL, 0);
    if (c->plugins.at < c->plugins.n)
        call_later(c);
    else
        call_end(c);
}

static void plugin_ask(struct call *c, const char *name)
{
    struct frontend *f = c->peer->frontend;

    c->plugins.query.answer = on_plugin;
    int r = jobs_plugin(f->options.jobs, c->peer->uid, name, c->peer->directory, &c->plugins.query);
    if (r < 0)
        call_refuse(c, result_code(r), result_text(r));
}

/* One after the other: each may have to be loaded first. */
static void plugins_next(struct call *c)
{
    if (c->plugins.at >= c->plugins.n) {
        call_end(c);
        return;
    }
    const char *name = c->plugins.names + c->plugins.at;
    c->plugins.asked = c->plugins.at;
    c->plugins.at += strlen(name) + 1;
    plugin_ask(c, name);
}

static void plugins_forget(struct call *c)
{
    jobs_plugin_forget(&c->plugins.query);
    free(c->plugins.names);
}

static const struct call_ops plugins_ops = {.forget = plugins_forget, .room = plugins_next, .later = plugins_next};

void serve_plugins(struct request *r)
{
    const struct span *name = &r->msg->plugins.name;
    struct jobs *jobs = r->peer->frontend->options.jobs;
    bool only_runners = r->msg->plugins.runners;
    int result = 0;

    if (only_runners && name->size && !jobs_is_runner(jobs, r->peer->uid, name->data)) {
        peer_error(r->peer, r->tag, CODE_NOT_FOUND, "no runner of this name is connected, and no job waits for one");
        return;
    }
    struct call *c = call_new(r, &plugins_ops);

    if (!c)
        return;
    struct call_plugins *own = &c->plugins;
    list_init(&own->query.link);
    own->one = name->size > 0;
    if (own->one) {
        own->names = strdup(name->data);
        own->n = name->size + 1;
    } else {
        result = only_runners ? 0 : jobs_plugin_names(jobs, &own->names, &own->n);
        if (result == 0)
            result = jobs_runner_names(jobs, r->peer->uid, &own->names, &own->n);
    }
    if (result < 0 || (own->one && !own->names))
        call_refuse(c, CODE_BUSY, "out of memory");
    else
        plugins_next(c);
}

/* --- RELOAD, RELEASE ---------------------------------------------------------------------------------------------- */

static void reload_next(struct call *c);

static void on_reloaded(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct call *c = container_of(q, struct call, reload.query);
    struct peer *p = c->peer;
    bool kept = info->reloaded == RELOADED_KEPT;
    uint64_t owner = c->reload.owners[c->reload.at - 1];
    uint32_t code = error ? error_code(error) : 0;
    struct msg m = {.type = FRAME_RELOADED,
                    .reloaded = {.outcome = (uint32_t)info->reloaded,
                                 .uid = jobs_owner_uid(p->frontend->options.jobs, owner),
                                 .code = code,
                                 .name = span_within(info->name, CODEC_NAME_MAX),
                                 .path = span(info->path),
                                 .version = span(kept ? info->old_version : info->version),
                                 .build = span(kept ? info->old_build : info->build),
                                 .old_version = span(info->old_version),
                                 .old_build = span(info->old_build),
                                 .error = line(info->error)}};

    if (error && !kept) {
        call_refuse(c, code, info->error);
        return;
    }
    peer_send(p, &m, c->tag, NULL, 0);
    reload_next(c);
}

/* One executor after the other. */
static void reload_next(struct call *c)
{
    struct peer *p = c->peer;

    if (c->reload.at >= c->reload.n) {
        call_end(c);
        return;
    }
    c->reload.query.answer = on_reloaded;
    int r = jobs_plugin_reload(p->frontend->options.jobs, p->uid, c->reload.owners[c->reload.at++], c->reload.name,
                               p->directory, &c->reload.query);
    if (r < 0)
        call_refuse(c, CODE_BUSY,
                    r == -EBUSY ? "it is being reloaded, or too many others are: try again" : strerror(-r));
}

static void reload_forget(struct call *c)
{
    jobs_plugin_forget(&c->reload.query);
    free(c->reload.name);
    free(c->reload.owners);
}

static const struct call_ops reload_ops = {.forget = reload_forget};

void serve_reload(struct request *r)
{
    struct peer *p = r->peer;
    struct call *c = call_new(r, &reload_ops);
    int result = -ENOMEM;

    if (!c)
        return;
    struct call_reload *own = &c->reload;
    list_init(&own->query.link);
    own->name = strdup(r->msg->reload.name.data);
    if (own->name)
        result = jobs_plugin_users(p->frontend->options.jobs, p->uid, !access_administer(p), own->name, p->directory,
                                   &own->owners, &own->n);
    if (result == 0)
        reload_next(c);
    else
        call_refuse(c, result_code(result), result_text(result));
}

void serve_release(struct request *r)
{
    const struct msg_release *m = &r->msg->release;
    struct peer *p = r->peer;
    int result = jobs_plugin_release(p->frontend->options.jobs, p->uid, !access_administer(p), m->name.data,
                                     m->function.data, p->directory);

    if (result == -ENOENT || result == -ENAMETOOLONG)
        request_refuse(r, CODE_NOT_FOUND, "nothing is known against it: see `wsctl plugin show`");
    else if (result < 0)
        request_refuse(r, result_code(result), result_text(result));
    else
        send_end(r);
}
