/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c: functions and plugins that are paused, or of which only so many jobs run at once; and the drain.
 * Owns the gates and the jobs that wait at them. [loop]
 * A gate is at the way from a domain's queue to its executor: a job that comes to a closed one waits there, in a queue
 * like that of the domain, and goes back to the head of its lane when it may go on. So whoever is behind it does not
 * wait for it.
 * Keeps: a gate is there while it is paused or has a limit, and counts what is handed over from its first moment on;
 * no more are handed over than its limit. Jobs that wait here are QUEUED.
 * Does not know why: who may close a gate is its caller's business. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "jobs/job.h"

#define MOVES_A_TURN 1024u /* jobs that go to a gate, or from one, before the loop looks at something else */

#define GATES 3 /* at most on the way of a job: its plugin's, its function's, its user's */

struct gate {
    struct hash_link by_name;
    char *plugin, *function; /* function "": all of the plugin */
    struct user *user;       /* instead of both, there while some of his jobs are too many (max-running-per-user) */
    struct list link;        /* jobs->user_gates */
    bool paused;
    uint32_t limit;    /* 0: any number */
    uint32_t n_inside; /* handed over */
    uint32_t n_out;    /* let go on, and not handed over yet */
    struct queue queue;
};

static uint64_t key_of(const char *plugin, const char *function)
{
    const char *name;
    size_t n = plugin_base_name(plugin, &name);

    return hash_text(hash_text(0, name, n), function, strlen(function));
}

static bool is_named(const struct gate *g, const char *plugin, const char *function)
{
    const char *name;
    size_t n = plugin_base_name(plugin, &name);

    return strlen(g->plugin) == n && memcmp(g->plugin, name, n) == 0 && strcmp(g->function, function) == 0;
}

static struct gate *find(const struct jobs *jobs, const char *plugin, const char *function)
{
    for (struct hash_link *l = hash_first(&jobs->gates, key_of(plugin, function)); l; l = hash_next(l)) {
        struct gate *g = container_of(l, struct gate, by_name);

        if (is_named(g, plugin, function))
            return g;
    }
    return NULL;
}

/* Its plugin's, its function's, its user's. The first two are looked for only where there is any gate. */
static void gates_of(const struct job *job, struct gate *ret[static GATES])
{
    const struct jobs *jobs = job->domain->jobs;

    ret[0] = ret[1] = NULL;
    ret[2] = job->user->gate;
    if (jobs->gates.n == 0)
        return;
    ret[0] = find(jobs, job->plugin->request, "");
    ret[1] = job_function(job) && *job_function(job)->name ? find(jobs, job->plugin->request, job_function(job)->name) : NULL;
}

static bool is_open(const struct gate *g)
{
    return !g->paused && (!g->limit || g->n_inside + g->n_out < g->limit);
}

/* Whether one that was let go on from here still has its place. */
static bool is_open_for(const struct gate *g, const struct job *job, uint8_t out)
{
    return is_open(g) || (job->gate & out && !g->paused && g->n_inside + g->n_out <= g->limit);
}

bool gate_known(const struct jobs *jobs, const char *plugin, const char *function)
{
    return jobs->gates.n && (find(jobs, plugin, "") || find(jobs, plugin, function));
}

static const uint8_t at_of[GATES] = {GATE_AT_PLUGIN, GATE_AT_FUNCTION, GATE_AT_USER};
static const uint8_t out_of[GATES] = {GATE_OUT_PLUGIN, GATE_OUT_FUNCTION, GATE_OUT_USER};

static void forget_out(struct job *job, struct gate *gates[static GATES])
{
    for (int i = 0; i < GATES; i++)
        if (job->gate & out_of[i] && gates[i])
            gates[i]->n_out--;
    job->gate = 0;
}

static void wait_at(struct job *job, struct gate *gates[static GATES], int i)
{
    queue_take(&job->domain->queue, job);
    forget_out(job, gates);
    job->gate = at_of[i];
    queue_put(&gates[i]->queue, job, false);
    job->domain->jobs->gates_due = true;
}

static uint32_t user_limit(const struct jobs *jobs)
{
    return (uint32_t)MIN(jobs->options.limits.running_per_user, (uint64_t)UINT32_MAX);
}

/* Where his jobs wait that are too many; made where there is none yet. NULL: no memory. */
static struct gate *gate_of_user(struct jobs *jobs, struct user *user)
{
    struct gate *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->user = user;
    g->limit = user_limit(jobs);
    g->n_inside = user->n_running;
    queue_init(&g->queue, &jobs->lanes, &jobs->counters.n_queued);
    list_push_back(&jobs->user_gates, &g->link);
    user->gate = g;
    return g;
}

bool gate_lets(struct job *job)
{
    uint64_t most = job->domain->jobs->options.limits.running_per_user;
    struct gate *gates[GATES];

    gates_of(job, gates);
    if (most && !gates[2] && job->user->n_running >= most)
        gates[2] = gate_of_user(job->domain->jobs, job->user);
    if (gates[2])
        gates[2]->limit = user_limit(job->domain->jobs); /* it may just have changed */
    for (int i = 0; i < GATES; i++)
        if (gates[i] && !is_open_for(gates[i], job, out_of[i])) {
            wait_at(job, gates, i);
            return false;
        }
    return true;
}

void job_unqueue(struct job *job)
{
    struct gate *gates[GATES];

    gates_of(job, gates);
    for (int i = 0; i < GATES; i++)
        if (job->gate & at_of[i]) {
            queue_take(&gates[i]->queue, job);
            job->gate = 0;
            return;
        }
    queue_take(&job->domain->queue, job);
    if (job->gate)
        job->domain->jobs->gates_due = true;
    forget_out(job, gates);
}

static void count(struct job *job, int by)
{
    struct gate *gates[GATES];

    job->user->n_running = (uint32_t)((int)job->user->n_running + by);
    gates_of(job, gates);
    for (int i = 0; i < GATES; i++)
        if (gates[i]) {
            gates[i]->n_inside = (uint32_t)((int)gates[i]->n_inside + by);
            job->domain->jobs->gates_due |= by < 0;
        }
}

void gate_entered(struct job *job)
{
    count(job, 1);
}

void gate_left(struct job *job)
{
    count(job, -1);
}

/* --- the turn ------------------------------------------------------------------------------------------------------- */

static struct gate *gate_free(struct gate *g)
{
    if (g) {
        free(g->plugin);
        free(g->function);
        free(g);
    }
    return NULL;
}

static void user_gate_free(struct gate *g)
{
    g->user->gate = NULL;
    list_remove(&g->link);
    gate_free(g);
}

static bool is_needed(const struct gate *g)
{
    if (g->user)
        return g->queue.n || g->n_out;
    return g->paused || g->limit || g->queue.n || g->n_out;
}

/* Lets as many go on as may. Each may come to the other one of its gates next. */
static uint32_t let_go_on(struct gate *g, uint32_t most)
{
    struct list out;
    uint32_t n = 0;

    list_init(&out);
    for (; n < most && g->queue.n && is_open(g); n++) {
        struct job *job = queue_first(&g->queue);

        queue_turn(&g->queue, job);
        queue_take(&g->queue, job);
        job->gate = g->user ? GATE_OUT_USER : *g->function ? GATE_OUT_FUNCTION : GATE_OUT_PLUGIN;
        g->n_out++;
        list_push_front(&out, &job->link);
    }
    /* from the last to the first, each to the head of its lane: so their order stays */
    for (struct list *l; (l = list_pop_front(&out));)
        queue_put(&container_of(l, struct job, link)->domain->queue, container_of(l, struct job, link), true);
    return n;
}

void gates_turn(struct jobs *jobs)
{
    uint32_t left = MOVES_A_TURN;

    if (!jobs->gates_due)
        return;
    jobs->gates_due = false;
    for (size_t i = 0; i < jobs->gates.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.buckets[i], *next; l; l = next) {
            struct gate *g = container_of(l, struct gate, by_name);

            next = l->next;
            left -= let_go_on(g, left);
            if (g->queue.n && is_open(g))
                jobs->gates_due = true;
            if (!is_needed(g)) {
                hash_remove(&jobs->gates, &g->by_name);
                gate_free(g);
            }
        }
    list_for_each_safe(l, n, &jobs->user_gates)
    {
        struct gate *g = container_of(l, struct gate, link);

        g->limit = user_limit(jobs);
        left -= let_go_on(g, left);
        if (g->queue.n && is_open(g))
            jobs->gates_due = true;
        if (!is_needed(g))
            user_gate_free(g);
    }
    list_for_each(l, &jobs->domains) domain_pump(container_of(l, struct domain, link));
}

void gates_free(struct jobs *jobs)
{
    list_for_each_safe(l, n, &jobs->user_gates) user_gate_free(container_of(l, struct gate, link));
    for (size_t i = 0; i < jobs->gates.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.buckets[i], *next; l; l = next) {
            next = l->next;
            gate_free(container_of(l, struct gate, by_name));
        }
    hash_deinit(&jobs->gates);
}

/* --- what is asked for ---------------------------------------------------------------------------------------------- */

static bool goes_through(const struct job *job, const struct gate *g)
{
    return is_named(g, job->plugin->request, *g->function && job_function(job) ? job_function(job)->name : "");
}

static struct gate *make(struct jobs *jobs, const char *plugin, const char *function)
{
    struct gate *g = find(jobs, plugin, function);
    const char *name;
    size_t n = plugin_base_name(plugin, &name);

    if (g || jobs->gates.n >= JOBS_GATES)
        return g;
    g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->plugin = strndup(name, n);
    g->function = strdup(function);
    queue_init(&g->queue, &jobs->lanes, &jobs->counters.n_queued);
    if (!g->plugin || !g->function || hash_insert(&jobs->gates, &g->by_name, key_of(plugin, function)) < 0)
        return gate_free(g);
    list_for_each(l, &jobs->domains)
    {
        const struct domain *d = container_of(l, struct domain, link);

        list_for_each(h, &d->handed) g->n_inside += goes_through(container_of(h, struct job, link), g);
    }
    return g;
}

static int set_gate(struct jobs *jobs, const struct jobs_gate_request *r)
{
    bool opens = r->action == JOBS_GATE_RESUME || (r->action == JOBS_GATE_LIMIT && r->limit == 0);
    struct gate *g = opens ? find(jobs, r->plugin, r->function) : make(jobs, r->plugin, r->function);

    if (!g)
        return opens ? -ENOENT : jobs->gates.n >= JOBS_GATES ? -ENOSPC : -ENOMEM;
    if (r->action == JOBS_GATE_LIMIT)
        g->limit = r->limit;
    else
        g->paused = r->action == JOBS_GATE_PAUSE;
    return 0;
}

static void log_gate(const struct jobs_gate_request *r)
{
    static const char *const words[] = {"", "paused", "resumed", "drained", "limited to"};
    char who[32] = "the configuration", limit[16] = "";

    if (r->uid != JOBS_BY_CONFIGURATION)
        snprintf(who, sizeof(who), "user %u", r->uid);
    if (r->limit)
        snprintf(limit, sizeof(limit), " %u", r->limit);
    const struct log_about about = {.plugin = *r->plugin ? r->plugin : NULL,
                                    .function = r->function,
                                    .uid = r->uid == JOBS_BY_CONFIGURATION ? NULL : &r->uid};
    log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &about, "%s%s%s: %s%s by %s", *r->plugin ? r->plugin : "all functions", *r->function ? ":" : "", r->function,
               r->action == JOBS_GATE_LIMIT && !r->limit ? "limited no more" : words[r->action], limit, who);
}

int jobs_gate(struct jobs *jobs, const struct jobs_gate_request *r)
{
    int n = 0;

    if (*r->plugin && r->action != JOBS_GATE_DRAIN) {
        n = set_gate(jobs, r);
    } else if (*r->plugin || r->action == JOBS_GATE_LIMIT) {
        return -EINVAL;
    } else if (r->action == JOBS_GATE_DRAIN) {
        jobs->drained = true;
    } else {
        jobs->paused = r->action == JOBS_GATE_PAUSE;
        jobs->drained &= jobs->paused;
    }
    if (n < 0)
        return n;
    log_gate(r);
    lanes_review(jobs);
    jobs->gates_due = true; /* also where there is none: all domains look at their queues */
    return 0;
}

void jobs_gates(struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata), void *userdata)
{
    struct jobs_counters n;

    jobs_counters(jobs, &n);
    const struct jobs_gate_info all = {.plugin = "",
                                       .function = "",
                                       .paused = jobs->paused,
                                       .drained = jobs->drained || jobs->draining,
                                       .running = n.n_handed + n.direct_running,
                                       .waiting = n.n_open - n.n_handed};

    each(&all, userdata);
    for (size_t i = 0; i < jobs->gates.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.buckets[i]; l; l = l->next) {
            const struct gate *g = container_of(l, struct gate, by_name);
            const struct jobs_gate_info info = {.plugin = g->plugin,
                                                .function = g->function,
                                                .paused = g->paused,
                                                .limit = g->limit,
                                                .running = g->n_inside,
                                                .waiting = g->queue.n};

            each(&info, userdata);
        }
}
