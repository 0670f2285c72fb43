/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-life.c: runners come and go.
 * Owns the runners. [loop]
 * Keeps: what a runner is refused for, it is told. Its jobs fall under the rules of recovery when it goes
 * (recover.c). */
#include "domains/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "domains/plugins.h"
#include "domains/runner-admit.h"
#include "domains/runner-wait.h"
#include "table/admission.h"
#include "table/timers.h"

/* --- what a name is ------------------------------------------------------------------------------------------------- */

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
    for (uint32_t i = 0; i < g->plugin->n_functions; i++) /* 0 is the main one */
        g->plugin->functions[i].index = all && !(all >> i & 1) ? RING_NONE : i == g->main ? 0 : i + 1;
    words_of(g, words, sizeof(words));
    free(g->plugin->path);
    g->plugin->path = strdup(words);
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

static struct plugin_function *function_find(const struct plugin *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_functions; i++)
        if (strcmp(p->functions[i].name, name) == 0)
            return &p->functions[i];
    return NULL;
}

/* How many functions the name would have more. */
static uint32_t n_new(const struct plugin *p, const struct runner_offer *o)
{
    uint32_t n = 0;

    for (size_t i = 0; i < o->n_functions; i++)
        n += !function_find(p, o->functions[i].name);
    return n;
}

/* 0, or a code with the refusal. */
static int refuses(struct jobs *jobs, const struct runner_offer *o, char ret[static 256])
{
    const struct user *user = user_get(jobs, o->uid);
    uint32_t n_runners, n_names;

    if (!runners_is_name(o->name)) {
        snprintf(ret, 256,
                 "the name of a runner is 1 to 63 of letters, digits, `_`, `-` and `.`, begins with none of "
                 "the last two, and does not end in .so; that of a place has an @ before it");
        return CODE_USAGE;
    }
    if (runners_is_plugin(jobs, o->name, ret))
        return CODE_USAGE;
    if (plugin_is_elsewhere(o->name) && (o->n_functions != 1 || strcmp(o->functions[0].name, PLACE_FUNCTION) != 0)) {
        snprintf(ret, 256,
                 "what begins with @ is a place: it offers one function, `" PLACE_FUNCTION "`, which gets all");
        return CODE_USAGE;
    }
    if (jobs->draining) {
        snprintf(ret, 256, "wsd is ending: connect again");
        return CODE_BUSY;
    }
    runners_count(jobs, o->uid, &n_runners, &n_names);
    if (n_runners >= RUNNERS_PER_USER) {
        snprintf(ret, 256, "this user has %u runners, as many as may be", n_runners);
        return CODE_BUSY;
    }
    if (!user || user->n_fds + async_close_pending(o->uid) >= jobs->max_fd / 2) {
        snprintf(ret, 256, "too many descriptors of this user: close some, or try again later");
        return CODE_BUSY;
    }
    const struct runners *g = runners_of(jobs, o->uid, o->name);
    const struct runner_rules rules = runners_rules(jobs, o->name);
    if (n_names >= RUNNERS_NAMES && !g && !rules.shared) {
        snprintf(ret, 256, "the runners and waiting jobs of this user have %u names, as many as may be", RUNNERS_NAMES);
        return CODE_BUSY;
    }
    if (rules.max && g && g->n >= rules.max) {
        snprintf(ret, 256, "%s has %u runners, as many as may be ([runner %s] max in wsd.conf)", o->name, g->n,
                 o->name);
        return CODE_BUSY;
    }
    if (g && n_new(g->plugin, o) + g->plugin->n_functions > RUNNER_FUNCTIONS) {
        snprintf(ret, 256,
                 "%s would have more than %u functions, with those of other runners and those that jobs wait for: try "
                 "again when they have gone",
                 o->name, RUNNER_FUNCTIONS);
        return CODE_BUSY;
    }
    return 0;
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

/* What it says of its one function holds for those of every plugin there. */
static void describe_place(struct runner *r)
{
    r->functions = UINT64_MAX;
    list_for_each_entry (struct plugin, p, &r->of->domain->priv->plugins.all, link)
        for (uint32_t i = 0; i < p->n_functions; i++)
            p->functions[i].flags = r->of->plugin->functions[0].flags;
}

/* The newest offer says what a function is. */
static int describe(struct runner *r, const struct runner_offer *o)
{
    struct plugin *p = r->of->plugin;

    for (size_t i = 0; i < o->n_functions; i++) {
        struct plugin_function *f = function_find(p, o->functions[i].name);

        if (!f)
            f = plugin_function_add(p, o->functions[i].name, "", 0);
        if (!f || !replace_words(&f->help, o->functions[i].help))
            return -ENOMEM;
        f->flags = o->functions[i].flags & (WSD_FN_IDEMPOTENT | WSD_FN_STREAMING);
        r->functions |= UINT64_C(1) << (f - p->functions);
        if (i == 0)
            r->of->main = (uint32_t)(f - p->functions);
    }
    if (r->of->place)
        describe_place(r);
    return replace_words(&p->version, o->version) && replace_words(&p->help, o->help) ? 0 : -ENOMEM;
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
    struct runners *g = runners_get(jobs, o->uid, o->name);
    struct runner *r = g ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return -ENOMEM;
    *r = (struct runner){.of = g,
                         .ops = ops,
                         .context = context,
                         .credit = MIN(o->credit, RING_SLOTS),
                         .places = o->places,
                         .pid = o->pid,
                         .since_usec = clock_realtime_usec(),
                         .user = user_get(jobs, o->uid)};
    list_init(&r->blocked);
    list_init(&r->link);
    int s = describe(r, o);
    if (s == 0)
        s = start(r, o);
    if (s == 0) {
        list_push_back(&g->all, &r->link);
        g->n++;
        jobs->counters.n_runners++;
        r->user->n_fds++; /* the bell */
        log_info("runner %u: %s of uid %u, pid %d, takes %u at once", r->domain->executor_number, g->name, o->uid,
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

static void review(struct runners *g)
{
    g->outdated = (g->uid == RUNNERS_SHARED) != runners_rules(g->domain->jobs, g->name).shared;
    list_for_each_entry (struct runner, r, &g->all, link) {
        if (!r->leaving && !r->killed && (g->outdated || !r->ops->may_stay(r->context, g->name))) {
            log_notice("runner %u gets no more jobs: [runner %s] of wsd.conf has changed", r->domain->executor_number,
                       g->name);
            runner_leave(r);
        }
    }
    runners_look(g); /* `wait` may be another one */
    g->domain->priv->unpumped = true;
}

void jobs_review_runners(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->executors->runners.n_buckets; i++)
        for (struct hash_link *l = jobs->executors->runners.buckets[i], *next; l; l = next) {
            next = l->next;
            review(container_of(l, struct runners, by_name));
        }
}

struct runner *runner_free(struct runner *r, const char *why)
{
    if (!r)
        return NULL;
    struct runners *g = r->of;
    struct domain *d = r->domain;

    r->killed = true;
    list_remove(&r->link);
    if (--g->n == 0)
        g->absent_usec = clock_monotonic_usec();
    d->jobs->counters.n_runners--;
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
