/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-submit.c: SUBMIT, and the INPUT behind it.
 * Owns nothing beyond the calls. [loop]
 * Keeps: what contradicts itself is refused by name; input stays within its window.
 * Does not know which jobs are allowed. */
#include "frontend/serve-submit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "frontend/job-watch.h"
#include "frontend/serve-arena.h"
#include "frontend/serve-batch.h"

/* Units of share.h. What is kept among a million others is in no cache. */
#define COST_AFTER 100u  /* a job that another one is to run after */
#define COST_LATER 3000u /* a job that is not due yet */
#define COST_KEY   2000u

const char *submit_problem(const struct msg_submit *m)
{
    if (!m->plugin.size)
        return "no plugin named";
    return m->traceparent.size && !codec_is_traceparent(m->traceparent.data, m->traceparent.size) ? TRACEPARENT_WORDS
                                                                                                  : NULL;
}

/* What in a SUBMIT is contradictory. NULL: nothing. */
static const char *contradiction(const struct msg_submit *m, size_t body_size)
{
    const uint32_t with_left = m->flags & (SUBMIT_DETACH | SUBMIT_MORE | SUBMIT_QUIET);
    bool has_more = m->flags & SUBMIT_MORE, by_pipe = m->input_from == INPUT_PIPE;
    bool lasts = m->flags & (SUBMIT_DETACH | SUBMIT_DURABLE) || m->key.size || m->retries || m->batch;

    const char *problem = submit_problem(m);
    if (problem)
        return problem;
    /* the client can send no more, and no client is left that could cancel the job */
    if (m->flags & SUBMIT_LEFT && with_left != SUBMIT_DETACH)
        return "flag 32 goes with 1, and not with 4 and 16";
    if (m->input_from != INPUT_BODY && (body_size || has_more != by_pipe))
        return "input by descriptor goes without bytes of input, and flag 4 with a pipe";
    if (m->arena &&
        (m->flags & (SUBMIT_DETACH | SUBMIT_MORE | SUBMIT_DURABLE) || m->key.size || m->retries || m->batch))
        return "an arena ends with its connection: not with flags 1, 4 and 8, a key, retries, or a batch";
    if (m->output_to && lasts)
        return "output goes to a descriptor for attached jobs only: not with flags 1 and 8, a key, retries, or a batch";
    if (by_pipe && lasts)
        return "a pipe is input of attached jobs only: not with flags 1 and 8, a key, retries, or a batch";
    return NULL;
}

struct job_request submit_job(const struct msg_submit *m, const struct peer *p)
{
#define TAKEN_TEXT(kind, name, ...)   .name = m->name.data,
#define TAKEN_NUMBER(kind, name, ...) .name = m->name,
#define TAKEN_LIST(kind, name, ...)   TAKEN_##kind(name)
#define TAKEN_TAGS(name)              .name = m->name.data,
#define TAKEN_ARGS(name)              .name = m->name.data, .name##_size = m->name.size, .argc = m->argc,
#define TAKEN_IDS(name)               .name = (const uint8_t *)m->name.data, .n_##name = (uint32_t)(m->name.size / 16),
    return (struct job_request){.detached = m->flags & SUBMIT_DETACH,
                                .progress = m->flags & SUBMIT_PROGRESS,
                                .more_input = m->flags & SUBMIT_MORE,
                                .durable = m->flags & SUBMIT_DURABLE,
                                .waits = m->flags & SUBMIT_WAIT_RUNNER,
                                .directory = p->directory,
                                .uid = p->uid,
                                SUBMIT_FIELDS(TAKEN_TEXT, TAKEN_NUMBER, TAKEN_LIST, SUBMIT_NOTHING)};
}

uint32_t submit_cost(const struct job_request *r)
{
    return (r->n_after + r->n_after_any) * COST_AFTER + (r->delay_usec || r->at_usec ? COST_LATER : 0) +
           (r->key && *r->key ? COST_KEY : 0);
}

void serve_submit(struct request *r)
{
    const struct msg_submit *m = &r->msg->submit;
    struct peer *p = r->peer;
    struct call *c = job_call_new(p, r->tag, true, m->flags & SUBMIT_PROGRESS);
    struct job_file file = {.fd = r->fd, .offset = m->input_offset, .size = m->input_size};
    struct job_output output = {.fd = r->output_fd, .either = m->output_to == OUTPUT_EITHER};
    struct job_request job = submit_job(m, p);
    const char *problem = contradiction(m, r->body.size);
    uint32_t code = CODE_USAGE;
    struct job_parts parts = {.arena = m->arena ? arena_find(p, m->arena) : NULL,
                              .output = {m->output_offset, m->output_size}};

    if (!c)
        return;
    share_charge(p, submit_cost(&job));
    if (m->input_from == INPUT_ARENA)
        parts.input = (struct job_part){m->input_offset, m->input_size};
    if (!problem && m->arena && !parts.arena)
        problem = "no such arena";
    job.parts = parts.arena ? &parts : NULL;
    job.input = r->body.data;
    job.input_size = r->body.size;
    job.output = m->output_to ? &output : NULL;
    job.file = m->input_from == INPUT_FILE ? &file : NULL;
    job.pipe = m->input_from == INPUT_PIPE ? r->fd : NULL;
    if (!problem && m->batch)
        problem = job.durable || m->key.size ? "a job of a batch is not durable, and has no key"
                                             : batch_join(p, m->batch, &job, &code);
    if (problem) {
        call_refuse(c, code, problem);
        return;
    }
    c->detached = m->flags & SUBMIT_DETACH && !(m->flags & SUBMIT_MORE); /* without its input it is cancelled */
    c->job.in_sent = r->body.size;
    if (job.pipe)
        c->job.in_allowed = 0; /* until the job takes no pipe */
    c->job.quiet = m->flags & SUBMIT_QUIET;
    c->job.left = m->flags & SUBMIT_LEFT;
    if (jobs_submit(p->frontend->options.jobs, &job, &c->job.watch) < 0)
        call_refuse(c, CODE_BUSY, "out of memory");
}

void serve_input(struct request *r)
{
    const struct msg_chunk *m = &r->msg->chunk;
    struct peer *p = r->peer;
    struct call *c = call_find(p, r->tag);

    if (!c || !call_has_job(c) || !c->job.submits)
        return; /* it crossed the end of its call */
    if (m->offset != c->job.in_sent || c->job.in_sent + r->body.size > c->job.in_allowed || !c->job.in_allowed) {
        peer_fail(p, "input at a wrong offset or beyond the window");
        return;
    }
    c->job.in_sent += r->body.size;
    int result = jobs_input(&c->job.watch, r->body.data, r->body.size, m->last);
    if (result < 0)
        peer_fail(p, result == -EPROTO ? "input that was not announced" : "out of memory");
}
