/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c: gates, which pause or limit functions, plugins, tags and users; and the drain.
 * Owns the gates and the jobs that wait at them. [loop]
 * A gate stands between a domain's queue and its executor. A job that comes to a closed one waits there, in a queue
 * like that of the domain. So the jobs behind it do not wait for it. When it may go on, it goes back to the head of its
 * flow.
 * Keeps: a gate exists while it is paused or has a limit, and counts hand-overs from its first moment on; no more are
 * handed over than its limit. Jobs that wait here are QUEUED.
 * Does not hand over, or know which user closes a gate (gate-control.c). */
#include "table/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sched/fair-slots.h"
#include "sched/limiter.h"
#include "table/admission.h"
#include "table/gates.h"
#include "table/job-trace.h"
#include "table/plugin-names.h"
#include "table/queue.h"

#define MOVES_A_TURN 128u /* jobs that go to a gate, or from one, before the loop looks at something else */

struct gate {
    struct hash_link by_name;
    char *plugin, *function; /* function "": all of the plugin */
    char *tag;               /* not "": of all jobs that have it, and the others are "" */
    /* in place of the names: a gate of this user, which exists while jobs exceed max-running-per-user */
    struct user *user;
    struct list link;       /* jobs->gates.of_users */
    struct limiter limiter; /* inside: handed over */
};

/* The names by which a gate is found; with lengths, since a name may be a part of a text. */
struct name {
    const char *plugin, *function, *tag;
    size_t n_plugin, n_tag;
};

/* What is asked for as ./dir/name.so is name here. */
static struct name name_of(const char *plugin, const char *function)
{
    struct name n = {.function = function, .tag = ""};

    n.n_plugin = plugin_base_name(plugin, &n.plugin);
    return n;
}

static struct name name_of_tag(const char *tag, size_t size)
{
    return (struct name){.plugin = "", .function = "", .tag = tag, .n_tag = size};
}

static uint64_t key_of(struct name n)
{
    return hash_text(hash_text(hash_text(0, n.plugin, n.n_plugin), n.function, strlen(n.function)), n.tag, n.n_tag);
}

static bool is_named(const struct gate *g, struct name n)
{
    return strlen(g->plugin) == n.n_plugin && memcmp(g->plugin, n.plugin, n.n_plugin) == 0 &&
           strcmp(g->function, n.function) == 0 && strlen(g->tag) == n.n_tag && memcmp(g->tag, n.tag, n.n_tag) == 0;
}

static struct gate *find(const struct jobs *jobs, struct name n)
{
    for (struct hash_link *l = hash_first(&jobs->gates.by_name, key_of(n)); l; l = hash_next(l)) {
        struct gate *g = container_of(l, struct gate, by_name);

        if (is_named(g, n))
            return g;
    }
    return NULL;
}

/* The names of the gates that the job may pass; .plugin NULL: none. */
static void names_of(const struct job *job, struct name ret[static JOB_GATES])
{
    const char *at = job->more && job->more->tags ? job->more->tags : "";

    memset(ret, 0, JOB_GATES * sizeof(*ret));
    ret[GATE_OF_PLUGIN] = name_of(job->plugin->request, "");
    if (job_function(job) && *job_function(job)->name)
        ret[GATE_OF_FUNCTION] = name_of(job->plugin->request, job_function(job)->name);
    for (int i = GATE_OF_TAG; i < GATE_OF_USER && *at; i++) {
        size_t size = strcspn(at, ",");

        ret[i] = name_of_tag(at, size);
        at += size + (at[size] == ',');
    }
}

/* Whether there may be gates for the job; mostly there are none at all. */
static bool has_gates(const struct job *job)
{
    return job->domain->jobs->gates.by_name.n || job->user->gate;
}

/* Those that are there; the user's is at hand. */
static void gates_of(const struct job *job, struct gate *ret[static JOB_GATES])
{
    const struct jobs *jobs = job->domain->jobs;
    struct name names[JOB_GATES];

    memset(ret, 0, JOB_GATES * sizeof(*ret));
    ret[GATE_OF_USER] = job->user->gate;
    if (jobs->gates.by_name.n == 0)
        return;
    names_of(job, names);
    for (int i = 0; i < GATE_OF_USER; i++) {
        ret[i] = names[i].plugin ? find(jobs, names[i]) : NULL;
        for (int k = GATE_OF_TAG; k < i; k++)
            if (ret[i] == ret[k])
                ret[i] = NULL; /* a tag that is there twice is there once */
    }
}

bool gate_known(const struct jobs *jobs, const char *plugin, const char *function)
{
    return jobs->gates.by_name.n && (find(jobs, name_of(plugin, "")) || find(jobs, name_of(plugin, function)));
}

static void forget_out(struct job *job, struct gate *gates[static JOB_GATES])
{
    for (int i = 0; i < JOB_GATES; i++)
        if (job->gate & GATE_OUT(i) && gates[i])
            gates[i]->limiter.n_out--;
    job->gate = 0;
}

static void wait_at(struct job *job, struct gate *gates[static JOB_GATES], int i)
{
    queue_take(&job->domain->queue, job);
    forget_out(job, gates);
    job->gate = (unsigned)(i + 1) & GATE_AT;
    queue_put(&gates[i]->limiter.queue, job, false);
    job->domain->jobs->gates.due = true;
    job_trace_event(job, JOB_TRACE_GATE);
}

static uint32_t user_limit(const struct jobs *jobs, const struct user *user)
{
    return (uint32_t)MIN(user_limits(jobs, user)->running_per_user, (uint64_t)UINT32_MAX);
}

/* The gate where the user's jobs above the limit wait; made if missing. NULL: no memory. */
static struct gate *gate_of_user(struct jobs *jobs, struct user *user)
{
    struct gate *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->user = user;
    limiter_init(&g->limiter, &jobs->flows, &jobs->counters.n_queued);
    g->limiter.limit = user_limit(jobs, user);
    g->limiter.n_inside = user->n_running;
    list_push_back(&jobs->gates.of_users, &g->link);
    user->gate = g;
    return g;
}

static bool gates_let(struct job *job, uint64_t most)
{
    struct gate *gates[JOB_GATES], **user = &gates[GATE_OF_USER];

    gates_of(job, gates);
    if (most && !*user && job->user->n_running >= most)
        *user = gate_of_user(job->domain->jobs, job->user);
    if (*user)
        (*user)->limiter.limit = user_limit(job->domain->jobs, job->user); /* it may just have changed */
    for (int i = 0; i < JOB_GATES; i++)
        if (gates[i] && !limiter_admits(&gates[i]->limiter, job->gate & GATE_OUT(i))) {
            wait_at(job, gates, i);
            return false;
        }
    return true;
}

bool gate_lets(struct job *job)
{
    uint64_t most = user_limits(job->domain->jobs, job->user)->running_per_user;

    return (!most && !has_gates(job)) || gates_let(job, most);
}

static void leave_gates(struct job *job)
{
    struct gate *gates[JOB_GATES];

    gates_of(job, gates);
    if (job->gate & GATE_AT) {
        queue_take(&gates[(job->gate & GATE_AT) - 1]->limiter.queue, job);
        job->gate = 0;
        return;
    }
    queue_take(&job->domain->queue, job);
    job->domain->jobs->gates.due = true;
    forget_out(job, gates);
}

void job_unqueue(struct job *job)
{
    if (job->gate)
        leave_gates(job);
    else
        queue_take(&job->domain->queue, job);
}

static void count_inside(struct job *job, int by)
{
    struct gate *gates[JOB_GATES];

    gates_of(job, gates);
    for (int i = 0; i < JOB_GATES; i++)
        if (gates[i]) {
            gates[i]->limiter.n_inside = (uint32_t)((int)gates[i]->limiter.n_inside + by);
            job->domain->jobs->gates.due |= by < 0;
        }
}

void gate_entered(struct job *job)
{
    job->user->n_running += job_count(job);
    job->domain->jobs->run_slots.n_running += job_count(job);
    if (has_gates(job))
        count_inside(job, (int)job_count(job));
}

void gate_left(struct job *job)
{
    job->user->n_running -= job_count(job);
    job->domain->jobs->run_slots.n_running -= job_count(job);
    fair_slots_left(&job->domain->jobs->run_slots);
    if (has_gates(job))
        count_inside(job, -(int)job_count(job));
}

/* --- the turn ----------------------------------------------------------------------------------------------------- */

static struct gate *gate_free(struct gate *g)
{
    if (g) {
        free(g->plugin);
        free(g->function);
        free(g->tag);
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
    return limiter_has_items(&g->limiter) || (!g->user && (g->limiter.paused || g->limiter.limit));
}

/* Which of its gates it is. */
static unsigned out_of(const struct gate *g, const struct job *job)
{
    struct gate *gates[JOB_GATES];
    int i = 0;

    gates_of(job, gates);
    while (i < JOB_GATES - 1 && gates[i] != g)
        i++;
    return GATE_OUT(i);
}

/* Lets as many jobs go on as may. Each may come to another one of its gates next. */
static uint32_t let_go_on(struct gate *g, uint32_t most, uint64_t before_usec)
{
    struct list out;
    uint32_t n = 0;

    list_init(&out);
    for (struct list *item; n < most && (item = limiter_next(&g->limiter, before_usec, queue_accepted_usec)); n++) {
        struct job *job = queue_job(item);

        limiter_let(&g->limiter, item, queue_key(job));
        job->gate = out_of(g, job) & JOB_GATE_BITS;
        job_trace_state(job);
        list_push_front(&out, &job->link);
    }
    /* from the last to the first, each to the head of its flow: so their order stays */
    for (struct list *l; (l = list_pop_front(&out));)
        queue_put(&container_of(l, struct job, link)->domain->queue, container_of(l, struct job, link), true);
    return n;
}

bool gates_turn(struct jobs *jobs)
{
    uint64_t now, ageing = jobs->options.limits.ageing_usec, before_usec;
    uint32_t left = MOVES_A_TURN;

    if (!jobs->gates.due)
        return false;
    now = clock_monotonic_usec();
    before_usec = now > ageing ? now - ageing : 0; /* jobs accepted before this have waited for long */
    jobs->gates.due = false;
    for (size_t i = 0; i < jobs->gates.by_name.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.by_name.buckets[i], *next; l; l = next) {
            struct gate *g = container_of(l, struct gate, by_name);

            next = l->next;
            left -= let_go_on(g, left, before_usec);
            if (limiter_is_ready(&g->limiter))
                jobs->gates.due = true;
            if (!is_needed(g)) {
                hash_remove(&jobs->gates.by_name, &g->by_name);
                gate_free(g);
            }
        }
    list_for_each_safe (l, n, &jobs->gates.of_users) {
        struct gate *g = container_of(l, struct gate, link);

        g->limiter.limit = user_limit(jobs, g->user);
        left -= let_go_on(g, left, before_usec);
        if (limiter_is_ready(&g->limiter))
            jobs->gates.due = true;
        if (!is_needed(g))
            user_gate_free(g);
    }
    return true;
}

void gates_free(struct jobs *jobs)
{
    list_for_each_safe (l, n, &jobs->gates.of_users)
        user_gate_free(container_of(l, struct gate, link));
    for (size_t i = 0; i < jobs->gates.by_name.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.by_name.buckets[i], *next; l; l = next) {
            next = l->next;
            gate_free(container_of(l, struct gate, by_name));
        }
    hash_deinit(&jobs->gates.by_name);
}

/* --- what is asked for -------------------------------------------------------------------------------------------- */

static bool goes_through(const struct job *job, const struct gate *g)
{
    struct name names[JOB_GATES];
    bool through = false;

    names_of(job, names);
    for (int i = 0; i < JOB_GATES; i++)
        through |= names[i].plugin && is_named(g, names[i]);
    return through;
}

static struct gate *make(struct jobs *jobs, struct name n)
{
    struct gate *g = find(jobs, n);

    if (g || jobs->gates.by_name.n >= JOBS_GATES)
        return g;
    g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->plugin = strndup(n.plugin, n.n_plugin);
    g->function = strdup(n.function);
    g->tag = strndup(n.tag, n.n_tag);
    limiter_init(&g->limiter, &jobs->flows, &jobs->counters.n_queued);
    if (!g->plugin || !g->function || !g->tag || hash_insert(&jobs->gates.by_name, &g->by_name, key_of(n)) < 0)
        return gate_free(g);
    list_for_each_entry (const struct domain, d, &jobs->domains, link) {
        list_for_each_entry (const struct job, job, &d->handed, link) {
            g->limiter.n_inside += goes_through(job, g) ? job_count(job) : 0;
        }
    }
    return g;
}

int gate_set(struct jobs *jobs, const struct jobs_gate_request *r)
{
    bool opens = r->action == JOBS_GATE_RESUME || (r->action == JOBS_GATE_LIMIT && r->limit == 0);
    struct name n = *r->tag ? name_of_tag(r->tag, strlen(r->tag)) : name_of(r->plugin, r->function);
    struct gate *g = opens ? find(jobs, n) : make(jobs, n);

    if (!g)
        return opens ? -ENOENT : jobs->gates.by_name.n >= JOBS_GATES ? -ENOSPC : -ENOMEM;
    if (r->action == JOBS_GATE_LIMIT)
        g->limiter.limit = r->limit;
    else
        g->limiter.paused = r->action == JOBS_GATE_PAUSE;
    return 0;
}

void gates_each(const struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata),
                void *userdata)
{
    for (size_t i = 0; i < jobs->gates.by_name.n_buckets; i++)
        for (struct hash_link *l = jobs->gates.by_name.buckets[i]; l; l = l->next) {
            const struct gate *g = container_of(l, struct gate, by_name);
            const struct jobs_gate_info info = {.plugin = g->plugin,
                                                .function = g->function,
                                                .tag = g->tag,
                                                .paused = g->limiter.paused,
                                                .limit = g->limiter.limit,
                                                .running = g->limiter.n_inside,
                                                .waiting = g->limiter.queue.n};

            each(&info, userdata);
        }
}
