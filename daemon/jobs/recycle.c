/* SPDX-License-Identifier: Apache-2.0
 *
 * recycle.c: replaces an executor that has run many jobs or has grown, without a gap.
 * Owns the domains that are in no table: one in which the next executor gets ready (`standby`), and those in which an
 * old executor finishes what it has begun (their `successor` gets everything else). [loop]
 * Keeps: the old one serves until the new one has loaded every plugin that it had. A job stays with the executor that
 * it was handed to. Jobs that come back go to the successor, and no job points at a freed domain.
 * Does not decide what becomes of jobs when an executor dies (recover.c). */
#include "jobs/recycle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "jobs/arena.h"
#include "jobs/query.h"
#include "jobs/bundle.h"
#include "jobs/domain.h"
#include "jobs/lane.h"
#include "jobs/plugins.h"

#define OLD_MAX   4u       /* executors of one domain that may still be finishing; with so many, none is recycled */
#define LOOK_USEC 1000000u /* between looks at the memory of an executor */
/* least life of a spoilt executor: a function that spoils each one must not cost a start for each job */
#define SPOILT_USEC 100000u

/* --- when ------------------------------------------------------------------------------------------------------- */

/* Private resident bytes; 0: not known. */
static uint64_t resident(const struct executor *e)
{
    unsigned long long all, shared;
    char path[40], text[128];

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)(e->child ? child_pid(e->child) : 0));
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (sscanf(text, "%*u %llu %llu", &all, &shared) != 2 || shared > all)
        return 0;
    return (all - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool has_grown(struct domain *d, uint64_t limit)
{
    uint64_t now = clock_monotonic_usec();

    if (d->recycling.resident_first && now - d->recycling.looked_usec < LOOK_USEC)
        return false;
    uint64_t bytes = resident(d->executor);
    d->recycling.looked_usec = now;
    if (!d->recycling.resident_first)
        d->recycling.resident_first = bytes;
    return bytes > d->recycling.resident_first && bytes - d->recycling.resident_first > limit;
}

static uint32_t count_old(const struct domain *d)
{
    uint32_t n = 0;

    list_for_each_entry (struct domain, domain, &d->jobs->domains, link)
        n += domain->recycling.successor == d;
    return n;
}

/* Whether everything that the executor has loaded is known, so that another one can load it. */
static bool is_settled(struct domain *d)
{
    return d->executor && d->executor->ready && !d->finishing && !d->distrusted && !d->executor->killed &&
           !d->executor->dying && !plugin_loading(d) && !d->trace.number && !d->trace.n_reports;
}

static void begin(struct domain *d);

void recycle_look(struct domain *d, uint32_t n)
{
    const struct jobs_limits *l = &d->jobs->options.limits;
    bool full = l->recycle_jobs && (d->recycling.n_ended += n) >= l->recycle_jobs;
    bool spoilt = d->recycling.spoilt && clock_monotonic_usec() - d->recycling.started_usec >= SPOILT_USEC;

    if (d->recycling.successor || d->recycling.standby || d->recycling.standby_of || d->jobs->draining)
        return;
    if (!full && !spoilt && !(l->recycle_growth && d->executor && has_grown(d, l->recycle_growth)))
        return;
    if (!is_settled(d) || count_old(d) >= OLD_MAX)
        return;
    d->recycling.n_ended = 0; /* where it fails, not again at once */
    d->recycling.resident_first = 0;
    d->recycling.started_usec = clock_monotonic_usec();
    begin(d);
}

static void spoilt(struct domain *d, const char *reason)
{
    if (!d->recycling.spoilt)
        log_event(LOG_KIND_EXECUTOR_SPOILT, LOG_WARNING, NULL, "executor %u: %s: a fresh one takes its place",
                  d->executor->number, reason);
    d->recycling.spoilt = true;
}

bool recycle_starved(struct domain *d, const char *reason)
{
    /* jobs cannot have spoilt an executor that has done nothing: another one would be no better */
    if (!d->useful || d->recycling.standby_of || d->recycling.successor || d->probe)
        return false;
    spoilt(d, reason);
    d->recycling.started_usec = 0; /* there is something that waits for it */
    recycle_look(d, 0);
    return d->recycling.standby != NULL;
}

/* None takes the place of the spoilt one. */
static void not_replaced(struct domain *d)
{
    if (!d->recycling.starved)
        return;
    d->recycling.starved = false;
    plugin_fail_waiting(
        d, EAGAIN, "its executor has not what it takes to load it, and no other one can be started: see wsd's log");
}

void recycle_spoilt(struct domain *d, const char *reason)
{
    if (d->recycling.standby_of || d->recycling.successor || !*reason)
        return;
    spoilt(d, reason);
    recycle_look(d, 0);
}

/* --- the standby -------------------------------------------------------------------------------------------------- */

static struct domain *drop(struct domain *n)
{
    if (n->recycling.standby_of && n->recycling.standby_of->recycling.standby == n)
        n->recycling.standby_of->recycling.standby = NULL;
    domain_free(n);
    return NULL;
}

void recycle_abandon(struct domain *d)
{
    if (!d->recycling.standby)
        return;
    log_debug("executor %u will not be needed", d->recycling.standby->executor->number);
    d->recycling.standby->distrusted = true;
    executor_kill(d->recycling.standby->executor); /* its death frees the rest: recycle_gone() */
    d->recycling.standby = NULL;
    not_replaced(d);
}

/* No other one can be started beside the spoilt one, which may hold all that there is of something. If it has nothing to
 * do, it ends, and the next job starts one. */
static void make_room(struct domain *d)
{
    if (d->recycling.spoilt && is_settled(d) && !d->n_handed && !lanes_running(d))
        domain_finish(d);
}

static void begin(struct domain *d)
{
    plugins_forget_looked(d); /* the next executor has what jobs use */
    struct domain *n = domain_new(d->jobs, d->key);

    if (!n)
        return;
    n->recycling.standby_of = d;
    domain_start_executor(n);
    if (!n->executor) {
        drop(n);
        make_room(d);
        return;
    }
    d->recycling.standby = n;
    log_debug("executor %u gets ready in the place of executor %u", n->executor->number, d->executor->number);
}

static void take_over(struct domain *d, struct domain *n);

static void loaded_one(struct domain *n)
{
    struct domain *d = n->recycling.standby_of;

    if (n->recycling.n_expected > 0 && --n->recycling.n_expected > 0)
        return;
    if (is_settled(d))
        take_over(d, n);
    else
        recycle_abandon(d);
}

void recycle_ready(struct domain *n)
{
    struct domain *d = n->recycling.standby_of;

    if (d->recycling.standby != n)
        return;
    list_for_each_entry (struct plugin, p, &d->plugins.all, link) {
        struct control c = {.kind = CONTROL_LOAD, .number = p->number, .text_size = (uint32_t)strlen(p->request) + 1};

        p->in_next = 0;
        if (p->state != PLUGIN_READY || p->stale)
            continue;
        memcpy(c.text, p->request, c.text_size);
        p->in_next = 1;
        n->recycling.n_expected++;
        executor_send(n->executor, &c, -1);
    }
    if (n->recycling.n_expected == 0)
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
    struct domain *d = n->recycling.standby_of;
    struct plugin *p = NULL;

    if (d->recycling.standby != n)
        return;
    list_for_each_entry (struct plugin, q, &d->plugins.all, link) {
        if (q->number == c->number && q->in_next == 1)
            p = q;
    }
    /* the file is another one, or gone: the old executor goes on, and reports that on request */
    if (!p || p->stale || (c->kind == CONTROL_LOADED && (c->error || c->functions != p->n_announced)) ||
        (c->kind == CONTROL_FUNCTION && !is_same(p, c))) {
        log_notice("executor %u stays: its plugins cannot be loaded again as they were",
                   d->executor ? d->executor->number : 0);
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
    log_info("executor %u takes the place of executor %u, which finishes %u jobs", n->executor->number,
             d->executor->number, d->n_handed);
    domain_ring(d); /* while the executor is d's */
    d->recycling.standby = NULL;
    n->recycling.standby_of = NULL;
    n->recycling.successor = d;
    SWAP(d->executor, n->executor);
    d->executor->context = d;
    n->executor->context = n;
    memcpy(n->slots, d->slots, sizeof(d->slots));
    memset(d->slots, 0, sizeof(d->slots));
    while (!list_empty(&d->handed)) {
        struct job *job = container_of(list_pop_front(&d->handed), struct job, link);

        job->domain = n;
        list_push_back(&n->handed, &job->link);
    }
    bundles_watch(n);
    SWAP(d->settings, n->settings);
    SWAP(d->n_handed, n->n_handed);
    SWAP(d->n_aged, n->n_aged);
    query_swap(d, n);
    SWAP(d->only_function, n->only_function);
    lanes_swap(d, n);
    arenas_swap(d, n);
    n->useful = d->useful;
    d->useful = d->recycling.spoilt = d->recycling.starved = false;
    d->recycling.started_usec = n->recycling.started_usec;
    d->recycling.n_ended = 0;
    d->recycling.resident_first = 0;
    list_for_each_entry (struct plugin, p, &d->plugins.all, link) {
        if (p->state == PLUGIN_READY && p->in_next != 2)
            p->state = PLUGIN_UNKNOWN; /* loaded when it is wanted */
    }
    health_started(d);
    health_started(n);
    if (!n->n_handed && !lanes_running(n))
        domain_finish(n);
    plugin_load_wanted(d);
    domain_pump(d);
    domain_rest(d);
}

bool recycle_gone(struct domain *d)
{
    struct domain *successor = d->recycling.successor, *of = d->recycling.standby_of;

    if (!successor && !of)
        return false;
    bool was_standby = of && of->recycling.standby == d;
    drop(d);
    if (was_standby) {
        not_replaced(of);
        make_room(of);
    }
    if (successor)
        domain_pump(successor);
    return true;
}
