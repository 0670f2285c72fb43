/* SPDX-License-Identifier: Apache-2.0
 *
 * select.c: selections of jobs by their properties, to list or cancel many at once.
 * Owns the ids that were found, charged to the user that asks. [loop]
 * The table is walked a piece a turn, while jobs come and go. Found ids are sorted in runs of a bounded length, and the
 * runs are merged as the ids are taken; so no step takes longer with more jobs. A list goes from the oldest job to the
 * newest. A cancel goes the other way. The end of a job ends newer ones with it: those behind it in its batch, and
 * those that wait for it. From the oldest on, these would not be counted.
 * Keeps: a job that matches and exists all the time is found once. An id is no promise: each job is checked again when
 * it is taken.
 * Does not send anything. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/bundle.h"
#include "jobs/jobs.h"
#include "table/admission.h"
#include "table/batch.h"
#include "table/find.h"
#include "table/ids.h"
#include "table/plugin-names.h"
#include "table/policy.h"

#define RUN 1024u /* ids that are sorted at once */

/* An id as a sort key, in the order in which jobs came: its time, then its number. */
struct place {
    uint64_t time;   /* and bits of chance */
    uint64_t number; /* since the start of this wsd */
};

#define CHANCE_BITS 6 /* of an id's first half, see id_make() */

struct run {
    size_t at, end;
};

struct selection {
    struct jobs *jobs;
    struct user *asker;
    uint32_t reach; /* the user of the jobs; 0: all */
    struct jobs_filter filter;
    char *plugin, *function;
    uint8_t batch[16];
    uint64_t after_usec, before_usec; /* CLOCK_REALTIME; 0: any */
    size_t cursor;
    bool apart, begun, gathered, counted;
    struct place *ids;
    size_t n, room, n_sorted;
    bool newest_first;
    struct run *runs; /* a heap, by the id that each run has next */
    size_t n_runs, runs_room;
    size_t n_skip;        /* older than the limit lets through, where the oldest comes first */
    size_t n_more;        /* that the limit lets through, where the newest comes first */
    uint64_t n_of_others; /* cancelled */
};

int jobs_select(struct jobs *jobs, uint32_t uid, uint32_t reach, const struct jobs_filter *filter, bool newest_first,
                struct selection **ret_selection)
{
    struct selection *s = calloc(1, sizeof(*s));
    uint64_t now = clock_realtime_usec();

    if (!s)
        return -ENOMEM;
    s->jobs = jobs;
    s->asker = user_get(jobs, uid);
    s->reach = reach;
    s->plugin = strdup(filter->plugin ? filter->plugin : "");
    s->function = strdup(filter->function ? filter->function : "");
    if (!s->asker || !s->plugin || !s->function) {
        jobs_select_free(s);
        return -ENOMEM;
    }
    s->newest_first = newest_first;
    s->n_more = SIZE_MAX;
    s->filter = *filter;
    s->filter.plugin = s->plugin;
    s->filter.function = s->function;
    if (filter->batch)
        s->filter.batch = memcpy(s->batch, filter->batch, sizeof(s->batch));
    s->after_usec = filter->newer_usec && filter->newer_usec < now ? now - filter->newer_usec : 0;
    s->before_usec = filter->older_usec ? now - MIN(filter->older_usec, now - 1) : 0;
    jobs->n_selections++;
    s->counted = true;
    *ret_selection = s;
    return 0;
}

static void hold(struct selection *s, size_t room)
{
    s->asker->n_selected += room - s->room;
    s->room = room;
}

struct selection *jobs_select_free(struct selection *s)
{
    if (!s)
        return NULL;
    if (s->n_of_others)
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &(struct log_about){.uid = &s->asker->uid},
                  "%llu jobs of other users: cancelled by user %u", (unsigned long long)s->n_of_others, s->asker->uid);
    if (s->asker)
        hold(s, 0);
    s->jobs->n_selections -= s->counted;
    free(s->ids);
    free(s->runs);
    free(s->plugin);
    free(s->function);
    free(s);
    return NULL;
}

static bool plugin_matches(const struct plugin *p, const char *wanted)
{
    const char *name;
    size_t n = plugin_base_name(p->request, &name);

    return strcmp(plugin_title(p), wanted) == 0 || (strlen(wanted) == n && memcmp(name, wanted, n) == 0);
}

/* What costs least is asked first. */
static bool matches(const struct selection *s, const struct job *job)
{
    const struct jobs_filter *f = &s->filter;
    const struct policy *p = job_policy(job);

    if (f->batch && (!job->batched || memcmp(batch_id(job), f->batch, sizeof(s->batch)) != 0))
        return false;
    return job_shown_to(job, s->reach) && (!f->by_uid || f->uid == job->user->uid) &&
           (!s->after_usec || job_submitted_usec(job) >= s->after_usec) &&
           (!s->before_usec || job_submitted_usec(job) <= s->before_usec) && (!f->dead || (p && policy_dead(p))) &&
           (!*f->plugin || plugin_matches(job->plugin, f->plugin)) &&
           (!*f->function || (job_function(job) && strcmp(job_function(job)->name, f->function) == 0)) &&
           (!f->states || f->states & 1u << job_told_state(job));
}

static struct place place_of(const struct selection *s, const uint8_t id[16])
{
    struct place p = {.time = job_id_half(id)};

    memcpy(&p.number, id + 8, sizeof(p.number));
    p.number = le64toh(p.number) - s->jobs->ids.seed[0];
    return p;
}

static void id_at(const struct selection *s, const struct place *p, uint8_t ret_id[16])
{
    uint64_t time = htobe64(p->time), number = htole64(p->number + s->jobs->ids.seed[0]);

    memcpy(ret_id, &time, sizeof(time));
    memcpy(ret_id + 8, &number, sizeof(number));
}

static int oldest_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    uint64_t tx = x->time >> CHANCE_BITS, ty = y->time >> CHANCE_BITS;

    return tx != ty ? (tx > ty) - (tx < ty) : (x->number > y->number) - (x->number < y->number);
}

static int newest_first(const void *a, const void *b)
{
    return oldest_first(b, a);
}

/* --- the heap of runs --------------------------------------------------------------------------------------------- */

static bool is_before(const struct selection *s, size_t a, size_t b)
{
    int r = oldest_first(&s->ids[s->runs[a].at], &s->ids[s->runs[b].at]);

    return s->newest_first ? r > 0 : r < 0;
}

static void swap(struct selection *s, size_t a, size_t b)
{
    struct run t = s->runs[a];

    s->runs[a] = s->runs[b];
    s->runs[b] = t;
}

static void sift_down(struct selection *s)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < s->n_runs; i = child) {
        if (child + 1 < s->n_runs && is_before(s, child + 1, child))
            child++;
        if (is_before(s, i, child))
            return;
        swap(s, i, child);
    }
}

/* What was found since the last run becomes one. */
static int end_run(struct selection *s)
{
    if (s->n_sorted == s->n)
        return 0;
    if (s->n_runs == s->runs_room) {
        size_t room = s->runs_room ? s->runs_room * 2 : 16;
        struct run *runs = reallocarray(s->runs, room, sizeof(*runs));

        if (!runs)
            return -ENOMEM;
        s->runs = runs;
        s->runs_room = room;
    }
    qsort(s->ids + s->n_sorted, s->n - s->n_sorted, sizeof(*s->ids), s->newest_first ? newest_first : oldest_first);
    s->runs[s->n_runs] = (struct run){.at = s->n_sorted, .end = s->n};
    for (size_t i = s->n_runs++; i > 0 && is_before(s, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(s, i, (i - 1) / 2);
    s->n_sorted = s->n;
    return 0;
}

static void take_first(struct selection *s, uint8_t ret_id[16])
{
    struct run *first = &s->runs[0];

    id_at(s, &s->ids[first->at++], ret_id);
    if (first->at == first->end)
        *first = s->runs[--s->n_runs];
    sift_down(s);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static int add(struct selection *s, const struct job *job)
{
    if (s->n == s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        struct place *ids;

        if (s->asker->n_selected + (room - s->room) > JOBS_SELECTED)
            return -EDQUOT;
        ids = reallocarray(s->ids, room, sizeof(*ids));
        if (!ids)
            return -ENOMEM;
        s->ids = ids;
        hold(s, room);
    }
    s->ids[s->n++] = place_of(s, job->id);
    return s->n - s->n_sorted >= RUN ? end_run(s) : 0;
}

/* 0: all was looked at. */
static int gather(struct selection *s, uint32_t *looks)
{
    if (!s->apart && !bundles_split_some(s->jobs, s->reach, &s->cursor, looks))
        return JOBS_SELECTED_LATER;
    s->apart = true;
    while (!s->begun || s->cursor != 0) {
        int r = 0;

        if (*looks == 0)
            return JOBS_SELECTED_LATER;
        s->begun = true;
        for (struct hash_link *l = hash_walk(&s->jobs->by_id, &s->cursor); l && r == 0; l = l->next) {
            const struct job *job = container_of(l, struct job, by_id);

            *looks -= *looks > 0;
            if (matches(s, job))
                r = add(s, job);
        }
        *looks -= *looks > 0; /* an empty bucket is a look, too */
        if (r < 0)
            return r;
    }
    s->gathered = true;
    if (s->filter.limit && s->newest_first)
        s->n_more = s->filter.limit;
    else if (s->filter.limit && s->n > s->filter.limit)
        s->n_skip = s->n - s->filter.limit;
    return end_run(s);
}

int jobs_select_next(struct selection *s, uint32_t *looks, uint8_t ret_id[16])
{
    int r = s->gathered ? 0 : gather(s, looks);

    if (r != 0)
        return r;
    for (; s->n_runs > 0 && s->n_more > 0; s->n_skip--) {
        if (*looks == 0)
            return JOBS_SELECTED_LATER;
        --*looks;
        take_first(s, ret_id);
        if (s->n_skip > 0)
            continue;
        s->n_more--;
        return JOBS_SELECTED_ONE;
    }
    return JOBS_SELECTED_END;
}

/* --- what becomes of them ----------------------------------------------------------------------------------------- */

static struct job *still(const struct selection *s, const uint8_t id[16])
{
    struct job *job = job_find_shown(s->jobs, id, s->reach);

    return job && matches(s, job) ? job : NULL;
}

void jobs_select_info(struct selection *s, const uint8_t id[16],
                      void (*each)(const struct job_info *info, void *userdata), void *userdata)
{
    const struct job *job = still(s, id);
    struct job_info info;

    if (!job)
        return;
    job_describe(job, &info);
    each(&info, userdata);
}

/* A cancel of it is on its way. */
static bool is_stopping(const struct job *job)
{
    return job->more && job->more->stop == STOP_CANCEL;
}

static bool is_unwritten(const struct job *job)
{
    return job_policy(job) && policy_unwritten(job_policy(job));
}

bool jobs_select_cancel(struct selection *s, const uint8_t id[16])
{
    struct job *job = still(s, id);

    if (job && is_unwritten(job)) /* as if this call did it: an earlier one was told that it could not */
        return true;
    if (!job || job_final(job) || is_stopping(job)) /* it has ended, or another order has it */
        return false;
    bool of_other = job->user != s->asker;
    job_stop(job, STOP_CANCEL);
    job = job_find(s->jobs, id, s->reach);
    if (job && !job_final(job) && !is_stopping(job)) /* too late: its end was already on its way */
        return false;
    s->n_of_others += of_other;
    return true;
}
