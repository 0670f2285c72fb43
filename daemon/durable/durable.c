/* SPDX-License-Identifier: Apache-2.0
 *
 * durable.c: the life of a durable job. Each step that a restart must know of is on disk first.
 * Owns the requests to the store. [loop]
 * Keeps: a job is acknowledged when it is on disk, and so is its end. One that may not run twice is on disk as begun
 * before an executor gets it. If the disk fails before a job is acknowledged, the job is refused; after that, it waits.
 * The store answers in order, so a step need not wait for the one before it.
 * Does not keep what has ended (results.c) or read what was there at the start (restore.c). */
#include "durable/durable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/hand-over.h"
#include "durable/results.h"
#include "durable/rows.h"
#include "table/after.h"
#include "table/gate.h"
#include "table/ids.h"
#include "table/output.h"
#include "table/plugin-names.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/timing.h"
#include "table/watches.h"

_Static_assert(DURABLE_INPUT_MAX == STORE_INPUT_MAX, "what is accepted fits on the disk");

#define DEFERRED "wsd is ending: the job stays in its store, and goes on after the next start; see `wsctl await`"

/* --- requests ----------------------------------------------------------------------------------------------------- */

struct disk_request *disk_request_alloc(struct jobs *jobs, enum store_op op, void (*answer)(struct store_request *r))
{
    struct disk_request *q = slab_take(&jobs->durable->request_cells, sizeof(*q));

    if (!q)
        return NULL;
    memset(q, 0, offsetof(struct disk_request, r.why)); /* the texts are most of it */
    q->r.why[0] = q->error[0] = 0;
    q->r.op = op;
    q->r.answer = answer;
    q->r.row.input_fd = -1;
    q->jobs = jobs;
    return q;
}

void disk_request_free(struct disk_request *q)
{
    slab_give(q);
}

struct disk_request *disk_request_new(struct job *job, enum store_op op, void (*answer)(struct store_request *r))
{
    struct disk_request *q = disk_request_alloc(job->domain->jobs, op, answer);
    struct policy *p = job_policy(job);

    if (!q)
        return NULL;
    q->r.row.number = p->number;
    q->job = job;
    list_push_back(&p->requests, &q->link);
    return q;
}

struct job *disk_request_done(struct disk_request *q)
{
    if (q->job)
        list_remove(&q->link);
    return q->job;
}

int durable_code(int error)
{
    return error == -ENOSPC || error == -ENOMEM || error == -EBUSY || error == -EEXIST ? CODE_BUSY : CODE_IO;
}

/* --- into the store ----------------------------------------------------------------------------------------------- */

const char *durable_refuses(struct jobs *jobs, const struct job_request *r, int *ret_code, char text[static JOB_TEXT])
{
    const char *why = jobs->durable->store ? store_problem(jobs->durable->store) : "there is no state directory";

    if (!why)
        return NULL;
    *ret_code = CODE_IO;
    snprintf(text, JOB_TEXT, "%s: %.180s",
             r->durable ? "this wsd takes no durable jobs" : "whether a job with that key is on disk cannot be read",
             why);
    return text;
}

void durable_count(struct job *job, uint64_t bytes)
{
    struct policy *p = job_policy(job);

    job->domain->jobs->counters.store_bytes += bytes - p->bytes;
    job->user->store_bytes += bytes - p->bytes;
    p->bytes = bytes;
}

static void added(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);
    struct policy *p = job_policy(job);
    char text[JOB_TEXT];

    if (r->result < 0) {
        snprintf(text, sizeof(text), "the job cannot be kept: %.220s", r->why);
        int code = durable_code(r->result);
        if (r->result != -EEXIST) /* the disk's fault, and not the submitter's */
            log_event(LOG_KIND_STORE, LOG_ERR, NULL, "a durable job of user %u is refused: %s", job->user->uid, r->why);
        disk_request_free(q);
        durable_count(job, 0);
        job_refuse(job, code, text);
        return;
    }
    disk_request_free(q);
    p->acknowledged = true;
    for (struct watch *w = job->watches; w; w = w->next)
        w->ops->accepted(w, job->id);
    if (job->more->stop != STOP_NONE) { /* while it was on its way */
        job->more->stop = STOP_NONE;
        if (job->state == JOB_NEW)
            job_move(job, JOB_HELD);
        job_stop(job, STOP_CANCEL);
        return;
    }
    if (!job->domain->jobs->draining) {
        job_enqueue(job);
        return;
    }
    if (job->state == JOB_NEW)
        job_move(job, JOB_HELD);
    durable_defer(job, false);
}

bool durable_add(struct job *job)
{
    struct jobs *jobs = job->domain->jobs;
    struct policy *p = job_policy(job);
    uint64_t bytes = job->args_size + job_input_size(job) + STORE_OVERHEAD;
    bool by_descriptor = job->more && job->more->input_fd >= 0;
    struct disk_request *q;

    if (!durable_unacknowledged(job))
        return false;
    if (!durable_room(jobs, job->user, bytes)) {
        job_refuse(job, CODE_BUSY,
                   "the store, or your share of it, is full ([store] max-size in wsd.conf): try again when jobs have "
                   "ended, or see `wsctl dead`");
        return true;
    }
    p->number = ++jobs->durable->last_number;
    q = disk_request_new(job, STORE_ADD, added);
    if (!q) {
        job_refuse(job, CODE_BUSY, "out of memory");
        return true;
    }
    durable_count(job, bytes);
    struct store_row *row = &q->r.row;
    row_set_job(row, job);
    row->key = p->key;
    row->args = job_given(job);
    row->args_size = job->args_size;
    row->input = by_descriptor ? NULL : job_given(job) + job->args_size;
    row->input_size = job_input_size(job);
    row->input_fd = by_descriptor ? job->more->input_fd : -1;
    if (job->more->awaiting) {
        row->after = job->more->awaiting->names;
        row->after_size = job->more->awaiting->n * sizeof(struct after_name);
    }
    row->due_usec = time_due(job);
    row->state = row->due_usec ? JOB_DELAYED : JOB_QUEUED;
    const struct job_time *t = job_time(job);
    if (t) {
        row->due_at = row->due_usec && row->due_usec == t->at_usec;
        row->delay_usec = t->delay_usec;
    }
    store_post(jobs->durable->store, &q->r);
    return true;
}

bool durable_stop(struct job *job, enum job_stop why)
{
    struct policy *p = job_policy(job);

    if (!p || !p->durable || job_final(job) || (p->acknowledged && !p->awaiting_store))
        return false;
    if (list_empty(&p->requests))
        return false; /* not on its way yet: refused, or as ever */
    job->more->stop = (uint8_t)why;
    return true;
}

/* --- before it is handed over ------------------------------------------------------------------------------------- */

static void input_back(struct job *job, int fd)
{
    struct job_more *m = job->more;

    m->input_fd = fd;
    m->n_fds = 1;
    job->user->n_fds++;
}

static void started(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);
    struct policy *p = job ? job_policy(job) : NULL;
    int result = r->result, fd = result == 0 && r->want_input ? r->reply_fd : -1;
    bool marks = r->row.started;
    char why[STORE_WHY];

    memcpy(why, r->why, sizeof(why));
    disk_request_free(q);
    if (!job) {
        close_fd(fd);
        return;
    }
    p->awaiting_store = false;
    job->domain->n_awaiting_store--;
    if (fd >= 0) {
        input_back(job, fd);
        p->input_away = false;
    }
    p->marked |= result == 0 && marks;
    queue_put(&job->domain->queue, job, true); /* where it has had its place at its gates, too */
    if (job->more->stop != STOP_NONE) {
        enum job_stop stop = (enum job_stop)job->more->stop;

        job->more->stop = STOP_NONE;
        job_stop(job, stop);
    } else if (result == -ENOENT || result == -EBADMSG) {
        job_unqueue(job);
        job_finish(job, JOB_FAILED, WSD_STATUS_LAST, "its input is not in the store any more", NULL);
    } else if (result < 0) { /* it was taken on, so it waits */
        log_event(LOG_KIND_STORE, LOG_WARNING, NULL, "a durable job waits for the disk: %s", why);
        job_unqueue(job);
        job_move(job, JOB_DELAYED);
        time_pause(job, STORE_AGAIN_USEC);
    } else {
        domain_pump(job->domain);
    }
}

enum disk_step durable_before(struct domain *d, struct job *job)
{
    struct policy *p = job_policy(job);
    struct disk_request *q;

    if (!p || !p->durable)
        return STEP_ON;
    bool marks = !p->marked && !(job_function(job)->flags & WSD_FN_IDEMPOTENT);
    if (!marks && !p->input_away)
        return STEP_ON;
    /* a marked job that has not begun would be lost with wsd, so only as many are marked as begin at once. The jobs
     * counted here end, or come back, and then the queue goes on. */
    if (marks && d->n_handed + d->n_awaiting_store >= 2 * d->jobs->options.workers)
        return STEP_WAIT;
    if (d->n_awaiting_store >= STORE_READS)
        return STEP_WAIT;
    /* it waits, where the disk does not take it */
    q = time_make(job) ? disk_request_new(job, STORE_START, started) : NULL;
    if (!q)
        return STEP_WAIT;
    queue_take(&d->queue, job);
    p->awaiting_store = true;
    d->n_awaiting_store++;
    q->r.row.started = marks;
    q->r.want_input = p->input_away;
    store_post(d->jobs->durable->store, &q->r);
    return STEP_AWAITS;
}

/* --- after it has run --------------------------------------------------------------------------------------------- */

static void retried(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);

    if (r->result < 0)
        log_warning("a durable job's next try is not on disk: %s", r->why);
    disk_request_free(q);
    if (job && job->domain->jobs->draining)
        durable_defer(job, false);
}

void durable_retry(struct job *job)
{
    struct policy *p = job_policy(job);
    struct disk_request *q = disk_request_new(job, STORE_RETRY, retried);

    p->marked = false;
    if (!q)
        return; /* a wsd that dies now takes this try for the last one */
    q->r.row.state = JOB_DELAYED;
    q->r.row.due_usec = time_due(job);
    q->r.row.retried = p->retried;
    q->r.row.attempts = p->attempts_before;
    q->r.row.requeued = p->requeued;
    if (job->more->error) {
        snprintf(q->error, sizeof(q->error), "%s", job->more->error);
        q->r.row.error = q->error;
    }
    store_post(q->jobs->durable->store, &q->r);
}

void durable_closing(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!p || !p->durable)
        return;
    p->ending = true;
    p->dead = p->retries && p->retry_on >> job->state & 1 && !job_time(job)->waited;
}

/* Removes the job from memory, not from disk: the next wsd has it. */
static void leave(struct job *job)
{
    job->domain->jobs->durable->has_deferred = true;
    watches_defer(job, CODE_BUSY, DEFERRED);
    job_leave(job, CODE_BUSY, DEFERRED);
}

static void leave_uncancelled(struct job *job)
{
    const struct log_about about = job_about(job);

    log_event(LOG_KIND_STORE, LOG_ERR, &about,
              "job " JOB_ID_FORMAT " was cancelled, and that could not be written: it goes on after the next start",
              JOB_ID_ARGS(job->id));
    leave(job);
}

static void tell_end_on_disk(struct job *job)
{
    struct job_info info;

    job_describe(job, &info);
    job_ended(job, &info);
}

/* Nobody is told that the job was cancelled before that is on disk. May free the job. */
static void keep_unwritten(struct job *job, const char *why)
{
    struct policy *p = job_policy(job);
    char text[JOB_TEXT];

    p->unsaved = true;
    if (job->domain->jobs->draining) {
        leave_uncancelled(job);
        return;
    }
    if (list_empty(&p->stored))
        list_push_back(&job->domain->jobs->durable->results.unwritten, &p->stored);
    durable_unsaved(job);
    snprintf(text, sizeof(text),
             "the cancel cannot be kept: %.120s; the job is stopped, but would run after wsd's next start: try again",
             why);
    for (struct watch *w = job->watches, *next; w; w = next) {
        next = w->next;
        if (!w->until_disk)
            continue;
        job_remove_watch(w);
        w->ops->refused(w, CODE_BUSY, text, STORE_AGAIN_USEC);
    }
}

static void ended(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);
    struct policy *p = job_policy(job);
    int result = r->result;
    char why[STORE_WHY];

    memcpy(why, r->why, sizeof(why));
    disk_request_free(q);
    if (result < 0)
        log_event(LOG_KIND_STORE, LOG_ERR, NULL, "the end of a durable job cannot be written, and is tried again: %s",
                  why);
    if (result < 0 && job->state == JOB_CANCELLED) {
        keep_unwritten(job, why);
        return;
    }
    p->ending = false;
    p->unsaved = result < 0;
    tell_end_on_disk(job);
}

/* 0 or -ENOMEM. */
static int post_end(struct job *job, void (*answer)(struct store_request *r))
{
    struct policy *p = job_policy(job);
    struct job_more *m = job->more;
    struct disk_request *q = disk_request_new(job, STORE_END, answer);

    if (!q)
        return -ENOMEM;
    struct store_row *row = &q->r.row;
    row->state = job->state;
    row->exit = (uint32_t)m->exit;
    row->retried = p->retried;
    row->attempts = p->attempts_before + job->attempts;
    row->dead = p->dead;
    row->ended_usec = clock_realtime_usec();
    row->queued_usec = m->queued_usec;
    row->run_usec = m->run_usec;
    row->cpu_usec = m->cpu_usec;
    row->done = m->done;
    row->total = m->total;
    row->error = m->error;
    row->status = m->status;
    row->worker = m->worker;
    row->backtrace = m->backtrace;
    row->output = buffer_size(&m->output) ? buffer_data(&m->output) : NULL;
    row->output_size = buffer_size(&m->output);
    store_post(q->jobs->durable->store, &q->r);
    return 0;
}

bool durable_end(struct job *job, const struct job_info *info)
{
    struct policy *p = job_policy(job);
    uint64_t bytes;

    if (!p || !p->durable)
        return false;
    job_keep_end(job, info);
    bytes = buffer_size(&job->more->output) + STORE_OVERHEAD + (p->dead ? p->bytes : 0);
    durable_count(job, 0);
    (void)durable_room(job->domain->jobs, job->user, bytes); /* what has run has its place */
    durable_count(job, bytes);
    if (post_end(job, ended) == 0)
        return true;
    if (job->state == JOB_CANCELLED) {
        keep_unwritten(job, "out of memory");
        return true;
    }
    p->ending = false;
    p->unsaved = true;
    return false;
}

static void saved(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);
    struct job *job = disk_request_done(q);
    struct policy *p = job ? job_policy(job) : NULL;
    int result = r->result;
    char why[STORE_WHY];

    memcpy(why, r->why, sizeof(why));
    disk_request_free(q);
    if (!job)
        return;
    if (result < 0 && policy_unwritten(p)) {
        keep_unwritten(job, why);
    } else if (result < 0) {
        durable_unsaved(job);
    } else if (policy_unwritten(p)) {
        list_remove(&p->stored);
        p->ending = p->unsaved = false;
        tell_end_on_disk(job);
    } else {
        p->unsaved = false;
        durable_rest(job);
    }
}

void durable_save(struct job *job)
{
    if (list_empty(&job_policy(job)->requests) && post_end(job, saved) < 0)
        durable_unsaved(job);
}

static void unmarked(struct store_request *r)
{
    disk_request_free(container_of(r, struct disk_request, r));
}

/* Takes back a job that was handed over and has not begun, and its mark from the disk. */
static bool take_back(struct job *job)
{
    struct policy *p = job_policy(job);
    struct disk_request *q;

    if (job_received(job) || job->more->held_chunks || job->more->stop != STOP_NONE)
        return false;
    q = disk_request_new(job, STORE_RETRY, unmarked);
    if (!q)
        return false;
    (void)disk_request_done(q);
    q->job = NULL;
    if (!front_recall(job->domain->front, job->slot)) {
        disk_request_free(q);
        return false;
    }
    q->r.row.state = JOB_QUEUED;
    q->r.row.due_usec = clock_realtime_usec(); /* from then on it waits */
    q->r.row.retried = p->retried;
    q->r.row.attempts = p->attempts_before;
    q->r.row.requeued = p->requeued;
    store_post(q->jobs->durable->store, &q->r);
    return true;
}

bool durable_defer(struct job *job, bool running)
{
    struct policy *p = job_policy(job);
    struct domain *d = job->domain;

    if (p && policy_unwritten(p) && list_empty(&p->requests)) {
        leave_uncancelled(job);
        return true;
    }
    if (!p || !p->durable || !p->acknowledged || job_final(job) || p->awaiting_store)
        return false;
    switch ((enum job_state)job->state) {
    case JOB_QUEUED:
        job_unqueue(job);
        break;
    case JOB_RUNNING:
        if (!running && !take_back(job))
            return false;
        d->slots[job->slot] = NULL;
        output_absorb(job);
        job_move(job, JOB_QUEUED); /* its place at its gates is free */
        break;
    case JOB_HELD: /* its input is there, or it would not be acknowledged: it waits for others */
    case JOB_DELAYED:
        break;
    default:
        return false;
    }
    leave(job);
    return true;
}

void durable_health(const struct jobs *jobs, struct jobs_counters *ret)
{
    const struct store_health health =
        jobs->durable->store ? store_health(jobs->durable->store) : (struct store_health){0};

    ret->store_commits = health.commits;
    ret->store_commit_usec = health.usec;
    ret->store_commit_last_usec = health.last_usec;
    ret->store_commit_most_usec = health.most_usec;
}
