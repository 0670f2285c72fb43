/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c: schedules: jobs that are submitted again and again, by a calendar.
 * Owns the schedules, and the watch that follows the last run of each. [loop]
 * Keeps: a schedule runs as its user, within the user's limits. There is one run at a time: runs that fall due
 * meanwhile are skipped and counted. Runs that fell due while no wsd ran become one run at the start, or none. A
 * schedule is on disk before its addition is answered, and off the disk before its removal is; what becomes of its runs
 * is written later.
 * Does not know calendars (calendar/calendar.c), or what a run does: that is a job like any other. */
#include "jobs/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "calendar/calendar.h"
#include "durable/durable.h"
#include "durable/results.h"
#include "durable/rows.h"
#include "jobs/jobs.h"
#include "table/admission.h"
#include "table/interface.h"
#include "table/policy.h"

#define SET_BACK_USEC 600000000u /* a clock that is set back by less does not repeat a run */

struct schedule {
    struct hash_link by_name; /* jobs->schedules->by_name */
    struct due due;
    struct watch watch; /* of the last run */
    struct jobs *jobs;
    struct calendar *calendar;
    struct directory *directory;
    struct job_request job;                                     /* its texts are the schedule's */
    char *name, *text, *plugin, *function, *traceparent, *args; /* traceparent "": none */
    uint64_t number;                                            /* on disk; 0: not there */
    uint64_t base_usec;                                         /* runs due up to then were done or skipped */
    uint64_t ran_usec, runs, skipped;
    uint8_t id[16];
    uint32_t state, exit;
    char error[JOB_TEXT];
    bool persistent, configured;
    bool claimed;                 /* the configuration has it (still) */
    bool pending;                 /* being written for the first time: not shown yet */
    bool removed;                 /* removed when the store has answered */
    bool accepted;                /* the last run */
    uint32_t n_requests;          /* at the store */
    struct schedule_query *asker; /* NULL: no query waits */
};

static uint64_t key_of(uint32_t uid, const char *name)
{
    return hash_text(uid, name, strlen(name));
}

static struct schedule *find(const struct jobs *jobs, uint32_t uid, const char *name)
{
    for (struct hash_link *l = hash_first(&jobs->schedules->by_name, key_of(uid, name)); l; l = hash_next(l)) {
        struct schedule *s = container_of(l, struct schedule, by_name);

        if (s->job.uid == uid && strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void tell(struct schedule *s, int code, const char *text)
{
    struct schedule_query *q = TAKE(s->asker);

    if (!q)
        return;
    q->schedule = NULL;
    q->answer(q, code, text, s->id);
}

static void ask(struct schedule *s, struct schedule_query *q)
{
    s->asker = q;
    q->schedule = s;
}

/* Rows of submit-options.h: what a schedule has not. The texts that it has are fill()'s. */
#define LACK(kind, name, most, problem, needs, schedules) LACK_##schedules(kind, name)
#define LACK_YES(kind, name)
#define LACK_NO(kind, name) LACK_##kind(name)
#define LACK_TEXT(name)     s->job.name = NULL;
#define LACK_TAGS(name)     s->job.name = NULL;
#define LACK_IDS(name)      s->job.name = NULL;
#define LACK_ARGS(name)

static int fill(struct schedule *s, const struct schedule_request *r)
{
    s->job = r->job;
    s->persistent = r->persistent;
    s->name = strdup(r->name);
    s->text = strdup(r->calendar);
    s->plugin = strdup(r->job.plugin);
    s->function = strdup(r->job.function ? r->job.function : "");
    s->traceparent = strdup(r->job.traceparent ? r->job.traceparent : "");
    s->args = malloc(r->job.args_size + 1);
    if (!s->name || !s->text || !s->plugin || !s->function || !s->traceparent || !s->args)
        return -ENOMEM;
    if (r->job.args_size)
        memcpy(s->args, r->job.args, r->job.args_size);
    s->job.plugin = s->plugin;
    s->job.function = s->function;
    s->job.traceparent = s->traceparent;
    s->job.args = s->args;
    SUBMIT_FIELDS(LACK, SUBMIT_NOTHING, LACK, SUBMIT_NOTHING)
    s->job.input = NULL;
    s->job.detached = true;
    s->job.directory = s->directory = directory_ref(r->job.directory);
    return calendar_parse(&s->calendar, s->text);
}

/* Of one that is in no table. */
static void schedule_drop(struct schedule *s)
{
    directory_unref(s->directory);
    calendar_free(s->calendar);
    free(s->name);
    free(s->text);
    free(s->plugin);
    free(s->function);
    free(s->traceparent);
    free(s->args);
    free(s);
}

static void schedule_free(struct schedule *s)
{
    if (!s)
        return;
    tell(s, CODE_BUSY, "it was removed");
    due_cancel(&s->due);
    jobs_unwatch(&s->watch);
    hash_remove(&s->jobs->schedules->by_name, &s->by_name);
    schedule_drop(s);
}

static void on_due(struct due *due);

/* 0, -ENOMEM, or -EINVAL: the calendar. */
static int schedule_new(struct jobs *jobs, const struct schedule_request *r, struct schedule **ret)
{
    struct schedule *s = calloc(1, sizeof(*s));
    int result = s ? 0 : -ENOMEM;

    if (!s)
        return result;
    s->jobs = jobs;
    s->due.call = on_due;
    s->base_usec = clock_realtime_usec();
    result = fill(s, r);
    if (result == 0)
        result = hash_insert(&jobs->schedules->by_name, &s->by_name, key_of(r->job.uid, r->name));
    if (result == 0) {
        *ret = s;
        return 0;
    }
    schedule_drop(s);
    return result;
}

/* --- on disk ------------------------------------------------------------------------------------------------------ */

static struct store_row row_of(const struct schedule *s)
{
    struct store_row row = {.number = s->number,
                            .key = s->name,
                            .calendar = s->text,
                            .input_fd = -1,
                            .persistent = s->persistent,
                            .configured = s->configured,
                            .state = s->state,
                            .exit = s->exit,
                            .submitted_usec = s->ran_usec,
                            .due_usec = s->base_usec,
                            .done = s->runs,
                            .total = s->skipped};

    row_set_request(&row, &s->job);
    memcpy(row.id, s->id, sizeof(row.id));
    return row;
}

void schedule_unanswered(struct schedule *s)
{
    if (--s->n_requests == 0 && s->removed)
        schedule_free(s);
}

static bool post(struct schedule *s, enum store_op op, void (*answer)(struct store_request *r))
{
    bool kept = s->jobs->durable->store && !store_problem(s->jobs->durable->store);
    struct disk_request *q = kept ? disk_request_alloc(s->jobs, op, answer) : NULL;

    if (!q)
        return false;
    q->r.row = row_of(s);
    q->schedule = s;
    snprintf(q->error, sizeof(q->error), "%s", s->error);
    q->r.row.error = *q->error ? q->error : NULL;
    s->n_requests++;
    store_post(s->jobs->durable->store, &q->r);
    return true;
}

static void noted(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);

    if (r->result < 0)
        log_warning("schedule %s of uid %u: its state is not on disk: %s", q->schedule->name, q->schedule->job.uid,
                    r->why);
    schedule_unanswered(q->schedule);
    disk_request_free(q);
}

static void note(struct schedule *s)
{
    if (s->number && !s->removed)
        (void)post(s, STORE_SCHEDULE_NOTE, noted);
}

/* Answers the removal when the schedule is off the disk, so that it cannot come back. */
static void dropped(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct schedule *s = q->schedule;
    char text[JOB_TEXT] = "";

    if (r->result < 0) {
        snprintf(text, sizeof(text), "it runs no more, but the next wsd will have it again: %.160s", r->why);
        log_warning("schedule %s of uid %u was removed: %s", s->name, s->job.uid, text);
    }
    tell(s, r->result < 0 ? durable_code(r->result) : 0, text);
    schedule_unanswered(s);
    disk_request_free(q);
}

/* A run under way goes on. q NULL: no query waits for the answer. */
static void schedule_remove(struct schedule *s, struct schedule_query *q)
{
    struct user *user = s->configured ? NULL : user_get(s->jobs, s->job.uid);

    tell(s, CODE_BUSY, "it was removed");
    if (q)
        ask(s, q);
    if (user)
        user->n_schedules--;
    s->removed = true;
    due_cancel(&s->due);
    jobs_unwatch(&s->watch);
    hash_remove(&s->jobs->schedules->by_name, &s->by_name);
    if (s->number && post(s, STORE_SCHEDULE_DROP, dropped))
        return;
    tell(s, s->number ? CODE_IO : 0, "it runs no more, but the next wsd will have it again: its store takes nothing");
    if (s->n_requests == 0)
        schedule_free(s);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Sets the time of the next run. False: it must not run now, whatever its calendar says. */
static bool arm(struct schedule *s)
{
    uint64_t now = clock_realtime_usec(), next;
    bool again = s->base_usec > now && s->base_usec - now < SET_BACK_USEC;

    if (s->jobs->draining || s->pending || s->removed || (s->configured && !s->claimed))
        return false;
    uint64_t after = again ? s->base_usec : now, ran = s->base_usec <= after ? s->base_usec : 0;
    if (calendar_next_run(s->calendar, after, ran, &next) == 0)
        due_set(&s->due, &s->jobs->wall, next);
    else
        due_cancel(&s->due);
    return true;
}

/* As arm(), with a run now if one fell due after base_usec. True: it did. */
static bool arm_missed(struct schedule *s)
{
    uint64_t missed;

    /* there may be no future time, yet one that fell due without a wsd */
    if (!arm(s) || calendar_next(s->calendar, s->base_usec, &missed) < 0 || missed > clock_realtime_usec())
        return false;
    due_set(&s->due, &s->jobs->wall, missed);
    return true;
}

static struct schedule *of_watch(struct watch *w)
{
    return container_of(w, struct schedule, watch);
}

static void on_accepted(struct watch *w, const uint8_t id[16])
{
    struct schedule *s = of_watch(w);

    memcpy(s->id, id, sizeof(s->id));
    s->ran_usec = clock_realtime_usec();
    s->runs++;
    s->state = s->exit = 0;
    s->error[0] = 0;
    s->accepted = true;
    note(s);
    tell(s, 0, "");
}

static void on_refused(struct watch *w, int code, const char *text, uint64_t retry_usec)
{
    struct schedule *s = of_watch(w);

    if (s->accepted)
        return; /* it goes on in the next wsd, which follows it again */
    s->state = 0;
    s->exit = (uint32_t)code;
    snprintf(s->error, sizeof(s->error), "%s", text);
    log_event(LOG_KIND_SCHEDULE, LOG_WARNING, &(struct log_about){.plugin = s->job.plugin, .uid = &s->job.uid},
              "schedule %s of uid %u: its run was refused: %s", s->name, s->job.uid, text);
    note(s);
    tell(s, code, s->error);
}

static size_t on_output(struct watch *w, const void *data, size_t size)
{
    return size; /* it is kept for clients that await the job */
}

/* No client can be asked. So a restricted plugin runs only by a schedule of the configuration or of root. */
static bool on_may_use(struct watch *w, const char *plugin)
{
    const struct schedule *s = of_watch(w);

    return s->configured || s->job.uid == 0;
}

static bool on_takes_rest(struct watch *w, size_t size)
{
    return false;
}

static void on_done(struct watch *w, const struct job_info *info)
{
    struct schedule *s = of_watch(w);

    s->state = (uint32_t)info->state;
    s->exit = (uint32_t)info->exit;
    snprintf(s->error, sizeof(s->error), "%s", info->error);
    note(s);
}

static const struct watch_ops ops = {.accepted = on_accepted,
                                     .refused = on_refused,
                                     .output = on_output,
                                     .takes_rest = on_takes_rest,
                                     .may_use = on_may_use,
                                     .done = on_done};

/* A durable run may be on disk when wsd is killed, while the schedule does not know of it yet: its repetition is that
 * same job. */
static void run(struct schedule *s, uint64_t at_usec)
{
    struct job_request r = s->job;
    char key[SCHEDULE_NAME_MAX + 64];

    snprintf(key, sizeof(key), "wsd-schedule %s %llu", s->name, (unsigned long long)at_usec);
    r.key = r.durable ? key : NULL;
    s->watch = (struct watch){.ops = &ops};
    s->accepted = false;
    if (jobs_submit(s->jobs, &r, &s->watch) < 0)
        on_refused(&s->watch, CODE_BUSY, "out of memory", 0);
}

static void on_due(struct due *due)
{
    struct schedule *s = container_of(due, struct schedule, due);
    uint64_t at = s->due.node.key;

    s->base_usec = at;
    if (s->watch.job) {
        s->skipped++;
        log_event(LOG_KIND_SCHEDULE, LOG_INFO, &(struct log_about){.plugin = s->job.plugin, .uid = &s->job.uid},
                  "schedule %s of uid %u: skipped, since its last run is not done", s->name, s->job.uid);
        note(s);
    } else {
        run(s, at);
    }
    arm(s);
}

static void each(struct jobs *jobs, void (*call)(struct schedule *s))
{
    for (size_t i = 0; i < jobs->schedules->by_name.n_buckets; i++)
        for (struct hash_link *l = jobs->schedules->by_name.buckets[i], *next; l; l = next) {
            next = l->next;
            call(container_of(l, struct schedule, by_name));
        }
}

/* The clock was set: what is due now stays due; all other runs get a new time. */
static void clock_was_set(struct schedule *s)
{
    if (!s->due.clock || s->due.node.key > clock_realtime_usec())
        arm(s);
}

void schedules_were_set(void *context)
{
    each(context, clock_was_set);
}

static void stop(struct schedule *s)
{
    due_cancel(&s->due);
}

void schedules_stop(struct jobs *jobs)
{
    each(jobs, stop);
}

/* The first run after a start, or after the configuration was read. */
static void start(struct schedule *s)
{
    static const uint8_t none[16];

    if (!s->watch.job && s->state == 0 && memcmp(s->id, none, sizeof(none)) != 0) {
        s->watch = (struct watch){.ops = &ops};
        s->accepted = true;
        (void)jobs_watch(s->jobs, s->id, s->job.uid, &s->watch);
    }
    if (!s->persistent)
        arm(s);
    else if (arm_missed(s))
        log_info("schedule %s of uid %u: a run was missed, and comes now", s->name, s->job.uid);
}

static void start_own(struct schedule *s)
{
    if (!s->configured)
        start(s);
}

void schedules_start(struct jobs *jobs)
{
    each(jobs, start_own);
}

static void forget(struct schedule *s)
{
    s->n_requests = 0;
    s->asker = NULL;
    schedule_free(s);
}

void schedules_free(struct jobs *jobs)
{
    each(jobs, forget);
    hash_deinit(&jobs->schedules->by_name);
}

int schedule_restore(const struct store_row *row, void *userdata)
{
    struct jobs *jobs = userdata;
    struct schedule_request r = {
        .name = row->key, .calendar = row->calendar, .persistent = row->persistent, .job = row_request(row)};
    struct user *user = user_get(jobs, row->uid);
    struct schedule *s;
    r.job.directory = row->directory ? directory_new(row->directory) : NULL;
    int result = user && (!row->directory || r.job.directory) ? schedule_new(jobs, &r, &s) : -ENOMEM;

    directory_unref(r.job.directory);
    jobs->schedules->last_number = MAX(jobs->schedules->last_number, row->number);
    if (result == -EINVAL) { /* its time zone does not exist now: it stays on disk */
        log_error("schedule %s of uid %u cannot be read: %s", row->key, row->uid, row->calendar);
        return 0;
    }
    if (result < 0)
        return result;
    s->number = row->number;
    s->configured = row->configured;
    s->base_usec = row->due_usec;
    s->ran_usec = row->submitted_usec;
    s->runs = row->done;
    s->skipped = row->total;
    s->state = row->state;
    s->exit = row->exit;
    memcpy(s->id, row->id, sizeof(s->id));
    snprintf(s->error, sizeof(s->error), "%s", row->error ? row->error : "");
    user->n_schedules += !s->configured;
    return 0;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void answer(struct schedule_query *q, int code, const char *text)
{
    q->schedule = NULL;
    q->answer(q, code, text, NULL);
}

void jobs_schedule_forget(struct schedule_query *q)
{
    if (q->schedule)
        q->schedule->asker = NULL;
    q->schedule = NULL;
}

static void added(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct schedule *s = q->schedule;
    char text[JOB_TEXT];
    int result = r->result;

    snprintf(text, sizeof(text), "the schedule cannot be kept: %.160s", r->why);
    if (result < 0)
        log_event(LOG_KIND_STORE, LOG_ERR, NULL, "schedule %s of user %u is refused: %s", s->name, s->job.uid, r->why);
    disk_request_free(q);
    s->n_requests--;
    s->pending = false;
    if (result == 0) {
        tell(s, 0, "");
        arm_missed(s); /* it may have fallen due while it was being written */
        return;
    }
    tell(s, durable_code(result), text);
    s->number = 0;
    schedule_remove(s, NULL);
}

/* NULL: it may be added. */
static const char *refusal(struct jobs *jobs, const struct schedule_request *r, int *ret_code,
                           char text[static JOB_TEXT])
{
    struct user *user = user_get(jobs, r->job.uid);
    const char *why = jobs->durable->store ? store_problem(jobs->durable->store) : "there is no state directory";

    *ret_code = CODE_USAGE;
    if (!jobs_schedule_is_name(r->name))
        return "the name of a schedule has letters, digits and any of _-.@+, at most 63, and does not begin with -";
    if (find(jobs, r->job.uid, r->name))
        return "there is one of that name: `wsctl schedule remove` it first";
    *ret_code = CODE_BUSY;
    if (!user)
        return "out of memory";
    if (jobs->draining)
        return "wsd is draining and takes no new schedules";
    if (user->n_schedules >= user_limits(jobs, user)->schedules_per_user)
        return "too many schedules of this user (max-schedules-per-user in wsd.conf): remove one first";
    *ret_code = CODE_IO;
    if (!why)
        return NULL;
    snprintf(text, JOB_TEXT, "this wsd keeps no schedules: %.180s", why);
    return text;
}

/* Why calendar_parse() refuses it. */
static const char *calendar_words(const char *calendar, char words[static JOB_TEXT])
{
    const char *zone = calendar_unknown_zone(calendar);

    if (!zone)
        return "--on: not a calendar expression: see systemd.time(7), or `systemd-analyze calendar`";
    snprintf(words, JOB_TEXT, "--on: there is no time zone %.100s here: see `timedatectl list-timezones`", zone);
    return words;
}

void jobs_schedule_add(struct jobs *jobs, const struct schedule_request *r, struct schedule_query *q)
{
    char words[JOB_TEXT];
    struct schedule *s;
    uint64_t next;
    int code;
    const char *text = refusal(jobs, r, &code, words);

    if (text) {
        answer(q, code, text);
        return;
    }
    int result = schedule_new(jobs, r, &s);
    if (result < 0) {
        answer(q, result == -EINVAL ? CODE_USAGE : CODE_BUSY,
               result == -EINVAL ? calendar_words(r->calendar, words) : "out of memory");
        return;
    }
    user_get(jobs, r->job.uid)->n_schedules++;
    if (calendar_next(s->calendar, clock_realtime_usec(), &next) < 0) {
        schedule_remove(s, NULL);
        answer(q, CODE_USAGE, "--on: that time never comes");
        return;
    }
    s->number = ++jobs->schedules->last_number;
    s->pending = true;
    ask(s, q);
    if (!post(s, STORE_SCHEDULE_ADD, added)) {
        s->asker = NULL;
        s->number = 0;
        schedule_remove(s, NULL);
        answer(q, CODE_BUSY, "out of memory");
    }
}

/* A schedule that this user may change. For root, its own one of that name comes first, then those of others. */
static struct schedule *find_own(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q)
{
    struct schedule *s = find(jobs, uid, name);

    if (s && !s->pending && (!s->configured || s->claimed))
        return s;
    answer(q, CODE_NOT_FOUND, "no such schedule: see `wsctl schedule list`");
    return NULL;
}

void jobs_schedule_remove(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q)
{
    struct schedule *s = find_own(jobs, uid, name, q);

    if (!s)
        return;
    if (s->configured) {
        answer(q, CODE_DENIED, "it stands in wsd.conf: remove it there");
        return;
    }
    schedule_remove(s, q);
}

void jobs_schedule_run(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q)
{
    struct schedule *s = find_own(jobs, uid, name, q);

    if (!s)
        return;
    if (s->watch.job || s->asker) {
        answer(q, CODE_BUSY, "its last run is not done: see `wsctl schedule list`");
        return;
    }
    ask(s, q);
    run(s, clock_realtime_usec());
}

static int by_name(const void *a, const void *b)
{
    const struct schedule *x = *(struct schedule *const *)a, *y = *(struct schedule *const *)b;

    return x->job.uid != y->job.uid ? (x->job.uid < y->job.uid ? -1 : 1) : strcmp(x->name, y->name);
}

int jobs_schedules(struct jobs *jobs, uint32_t uid, void (*show)(const struct schedule_info *info, void *userdata),
                   void *userdata)
{
    struct schedule **all = calloc(jobs->schedules->by_name.n + 1, sizeof(struct schedule *));
    size_t n = 0;

    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < jobs->schedules->by_name.n_buckets; i++)
        for (struct hash_link *l = jobs->schedules->by_name.buckets[i]; l; l = l->next) {
            struct schedule *s = container_of(l, struct schedule, by_name);

            if ((uid == 0 || uid == s->job.uid) && !s->pending && (!s->configured || s->claimed))
                all[n++] = s;
        }
    qsort(all, n, sizeof(struct schedule *), by_name);
    for (size_t i = 0; i < n; i++) {
        const struct schedule *s = all[i];
        struct schedule_info info = {.name = s->name,
                                     .calendar = s->text,
                                     .plugin = s->plugin,
                                     .function = s->function,
                                     .error = s->error,
                                     .uid = s->job.uid,
                                     .persistent = s->persistent,
                                     .configured = s->configured,
                                     .running = s->watch.job && s->accepted,
                                     .next_usec = s->due.clock ? s->due.node.key : 0,
                                     .ran_usec = s->ran_usec,
                                     .runs = s->runs,
                                     .skipped = s->skipped,
                                     .state = s->state,
                                     .exit = s->exit};

        memcpy(info.id, s->id, sizeof(info.id));
        show(&info, userdata);
    }
    free(all);
    return 0;
}

/* --- the configuration's ------------------------------------------------------------------------------------------ */

static bool is_same(const struct schedule *s, const struct schedule_request *r)
{
    return strcmp(s->text, r->calendar) == 0 && strcmp(s->plugin, r->job.plugin) == 0 &&
           strcmp(s->function, r->job.function) == 0 && s->job.args_size == r->job.args_size &&
           memcmp(s->args, r->job.args, r->job.args_size) == 0 && s->persistent == r->persistent &&
           (s->directory != NULL) == (r->job.directory != NULL);
}

static void unclaim(struct schedule *s)
{
    s->claimed = false;
}

static void remove_unclaimed(struct schedule *s)
{
    if (s->configured && !s->claimed)
        schedule_remove(s, NULL);
}

static void configure(struct jobs *jobs, const struct schedule_request *r)
{
    struct schedule *s = find(jobs, r->job.uid, r->name);
    uint64_t base = 0;

    if (s && !s->configured) {
        log_error("[schedule %s]: its user has added one of that name: that one stays", r->name);
        return;
    }
    if (s && !is_same(s, r)) {
        base = s->base_usec;
        schedule_remove(TAKE(s), NULL);
    }
    if (!s) {
        int result = schedule_new(jobs, r, &s);

        if (result < 0) {
            log_error("[schedule %s]: %s", r->name, strerror(-result));
            return;
        }
        s->configured = true;
        if (base)
            s->base_usec = base;
        s->number = ++jobs->schedules->last_number;
        if (!post(s, STORE_SCHEDULE_ADD, noted))
            s->number = 0; /* it runs all the same */
    }
    s->claimed = true;
    start(s);
}

void jobs_schedules_configure(struct jobs *jobs, const struct schedule_request *list, size_t n)
{
    if (jobs->draining)
        return;
    each(jobs, unclaim);
    for (size_t i = 0; i < n; i++)
        configure(jobs, &list[i]);
    each(jobs, remove_unclaimed);
}
