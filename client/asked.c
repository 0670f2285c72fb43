/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.c: questions of an event loop: no call waits for them, and their answers are told to callbacks.
 * Owns struct asked from the question until done has been told. One thread a handle.
 * Keeps: done is told exactly once, last, whether an answer comes, the deadline passes or the connection ends. In a
 * child of fork() nothing is told.
 * Does not know how a question goes (query.c). */
#include "asked.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/code.h"
#include "base/heap.h"
#include "client.h"
#include "query.h"
#include "questions.h"
#include "text.h"

struct asked {
    struct query query;
    struct list link;      /* client->questions */
    struct heap_node node; /* in client->asked, while `listed`, by a deadline that is not later than query's */
    bool listed;
    bool stopped; /* the user's callback has ended the answer: there are no words */
    int (*each_job)(const struct wsd_job_info *info, void *userdata);
    int (*each_counter)(const char *name, uint64_t value, void *userdata);
    void (*done)(int error, const char *text, void *userdata);
    void *userdata;
};

static void unlist(struct wsd_client *client, struct asked *a)
{
    if (a->listed)
        heap_take(&client->asked, &a->node);
    a->listed = false;
}

static void over(struct wsd_client *client, struct query *query)
{
    struct asked *a = container_of(query, struct asked, query);
    struct connection *c = &client->connection;
    const struct asked told = *a;
    _cleanup_(freep) char *kept = query->words;
    const char *words = kept ? kept : client->failure.text;

    unlist(client, a);
    list_remove(&a->link);
    free(a); /* first: the callback may not return */
    if (!owner_is_here(&client->owner) || !told.done)
        return;
    c->depth++;
    c->n_told++;
    told.done(told.query.result, told.query.result && !told.stopped ? words : "", told.userdata);
    c->depth--;
}

/* The user's return value: any but 0 ends the answer. */
static int stops(struct asked *a, int r)
{
    a->stopped |= r != 0;
    return r;
}

static int show_job(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct asked *a = container_of(query, struct asked, query);
    struct wsd_job_info info;

    if (!a->each_job)
        return 0;
    job_info_view(&msg->job, &info);
    client->connection.n_told++;
    return stops(a, a->each_job(&info, a->userdata));
}

static int show_counters(struct wsd_client *client, struct query *query, const struct msg *msg)
{
    struct asked *a = container_of(query, struct asked, query);
    int r = 0;

    for (size_t i = 0; a->each_counter && i < msg->stats.n_counters && r == 0 && !client->freed; i++) {
        client->connection.n_told++;
        r = stops(a, a->each_counter(msg->stats.counters[i].name.data, msg->stats.counters[i].value, a->userdata));
    }
    return r;
}

/* Takes what `given` says of the answer and its callbacks. 0, or a negative errno, said: nothing was asked, and nothing
 * is told. */
static int ask(struct wsd_client *client, const struct msg *msg, const struct asked *given)
{
    struct asked *a = malloc(sizeof(*a));

    if (!a)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    *a = *given;
    a->query.over = over;
    list_init(&a->link);
    int r = query_begin(client, msg, &a->query);
    if (r < 0) {
        free(a);
        return r;
    }
    a->listed = true;
    heap_put(&client->asked, &a->node, a->query.deadline);
    list_push_back(&client->questions, &a->link);
    return 0;
}

/* --- callbacks that did not return -------------------------------------------------------------------------------- */

void asked_tear(struct wsd_client *client)
{
    list_for_each_entry (struct asked, a, &client->questions, link)
        a->query.n_shown = 0;
}

/* One that has been answered, and not told so. */
static struct asked *one_answered(struct wsd_client *client)
{
    list_for_each_entry (struct asked, a, &client->questions, link)
        if (a->query.done && !a->query.n_shown)
            return a;
    return NULL;
}

void asked_mend(struct wsd_client *client)
{
    for (struct asked *a; (a = one_answered(client));)
        over(client, &a->query);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

uint64_t asked_deadline(const struct wsd_client *client)
{
    return heap_empty(&client->asked) ? UINT64_MAX : client->asked.top->key;
}

void asked_expire(struct wsd_client *client, uint64_t stop_at)
{
    struct connection *c = &client->connection;
    uint64_t now;

    if (heap_empty(&client->asked))
        return;
    now = clock_monotonic_usec();
    while (asked_deadline(client) <= now && c->n_told < stop_at && !c->broken) {
        struct asked *a = container_of(client->asked.top, struct asked, node);

        unlist(client, a);
        if (a->query.deadline > now) { /* a part of the answer has come since */
            a->listed = true;
            heap_put(&client->asked, &a->node, a->query.deadline);
            continue;
        }
        query_end(client, &a->query, connection_given_up(c, -ETIMEDOUT));
        if (!a->query.n_shown)
            over(client, &a->query);
    }
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

int wsd_client_ask_ping(struct wsd_client *client, void (*done)(int error, const char *text, void *userdata),
                        void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    const struct msg msg = {.type = FRAME_PING};
    const struct asked asked = {.query = {.each = FRAME_PONG, .end = FRAME_PONG}, .done = done, .userdata = userdata};

    return used ? ask(client, &msg, &asked) : -ECHILD;
}

int wsd_client_ask_job(struct wsd_client *client, const struct wsd_id *id,
                       int (*each)(const struct wsd_job_info *info, void *userdata),
                       void (*done)(int error, const char *text, void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    const struct msg msg = id_message(FRAME_STATUS, id);
    const struct asked asked = {.query = {.each = FRAME_JOB, .end = FRAME_JOB, .show = show_job},
                                .each_job = each,
                                .done = done,
                                .userdata = userdata};

    return used ? ask(client, &msg, &asked) : -ECHILD;
}

int wsd_client_ask_list(struct wsd_client *client, const struct wsd_filter *filter,
                        int (*each)(const struct wsd_job_info *info, void *userdata),
                        void (*done)(int error, const char *text, void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct msg msg = {.type = FRAME_LIST};
    const struct asked asked = {.query = {.each = FRAME_JOB, .end = FRAME_END, .show = show_job},
                                .each_job = each,
                                .done = done,
                                .userdata = userdata};
    int r = !used ? -ECHILD : filter ? filter_message(client, filter, FRAME_LIST_WHERE, &msg) : 0;

    return r < 0 ? r : ask(client, &msg, &asked);
}

int wsd_client_ask_stats(struct wsd_client *client, int (*each)(const char *name, uint64_t value, void *userdata),
                         void (*done)(int error, const char *text, void *userdata), void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    const struct msg msg = {.type = FRAME_STATS};
    const struct asked asked = {.query = {.each = FRAME_COUNTERS, .end = FRAME_COUNTERS, .show = show_counters},
                                .each_counter = each,
                                .done = done,
                                .userdata = userdata};

    return used ? ask(client, &msg, &asked) : -ECHILD;
}
