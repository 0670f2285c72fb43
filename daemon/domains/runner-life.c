/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-life.c: runners come and go.
 * Owns the names that runners have offered, and the runners. [loop]
 * Keeps: what a runner is refused for, it is told. Its jobs fall under the rules of recovery when it goes
 * (recover.c). Jobs whose last runner has gone wait for another one for RUNNER_ABSENT_USEC. */
#include "domains/runner-life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "domains/plugin-query.h"
#include "domains/plugins.h"
#include "domains/runner-names.h"
#include "domains/runner.h"
#include "table/admission.h"
#include "table/timers.h"

/* --- the names ---------------------------------------------------------------------------------------------------- */

/* No runner has come back: what waits for one ends, and new jobs look for a plugin of this name. */
static void on_absent(evutil_socket_t fd, short what, void *userdata)
{
    struct runners *g = userdata;

    if (g->n)
        return;
    plugin_failed(g->plugin, ENOENT, "no runner of this name is connected");
    domain_pump(g->domain);
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

    return !g->n && !p->n_jobs && !p->settling && list_empty(&p->waiting) && list_empty(&p->queries);
}

/* Counts the runners of this user, and their names. Forgets names that nothing needs. */
static void count(const struct jobs *jobs, uint32_t uid, uint32_t *ret_runners, uint32_t *ret_names)
{
    *ret_runners = *ret_names = 0;
    for (size_t i = 0; i < jobs->executors->runners.n_buckets; i++)
        for (struct hash_link *l = jobs->executors->runners.buckets[i], *next; l; l = next) {
            struct runners *g = container_of(l, struct runners, by_name);

            next = l->next;
            if (g->uid != uid)
                continue;
            if (is_forgettable(g)) {
                domain_free(g->domain);
                continue;
            }
            *ret_runners += g->n;
            ++*ret_names;
        }
}

static struct runners *make(struct jobs *jobs, uint32_t uid, const char *name)
{
    struct domain *d = domain_new(jobs, uid);
    struct runners *g = d ? calloc(1, sizeof(*g)) : NULL;

    if (!g) {
        if (d)
            domain_free(d);
        return NULL;
    }
    d->priv->runners = g;
    g->domain = d;
    g->uid = uid;
    list_init(&g->all);
    snprintf(g->name, sizeof(g->name), "%s", name);
    g->absent_timer = evtimer_new(jobs->options.base, on_absent, g);
    g->plugin = plugin_make(d, name);
    if (!g->absent_timer || !g->plugin ||
        hash_insert(&jobs->executors->runners, &g->by_name, runners_key(uid, name)) < 0) {
        domain_free(d);
        return NULL;
    }
    g->plugin->retry_usec = UINT64_MAX; /* it is never loaded */
    return g;
}

/* How many runners, and their processes. */
static void words_of(const struct runners *g, char *text, size_t size)
{
    int n = snprintf(text, size, "runners: %u", g->n);

    list_for_each_entry (const struct runner, r, &g->all, link) {
        if (n > 0 && (size_t)n < size)
            n += snprintf(text + n, size - (size_t)n, " pid=%d", r->pid);
    }
}

/* What no runner offers has no index, and is refused as a function that there is not. Where no runner takes jobs, they
 * wait for one that does. */
static void offer_changed(struct runners *g)
{
    char words[JOB_TEXT];
    uint64_t all = 0;

    list_for_each_entry (const struct runner, r, &g->all, link)
        all |= r->leaving ? 0 : r->functions;
    for (uint32_t i = 0; i < g->plugin->n_functions; i++)
        g->plugin->functions[i].index = all >> i & 1 || !all ? i : RING_NONE;
    words_of(g, words, sizeof(words));
    free(g->plugin->path);
    g->plugin->path = strdup(words);
    if (g->n && g->plugin->state != PLUGIN_READY)
        g->plugin->state = PLUGIN_READY;
    if (g->n)
        evtimer_del(g->absent_timer);
    else
        runners_rearm(g);
    g->domain->priv->unpumped = true;
}

static int on_packet(void *context, const struct control *c, int fd)
{
    struct runner *r = context;

    switch (c->kind) {
    case CONTROL_INPUT:
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        r->inputs[c->slot] = fd + 1;
        return 0;
    case CONTROL_OPENED:
        if (c->slot < RING_SLOTS && r->runs[c->slot] && c->number != RING_NONE)
            r->ops->opened(r->context, ring_word(c->generation, c->slot), c->number, (int)c->error, fd);
        return 0;
    case CONTROL_ASK:
        r->ops->ping(r->context, c->number);
        return 0;
    case CONTROL_FINISH:
        runner_leave(r);
        return 0;
    default:
        return -EOPNOTSUPP;
    }
}

static void on_kill(void *context)
{
    struct runner *r = context;

    r->killed = true;
    r->ops->kill(r->context);
}

/* --- coming and going --------------------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t n = strlen(name);

    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != n || *name == '-' ||
        *name == '.')
        return false;
    return n > 0 && n < 64 && !(n > 3 && strcmp(name + n - 3, ".so") == 0);
}

static bool is_plugin(struct jobs *jobs, const char *name)
{
    _cleanup_(freep) char *names = NULL;
    size_t size = 0;

    if (jobs_plugin_names(jobs, &names, &size) < 0)
        return false;
    for (size_t at = 0; at < size; at += strlen(names + at) + 1)
        if (strcmp(names + at, name) == 0)
            return true;
    return false;
}

/* 0, or a code with the refusal. */
static int refuses(struct jobs *jobs, const struct runner_offer *o, char ret[static 256])
{
    const struct user *user = user_get(jobs, o->uid);
    uint32_t n_runners, n_names;

    if (!is_name(o->name)) {
        snprintf(ret, 256,
                 "the name of a runner is 1 to 63 of letters, digits, `_`, `-` and `.`, begins with none of "
                 "the last two, and does not end in .so");
        return CODE_USAGE;
    }
    if (is_plugin(jobs, o->name)) {
        snprintf(ret, 256, "%s is a plugin in wsd's plugin directories: a runner needs another name", o->name);
        return CODE_USAGE;
    }
    if (jobs->draining) {
        snprintf(ret, 256, "wsd is ending: connect again");
        return CODE_BUSY;
    }
    count(jobs, o->uid, &n_runners, &n_names);
    if (n_runners >= RUNNERS_PER_USER) {
        snprintf(ret, 256, "this user has %u runners, as many as may be", n_runners);
        return CODE_BUSY;
    }
    if (!user || user->n_fds + async_close_pending(o->uid) >= jobs->max_fd / 2) {
        snprintf(ret, 256, "too many descriptors of this user: close some, or try again later");
        return CODE_BUSY;
    }
    if (n_names >= RUNNERS_NAMES && !runners_named(jobs, o->uid, o->name)) {
        snprintf(ret, 256, "the runners of this user have %u names, as many as may be", RUNNERS_NAMES);
        return CODE_BUSY;
    }
    return 0;
}

static struct plugin_function *function_of(struct plugin *p, const struct runner_function *f)
{
    for (uint32_t i = 0; i < p->n_functions; i++)
        if (strcmp(p->functions[i].name, f->name) == 0)
            return &p->functions[i];
    return plugin_function_add(p, f->name, "", 0);
}

/* False: no memory, and the old text stays. */
static bool replace_words(char **words, const char *said)
{
    char clean[JOB_TEXT];

    escape_text(clean, sizeof(clean), said);
    char *copy = strdup(clean);
    if (!copy)
        return false;
    free(*words);
    *words = copy;
    return true;
}

/* The newest offer says what a function is. */
static int describe(struct runner *r, const struct runner_offer *o)
{
    struct plugin *p = r->of->plugin;

    for (size_t i = 0; i < o->n_functions; i++) {
        struct plugin_function *f = function_of(p, &o->functions[i]);

        if (!f || !replace_words(&f->help, o->functions[i].help))
            return -ENOMEM;
        f->flags = o->functions[i].flags & (WSD_FN_IDEMPOTENT | WSD_FN_STREAMING);
        r->functions |= UINT64_C(1) << (f - p->functions);
    }
    if (!p->name)
        p->name = strdup(o->name); /* jobs may use it from now on */
    return p->name && replace_words(&p->version, o->version) && replace_words(&p->help, o->help) ? 0 : -ENOMEM;
}

static int start(struct runner *r, const struct runner_offer *o)
{
    struct jobs *jobs = r->of->domain->jobs;
    struct domain *d = domain_new(jobs, o->uid);

    if (!d)
        return -ENOMEM;
    r->executor = (struct executor_runner){.packet = on_packet, .kill = on_kill, .context = r};
    const struct executor_options options = {.base = jobs->options.base,
                                             .owner = o->uid,
                                             .number = ++jobs->executors->next_executor,
                                             .ops = jobs->executors->ops,
                                             .context = d};
    int s = executor_new_runner(&d->priv->executor, &options, &r->executor);
    if (s == 0) {
        struct front *f = &d->priv->executor->front;

        r->back = aligned_alloc(_Alignof(struct back), sizeof(*r->back));
        s = r->back ? back_init(r->back, f->down_fd, f->up_fd, f->bell_fd) : -ENOMEM;
        f->down_fd = close_fd(f->down_fd);
        f->up_fd = close_fd(f->up_fd);
    }
    if (s < 0) {
        free(r->back);
        domain_free(d);
        return s;
    }
    d->front = &d->priv->executor->front;
    d->executor_number = options.number;
    d->priv->runner = r;
    d->successor = r->of->domain;
    r->domain = d;
    return 0;
}

int runner_new(struct jobs *jobs, const struct runner_offer *o, const struct runner_ops *ops, void *context,
               struct runner **ret_runner, int *ret_code, char ret_refusal[static 256])
{
    *ret_code = refuses(jobs, o, ret_refusal); /* which may forget names */
    if (*ret_code)
        return -EINVAL;
    struct runners *g = runners_named(jobs, o->uid, o->name);
    if (!g)
        g = make(jobs, o->uid, o->name);
    struct runner *r = g ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return -ENOMEM;
    *r = (struct runner){.of = g,
                         .ops = ops,
                         .context = context,
                         .credit = MIN(o->credit, RING_SLOTS),
                         .pid = o->pid,
                         .user = user_get(jobs, o->uid)};
    list_init(&r->blocked);
    list_init(&r->link);
    int s = describe(r, o);
    if (s == 0)
        s = start(r, o);
    if (s == 0) {
        list_push_back(&g->all, &r->link);
        g->n++;
        r->user->n_fds++; /* the bell */
        log_info("runner %u: %s of uid %u, pid %d, takes %u at once", r->domain->executor_number, g->name, g->uid,
                 r->pid, r->credit);
    }
    offer_changed(g);
    if (s < 0) {
        free(r);
        return s;
    }
    *ret_runner = r;
    return 0;
}

void runner_leave(struct runner *r)
{
    r->leaving = true;
    offer_changed(r->of);
    r->domain->priv->n_unrung++; /* runner_turn() in this turn of the loop or the next */
}

struct runner *runner_free(struct runner *r, const char *why)
{
    if (!r)
        return NULL;
    struct runners *g = r->of;
    struct domain *d = r->domain;

    r->killed = true;
    list_remove(&r->link);
    g->n--;
    r->user->n_fds--;
    for (uint32_t i = 0; i < RING_SLOTS; i++) {
        if (r->runs[i])
            run_free(r->runs[i]);
        async_close(runner_take_input(r, i), d->key);
    }
    back_deinit(r->back);
    free(r->back);
    d->priv->finishing = !why;
    executor_runner_gone(d->priv->executor, why); /* which frees the domain */
    free(r);
    offer_changed(g);
    return NULL;
}
