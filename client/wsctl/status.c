/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: `wsctl status ID`: what is known of one job. */
#include "ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

static void show(const struct wsd_job_info *info)
{
    char id[WSD_ID_TEXT], state[32], text[32];

    wsd_id_text(&info->id, id);
    printf("id        %s\nplugin    %s\nfunction  %s\nstate     %s\n", id, info->plugin, info->function,
           state_text(info->state, state, sizeof(state)));
    if (info->state >= WSD_JOB_SUCCEEDED)
        printf("exit      %d\n", info->exit);
    if (info->error[0])
        printf("error     %s\n", info->error);
    for (const char *line = info->backtrace, *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        printf("%s%.*s\n", line == info->backtrace ? "backtrace " : "          ", (int)(end - line), line);
    }
    if (info->status[0])
        printf("status    %s\n", info->status);
    if (info->total > 0)
        printf("progress  %" PRIu64 " of %" PRIu64 "\n", info->done, info->total);
    if (info->worker[0])
        printf("worker    %s\n", info->worker);
    if (info->durable)
        printf("durable   yes%s\n", info->dead ? ", out of retries: see wsctl dead" : "");
    if (info->key[0])
        printf("key       %s\n", info->key);
    if (info->waits_for)
        printf("waits for %u job%s\n", info->waits_for, info->waits_for == 1 ? "" : "s");
    if (info->tags[0])
        printf("tags      %s\n", info->tags);
    if (info->in_batch) {
        wsd_id_text(&info->batch, id);
        printf("batch     %s\n", id);
    }
    if (info->state == WSD_JOB_DELAYED)
        printf("due in    %s\n", duration_text(info->due_usec, text, sizeof(text)));
    printf("attempts  %u\nuid       %u\n", info->attempts, info->uid);
    printf("queued    %s\n", duration_text(info->queued_usec, text, sizeof(text)));
    printf("run       %s\n", duration_text(info->run_usec, text, sizeof(text)));
    printf("cpu       %s\n", duration_text(info->cpu_usec, text, sizeof(text)));
}

static int show_batch(const struct ctl *ctl, const struct wsd_batch_info *info)
{
    char id[WSD_ID_TEXT];
    struct json json = {0};

    if (ctl->json) {
        json_batch(&json, info);
        return json_end(&json);
    }
    wsd_id_text(&info->id, id);
    printf("batch     %s\nstate     %s%s\n", id, info->ended ? "ended" : info->closed ? "going on" : "open", info->stopped ? ", stopped" : "");
    printf("jobs      %" PRIu64 "\nqueued    %" PRIu64 "\nrunning   %" PRIu64 "\ndone      %" PRIu64 "\nfailed    %" PRIu64 "\n", info->total,
           info->queued, info->running, info->done, info->failed);
    if (info->exit)
        printf("exit      %d\n", info->exit);
    printf("uid       %u\n", info->uid);
    return 0;
}

int verb_status(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_batch_info batch = {.size = sizeof(batch)};
    struct wsd_job_info info = {.size = sizeof(info)};
    struct wsd_client *client = NULL;
    struct json json = {0};
    struct wsd_id id;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, 1, &r) == CTL_EXIT || (r = ctl_id(argv[optind], &id)) != 0 ||
        (r = ctl_connect(ctl, &client)) != 0)
        return r;
    int found = wsd_client_job(client, &id, &info);
    if (found == -ENOENT && wsd_client_batch(client, &id, &batch) == 0) {
        r = show_batch(ctl, &batch);
    } else if (found < 0) {
        r = found == -ENOENT ? ctl_error(EXIT_NOT_FOUND, argv[optind], "no such job or batch") : ctl_client_error(client, argv[optind], NULL);
    } else if (ctl->json) {
        json_job(&json, &info);
        r = json_end(&json);
    } else {
        show(&info);
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
