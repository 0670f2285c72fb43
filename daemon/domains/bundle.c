/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.c: brief jobs of an array that share one entry of the queue, of the table and of the executor's slots, and are
 * told of their ends together.
 * Owns the bundles. [loop]
 * Keeps: bundling is invisible: code that addresses, counts or stops one member calls bundle_split() first. A member
 * that takes longer than expected keeps those behind it from other workers for twice BUNDLE_USEC at most.
 * The size of a bundle follows the last jobs: it holds no more than runs in COST_USEC and fits its output into one
 * slot. Where there is enough work to wake other workers, there are two bundles for each worker.
 * Does not choose the order (sched/fair-queue.c). */
#include "domains/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/answer.h"
#include "domains/bundle-cost.h"
#include "domains/domain.h"
#include "domains/recall-timer.h"
#include "domains/requeue.h"
#include "table/admission.h"
#include "table/batch.h"
#include "table/function-stats.h"
#include "table/gate.h"
#include "table/ids.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/timers.h"
#include "table/watches.h"

#define BUNDLE_BYTES 8192u  /* of items */
#define BUNDLE_NSEC  50000u /* of work that is a share of its own */
#define BUNDLE_USEC  5000u  /* between two looks at whether one is held up */
#define SLACK        256u   /* bytes of output that the last one may reserve, and not write */
#define BUNDLED_MAX  16384u /* jobs in bundles: the most that bundles_split() may have to make at a time */

/* --- which, and how many ------------------------------------------------------------------------------------------ */

/* Whether the running jobs of this user are counted, or code looks at each job. */
static bool is_counted(const struct domain *d, const struct user *user)
{
    const struct jobs *jobs = d->jobs;

    return jobs->gates.by_name.n || user->gate || jobs->options.limits.running ||
           user_limits(jobs, user)->running_per_user || d->priv->trace.number;
}

bool bundle_counts(const struct domain *d, const struct job *job)
{
    return is_counted(d, job->user) || job_breaker_suspects(job) || job->plugin->state != PLUGIN_READY ||
           job_function(job)->index == RING_NONE;
}

/* How many of these jobs go into one bundle; less than 2: each is a job of its own. */
static uint32_t most(const struct job_place *place, const struct job_request *r, uint32_t n)
{
    const struct plugin_function *f = place->function;
    const struct domain *d = place->domain;
    const struct jobs *jobs = d->jobs;
    const struct jobs_limits *all = &jobs->options.limits, *own = user_limits(jobs, place->user);

    if (d->priv->runners || !cost_is_known(&f->cost) || place->wants_more || r->detached || r->file || r->parts ||
        r->output || jobs->draining || jobs->gates.drained || (r->batch && batch_refuses(r->batch)) || all->rate ||
        own->rate_per_user || is_counted(d, place->user) || job_breaker_knows(place->plugin, f) ||
        place->user->n_bytes + BUNDLE_BYTES > own->bytes_per_user ||
        jobs->counters.n_bytes + BUNDLE_BYTES > all->bytes || place->plugin->state != PLUGIN_READY ||
        jobs->bundles.n + RING_BUNDLE > BUNDLED_MAX || jobs->counters.n_open + RING_BUNDLE > all->jobs ||
        place->user->n_jobs + RING_BUNDLE > own->jobs_per_user)
        return 0;
    uint64_t parts = MIN(cost_nsec(&f->cost, n) / BUNDLE_NSEC + 1, 2ull * domain_workers(d));
    uint32_t share = (n + (uint32_t)parts - 1) / (uint32_t)parts,
             room = (RING_SMALL - SLACK) / (uint32_t)ring_aligned(MAX((f->output + 63) / 64, 1u));

    return cost_together(&f->cost, MIN(MIN(share, room), RING_BUNDLE));
}

/* --- a new one ---------------------------------------------------------------------------------------------------- */

/* Packs a job into the list. Returns its size there; 0: no room. */
static size_t pack(const struct jobs *jobs, const struct job_request *r, char *at, size_t room)
{
    size_t input_at = ring_aligned(sizeof(struct down_item) + r->args_size),
           size = ring_aligned(input_at + r->input_size);
    struct down_item *item = (struct down_item *)(void *)at;

    if (size > room || r->input_size > jobs->options.limits.input)
        return 0;
    item->argc = r->argc;
    item->args_size = (uint32_t)r->args_size;
    item->input_size = (uint32_t)r->input_size;
    item->unused = 0;
    ring_put(at + sizeof(*item), r->args, r->args_size);
    ring_put(at + input_at, r->input, r->input_size);
    return size;
}

static struct job *make(struct jobs *jobs, const struct job_request *r, const struct job_place *place,
                        const struct bundle *head, const char *items, size_t size)
{
    struct job *job = job_alloc(jobs, 0, sizeof(*head) + size, r->batch);

    if (!job)
        return NULL;
    job->bundled = true;
    *job_bundle(job) = *head;
    job_bundle(job)->job = job;
    list_init(&job_bundle(job)->link);
    memcpy(job_bundle(job)->items, items, size);
    job_id_of(job->id, head->array->id, head->first);
    job->accepted_usec = place->now_usec;
    job->user = place->user;
    job->domain = place->domain;
    job->plugin = place->plugin;
    job->priority = (int8_t)r->priority;
    job->plugin->n_jobs++;
    job_set_function(job, place->function);
    job->directory = directory_ref(r->directory);
    if (job_name(jobs, job) == 0)
        return job;
    job_unmake(job);
    return NULL;
}

static void refuse_all(struct jobs *jobs, const struct job_place *place, struct array_watch *w, uint32_t first,
                       uint32_t n, const char *words, uint64_t retry_usec)
{
    jobs->counters.refused += n;
    function_stats_count(place->user, place->plugin, place->function, FUNCTION_REFUSED, n);
    for (uint32_t i = first; i < first + n; i++) {
        struct watch *owner = w->ops->item(w, i, false);

        if (owner)
            owner->ops->refused(owner, CODE_BUSY, words, retry_usec);
    }
}

uint32_t bundle_take(struct jobs *jobs, struct job_request *r, const struct job_place *place, struct array_watch *w)
{
    const uint32_t i = w->taken;
    char items[BUNDLE_BYTES] __attribute__((aligned(16)));
    struct bundle head = {.array = w, .first = i};
    uint32_t limit = most(place, r, w->n - i);
    size_t used = 0, size;
    uint64_t retry_usec = 0;

    if (limit < 2)
        return 0;
    while (head.n < limit && i + head.n < w->n && (size = pack(jobs, r, items + used, sizeof(items) - used))) {
        used += size;
        head.bytes += r->args_size + r->input_size;
        if (i + ++head.n < w->n)
            w->ops->next(w, r, i + head.n);
    }
    if (head.n == 0)
        return 0;
    int charged = user_admit(jobs, place->user, head.bytes, &retry_usec);
    if (charged < 0) {
        refuse_all(jobs, place, w, i, head.n, user_charge_words(charged), retry_usec);
        return head.n;
    }
    struct job *job = make(jobs, r, place, &head, items, used);
    if (!job) {
        user_refund(jobs, place->user, head.bytes);
        refuse_all(jobs, place, w, i, head.n, "out of memory", 0);
        return head.n;
    }
    list_push_back(&w->bundles, &job_bundle(job)->link);
    place->user->n_jobs += head.n;
    /* more than one place is free: no client need wait */
    place->user->retry_after.due_usec = jobs->retry_after.due_usec = 0;
    jobs->counters.submitted += head.n;
    jobs->counters.bundled += head.n;
    jobs->counters.n_open += head.n;
    jobs->bundles.n += head.n;
    if (r->batch)
        batch_add(r->batch, job);
    batch_accepted(job);
    w->ops->accepted(w, i, head.n);
    job_move(job, JOB_QUEUED);
    queue_put(&job->domain->queue, job, false);
    recall_came(job->domain, job);
    job->domain->priv->unpumped = true;
    return head.n;
}

void bundle_describe(const struct job *job, struct front_job *ret)
{
    const struct bundle *b = job_bundle(job);

    ret->n_items = b->n;
    ret->args = NULL;
    ret->args_size = 0;
    ret->input = b->items;
    ret->input_size = job->input_size - sizeof(*b);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* Frees a bundle that is in no list, and of which the members have become jobs or have ended. */
static void forget(struct job *job)
{
    struct bundle *b = job_bundle(job);

    list_remove(&job->link);
    list_remove(&b->link);
    job->domain->jobs->bundles.n -= b->n;
    batch_forget(job);
    job_unmake(job);
}

/* The bundle is final: only tells each member's end. */
static void end(struct job *job, const struct job_info *info, const struct array_end ends[])
{
    struct bundle *b = job_bundle(job);
    struct jobs *jobs = job->domain->jobs;
    struct array_watch *w = b->array;
    uint32_t first = b->first, n = b->n;

    user_refund(jobs, job->user, b->bytes);
    jobs_close_accounts(jobs, job->user, n);
    list_remove(&b->link);
    w->ops->ended(w, first, n, info, ends);
    batch_left(job, info->exit);
    forget(job);
}

/* There is no memory to have them apart. */
static void lose(struct job *job)
{
    struct domain *d = job->domain;
    struct array_end ends[RING_BUNDLE] = {{.queued_usec = clock_monotonic_usec() - job->accepted_usec}};
    struct job_info info;

    if (job->state == JOB_QUEUED) {
        job_unqueue(job);
    } else { /* one is with the slot, until its completion */
        d->slots[job->slot] = NULL;
        d->n_handed -= job_count(job) - 1;
        d->jobs->counters.n_handed -= job_count(job) - 1;
        list_remove(&job->link);
    }
    job_move(job, JOB_INTERRUPTED);
    d->jobs->counters.interrupted += job_count(job);
    function_stats_count(job->user, job->plugin, job_function(job), FUNCTION_INTERRUPTED, job_count(job));
    job_describe(job, &info);
    info.exit = CODE_INTERRUPTED;
    info.error = "out of memory";
    for (uint32_t i = 1; i < job_count(job); i++)
        ends[i] = ends[0];
    end(job, &info, ends);
}

/* Whether all of them have ended with nothing but output, which is taken. */
static bool went_well(struct domain *d, const struct job *job, const struct front_completion *c)
{
    const struct bundle *b = job_bundle(job);
    bool plain =
        c->exit == 0 && !*c->error && !*c->status && !c->messages && !c->done && !c->total && c->output_size == c->size;

    return front_close(d->front, c->slot) + 1 == b->n && plain && b->array->ops->takes(b->array, RING_SMALL);
}

void bundle_done(struct domain *d, struct job *job, const struct front_completion *c)
{
    struct plugin_function *f = job_function(job);
    struct array_end ends[RING_BUNDLE];
    uint64_t usec = 0;
    uint32_t n = job_count(job);
    struct front_end one;
    struct job_info info;
    size_t output = 0, largest = 0;
    char worker[24];

    list_remove(&job->link);
    job_move(job, JOB_SUCCEEDED);
    job_describe_end(job, 0, NULL, c, worker, &info);
    if (d->successor) /* its own does not last */
        job->domain = d->successor;
    d->jobs->counters.succeeded += n;
    for (uint32_t i = 0; i < n; i++) {
        if (i + 1 == n) {
            uint64_t run = c->ended_usec > c->started_usec ? c->ended_usec - c->started_usec : 0;

            one = (struct front_end){.data = c->data,
                                     .size = (uint32_t)c->size,
                                     .run_usec = (uint32_t)MIN(run, (uint64_t)UINT32_MAX),
                                     .cpu_usec = (uint32_t)MIN(c->cpu_usec, (uint64_t)UINT32_MAX),
                                     .started_usec = c->started_usec};
        } else if (front_ended(d->front, c->slot, i, &one) != 0) {
            domain_distrust(d, "output of a bundle that is nowhere");
            one = (struct front_end){.data = NULL};
        }
        ends[i] = (struct array_end){
            .queued_usec = one.started_usec > job->accepted_usec ? one.started_usec - job->accepted_usec : 0,
            .run_usec = one.run_usec,
            .cpu_usec = one.cpu_usec,
            .output = one.data,
            .size = one.size};
        if (output + one.size > RING_SMALL) { /* they lie over each other */
            domain_distrust(d, "more output of a bundle than there is room for");
            ends[i].size = one.size = 0;
        }
        usec += one.run_usec;
        output += one.size;
        largest = MAX(largest, (size_t)one.size);
    }
    bundle_ran(f, n, usec, largest);
    function_stats_bundle(job, n, ends);
    end(job, &info, ends);
}

/* --- apart -------------------------------------------------------------------------------------------------------- */

/* The i-th of them as a job, in no list. */
static struct job *unpack(const struct job *job, uint32_t i, const char **at)
{
    struct jobs *jobs = job->domain->jobs;
    struct down_item item;

    memcpy(&item, *at, sizeof(item));
    struct job *one = job_alloc(jobs, item.args_size, item.input_size, job->batched);
    if (!one)
        return NULL;
    size_t input_at = ring_aligned(sizeof(item) + item.args_size);
    memcpy(job_given(one), *at + sizeof(item), item.args_size);
    memcpy(job_given(one) + item.args_size, *at + input_at, item.input_size);
    *at += ring_aligned(input_at + item.input_size);
    job_id_of(one->id, job->id, i);
    one->domain = job->domain;
    one->plugin = job->plugin;
    one->plugin->n_jobs++;
    one->user = job->user;
    one->directory = directory_ref(job->directory);
    one->accepted_usec = job->accepted_usec;
    one->argc = item.argc & JOB_ARGS;
    one->function = job->function;
    one->priority = job->priority;
    one->attempts = job->attempts;
    one->state = job->state;
    one->aged = job->aged;
    if (job_name(jobs, one) == 0)
        return one;
    job_unmake(one);
    return NULL;
}

/* For a bundle that was handed over: tells the members' answers that are there. */
static void told(struct domain *d, struct job *job, uint32_t slot, uint32_t item)
{
    struct front_completion ended;

    list_remove(&job->link);
    d->n_handed--;
    d->jobs->counters.n_handed--;
    d->priv->useful = true;
    d->priv->recycling.n_ended++;
    if (front_ended_whole(d->front, slot, item, &ended) == 0) {
        domain_done(job, &ended);
        return;
    }
    domain_distrust(d, "output of a bundle that is nowhere");
    job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "its output was damaged by the executor", NULL);
}

void bundle_split(struct job *job)
{
    struct domain *d = job->domain;
    struct bundle *b = job_bundle(job);
    struct job *jobs[RING_BUNDLE] = {NULL};
    const char *at = b->items;
    uint32_t n = b->n;

    if (job->state == JOB_RUNNING && !d->priv->distrusted && front_recall(d->front, job->slot))
        domain_take_back(job, true);
    bool running = job->state == JOB_RUNNING;
    for (uint32_t i = 0; i < n; i++) {
        jobs[i] = b->array->ops->item(b->array, b->first + i, true) ? unpack(job, i, &at) : NULL;
        if (jobs[i])
            continue;
        while (i)
            job_unmake(jobs[--i]);
        lose(job);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct watch *w = b->array->ops->item(b->array, b->first + i, true);

        list_insert_before(&job->link, &jobs[i]->link);
        if (job->batched)
            batch_divide(job, jobs[i], i);
        w->owner = true;
        job_add_watch(jobs[i], w);
        jobs[i]->slot = job->slot;
        jobs[i]->generation = job->generation;
    }
    uint32_t slot = job->slot, turn = running ? front_close(d->front, slot) : 0;
    job->domain->priv->unpumped = true;
    forget(job);
    if (running)
        d->slots[slot] = jobs[turn];
    if (!running ||
        d->priv->distrusted) /* then the member that has its turn is unknown, and recover() handles all of them */
        return;
    /* it comes before what was handed over later; and where the bundle has ended, no worker begins that (layout.h) */
    if (turn + 1 < n)
        recall_behind(d, &jobs[n - 1]->link);
    for (uint32_t i = n - 1; i > turn; i--) {
        domain_take_back(jobs[i], false);
        jobs[i]->domain->priv->unpumped = true;
    }
    for (uint32_t i = 0; i < turn; i++)
        told(d, jobs[i], slot, i);
}

void bundles_split(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->bundles.by_first.n_buckets && jobs->bundles.by_first.n; i++)
        while (jobs->bundles.by_first.buckets[i])
            bundle_split(container_of(jobs->bundles.by_first.buckets[i], struct job, by_id));
}

/* A bundle in the bucket that has its turn. */
static struct job *next_bundle(const struct jobs *jobs, uint32_t uid, size_t cursor, size_t *ret_cursor)
{
    *ret_cursor = cursor;
    for (struct hash_link *l = hash_walk(&jobs->bundles.by_first, ret_cursor); l; l = l->next) {
        struct job *job = container_of(l, struct job, by_id);

        if (uid == 0 || uid == job->user->uid)
            return job;
    }
    return NULL;
}

bool bundles_split_some(struct jobs *jobs, uint32_t uid, size_t *cursor, uint32_t *looks)
{
    if (!jobs->bundles.by_first.n)
        return true;
    while (*looks > 0) {
        size_t behind;
        struct job *job = next_bundle(jobs, uid, *cursor, &behind);

        *looks -= MIN(*looks, job ? job_count(job) : 1u);
        if (job) {
            bundle_split(job); /* its members' ends may split others: the bucket is looked at anew */
            continue;
        }
        *cursor = behind;
        if (behind == 0)
            return true;
    }
    return false;
}

bool bundles_find(struct jobs *jobs, const uint8_t id[16])
{
    uint64_t number;

    memcpy(&number, id + 8, sizeof(number));
    for (uint32_t i = 0; i < RING_BUNDLE; i++)
        for (struct hash_link *l = hash_first(&jobs->bundles.by_first, htole64(le64toh(number) - i)); l;
             l = hash_next(l)) {
            struct job *job = container_of(l, struct job, by_id);

            if (memcmp(job->id, id, 8) == 0 && i < job_count(job)) {
                bundle_split(job);
                return true;
            }
        }
    return false;
}

/* --- in one slot -------------------------------------------------------------------------------------------------- */

struct job *bundle_alone(struct domain *d, uint32_t slot)
{
    if (d->slots[slot]->bundled) {
        job_function(d->slots[slot])->cost.shown = 0;
        bundle_split(d->slots[slot]);
    }
    return d->slots[slot];
}

struct job *bundle_settled(struct domain *d, const struct front_completion *c)
{
    struct job *job = d->slots[c->slot];

    return job->bundled && went_well(d, job, c) ? job : bundle_alone(d, c->slot);
}

/* Finds a bundle that has run for too long; or one that has not begun and, by what is known now, may take too long.
 * *ret_any: there are bundles. */
static struct job *held_up(struct domain *d, uint64_t now, bool *ret_any)
{
    struct front *f = d->front;
    uint64_t started;

    *ret_any = false;
    list_for_each_entry (struct job, job, &d->handed, link) {
        *ret_any |= job->bundled;
        if (!job->bundled)
            continue;
        if (front_running_bundle(f, job->slot, &started) && started <= now && now - started >= BUNDLE_USEC)
            return job;
        /* what is known now may be more than when it was made */
        bool trusted = job_function(job)->cost.shown && bundle_nsec(job) < BUNDLE_USEC * UINT64_C(1000);
        if (!trusted && front_waiting(f, job->slot))
            return job;
    }
    return NULL;
}

/* Gives the jobs behind a slow one to other workers. */
static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
    struct domain *d = userdata;
    uint64_t now = clock_monotonic_usec();
    bool any;

    if (!d->priv->executor || d->priv->distrusted || d->priv->executor->killed || list_empty(&d->handed))
        return;
    front_ring(d->front); /* where bundles_brief() was wrong */
    for (struct job *job; (job = held_up(d, now, &any));) {
        struct plugin_function *f = job_function(job);

        bundle_split(job);
        f->cost.shown = 0; /* whatever is told now of those before it */
    }
    if (any)
        bundles_watch(d);
}

int bundle_init(struct domain *d)
{
    d->priv->bundle_timer = evtimer_new(d->jobs->options.base, on_timer, d);
    return d->priv->bundle_timer ? 0 : -1;
}

void bundles_watch(struct domain *d)
{
    if (!evtimer_pending(d->priv->bundle_timer, NULL))
        jobs_timer(d->jobs, d->priv->bundle_timer, BUNDLE_USEC);
}

void bundle_deinit(struct domain *d)
{
    event_free(d->priv->bundle_timer);
}
