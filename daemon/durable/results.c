/* SPDX-License-Identifier: Apache-2.0
 *
 * results.c: durable jobs that have ended. They are on disk until they expire or, if dead, until a user decides.
 * Owns the lists of both and the two timers. [loop]
 * Keeps: by time, the oldest end goes first; by size, the oldest of the same user. Nothing goes while a client reads
 * it. An output is in memory only while a client reads it.
 * Does not touch what has not ended. */
#include "durable/results.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/hand-over.h"
#include "durable/dead.h"
#include "durable/durable.h"
#include "durable/restore.h"
#include "durable/rows.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/find.h"
#include "table/ids.h"
#include "table/output.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/timers.h"

#define EXPIRY_LOOKS 128u /* in one turn of the loop, or for one job that comes */

static struct job *job_at(struct list *l)
{
    return container_of(l, struct policy, stored)->job;
}

static bool in_use(const struct job *job)
{
    return job->watches || !list_empty(&job_policy(job)->requests) || after_pending(job);
}

/* --- expiry ------------------------------------------------------------------------------------------------------- */

static void dropped(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);

    if (r->result < 0) /* it will be back after a restart, and expire then */
        log_warning("an expired job stays on disk: %s", r->why);
    disk_request_free(q);
}

static void uncount(struct job *job)
{
    struct policy *p = job_policy(job);
    struct jobs_counters *n = &job->domain->jobs->counters;

    durable_count(job, 0);
    if (p->dead) {
        n->n_dead--;
        return;
    }
    n->n_stored--;
    job->user->n_stored--;
}

/* False: no memory; it stays. */
static bool expire(struct job *job)
{
    struct disk_request *q = disk_request_new(job, STORE_DROP, dropped);

    if (!q)
        return false;
    (void)disk_request_done(q);
    q->job = NULL;
    uncount(job);
    store_post(q->jobs->durable->store, &q->r);
    job_free(job);
    return true;
}

/* One in use counts as the newest, so that the next look finds others. False: those looked at are in use, or there is
 * none, or no memory. */
static bool expire_oldest(struct jobs *jobs, struct user *user)
{
    const uint64_t newest = clock_monotonic_usec() + jobs->options.limits.store_keep_usec;

    for (uint32_t left = MIN(EXPIRY_LOOKS, user->n_stored); left > 0; left--) {
        struct policy *p = container_of(user->expiring.top, struct policy, by_user);

        if (!in_use(p->job))
            return expire(p->job);
        heap_take(&user->expiring, &p->by_user);
        heap_put(&user->expiring, &p->by_user, newest);
    }
    return false;
}

/* Whether one user may hold so many bytes where all users together hold `all`: no more than is left for others then. So
 * one user that takes all that is allowed gets half, two get a third each, and a new one finds room: the dynamic
 * thresholds of Choudhury and Hahne (1998). In a user's own wsd there are no others. */
static bool is_share(const struct jobs *jobs, uint64_t his, uint64_t all, uint64_t limit)
{
    return all <= limit && (jobs->options.user_daemon || his <= limit - all);
}

bool durable_room(struct jobs *jobs, struct user *user, uint64_t bytes)
{
    const uint64_t limit = jobs->options.limits.store_bytes, had = user->store_bytes;
    const uint64_t others = jobs->counters.store_bytes - had;

    if (bytes > limit || others > limit - bytes)
        return false; /* even without all bytes of this user */
    for (;;) {
        uint64_t his = user->store_bytes + bytes;

        /* what the user had before others came may be replaced, one for one */
        if (others + his <= limit && (his <= had || is_share(jobs, his, others + his, limit)))
            return true;
        if (!expire_oldest(jobs, user))
            return false;
    }
}

static void expiry_arm(struct jobs *jobs)
{
    struct results *r = &jobs->durable->results;
    uint64_t now = clock_monotonic_usec();

    if (!heap_empty(&r->expiring) && !evtimer_pending(r->expiry_timer, NULL))
        jobs_timer(jobs, r->expiry_timer, r->expiring.top->key > now ? r->expiring.top->key - now : 0);
}

static void on_expiry(evutil_socket_t fd, short what, void *userdata)
{
    struct jobs *jobs = userdata;
    struct heap *expiring = &jobs->durable->results.expiring;
    uint64_t now = clock_monotonic_usec();

    for (uint32_t left = EXPIRY_LOOKS; left > 0 && !heap_empty(expiring) && expiring->top->key <= now; left--) {
        struct policy *p = container_of(expiring->top, struct policy, expires);

        if (!in_use(p->job) && expire(p->job))
            continue;
        heap_take(expiring, &p->expires); /* it is being read, or there is no memory: later */
        heap_put(expiring, &p->expires, now + STORE_AGAIN_USEC);
    }
    expiry_arm(jobs);
}

void results_insert(struct job *job, uint64_t left_usec)
{
    struct jobs *jobs = job->domain->jobs;
    struct results *r = &jobs->durable->results;
    struct policy *p = job_policy(job);
    struct user *user = job->user;

    if (p->dead) {
        list_push_back(&r->dead, &p->stored);
        jobs->counters.n_dead++;
        return;
    }
    /* never this one. Two, so that a user comes back to the share after a look that found all in use */
    for (int i = 0; i < 2 && jobs->durable->store; i++)
        if (!is_share(jobs, user->n_stored + 1, jobs->counters.n_stored + 1, STORE_RECORDS))
            expire_oldest(jobs, user);
    list_push_back(&r->stored, &p->stored);
    heap_put(&r->expiring, &p->expires, clock_monotonic_usec() + left_usec);
    heap_put(&user->expiring, &p->by_user, p->expires.key);
    jobs->counters.n_stored++;
    user->n_stored++;
    if (r->expiring.top == &p->expires) /* before all others: `keep` was longer when they ended */
        evtimer_del(r->expiry_timer);
    expiry_arm(jobs);
}

void results_remove(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!list_empty(&p->stored) && !p->dead && !policy_unwritten(p)) {
        heap_take(&job->domain->jobs->durable->results.expiring, &p->expires);
        heap_take(&job->user->expiring, &p->by_user);
    }
    list_remove(&p->stored);
}

bool durable_keep(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!p || !p->durable)
        return false;
    results_insert(job, job->domain->jobs->options.limits.store_keep_usec);
    if (p->unsaved)
        durable_unsaved(job);
    else if (!job->watches)
        durable_rest(job);
    return true;
}

/* --- what could not be written ------------------------------------------------------------------------------------ */

void durable_unsaved(struct job *job)
{
    struct jobs *jobs = job->domain->jobs;

    if (!evtimer_pending(jobs->durable->results.save_timer, NULL))
        jobs_timer(jobs, jobs->durable->results.save_timer, STORE_AGAIN_USEC);
}

static void save_all(struct list *jobs)
{
    list_for_each (l, jobs) {
        struct job *job = job_at(l);

        if (job_policy(job)->unsaved)
            durable_save(job);
    }
}

static void on_save(evutil_socket_t fd, short what, void *userdata)
{
    struct jobs *jobs = userdata;

    save_all(&jobs->durable->results.unwritten);
    save_all(&jobs->durable->results.stored);
    save_all(&jobs->durable->results.dead);
}

void results_rearm(struct jobs *jobs)
{
    expiry_arm(jobs);
    if (!evtimer_pending(jobs->durable->results.save_timer, NULL))
        on_save(-1, 0, jobs);
}

/* --- reading back ------------------------------------------------------------------------------------------------- */

void durable_rest(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!p || !p->durable || !job_final(job) || p->ending || p->unsaved || job->watches || list_empty(&p->stored))
        return;
    output_free(job);
    user_refund(job->domain->jobs, job->user, job->more->charged);
    job->more->charged = 0;
    p->away = job_received(job) > 0;
}

static void read_back(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);
    _cleanup_(freep) void *output = r->reply;
    size_t size = r->reply_size;
    int result = r->result;
    char text[JOB_TEXT];

    snprintf(text, sizeof(text), "the output cannot be read: %.160s", r->why);
    disk_request_free(q);
    if (!job)
        return;
    struct policy *p = job_policy(job);
    p->reading = false;
    if (!job->watches)
        return;
    uint64_t retry_usec = 0;
    if (result == 0) {
        int charged = user_admit(job->domain->jobs, job->user, size, &retry_usec);

        result = charged < 0 ? -ENOSPC : 0;
        if (charged < 0)
            snprintf(text, sizeof(text), "%s", user_charge_words(charged));
    }
    if (result < 0) {
        watches_refuse(job, durable_code(result), text, retry_usec);
        return;
    }
    job->more->charged += size;
    job->more->received = size;
    p->away = false;
    job->more->output = (struct buffer){.data = TAKE(output), .end = size, .room = size};
    output_pump(job);
    job_settle(job);
}

bool durable_fetch(struct job *job)
{
    struct policy *p = job_policy(job);
    struct disk_request *q;

    if (!p || !p->away)
        return false;
    if (p->reading)
        return true;
    q = disk_request_new(job, STORE_READ, read_back);
    if (!q) {
        watches_refuse(job, CODE_BUSY, "out of memory", 0);
        return true;
    }
    p->reading = true;
    store_post(q->jobs->durable->store, &q->r);
    return true;
}

/* --- out of retries ----------------------------------------------------------------------------------------------- */

static void decided(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct dead_query *query = q->query;
    struct job *job = disk_request_done(q), *again = NULL;
    struct jobs *jobs = q->jobs;
    _cleanup_(freep) void *given = r->reply;
    int code = r->result == 0 ? 0 : durable_code(r->result);
    char text[JOB_TEXT];

    snprintf(text, sizeof(text), "%s", r->why);
    if (r->result == 0 && job) {
        struct policy *p = job_policy(job);
        struct store_row row = {.number = p->number,
                                .args_size = r->row.args_size,
                                .input_size = r->row.input_size,
                                .input_fd = -1,
                                .state = JOB_QUEUED,
                                .requeued = r->row.requeued,
                                .due_usec = clock_realtime_usec()}; /* it begins to wait anew */
        _cleanup_(freep) char *key = TAKE(p->key);

        row_set_job(&row, job);
        row.key = key;
        if (key)
            hash_remove(&jobs->durable->keys, &p->by_key);
        watches_refuse(job, CODE_BUSY, r->op == STORE_DROP ? "it was dropped" : "it was queued again: await it anew",
                       0);
        uncount(job);
        /* the old one goes last, since the row points into it; a final state is never left */
        if (r->op == STORE_REQUEUE && restore_job(jobs, &row, given, &again) < 0) {
            code = CODE_BUSY; /* on disk it is queued: the next start finds it */
            snprintf(text, sizeof(text), "out of memory: it is queued after wsd's next start");
        }
        job_free(job);
    }
    disk_request_free(q);
    if (query) {
        query->request = NULL;
        query->answer(query, code, text);
    }
    if (again)
        domain_pump(again->domain);
}

int jobs_dead(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by, bool requeue,
              struct dead_query *query)
{
    struct job *job = job_find(jobs, id, uid);
    struct policy *p = job ? job_policy(job) : NULL;
    struct disk_request *q;

    if (!p || !policy_dead(p))
        return -ENOENT;
    if (requeue && jobs->draining)
        return -EAGAIN;
    if (!list_empty(&p->requests) || p->unsaved || after_pending(job))
        return -EBUSY;
    q = disk_request_new(job, requeue ? STORE_REQUEUE : STORE_DROP, decided);
    if (!q)
        return -ENOMEM;
    if (by != job->user->uid) {
        struct log_about about = job_about(job);

        about.uid = &by;
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &about, "job " JOB_ID_FORMAT " of user %u: %s by user %u",
                  JOB_ID_ARGS(job->id), job->user->uid, requeue ? "queued again" : "dropped", by);
    }
    q->r.row.state = JOB_QUEUED;
    q->r.row.requeued = jobs->durable->last_number;
    q->query = query;
    query->request = q;
    store_post(jobs->durable->store, &q->r);
    return 0;
}

void jobs_dead_forget(struct dead_query *query)
{
    if (query->request)
        query->request->query = NULL;
    query->request = NULL;
}

/* --- the start and the end ---------------------------------------------------------------------------------------- */

int results_init(struct jobs *jobs)
{
    list_init(&jobs->durable->results.stored);
    list_init(&jobs->durable->results.dead);
    list_init(&jobs->durable->results.unwritten);
    jobs->durable->results.expiry_timer = evtimer_new(jobs->options.base, on_expiry, jobs);
    jobs->durable->results.save_timer = evtimer_new(jobs->options.base, on_save, jobs);
    return jobs->durable->results.expiry_timer && jobs->durable->results.save_timer ? 0 : -ENOMEM;
}

void results_deinit(struct jobs *jobs)
{
    if (jobs->durable->results.expiry_timer)
        event_free(jobs->durable->results.expiry_timer);
    if (jobs->durable->results.save_timer)
        event_free(jobs->durable->results.save_timer);
}
