/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-lane.c: direct lanes (ring/lane-ring.h) on wsd's side: which users get one, which calls are allowed and for
 * how long, and what becomes of calls when the executor dies.
 * Owns each lane from jobs_lane_open() until the executor has let go of it, or is dead. [loop]
 * Keeps: a lane leads into the executor of its client's own domain. Where there are too many, the one that was idle for
 * longest is taken back for a new client. No more calls of a user run than the user may have
 * jobs. Each call of a dead executor has one verdict. While nothing runs in any lane there is no timer.
 * Does not see each call: it looks at them now and then, in memory that clients cannot write. */
#include "domains/direct-lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/direct-lanes.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/job-breaker.h"
#include "domains/lane-called.h"
#include "domains/lifetime.h"
#include "domains/plugin-lookup.h"
#include "domains/plugins.h"
#include "domains/recycle.h"
#include "ring/lane-ring.h"
#include "table/admission.h"
#include "table/gate.h"
#include "table/plugin-names.h"

#define TICK_USEC   100000u  /* between looks at lanes in which something runs */
#define IDLE_USEC   10000u   /* a lane in which nothing began for so long goes to a client that wants one */
#define WAITED_USEC 3000000u /* a client that waits says so each second */
#define JUDGE_LOOKS 4        /* at a call that changes its state meanwhile: it can do so three times */

/* A number belongs to one function, by its names, for the life of the lane. A call that was pushed may still use it,
 * and so may a client that asks for another one. */
struct bound {
    char *name;              /* NULL: nothing was ever bound */
    char *title;             /* of its plugin, for function-stats.h */
    const char *called;      /* the function's part of `name` */
    struct lane_called told; /* of its calls, what is counted already */
    struct plugin *plugin;   /* NULL: it is not bound now */
    struct plugin_function *function;
    bool idempotent; /* also of what was bound last: calls of it may still run */
};

struct lane {
    struct list link; /* domain->priv->lanes.all */
    struct domain *domain;
    struct user *user;
    struct lane_user *holder; /* NULL: closed; the executor has not let go of it yet */
    struct directory *directory;
    struct lane_front front;
    uint32_t number, credit;
    bool open;               /* the executor has it */
    uint64_t begun, wakes;   /* calls; times that its client was woken: when last looked at */
    uint64_t moved_usec;     /* when one ran, or had since the look before */
    uint64_t cancelled_usec; /* when its calls were cancelled; 0: they were not */
    uint64_t overdue;        /* a bit a call that its executor was killed for */
    struct list binding;     /* struct lane_bind: not answered */
    struct bound bounds[LANE_BINDS];
};

static struct up_lane *up_of(const struct lane *l)
{
    return &l->domain->front->up->lanes[l->number];
}

static bool is_running(const struct lane *l)
{
    return atomic_load_explicit(&up_of(l)->running, memory_order_seq_cst) != 0;
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static void unbind(struct lane *l, uint32_t number)
{
    struct bound *b = &l->bounds[number];

    if (!b->plugin)
        return;
    lane_front_allow(&l->front, number, false);
    b->plugin->n_jobs--;
    b->plugin = NULL;
    b->function = NULL;
}

/* --- what they came to -------------------------------------------------------------------------------------------- */

static struct function_stats *stats_of(struct lane *l, const struct bound *b)
{
    return function_stats_get(l->domain->jobs, l->user, b->title, b->called);
}

/* Counts what the calls of each function have come to since the last time. Returns the number of functions. */
static uint32_t count_calls(struct lane *l)
{
    uint32_t i;

    for (i = 0; i < LANE_BINDS && l->bounds[i].name; i++) {
        struct bound *b = &l->bounds[i];
        struct up_called *called = front_called(l->domain->front, l->number, i);
        struct lane_called now;

        if (lane_called_look(called, &b->told, &now))
            lane_called_take(called, &b->told, &now, stats_of(l, b));
    }
    return i;
}

static void answer_bind(struct lane_bind *b, int code, const char *text)
{
    jobs_lane_forget(b);
    b->answer(b, code, text);
}

static void revoke_all(struct lane *l)
{
    for (uint32_t i = 0; i < LANE_BINDS; i++)
        unbind(l, i);
    while (!list_empty(&l->binding))
        answer_bind(container_of(l->binding.next, struct lane_bind, link), CODE_BUSY, "not now");
}

/* Every lane of the jobs; each may free the one that it is given. */
#define for_each_lane(l, d)                                                                                            \
    list_for_each_safe (link_, next_, &(d)->priv->lanes.all)                                                           \
        for (struct lane *l = container_of(link_, struct lane, link); l; l = NULL)
#define for_each_domain(d, jobs)                                                                                       \
    list_for_each_entry (struct domain, entry, &(jobs)->domains, link)                                                 \
        for (struct domain *d = entry; d; d = NULL)

void lanes_stale(const struct plugin *p)
{
    for_each_lane(l, p->domain)
    {
        for (uint32_t i = 0; i < LANE_BINDS; i++)
            if (l->bounds[i].plugin == p)
                unbind(l, i);
    }
}

/* --- credit ------------------------------------------------------------------------------------------------------- */

/* Whether some limit cannot be kept for calls that wsd does not see; then they go by the socket. */
static bool counted(const struct jobs *jobs, const struct user *user)
{
    const struct jobs_limits *l = user_limits(jobs, user);

    return jobs->options.limits.rate || jobs->options.limits.running || l->rate_per_user || l->running_per_user;
}

static uint32_t credit_of(const struct jobs *jobs, const struct user *user)
{
    uint64_t limit = user_limits(jobs, user)->jobs_per_user;

    if (counted(jobs, user) || jobs->draining || jobs->gates.drained || jobs->gates.paused || user->n_direct >= limit)
        return 0;
    return (uint32_t)MIN(limit - user->n_direct, (uint64_t)LANE_SLOTS);
}

static void set_credit(struct lane *l, uint32_t credit)
{
    l->user->n_direct += credit - l->credit;
    l->credit = credit;
    lane_front_credit(&l->front, credit);
}

/* --- the end of a lane -------------------------------------------------------------------------------------------- */

static void free_lane(struct lane *l)
{
    struct jobs *jobs = l->domain->jobs;

    if (l->domain->priv->executor) {
        jobs->counters.direct_calls += atomic_load_explicit(&up_of(l)->begun, memory_order_relaxed);
        jobs->counters.direct_cpu_usec += atomic_load_explicit(&up_of(l)->cpu_usec, memory_order_relaxed);
        count_calls(l);
        for (uint32_t i = 0; i < LANE_BINDS && l->bounds[i].name; i++) /* for the next lane of this number */
            lane_called_reset(front_called(l->domain->front, l->number, i));
    }
    revoke_all(l);
    set_credit(l, 0);
    list_remove(&l->link);
    lane_front_deinit(&l->front);
    directory_unref(l->directory);
    for (uint32_t i = 0; i < LANE_BINDS; i++) {
        free(l->bounds[i].name);
        free(l->bounds[i].title);
    }
    jobs->counters.n_lanes--;
    free(l);
}

static void tell_gone(struct lane *l, int code, const char *text)
{
    struct lane_user *u = TAKE(l->holder);

    if (!u)
        return;
    u->lane = NULL;
    u->ops->gone(u, code, text);
}

/* Nothing more begins in it. The executor says when it has let go of it. */
static void shut_lane(struct lane *l)
{
    struct control c = {.kind = CONTROL_LANE_CLOSE, .number = l->number};

    revoke_all(l);
    set_credit(l, 0);
    executor_send(l->domain->priv->executor, &c, -1);
    lanes_watch(l->domain);
}

/* Closes a lane of which the client has gone. */
static void close_lane(struct lane *l)
{
    l->cancelled_usec = clock_monotonic_usec();
    lane_front_cancel(&l->front);
    shut_lane(l);
}

void jobs_lane_close(struct lane_user *u)
{
    struct lane *l = TAKE(u->lane);

    if (!l)
        return;
    l->holder = NULL;
    close_lane(l);
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

struct lane_pace jobs_lane_pace(const struct jobs *jobs)
{
    return jobs->executors->lane_pace;
}

bool jobs_lanes_available(void)
{
    return eventcount_set_available();
}

static bool has_queued(struct lane *l)
{
    uint32_t generation;

    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        if (lane_front_look(&l->front, i, &generation) == LANE_QUEUED)
            return true;
    return false;
}

/* Nothing runs in it or waits there, and nothing has run for a while. */
static bool is_idle(struct lane *l, uint64_t now)
{
    return l->open && l->holder && !is_running(l) && now - l->moved_usec >= IDLE_USEC &&
           atomic_load_explicit(&up_of(l)->begun, memory_order_relaxed) == l->begun && !has_queued(l);
}

/* For another client. Its own finds out by the frame, or by `lost` when it calls: then it calls by the socket. What it
 * has pushed meanwhile is its own again. False: a call has just begun in it. */
static bool take_back(struct lane *l)
{
    uint32_t generation, credit = l->credit;

    /* A call that begins counts itself as running, and then looks at the credit: so one of the two sees the other. */
    set_credit(l, 0);
    if (is_running(l)) {
        set_credit(l, credit);
        return false;
    }
    lane_front_lost(&l->front);
    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        if (lane_front_look(&l->front, i, &generation) == LANE_QUEUED)
            lane_front_judge(&l->front, i, generation, LANE_QUEUED, LANE_UNTOUCHED, NULL);
    l->domain->jobs->counters.lanes_taken_back++;
    tell_gone(l, 0, "another client needs it");
    shut_lane(l);
    return true;
}

/* Whether there will be a place soon: a lane is about to be let go of, or was taken back for that. Of one user, or of
 * all (NULL). What a client keeps it keeps from its own user's clients only. */
static bool make_place(struct domain *d, const struct user *user)
{
    uint64_t now = clock_monotonic_usec();
    struct lane *idlest = NULL;

    for_each_lane(l, d)
    {
        if (user && l->user != user)
            continue;
        if (!l->holder && !is_running(l))
            return true;
        if (user && lane_front_kept(&l->front))
            continue;
        if ((!idlest || l->moved_usec < idlest->moved_usec) && is_idle(l, now))
            idlest = l;
    }
    return idlest && take_back(idlest);
}

/* NULL: there is a place for a lane of this user, and *ret_number is free, or *ret_soon: there will be one. Else why
 * not. */
static const char *find_place(struct domain *d, const struct user *user, uint32_t *ret_number, bool *ret_soon)
{
    uint64_t used = 0, n = 0;

    for_each_lane(l, d)
    {
        used |= UINT64_C(1) << l->number;
        n += l->user == user;
    }
    bool many = n >= user_limits(d->jobs, user)->lanes_per_user, poor = !credit_of(d->jobs, user);
    *ret_number = used == UINT64_MAX ? RING_NONE : (uint32_t)__builtin_ctzll(~used);
    *ret_soon = false;
    if (!many && !poor && used != UINT64_MAX)
        return NULL;
    *ret_soon = make_place(d, many || poor ? user : NULL);
    if (*ret_soon)
        return NULL;
    d->jobs->counters.lanes_refused++;
    return many   ? "too many direct lanes of this user at work (max-lanes-per-user in wsd.conf)"
           : poor ? "too many calls of this user (max-jobs-per-user in wsd.conf)"
                  : "too many direct lanes at work in this executor";
}

/* NULL, or why not now. */
static const char *refusal(const struct jobs *jobs, struct domain *d, const struct user *user)
{
    if (jobs->draining || jobs->gates.drained || jobs->gates.paused)
        return "wsd is draining, or paused";
    if (!d->priv->executor || d->priv->finishing || d->priv->distrusted || d->priv->executor->killed)
        return "no executor";
    if (counted(jobs, user))
        return "no direct calls while max-rate, max-rate-per-user, max-running or max-running-per-user of wsd.conf is "
               "set";
    return NULL;
}

/* To the executor. -ENAMETOOLONG, or it is dying. */
static int hand_over(struct lane *l)
{
    bool same_user = l->user->uid == l->domain->jobs->options.own_uid;
    struct control grant = {.kind = CONTROL_LANE_GRANT, .number = l->number};
    struct control notify = {.kind = CONTROL_LANE_NOTIFY, .number = l->number};
    struct control lane = {.kind = CONTROL_LANE, .number = l->number, .flags = same_user ? DOWN_SAME_USER : 0};
    struct up_lane *up = up_of(l);
    size_t size = l->directory ? strlen(l->directory->path) + 1 : 0;

    /* the last one of this number has gone, by the executor's word */
    atomic_store_explicit(&up->begun, 0, memory_order_relaxed);
    atomic_store_explicit(&up->wakes, 0, memory_order_relaxed);
    atomic_store_explicit(&up->cpu_usec, 0, memory_order_relaxed);
    if (size > CONTROL_TEXT)
        return -ENAMETOOLONG;
    if (size)
        memcpy(lane.text, l->directory->path, size);
    lane.text_size = (uint32_t)size;
    int r = executor_send(l->domain->priv->executor, &grant, l->front.grant_fd);
    if (r == 0 && l->front.notify_fd >= 0)
        r = executor_send(l->domain->priv->executor, &notify, l->front.notify_fd);
    return r < 0 ? r : executor_send(l->domain->priv->executor, &lane, l->front.memory_fd);
}

const char *jobs_lane_open(struct jobs *jobs, uint32_t uid, struct directory *directory, struct lane_user *u)
{
    struct user *user = user_get(jobs, uid);
    struct domain *d = user ? domain_get(jobs, uid) : NULL;

    if (!d)
        return "out of memory";
    if (!d->priv->executor)
        domain_start(d);
    const char *why = refusal(jobs, d, user);
    if (why)
        return why;
    if (user->n_fds + async_close_pending(uid) >= jobs->max_fd / 2)
        return "too many descriptors of this user: close some, or try again later";
    uint32_t number;
    bool soon;
    why = find_place(d, user, &number, &soon);
    if (why)
        return why;
    if (soon) {
        u->ops->gone(u, 0, "ask again");
        return NULL;
    }
    struct lane *l = calloc(1, sizeof(*l));
    if (!l)
        return "out of memory";
    if (lane_front_init(&l->front) < 0 || (u->notices && lane_front_add_notice(&l->front, uid) < 0)) {
        lane_front_deinit(&l->front);
        free(l);
        return "no memory or descriptors for a lane";
    }
    l->domain = d;
    l->user = user;
    l->number = number;
    l->directory = directory_ref(directory);
    list_init(&l->binding);
    list_push_back(&d->priv->lanes.all, &l->link);
    jobs->counters.n_lanes++;
    set_credit(l, credit_of(jobs, user));
    int r = hand_over(l);
    if (r < 0) {
        free_lane(l);
        return r == -ENAMETOOLONG ? "the working directory's path is too long for a lane" : "no executor";
    }
    l->holder = u;
    u->lane = l;
    return NULL;
}

/* --- binding ------------------------------------------------------------------------------------------------------ */

/* RING_NONE: too many, or no memory. */
static uint32_t bind_take(struct lane *l, const struct plugin *p, const struct plugin_function *f)
{
    _cleanup_(freep) char *name = NULL, *title = strdup(plugin_title(p));

    if (!title || asprintf(&name, "%s:%s", p->request, f->name) < 0)
        name = NULL;
    for (uint32_t i = 0; name && i < LANE_BINDS; i++) {
        if (!l->bounds[i].name) {
            l->bounds[i].called = name + strlen(p->request) + 1;
            l->bounds[i].title = TAKE(title);
            l->bounds[i].name = TAKE(name);
        }
        if (!name || strcmp(l->bounds[i].name, name) == 0)
            return i;
    }
    return RING_NONE;
}

/* NULL, or why it cannot be called so. */
static const char *unfit(const struct jobs *jobs, const struct lane *l, const struct plugin *p,
                         const struct plugin_function *f, int *ret_code)
{
    const struct breaker *s;

    *ret_code = CODE_NOT_FOUND;
    if (!f)
        return "the plugin has no such function";
    *ret_code = CODE_DENIED;
    if (!jobs->options.plugin_enabled(p->name, f->flags & WSD_FN_OPT_IN, jobs->options.context))
        return "it is off in wsd.conf";
    if (jobs->options.plugin_restricted && jobs->options.plugin_restricted(p->name, jobs->options.context) &&
        !(l->holder && l->holder->ops->may_use(l->holder, p->name)))
        return "it is not for this user ([plugin NAME] users in wsd.conf)";
    *ret_code = CODE_BUSY;
    if (f->flags & (WSD_FN_STREAMING | WSD_FN_OPT_IN))
        return "this function is called by the socket only";
    if (gate_known(jobs, p->request, f->name)) /* it counts and stops jobs */
        return "it is paused, or has a limit";
    s = breaker_find(&jobs->breakers, l->domain->key, p->request, f->name);
    return breaker_ask(s, l, clock_monotonic_usec()) != BREAKER_CLOSED ? "in quarantine" : NULL;
}

static void bind_found(struct lane_bind *b, struct plugin *p)
{
    struct lane *l = b->user->lane;
    struct jobs *jobs = l->domain->jobs;
    const struct jobs_options *o = &jobs->options;
    struct plugin_function *f = plugin_find_function(p, b->function);
    const char *of;
    int code;
    const char *why = unfit(jobs, l, p, f, &code);

    if (why) {
        answer_bind(b, code, why);
        return;
    }
    b->number = bind_take(l, p, f);
    if (b->number == RING_NONE) {
        answer_bind(b, CODE_BUSY, "too many functions in one lane");
        return;
    }
    b->idempotent = f->flags & WSD_FN_IDEMPOTENT;
    struct control c = {.kind = CONTROL_LANE_BIND,
                        .number = l->number,
                        .slot = b->number,
                        .generation = p->number,
                        .functions = f->index,
                        .flags =
                            o->plugin_max_run ? o->plugin_max_run(p->name, &of, o->context) : o->limits.max_run_usec};
    struct bound *bound = &l->bounds[b->number];

    if (bound->function != f)
        unbind(l, b->number);
    if (!bound->plugin) {
        bound->plugin = p;
        bound->function = f;
        bound->idempotent = b->idempotent;
        p->n_jobs++;
        p->looked = false;
    }
    b->told = true;
    executor_send(l->domain->priv->executor, &c, -1); /* a failure means that it is dying */
}

static void on_plugin(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct lane_bind *b = container_of(q, struct lane_bind, query);
    struct lane *l = b->user->lane; /* its end would have answered */
    struct plugin *p = plugin_find(l->domain, b->request);

    if (error)
        answer_bind(b, error == EACCES ? CODE_DENIED : error == EAGAIN ? CODE_BUSY : CODE_NOT_FOUND, info->error);
    else if (!p || p->state != PLUGIN_READY || l->domain->priv->finishing ||
             domain_for(l->domain->jobs, l->user->uid, b->request) != l->domain)
        answer_bind(b, CODE_BUSY, "its plugin is not in this lane's executor");
    else
        bind_found(b, p);
}

int jobs_lane_bind(struct lane_user *u, const char *plugin, const char *function, struct lane_bind *b)
{
    struct lane *l = u->lane;

    list_init(&b->link);
    list_init(&b->query.link);
    if (!l || !l->open || strlen(function) >= sizeof(b->function))
        return -EINVAL;
    b->user = u;
    b->query.answer = on_plugin;
    memcpy(b->function, function, strlen(function) + 1);
    b->told = false;
    int r = plugin_request(l->domain->jobs, l->user->uid, plugin, l->directory, &b->request);
    if (r < 0)
        return r;
    list_push_back(&l->binding, &b->link);
    r = jobs_plugin(l->domain->jobs, l->user->uid, plugin, l->directory, &b->query);
    if (r < 0)
        jobs_lane_forget(b);
    return r;
}

void jobs_lane_forget(struct lane_bind *b)
{
    list_remove(&b->link);
    jobs_plugin_forget(&b->query);
    free(b->request);
    b->request = NULL;
}

/* --- the executor's word ------------------------------------------------------------------------------------------ */

static struct lane *find(struct domain *d, uint32_t number)
{
    for_each_lane(l, d) if (l->number == number) return l;
    return NULL;
}

static void was_opened(struct lane *l, uint32_t error)
{
    if (error && l->open) { /* its client has broken a rule */
        log_event(LOG_KIND_CONNECTION, LOG_INFO, &(struct log_about){.uid = &l->user->uid},
                  "direct lane of uid %u is closed: its client rings without a call", l->user->uid);
        tell_gone(l, CODE_BUSY, "rings without a call");
        close_lane(l);
    } else if (error) {
        tell_gone(l, CODE_BUSY, "the executor cannot have direct lanes");
        free_lane(l);
    } else if (!l->open) {
        l->open = true;
        l->moved_usec = clock_monotonic_usec();
        const int fds[LANE_FDS] = {l->front.memory_fd, l->front.grant_fd, l->front.notice_fd};
        if (l->holder)
            l->holder->ops->opened(l->holder, fds);
        lane_front_handed(&l->front);
    }
}

static void was_bound(struct lane *l, uint32_t number, uint32_t error)
{
    list_for_each_entry_safe (struct lane_bind, b, after_b, &l->binding, link) {
        if (!b->told || b->number != number)
            continue;
        if (!error && l->bounds[number].plugin)
            lane_front_allow(&l->front, number, true);
        answer_bind(b, error || !l->bounds[number].plugin ? CODE_BUSY : 0, "not now");
        return; /* one answer a query */
    }
}

void lanes_control(struct domain *d, const struct control *c)
{
    struct lane *l = find(d, c->number);

    if (!l)
        domain_distrust(d, "nonsense about a direct lane");
    else if (c->functions == LANED_OPEN)
        was_opened(l, c->error);
    else if (c->functions == LANED_CLOSED && !l->holder)
        free_lane(l);
    else if (c->functions < LANE_BINDS)
        was_bound(l, c->functions, c->error);
    else
        domain_distrust(d, "nonsense about a direct lane");
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void arm(struct domain *d)
{
    struct timeval t = {.tv_usec = TICK_USEC};

    d->priv->lanes.armed = evtimer_add(d->priv->lanes.timer, &t) == 0;
}

void lanes_watch(struct domain *d)
{
    atomic_store_explicit(&d->front->up->lanes_watched, 1, memory_order_seq_cst);
    if (!d->priv->lanes.armed)
        arm(d);
}

void lanes_belled(struct domain *d)
{
    if (d->priv->executor && !d->priv->lanes.armed && !list_empty(&d->priv->lanes.all) &&
        atomic_load_explicit(&d->front->up->lanes_watched, memory_order_relaxed))
        arm(d);
}

void jobs_lane_waits(struct lane_user *u)
{
    struct lane *l = u->lane;

    if (!l || !l->open)
        return;
    l->domain->priv->lanes.waited_usec = clock_monotonic_usec();
    lanes_watch(l->domain);
    health_busy(l->domain);
}

bool lanes_running(const struct domain *d)
{
    bool running = false;

    if (d->priv->executor)
        for_each_lane(l, d) running |= is_running(l);
    return running;
}

bool lanes_wait(const struct domain *d)
{
    return d->priv->lanes.armed ||
           (!list_empty(&d->priv->lanes.all) && clock_monotonic_usec() - d->priv->lanes.waited_usec < WAITED_USEC);
}

/* Calls that have run so far beyond their time that they evidently ignore it. */
static uint64_t overdue(const struct lane *l, uint64_t now)
{
    uint64_t grace = l->domain->jobs->options.limits.grace_usec, late = 0;

    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        struct up_direct *u = &up_of(l)->calls[i];
        /* acquire: partner is the release store in executor/direct-call.c */
        bool runs = atomic_load_explicit(&u->word, memory_order_acquire) != 0;
        uint64_t deadline = atomic_load_explicit(&u->deadline_usec, memory_order_relaxed);

        if (runs && ((deadline && now > deadline && now - deadline > grace) ||
                     (l->cancelled_usec && now - l->cancelled_usec > grace)))
            late |= UINT64_C(1) << i;
    }
    return late;
}

/* A rebuilt plugin is noticed as by a submit. */
static void look_at_files(struct lane *l)
{
    for (uint32_t i = 0; i < LANE_BINDS; i++)
        if (l->bounds[i].plugin)
            (void)plugin_get(l->domain, l->bounds[i].plugin->request);
}

/* Whether something runs, or did since the last look. */
static bool look(struct lane *l, uint64_t now)
{
    uint64_t begun = atomic_load_explicit(&up_of(l)->begun, memory_order_relaxed);
    bool moved = begun != l->begun, running = is_running(l);

    uint64_t wakes = atomic_load_explicit(&up_of(l)->wakes, memory_order_relaxed);
    struct lane_pace *pace = &l->domain->jobs->executors->lane_pace;

    pace->calls += begun - l->begun;
    pace->wakes += wakes - l->wakes;
    pace->usec = now;
    l->wakes = wakes;
    l->domain->priv->recycling.n_ended += begun - l->begun;
    if (moved)
        /* a death without a note may then not be blamed on a function as one that ran alone */
        l->domain->priv->only_function = DOMAIN_MIXED;
    l->begun = begun;
    if (moved || running)
        l->moved_usec = now;
    if (moved)
        look_at_files(l);
    if (running && !l->domain->priv->executor->killed && (l->overdue = overdue(l, now))) {
        log_event(LOG_KIND_JOB_DEAF, LOG_WARNING, &(struct log_about){.uid = &l->user->uid},
                  "executor %u: a direct call does not heed that its time is up: it is replaced",
                  l->domain->priv->executor->number);
        executor_kill(l->domain->priv->executor);
    }
    return moved || running;
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t now = clock_monotonic_usec();
    bool any = false;

    d->priv->lanes.armed = false;
    if (!d->priv->executor)
        return;
    for_each_lane(l, d) any |= look(l, now);
    any |= lanes_wait(d);
    if (!any) {
        /* seq_cst store before the look: partner is announce_call() in executor/direct-call.c */
        atomic_store_explicit(&d->front->up->lanes_watched, 0, memory_order_seq_cst);
        if (lanes_running(d))
            lanes_watch(d);
        else if (d->successor && !d->n_handed)
            domain_finish(d);
        else
            domain_rest(d);
        return;
    }
    arm(d);
    health_busy(d);
    recycle_look(d, 1);
}

int lanes_init(struct domain *d)
{
    list_init(&d->priv->lanes.all);
    d->priv->lanes.timer = evtimer_new(d->jobs->options.base, on_tick, d);
    return d->priv->lanes.timer ? 0 : -ENOMEM;
}

/* --- when everything changes -------------------------------------------------------------------------------------- */

void lanes_revoke(struct domain *d)
{
    for_each_lane(l, d)
    {
        revoke_all(l);
        set_credit(l, 0);
    }
}

void lanes_review(struct jobs *jobs)
{
    if (jobs->counters.n_lanes == 0)
        return;
    for_each_domain(d, jobs)
    {
        for_each_lane(l, d)
        {
            revoke_all(l);
            set_credit(l, 0);
            if (l->holder && !d->priv->finishing && !d->successor)
                set_credit(l, credit_of(jobs, l->user));
        }
    }
}

void lanes_swap(struct domain *d, struct domain *n)
{
    for_each_lane(l, d)
    {
        revoke_all(l);
        set_credit(l, 0);
        list_remove(&l->link);
        l->domain = n;
        list_push_back(&n->priv->lanes.all, &l->link);
    }
    if (!list_empty(&n->priv->lanes.all))
        lanes_watch(n);
}

void lanes_count(struct jobs *jobs, struct jobs_counters *ret)
{
    for_each_domain(d, jobs)
    {
        if (!d->priv->executor)
            continue;
        for_each_lane(l, d)
        {
            ret->direct_calls += atomic_load_explicit(&up_of(l)->begun, memory_order_relaxed);
            ret->direct_cpu_usec += atomic_load_explicit(&up_of(l)->cpu_usec, memory_order_relaxed);
            ret->direct_running += atomic_load_explicit(&up_of(l)->running, memory_order_relaxed);
        }
    }
}

uint32_t jobs_lanes_called(struct jobs *jobs, uint32_t uid)
{
    uint32_t n = 0;

    for_each_domain(d, jobs)
    {
        if (!d->priv->executor)
            continue;
        for_each_lane(l, d) if (uid == 0 || l->user->uid == uid) n += count_calls(l);
    }
    return n;
}

/* --- death -------------------------------------------------------------------------------------------------------- */

/* The function of this call, as the executor reports it; NULL: unknown. */
static const struct bound *bound_of(const struct lane *l, uint32_t slot, uint32_t generation)
{
    const struct up_direct *u = &up_of(l)->calls[slot];
    uint32_t bind = atomic_load_explicit(&u->bind, memory_order_relaxed);

    if (atomic_load_explicit(&u->word, memory_order_acquire) != ring_word(generation, 1) || bind >= LANE_BINDS)
        return NULL;
    return &l->bounds[bind];
}

static enum lane_outcome verdict(struct lane *l, uint32_t slot, uint32_t generation, const struct lanes_death *death,
                                 const char **ret_text)
{
    const struct bound *b = bound_of(l, slot, generation);

    *ret_text = death->how;
    if (death->note && death->note->slot == ring_lane_slot(l->number, slot) && death->note->generation == generation) {
        *ret_text = death->crash;
        return LANE_CRASHED;
    }
    if (l->overdue >> slot & 1)
        return LANE_TIMED_OUT;
    return b && b->idempotent ? LANE_AGAIN : LANE_INTERRUPTED;
}

/* Counts a call that has ended with its executor against its function. */
static void count_verdict(struct lane *l, const struct bound *b, enum lane_outcome outcome)
{
    enum function_outcome as = outcome == LANE_CRASHED     ? FUNCTION_CRASHED
                               : outcome == LANE_TIMED_OUT ? FUNCTION_TIMED_OUT
                                                           : FUNCTION_INTERRUPTED;

    if (!b || !b->name || (outcome != LANE_CRASHED && outcome != LANE_TIMED_OUT && outcome != LANE_INTERRUPTED))
        return; /* what is to run again has not ended */
    stats_of(l, b)->ended[as]++;
    stats_of(l, b)->direct++;
}

static void judge(struct lane *l, uint32_t slot, const struct lanes_death *death)
{
    struct jobs_counters *n = &l->domain->jobs->counters;
    uint32_t generation;
    const char *text;

    for (int i = 0; i < JUDGE_LOOKS; i++) {
        enum lane_state state = lane_front_look(&l->front, slot, &generation);
        enum lane_outcome outcome = LANE_UNTOUCHED;

        if (state != LANE_QUEUED && state != LANE_RUNNING)
            return;
        text = NULL;
        if (state == LANE_RUNNING)
            outcome = verdict(l, slot, generation, death, &text);
        const struct bound *b = bound_of(l, slot, generation);
        if (!lane_front_judge(&l->front, slot, generation, state, outcome, text))
            continue;
        count_verdict(l, b, outcome);
        n->direct_crashed += outcome == LANE_CRASHED;
        n->direct_interrupted += outcome == LANE_INTERRUPTED;
        n->direct_timed_out += outcome == LANE_TIMED_OUT;
        return;
    }
}

/* Counts the crash of the call that the fault note names against its function, whatever its client reports now. */
static void blame(struct lane *l, const struct lanes_death *death)
{
    uint32_t first = ring_lane_slot(l->number, 0);
    const struct fault_note *n = death->note;

    if (!n || n->slot < first || n->slot >= first + LANE_SLOTS)
        return;
    const struct bound *b = bound_of(l, n->slot - first, n->generation);
    if (b && b->plugin) {
        const struct log_about about = {
            .plugin = plugin_title(b->plugin), .function = b->function->name, .uid = &l->user->uid};

        log_event(LOG_KIND_JOB_CRASHED, LOG_WARNING, &about, "%s:%s crashed in a direct call of uid %u: %s",
                  about.plugin, about.function, l->user->uid, death->crash);
        job_breaker_function(b->plugin, b->function, l, death->crash);
    }
}

bool lanes_gone(struct domain *d, const struct lanes_death *death)
{
    bool explained = false;

    for_each_lane(l, d)
    {
        explained |= l->overdue != 0;
        blame(l, death);
        lane_front_lost(&l->front);
        for (uint32_t i = 0; i < LANE_SLOTS; i++)
            judge(l, i, death);
        tell_gone(l, 0, death->how);
        free_lane(l);
    }
    if (d->priv->lanes.armed)
        evtimer_del(d->priv->lanes.timer);
    d->priv->lanes.armed = false;
    return explained;
}

void lanes_deinit(struct domain *d)
{
    lanes_gone(d, &(struct lanes_death){.how = "wsd was ended before it was done"});
    event_free(d->priv->lanes.timer);
}
