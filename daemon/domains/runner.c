/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.c: runners: clients that take jobs over their connections.
 * Owns the names that runners have offered, the runners, and what they have said and the rings have not taken yet.
 * [loop]
 * Keeps: a runner is to wsd what an executor is. Its jobs go through rings of its own, of which this file plays the
 * executor's end. So the rules of recovery, cancelling and limits are the same, and there is one place for each.
 * A runner gets jobs of its own user only, at most `credit` at once. It can name only runs that it has.
 * Does not know frames (frontend/serve-runner.c). */
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
#include "domains/health.h"
#include "domains/plugins.h"
#include "ring/back.h"
#include "table/timers.h"

#define SENT_MAX 8u /* pieces of output of one run that wsd may hold before the rest waits here */

/* A job that the runner has. */
struct run {
    struct runner *runner;
    struct list blocked;  /* runner->blocked: its output waits for room in the ring */
    struct buffer output; /* not yet in the ring */
    uint64_t received;    /* bytes of output so far */
    uint64_t started_usec;
    uint32_t slot, generation;
    uint32_t n_sent;
    struct {
        uint32_t chunk;
        uint64_t serial;
    } sent[SENT_MAX]; /* pieces that wsd held when last looked at */
    bool progress, ended;
    /* once ended */
    uint32_t status;
    uint64_t cpu_usec;
    char error[RING_TEXT], text[RING_TEXT];
};

struct runner {
    struct list link; /* runners->all */
    struct runners *of;
    struct domain *domain;
    struct back back;
    struct executor_runner executor;
    const struct runner_ops *ops;
    void *context;
    uint64_t functions; /* those of the name that it offers, as bits */
    uint32_t credit;
    int32_t pid;
    bool leaving, told_left, killed;
    struct list blocked;
    struct run *runs[RING_SLOTS];
    int inputs[RING_SLOTS]; /* descriptors that came ahead of their jobs; 0: none, else the descriptor plus 1 */
};

/* --- the names ---------------------------------------------------------------------------------------------------- */

static uint64_t key_of(uint32_t uid, const char *name)
{
    return hash_text(uid, name, strlen(name));
}

static struct runners *find(const struct jobs *jobs, uint32_t uid, const char *name)
{
    const struct hash *h = &jobs->executors->runners;

    if (h->n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(h, key_of(uid, name)); l; l = hash_next(l)) {
        struct runners *g = container_of(l, struct runners, by_name);

        if (g->uid == uid && strcmp(g->name, name) == 0)
            return g;
    }
    return NULL;
}

struct domain *runners_find(const struct jobs *jobs, uint32_t uid, const char *request)
{
    struct runners *g = find(jobs, uid, request);

    return g && (g->n || g->plugin->state == PLUGIN_READY) ? g->domain : NULL;
}

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

static uint32_t count_names(const struct jobs *jobs, uint32_t uid)
{
    uint32_t n = 0;

    for (size_t i = 0; i < jobs->executors->runners.n_buckets; i++)
        for (struct hash_link *l = jobs->executors->runners.buckets[i]; l; l = l->next)
            n += container_of(l, struct runners, by_name)->uid == uid;
    return n;
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
    if (!g->absent_timer || !g->plugin || hash_insert(&jobs->executors->runners, &g->by_name, key_of(uid, name)) < 0) {
        domain_free(d);
        return NULL;
    }
    g->plugin->retry_usec = UINT64_MAX; /* it is never loaded */
    return g;
}

void runners_words(const struct runners *g, char *text, size_t size)
{
    int n = snprintf(text, size, "runners: %u", g->n);

    list_for_each_entry (const struct runner, r, &g->all, link) {
        if (n > 0 && (size_t)n < size)
            n += snprintf(text + n, size - (size_t)n, " pid=%d", r->pid);
    }
}

/* What no runner offers has no index, and is refused as a function that there is not. */
static void offer_changed(struct runners *g)
{
    char words[JOB_TEXT];
    uint64_t all = 0;

    list_for_each_entry (const struct runner, r, &g->all, link)
        all |= r->leaving ? 0 : r->functions;
    for (uint32_t i = 0; i < g->plugin->n_functions; i++)
        g->plugin->functions[i].index = all >> i & 1 || !g->n ? i : RING_NONE;
    runners_words(g, words, sizeof(words));
    free(g->plugin->path);
    g->plugin->path = strdup(words);
    if (g->n && g->plugin->state != PLUGIN_READY)
        g->plugin->state = PLUGIN_READY;
    if (g->n)
        evtimer_del(g->absent_timer);
    else
        jobs_timer(g->domain->jobs, g->absent_timer, RUNNER_ABSENT_USEC);
    g->domain->priv->unpumped = true;
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

/* --- towards the runner ------------------------------------------------------------------------------------------- */

static int take_input(struct runner *r, uint32_t slot)
{
    int fd = r->inputs[slot] - 1;

    r->inputs[slot] = 0;
    return fd;
}

static void give(struct runner *r, struct run *run, const struct back_request *q)
{
    struct job *job = r->domain->slots[run->slot];
    int fd = q->flags & (DOWN_INPUT_FD | DOWN_INPUT_PIPE) ? take_input(r, run->slot) : -1;
    const struct runner_run o = {
        .run = ring_word(run->generation, run->slot),
        .id = q->id,
        .function = job_function(job)->name,
        .args = q->args,
        .args_size = q->args_size,
        .argc = q->argc,
        .timeout_usec = q->timeout_usec,
        .priority = job->priority,
        .uid = job->user->uid,
        .attempt = job->attempts,
        .directory = q->directory,
        .asks = !(q->flags & DOWN_SAME_USER),
        .input = q->input,
        .input_size = q->input_size,
        .input_at = q->input_at,
        .fd = fd,
        .is_pipe = q->flags & DOWN_INPUT_PIPE,
    };

    r->ops->run(r->context, &o);
    async_close(fd, r->domain->key);
}

/* Takes one job from the ring. False: there is none, or no memory. */
static bool take_one(struct runner *r)
{
    uint32_t generation, usec, slot;
    struct back_request q;
    struct run *run = calloc(1, sizeof(*run));

    if (!run)
        return false;
    slot = back_take(&r->back, &generation, &usec);
    if (slot == RING_NONE) {
        free(run);
        return false;
    }
    uint64_t now = clock_monotonic_usec();
    if (!back_claim(&r->back, slot, generation, now)) { /* it was recalled */
        async_close(take_input(r, slot), r->domain->key);
        free(run);
        return true;
    }
    *run = (struct run){.runner = r, .slot = slot, .generation = generation, .started_usec = now};
    list_init(&run->blocked);
    r->runs[slot] = run;
    if (back_read(&r->back, slot, generation, &q) == 0)
        give(r, run, &q);
    return true;
}

void runner_stop(struct runner *r, uint32_t slot, enum job_stop why)
{
    struct run *run = r->runs[slot];

    if (run && !run->ended)
        r->ops->stop(r->context, ring_word(run->generation, slot),
                     why == STOP_TIMEOUT ? RUNNER_TIMED_OUT : RUNNER_CANCELLED);
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

/* --- towards wsd -------------------------------------------------------------------------------------------------- */

static struct run *run_of(struct runner *r, uint64_t run)
{
    uint32_t slot = (uint32_t)run;
    struct run *found = slot < RING_SLOTS ? r->runs[slot] : NULL;

    return found && found->generation == run >> 32 && !found->ended ? found : NULL;
}

static const char *no_run(void)
{
    return "a run that this runner does not have";
}

static void run_free(struct run *run)
{
    list_remove(&run->blocked);
    buffer_deinit(&run->output);
    run->runner->runs[run->slot] = NULL;
    free(run);
}

/* Its output is in the ring, but for the rest, which goes with the answer. */
static void seal(struct run *run)
{
    struct back *b = &run->runner->back;
    struct up_slot *u = back_answer(b, run->slot);
    size_t rest = buffer_size(&run->output);
    uint64_t now = clock_monotonic_usec(), most = (now - run->started_usec + 1) * JOBS_WORKERS_MAX;

    if (rest)
        memcpy(back_small(b, run->slot), buffer_data(&run->output), rest);
    u->ended_usec = now;
    u->cpu_usec = MIN(run->cpu_usec, most);
    u->output_size = run->received;
    u->small_size = (uint32_t)rest;
    u->small_at = 0;
    u->worker = 0;
    u->exit = (int32_t)run->status;
    u->messages = 0;
    u->texts = (*run->error || *run->text ? UP_TEXTS : 0u) | (run->progress ? UP_PROGRESS : 0u);
    memcpy(u->error, run->error, sizeof(u->error));
    memcpy(u->status, run->text, sizeof(u->status));
    back_done(b, run->slot, run->generation);
    run_free(run);
}

/* How many of its pieces wsd still holds. */
static uint32_t count_sent(struct run *run)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->n_sent; i++)
        if (back_held(&run->runner->back, run->sent[i].chunk, run->sent[i].serial))
            run->sent[n++] = run->sent[i];
    return run->n_sent = n;
}

/* Moves output into the ring, and seals an answer that is then whole. True: something was done. The run may be freed
 * then. */
static bool flush(struct run *run)
{
    struct back *b = &run->runner->back;
    uint32_t moved = 0;

    while (buffer_size(&run->output) > (run->ended ? RING_SMALL : 0) && count_sent(run) < SENT_MAX) {
        uint32_t n = (uint32_t)MIN(buffer_size(&run->output), (size_t)RING_CHUNK);
        uint64_t serial;
        uint32_t chunk = back_alloc(b, 1, &serial);

        if (chunk == RING_NONE)
            break;
        memcpy(back_chunk(b, chunk), buffer_data(&run->output), n);
        back_output(b, run->slot, run->generation, chunk, 1, n);
        buffer_drop(&run->output, n);
        run->sent[run->n_sent].chunk = chunk;
        run->sent[run->n_sent++].serial = serial;
        moved += n;
    }
    bool waits = buffer_size(&run->output) > (run->ended ? RING_SMALL : 0);
    list_remove(&run->blocked);
    if (waits)
        list_push_back(&run->runner->blocked, &run->blocked);
    if (run->ended && !waits)
        seal(run);
    else if (moved && !run->ended)
        run->runner->ops->credit(run->runner->context, ring_word(run->generation, run->slot), moved);
    return moved || !waits;
}

bool runner_turn(struct runner *r)
{
    bool some = false;

    for (struct list *l = r->blocked.next, *next; l != &r->blocked; l = next) {
        next = l->next;
        if (l == r->blocked.prev)
            next = &r->blocked; /* what is blocked again is behind it */
        some |= flush(container_of(l, struct run, blocked));
    }
    while (!r->killed && back_ready(&r->back) && r->ops->takes(r->context) && take_one(r))
        some = true;
    if (r->leaving && !r->told_left && !r->domain->n_handed) {
        r->told_left = true;
        r->ops->left(r->context);
    }
    return some;
}

/* Puts what was sent behind what is there. NULL, or what is wrong. */
static const char *put(struct run *run, const void *data, size_t size)
{
    if (buffer_size(&run->output) + size > RUNNER_WINDOW + RING_SMALL)
        return "more output than the window and the credits allow";
    if (buffer_put(&run->output, data, size) < 0)
        return "out of memory";
    run->received += size;
    return NULL;
}

const char *runner_output(struct runner *r, uint64_t run, uint64_t offset, const void *data, size_t size)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run();
    if (offset != of->received)
        return "output that does not follow what was sent before";
    const char *why = put(of, data, size);
    if (!why && list_empty(&of->blocked)) /* it goes on in this turn, with what else comes */
        list_push_back(&r->blocked, &of->blocked);
    return why;
}

static void say(struct runner *r, const struct control *c)
{
    struct executor *e = r->domain->priv->executor;

    e->ops->control(e, c, e->context);
}

const char *runner_message(struct runner *r, uint64_t run, uint32_t level, const char *text)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run();
    struct control c = {.kind = CONTROL_MESSAGE, .slot = of->slot, .generation = of->generation, .number = level};
    snprintf(c.text, sizeof(c.text), "%s", text);
    say(r, &c);
    return NULL;
}

const char *runner_progress(struct runner *r, uint64_t run, uint64_t done, uint64_t total)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run();
    of->progress = true;
    back_progress(&r->back, of->slot, of->generation, done, total);
    return NULL;
}

const char *runner_open_file(struct runner *r, uint64_t run, uint32_t serial, const char *path)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run();
    struct control c = {.kind = CONTROL_OPEN, .slot = of->slot, .generation = of->generation, .number = serial};
    snprintf(c.text, sizeof(c.text), "%s", path);
    say(r, &c);
    return NULL;
}

const char *runner_end(struct runner *r, uint64_t run, const struct runner_end *end)
{
    struct run *of = run_of(r, run);
    const char *why = of ? put(of, end->data, end->size) : no_run();

    if (why)
        return why;
    of->ended = true;
    of->status = end->status;
    of->cpu_usec = end->cpu_usec;
    snprintf(of->error, sizeof(of->error), "%s", end->error);
    snprintf(of->text, sizeof(of->text), "%s", end->text);
    flush(of);
    return NULL;
}

const char *runner_pong(struct runner *r, uint32_t serial)
{
    struct control c = {.kind = CONTROL_ASKED, .number = serial};

    say(r, &c);
    return NULL;
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

/* NULL: there is no plugin of this name. */
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
static int refuses(struct jobs *jobs, const struct runner_offer *o, const struct runners *g, char ret[static 256])
{
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
    if (g && g->n >= RUNNERS_PER_NAME) {
        snprintf(ret, 256, "there are %u runners %s of this user, as many as may share a name", g->n, o->name);
        return CODE_BUSY;
    }
    if (!g && count_names(jobs, o->uid) >= RUNNERS_NAMES) {
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
    return plugin_function_add(p, f->name, f->help, f->flags);
}

/* The newest offer says what a function is. */
static int describe(struct runner *r, const struct runner_offer *o)
{
    struct plugin *p = r->of->plugin;
    char words[JOB_TEXT];

    for (size_t i = 0; i < o->n_functions; i++) {
        escape_text(words, sizeof(words), o->functions[i].help);
        struct runner_function clean = o->functions[i];
        clean.help = words;
        clean.flags &= WSD_FN_IDEMPOTENT | WSD_FN_STREAMING;
        struct plugin_function *f = function_of(p, &clean);
        char *help = f ? strdup(words) : NULL;

        if (!help)
            return -ENOMEM;
        free(f->help);
        f->help = help;
        f->flags = clean.flags;
        r->functions |= UINT64_C(1) << (f - p->functions);
    }
    free(p->name);
    free(p->version);
    free(p->help);
    p->name = strdup(o->name);
    escape_text(words, sizeof(words), o->version);
    p->version = strdup(words);
    escape_text(words, sizeof(words), o->help);
    p->help = strdup(words);
    return p->name && p->version && p->help ? 0 : -ENOMEM;
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

        s = back_init(&r->back, f->down_fd, f->up_fd, f->bell_fd);
        f->down_fd = close_fd(f->down_fd);
        f->up_fd = close_fd(f->up_fd);
    }
    if (s < 0) {
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
    struct runners *g = find(jobs, o->uid, o->name);

    *ret_code = refuses(jobs, o, g, ret_refusal);
    if (*ret_code)
        return -EINVAL;
    if (!g)
        g = make(jobs, o->uid, o->name);
    struct runner *r = g ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return -ENOMEM;
    *r = (struct runner){.of = g, .ops = ops, .context = context, .credit = MIN(o->credit, RING_SLOTS), .pid = o->pid};
    list_init(&r->blocked);
    list_init(&r->link);
    int s = describe(r, o);
    if (s == 0)
        s = start(r, o);
    if (s == 0) {
        list_push_back(&g->all, &r->link);
        g->n++;
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
    for (uint32_t i = 0; i < RING_SLOTS; i++) {
        if (r->runs[i])
            run_free(r->runs[i]);
        async_close(take_input(r, i), d->key);
    }
    back_deinit(&r->back);
    d->priv->finishing = !why;
    executor_runner_gone(d->priv->executor, why); /* which frees the domain */
    free(r);
    offer_changed(g);
    return NULL;
}
