/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: `wsctl status ID`: what is known of one job. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

#define TIMELINE 50 /* columns */

/* How its time was spent: a line of dots for waiting, and of bars for running. */
static void show_timeline(const struct wsd_job_info *info)
{
    const double all = (double)(info->queued_usec + info->run_usec);
    const int waited = (int)((double)info->queued_usec / all * TIMELINE + 0.5);
    char line[TIMELINE + 1];

    memset(line, '.', (size_t)waited);
    memset(line + waited, '#', (size_t)(TIMELINE - waited));
    line[TIMELINE] = 0;
    print_line("time      [%s] . waiting  # running%s", line, info->state == WSD_JOB_RUNNING ? ", still" : "");
}

static void show_ids(const char *words, const struct wsd_id *ids, size_t n)
{
    char id[WSD_ID_TEXT];

    for (size_t i = 0; i < n; i++) {
        wsd_id_text(&ids[i], id);
        print_line("%s %s", i == 0 ? words : "         ", id);
    }
}

static void show_job(const struct wsd_job_info *info)
{
    char id[WSD_ID_TEXT], text[32];

    wsd_id_text(&info->id, id);
    print_line("id        %s", id);
    print_line("plugin    %s", info->plugin);
    print_line("function  %s", info->function);
    print_text("state     ");
    print_state(info->state);
    print_line("%s", "");
    if (info->state >= WSD_JOB_SUCCEEDED)
        print_line("exit      %d", info->exit);
    if (info->error[0])
        print_line("error     %s", info->error);
    for (const char *line = info->backtrace, *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        print_line("%s%.*s", line == info->backtrace ? "backtrace " : "          ", (int)(end - line), line);
    }
    if (info->status[0])
        print_line("status    %s", info->status);
    if (info->total > 0)
        print_line("progress  %" PRIu64 " of %" PRIu64, info->done, info->total);
    if (info->worker[0])
        print_line("worker    %s", info->worker);
    if (info->durable)
        print_line("durable   yes%s", info->dead ? ", out of retries: see wsctl dead" : "");
    if (info->key[0])
        print_line("key       %s", info->key);
    if (info->waits_for)
        print_line("waits for %u job%s", info->waits_for, info->waits_for == 1 ? "" : "s");
    show_ids("waits on ", info->waits_on, info->n_waits_on);
    show_ids("holds up ", info->awaited_by, info->n_awaited_by);
    if (info->tags[0])
        print_line("tags      %s", info->tags);
    if (info->in_batch) {
        wsd_id_text(&info->batch, id);
        print_line("batch     %s", id);
    }
    if (info->state == WSD_JOB_DELAYED)
        print_line("due in    %s", duration_text(info->due_usec, text, sizeof(text)));
    print_line("attempts  %u", info->attempts);
    print_line("uid       %u", info->uid);
    print_line("queued    %s", duration_text(info->queued_usec, text, sizeof(text)));
    print_line("run       %s", duration_text(info->run_usec, text, sizeof(text)));
    print_line("cpu       %s", duration_text(info->cpu_usec, text, sizeof(text)));
    if (info->state >= WSD_JOB_RUNNING && info->queued_usec + info->run_usec)
        show_timeline(info);
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
    print_line("batch     %s", id);
    print_line("state     %s%s",
               info->ended    ? "ended"
               : info->closed ? "going on"
                              : "open",
               info->stopped ? ", stopped" : "");
    print_line("jobs      %" PRIu64, info->total);
    print_line("queued    %" PRIu64, info->queued);
    print_line("running   %" PRIu64, info->running);
    print_line("done      %" PRIu64, info->done);
    print_line("failed    %" PRIu64, info->failed);
    if (info->exit)
        print_line("exit      %d", info->exit);
    print_line("uid       %u", info->uid);
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
        r = found == -ENOENT ? ctl_error(CODE_NOT_FOUND, argv[optind], "no such job or batch")
                             : ctl_client_error(client, argv[optind], NULL);
    } else if (ctl->json) {
        json_job(&json, &info);
        r = json_end(&json);
    } else {
        show_job(&info);
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
