/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c: schedules are added, listed, removed and run.
 * Owns nothing beyond the call. One thread a handle.
 * Does not read calendars: wsd does. */
#include "client.h"

#include <errno.h>
#include <string.h>

#include "base/code.h"
#include "given.h"
#include "query.h"
#include "submit.h"

static struct span span_of(const char *text)
{
    return (struct span){.data = text, .size = text ? strlen(text) : 0};
}

/* The arguments one behind the other; the caller frees. NULL: no memory. */
static char *pack_args(const struct wsd_submit *job, size_t *ret_size)
{
    size_t size = 0, at = 0;
    char *args;

    for (size_t i = 0; i < job->n_args; i++)
        size += strlen(job->args[i]) + 1;
    args = malloc(size + 1);
    for (size_t i = 0; args && i < job->n_args; i++) {
        size_t n = strlen(job->args[i]) + 1;

        memcpy(args + at, job->args[i], n);
        at += n;
    }
    *ret_size = size;
    return args;
}

static int ask_schedule(struct wsd_client *client, const struct msg *msg, struct query *query)
{
    const char *problem = codec_problem(msg);
    int r = connection_wants(&client->connection, FEATURE_TIME);

    if (r < 0)
        return r;
    return problem ? failure_problem(&client->failure, problem) : query_run(client, msg, query);
}

int wsd_client_schedule_add(struct wsd_client *client, const struct wsd_schedule *given)
{
    struct query query = {.each = FRAME_END, .end = FRAME_END};
    struct wsd_schedule schedule_room;
    struct wsd_submit job_room;
    size_t size;
    int r;

    const struct wsd_schedule *schedule = GIVEN(&client->failure, wsd_schedule, given, &schedule_room, &r);
    if (!schedule)
        return r;
    if (!schedule->job)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "the schedule has no job");
    const struct wsd_submit *job = GIVEN(&client->failure, wsd_submit, schedule->job, &job_room, &r);
    if (!job)
        return r;
    if (!job->plugin || !job->plugin[0])
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "no plugin is named");
    if (job->flags & ~(uint32_t)(WSD_SUBMIT_DURABLE | WSD_SUBMIT_WAIT_RUNNER) || job->key || job->input_size ||
        job->delay_usec || job->at_usec)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE,
                           "a schedule's job has no key, input, delay, time, or flags but DURABLE and WAIT_RUNNER");
    if (job->traceparent && !codec_is_traceparent(job->traceparent, strlen(job->traceparent)))
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, TRACEPARENT_WORDS);
    _cleanup_(freep) char *args = pack_args(job, &size);
    if (!args)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    struct msg msg = {.type = FRAME_SCHEDULE,
                      .schedule = {.action = SCHEDULE_ADD,
                                   .name = span_of(schedule->name),
                                   .calendar = span_of(schedule->calendar),
                                   .persistent = schedule->persistent,
                                   .job = submit_fields(job)}};

    msg.schedule.job.args = (struct span){.data = args, .size = size};
    msg.schedule.job.argc = (uint32_t)MIN(job->n_args, UINT32_MAX);
    return ask_schedule(client, &msg, &query);
}

struct each_schedule {
    int (*each)(const struct wsd_schedule_info *info, void *userdata);
    void *userdata;
};

static int show_schedule(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_schedule *user = query->wanted;
    const struct msg_scheduled *m = &msg->scheduled;
    struct wsd_schedule_info info = {
        .size = sizeof(info),
        .name = m->name.data,
        .calendar = m->calendar.data,
        .plugin = m->plugin.data,
        .function = m->function.data,
        .uid = m->uid,
        .persistent = m->flags & SCHEDULED_PERSISTENT,
        .configured = m->flags & SCHEDULED_CONFIGURED,
        .running = m->flags & SCHEDULED_RUNNING,
        .next_usec = m->next_usec,
        .ran_usec = m->ran_usec,
        .runs = m->runs,
        .skipped = m->skipped,
        .state = (enum wsd_job_state)m->state,
        .exit = (int)m->exit,
        .error = m->error.data,
    };

    if (m->id.has_id)
        memcpy(info.id.bytes, m->id.id, sizeof(info.id.bytes));
    return user->each(&info, user->userdata);
}

int wsd_client_schedules(struct wsd_client *client, int (*each)(const struct wsd_schedule_info *info, void *userdata),
                         void *userdata)
{
    struct msg msg = {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_LIST}};
    struct each_schedule user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_SCHEDULED, .end = FRAME_END, .show = show_schedule, .wanted = &user};

    return ask_schedule(client, &msg, &query);
}

int wsd_client_schedule_remove(struct wsd_client *client, const char *name)
{
    struct msg msg = {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_REMOVE, .name = span_of(name)}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    return ask_schedule(client, &msg, &query);
}

static int take_id(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct wsd_id *id = query->wanted;

    if (id && msg->scheduled.id.has_id)
        memcpy(id->bytes, msg->scheduled.id.id, sizeof(id->bytes));
    return 0;
}

int wsd_client_schedule_run(struct wsd_client *client, const char *name, struct wsd_id *ret_id)
{
    struct msg msg = {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_RUN, .name = span_of(name)}};
    struct query query = {.each = FRAME_SCHEDULED, .end = FRAME_END, .show = take_id, .wanted = ret_id};

    return ask_schedule(client, &msg, &query);
}
