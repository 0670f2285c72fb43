/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c: many calls, one stdout.
 * Owns the items and their calls. One thread.
 * Keeps: outputs of two items never mix; the exit code is that of the first item, in order, that failed.
 * Callbacks only note what happened; batch_settle() acts on it, outside of them. */
#include "batch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "print.h"
#include "progress.h"

#define GATHER_MAX (8u * 1024u * 1024u) /* an item that does not own stdout is held above this */
#define READY_MAX  (64u * 1024u)        /* of outputs that leave in one write, */
#define READY_EACH 4096u                /* each of which has no more than this */

void batch_init(struct submission *batch, const struct ctl *ctl, struct wsd_client *client)
{
    *batch = (struct submission){.ctl = ctl, .client = client, .first_failed = UINT64_MAX, .noticed = UINT64_MAX};
    list_init(&batch->items);
}

static struct batch_item *item_free(struct batch_item *item)
{
    struct submission *batch = item->batch;

    if (batch->owner == item)
        batch->owner = NULL;
    list_remove(&item->link);
    batch->n_items--;
    wsd_call_free(item->call);
    buffer_deinit(&item->output);
    buffer_deinit(&item->json.out);
    if (item->has_to)
        output_close(&item->to, false); /* where it has not ended */
    if (item->input)
        munmap(item->input, item->input_size);
    free(item->name);
    free(item);
    return NULL;
}

struct batch_item *batch_add(struct submission *batch, const char *name, uint64_t index)
{
    struct batch_item *item = calloc(1, sizeof(*item));

    if (item)
        item->name = strdup(name);
    if (!item || !item->name) {
        free(item);
        ctl_error(CODE_IO, name, "out of memory");
        return NULL;
    }
    item->batch = batch;
    item->index = index;
    list_push_back(&batch->items, &item->link);
    batch->n_items++;
    return item;
}

/* What is ready leaves. 0 or CODE_IO, said. */
static int flush_ready(struct submission *batch)
{
    size_t size = buffer_size(&batch->ready);
    int r;

    if (size == 0)
        return 0;
    progress_clear_for_stdout();
    r = output_write(&batch->output, buffer_data(&batch->ready), size);
    buffer_drop(&batch->ready, size);
    return r;
}

/* Of the item whose turn it is. Outputs of a turn leave together, if they are small. 0 or CODE_IO, said. */
static int put_output(struct submission *batch, const void *data, size_t size)
{
    if (buffer_size(&batch->ready) + size > READY_MAX && flush_ready(batch) != 0)
        return CODE_IO;
    if (size <= READY_EACH && buffer_put(&batch->ready, data, size) == 0)
        return 0;
    if (flush_ready(batch) != 0)
        return CODE_IO;
    progress_clear_for_stdout();
    return output_write(&batch->output, data, size);
}

static void flush_item(struct batch_item *item)
{
    if (buffer_size(&item->output) == 0)
        return;
    put_output(item->batch, buffer_data(&item->output), buffer_size(&item->output));
    buffer_deinit(&item->output);
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct batch_item *item = userdata;
    struct submission *batch = item->batch;

    if (item->ignored)
        return 0;
    if (item->has_to)
        return output_write(&item->to, data, size) ? (batch->output.failed = true) : 0;
    if (batch->owner == item && !batch->ctl->json)
        return put_output(batch, data, size); /* a failure ends the loop */
    if (buffer_put(&item->output, data, size) < 0) {
        batch->output.failed = true;
        return ctl_error(CODE_IO, item->name, "out of memory for the output");
    }
    item->held = !batch->ctl->json && !batch->unheld && buffer_size(&item->output) > GATHER_MAX;
    return item->held;
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    const struct batch_item *item = userdata;

    if (item->batch->ctl->quiet || item->ignored)
        return;
    flush_ready(item->batch);
    print_message(item->batch->named ? item->name : NULL, text);
}

void batch_item_fail(struct batch_item *item, int exit, const char *text)
{
    struct submission *batch = item->batch;
    char hint[160] = "", words[sizeof(item->error)];

    item->done = true;
    item->exit = exit;
    snprintf(words, sizeof(words), "%s", text); /* which may be the item's own */
    snprintf(item->error, sizeof(item->error), "%.300s%s", words,
             exit == CODE_NOT_FOUND ? plugin_hint(batch->plugin, hint, sizeof(hint)) : "");
    if (item->ignored)
        return;
    batch->n_done++;
    batch->n_failed++;
    batch->noticed = MIN(batch->noticed, item->index);
}

static void is_sure(struct batch_item *item, bool taken)
{
    if (!item->batch->asks || item->sure)
        return;
    item->sure = true;
    item->batch->n_unsure--;
    item->batch->n_taken += taken;
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    is_sure(userdata, true);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct batch_item *item = userdata;
    struct submission *batch = item->batch;
    char words[128];

    is_sure(item, !error); /* where the end came first */
    batch->n_running--;
    batch->n_left += !error;
    if (batch->stops && item->index > batch->noticed && !item->ignored) { /* wsd was faster than we */
        item->ignored = true;
        buffer_deinit(&item->output);
    }
    if (error) {
        int exit = wsd_client_exit(batch->client);

        if ((error == -EAGAIN || (batch->again && batch->again(item, error))) && !item->ignored) {
            item->retry_usec = wsd_client_retry_usec(batch->client);
            item->refused = true; /* the owner of the batch decides: again later, or batch_item_fail() */
            batch->has_refused = true;
            snprintf(item->error, sizeof(item->error), "%s", text);
            return;
        }
        batch_item_fail(item, exit, error == -ECONNRESET && batch->lost ? "" : text); /* said once */
        batch->lost = batch->lost || error == -ECONNRESET;
        return;
    }
    /* Now, and not when its turn comes: a job that was to run after it may look for its file. */
    if (item->has_to && output_close(&item->to, info && info->state == WSD_JOB_SUCCEEDED && !item->ignored) != 0)
        batch->output.failed = true;
    if (info && info->state != WSD_JOB_SUCCEEDED) {
        batch_item_fail(item, info->exit, job_error_text(info, words, sizeof(words)));
    } else {
        item->done = true;
        batch->n_done++;
    }
    if (batch->ctl->json && info) {
        if (batch->item_key)
            json_string(&item->json, "item", item->name);
        json_job(&item->json, info);
        json_base64(&item->json, "output", item->output.data, buffer_size(&item->output));
        buffer_deinit(&item->output);
    }
}

struct wsd_callbacks batch_callbacks(struct batch_item *item)
{
    return (struct wsd_callbacks){
        .size = sizeof(struct wsd_callbacks),
        .accepted = item->batch->asks ? on_accepted : NULL,
        .output = on_output,
        .message = on_message,
        .done = on_done,
        .userdata = item,
    };
}

void batch_began(struct batch_item *item)
{
    item->batch->n_running++;
    item->batch->n_unsure += item->batch->asks;
    item->sure = item->noted = false;
}

/* Its turn has come and it has ended: the rest of what it said, then it goes. */
static void item_end(struct batch_item *item)
{
    struct submission *batch = item->batch;

    flush_item(item);
    if (buffer_size(&item->json.out) > 0 && !item->ignored && json_end(&item->json) != 0)
        batch->output.failed = true;
    if (item->exit != 0 && !item->ignored) {
        if (item->index < batch->first_failed && !item->follows) {
            batch->first_failed = item->index;
            batch->exit = item->exit;
        }
        if (item->error[0]) {
            flush_ready(batch); /* of those before it */
            ctl_error(item->exit, item->name, "%s", item->error);
        }
    }
    item_free(item);
}

static void own(struct batch_item *item)
{
    item->batch->owner = item;
    if (item->batch->ctl->json)
        return;
    flush_item(item);
    if (item->held) {
        item->held = false;
        wsd_call_resume(item->call);
    }
}

static void settle_ordered(struct submission *batch)
{
    while (!list_empty(&batch->items)) {
        struct batch_item *first = container_of(batch->items.next, struct batch_item, link);

        if (first->refused)
            return;
        if (first->call && !first->done && batch->owner != first)
            own(first);
        if (!first->done)
            return;
        item_end(first);
    }
}

static void settle_unordered(struct submission *batch)
{
    list_for_each_entry_safe (struct batch_item, item, after_item, &batch->items, link) {
        if (item->held && !batch->owner)
            own(item);
        if (item->done && (!batch->owner || batch->owner == item))
            item_end(item);
    }
}

void batch_settle(struct submission *batch)
{
    if (batch->unordered)
        settle_unordered(batch);
    else
        settle_ordered(batch);
    flush_ready(batch);
    if (fflush(stdout) != 0 && !batch->output.failed) {
        batch->output.failed = true;
        ctl_error(CODE_IO, "stdout", "write error");
    }
}

void batch_ignore(struct batch_item *item)
{
    item->ignored = true;
    buffer_deinit(&item->output);
    if (!item->call || item->refused)
        item->done = true;
    else if (!item->done)
        wsd_call_cancel(item->call);
    if (item->held)
        wsd_call_resume(item->call);
    item->held = item->refused = false;
}

void batch_cancel(struct submission *batch, uint64_t from)
{
    list_for_each_entry (struct batch_item, item, &batch->items, link) {
        if (item->index >= from && !item->ignored)
            batch_ignore(item);
    }
}

void batch_deinit(struct submission *batch)
{
    while (!list_empty(&batch->items))
        item_free(container_of(batch->items.next, struct batch_item, link));
    buffer_deinit(&batch->ready);
}
