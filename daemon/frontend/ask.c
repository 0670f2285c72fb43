/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c: requests about executors: workers and their number, traces.
 * Owns the answers of executors that a connection has not had room for. [loop]
 * Keeps: each PIECE comes behind the EXECUTOR that it is from; a connection that does not read holds up itself only.
 * Holds no policy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "frontend/call.h"

/* What one executor said of its trace. */
struct answer {
    struct list link;
    struct msg_executor msg;
    struct trace_report *report;
    uint64_t sent;
    bool told;
};

static struct call *call_of(struct executor_question *q)
{
    return container_of(q, struct call, question);
}

static struct msg_executor executor_msg(const struct executor_answer *a)
{
    return (struct msg_executor){
        .executor = a->executor, .uid = a->uid, .workers = a->workers, .error = (uint32_t)a->error, .lost = a->lost};
}

static void on_worker(struct executor_question *q, uint32_t executor, const struct worker_info *info)
{
    struct msg_counter counters[CODEC_COUNTERS];
    struct msg m = {.type = FRAME_WORKER,
                    .worker = {.executor = executor,
                               .worker = info->worker,
                               .kind = info->kind,
                               .cpu = info->cpu,
                               .counters = counters,
                               .n_counters = MIN(jobs_n_counters, (size_t)CODEC_COUNTERS)}};

    for (size_t i = 0; i < m.worker.n_counters; i++)
        counters[i] = (struct msg_counter){.name = {jobs_counter_names[i], strlen(jobs_counter_names[i])},
                                           .value = info->counters[i]};
    peer_send(call_of(q)->peer, &m, call_of(q)->tag, NULL, 0);
}

static void on_answer(struct executor_question *q, const struct executor_answer *a)
{
    struct msg m = {.type = FRAME_EXECUTOR, .executor = executor_msg(a)};

    peer_send(call_of(q)->peer, &m, call_of(q)->tag, NULL, 0);
}

static void on_done(struct executor_question *q)
{
    call_end(call_of(q));
}

/* Returns 0; otherwise the refusal was sent, and the call is over. */
static int ask(struct call *c, enum jobs_ask what, uint32_t argument)
{
    struct peer *p = c->peer;
    uint32_t tag = c->tag;
    const char *refusal = what == JOBS_SET_WORKERS ? access_administer(p) : NULL;
    int r = refusal ? -EACCES : jobs_ask(p->frontend->options.jobs, access_watches(p), what, argument, &c->question);

    if (r == 0)
        return 0;
    call_free(c);
    switch (r) {
    case -EACCES:
        peer_error(p, tag, CODE_DENIED,
                   refusal ? refusal : "others' jobs run in this executor too ([access] see in wsd.conf)");
        return r;
    case -EBUSY:
        peer_error(p, tag, CODE_BUSY, "a trace is under way already, or somebody still reads it");
        return r;
    case -ENOENT:
        peer_error(p, tag, CODE_NOT_FOUND, "no trace is under way that you have started");
        return r;
    default:
        peer_error(p, tag, r == -EINVAL ? CODE_USAGE : CODE_BUSY, strerror(-r));
        return r;
    }
}

void ask_workers(struct peer *p, uint32_t tag, const struct msg_workers *m)
{
    struct call *c = call_new(p, tag, CALL_WORKERS);

    if (!c)
        return;
    c->question = (struct executor_question){.worker = on_worker, .answer = on_answer, .done = on_done};
    (void)ask(c, m->set ? JOBS_SET_WORKERS : JOBS_WORKERS, m->set);
}

/* --- traces ----------------------------------------------------------------------------------------------------- */

static void answer_free(struct answer *a)
{
    list_remove(&a->link);
    trace_report_free(a->report);
    free(a);
}

static void on_trace(struct executor_question *q, const struct executor_answer *executor)
{
    struct answer *a = calloc(1, sizeof(*a));

    if (!a) {
        trace_report_free(executor->report);
        return;
    }
    a->msg = executor_msg(executor);
    a->report = executor->report;
    list_push_back(&call_of(q)->answers, &a->link);
    if (q->asking)
        ask_pump(call_of(q));
}

static void on_traced(struct executor_question *q)
{
    call_of(q)->answered = true;
    ask_pump(call_of(q));
}

/* True: all of it has gone. */
static bool send_answer(struct call *c, struct answer *a)
{
    static uint8_t piece[FRAME_BODY_CHUNK];
    struct msg m = {.type = FRAME_EXECUTOR, .executor = a->msg};

    if (!a->told)
        peer_send(c->peer, &m, c->tag, NULL, 0);
    a->told = true;
    while (!peer_full(c->peer)) {
        size_t n = a->report ? trace_report_read(a->report, a->sent, piece, sizeof(piece)) : 0;

        if (n == 0)
            return true;
        m = (struct msg){.type = FRAME_PIECE, .chunk = {.offset = a->sent}};
        peer_send(c->peer, &m, c->tag, piece, n);
        a->sent += n;
    }
    return false;
}

void ask_pump(struct call *c)
{
    while (!list_empty(&c->answers) && !c->peer->failed) {
        struct answer *a = container_of(c->answers.next, struct answer, link);

        if (peer_full(c->peer) || !send_answer(c, a)) {
            call_stall(c);
            return;
        }
        answer_free(a);
    }
    if (c->answered)
        call_end(c);
}

void ask_trace(struct peer *p, uint32_t tag, const struct msg_trace *m)
{
    struct call *c = call_new(p, tag, CALL_TRACE);

    if (!c)
        return;
    c->action = m->action;
    c->question = (struct executor_question){.worker = on_worker, .answer = on_answer, .done = on_done};
    if (m->action != TRACE_ACTION_STOP) {
        (void)ask(c, JOBS_TRACE_START, 0);
        return;
    }
    c->question.answer = on_trace;
    c->question.done = on_traced;
    (void)ask(c, JOBS_TRACE_STOP, 0);
}

void ask_forget(struct call *c)
{
    /* A trace ends with the connection, also where that goes before the executors have answered. */
    if (c->kind == CALL_TRACE && c->action == TRACE_ACTION_START && c->question.trace)
        c->peer->trace = c->question.trace;
    jobs_ask_forget(&c->question);
    while (!list_empty(&c->answers))
        answer_free(container_of(c->answers.next, struct answer, link));
}
