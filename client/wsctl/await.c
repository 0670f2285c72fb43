/* SPDX-License-Identifier: Apache-2.0
 *
 * await.c: `wsctl await ID...`: the outputs in the order of the arguments, then the first failing code. */
#include "batch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

static int attach(struct batch *batch, const char *text, uint64_t index)
{
    struct batch_item *item = batch_add(batch, text, index);
    struct wsd_callbacks callbacks;
    struct wsd_id id;

    if (!item)
        return EXIT_IO;
    callbacks = batch_callbacks(item);
    if (wsd_id_parse(text, &id) < 0 || wsd_client_attach(batch->client, &id, &callbacks, &item->call) < 0)
        return ctl_client_error(batch->client, text, NULL);
    batch->n_running++;
    return 0;
}

static int wait_all(struct batch *batch)
{
    while (!list_empty(&batch->items) && !batch->output.failed) {
        struct pollfd fds[] = {
            {.fd = wsd_client_fd(batch->client), .events = wsd_client_events(batch->client)},
            {.fd = signals_fd(), .events = POLLIN},
        };

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return ctl_error(EXIT_IO, "poll", "%s", strerror(errno));
        if (fds[1].revents && signals_take())
            return EXIT_CANCELLED; /* the jobs go on: they are not ours alone */
        wsd_client_process(batch->client);
        list_for_each (l, &batch->items) {
            struct batch_item *item = container_of(l, struct batch_item, link);

            if (item->refused) /* nothing is tried again here */
                batch_item_fail(item, EXIT_REFUSED, item->error);
            item->refused = false;
        }
        batch_settle(batch);
    }
    return batch->output.failed ? EXIT_IO : batch->exit;
}

int verb_await(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct batch batch;
    struct wsd_id id;
    int r, end;

    if (ctl_arguments(ctl, argc, argv, 1, -1, &r) == CTL_EXIT)
        return r;
    for (int i = optind; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r;
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    batch_init(&batch, ctl, client);
    output_open(&batch.output, NULL);
    signals_init();
    for (int i = optind; i < argc && r == 0; i++)
        r = attach(&batch, argv[i], (uint64_t)i);
    if (r == 0)
        r = wait_all(&batch);
    batch_deinit(&batch);
    wsd_client_free(client);
    end = print_end();
    return r ? r : end;
}
