/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-names.c: the names that runners have offered, and which runner gets a job.
 * Owns nothing: runner-wait.c makes the names. [loop]
 * Keeps: a job goes to a runner of its own user, or of a name that is shared, which offers its function. Of several, that with the fewest jobs. */
#include "domains/runner-names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "domains/runner.h"

const char *runners_name(const char *request, char buffer[static 64])
{
    size_t n = strcspn(request, "/");

    if (!plugin_is_elsewhere(request) || n >= 64)
        return request;
    memcpy(buffer, request, n);
    buffer[n] = 0;
    return buffer;
}

uint64_t runners_key(uint32_t uid, const char *name)
{
    return hash_text(uid, name, strlen(name));
}

struct runner_rules runners_rules(const struct jobs *jobs, const char *name)
{
    const struct jobs_options *o = &jobs->options;

    return o->runner_rules ? o->runner_rules(name, o->context) : (struct runner_rules){.wait_usec = RUNNER_ABSENT_USEC};
}

struct runners *runners_of(const struct jobs *jobs, uint32_t uid, const char *name)
{
    const struct hash *h = &jobs->executors->runners;
    char buffer[64];

    if (h->n == 0)
        return NULL;
    name = runners_name(name, buffer);
    uint32_t of = runners_rules(jobs, name).shared ? RUNNERS_SHARED : uid;
    for (struct hash_link *l = hash_first(h, runners_key(of, name)); l; l = hash_next(l)) {
        struct runners *g = container_of(l, struct runners, by_name);

        if (g->uid == of && strcmp(g->name, name) == 0)
            return g;
    }
    return NULL;
}

const char *place_main(const struct plugin *p)
{
    const char *slash = strchr(p->request, '/');

    return slash ? slash + 1 : "";
}

void place_name(const struct job *job, char ret[static PLACE_NAME])
{
    const struct plugin_function *f = job_function(job);

    if (f->index == 0)
        snprintf(ret, PLACE_NAME, "%.63s", place_main(job->plugin));
    else
        snprintf(ret, PLACE_NAME, "%.63s:%.63s", place_main(job->plugin), f->name);
}

bool runners_have_jobs(const struct runners *g)
{
    list_for_each_entry (const struct plugin, p, &g->domain->priv->plugins.all, link)
        if (p->n_jobs)
            return true;
    return false;
}

bool runners_take(const struct runners *g, bool waits)
{
    struct runner_rules rules = runners_rules(g->domain->jobs, g->name);

    if (g->n || waits || (rules.configured && rules.wait_usec))
        return true;
    return g->absent_usec && clock_monotonic_usec() - g->absent_usec < rules.wait_usec;
}

struct domain *runners_find(const struct jobs *jobs, uint32_t uid, const char *request)
{
    struct runners *g = runners_of(jobs, uid, request);

    return g && (runners_have_jobs(g) || runners_take(g, false)) ? g->domain : NULL;
}

struct domain *runners_choose(const struct domain *d, const struct job *job)
{
    const struct runner *least = NULL;

    list_for_each_entry (const struct runner, r, &d->priv->runners->all, link) {
        if (!r->leaving && !r->killed && r->domain->n_handed < r->credit && r->functions >> job->function & 1 &&
            (!least || r->domain->n_handed < least->domain->n_handed))
            least = r;
    }
    return least ? least->domain : NULL;
}

size_t runners_describe(const struct runners *g, struct plugin_runner_info *ret, size_t most)
{
    size_t n = 0;

    list_for_each_entry (const struct runner, r, &g->all, link) {
        if (n < most)
            ret[n++] = (struct plugin_runner_info){.uid = r->user->uid,
                                                   .pid = r->pid,
                                                   .credit = r->credit,
                                                   .running = (uint32_t)r->domain->n_handed,
                                                   .since_usec = r->since_usec,
                                                   .leaving = r->leaving};
    }
    return n;
}

bool jobs_is_runner(const struct jobs *jobs, uint32_t uid, const char *name)
{
    return runners_find(jobs, uid, name);
}

int jobs_runner_names(const struct jobs *jobs, uint32_t uid, char **names, size_t *size)
{
    const struct hash *h = &jobs->executors->runners;

    for (size_t i = 0; i < h->n_buckets; i++)
        for (struct hash_link *l = h->buckets[i]; l; l = l->next) {
            const struct runners *g = container_of(l, struct runners, by_name);
            size_t n = strlen(g->name) + 1;

            if ((g->uid != uid && g->uid != RUNNERS_SHARED) || (!g->n && !runners_have_jobs(g)))
                continue;
            char *more = realloc(*names, *size + n);
            if (!more)
                return -ENOMEM;
            memcpy(more + *size, g->name, n);
            *names = more;
            *size += n;
        }
    return 0;
}
