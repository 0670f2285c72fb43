/* SPDX-License-Identifier: Apache-2.0
 *
 * questions.c: what is asked and waited for: jobs by id, lists, plugins, gates, limits, actions,
 * workers, counters, ping.
 * Owns the texts of the last job that was asked for by id. One thread a handle.
 * Does not submit. Questions that are not waited for are asked.c's. */
#include "questions.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "client.h"
#include "given.h"
#include "query.h"
#include "text.h"

struct msg id_message(uint16_t type, const struct wsd_id *id)
{
    struct msg msg = {.type = type, .id = {.has_id = true}};

    memcpy(msg.id.id, id->bytes, sizeof(msg.id.id));
    return msg;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static int show_job(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct wsd_job_info *wanted = query->wanted, info;
    size_t size = MIN(wanted->size, sizeof(info));
    char *texts;

    if (job_info_copy(&msg->job, &info, NULL, 0, &texts) < 0)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    free(client->job_texts);
    client->job_texts = texts;
    info.size = size;
    memcpy(wanted, &info, size);
    return 0;
}

int wsd_client_job(struct wsd_client *client, const struct wsd_id *id, struct wsd_job_info *ret_info)
{
    struct msg msg = id_message(FRAME_STATUS, id);
    struct query query = {.each = FRAME_JOB, .end = FRAME_JOB, .show = show_job, .wanted = ret_info};

    return query_run(client, &msg, &query);
}

struct each_job {
    int (*each)(const struct wsd_job_info *info, void *userdata);
    void *userdata;
};

static int show_each_job(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_job *user = query->wanted;
    struct wsd_job_info info;

    job_info_view(&msg->job, &info);
    return user->each(&info, user->userdata);
}

int wsd_client_list(struct wsd_client *client, int (*each)(const struct wsd_job_info *info, void *userdata),
                    void *userdata)
{
    struct msg msg = {.type = FRAME_LIST};
    struct each_job user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_JOB, .end = FRAME_END, .show = show_each_job, .wanted = &user};

    return query_run(client, &msg, &query);
}

int wsd_client_cancel(struct wsd_client *client, const struct wsd_id *id)
{
    struct msg msg = id_message(FRAME_CANCEL, id);
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    return query_run(client, &msg, &query);
}

int filter_message(struct wsd_client *client, const struct wsd_filter *given, uint16_t type, struct msg *ret)
{
    struct wsd_filter room;
    const char *problem;
    int r = connection_wants(&client->connection, FEATURE_WHERE);

    if (r < 0)
        return r;
    const struct wsd_filter *f = GIVEN(&client->failure, wsd_filter, given, &room, &r);
    if (!f)
        return r;
    *ret =
        (struct msg){.type = type,
                     .filter = {.states = f->states,
                                .by_uid = f->by_uid,
                                .uid = f->uid,
                                .plugin = {.data = f->plugin, .size = f->plugin ? strlen(f->plugin) : 0},
                                .function = {.data = f->function, .size = f->function ? strlen(f->function) : 0},
                                .newer_usec = f->newer_usec,
                                .older_usec = f->older_usec,
                                .limit = f->limit,
                                .batch = {.data = (const char *)f->batch, .size = f->batch ? sizeof(*f->batch) : 0}}};
    if (f->batch && (r = connection_wants(&client->connection, FEATURE_ARRAY)) < 0)
        return r;
    problem = codec_problem(ret);
    return problem ? failure_set(&client->failure, -EINVAL, CODE_USAGE, "%s: out of range", problem) : 0;
}

int wsd_client_list_where(struct wsd_client *client, const struct wsd_filter *filter,
                          int (*each)(const struct wsd_job_info *info, void *userdata), void *userdata)
{
    struct each_job user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_JOB, .end = FRAME_END, .show = show_each_job, .wanted = &user};
    struct msg msg;
    int r = filter_message(client, filter, FRAME_LIST_WHERE, &msg);

    return r < 0 ? r : query_run(client, &msg, &query);
}

static int show_count(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    if (query->wanted)
        *(uint64_t *)query->wanted = msg->count.n;
    return 0;
}

int wsd_client_cancel_where(struct wsd_client *client, const struct wsd_filter *filter, uint64_t *ret_n)
{
    struct query query = {.each = FRAME_COUNT, .end = FRAME_COUNT, .show = show_count, .wanted = ret_n};
    struct msg msg;
    int r = filter_message(client, filter, FRAME_CANCEL_WHERE, &msg);

    return r < 0 ? r : query_run(client, &msg, &query);
}

int wsd_client_dead(struct wsd_client *client, int (*each)(const struct wsd_job_info *info, void *userdata),
                    void *userdata)
{
    struct msg msg = {.type = FRAME_DEAD, .dead = {.action = DEAD_LIST}};
    struct each_job user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_JOB, .end = FRAME_END, .show = show_each_job, .wanted = &user};
    int r = connection_wants(&client->connection, FEATURE_STORE);

    return r < 0 ? r : query_run(client, &msg, &query);
}

static int decide(struct wsd_client *client, const struct wsd_id *id, uint32_t action)
{
    struct msg msg = {.type = FRAME_DEAD, .dead = {.action = action, .id = {.has_id = true}}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};
    int r = connection_wants(&client->connection, FEATURE_STORE);

    memcpy(msg.dead.id.id, id->bytes, sizeof(msg.dead.id.id));
    return r < 0 ? r : query_run(client, &msg, &query);
}

int wsd_client_dead_requeue(struct wsd_client *client, const struct wsd_id *id)
{
    return decide(client, id, DEAD_REQUEUE);
}

int wsd_client_dead_drop(struct wsd_client *client, const struct wsd_id *id)
{
    return decide(client, id, DEAD_DROP);
}

/* --- plugins ------------------------------------------------------------------------------------------------------ */

struct each_plugin {
    int (*each)(const struct wsd_plugin_info *info, void *userdata);
    void *userdata;
};

static int show_plugin(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_plugin *user = query->wanted;
    const struct msg_plugin *plugin = &msg->plugin;
    struct wsd_function_info functions[CODEC_FUNCTIONS];
    struct wsd_function_crashes crashes[CODEC_FUNCTIONS];
    struct wsd_plugin_runner runners[CODEC_RUNNERS];
    struct wsd_plugin_info info = {
        .size = sizeof(info),
        .name = plugin->name.data,
        .version = plugin->version.data,
        .help = plugin->help.data,
        .path = plugin->path.data,
        .error = plugin->error.data,
        .functions = functions,
        .n_functions = plugin->n_functions,
        .crashes = crashes,
        .apart = (int)plugin->apart,
        .runs = plugin->runs,
        .waiting = plugin->waiting,
        .runners = runners,
        .n_runners = plugin->n_runners,
        .build = plugin->build.data,
    };

    for (size_t i = 0; i < plugin->n_functions; i++) {
        const struct msg_function *f = &plugin->functions[i];

        functions[i] = (struct wsd_function_info){.name = f->name.data, .help = f->help.data, .flags = f->flags};
        crashes[i] = (struct wsd_function_crashes){.crashes = f->crashes,
                                                   .quarantine = f->quarantine,
                                                   .quarantine_usec = f->quarantine_usec,
                                                   .why = f->why.data};
    }
    for (size_t i = 0; i < plugin->n_runners; i++) {
        const struct msg_runner *r = &plugin->runners[i];

        runners[i] = (struct wsd_plugin_runner){.uid = r->uid,
                                                .pid = r->pid,
                                                .credit = r->credit,
                                                .running = r->running,
                                                .since_usec = r->since_usec,
                                                .leaving = r->leaving};
    }
    return user->each(&info, user->userdata);
}

static int ask_plugins(struct wsd_client *client, const char *name, bool only_runners,
                       int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata)
{
    struct msg msg = {
        .type = FRAME_PLUGINS,
        .plugins = {.name = {.data = name, .size = name ? strlen(name) : 0}, .runners = only_runners},
    };
    struct each_plugin user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_PLUGIN, .end = FRAME_END, .show = show_plugin, .wanted = &user};

    return query_run(client, &msg, &query);
}

int wsd_client_plugins(struct wsd_client *client, const char *name,
                       int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata)
{
    return ask_plugins(client, name, false, each, userdata);
}

int wsd_client_runners(struct wsd_client *client, const char *name,
                       int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata)
{
    int r = connection_wants(&client->connection, FEATURE_RUNNER);

    return r < 0 ? r : ask_plugins(client, name, true, each, userdata);
}

int wsd_client_plugin_release(struct wsd_client *client, const char *plugin, const char *function)
{
    struct msg msg = {.type = FRAME_RELEASE,
                      .release = {.name = {.data = plugin, .size = strlen(plugin)},
                                  .function = {.data = function, .size = function ? strlen(function) : 0}}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    return query_run(client, &msg, &query);
}

int wsd_client_person(struct wsd_client *client, const char *name)
{
    const char *given = name ? name : "";
    const struct msg msg = {.type = FRAME_PERSON, .person = {.name = {.data = given, .size = strlen(given)}}};
    int r = connection_wants(&client->connection, FEATURE_PERSON);

    if (r < 0)
        return r;
    if (msg.person.name.size >= CODEC_PERSON_MAX)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "the name of a person has at most %u bytes",
                           CODEC_PERSON_MAX - 1);
    r = connection_send(&client->connection, &msg, ++client->connection.next_tag, NULL, 0);
    return r < 0 ? failure_set(&client->failure, r, exit_of_error(r), "%s", strerror(-r)) : 0;
}

struct each_reload {
    int (*each)(const struct wsd_reload_info *info, void *userdata);
    void *userdata;
};

static int show_reload(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_reload *user = query->wanted;
    const struct msg_reloaded *m = &msg->reloaded;
    struct wsd_reload_info info = {
        .size = sizeof(info),
        .outcome = (enum wsd_reload_outcome)m->outcome,
        .uid = m->uid,
        .name = m->name.data,
        .path = m->path.data,
        .version = m->version.data,
        .build = m->build.data,
        .old_version = m->old_version.data,
        .old_build = m->old_build.data,
        .error = m->error.data,
        .exit = (int)m->code,
    };

    return user->each ? user->each(&info, user->userdata) : 0;
}

int wsd_client_plugin_reload(struct wsd_client *client, const char *plugin,
                             int (*each)(const struct wsd_reload_info *info, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_RELOAD, .reload = {.name = {.data = plugin, .size = strlen(plugin)}}};
    struct each_reload user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_RELOADED, .end = FRAME_END, .show = show_reload, .wanted = &user};

    return query_run(client, &msg, &query);
}

/* --- counters, ping ----------------------------------------------------------------------------------------------- */

struct each_counter {
    int (*each)(const char *name, uint64_t value, void *userdata);
    void *userdata;
};

static int show_counters(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_counter *user = query->wanted;
    int r = 0;

    for (size_t i = 0; i < msg->stats.n_counters && r == 0 && !client->freed; i++)
        r = user->each(msg->stats.counters[i].name.data, msg->stats.counters[i].value, user->userdata);
    return r;
}

int wsd_client_stats(struct wsd_client *client, int (*each)(const char *name, uint64_t value, void *userdata),
                     void *userdata)
{
    struct msg msg = {.type = FRAME_STATS};
    struct each_counter user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_COUNTERS, .end = FRAME_COUNTERS, .show = show_counters, .wanted = &user};

    return query_run(client, &msg, &query);
}

int wsd_client_gate(struct wsd_client *client, enum wsd_gate_action action, const char *plugin, const char *function,
                    uint32_t limit)
{
    struct msg msg = {.type = FRAME_GATE,
                      .gate = {.action = action,
                               .plugin = {.data = plugin, .size = plugin ? strlen(plugin) : 0},
                               .function = {.data = function, .size = function ? strlen(function) : 0},
                               .limit = limit}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    return query_run(client, &msg, &query);
}

int wsd_client_gate_tag(struct wsd_client *client, enum wsd_gate_action action, const char *tag, uint32_t limit)
{
    struct msg msg = {.type = FRAME_GATE,
                      .gate = {.action = action, .tag = {.data = tag, .size = strlen(tag)}, .limit = limit}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};

    if (!codec_is_tag(tag, strlen(tag))) /* an empty one would stand for all jobs */
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "not the name of a tag");
    int r = connection_wants(&client->connection, FEATURE_ORDER);
    return r < 0 ? r : query_run(client, &msg, &query);
}

struct each_gate {
    int (*each)(const struct wsd_gate_info *info, void *userdata);
    void *userdata;
};

struct each_limit {
    int (*each)(const struct wsd_limit_info *info, void *userdata);
    void *userdata;
};

static int show_gate(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_gate *user = query->wanted;
    const struct msg_gate_state *m = &msg->gate_state;
    const struct wsd_gate_info info = {.size = sizeof(info),
                                       .plugin = m->plugin.data,
                                       .function = m->function.data,
                                       .paused = (m->flags & GATE_PAUSED) != 0,
                                       .drained = (m->flags & GATE_DRAINED) != 0,
                                       .limit = m->limit,
                                       .running = m->running,
                                       .waiting = m->waiting,
                                       .tag = m->tag.data};

    return user->each(&info, user->userdata);
}

int wsd_client_gates(struct wsd_client *client, int (*each)(const struct wsd_gate_info *info, void *userdata),
                     void *userdata)
{
    struct msg msg = {.type = FRAME_GATE, .gate = {.action = GATE_LIST}};
    struct each_gate user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_GATE_STATE, .end = FRAME_END, .show = show_gate, .wanted = &user};

    return query_run(client, &msg, &query);
}

static int show_limit(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_limit *user = query->wanted;
    const struct msg_limit *m = &msg->limit;
    const struct wsd_limit_info info = {.size = sizeof(info),
                                        .key = m->key.data,
                                        .value = m->value.data,
                                        .of_user = (m->flags & LIMIT_OWN) != 0,
                                        .uid = m->uid,
                                        .moved = (m->flags & LIMIT_MOVED) != 0,
                                        .by = m->by};

    return user->each(&info, user->userdata);
}

int wsd_client_limits(struct wsd_client *client, int (*each)(const struct wsd_limit_info *info, void *userdata),
                      void *userdata)
{
    struct msg msg = {.type = FRAME_LIMIT};
    struct each_limit user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_LIMIT_STATE, .end = FRAME_END, .show = show_limit, .wanted = &user};
    int r = connection_wants(&client->connection, FEATURE_LIMITS);

    return r < 0 ? r : query_run(client, &msg, &query);
}

int wsd_client_set_limit(struct wsd_client *client, int of_user, uint32_t uid, const char *key, const char *value)
{
    struct msg msg = {.type = FRAME_LIMIT,
                      .limit = {.flags = LIMIT_MOVED | (of_user ? LIMIT_OWN : 0u),
                                .uid = of_user ? uid : 0,
                                .key = {.data = key, .size = strlen(key)},
                                .value = {.data = value, .size = value ? strlen(value) : 0}}};
    struct query query = {.each = FRAME_END, .end = FRAME_END};
    int r = connection_wants(&client->connection, FEATURE_LIMITS);

    return r < 0 ? r : query_run(client, &msg, &query);
}

struct each_action {
    int (*each)(const struct wsd_action_info *info, void *userdata);
    void *userdata;
};

static int show_action(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_action *user = query->wanted;
    const struct msg_action *m = &msg->action;
    const struct wsd_action_info info = {.size = sizeof(info),
                                         .time_usec = m->time_usec,
                                         .uid = m->uid,
                                         .exit = (int)m->code,
                                         .person = m->person.data,
                                         .action = m->verb.data,
                                         .object = m->object.data};

    return user->each(&info, user->userdata);
}

int wsd_client_actions(struct wsd_client *client, uint32_t limit,
                       int (*each)(const struct wsd_action_info *info, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_ACTIONS, .actions = {.limit = limit}};
    struct each_action user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_ACTION, .end = FRAME_END, .show = show_action, .wanted = &user};
    int r = connection_wants(&client->connection, FEATURE_ACTIONS);

    return r < 0 ? r : query_run(client, &msg, &query);
}

/* --- workers, traces -------------------------------------------------------------------------------------------- */

struct each_worker {
    int (*worker)(const struct wsd_worker_info *info, void *userdata);
    int (*executor)(const struct wsd_executor_info *info, void *userdata);
    int (*events)(const void *data, size_t size, void *userdata);
    void *userdata;
};

static int show_worker(const struct each_worker *user, const struct msg_worker *m)
{
    struct wsd_counter_info counters[CODEC_COUNTERS];
    struct wsd_worker_info info = {
        .size = sizeof(info),
        .executor = m->executor,
        .worker = m->worker,
        .kind = (enum wsd_worker_kind)m->kind,
        .cpu = (int)MIN(m->cpu, (uint32_t)INT32_MAX) - 1,
        .counters = counters,
        .n_counters = m->n_counters,
    };

    for (size_t i = 0; i < m->n_counters; i++)
        counters[i] = (struct wsd_counter_info){.name = m->counters[i].name.data, .value = m->counters[i].value};
    return user->worker(&info, user->userdata);
}

static int show_executor(const struct each_worker *user, const struct msg_executor *m)
{
    struct wsd_executor_info info = {
        .size = sizeof(info),
        .executor = m->executor,
        .uid = m->uid,
        .workers = m->workers,
        .error = (int)m->error,
        .lost = m->lost,
        .pid = m->pid,
        .descriptors = m->descriptors,
        .age_usec = m->age_usec,
        .memory = m->memory,
    };

    return user->executor(&info, user->userdata);
}

static int show_each_worker(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_worker *user = query->wanted;

    if (msg->type == FRAME_WORKER)
        return user->worker ? show_worker(user, &msg->worker) : 0;
    if (msg->type == FRAME_EXECUTOR)
        return user->executor ? show_executor(user, &msg->executor) : 0;
    return user->events ? user->events(query->current->body, query->current->body_size, user->userdata) : 0;
}

static int ask_executors(struct wsd_client *client, const struct msg *msg, struct each_worker *user)
{
    struct query query = {
        .each = FRAME_EXECUTOR, .also = {FRAME_WORKER}, .end = FRAME_END, .show = show_each_worker, .wanted = user};

    query.hurries = msg->type == FRAME_TRACE;
    if (query.hurries)
        query.also[0] = FRAME_PIECE;
    return query_run(client, msg, &query);
}

int wsd_client_workers(struct wsd_client *client, int (*worker)(const struct wsd_worker_info *info, void *userdata),
                       int (*executor)(const struct wsd_executor_info *info, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_WORKERS};

    return ask_executors(client, &msg,
                         &(struct each_worker){.worker = worker, .executor = executor, .userdata = userdata});
}

int wsd_client_set_workers(struct wsd_client *client, uint32_t n,
                           int (*executor)(const struct wsd_executor_info *info, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_WORKERS, .workers = {.set = n}};

    if (n < 1 || n > CODEC_WORKERS_MAX)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "a number of workers is 1 to %u", CODEC_WORKERS_MAX);
    return ask_executors(client, &msg, &(struct each_worker){.executor = executor, .userdata = userdata});
}

int wsd_client_trace_start(struct wsd_client *client, bool keep)
{
    struct msg msg = {.type = FRAME_TRACE, .trace = {.action = keep ? TRACE_ACTION_KEEP : TRACE_ACTION_START}};

    return ask_executors(client, &msg, &(struct each_worker){.userdata = NULL});
}

int wsd_client_trace_stop(struct wsd_client *client,
                          int (*executor)(const struct wsd_executor_info *info, void *userdata),
                          int (*events)(const void *data, size_t size, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_TRACE, .trace = {.action = TRACE_ACTION_STOP}};

    return ask_executors(client, &msg,
                         &(struct each_worker){.executor = executor, .events = events, .userdata = userdata});
}

static int profile_message(struct wsd_client *client, uint32_t action, uint32_t rate, struct msg *ret)
{
    *ret = (struct msg){.type = FRAME_TRACE, .trace = {.action = action, .kind = TRACE_OF_STACKS, .rate = rate}};
    return connection_wants(&client->connection, FEATURE_PROFILE);
}

int wsd_client_profile_start(struct wsd_client *client, uint32_t rate, bool keep)
{
    struct msg msg;
    int r = profile_message(client, keep ? TRACE_ACTION_KEEP : TRACE_ACTION_START, rate, &msg);

    if (r < 0)
        return r;
    if (rate < 1 || rate > CODEC_RATE_MAX)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "a rate is 1 to %u samples in a second",
                           CODEC_RATE_MAX);
    return ask_executors(client, &msg, &(struct each_worker){.userdata = NULL});
}

int wsd_client_profile_stop(struct wsd_client *client,
                            int (*executor)(const struct wsd_executor_info *info, void *userdata),
                            int (*stacks)(const void *data, size_t size, void *userdata), void *userdata)
{
    struct msg msg;
    int r = profile_message(client, TRACE_ACTION_STOP, 0, &msg);

    return r < 0 ? r
                 : ask_executors(client, &msg,
                                 &(struct each_worker){.executor = executor, .events = stacks, .userdata = userdata});
}

int wsd_client_stack(struct wsd_client *client, const struct wsd_id *id,
                     int (*executor)(const struct wsd_executor_info *info, void *userdata),
                     int (*text)(const void *data, size_t size, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_TRACE, .trace = {.action = TRACE_ACTION_STACK, .id = {.has_id = true}}};
    int r = connection_wants(&client->connection, FEATURE_PROFILE);

    memcpy(msg.trace.id.id, id->bytes, sizeof(msg.trace.id.id));
    return r < 0 ? r
                 : ask_executors(client, &msg,
                                 &(struct each_worker){.executor = executor, .events = text, .userdata = userdata});
}

int wsd_client_ping(struct wsd_client *client, uint64_t *ret_usec)
{
    struct msg msg = {.type = FRAME_PING};
    struct query query = {.each = FRAME_PONG, .end = FRAME_PONG};
    uint64_t start = clock_monotonic_usec();
    int r = query_run(client, &msg, &query);

    if (r == 0 && ret_usec)
        *ret_usec = clock_monotonic_usec() - start;
    return r;
}
