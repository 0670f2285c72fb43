/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-runner.c: runners: RUNNER_OPEN, the jobs that go to the runner, and what it says of them. A runner is a call
 * that stays open as long as the runner takes jobs.
 * Owns nothing beyond the calls. [loop]
 * Keeps: a runner that says what is impossible loses its connection, and with it its runs. Descriptors go with the
 * frame that speaks of them.
 * Does not know jobs (domains/runner.c). */
#include "frontend/serve-runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/access.h"

/* Room for a RUN and its descriptor. */
static bool on_takes(void *context)
{
    const struct call *c = context;

    return !c->peer->failed && !peer_full(c->peer) && c->peer->n_sending < PEER_SENDING;
}

/* The input that does not fit into the first frame. */
static void send_rest(struct call *c, const struct runner_run *run)
{
    for (size_t at = 0; at < run->input_size;) {
        size_t n = MIN(run->input_size - at, (size_t)FRAME_BODY_CHUNK);
        struct msg m = {.type = FRAME_RUN_INPUT,
                        .run_chunk = {.run = run->run, .offset = at, .last = at + n == run->input_size}};

        peer_send(c->peer, &m, c->tag, (const char *)run->input + at, n);
        at += n;
    }
}

/* For a body. */
static size_t room_beside(const struct msg *m)
{
    return FRAME_MAX - MIN(codec_room(m) + FRAME_HEADER_SIZE, (size_t)FRAME_MAX);
}

static void on_run(void *context, const struct runner_run *run)
{
    struct call *c = context;
    struct msg m = {.type = FRAME_RUN,
                    .run = {.run = run->run,
                            .uid = run->uid,
                            .attempt = run->attempt,
                            .directory = span(run->directory ? run->directory : ""),
                            .job = {.function = span(run->function),
                                    .key = span(run->key ? run->key : ""),
                                    .traceparent = span(run->traceparent ? run->traceparent : ""),
                                    .args = {run->args, run->args_size},
                                    .argc = run->argc,
                                    .timeout_usec = run->timeout_usec,
                                    .priority = run->priority,
                                    .flags = run->asks ? RUN_ASKS : 0}}};

    memcpy(m.run.id, run->id, sizeof(m.run.id));
    m.run.job.input_from = run->input_from;
    m.run.job.input_offset = run->input_at;
    m.run.job.input_size = run->input_size;
    m.run.job.output_offset = run->output_at;
    m.run.job.output_size = run->output_size;
    /* arguments and the first piece in one frame, as far as they fit */
    bool whole = run->fd < 0 && run->input_size <= room_beside(&m);
    if (run->input_from == RUNNER_BODY && !whole && run->input_size)
        m.run.job.flags |= RUN_MORE;
    if (run->fd < 0)
        peer_send(c->peer, &m, c->tag, run->input, whole ? run->input_size : 0);
    else if (!peer_send_fds(c->peer, &m, c->tag, &run->fd, 1))
        peer_fail(c->peer, "no descriptors left for a job");
    if (m.run.job.flags & RUN_MORE)
        send_rest(c, run);
}

static void on_stop(void *context, uint64_t run, enum runner_why why)
{
    struct call *c = context;

    peer_send(c->peer, &(struct msg){.type = FRAME_RUN_STOP, .run_ref = {.run = run, .why = why}}, c->tag, NULL, 0);
}

static void on_opened(void *context, uint64_t run, uint32_t serial, int error, int fd)
{
    struct call *c = context;
    struct msg m = {.type = FRAME_RUN_OPENED, .run_opened = {.run = run, .serial = serial}};

    if (error == 0 && fd >= 0 && peer_send_fds(c->peer, &m, c->tag, &fd, 1))
        return;
    m.run_opened.error = error ? (uint32_t)error : EMFILE;
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void on_credit(void *context, uint64_t run, uint32_t bytes)
{
    struct call *c = context;
    struct msg m = {.type = FRAME_RUN_CREDIT, .run_credit = {.run = run, .bytes = bytes}};

    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void on_ping(void *context, uint32_t serial)
{
    struct call *c = context;

    peer_send(c->peer, &(struct msg){.type = FRAME_RUN_PING, .run_ref = {.run = serial}}, c->tag, NULL, 0);
}

/* In the next share: the caller may still use the runner. */
static void on_left(void *context)
{
    call_later(context);
}

static bool on_may_stay(void *context, const char *name)
{
    struct call *c = context;

    return !access_submit(c->peer) && access_offer(c->peer, name);
}

static void on_kill(void *context)
{
    struct call *c = context;

    peer_error(c->peer, 0, CODE_BUSY, "the runner did not answer, or did not end a run that was stopped");
    c->peer->failed = true;
}

static const struct runner_ops runner_ops = {.takes = on_takes,
                                             .run = on_run,
                                             .stop = on_stop,
                                             .opened = on_opened,
                                             .credit = on_credit,
                                             .ping = on_ping,
                                             .left = on_left,
                                             .may_stay = on_may_stay,
                                             .kill = on_kill};

static void runner_forget(struct call *c)
{
    c->runner = runner_free(c->runner, "its connection ended");
}

/* It has left: all its runs have ended. */
static void runner_later(struct call *c)
{
    c->runner = runner_free(c->runner, NULL);
    call_end(c);
}

static const struct call_ops ops = {.forget = runner_forget, .later = runner_later};

void serve_runner_open(struct request *r)
{
    const struct msg_offer *m = &r->msg->offer;
    struct runner_function functions[CODEC_FUNCTIONS];
    struct peer *p = r->peer;
    char refusal[256] = "out of memory";
    int code = CODE_BUSY;

    if (p->remote) {
        peer_error(p, r->tag, CODE_USAGE, "a runner connects on wsd's own machine, since its inputs are descriptors");
        return;
    }
    if (p->acting) {
        peer_error(p, r->tag, CODE_DENIED, "a connection that acts for another user offers no runners");
        return;
    }
    if (!access_offer(p, m->name.data)) {
        snprintf(refusal, sizeof(refusal), "this user may not offer %.63s ([runner %.63s] offer in wsd.conf)",
                 m->name.data, m->name.data);
        peer_error(p, r->tag, CODE_DENIED, refusal);
        return;
    }
    struct call *c = call_new(r, &ops);
    if (!c)
        return;
    for (size_t i = 0; i < m->n_functions; i++)
        functions[i] =
            (struct runner_function){m->functions[i].name.data, m->functions[i].help.data, m->functions[i].flags};
    const struct runner_offer offer = {.name = m->name.data,
                                       .version = m->version.data,
                                       .help = m->help.data,
                                       .functions = functions,
                                       .n_functions = m->n_functions,
                                       .credit = m->credit,
                                       .places = p->features & FEATURE_PLACED,
                                       .uid = p->uid,
                                       .pid = p->pid};
    if (runner_new(p->frontend->options.jobs, &offer, &runner_ops, c, &c->runner, &code, refusal) < 0) {
        call_refuse(c, (uint32_t)code, refusal);
        return;
    }
    peer_send(p, &(struct msg){.type = FRAME_RUNNER}, r->tag, NULL, 0);
}

/* The runner of this tag. NULL: there is none, and its connection ends. */
static struct runner *runner_of(struct request *r)
{
    struct call *c = call_find(r->peer, r->tag);

    if (c && c->ops == &ops)
        return c->runner;
    peer_fail(r->peer, "%s with a tag that is no runner's", codec_type_name(r->msg->type));
    return NULL;
}

static void judge(struct request *r, const char *why)
{
    if (why)
        peer_fail(r->peer, "%s: %s", codec_type_name(r->msg->type), why);
}

void serve_runner_close(struct request *r)
{
    struct runner *runner = runner_of(r);

    if (runner)
        runner_leave(runner);
}

void serve_run_output(struct request *r)
{
    const struct msg_run_chunk *m = &r->msg->run_chunk;
    struct runner *runner = runner_of(r);

    if (runner)
        judge(r, runner_output(runner, m->run, m->offset, r->body.data, r->body.size));
}

void serve_run_message(struct request *r)
{
    const struct msg_run_message *m = &r->msg->run_message;
    struct runner *runner = runner_of(r);

    if (runner)
        judge(r, runner_message(runner, m->run, m->level, m->text.data));
}

void serve_run_progress(struct request *r)
{
    const struct msg_run_progress *m = &r->msg->run_progress;
    struct runner *runner = runner_of(r);

    if (runner)
        judge(r, runner_progress(runner, m->run, m->done, m->total));
}

void serve_run_open(struct request *r)
{
    const struct msg_run_open *m = &r->msg->run_open;
    struct runner *runner = runner_of(r);

    if (runner)
        judge(r, runner_open_file(runner, m->run, m->serial, m->path.data));
}

void serve_run_end(struct request *r)
{
    const struct msg_run_end *m = &r->msg->run_end;
    struct runner *runner = runner_of(r);

    if (!runner)
        return;
    const struct runner_end end = {.status = m->status,
                                   .state = m->state,
                                   .error = m->error.data,
                                   .text = m->text.data,
                                   .cpu_usec = m->cpu_usec,
                                   .placed = m->placed,
                                   .data = r->body.data,
                                   .size = r->body.size};
    judge(r, runner_end(runner, m->run, &end));
}

void serve_run_pong(struct request *r)
{
    struct runner *runner = runner_of(r);

    if (runner)
        judge(r, runner_pong(runner, (uint32_t)r->msg->run_ref.run));
}
