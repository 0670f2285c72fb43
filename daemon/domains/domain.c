/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.c: the trust domains: which there are, and their life.
 * Owns each domain. [loop]
 * Keeps: a user's jobs of one plugin have one domain at a time.
 * Does not know the features that a domain has: domain-parts.c lists them. */
#include "domains/domain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/executors.h"
#include "domains/owners.h"
#include "domains/plugin-lookup.h"
#include "domains/runner-names.h"
#include "supervisor/executor.h"

#define OWN_MAX 64u /* plugins of one user that have an executor of their own */

void domain_distrust(struct domain *d, const char *what)
{
    if (d->priv->distrusted)
        return; /* said once, and it is ending */
    log_event(LOG_KIND_EXECUTOR_ENDED, LOG_WARNING, NULL, "executor %u: %s: it is replaced", d->priv->executor->number,
              what);
    d->jobs->counters.executors_distrusted++;
    d->priv->distrusted = true;
    executor_kill(d->priv->executor);
}

void domain_memory_words(const struct domain *d, char *text, size_t size)
{
    const struct jobs_domain *s = &d->priv->settings;

    snprintf(text, size, "[%s%.40s] executor-memory in wsd.conf is %" PRIu64 " MiB",
             s->plugin_memory ? "plugin "
             : s->own_memory  ? "domain "
                              : "limits",
             s->plugin_memory ? d->priv->own_name
             : s->own_memory  ? s->name
                              : "",
             s->memory >> 20);
}

void domain_configure(struct domain *d)
{
    const struct jobs_options *o = &d->jobs->options;
    const char *own = d->priv->recycling.standby_of ? d->priv->recycling.standby_of->priv->own : d->priv->own;

    d->priv->settings = *owner_settings(d->jobs, d->key);
    if (!own || !o->plugin_share)
        return;
    char buffer[64];
    snprintf(d->priv->own_name, sizeof(d->priv->own_name), "%s", plugin_config_name(d->jobs, d->key, own, buffer));
    o->plugin_share(d->priv->own_name, &d->priv->settings, o->context);
}

static uint32_t count_own(const struct jobs *jobs, uint64_t owner)
{
    uint32_t n = 0;

    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        n += d->key == owner && d->priv->own;
    }
    return n;
}

/* A domain, with what the job table does not know of it. */
struct whole {
    struct domain domain;
    struct domain_private priv;
};

/* The last part first. Returns NULL. */
static struct domain *unmake(struct domain *d, size_t n_parts)
{
    while (n_parts-- > 0)
        d->jobs->executors->parts[n_parts].deinit(d);
    list_remove(&d->link);
    free(d->priv->own);
    free(container_of(d, struct whole, domain));
    return NULL;
}

static size_t count_parts(const struct jobs *jobs)
{
    size_t n = 0;

    while (jobs->executors->parts[n].deinit)
        n++;
    return n;
}

struct domain *domain_new(struct jobs *jobs, uint64_t owner)
{
    struct whole *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    struct domain *d = &w->domain;
    d->priv = &w->priv;
    d->jobs = jobs;
    d->key = owner;
    domain_configure(d);
    list_init(&d->handed);
    list_init(&d->run_slot.waiting);
    list_init(&d->link);
    fair_queue_init(&d->queue, &jobs->flows, &jobs->counters.n_queued);
    for (size_t i = 0; i < count_parts(jobs); i++)
        if (jobs->executors->parts[i].init(d) < 0)
            return unmake(d, i);
    list_push_back(&jobs->domains, &d->link);
    return d;
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
    d->priv->own = own ? strdup(own) : NULL;
    if ((own && !d->priv->own) || hash_insert(&jobs->by_key, &d->by_key, hash_number(domain_key)) < 0) {
        return unmake(d, count_parts(jobs));
    }
    return d;
}

struct domain *domain_get(struct jobs *jobs, uint32_t uid)
{
    return find_or_make(jobs, domain_owner(jobs, uid), NULL);
}

struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request)
{
    struct domain *of_runners = runners_find(jobs, uid, request);

    return of_runners ? of_runners : domain_for_owner(jobs, domain_owner(jobs, uid), request);
}

struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request)
{
    enum plugin_apart apart = plugin_apart(jobs, owner, request);
    struct domain *shared = find_or_make(jobs, owner, NULL), *d;

    if (apart == PLUGIN_TOGETHER || !shared)
        return shared;
    d = find_or_make(jobs, owner, request);
    if (!d && apart == PLUGIN_APART_CRASHED)
        return shared;                                       /* better than nowhere */
    if (d && !d->priv->executor && !d->priv->trace.number) { /* a trace of this user covers all of the user's domains */
        d->priv->trace.number = shared->priv->trace.number;
        d->priv->trace.by = shared->priv->trace.by;
        d->priv->trace.rate = shared->priv->trace.rate;
    }
    return d;
}

void domain_free(struct domain *d)
{
    list_remove(&d->link);
    list_remove(&d->run_slot.waiting);
    if (d->jobs->by_key.n_buckets)
        hash_remove(&d->jobs->by_key, &d->by_key);
    unmake(d, count_parts(d->jobs));
}
