/* SPDX-License-Identifier: Apache-2.0
 *
 * recycle.c: replaces an executor that has run many jobs or has grown, without a gap.
 * Owns the domains that are in no table. In one the next executor gets ready (`standby`). In each of the others an old
 * executor finishes what it has begun. The domain's `successor` gets everything else. [loop]
 * Keeps: the old one serves until the new one has loaded every plugin that it had. A job stays with the executor that
 * it was handed to. Jobs that come back go to the successor, and no job points at a freed domain.
 * Does not decide what becomes of jobs when an executor dies (recover.c). */
#include "domains/recycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/arena.h"
#include "domains/bundle-cost.h"
#include "domains/bundle.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/health.h"
#include "domains/lifetime.h"
#include "domains/plugins.h"
#include "domains/query.h"

#define OLD_MAX   4u       /* executors of one domain that may still be finishing; with so many, none is recycled */
#define LOOK_USEC 1000000u /* between looks at the memory of an executor */
/* least life of a spoilt executor: a function that spoils each one must not cost a start for each job */
#define SPOILT_USEC 100000u

/* --- when ------------------------------------------------------------------------------------------------------- */

static bool has_grown(struct domain *d, uint64_t limit)
{
    uint64_t now = clock_monotonic_usec();

    if (d->priv->recycling.resident_first && now - d->priv->recycling.looked_usec < LOOK_USEC)
        return false;
    const struct executor *e = d->priv->executor;
    uint64_t bytes = e->child ? child_resident(e->child) : 0;
    d->priv->recycling.looked_usec = now;
    if (!d->priv->recycling.resident_first)
        d->priv->recycling.resident_first = bytes;
    return bytes > d->priv->recycling.resident_first && bytes - d->priv->recycling.resident_first > limit;
}

static uint32_t count_old(const struct domain *d)
{
    uint32_t n = 0;

    list_for_each_entry (struct domain, domain, &d->jobs->domains, link)
        n += domain->successor == d;
    return n;
}

/* Whether everything that the executor has loaded is known, so that another one can load it. */
static bool is_settled(struct domain *d)
{
    return d->priv->executor && d->priv->executor->ready && !d->priv->finishing && !d->priv->distrusted &&
           !d->priv->executor->killed && !d->priv->executor->dying && !plugin_loading(d) && !d->priv->trace.number &&
           !d->priv->trace.n_reports;
}

static void begin(struct domain *d);

void recycle_look(struct domain *d, uint32_t n)
{
    const struct jobs_limits *l = &d->jobs->options.limits;
    bool full = l->recycle_jobs && (d->priv->recycling.n_ended += n) >= l->recycle_jobs;
    bool spoilt = d->priv->recycling.spoilt && clock_monotonic_usec() - d->priv->recycling.started_usec >= SPOILT_USEC;

    if (d->successor || d->priv->recycling.standby || d->priv->recycling.standby_of || d->jobs->draining)
        return;
    if (!full && !spoilt && !(l->recycle_growth && d->priv->executor && has_grown(d, l->recycle_growth)))
        return;
    if (!is_settled(d) || count_old(d) >= OLD_MAX)
        return;
    d->priv->recycling.n_ended = 0; /* where it fails, not again at once */
    d->priv->recycling.resident_first = 0;
    d->priv->recycling.started_usec = clock_monotonic_usec();
    begin(d);
}

static void spoilt(struct domain *d, const char *reason)
{
    if (!d->priv->recycling.spoilt)
        log_event(LOG_KIND_EXECUTOR_SPOILT, LOG_WARNING, NULL, "executor %u: %s: a fresh one takes its place",
                  d->priv->executor->number, reason);
    d->priv->recycling.spoilt = true;
}

bool recycle_starved(struct domain *d, const char *reason)
{
    /* jobs cannot have spoilt an executor that has done nothing: another one would be no better */
    if (!d->priv->useful || d->priv->recycling.standby_of || d->successor || d->priv->probe)
        return false;
    spoilt(d, reason);
    d->priv->recycling.started_usec = 0; /* there is something that waits for it */
    recycle_look(d, 0);
    return d->priv->recycling.standby != NULL;
}

/* None takes the place of the spoilt one. */
static void not_replaced(struct domain *d)
{
    if (!d->priv->recycling.starved)
        return;
    d->priv->recycling.starved = false;
    plugin_fail_waiting(
        d, EAGAIN, "its executor has not what it takes to load it, and no other one can be started: see wsd's log");
}

void recycle_spoilt(struct domain *d, const char *reason)
{
    if (d->priv->recycling.standby_of || d->successor || !*reason)
        return;
    spoilt(d, reason);
    recycle_look(d, 0);
}

/* --- the standby -------------------------------------------------------------------------------------------------- */

static struct domain *drop(struct domain *n)
{
    if (n->priv->recycling.standby_of && n->priv->recycling.standby_of->priv->recycling.standby == n)
        n->priv->recycling.standby_of->priv->recycling.standby = NULL;
    domain_free(n);
    return NULL;
}

void recycle_abandon(struct domain *d)
{
    if (!d->priv->recycling.standby)
        return;
    log_debug("executor %u will not be needed", d->priv->recycling.standby->priv->executor->number);
    d->priv->recycling.standby->priv->distrusted = true;
    executor_kill(d->priv->recycling.standby->priv->executor); /* its death frees the rest: recycle_gone() */
    d->priv->recycling.standby = NULL;
    not_replaced(d);
}

/* No other executor can be started beside the spoilt one, which may hold all that there is of something. If the spoilt
 * one has nothing to do, it ends, and the next job starts a new one. */
static void make_room(struct domain *d)
{
    if (d->priv->recycling.spoilt && is_settled(d) && domain_hands_nothing(d) && !lanes_running(d))
        domain_finish(d);
}

static void begin(struct domain *d)
{
    plugins_forget_looked(d); /* the next executor has what jobs use */
    struct domain *n = domain_new(d->jobs, d->key);

    if (!n)
        return;
    n->priv->recycling.standby_of = d;
    domain_start_executor(n);
    if (!n->priv->executor) {
        drop(n);
        make_room(d);
        return;
    }
    d->priv->recycling.standby = n;
    log_debug("executor %u gets ready in the place of executor %u", n->priv->executor->number,
              d->priv->executor->number);
}

static void take_over(struct domain *d, struct domain *n);

static void loaded_one(struct domain *n)
{
    struct domain *d = n->priv->recycling.standby_of;

    if (n->priv->recycling.n_expected > 0 && --n->priv->recycling.n_expected > 0)
        return;
    if (is_settled(d))
        take_over(d, n);
    else
        recycle_abandon(d);
}

void recycle_ready(struct domain *n)
{
    struct domain *d = n->priv->recycling.standby_of;

    if (d->priv->recycling.standby != n)
        return;
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        struct control c = {.kind = CONTROL_LOAD, .number = p->number, .text_size = (uint32_t)strlen(p->request) + 1};

        p->in_next = 0;
        if (p->state != PLUGIN_READY || p->stale)
            continue;
        memcpy(c.text, p->request, c.text_size);
        p->in_next = 1;
        n->priv->recycling.n_expected++;
        executor_send(n->priv->executor, &c, -1);
    }
    if (n->priv->recycling.n_expected == 0)
        loaded_one(n);
}

/* Whether the function is the same, at the same place, as in the executor before. */
static bool is_same(const struct plugin *p, const struct control *c)
{
    for (uint32_t i = 0; i < p->n_functions; i++)
        if (p->functions[i].index == c->functions)
            return c->text_size && strcmp(p->functions[i].name, c->text) == 0 && p->functions[i].flags == c->flags;
    return false;
}

void recycle_control(struct domain *n, const struct control *c)
{
    struct domain *d = n->priv->recycling.standby_of;
    struct plugin *p = NULL;

    if (d->priv->recycling.standby != n)
        return;
    list_for_each_entry (struct plugin, q, &d->priv->plugins.all, link) {
        if (q->number == c->number && q->in_next == 1)
            p = q;
    }
    /* the file is another one, or gone: the old executor goes on, and reports that on request */
    if (!p || p->stale || (c->kind == CONTROL_LOADED && (c->error || c->functions != p->n_announced)) ||
        (c->kind == CONTROL_FUNCTION && !is_same(p, c))) {
        log_notice("executor %u stays: its plugins cannot be loaded again as they were",
                   d->priv->executor ? d->priv->executor->number : 0);
        recycle_abandon(d);
        return;
    }
    if (c->kind == CONTROL_FUNCTION && c->functions + 1 == p->n_announced) {
        p->in_next = 2;
        loaded_one(n);
    }
}

/* --- the change --------------------------------------------------------------------------------------------------- */

/* Exchanges everything that belongs to one executor; n then has the old one. */
static void take_over(struct domain *d, struct domain *n)
{
    log_info("executor %u takes the place of executor %u, which finishes %u jobs", n->priv->executor->number,
             d->priv->executor->number, d->n_handed);
    domain_ring(d); /* while the executor is d's */
    d->priv->recycling.standby = NULL;
    n->priv->recycling.standby_of = NULL;
    n->successor = d;
    SWAP(d->priv->executor, n->priv->executor);
    SWAP(d->front, n->front);
    SWAP(d->executor_number, n->executor_number);
    d->priv->executor->context = d;
    n->priv->executor->context = n;
    memcpy(n->slots, d->slots, sizeof(d->slots));
    memset(d->slots, 0, sizeof(d->slots));
    while (!list_empty(&d->handed)) {
        struct job *job = container_of(list_pop_front(&d->handed), struct job, link);

        job->domain = n;
        list_push_back(&n->handed, &job->link);
    }
    bundles_watch(n);
    SWAP(d->priv->settings, n->priv->settings);
    SWAP(d->n_handed, n->n_handed);
    SWAP(d->n_aged, n->n_aged);
    query_swap(d, n);
    SWAP(d->priv->only_function, n->priv->only_function);
    lanes_swap(d, n);
    arenas_swap(d, n);
    n->priv->useful = d->priv->useful;
    d->priv->useful = d->priv->recycling.spoilt = d->priv->recycling.starved = false;
    d->priv->recycling.started_usec = n->priv->recycling.started_usec;
    d->priv->recycling.n_ended = 0;
    d->priv->recycling.resident_first = 0;
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (p->state == PLUGIN_READY && p->in_next != 2)
            plugin_unloaded(p); /* loaded when it is wanted */
    }
    health_started(d);
    health_started(n);
    if (!n->n_handed && !lanes_running(n))
        domain_finish(n);
    plugin_load_wanted(d);
    d->priv->unpumped = true;
    domain_rest(d);
}

bool recycle_gone(struct domain *d)
{
    struct domain *successor = d->successor, *of = d->priv->recycling.standby_of;

    if (!successor && !of)
        return false;
    bool was_standby = of && of->priv->recycling.standby == d;
    drop(d);
    if (was_standby) {
        not_replaced(of);
        make_room(of);
    }
    if (successor)
        successor->priv->unpumped = true;
    return true;
}
