/* SPDX-License-Identifier: Apache-2.0
 *
 * await.c: `wsctl await ID...`: the outputs in the order of the arguments, then the first failing code. Batches have no
 * output: when the jobs have ended they are waited for, one after the other. */
#include <errno.h>
#include <poll.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/code.h"
#include "batch.h"
#include "connect.h"
#include "ctl.h"
#include "options.h"
#include "print.h"
#include "progress.h"
#include "signals.h"

static int attach(struct submission *batch, const char *text, uint64_t index)
{
    struct batch_item *item = batch_add(batch, text, index);
    struct wsd_callbacks callbacks;
    struct wsd_id id;

    if (!item)
        return CODE_IO;
    callbacks = batch_callbacks(item);
    if (wsd_id_parse(text, &id) < 0 || wsd_client_attach(batch->client, &id, &callbacks, &item->call) < 0)
        return ctl_client_error(batch->client, text, NULL);
    batch_began(item);
    return 0;
}

static int wait_all(struct submission *batch)
{
    while (!list_empty(&batch->items) && !batch->output.failed) {
        struct pollfd fds[] = {
            {.fd = wsd_client_fd(batch->client), .events = wsd_client_events(batch->client)},
            {.fd = signals_fd(), .events = POLLIN},
        };

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (fds[1].revents && signals_take())
            return CODE_CANCELLED; /* the jobs go on: they are not ours alone */
        wsd_client_process(batch->client);
        list_for_each_entry (struct batch_item, item, &batch->items, link) {
            if (item->refused) /* nothing is retried here */
                batch_item_fail(item, CODE_BUSY, item->error);
            item->refused = false;
        }
        batch_settle(batch);
    }
    return batch->output.failed ? CODE_IO : batch->exit;
}

static void on_batch(const struct wsd_batch_info *info, void *userdata)
{
    progress_draw("await", info->done, info->total, info->failed);
}

/* 0: there is no such batch. Else its end was waited for, *ret_exit is its exit code, or it was said what is wrong. -1: a
 * signal has ended the wait. */
static int await_batch(const struct ctl *ctl, struct wsd_client *client, const char *text, int *ret_exit)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    struct json json = {0};
    struct wsd_id id;
    int r = wsd_id_parse(text, &id) < 0 ? -ENOENT : wsd_client_batch(client, &id, &info);

    if (r == -ENOENT || r == -EOPNOTSUPP)
        return 0;
    while (r == 0 && !info.ended && !signals_take())
        if ((r = wsd_client_batch_await(client, &id, 500000, on_batch, NULL, &info)) == -ETIMEDOUT)
            r = 0; /* so that a signal is seen */
    progress_clear();
    *ret_exit = r < 0 ? ctl_client_error(client, text, NULL) : !info.ended ? CODE_CANCELLED : info.exit;
    if (r == 0 && info.ended && ctl->json) {
        json_batch(&json, &info);
        r = json_end(&json);
    } else if (r == 0 && info.failed) {
        ctl_error(info.exit, text, "%" PRIu64 " of %" PRIu64 " job%s did not succeed", info.failed, info.total,
                  plural(info.total));
    }
    return r == 0 && !info.ended ? -1 : 1;
}

int verb_await(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct submission batch;
    struct wsd_id id;
    int r, end, exit;
    uint64_t first = UINT64_MAX;

    if (ctl_arguments(ctl, argc, argv, 1, -1, &r) == CTL_EXIT)
        return r;
    for (int i = optind; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r;
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    batch_init(&batch, ctl, client);
    output_open(&batch.output, NULL, NULL);
    signals_init();
    progress_init(!ctl->no_progress && !ctl->quiet);
    for (int i = optind; i < argc && r == 0; i++) {
        int found = await_batch(ctl, client, argv[i], &exit);

        if (found == 0)
            r = attach(&batch, argv[i], (uint64_t)i);
        else if (found < 0)
            r = CODE_CANCELLED;
        else if (exit && first == UINT64_MAX)
            batch.exit = exit, first = (uint64_t)i;
    }
    batch.first_failed = first;
    if (r == 0)
        r = wait_all(&batch);
    batch_deinit(&batch);
    wsd_client_free(client);
    end = print_end();
    return r ? r : end;
}
