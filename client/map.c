/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c: wsd_map(): one job an item, awaited all together.
 * Owns the batch, and the calls that some of its items are: see array.c. One thread a handle.
 * Keeps: each item is told once; as many are under way as wsd takes, which is found out by going on until it
 * refuses. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "batch.h"
#include "given.h"
#include "submit.h"
#include "text.h"

#define AHEAD_MAX  8192u  /* items under way */
#define PAUSE_USEC 10000u /* the first one where wsd does not say how long; they double */
#define PAUSE_MAX  1000000u
#define LOOKS_MAX  16u  /* for an answer, before a sleep */
#define TAKEN_USEC 300u /* so long a look takes only where others want the CPU that have nothing to do with it */
#define CALM       256u /* sleeps without a look after that */

/* One that is a call. */
struct map_call {
    struct map *map;
    size_t index;
};

struct map {
    struct item_owner owner;
    struct wsd_client *client;
    struct wsd_batch *batch;
    const struct wsd_item *given; /* of `stride` bytes each: a program may know fewer fields */
    size_t stride;
    size_t n, n_begun, n_under_way;
    size_t *refused, n_refused; /* those that are to be submitted again */
    size_t ahead, n_ends;
    uint64_t due_usec, pause_usec; /* nothing is submitted before; 0: none */
    uint32_t flags, looks, n_calm;
    wsd_map_result result;
    void *userdata;
    bool stopped;
    size_t first; /* the item with the error that is returned */
    bool first_is_cancelled;
    int error, exit;
    char text[CODEC_TEXT_MAX];
};

static void fail(struct map *m, size_t index, int error, int exit, bool cancelled, const char *text)
{
    if (!(m->flags & WSD_BATCH_KEEP_GOING))
        m->stopped = true;
    if (m->error && (m->first_is_cancelled < cancelled || (m->first_is_cancelled == cancelled && m->first < index)))
        return; /* what a failure has stopped is not what has failed */
    m->first = index;
    m->first_is_cancelled = cancelled;
    m->error = error;
    m->exit = exit;
    snprintf(m->text, sizeof(m->text), "%s", text);
}

/* error: with this exit, and the words text. */
static void tell_result(struct map *m, size_t index, int error, int exit, const struct wsd_job_info *info,
                        const void *output, size_t size, const char *text)
{
    if (error || !info)
        fail(m, index, error, exit, error == -ECANCELED, text);
    else if (info->state != WSD_JOB_SUCCEEDED)
        fail(m, index, -EREMOTEIO, info->exit, info->state == WSD_JOB_CANCELLED,
             info->error[0] ? info->error : wsd_job_state_name(info->state));
    m->client->connection.depth++; /* also where no frame is behind it: it is a callback of the handle */
    int stop = m->result ? m->result(index, error, info, output, size, text, m->userdata) : 0;
    m->client->connection.depth--;
    if (stop != 0) {
        fail(m, index, -ECANCELED, 130, true, "the callback has stopped it");
        m->stopped = true;
        wsd_batch_cancel(m->batch);
    }
}

static void tell_failed(struct map *m, size_t index, int error, int exit, const char *text)
{
    tell_result(m, index, error, exit, NULL, "", 0, text);
}

/* Room is found out by refusals: less is under way at once after one, and one more again after a round without. */
static void refused(struct map *m, size_t index)
{
    uint64_t said = wsd_client_retry_usec(m->client), now = clock_monotonic_usec();

    m->refused[m->n_refused++] = index;
    m->ahead = MAX(m->n_under_way, 1u);
    m->n_ends = 0;
    if (m->due_usec > now)
        return;
    m->pause_usec = said ? said : MIN(MAX(m->pause_usec * 2, PAUSE_USEC), PAUSE_MAX);
    m->due_usec = now + m->pause_usec + m->pause_usec * ((uint64_t)now & 63) / 256; /* with some chance on top */
}

/* There was room for one at least. */
static void ended(struct map *m, bool has_run)
{
    if (++m->n_ends >= m->ahead && m->ahead < AHEAD_MAX) {
        m->ahead++;
        m->n_ends = 0;
    }
    if (has_run)
        m->due_usec = m->pause_usec = 0; /* whatever wsd has said of when there is for others */
}

static bool is_retried(const struct map *m, int error)
{
    return error == -EAGAIN && (m->stopped || m->n_under_way || m->flags & WSD_BATCH_WAIT);
}

static struct map *map_of(struct item_owner *owner)
{
    return container_of(owner, struct map, owner);
}

static void item_ended(struct item_owner *owner, size_t index, const struct wsd_job_info *info, const void *output,
                       size_t size)
{
    struct map *m = map_of(owner);

    m->n_under_way--;
    calls_drop_spare(m->client);
    tell_result(m, index, 0, 0, info, output, size, "");
    ended(m, true);
}

static void item_failed(struct item_owner *owner, size_t index, int error)
{
    struct map *m = map_of(owner);
    char text[sizeof(m->client->failure.text)];

    m->n_under_way--;
    if (is_retried(m, error)) {
        refused(m, index);
        return;
    }
    memcpy(text, m->client->failure.text, sizeof(text)); /* the callback may fail otherwise */
    tell_failed(m, index, error, m->client->failure.exit, text);
    ended(m, false);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct map_call *item = userdata;
    struct map *m = item->map;
    size_t index = item->index, size;

    free(item);
    m->n_under_way--;
    if (is_retried(m, error)) {
        refused(m, index);
    } else {
        const void *output = wsd_call_output(call, &size);

        tell_result(m, index, error, wsd_client_exit(m->client), info, output, size, text);
        ended(m, !error);
    }
    wsd_call_free(call);
}

/* What a call of it needs; NULL: no memory. */
static struct map_call *call_of(struct map *m, size_t index, struct wsd_callbacks *ret)
{
    struct map_call *item = malloc(sizeof(*item));

    if (item)
        *item = (struct map_call){m, index};
    *ret = (struct wsd_callbacks){.size = sizeof(*ret), .done = on_done, .userdata = item};
    return item;
}

static const struct wsd_item *item_at(const struct map *m, size_t index)
{
    return (const void *)((const char *)m->given + index * m->stride);
}

static int item_call(struct item_owner *owner, size_t index, struct wsd_call **ret_call)
{
    struct map *m = map_of(owner);
    const struct wsd_item *given = item_at(m, index);
    const struct wsd_submit submit = {.args = given->args, .n_args = given->n_args};
    struct wsd_callbacks callbacks;
    struct map_call *item = call_of(m, index, &callbacks);
    int r = item ? submit_prepare(m->client, &submit, &callbacks, ret_call) : -ENOMEM;

    if (r < 0)
        free(item);
    return r;
}

static const struct item_owner_ops item_owner_ops = {.ended = item_ended, .failed = item_failed, .call = item_call};

static int begin_item(struct map *m, size_t index)
{
    int r = batch_submit_bare(m->batch, item_at(m, index), index);

    if (r > 0) {
        struct wsd_callbacks callbacks;
        struct map_call *item = call_of(m, index, &callbacks);

        r = item ? batch_submit(m->batch, item_at(m, index), &callbacks, NULL)
                 : failure_set(&m->client->failure, -ENOMEM, CODE_IO, "out of memory");
        if (r < 0)
            free(item);
    }
    m->n_under_way += r == 0;
    return r;
}

/* There is one: those that were refused come first. */
static size_t next_index(struct map *m)
{
    return m->n_refused ? m->refused[--m->n_refused] : m->n_begun++;
}

/* As many as there is room for. */
static void begin_some(struct map *m)
{
    while (!m->stopped && m->n_under_way < m->ahead && (m->n_refused || m->n_begun < m->n)) {
        size_t index = next_index(m);
        int r = begin_item(m, index);

        if (r < 0)
            tell_failed(m, index, r, exit_of_error(r), wsd_client_error(m->client));
        if (r < 0 && r != -EINVAL)
            m->stopped = true;
    }
}

static bool wants_more(const struct map *m)
{
    return !m->stopped && (m->n_refused || m->n_begun < m->n);
}

/* Yields the CPU to the workers that make the answers, and looks again: a worker that has to wake no client is faster.
 * If answers follow each other closely, one is mostly there after a few looks. The number of looks follows what has
 * paid lately: it doubles after a hit and halves after a miss. If other threads take the CPU for a whole slice,
 * sleeping until an answer is faster. */
static void linger(struct map *m)
{
    struct pollfd p = {.fd = m->client->connection.fd, .events = POLLIN};
    bool there = false;

    if (m->n_calm) {
        m->n_calm--;
        return;
    }
    connection_flush(&m->client->connection);
    uint64_t begin = clock_monotonic_usec();
    for (uint32_t i = 0; i < m->looks && !m->client->connection.broken && !(there = poll(&p, 1, 0) != 0); i++)
        sched_yield();
    m->looks = there ? MIN(m->looks * 2, LOOKS_MAX) : MAX(m->looks / 2, 1u);
    if (clock_monotonic_usec() - begin >= TAKEN_USEC)
        m->n_calm = CALM;
}

/* 0; -ETIMEDOUT, -EINTR: it is waited for no longer; or what ended the connection. */
static int run_items(struct map *m, uint64_t deadline_usec)
{
    int r = 0;

    while (r == 0 && (wants_more(m) || m->n_under_way)) {
        uint64_t now = clock_monotonic_usec();
        bool pause = m->due_usec > now;

        if (now > deadline_usec) /* there may be something to read all the time */
            return connection_given_up(&m->client->connection, -ETIMEDOUT);
        if (!pause)
            begin_some(m);
        if (!m->n_under_way && !pause)
            continue;
        if (m->n_under_way)
            linger(m);
        uint64_t until = wants_more(m) && pause ? MIN(m->due_usec, deadline_usec) : deadline_usec;
        r = connection_step(&m->client->connection, until);
        if (r == -ETIMEDOUT && until != deadline_usec)
            r = 0;
    }
    return r;
}

/* What is under way has failed with error, and the words that the client has now: items that are calls are left to
 * tell_rest(). Whatever comes of them is discarded. wsd_batch_free() has the batch cancelled. */
static void give_up(struct map *m, int error)
{
    struct failure said = m->client->failure;

    m->stopped = true;
    list_for_each_entry_safe (struct wsd_call, call, after, &m->client->calls.open, link) {
        struct map_call *item = call->callbacks.userdata;

        if (call->freed || call->done || call->callbacks.done != on_done || item->map != m)
            continue;
        m->refused[m->n_refused++] = item->index;
        m->n_under_way--;
        free(item);
        wsd_call_free(call);
    }
    m->client->failure = said;
    arrays_give_up(m->client, &m->owner, error);
    m->client->failure = said;
}

/* Reports the items that were not begun, because others have failed. With an error, reports those that have no end,
 * because wsd cannot be asked or is waited for no longer. The words are then the client's. */
static void tell_rest(struct map *m, int error)
{
    char text[sizeof(m->client->failure.text)] = "not begun: another item has failed";
    int exit = error ? m->client->failure.exit : exit_of_error(-ECANCELED);

    if (error)
        memcpy(text, m->client->failure.text, sizeof(text));
    m->stopped = true;
    while (m->n_refused || m->n_begun < m->n)
        tell_failed(m, next_index(m), error ? error : -ECANCELED, exit, text);
}

/* Where an exception out of a callback has ended it. */
static void map_leavep(struct map *m)
{
    if (m->batch) {
        m->result = NULL;
        give_up(m, -ECANCELED);
        m->batch = wsd_batch_free(m->batch);
    }
    free(m->refused);
}

int wsd_map(struct wsd_client *client, const struct wsd_submit *common, uint32_t flags, const struct wsd_item *items,
            size_t n_items, wsd_map_result result, void *userdata)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    _cleanup_(map_leavep) struct map m = {.owner = {.ops = &item_owner_ops},
                                          .client = client,
                                          .given = items,
                                          .stride = n_items ? items->size : 0,
                                          .n = n_items,
                                          .flags = flags,
                                          .ahead = AHEAD_MAX,
                                          .looks = LOOKS_MAX,
                                          .result = result,
                                          .userdata = userdata};
    int r;

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    if (n_items && (r = given_all(&client->failure, "wsd_item", items, n_items, sizeof(*items))) < 0)
        return r;
    m.refused = calloc(n_items + 1, sizeof(*m.refused));
    r = m.refused ? wsd_batch_open(client, common, flags, &m.batch)
                  : failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    if (r == 0) {
        batch_set_owner(m.batch, &m.owner);
        r = run_items(&m, batch_deadline(m.batch));
        bool given_up = r == -ETIMEDOUT || r == -EINTR;
        if (given_up)
            give_up(&m, r);
        else if (m.n_under_way) /* it cannot be waited for */
            connection_break(&client->connection, -ECONNRESET, client->failure.exit, "%s", client->failure.text);
        tell_rest(&m, r);
        m.batch = wsd_batch_free(m.batch);
        if (given_up) {
            connection_send_early(&client->connection);
            return connection_given_up(&client->connection, r);
        }
        r = 0;
    }
    return m.error ? failure_set(&client->failure, m.error, m.exit, "item %zu: %s", m.first, m.text) : r;
}
