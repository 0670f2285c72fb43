/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c: questions that are asked and waited for: jobs by id, lists, plugins, counters, ping.
 * Owns nothing beyond the call; a struct query lives on the stack. One thread a handle.
 * Keeps: whatever happens, no request is left behind that points to the stack.
 * Does not submit. */
#include "client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

struct query {
    struct request request;
    bool done;
    int result;
    uint16_t each; /* frames of this type are shown */
    uint16_t end;  /* one of this type ends the answer (the same: one frame is the answer) */
    int (*show)(struct wsd_client *client, struct query *query, const struct msg *msg);
    void *wanted; /* of the one who asks: what show fills or calls */
};

static void query_end(struct wsd_client *client, struct query *query, int result)
{
    query->done = true;
    query->result = result;
    client_request_close(client, &query->request);
}

static void query_frame(struct wsd_client *client, struct request *request, const struct frame *frame,
                        const struct msg *msg)
{
    struct query *query = container_of(request, struct query, request);
    int r = 0;

    if (msg->type == FRAME_ERROR) {
        query_end(client, query, client_remote_error(client, &msg->error));
        return;
    }
    if (msg->type != query->each && msg->type != query->end) {
        client_break_protocol(client, "unexpected answer:", msg->type);
        return;
    }
    if (msg->type == query->end)
        query_end(client, query, 0); /* before show, which may process the connection */
    if (msg->type == query->each && query->show) {
        client->depth++;
        r = query->show(client, query, msg);
        client->depth--;
    }
    if (r != 0 && !query->done)
        query_end(client, query, r);
    else if (r != 0)
        query->result = r;
}

static void query_broken(struct wsd_client *client, struct request *request)
{
    query_end(client, container_of(request, struct query, request), client->broken);
}

static int query_run(struct wsd_client *client, const struct msg *msg, struct query *query)
{
    uint64_t deadline = client_deadline(QUERY_TIMEOUT_USEC);
    int r = 0;

    list_init(&query->request.open);
    query->request.frame = query_frame;
    query->request.broken = query_broken;
    if (!client->broken) {
        r = client_request_open(client, &query->request);
        if (r == 0)
            r = client_send(client, msg, query->request.tag, NULL, 0);
        if (r < 0) {
            client_request_close(client, &query->request);
            return client_error(client, r, exit_of_error(r), "%s",
                                r == -EINVAL ? "the question is above a limit" : strerror(-r));
        }
    } else {
        return client_error(client, client->broken, client->broken_exit, "%s", client->reason);
    }
    client->depth++;
    while (!query->done && r == 0)
        r = client_step(client, deadline);
    client->depth--;
    if (!query->done)
        query_end(client, query, r);
    client_reap(client);
    return query->result;
}

static struct msg id_message(uint16_t type, const struct wsd_id *id)
{
    struct msg msg = {.type = type, .id = {.has_id = true}};

    memcpy(msg.id.id, id->bytes, sizeof(msg.id.id));
    return msg;
}

/* --- jobs ------------------------------------------------------------------------------------------------------------
 */

static int show_job(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct wsd_job_info *wanted = query->wanted, info;
    size_t size = MIN(wanted->size, sizeof(info));
    char *texts;

    if (job_info_copy(&msg->job, &info, &texts) < 0)
        return client_error(client, -ENOMEM, 74, "out of memory");
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

/* --- plugins
 * ---------------------------------------------------------------------------------------------------------- */

struct each_plugin {
    int (*each)(const struct wsd_plugin_info *info, void *userdata);
    void *userdata;
};

static int show_plugin(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_plugin *user = query->wanted;
    const struct msg_plugin *plugin = &msg->plugin;
    struct wsd_function_info functions[CODEC_FUNCTIONS];
    struct wsd_plugin_info info = {
        .size = sizeof(info),
        .name = plugin->name.data,
        .version = plugin->version.data,
        .help = plugin->help.data,
        .path = plugin->path.data,
        .error = plugin->error.data,
        .functions = functions,
        .n_functions = plugin->n_functions,
    };

    for (size_t i = 0; i < plugin->n_functions; i++)
        functions[i] = (struct wsd_function_info){.name = plugin->functions[i].name.data,
                                                  .help = plugin->functions[i].help.data,
                                                  .flags = plugin->functions[i].flags};
    return user->each(&info, user->userdata);
}

int wsd_client_plugins(struct wsd_client *client, const char *name,
                       int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata)
{
    struct msg msg = {.type = FRAME_PLUGINS, .plugins = {.name = {.data = name, .size = name ? strlen(name) : 0}}};
    struct each_plugin user = {.each = each, .userdata = userdata};
    struct query query = {.each = FRAME_PLUGIN, .end = FRAME_END, .show = show_plugin, .wanted = &user};

    return query_run(client, &msg, &query);
}

/* --- counters, ping
 * ---------------------------------------------------------------------------------------------------- */

struct each_counter {
    int (*each)(const char *name, uint64_t value, void *userdata);
    void *userdata;
};

static int show_counters(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    const struct each_counter *user = query->wanted;
    int r = 0;

    for (size_t i = 0; i < msg->stats.n_counters && r == 0; i++)
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
