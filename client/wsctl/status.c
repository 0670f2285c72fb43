/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: `wsctl status ID`: what is known of one job, and where it stands. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/demangle.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

#define TIMELINE 50 /* columns */

/* How its time was spent: a line of dots for waiting, and of bars for running. */
static void show_timeline(const struct wsd_job_info *info)
{
    const double all = (double)info->queued_usec + (double)info->run_usec; /* as numbers, the sum may have no room */
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

/* Line by line, the first one behind `first`, the others behind `next`. What an executor says is text for people: names of
 * C++ are as they write them. */
static int show_frames(const char *text, const char *first, const char *next)
{
    _cleanup_(buffer_deinit) struct buffer shown = {0};

    if (demangle_text(text, &shown) < 0 || buffer_put(&shown, "", 1) < 0)
        return ctl_error(CODE_IO, "status", "out of memory");
    for (const char *at = (const char *)buffer_data(&shown), *end; *at; at = *end ? end + 1 : end, first = next) {
        end = strchrnul(at, '\n');
        print_line("%s%.*s", first, (int)(end - at), at);
    }
    return 0;
}

static int show_job(const struct wsd_job_info *info)
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
    int r = show_frames(info->backtrace, "backtrace ", "          ");
    if (r != 0)
        return r;
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
        print_line("waits for %u job%s", info->waits_for, plural(info->waits_for));
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
    return 0;
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

/* --- stacks --------------------------------------------------------------------------------------------------------- */

struct stack {
    struct buffer text;
    int error; /* the executor's, a positive errno */
};

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    ((struct stack *)userdata)->error = info->error;
    return 0;
}

static int on_stack(const void *data, size_t size, void *userdata)
{
    return buffer_put(&((struct stack *)userdata)->text, data, size) < 0 ? ctl_error(CODE_IO, "status", "out of memory")
                                                                         : 0;
}

static int say_stack(const struct ctl *ctl, const char *id, struct stack *s)
{
    struct json json = {0};

    if (s->error == ENOENT)
        return ctl_error(CODE_NOT_FOUND, id, "no worker runs a part of it now: it begins or ends; ask again");
    if (s->error)
        return ctl_error(CODE_IO, id, "its executor %s",
                         s->error == ETIMEDOUT ? "does not answer"
                         : s->error == ESRCH   ? "ended while it was asked"
                                               : strerror(s->error));
    if (buffer_put(&s->text, "", 1) < 0)
        return ctl_error(CODE_IO, "status", "out of memory");
    if (ctl->json) {
        json_string(&json, "id", id);
        json_string(&json, "stack", (const char *)buffer_data(&s->text));
        return json_end(&json);
    }
    return show_frames((const char *)buffer_data(&s->text), "", "");
}

static int show_stack(const struct ctl *ctl, struct wsd_client *client, const char *text, const struct wsd_id *id)
{
    struct stack s = {.error = 0};
    int r = wsd_client_stack(client, id, on_executor, on_stack, &s);

    r = r < 0 ? ctl_client_error(client, text, NULL) : r ? r : say_stack(ctl, text, &s);
    buffer_deinit(&s.text);
    return r;
}

/* --- the verb ------------------------------------------------------------------------------------------------------- */

enum { OPT_STACK = 256 };

static const struct option long_options[] = {{"stack", no_argument, NULL, OPT_STACK}, {0}};

static int parse_options(struct ctl *ctl, int argc, char **argv, bool *ret_stack, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(ctl, argc, argv, "", long_options, ret_exit)) != CTL_END) {
        if (c == CTL_EXIT)
            return c;
        *ret_stack = true;
    }
    if (optind + 1 == argc)
        return CTL_END;
    *ret_exit = ctl_error(CODE_USAGE, "status", "%s; usage: wsctl status %s",
                          optind == argc ? "no job is named" : "too many arguments", ctl->verb->usage);
    return CTL_EXIT;
}

static int show_status(const struct ctl *ctl, struct wsd_client *client, const char *text, const struct wsd_id *id)
{
    struct wsd_batch_info batch = {.size = sizeof(batch)};
    struct wsd_job_info info = {.size = sizeof(info)};
    struct json json = {0};
    int found = wsd_client_job(client, id, &info);

    if (found == -ENOENT && wsd_client_batch(client, id, &batch) == 0)
        return show_batch(ctl, &batch);
    if (found < 0)
        return found == -ENOENT ? ctl_error(CODE_NOT_FOUND, text, "no such job or batch")
                                : ctl_client_error(client, text, NULL);
    if (ctl->json) {
        json_job(&json, &info);
        return json_end(&json);
    }
    return show_job(&info);
}

int verb_status(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    bool stack = false;
    struct wsd_id id;
    int r;

    if (parse_options(ctl, argc, argv, &stack, &r) == CTL_EXIT || (r = ctl_id(argv[optind], &id)) != 0 ||
        (r = ctl_connect(ctl, &client)) != 0)
        return r;
    r = stack ? show_stack(ctl, client, argv[optind], &id) : show_status(ctl, client, argv[optind], &id);
    wsd_client_free(client);
    return r ? r : print_end();
}
