/* SPDX-License-Identifier: Apache-2.0
 *
 * collector.c: the thread that asks wsd.
 * Owns the connection, which is the thread's alone, and what was answered until the loop has it.
 * Keeps: wsd is asked only when the loop wants it, and what changes seldom is asked seldom. A connection that has ended is
 * made again at the next question. What is given to the loop is the thread's no more.
 * Does not know what is shown (server.c). */
#include "web/collector.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <wsd/client.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/demangle.h"
#include "base/list.h"
#include "web/fleet-look.h"
#include "web/metrics.h"

#define OPEN_USEC   2000000u  /* for connecting */
#define ANSWER_USEC 10000000u /* for each answer */
#define WORDS       512u      /* room for what went wrong */

/* An errand on its way, there and back. */
struct trip {
    struct list link;
    struct errand errand;
    int error;
    char words[WORDS];
    json_t *answer;
};

struct collector {
    struct collector_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    struct event *told;
    int told_fd;
    struct list waiting, done; /* trips [lock] */
    uint32_t n_trips;          /* [loop] */
    bool wants_look, leaving;  /* [lock] */
    bool looking;              /* a look is wanted or under way [loop] */
    json_t *look;              /* what was seen, until the loop has it [lock] */
    bool has_look;             /* [lock] */
    char why[WORDS];           /* of the look [lock] */
    struct wsd_client *client; /* [thread] */
    json_t **last;             /* the last answer to each question [thread] */
    uint64_t *due_usec;        /* when each is asked again [thread] */
    struct fleet_look *fleet;  /* NULL: none is looked at [thread] */
};

/* --- answers as JSON ---------------------------------------------------------------------------------------------- */

/* What wsd says is UTF-8 mostly. What is not is shown as such. */
static json_t *text(const char *s)
{
    json_t *j = json_string(s);

    if (j)
        return j;
    _cleanup_(freep) char *clean = strdup(s);
    for (char *c = clean; c && *c; c++)
        if (*c & 0x80)
            *c = '?';
    return json_string(clean ? clean : "");
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)(n > INT64_MAX ? INT64_MAX : n));
}

static int set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value);
}

/* The name of a user. The user database is asked once for each, as it may be far away, and a look has many. [thread] */
static const char *user_of(uint32_t uid)
{
    static struct {
        uint32_t uid;
        char name[LOGIN_NAME_MAX]; /* "": none is here */
    } known[256];
    size_t at = uid % ARRAY_SIZE(known);

    if (!*known[at].name || known[at].uid != uid) {
        const struct passwd *p = getpwuid(uid);

        known[at].uid = uid;
        if (p)
            snprintf(known[at].name, sizeof(known[at].name), "%s", p->pw_name);
        else
            snprintf(known[at].name, sizeof(known[at].name), "%u", uid);
    }
    return known[at].name;
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    return set(userdata, name, number(value)) < 0;
}

static json_t *ids_json(const struct wsd_id *ids, size_t n)
{
    json_t *j = json_array();
    char id[WSD_ID_TEXT];

    for (size_t i = 0; i < n; i++) {
        wsd_id_text(&ids[i], id);
        json_array_append_new(j, text(id));
    }
    return j;
}

static json_t *job_json(const struct wsd_job_info *info)
{
    json_t *j = json_object();
    char id[WSD_ID_TEXT];

    wsd_id_text(&info->id, id);
    set(j, "id", text(id));
    set(j, "plugin", text(info->plugin));
    set(j, "function", text(info->function));
    set(j, "state", text(wsd_job_state_name(info->state)));
    set(j, "user", text(user_of(info->uid)));
    set(j, "submitted_usec", number(info->submitted_usec));
    set(j, "queued_usec", number(info->queued_usec));
    set(j, "run_usec", number(info->run_usec));
    set(j, "cpu_usec", number(info->cpu_usec));
    set(j, "attempts", number(info->attempts));
    set(j, "retries", number(info->retries));
    set(j, "done", number(info->done));
    set(j, "total", number(info->total));
    set(j, "exit", json_integer(info->exit));
    set(j, "durable", json_boolean(info->durable));
    set(j, "dead", json_boolean(info->dead));
    set(j, "waits_for", number(info->waits_for));
    set(j, "due_usec", number(info->due_usec));
    set(j, "error", text(info->error));
    set(j, "status", text(info->status));
    set(j, "worker", text(info->worker));
    set(j, "backtrace", text(info->backtrace));
    set(j, "tags", text(info->tags));
    set(j, "waits_on", ids_json(info->waits_on, info->n_waits_on));
    set(j, "awaited_by", ids_json(info->awaited_by, info->n_awaited_by));
    return j;
}

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    return json_array_append_new(userdata, job_json(info)) < 0;
}

static int on_worker(const struct wsd_worker_info *info, void *userdata)
{
    static const char *const kinds[] = {
        [WSD_WORKER] = "worker", [WSD_WORKER_RETIRED] = "retired", [WSD_WORKER_GUEST] = "guest"};
    json_t *j = json_object(), *counters = json_object();

    set(j, "executor", number(info->executor));
    set(j, "worker", number(info->worker));
    set(j, "kind", text(info->kind >= WSD_WORKER && info->kind <= WSD_WORKER_GUEST ? kinds[info->kind] : ""));
    set(j, "cpu", json_integer(info->cpu));
    for (size_t i = 0; i < info->n_counters; i++)
        set(counters, info->counters[i].name, number(info->counters[i].value));
    set(j, "counters", counters);
    return json_array_append_new(json_object_get(userdata, "workers"), j) < 0;
}

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    json_t *j = json_object();

    set(j, "executor", number(info->executor));
    set(j, "user", text(info->uid == UINT32_MAX ? "all" : user_of(info->uid)));
    set(j, "workers", number(info->workers));
    set(j, "error", text(info->error ? strerror(info->error) : ""));
    set(j, "pid", number(info->pid));
    set(j, "age_usec", number(info->age_usec));
    set(j, "memory", number(info->memory));
    set(j, "descriptors", number(info->descriptors));
    return json_array_append_new(json_object_get(userdata, "executors"), j) < 0;
}

static int on_gate(const struct wsd_gate_info *info, void *userdata)
{
    json_t *j = json_object();

    set(j, "plugin", text(info->plugin));
    set(j, "function", text(info->function));
    set(j, "tag", text(info->tag));
    set(j, "paused", json_boolean(info->paused));
    set(j, "drained", json_boolean(info->drained));
    set(j, "limit", number(info->limit));
    set(j, "running", number(info->running));
    set(j, "waiting", number(info->waiting));
    return json_array_append_new(userdata, j) < 0;
}

static int on_limit(const struct wsd_limit_info *info, void *userdata)
{
    json_t *j = json_object();

    set(j, "key", text(info->key));
    set(j, "value", text(info->value));
    set(j, "user", text(info->of_user ? user_of(info->uid) : ""));
    set(j, "moved", json_boolean(info->moved));
    return json_array_append_new(userdata, j) < 0;
}

static json_t *runner_json(const struct wsd_plugin_runner *r)
{
    json_t *j = json_object();

    set(j, "user", text(user_of(r->uid)));
    set(j, "pid", number(r->pid));
    set(j, "credit", number(r->credit));
    set(j, "running", number(r->running));
    set(j, "since_usec", number(r->since_usec));
    set(j, "leaving", json_boolean(r->leaving));
    return j;
}

static int on_runners(const struct wsd_plugin_info *info, void *userdata)
{
    json_t *j = json_object(), *runners = json_array();

    set(j, "name", text(info->name));
    set(j, "waiting", number(info->waiting));
    for (size_t i = 0; i < info->n_runners; i++)
        json_array_append_new(runners, runner_json(&info->runners[i]));
    set(j, "runners", runners);
    return json_array_append_new(userdata, j) < 0;
}

/* has_bounds: with how many are at or below each bound of metrics.h. */
static json_t *histogram_json(const struct wsd_histogram *h, bool has_bounds)
{
    json_t *j = json_object(), *below = has_bounds ? json_array() : NULL;
    uint64_t n = 0;
    size_t at = 0;

    set(j, "count", number(h->count));
    set(j, "sum", number(h->sum));
    set(j, "max", number(h->max));
    set(j, "p50", number(wsd_histogram_quantile(h, 0.5)));
    set(j, "p90", number(wsd_histogram_quantile(h, 0.9)));
    set(j, "p99", number(wsd_histogram_quantile(h, 0.99)));
    for (uint32_t bound = 0; below && bound < METRICS_BOUNDS; bound++) {
        for (; at < h->n_buckets && h->buckets[at].high <= METRICS_BOUND_USEC(bound); at++)
            n += h->buckets[at].count;
        json_array_append_new(below, number(n));
    }
    if (below)
        set(j, "below", below);
    return j;
}

static int on_function(const struct wsd_function_stats *s, void *userdata)
{
    json_t *j = json_object();

    set(j, "plugin", text(s->plugin));
    set(j, "function", text(s->function));
    set(j, "user", text(s->uid == UINT32_MAX ? "all" : user_of(s->uid)));
    set(j, "succeeded", number(s->succeeded));
    set(j, "failed", number(s->failed));
    set(j, "cancelled", number(s->cancelled));
    set(j, "timed_out", number(s->timed_out));
    set(j, "crashed", number(s->crashed));
    set(j, "interrupted", number(s->interrupted));
    set(j, "refused", number(s->refused));
    set(j, "direct", number(s->direct));
    set(j, "crashes", number(s->crashes));
    set(j, "why", text(s->why));
    set(j, "in_quarantine", json_boolean(s->in_quarantine));
    set(j, "on_trial", json_boolean(s->on_trial));
    set(j, "quarantine_usec", number(s->quarantine_usec));
    set(j, "queue_usec", histogram_json(&s->queue_usec, true));
    set(j, "run_usec", histogram_json(&s->run_usec, true));
    set(j, "cpu_usec", histogram_json(&s->cpu_usec, false));
    set(j, "output_bytes", histogram_json(&s->output_bytes, false));
    return json_array_append_new(userdata, j) < 0;
}

static int on_schedule(const struct wsd_schedule_info *info, void *userdata)
{
    json_t *j = json_object();

    set(j, "name", text(info->name));
    set(j, "user", text(user_of(info->uid)));
    set(j, "calendar", text(info->calendar));
    set(j, "plugin", text(info->plugin));
    set(j, "function", text(info->function));
    set(j, "next_usec", number(info->next_usec));
    set(j, "ran_usec", number(info->ran_usec));
    set(j, "runs", number(info->runs));
    set(j, "running", json_boolean(info->running));
    set(j, "state", text(info->state ? wsd_job_state_name(info->state) : ""));
    set(j, "error", text(info->error));
    return json_array_append_new(userdata, j) < 0;
}

static int on_action(const struct wsd_action_info *info, void *userdata)
{
    json_t *j = json_object();

    set(j, "time_usec", number(info->time_usec));
    set(j, "user", text(user_of(info->uid)));
    set(j, "person", text(info->person));
    set(j, "action", text(info->action));
    set(j, "object", text(info->object));
    set(j, "exit", json_integer(info->exit));
    return json_array_append_new(userdata, j) < 0;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static int ask_counters(struct wsd_client *client, json_t **ret)
{
    *ret = json_object();
    return wsd_client_stats(client, on_counter, *ret);
}

static int ask_pool(struct wsd_client *client, json_t **ret)
{
    *ret = json_pack("{s:[],s:[]}", "workers", "executors");
    int r = wsd_client_workers(client, on_worker, on_executor, *ret);
    return r == -EAGAIN ? 0 : r; /* too much is asked of the executors just now: the next look has them */
}

static int ask_gates(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_gates(client, on_gate, *ret);
}

static int ask_jobs(struct wsd_client *client, json_t **ret)
{
    const struct wsd_filter newest = {.size = sizeof(newest), .limit = COLLECTOR_JOBS};

    *ret = json_array();
    return wsd_client_list_where(client, &newest, on_job, *ret);
}

static int ask_limits(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_limits(client, on_limit, *ret);
}

static int ask_functions(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_functions(client, NULL, on_function, *ret);
}

static int ask_runners(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_runners(client, NULL, on_runners, *ret);
}

static int ask_dead(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_dead(client, on_job, *ret);
}

static int ask_schedules(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    return wsd_client_schedules(client, on_schedule, *ret);
}

/* Of a wsd that is too old for them there are none. */
static int ask_actions(struct wsd_client *client, json_t **ret)
{
    *ret = json_array();
    int r = wsd_client_actions(client, COLLECTOR_ACTIONS, on_action, *ret);
    return r == -EOPNOTSUPP ? 0 : r;
}

/* What a look is made of. Nothing of it starts an executor or loads a plugin. */
static const struct {
    const char *key;
    int (*ask)(struct wsd_client *client, json_t **ret);
    uint64_t every_usec; /* 0: with each look */
} looks[] = {
    {"counters", ask_counters, 0},    {"pool", ask_pool, 0},       {"functions", ask_functions, 0},
    {"gates", ask_gates, 0},          {"jobs", ask_jobs, 0},       {"runners", ask_runners, 0},
    {"actions", ask_actions, 0},      {"dead", ask_dead, 5000000}, {"schedules", ask_schedules, 5000000},
    {"limits", ask_limits, 10000000},
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* What went wrong, in the library's words. */
static void say(const struct collector *c, int error, char words[static WORDS])
{
    const char *said = c->client ? wsd_client_error(c->client) : "";
    bool none = error == -ENOENT && wsd_client_fd(c->client) < 0;

    snprintf(words, WORDS, "%s%s", *said ? said : strerror(-error),
             none || error == -ECONNREFUSED ? ": no wsd is there: start one (systemctl start wsd)" : "");
}

static int connect_to_wsd(struct collector *c)
{
    const struct wsd_open how = {
        .size = sizeof(how), .socket = c->options.socket, .timeout_usec = OPEN_USEC, .deadline_usec = ANSWER_USEC};

    if (c->client && wsd_client_fd(c->client) >= 0)
        return 0;
    wsd_client_free(c->client);
    return wsd_client_open_with(&c->client, &how);
}

/* Asks one question where its time has come. A wsd that does not know it has no answer. */
static int ask(struct collector *c, size_t i, uint64_t now)
{
    json_t *answer = NULL;

    if (now < c->due_usec[i])
        return 0;
    int r = looks[i].ask(c->client, &answer);
    if (r == -EOPNOTSUPP || r == -EACCES)
        r = 0;
    if (r != 0) {
        json_decref(answer);
        return r > 0 ? -ENOMEM : r;
    }
    json_decref(c->last[i]);
    c->last[i] = answer;
    c->due_usec[i] = looks[i].every_usec ? now + looks[i].every_usec : 0;
    return 0;
}

static void add_fleet(struct fleet_look *fleet, json_t *look)
{
    json_t *now = fleet_look_now(fleet);

    json_object_set_new(look, "fleet", now ? now : json_object());
}

/* Returns the look; NULL with words. */
static json_t *look_at_wsd(struct collector *c, char why[static WORDS])
{
    uint64_t now = clock_monotonic_usec();
    int r = connect_to_wsd(c);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(looks); i++)
        r = ask(c, i, now);
    if (r < 0) {
        say(c, r, why);
        c->client = wsd_client_free(c->client);
        memset(c->due_usec, 0, ARRAY_SIZE(looks) * sizeof(*c->due_usec));
        return NULL;
    }
    json_t *look = json_pack("{s:I,s:s}", "time_usec", (json_int_t)clock_realtime_usec(), "wsd",
                             wsd_client_daemon_version(c->client));
    for (size_t i = 0; look && i < ARRAY_SIZE(looks); i++)
        if (c->last[i])
            json_object_set(look, looks[i].key, c->last[i]);
    if (look && c->fleet)
        add_fleet(c->fleet, look);
    *why = 0;
    if (!look)
        snprintf(why, WORDS, "out of memory");
    return look;
}

/* Names of C++ as people write them; as they are where there is no memory. */
static void show_backtrace(json_t *job, const char *backtrace)
{
    _cleanup_(buffer_deinit) struct buffer shown = {0};

    if (demangle_text(backtrace, &shown) == 0 && buffer_put(&shown, "", 1) == 0)
        set(job, "backtrace", text((const char *)buffer_data(&shown)));
}

static int answer_job(struct trip *t, struct wsd_client *client, const struct wsd_id *id)
{
    struct wsd_job_info info = WSD_INIT(struct wsd_job_info);
    int r = wsd_client_job(client, id, &info);

    if (r == 0 && (t->answer = job_json(&info)))
        show_backtrace(t->answer, info.backtrace);
    return r;
}

static int gate(const struct errand *e, struct wsd_client *client, enum wsd_gate_action action)
{
    return wsd_client_gate(client, action, e->plugin, e->function, e->number);
}

/* Has wsd name the person in its log. One that is too old for it does not. */
static int name_person(struct wsd_client *client, const char *person)
{
    int r = wsd_client_person(client, person);

    return r == -EOPNOTSUPP ? 0 : r;
}

static int do_errand(struct trip *t, struct wsd_client *client)
{
    const struct errand *e = &t->errand;
    struct wsd_id id = {0};

    if (e->kind <= ERRAND_DROP && wsd_id_parse(e->id, &id) < 0) {
        snprintf(t->words, WORDS, "id: 32 hexadecimal digits are wanted");
        return -EINVAL;
    }
    int r = name_person(client, e->person);
    if (r < 0)
        return r;
    switch (e->kind) {
    case ERRAND_JOB:
        return answer_job(t, client, &id);
    case ERRAND_CANCEL:
        return wsd_client_cancel(client, &id);
    case ERRAND_REQUEUE:
        return wsd_client_dead_requeue(client, &id);
    case ERRAND_DROP:
        return wsd_client_dead_drop(client, &id);
    case ERRAND_PAUSE:
        return gate(e, client, WSD_GATE_PAUSE);
    case ERRAND_RESUME:
        return gate(e, client, WSD_GATE_RESUME);
    case ERRAND_LIMIT:
        return gate(e, client, WSD_GATE_LIMIT);
    case ERRAND_RELEASE:
        return wsd_client_plugin_release(client, e->plugin, *e->function ? e->function : NULL);
    case ERRAND_KINDS:
        break;
    }
    return -EINVAL;
}

static void run_errand(struct collector *c, struct trip *t)
{
    t->error = connect_to_wsd(c);
    if (t->error == 0)
        t->error = do_errand(t, c->client);
    if (t->error < 0 && !*t->words)
        say(c, t->error, t->words);
}

static void tell(const struct collector *c)
{
    (void)!write(c->told_fd, &(uint64_t){1}, sizeof(uint64_t));
}

static void *collect(void *userdata)
{
    struct collector *c = userdata;
    char why[WORDS];

    pthread_mutex_lock(&c->lock);
    while (!c->leaving) {
        if (!list_empty(&c->waiting)) {
            struct trip *t = container_of(c->waiting.next, struct trip, link);

            list_remove(&t->link);
            pthread_mutex_unlock(&c->lock);
            run_errand(c, t);
            pthread_mutex_lock(&c->lock);
            list_push_back(&c->done, &t->link);
            tell(c);
        } else if (c->wants_look) {
            c->wants_look = false;
            pthread_mutex_unlock(&c->lock);
            json_t *look = look_at_wsd(c, why);
            pthread_mutex_lock(&c->lock);
            c->look = look;
            c->has_look = true;
            memcpy(c->why, why, sizeof(why));
            tell(c);
        } else {
            pthread_cond_wait(&c->wanted, &c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* --- the loop's side ---------------------------------------------------------------------------------------------- */

static void trip_free(struct trip *t)
{
    list_remove(&t->link);
    json_decref(t->answer);
    free(t);
}

static struct trip *next_done(struct collector *c)
{
    pthread_mutex_lock(&c->lock);
    struct trip *t = list_empty(&c->done) ? NULL : container_of(c->done.next, struct trip, link);
    if (t) {
        list_remove(&t->link);
        list_init(&t->link);
    }
    pthread_mutex_unlock(&c->lock);
    return t;
}

static void on_told(evutil_socket_t fd, short what, void *userdata)
{
    struct collector *c = userdata;
    char why[WORDS];
    uint64_t n;

    (void)!read(fd, &n, sizeof(n));
    for (struct trip *t; (t = next_done(c));) {
        c->n_trips--;
        t->errand.done(&t->errand, t->error, t->words, t->answer);
        trip_free(t);
    }
    pthread_mutex_lock(&c->lock);
    bool has_look = c->has_look;
    json_t *look = TAKE(c->look);
    c->has_look = false;
    memcpy(why, c->why, sizeof(why));
    pthread_mutex_unlock(&c->lock);
    if (has_look) {
        c->looking = false;
        c->options.looked(look, look ? "" : why, c->options.context);
    }
    json_decref(look);
}

void collector_look(struct collector *c)
{
    if (c->looking)
        return;
    c->looking = true;
    pthread_mutex_lock(&c->lock);
    c->wants_look = true;
    pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
}

int collector_do(struct collector *c, const struct errand *e)
{
    struct trip *t = c->n_trips < COLLECTOR_ERRANDS ? calloc(1, sizeof(*t)) : NULL;

    if (!t)
        return c->n_trips < COLLECTOR_ERRANDS ? -ENOMEM : -EAGAIN;
    t->errand = *e;
    c->n_trips++;
    pthread_mutex_lock(&c->lock);
    list_push_back(&c->waiting, &t->link);
    pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int collector_new(struct collector **ret, const struct collector_options *options)
{
    struct collector *c = calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->options = *options;
    list_init(&c->waiting);
    list_init(&c->done);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wanted, NULL);
    c->last = calloc(ARRAY_SIZE(looks), sizeof(*c->last));
    c->due_usec = calloc(ARRAY_SIZE(looks), sizeof(*c->due_usec));
    c->told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->told = c->told_fd >= 0 ? event_new(options->base, c->told_fd, EV_READ | EV_PERSIST, on_told, c) : NULL;
    int r = !c->told || !c->last || !c->due_usec || event_add(c->told, NULL) < 0 ? -ENOMEM : 0;
    r = r || !options->fleet ? r : fleet_look_new(&c->fleet, options->fleet);
    r = r ? r : -pthread_create(&c->thread, NULL, collect, c);
    if (r < 0) {
        c->leaving = true; /* there is no thread */
        collector_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct collector *collector_free(struct collector *c)
{
    if (!c)
        return NULL;
    pthread_mutex_lock(&c->lock);
    bool has_thread = !c->leaving;
    c->leaving = true;
    pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
    if (has_thread)
        pthread_join(c->thread, NULL);
    wsd_client_free(c->client);
    fleet_look_free(c->fleet);
    list_for_each_entry_safe (struct trip, t, after_t, &c->waiting, link)
        trip_free(t);
    list_for_each_entry_safe (struct trip, t, after_t, &c->done, link)
        trip_free(t);
    for (size_t i = 0; c->last && i < ARRAY_SIZE(looks); i++)
        json_decref(c->last[i]);
    json_decref(c->look);
    if (c->told)
        event_free(c->told);
    if (c->told_fd >= 0)
        close(c->told_fd);
    free(c->last);
    free(c->due_usec);
    pthread_cond_destroy(&c->wanted);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}
