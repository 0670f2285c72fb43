/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c: passes output from an executor's memory to the watches of the job.
 * Owns the job's gathered output and the pieces of executor memory that it still holds. [loop]
 * Keeps: each watch sees the bytes in order, once. A reader that stands still makes only its own job wait. Gathered
 * output is charged to the job's user, read or not. However many watches a job has, OFFERS_A_TURN of all jobs together
 * are offered output in one turn of the loop.
 * Does not frame or send anything. */
#include "table/output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "table/admission.h"
#include "table/arena-use.h"
#include "table/hooks.h"
#include "table/policy.h"

#define OFFERS_A_TURN 1024u
#define OFFER_BYTES   4096u /* that a watch takes cost as much as one more offer */

struct held {
    struct list link;
    const void *data;
    uint32_t chunk, run;
    size_t size;
};

static size_t buffered(const struct job *job)
{
    return job->more ? buffer_size(&job->more->output) : 0;
}

/* Offset of the first byte that is still here. */
static uint64_t base(const struct job *job)
{
    return job_received(job) - buffered(job);
}

static size_t offer(struct job *job, struct watch *w, const void *data, size_t size)
{
    size_t n = size ? w->ops->output(w, data, size) : 0;

    if (n)
        job->flags |= JOB_DELIVERED;
    w->offset += n;
    return n;
}

/* Marks the output as incomplete: the job fails, rather than give a part as the whole. */
static void lose(struct job *job, int why)
{
    if (job->more)
        job->more->lost = why;
    job->flags |= JOB_TRUNCATED;
    job_stop(job, STOP_OUTPUT);
}

/* 0, or a negative errno as job_more.lost has it. */
static int keep(struct job *job, const void *data, size_t size)
{
    struct jobs *jobs = job->domain->jobs;
    struct job_more *m = job->more;

    if ((job->flags & JOB_DETACHED || job_withheld(job)) &&
        buffer_size(&m->output) + size > jobs->options.limits.result)
        return -EFBIG;
    int r = user_charge(jobs, job->user, size);
    if (r < 0)
        return r;
    if (buffer_put(&m->output, data, size) < 0) {
        user_refund(jobs, job->user, size);
        return -ENOMEM;
    }
    m->charged += size;
    m->received += size;
    return 0;
}

void output_add(struct job *job, const void *data, size_t size)
{
    const uint8_t *p = data;
    struct job_more *m;
    size_t done = 0;

    if (size == 0 || job->flags & JOB_TRUNCATED)
        return;
    m = job_more(job);
    if (!m) {
        lose(job, -ENOMEM);
        return;
    }
    /* the common case: one watch, which has had all that came before */
    if (!(job->flags & JOB_DETACHED) && !job_withheld(job) && job->watches && !job->watches->next &&
        buffered(job) == 0 && job->watches->offset == m->received)
        done = offer(job, job->watches, p, size);
    m->received += done;
    int r = done < size ? keep(job, p + done, size - done) : 0;
    if (r < 0)
        lose(job, r);
}

const char *output_lost(const struct job *job)
{
    switch (job->more ? job->more->lost : 0) {
    case 0: /* nor for job_more, which says why */
    case -ENOMEM:
        return "wsd had no memory to keep the output";
    case -EDQUOT:
        return "too much beside what others have here to keep the output (max-bytes in wsd.conf)";
    default:
        return job->flags & JOB_DETACHED
                   ? "the output is larger than what is kept for a job (max-result and max-bytes-per-user in wsd.conf)"
                   : "too much output of this user waits to be read (max-bytes-per-user in wsd.conf): read it first";
    }
}

bool output_rest(struct job *job, const void *data, size_t size)
{
    struct watch *w = job->watches;

    if (!w || w->next || job->flags & (JOB_DETACHED | JOB_TRUNCATED) || job_withheld(job) || buffered(job) ||
        w->offset != job_received(job) || !w->ops->takes_rest(w, size))
        return false;
    w->rest = data;
    w->rest_size = size;
    return true;
}

bool output_adds_up(struct job *job, const struct front_completion *c, size_t rest)
{
    uint64_t came = job_received(job) + rest;

    if (output_goes_by(job)) {
        job->more->placed = c->output_size;
        return came == 0 && c->size == 0;
    }
    return arena_writes(job) ? came == 0 && c->size == 0 && arena_placed(job, c->output_size) : came == c->output_size;
}

void output_add_chunk(struct job *job, const struct front_completion *c)
{
    struct front *front = job->domain->front;
    struct job_more *m = job->more;
    bool slow = !(job->flags & (JOB_DETACHED | JOB_TRUNCATED)) && !job_withheld(job) &&
                (buffered(job) >= JOBS_OUTPUT_WINDOW || (m && !list_empty(&m->held)));

    if (slow && m->held_chunks + c->run > RING_JOB_CHUNKS) { /* more than it may have: the same again and again */
        job->domain->jobs->domain_hooks->distrust(job->domain, "more output than a job may have on its way");
        return;
    }
    struct held *h = slow ? malloc(sizeof(*h)) : NULL;

    if (!h) {
        output_add(job, c->data, c->size);
        output_pump(job);
        front_release(front, c->chunk, c->run);
        return;
    }
    h->data = c->data;
    h->chunk = c->chunk;
    h->run = c->run;
    h->size = c->size;
    m->held_chunks += c->run;
    list_push_back(&m->held, &h->link);
}

static void absorb_one(struct job *job)
{
    struct held *h = container_of(list_pop_front(&job->more->held), struct held, link);

    output_add(job, h->data, h->size);
    front_release(job->domain->front, h->chunk, h->run);
    job->more->held_chunks -= h->run;
    free(h);
}

void output_absorb(struct job *job)
{
    while (job->more && !list_empty(&job->more->held))
        absorb_one(job);
}

/* As it was charged in keep(). */
static void give_back(struct job *job, uint64_t size)
{
    struct job_more *m = job->more;

    assert(m->charged >= size);
    user_refund(job->domain->jobs, job->user, size);
    m->charged -= size;
}

/* Frees what every watch has had, unless it is kept for later ones. */
static void drop_read(struct job *job, uint64_t least)
{
    if (job->flags & JOB_DETACHED || least <= base(job))
        return;
    give_back(job, least - base(job));
    buffer_drop(&job->more->output, least - base(job));
}

uint32_t output_give(struct job *job, struct watch *w)
{
    struct job_more *m = job->more;

    if (!m || job_withheld(job))
        return 1;
    w->offset = MAX(w->offset, base(job));
    return 1 + (uint32_t)(offer(job, w, buffer_data(&m->output) + (w->offset - base(job)), m->received - w->offset) /
                          OFFER_BYTES);
}

bool output_waits_for(const struct job *job, const struct watch *w)
{
    return job->more && (buffered(job) || !list_empty(&job->more->held)) && w->offset <= base(job);
}

/* Goes on with a round over the job's watches, or begins one. False: *left was not enough for all of them. */
static bool offer_round(struct job *job, uint32_t *left)
{
    struct job_more *m = job->more;

    if (!m->unoffered) {
        m->unoffered = job->watches;
        m->least = job_received(job);
    }
    for (struct watch *w; (w = m->unoffered) && *left > 0; m->unoffered = w->next) {
        uint32_t cost = output_give(job, w);

        *left -= MIN(cost, *left);
        m->least = MIN(m->least, w->offset);
    }
    return !m->unoffered;
}

/* Offers all watches what is there, and then what was held back until they had read. */
static void pump(struct job *job, uint32_t *left)
{
    struct job_more *m = job->more;
    bool over;

    while ((over = offer_round(job, left))) {
        drop_read(job, m->least);
        if (list_empty(&m->held) || buffered(job) >= JOBS_OUTPUT_WINDOW / 2)
            break;
        absorb_one(job);
    }
    list_remove(&m->offers_due);
    if (over && !m->pump_again)
        return;
    if (over)
        m->pump_again = false;
    list_push_back(&job->domain->jobs->offers_due, &m->offers_due);
}

void output_pump(struct job *job)
{
    struct job_more *m = job->more;

    if (!m || job_withheld(job) || (!buffered(job) && list_empty(&m->held)))
        return;
    if (!job->watches || !job->watches->next) {
        m->unoffered = NULL; /* a round that is under way has seen watches that are gone */
        m->pump_again = false;
        pump(job, &(uint32_t){UINT32_MAX});
        return;
    }
    m->pump_again =
        m->unoffered; /* this round has offered less to some, and seen some that have read since or are gone */
    if (list_empty(&m->offers_due))
        list_push_back(&job->domain->jobs->offers_due, &m->offers_due);
}

void output_turn(struct jobs *jobs)
{
    for (uint32_t left = OFFERS_A_TURN; left > 0 && !list_empty(&jobs->offers_due);) {
        struct job *job = container_of(jobs->offers_due.next, struct job_more, offers_due)->job;

        if (job_withheld(job)) /* output_pump() is called when it is not any longer */
            list_remove(&job->more->offers_due);
        else
            pump(job, &left);
    }
}

void output_discard(struct job *job)
{
    if (job->more) {
        give_back(job, buffered(job));
        output_free(job);
        job->more->received = 0;
        job->more->unoffered = NULL;
    }
    /* no watch has had a byte; one that joined later starts at the begin now, like the others */
    for (struct watch *w = job->watches; w; w = w->next)
        w->offset = 0;
}

void output_free(struct job *job)
{
    struct job_more *m = job->more;

    if (!m)
        return;
    while (!list_empty(&m->held)) {
        struct held *h = container_of(list_pop_front(&m->held), struct held, link);

        front_release(job->domain->front, h->chunk, h->run);
        free(h);
    }
    m->held_chunks = 0;
    buffer_deinit(&m->output);
}
