/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve.c: decides, once a job's plugin is known, whether its user may run this function now, and with which limits.
 * Owns nothing. [loop]
 * Keeps: a job is accepted or refused here, once.
 * Does not load plugins (plugins.c). */
#include "domains/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/job-breaker.h"
#include "domains/plugin-lookup.h"
#include "domains/runner-wait.h"
#include "table/input.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/timing.h"
#include "table/watches.h"

/* The configured maximum, where the submitter wants more or has not said. 0 or -ENOMEM. */
int job_limit_run(struct job *job)
{
    const struct jobs_options *o = &job->domain->jobs->options;
    const char *of = NULL;
    char name[64]; /* one that was restored belongs to a plugin that is not loaded yet, and has told none */

    const char *plugin = job->plugin->name
                             ? job->plugin->name
                             : plugin_config_name(job->domain->jobs, job->domain->key, job->plugin->request, name);
    uint64_t limit = o->plugin_max_run ? o->plugin_max_run(plugin, &of, o->context) : o->limits.max_run_usec;
    struct job_more *m = job->more;

    if (!limit || (m && m->timeout_usec && m->timeout_usec <= limit))
        return 0;
    m = job_more(job);
    if (!m || asprintf(&m->limit, "it ran longer than max-run = %llu%s of %s%s%s in wsd.conf",
                       (unsigned long long)(limit % 1000000 ? limit / 1000 : limit / 1000000),
                       limit % 1000000 ? "ms" : "s", of ? "[plugin " : "[limits", of ? of : "", "]") < 0)
        return -ENOMEM;
    m->timeout_usec = limit;
    return 0;
}

/* A restricted plugin needs a watch that can be asked for its user's rights. */
static bool may_use(const struct job *job, const char *plugin)
{
    const struct jobs_options *o = &job->domain->jobs->options;

    if (!o->plugin_restricted || !o->plugin_restricted(plugin, o->context))
        return true;
    struct watch *w = job_owner(job);

    return w && w->ops->may_use(w, plugin);
}

/* The section of wsd.conf that says which users' jobs may have the plugin: of a place it is the place's. */
static const char *configured_as(const struct job *job)
{
    const struct runners *g = job->domain->priv->runners;

    return g ? g->name : job->plugin->name;
}

/* The plugin's function, if the job's user may have it. NULL: why not. */
static struct plugin_function *find_function(const struct job *job, const char *function, struct refusal *ret)
{
    const struct jobs_options *o = &job->domain->jobs->options;
    struct plugin *p = job->plugin;

    ret->text = ret->words;
    if (p->state == PLUGIN_FAILED) {
        ret->code = p->error == EACCES ? CODE_DENIED : p->error == EAGAIN ? CODE_BUSY : CODE_NOT_FOUND;
        ret->text = plugin_why(p);
        return NULL;
    }
    struct plugin_function *f = plugin_find_function(p, function);
    bool awaited = !f && runners_leave_open(job->domain);
    ret->code = f || awaited ? CODE_DENIED : CODE_NOT_FOUND;
    if (!f && !awaited)
        snprintf(ret->words, sizeof(ret->words), "%s has no function %.64s: see `wsctl plugin show %.64s`", p->name,
                 function, p->name);
    else if (!o->plugin_enabled(p->name, f && f->flags & WSD_FN_OPT_IN, o->context))
        snprintf(ret->words, sizeof(ret->words), "%s is off: `[plugin %s]` `enabled = yes` in wsd.conf turns it on",
                 p->name, p->name);
    else if (!may_use(job, configured_as(job)))
        snprintf(ret->words, sizeof(ret->words), "%s is not for this user ([%s %s] users in wsd.conf)", p->name,
                 job->domain->priv->runners ? "runner" : "plugin", configured_as(job));
    else
        return awaited ? runners_await(p, function, ret) : f;
    return NULL;
}

/* The job has its function: its limits of time, the breaker, and its input. False: why it is refused. */
static bool prepare(struct job *job, const struct plugin_function *f, struct refusal *ret)
{
    ret->code = CODE_BUSY;
    ret->text = ret->words;
    if (job_limit_run(job) < 0 || time_limit_wait(job) < 0) {
        ret->text = "out of memory";
        return false;
    }
    if (job_breaker_suspects(job) && job_breaker_refuses(job, ret->words, &ret->retry_usec))
        return false;
    ret->retry_usec = 0;
    if (job->flags & JOB_MORE_INPUT) {
        /* one that waits takes all of its input first: a pipe would hold up its client for as long */
        bool streams = f->flags & WSD_FN_STREAMING && !job_policy(job) && !(job->more && job->more->awaiting);
        int r = job_more(job) ? input_prepare(job, streams) : -ENOMEM;

        if (r < 0) {
            snprintf(ret->words, sizeof(ret->words), "no room for the input: %s", strerror(-r));
            return false;
        }
    }
    int admitted = input_admit(job, f->flags & WSD_FN_STREAMING, &ret->retry_usec);
    if (admitted < 0)
        input_words(job, admitted, ret->words);
    return admitted >= 0;
}

struct plugin_function *job_resolve(struct job *job, const char *function)
{
    struct jobs *jobs = job->domain->jobs;
    const struct jobs_options *o = &jobs->options;
    struct refusal why;

    why.retry_usec = 0;
    list_remove(&job->link);
    if (job->more)
        time_begun(job); /* it waits no more for its plugin */
    struct plugin_function *f = find_function(job, function, &why);
    if (f)
        job_set_function(job, f);
    if (!f || !prepare(job, f, &why)) {
        job_refuse_until(job, why.code, why.text, why.retry_usec);
        return NULL;
    }
    if (job_breaker_suspects(job))
        job_breaker_try(job);
    bool alike = !job->more, restricted = o->plugin_restricted && o->plugin_restricted(configured_as(job), o->context);
    if (alike && !restricted)
        f->cacheable = jobs->n_configured;
    job_accept(job);
    return alike ? f : NULL;
}
