/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-executors.c: executors: their workers, traces, profiles and stacks: WORKERS and TRACE.
 * Owns the answers of executors that a connection has not had room for. [loop]
 * Keeps: each PIECE comes behind the EXECUTOR that it is from. That of wsd's own part has the number 0. A connection
 * that does not read holds up itself only.
 * Holds no policy. */
#include "frontend/serve-executors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"

/* What one executor said of its trace. */
struct answer {
    struct list link;
    struct msg_executor msg;
    struct trace_report *report;
    uint64_t sent;
    bool told;
};

static struct call *call_of(struct executor_query *q)
{
    return container_of(q, struct call, executors.query);
}

static struct msg_executor executor_msg(const struct executor_answer *a)
{
    return (struct msg_executor){.executor = a->executor,
                                 .uid = a->uid,
                                 .workers = a->workers,
                                 .error = (uint32_t)a->error,
                                 .lost = a->lost,
                                 .pid = a->process.pid,
                                 .descriptors = a->process.descriptors,
                                 .age_usec = a->process.age_usec,
                                 .memory = a->process.memory};
}

static void on_worker(struct executor_query *q, uint32_t executor, const struct worker_info *info)
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
        counters[i] = (struct msg_counter){.name = span(jobs_counter_names[i]), .value = info->counters[i]};
    peer_send(call_of(q)->peer, &m, call_of(q)->tag, NULL, 0);
}

static void on_answer(struct executor_query *q, const struct executor_answer *a)
{
    struct msg m = {.type = FRAME_EXECUTOR, .executor = executor_msg(a)};

    peer_send(call_of(q)->peer, &m, call_of(q)->tag, NULL, 0);
}

static void on_done(struct executor_query *q)
{
    call_end(call_of(q));
}

/* --- traces ----------------------------------------------------------------------------------------------------- */

static void answer_free(struct answer *a)
{
    list_remove(&a->link);
    trace_report_free(a->report);
    free(a);
}

static void send_answers(struct call *c);

static void on_trace(struct executor_query *q, const struct executor_answer *executor)
{
    bool is_own = executor->executor == 0 && executor->report; /* an older client takes it for one that ended */
    bool is_known = !is_own || call_of(q)->peer->features & FEATURE_WAY;
    struct answer *a = is_known ? calloc(1, sizeof(*a)) : NULL;

    if (!a) {
        trace_report_free(executor->report);
        return;
    }
    a->msg = executor_msg(executor);
    a->report = executor->report;
    list_push_back(&call_of(q)->executors.answers, &a->link);
    if (q->asking)
        send_answers(call_of(q));
}

static void on_traced(struct executor_query *q)
{
    call_of(q)->executors.answered = true;
    send_answers(call_of(q));
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

static void send_answers(struct call *c)
{
    while (!list_empty(&c->executors.answers) && !c->peer->failed) {
        struct answer *a = container_of(c->executors.answers.next, struct answer, link);

        if (peer_full(c->peer) || !send_answer(c, a)) {
            call_stall(c);
            return;
        }
        answer_free(a);
    }
    if (c->executors.answered)
        call_end(c);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void query_forget(struct call *c)
{
    struct call_executors *own = &c->executors;

    /* A trace ends with the connection, also where that goes before the executors have answered. */
    if (own->starts && own->query.trace)
        c->peer->trace = own->query.trace;
    jobs_query_forget(&own->query);
    while (!list_empty(&own->answers))
        answer_free(container_of(own->answers.next, struct answer, link));
}

static void query_hurry(struct call *c, uint32_t item)
{
    jobs_query_hurry(&c->executors.query);
}

static const struct call_ops ops = {.forget = query_forget, .room = send_answers, .cancel = query_hurry};

static struct call *query_begin(const struct request *r)
{
    struct call *c = call_new(r, &ops);

    if (!c)
        return NULL;
    list_init(&c->executors.answers);
    c->executors.query = (struct executor_query){.worker = on_worker, .answer = on_answer, .done = on_done};
    return c;
}

static void query_ask(struct call *c, enum jobs_query what, uint32_t argument)
{
    struct peer *p = c->peer;
    bool sets = what == JOBS_SET_WORKERS;
    const char *refusal = sets ? access_administer(p) : NULL;
    uint32_t reach = sets ? p->uid : what == JOBS_WORKERS ? access_counts(p) : access_traces(p);
    int r = refusal ? -EACCES : jobs_query(p->frontend->options.jobs, reach, what, argument, &c->executors.query);
    char words[64];

    switch (r) {
    case 0:
        break;
    case -EACCES:
        call_refuse(c, CODE_DENIED,
                    refusal ? refusal : "others' jobs run in this executor too ([access] see in wsd.conf)");
        break;
    case -EBUSY:
        call_refuse(c, CODE_BUSY, "a trace or profile is under way already, or is still being read");
        break;
    case -ENOENT:
        snprintf(words, sizeof(words), "no %s is under way that you have started", c->executors.what);
        call_refuse(c, CODE_NOT_FOUND, words);
        break;
    default:
        call_refuse(c, r == -EINVAL ? CODE_USAGE : CODE_BUSY, strerror(-r));
    }
}

void serve_workers(struct request *r)
{
    uint32_t set = r->msg->workers.set;
    struct call *c = query_begin(r);

    if (c)
        query_ask(c, set ? JOBS_SET_WORKERS : JOBS_WORKERS, set);
}

static void deliver(struct call *c)
{
    c->executors.query.answer = on_trace;
    c->executors.query.done = on_traced;
}

static void ask_stack(struct call *c, const struct msg_id *id)
{
    struct jobs *jobs = c->peer->frontend->options.jobs;
    int r = id->has_id ? jobs_query_stack(jobs, id->id, access_sees(c->peer), &c->executors.query) : -ENOENT;

    if (r == -ENOENT)
        call_refuse(c, CODE_NOT_FOUND, "no such job");
    else if (r == -ESRCH)
        call_refuse(c, CODE_NOT_FOUND, "it does not run now, so it stands nowhere; see its state");
    else if (r == -EACCES)
        call_refuse(c, CODE_DENIED, "others' jobs run in this executor too ([access] see in wsd.conf)");
    else if (r == -EAGAIN)
        call_refuse(c, CODE_BUSY, "its executor is being asked for another stack: try again");
    else if (r == -EOPNOTSUPP)
        call_refuse(c, CODE_NOT_FOUND, "a runner has it: look at that process with a debugger of its language");
    else if (r < 0)
        call_refuse(c, CODE_BUSY, strerror(-r));
}

/* What is wrong with the request, beyond the ranges of its numbers; NULL: nothing. */
static const char *trace_problem(const struct peer *p, const struct msg_trace *m)
{
    bool starts = m->action == TRACE_ACTION_START || m->action == TRACE_ACTION_KEEP;

    if ((m->kind || m->rate || m->action == TRACE_ACTION_STACK) && !(p->features & FEATURE_PROFILE))
        return "a profile, or a stack, without its feature in HELLO";
    if (m->action == TRACE_ACTION_STACK && (m->kind || m->rate))
        return "a stack has neither kind nor rate";
    return (starts && m->kind == TRACE_OF_STACKS) != (m->rate != 0) ? "a rate is of a profile that starts" : NULL;
}

void serve_trace(struct request *r)
{
    const struct msg_trace *m = &r->msg->trace;
    const char *problem = trace_problem(r->peer, m);

    if (problem) {
        peer_fail(r->peer, "%s", problem);
        return;
    }
    struct call *c = query_begin(r);
    if (!c)
        return;
    c->executors.starts = m->action == TRACE_ACTION_START;
    c->executors.what = m->kind == TRACE_OF_STACKS ? "profile" : "trace";
    if (m->action == TRACE_ACTION_START || m->action == TRACE_ACTION_KEEP) {
        query_ask(c, JOBS_TRACE_START, m->rate);
        return;
    }
    deliver(c);
    if (m->action == TRACE_ACTION_STACK)
        ask_stack(c, &m->id);
    else
        query_ask(c, JOBS_TRACE_STOP, m->kind);
}
