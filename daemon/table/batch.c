/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c: many jobs as a unit: counted, followed, stopped and cancelled together.
 * Owns the batches and the table of their ids. A job points at its batch, and reports its changes to it. [loop]
 * Keeps: jobs to be stopped are stopped a piece a turn, the next one to run first. The end of a closed batch is told
 * once, after the last end of its jobs. A batch goes when no client can ask for it, its memory with its last job.
 * Not on disk: after a restart there are the durable jobs, but no batch. */
#include "table/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "table/admission.h"
#include "table/after.h"
#include "table/batches.h"
#include "table/hooks.h"
#include "table/ids.h"
#include "table/timers.h"

#define STOPS_A_TURN 128u

struct batch {
    struct hash_link by_id;
    struct list due;  /* jobs->batches.due */
    struct list kept; /* jobs->batches.kept */
    struct jobs *jobs;
    struct user *user;
    struct list open, doomed; /* items that are not final: and of those, what is to be stopped */
    struct list watches;
    struct awaited *awaited; /* jobs run after it; NULL: none does */
    uint8_t id[16];
    uint64_t n_items;  /* so far */
    uint64_t n_jobs;   /* that point here */
    uint64_t n_open;   /* of them, not final, or NEW */
    uint32_t n_arrays; /* of which more jobs may come */
    uint64_t total, done, failed, first_failed;
    uint64_t doomed_from;                /* the items from this one on are to be stopped, or were */
    uint64_t submitted_usec, ended_usec; /* CLOCK_REALTIME, CLOCK_MONOTONIC */
    int exit;
    bool closed, ended, keep_going, detached;
    bool cancel_closes;
    bool gone; /* from the table */
};

static struct job *job_of(const struct batch_item *item)
{
    return (struct job *)((uintptr_t)item - offsetof(struct job, given));
}

static uint64_t id_key(const uint8_t id[16])
{
    uint64_t low;

    memcpy(&low, id + 8, sizeof(low));
    return hash_mix(low);
}

static void batch_unref(struct batch *b)
{
    if (!b->gone || b->n_jobs || b->n_arrays)
        return;
    list_remove(&b->due);
    free(b);
}

static void drop(struct batch *b)
{
    hash_remove(&b->jobs->batches.by_id, &b->by_id);
    list_remove(&b->kept);
    b->user->n_batches--;
    b->gone = true;
    after_batch_ended(b->jobs, TAKE(b->awaited), b->id, JOB_NEW); /* only where wsd ends before it has */
    batch_unref(b);
}

static void expire(struct jobs *jobs)
{
    uint64_t now = clock_monotonic_usec();

    while (!list_empty(&jobs->batches.kept)) {
        struct batch *b = container_of(jobs->batches.kept.next, struct batch, kept);

        if (now - b->ended_usec < jobs->options.limits.keep_usec)
            return;
        drop(b);
    }
}

static void due(struct batch *b)
{
    if (list_empty(&b->due))
        list_push_back(&b->jobs->batches.due, &b->due);
}

static bool has_ended(const struct batch *b)
{
    return b->closed && !b->n_open && !b->n_arrays;
}

struct batch *batch_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    expire(jobs);
    for (struct hash_link *l = hash_first(&jobs->batches.by_id, id_key(id)); l; l = hash_next(l)) {
        struct batch *b = container_of(l, struct batch, by_id);

        if (memcmp(b->id, id, sizeof(b->id)) == 0)
            return uid == 0 || uid == b->user->uid ? b : NULL;
    }
    return NULL;
}

/* One of its jobs that has not ended; NULL: none. */
static const struct job *open_job(const struct batch *b)
{
    const struct list *l = !list_empty(&b->open) ? b->open.next : b->doomed.next;

    return l == &b->doomed ? NULL : job_of(container_of(l, struct batch_item, link));
}

/* How many of its jobs run. Counted on request, since executors do not report the begin of a job. *looks grows by what
 * that cost. Others' executors have none of them. */
static uint64_t count_running(const struct batch *b, uint64_t *looks)
{
    const struct job *one = open_job(b);
    uint64_t n = 0, started;

    if (!one)
        return 0;
    list_for_each_entry (struct domain, d, &b->jobs->domains, link) {
        ++*looks;
        if (!d->front || d->key != one->domain->key)
            continue;
        list_for_each_entry (const struct job, job, &d->handed, link) {
            ++*looks;
            n += job->batched && job_batch(job)->batch == b && front_running(d->front, job->slot, &started);
        }
    }
    return n;
}

static void describe(const struct batch *b, struct batch_info *ret)
{
    uint64_t looks = 0, left = b->total - b->done, running = count_running(b, &looks);

    *ret = (struct batch_info){.uid = b->user->uid,
                               .closed = b->closed,
                               .ended = b->ended,
                               .stopped = b->doomed_from != UINT64_MAX,
                               .cancelled = b->doomed_from == 0,
                               .exit = b->exit,
                               .total = b->total,
                               .running = MIN(running, left),
                               .queued = left - MIN(running, left),
                               .done = b->done,
                               .failed = b->failed,
                               .submitted_usec = b->submitted_usec};
    memcpy(ret->id, b->id, sizeof(ret->id));
    ret->looks = looks;
}

static void watch_remove(struct batch_watch *w)
{
    list_remove(&w->link);
    list_remove(&w->progress);
    w->batch = NULL;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

/* Marks the items from this place in `open` on, which is that of `index`, to be stopped; no more can be added. */
static void doom(struct batch *b, struct list *from, uint64_t index)
{
    struct list *last = b->open.prev;

    b->doomed_from = index;
    if (from == &b->open)
        return;
    from->prev->next = &b->open;
    b->open.prev = from->prev;
    from->prev = b->doomed.prev;
    last->next = &b->doomed;
    b->doomed.prev->next = from;
    b->doomed.prev = last;
    due(b);
}

static void cancel_all(struct batch *b)
{
    doom(b, b->open.next, 0);
}

const char *batch_refuses(const struct batch_watch *owner)
{
    const struct batch *b = owner->batch;

    return b->doomed_from == 0            ? "its batch was cancelled"
           : b->doomed_from != UINT64_MAX ? "a job before it in its batch has failed"
                                          : NULL;
}

void batch_add(struct batch_watch *owner, struct job *job)
{
    struct batch *b = owner->batch;
    struct batch_item *item = job_batch(job);

    item->batch = b;
    item->index = b->n_items;
    b->n_items += job_count(job);
    b->n_jobs++;
    b->n_open += job_count(job);
    list_init(&item->link);
    list_push_back(&b->open, &item->link);
}

void batch_hold(const struct batch_watch *owner, struct array_watch *w)
{
    w->batch = owner->batch;
    w->batch->n_arrays++;
}

void batch_let_go(struct array_watch *w)
{
    struct batch *b = TAKE(w->batch);

    if (!b)
        return;
    b->n_arrays--;
    if (has_ended(b))
        due(b);
    batch_unref(b);
}

void batch_accepted(struct job *job)
{
    if (job->batched)
        job_batch(job)->batch->total += job_count(job);
}

void batch_divide(struct job *bundle, struct job *job, uint32_t i)
{
    struct batch_item *item = job_batch(job), *whole = job_batch(bundle);

    item->batch = whole->batch;
    item->index = whole->index + i;
    item->batch->n_jobs++;
    list_insert_before(&whole->link, &item->link);
}

static void have_failed(struct batch *b, const struct batch_item *item, uint32_t n, int exit)
{
    if (!b->failed || item->index < b->first_failed) {
        b->first_failed = item->index;
        b->exit = exit;
    }
    b->failed += n;
    if (!b->keep_going && item->index < b->doomed_from)
        doom(b, item->link.next, item->index + 1);
}

void batch_left(struct job *job, int exit)
{
    struct batch_item *item = job_batch(job);
    struct batch *b = item ? item->batch : NULL;

    if (!b)
        return;
    uint32_t n = job_count(job);
    b->n_open -= n;
    b->done += job_final(job) ? n : 0;
    if (job_final(job) && job->state != JOB_SUCCEEDED)
        have_failed(b, item, n, exit);
    list_remove(&item->link);
    if (has_ended(b))
        due(b);
}

bool batch_stops(const struct job *job)
{
    const struct batch_item *item = job->batched ? job_batch(job) : NULL;

    return item && item->batch && item->index >= item->batch->doomed_from;
}

void batch_forget(struct job *job)
{
    struct batch_item *item = job_batch(job);

    if (!item || !item->batch)
        return;
    list_remove(&item->link);
    item->batch->n_jobs--;
    batch_unref(item->batch);
}

const uint8_t *batch_id(const struct job *job)
{
    return job->batched ? job_batch(job)->batch->id : NULL;
}

enum job_state batch_state(const struct batch *b)
{
    if (!b->ended)
        return JOB_RUNNING;
    if (!b->failed)
        return !b->total && b->doomed_from == 0 ? JOB_CANCELLED : JOB_SUCCEEDED;
    switch (b->exit) {
    case CODE_CANCELLED:
        return JOB_CANCELLED;
    case CODE_TIMED_OUT:
        return JOB_TIMED_OUT;
    case CODE_CRASHED:
        return JOB_CRASHED;
    case CODE_INTERRUPTED:
        return JOB_INTERRUPTED;
    default:
        return JOB_FAILED;
    }
}

struct awaited **batch_awaited(struct batch *b)
{
    return &b->awaited;
}

bool batch_is(const struct batch_watch *owner, const struct batch *b)
{
    return owner->batch == b;
}

/* --- turns of the loop -------------------------------------------------------------------------------------------- */

/* It ends, and tells some of its watches. False: *left was not enough for all of them. */
static bool end(struct batch *b, uint32_t *left)
{
    struct batch_info info;

    if (!b->ended) {
        b->ended = true;
        b->ended_usec = clock_monotonic_usec();
        after_batch_ended(b->jobs, TAKE(b->awaited), b->id, batch_state(b));
    }
    describe(b, &info);
    for (; *left > 0 && !list_empty(&b->watches); --*left) {
        struct batch_watch *w = container_of(b->watches.next, struct batch_watch, link);

        watch_remove(w);
        w->tell(w, &info);
    }
    return list_empty(&b->watches);
}

/* It has ended, and so have its watches. */
static void settle(struct batch *b)
{
    if (b->detached)
        list_push_back(&b->jobs->batches.kept, &b->kept);
    else
        drop(b);
}

void batches_turn(struct jobs *jobs)
{
    for (uint32_t left = STOPS_A_TURN; left && !list_empty(&jobs->batches.due);) {
        struct batch *b = container_of(jobs->batches.due.next, struct batch, due);

        left--;
        if (!list_empty(&b->doomed)) { /* its end may be that of the batch */
            struct batch_item *item = container_of(b->doomed.next, struct batch_item, link);
            struct job *job = job_of(item);

            if (job->bundled) {
                jobs->domain_hooks->split(job);
                continue;
            }
            list_remove(&item->link);
            job_stop(job, STOP_CANCEL);
            continue;
        }
        list_remove(&b->due);
        if (!has_ended(b) || b->gone || !list_empty(&b->kept))
            continue;
        if (end(b, &left))
            settle(b);
        else
            due(b); /* behind the others */
    }
}

void batches_progress(struct jobs *jobs, uint32_t *left)
{
    for (struct list *l; *left > 0 && (l = list_pop_front(&jobs->batches.progress_due)); --*left) {
        struct batch_watch *w = container_of(l, struct batch_watch, progress);
        struct batch_info info;

        list_push_back(&jobs->batches.progress, l);
        if (w->told == w->batch->total + w->batch->done)
            continue;
        w->told = w->batch->total + w->batch->done;
        describe(w->batch, &info);
        *left -= (uint32_t)MIN(info.looks, *left - 1);
        w->tell(w, &info);
    }
}

void batches_free(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->batches.by_id.n_buckets; i++)
        while (jobs->batches.by_id.buckets[i]) {
            struct batch *b = container_of(jobs->batches.by_id.buckets[i], struct batch, by_id);

            while (!list_empty(&b->watches))
                watch_remove(container_of(b->watches.next, struct batch_watch, link));
            drop(b);
        }
    hash_deinit(&jobs->batches.by_id);
}

/* --- called through jobs.h ---------------------------------------------------------------------------------------- */

static void watch_add(struct batch *b, bool progress, struct batch_watch *w)
{
    struct jobs *jobs = b->jobs;

    w->batch = b;
    w->told = b->total + b->done;
    list_init(&w->progress);
    list_init(&w->link);
    list_push_back(&b->watches, &w->link);
    if (!progress)
        return;
    list_push_back(&jobs->batches.progress, &w->progress);
    if (!evtimer_pending(jobs->progress.timer, NULL))
        jobs_timer(jobs, jobs->progress.timer, PROGRESS_USEC);
}

/* The oldest that has ended gives way. */
static bool make_room(struct jobs *jobs, const struct user *user)
{
    if (user->n_batches < JOBS_BATCHES_PER_USER)
        return true;
    list_for_each_entry (struct batch, b, &jobs->batches.kept, kept) {
        if (b->user != user)
            continue;
        drop(b);
        return true;
    }
    return false;
}

int jobs_batch_open(struct jobs *jobs, uint32_t uid, bool keep_going, bool detached, bool progress,
                    struct batch_watch *owner)
{
    struct user *user = user_get(jobs, uid);

    expire(jobs);
    if (user && !make_room(jobs, user))
        return -EDQUOT;
    struct batch *b = user ? calloc(1, sizeof(*b)) : NULL;
    if (!b)
        return -ENOMEM;
    b->jobs = jobs;
    b->user = user;
    b->keep_going = keep_going;
    b->detached = detached;
    b->cancel_closes = owner->cancel_closes;
    b->doomed_from = UINT64_MAX;
    b->submitted_usec = jobs_realtime(jobs, clock_monotonic_usec());
    list_init(&b->due);
    list_init(&b->kept);
    list_init(&b->open);
    list_init(&b->doomed);
    list_init(&b->watches);
    id_make(jobs, b->submitted_usec, b->id);
    if (hash_insert(&jobs->batches.by_id, &b->by_id, id_key(b->id)) < 0) {
        free(b);
        return -ENOMEM;
    }
    user->n_batches++;
    owner->owner = true;
    watch_add(b, progress, owner);
    return 0;
}

void jobs_batch_close(struct batch_watch *owner)
{
    owner->batch->closed = true;
    if (has_ended(owner->batch))
        due(owner->batch);
}

bool jobs_batch_is_open(const struct batch_watch *owner)
{
    return owner->batch && owner->owner && !owner->batch->closed;
}

bool jobs_batch_is_cancelled(const struct batch_watch *owner)
{
    return owner->batch && owner->owner && owner->batch->doomed_from == 0;
}

bool jobs_batch_is_detached(const struct batch_watch *owner)
{
    return owner->batch && owner->batch->detached;
}

int jobs_batch_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, bool progress, struct batch_watch *w)
{
    struct batch *b = batch_find(jobs, id, uid);
    struct batch_info info;

    if (!b)
        return -ENOENT;
    if (!b->ended) {
        watch_add(b, progress, w);
        return 0;
    }
    describe(b, &info);
    w->tell(w, &info);
    return 0;
}

void jobs_batch_unwatch(struct batch_watch *w)
{
    struct batch *b = w->batch;

    if (!b)
        return;
    watch_remove(w);
    if (!w->owner || b->ended)
        return;
    b->closed = true;
    if (!b->detached)
        cancel_all(b);
    due(b);
}

void jobs_batch_look(const struct batch_watch *w, struct batch_info *ret)
{
    describe(w->batch, ret);
}

int jobs_batch_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct batch_info *ret)
{
    const struct batch *b = batch_find(jobs, id, uid);

    if (!b)
        return -ENOENT;
    describe(b, ret);
    return 0;
}

static int cancel_by(struct batch *b, uint32_t uid, uint32_t by)
{
    if (uid != 0 && uid != b->user->uid)
        return -ENOENT;
    if (b->ended)
        return -EALREADY;
    if (by != b->user->uid)
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &(struct log_about){.uid = &by},
                  "batch " JOB_ID_FORMAT " of user %u: cancelled by user %u", JOB_ID_ARGS(b->id), b->user->uid, by);
    cancel_all(b);
    b->closed = b->closed || b->cancel_closes;
    if (has_ended(b))
        due(b);
    return 0;
}

int jobs_batch_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by)
{
    struct batch *b = batch_find(jobs, id, uid);

    return b ? cancel_by(b, uid, by) : -ENOENT;
}

void jobs_batch_cancel_watched(struct batch_watch *w, uint32_t uid, uint32_t by)
{
    if (w->batch)
        (void)cancel_by(w->batch, uid, by);
}
