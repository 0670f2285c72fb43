/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-schedule.c: jobs that run by the calendar: SCHEDULE.
 * Owns nothing beyond the calls. [loop]
 * Keeps: a change is told when it is on disk. */
#include "frontend/serve-schedule.h"

#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/serve-submit.h"

static void on_scheduled(struct schedule_query *q, int code, const char *text, const uint8_t *id)
{
    struct call *c = container_of(q, struct call, schedule.query);
    struct msg m = {.type = FRAME_SCHEDULED, .scheduled = {.id = {.has_id = true}}};

    if (code != 0) {
        call_refuse(c, (uint32_t)code, text);
        return;
    }
    if (c->schedule.action == SCHEDULE_RUN) {
        memcpy(m.scheduled.id.id, id, sizeof(m.scheduled.id.id));
        peer_send(c->peer, &m, c->tag, NULL, 0);
    }
    call_end(c);
}

static void send_schedule(const struct schedule_info *info, void *userdata)
{
    struct call *c = userdata;
    bool reads = access_reads(c->peer, info->uid);
    struct msg m = {.type = FRAME_SCHEDULED,
                    .scheduled = {.name = span(reads ? info->name : ""),
                                  .calendar = span(info->calendar),
                                  .plugin = span(info->plugin),
                                  .function = span(info->function),
                                  .error = line(reads ? info->error : ""),
                                  .uid = info->uid,
                                  .flags = (info->persistent ? SCHEDULED_PERSISTENT : 0u) |
                                           (info->configured ? SCHEDULED_CONFIGURED : 0u) |
                                           (info->running ? SCHEDULED_RUNNING : 0u),
                                  .state = info->state,
                                  .exit = info->exit,
                                  .next_usec = info->next_usec,
                                  .ran_usec = info->ran_usec,
                                  .runs = info->runs,
                                  .skipped = info->skipped,
                                  .id = {.has_id = info->ran_usec != 0}}};

    memcpy(m.scheduled.id.id, info->id, sizeof(m.scheduled.id.id));
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void schedule_add(struct call *c, const struct msg_schedule *m)
{
    const struct schedule_request r = {.name = m->name.data,
                                       .calendar = m->calendar.data,
                                       .persistent = m->persistent,
                                       .job = submit_job(&m->job, c->peer)};

    const char *problem = submit_problem(&m->job);

    if (problem)
        on_scheduled(&c->schedule.query, CODE_USAGE, problem, NULL);
    else
        jobs_schedule_add(c->peer->frontend->options.jobs, &r, &c->schedule.query);
}

static void schedule_forget(struct call *c)
{
    jobs_schedule_forget(&c->schedule.query);
}

static const struct call_ops ops = {.forget = schedule_forget};

void serve_schedule(struct request *r)
{
    const struct msg_schedule *m = &r->msg->schedule;
    struct peer *p = r->peer;
    struct jobs *jobs = p->frontend->options.jobs;
    struct call *c = call_new(r, &ops);

    if (!c)
        return;
    c->schedule.query.answer = on_scheduled;
    c->schedule.action = m->action;
    switch (m->action) {
    case SCHEDULE_ADD:
        schedule_add(c, m);
        break;
    case SCHEDULE_REMOVE:
        jobs_schedule_remove(jobs, p->uid, m->name.data, &c->schedule.query);
        break;
    case SCHEDULE_RUN:
        jobs_schedule_run(jobs, p->uid, m->name.data, &c->schedule.query);
        break;
    default:
        if (jobs_schedules(jobs, access_watches(p), send_schedule, c) == 0)
            call_end(c);
        else
            call_refuse(c, CODE_BUSY, "out of memory");
    }
}
