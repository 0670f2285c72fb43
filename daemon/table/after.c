/* SPDX-License-Identifier: Apache-2.0
 *
 * after.c: jobs that run after others.
 * Owns the links between the jobs: an edge for each awaited job. The edges of one job are one allocation. [loop]
 * Keeps: a job goes on when all that it waits for have ended for good. That is after the last try, and on disk if
 * durable. Where one that had to succeed has failed, the job is cancelled, and so on. Each edge is met once. There are
 * no cycles, since an id is known only once its job exists. An end is told to the waiting jobs in a later turn of the
 * loop, a bounded number at a time. Thousands may wait for one job, or form a chain.
 * Does not know why a job ended as it did. */
#include "table/after.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "table/batch.h"
#include "table/find.h"
#include "table/policy.h"
#include "table/state.h"

#define EDGES_A_TURN 128u

/* --- edges -------------------------------------------------------------------------------------------------------- */

static struct awaiting *make(uint32_t n)
{
    struct awaiting *a = calloc(1, sizeof(*a) + n * (sizeof(a->edges[0]) + sizeof(a->names[0])));

    if (!a)
        return NULL;
    a->n = n;
    a->names = (struct after_name *)(void *)&a->edges[n];
    for (uint32_t i = 0; i < n; i++) {
        list_init(&a->edges[i].link);
        a->edges[i].of = a;
    }
    return a;
}

struct awaiting *after_free(struct awaiting *a)
{
    for (uint32_t i = 0; a && i < a->n; i++)
        list_remove(&a->edges[i].link);
    free(a);
    return NULL;
}

uint64_t after_charge(const struct awaiting *a)
{
    return a ? a->n * AFTER_BYTES : 0;
}

static void met(struct awaiting *a, bool any, enum job_state state, const struct after_origin *origin)
{
    if (a->bad || state == JOB_SUCCEEDED || (any && state))
        return;
    a->bad = true;
    a->origin = *origin;
}

static struct after_origin origin_of(const uint8_t id[16], enum job_state state, bool batch)
{
    struct after_origin origin = {.state = (uint8_t)state, .batch = batch};

    memcpy(origin.id, id, sizeof(origin.id));
    return origin;
}

static struct awaited *awaited_new(struct job *job)
{
    struct awaited *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->job = job;
    list_init(&d->link);
    list_init(&d->edges);
    return d;
}

static void add_edge(struct awaiting *a, uint32_t i, struct awaited *d)
{
    list_push_back(&d->edges, &a->edges[i].link);
    a->n_left++;
}

/* 0 or -ENOMEM. */
static int wait_for(struct awaiting *a, uint32_t i, struct job *on)
{
    const struct policy *p = job_policy(on);
    struct job_more *m;

    if (job_final(on) && !(p && p->ending)) {
        const struct after_origin origin = origin_of(on->id, (enum job_state)on->state, false);

        met(a, a->names[i].any, (enum job_state)on->state, &origin);
        return 0;
    }
    m = job_more(on);
    if (m && !m->awaited)
        m->awaited = awaited_new(on);
    if (!m || !m->awaited)
        return -ENOMEM;
    add_edge(a, i, m->awaited);
    return 0;
}

static int wait_for_batch(struct awaiting *a, uint32_t i, struct batch *on)
{
    enum job_state state = batch_state(on);
    struct awaited **d = batch_awaited(on);

    if (state >= JOB_SUCCEEDED) {
        const struct after_origin origin = origin_of(a->names[i].id, state, true);

        met(a, a->names[i].any, state, &origin);
        return 0;
    }
    if (!*d)
        *d = awaited_new(NULL);
    if (!*d)
        return -ENOMEM;
    add_edge(a, i, *d);
    return 0;
}

/* --- a job comes -------------------------------------------------------------------------------------------------- */

static const char *check_batch(const struct batch *on, const struct job_request *r, const uint8_t id[16], int *ret_code,
                               char words[static JOB_TEXT])
{
    bool own = r->batch && batch_is(r->batch, on);

    if (!own && !r->durable)
        return NULL;
    *ret_code = CODE_USAGE;
    if (own)
        snprintf(words, JOB_TEXT, "a job cannot run after the batch that it belongs to");
    else
        snprintf(words, JOB_TEXT, "a durable job cannot run after batch " JOB_ID_FORMAT ": no batch is on disk",
                 JOB_ID_ARGS(id));
    return words;
}

static const char *check(struct job *on, const struct batch *batch, const struct job_request *r, const uint8_t id[16],
                         int *ret_code, char words[static JOB_TEXT])
{
    const struct policy *p = on ? job_policy(on) : NULL;

    if (batch)
        return check_batch(batch, r, id, ret_code, words);
    if (!on) {
        *ret_code = CODE_NOT_FOUND;
        snprintf(words, JOB_TEXT,
                 "nothing can run after job " JOB_ID_FORMAT ": there is none, or its end is not known any more",
                 JOB_ID_ARGS(id));
        return words;
    }
    if (r->durable && !(p && p->durable)) {
        *ret_code = CODE_USAGE;
        snprintf(words, JOB_TEXT,
                 "a durable job cannot run after job " JOB_ID_FORMAT
                 ", which is not: submit that one with --durable, too",
                 JOB_ID_ARGS(id));
        return words;
    }
    return NULL;
}

int after_new(struct jobs *jobs, const struct job_request *r, struct awaiting **ret, const char **ret_text,
              int *ret_code, char words[static JOB_TEXT])
{
    uint32_t n = r->n_after + r->n_after_any;
    _cleanup_(after_freep) struct awaiting *a = n ? make(n) : NULL;

    *ret_text = NULL;
    if (n && !a)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        bool any = i >= r->n_after;
        const uint8_t *id = any ? r->after_any + (size_t)(i - r->n_after) * 16 : r->after + (size_t)i * 16;
        struct job *on = job_find(jobs, id, r->uid);
        struct batch *batch = on ? NULL : batch_find(jobs, id, r->uid);

        *ret_text = check(on, batch, r, id, ret_code, words);
        if (*ret_text)
            return 0;
        a->names[i].any = any;
        memcpy(a->names[i].id, id, 16);
        if ((batch ? wait_for_batch(a, i, batch) : wait_for(a, i, on)) < 0)
            return -ENOMEM;
    }
    *ret = TAKE(a);
    return 0;
}

/* Whether the awaited job ended, and was queued again, after the row's job came: then that end counts as met. */
static bool had_met(const struct after_row *row, const struct job *on)
{
    const struct policy *p = job_policy(on);

    return p && p->requeued >= row->number;
}

int after_restore(struct jobs *jobs, const struct after_row *row, struct awaiting **ret)
{
    uint32_t n = (uint32_t)(row->size / sizeof(struct after_name));
    _cleanup_(after_freep) struct awaiting *a = NULL;

    if (row->size % sizeof(struct after_name))
        return -EBADMSG;
    a = make(n);
    if (!a)
        return -ENOMEM;
    if (n)
        memcpy(a->names, row->names, row->size);
    for (uint32_t i = 0; i < n; i++) {
        struct job *on = job_find(jobs, a->names[i].id, 0);

        if (on && !had_met(row, on) && wait_for(a, i, on) < 0)
            return -ENOMEM;
    }
    *ret = TAKE(a);
    return 0;
}

static void end_badly(struct job *job)
{
    static const char *const words[] = {
        [JOB_FAILED] = "failed",   [JOB_CANCELLED] = "was cancelled",     [JOB_TIMED_OUT] = "timed out",
        [JOB_CRASHED] = "crashed", [JOB_INTERRUPTED] = "was interrupted",
    };
    const struct awaiting *a = job->more->awaiting;
    char text[JOB_TEXT];

    if (!a->origin.state) {
        snprintf(text, sizeof(text),
                 "wsd is ending, and job " JOB_ID_FORMAT ", which this one waits for, goes on after its next start",
                 JOB_ID_ARGS(a->origin.id));
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, text, NULL);
        return;
    }
    snprintf(text, sizeof(text), "not run: it was to run after %s " JOB_ID_FORMAT ", %s %s",
             a->origin.batch ? "batch" : "job", JOB_ID_ARGS(a->origin.id), a->origin.batch ? "of which a job" : "which",
             words[a->origin.state]);
    job_finish(job, JOB_CANCELLED, CODE_CANCELLED, text, NULL);
}

bool after_holds(struct job *job)
{
    struct awaiting *a = job->more ? job->more->awaiting : NULL;

    if (!a)
        return false;
    if (!a->bad && !a->n_left) {
        job->more->awaiting = after_free(a);
        return false;
    }
    if (job->state == JOB_NEW)
        job_move(job, JOB_HELD);
    a->holds = true;
    if (a->bad)
        end_badly(job);
    return true;
}

uint32_t after_left(const struct job *job)
{
    return job->state == JOB_HELD && job->more && job->more->awaiting ? job->more->awaiting->n_left : 0;
}

void after_near(const struct job *job, struct job_near *ret)
{
    const struct job_more *m = job->more;
    const struct awaiting *a = m ? m->awaiting : NULL;

    *ret = (struct job_near){0};
    for (uint32_t i = 0; a && i < a->n && ret->n_before < JOB_NEAR; i++)
        if (!list_empty(&a->edges[i].link))
            memcpy(ret->before[ret->n_before++], a->names[i].id, sizeof(a->names[i].id));
    if (!m || !m->awaited)
        return;
    list_for_each_entry (struct after_edge, e, &m->awaited->edges, link) {
        if (ret->n_behind == JOB_NEAR)
            break;
        memcpy(ret->behind[ret->n_behind++], e->of->job->id, sizeof(e->of->job->id));
    }
}

/* --- a job ends --------------------------------------------------------------------------------------------------- */

static void due(struct job *job, struct awaited *d, enum job_state state)
{
    const struct awaiting *a = job->more->awaiting;
    bool passes_on = a && a->bad && state == JOB_CANCELLED;

    d->state = (uint8_t)state;
    d->origin = passes_on ? a->origin : origin_of(job->id, state, false);
    list_push_back(&job->domain->jobs->after_due, &d->link);
}

void after_ended(struct job *job)
{
    struct job_more *m = job->more;

    if (!m)
        return;
    if (m->awaited && list_empty(&m->awaited->link))
        due(job, m->awaited, (enum job_state)job->state);
    m->awaiting = after_free(m->awaiting);
}

void after_forget(struct job *job)
{
    struct job_more *m = job->more;
    struct awaited *d = m->awaited;

    if (d && list_empty(&d->link) && list_empty(&d->edges)) {
        free(d);
    } else if (d) {
        if (list_empty(&d->link))
            due(job, d, JOB_NEW);
        d->job = NULL;
    }
    m->awaited = NULL;
    m->awaiting = after_free(m->awaiting);
}

void after_batch_ended(struct jobs *jobs, struct awaited *d, const uint8_t id[16], enum job_state state)
{
    if (!d)
        return;
    d->state = (uint8_t)state;
    d->origin = origin_of(id, state, true);
    list_push_back(&jobs->after_due, &d->link);
}

bool after_pending(const struct job *job)
{
    return job->more && job->more->awaited;
}

static struct awaited *awaited_free(struct awaited *d)
{
    while (list_pop_front(&d->edges))
        ;
    list_remove(&d->link);
    if (d->job)
        d->job->more->awaited = NULL;
    free(d);
    return NULL;
}

void after_turn(struct jobs *jobs)
{
    for (uint32_t left = EDGES_A_TURN; left && !list_empty(&jobs->after_due); left--) {
        struct awaited *d = container_of(jobs->after_due.next, struct awaited, link);
        struct list *l = list_pop_front(&d->edges);

        if (!l) {
            awaited_free(d);
            continue;
        }
        struct after_edge *e = container_of(l, struct after_edge, link);
        struct awaiting *a = e->of;
        a->n_left--;
        met(a, a->names[e - a->edges].any, (enum job_state)d->state, &d->origin);
        /* one that was cancelled has its edges until its end is on disk */
        if (a->holds && a->job->state == JOB_HELD && (a->bad || !a->n_left))
            job_enqueue(a->job);
    }
}

void after_deinit(struct jobs *jobs)
{
    while (!list_empty(&jobs->after_due))
        awaited_free(container_of(jobs->after_due.next, struct awaited, link));
}
