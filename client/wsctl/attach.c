/* SPDX-License-Identifier: Apache-2.0
 *
 * attach.c: `wsctl attach ID...`: follows jobs as they go, from any terminal.
 * Owns the calls. One thread, one poll loop.
 * Keeps: output is written as it comes, that of several jobs under headings. Leaving does not affect the jobs. `wsctl
 * await` is the other way: one output after the other, whole. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "stream.h"

struct attach {
    struct ctl *ctl;
    struct wsd_client *client;
    struct output output;
    struct followed *jobs, *last; /* last: the one with the latest output */
    size_t n, n_open;
    int exit; /* something is broken: nothing more is written */
};

struct followed {
    struct attach *attach;
    struct wsd_call *call;
    const char *id;
    int exit;
};

static void event(struct json *json, const struct followed *f, const char *what)
{
    json_string(json, "event", what);
    json_string(json, "id", f->id);
}

static int end_array(struct attach *a, struct json *json)
{
    int r = json_end(json);

    if (r == 0 && fflush(stdout) != 0)
        r = CODE_IO;
    a->exit = a->exit ? a->exit : r;
    return r;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct followed *f = userdata;
    struct attach *a = f->attach;
    struct json json = {0};
    char heading[64];
    int n;

    if (a->ctl->json) {
        event(&json, f, "output");
        json_base64(&json, "output", data, size);
        return end_array(a, &json);
    }
    progress_clear_for_stdout();
    if (a->n > 1 && a->last != f && !a->ctl->quiet) {
        n = snprintf(heading, sizeof(heading), "%s==> %s <==\n", a->last ? "\n" : "", f->id);
        a->exit = output_write(&a->output, heading, (size_t)n);
    }
    a->last = f;
    a->exit = a->exit ? a->exit : output_write(&a->output, data, size);
    return a->exit;
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    struct followed *f = userdata;
    struct json json = {0};

    if (f->attach->ctl->json) {
        event(&json, f, "message");
        json_number(&json, "level", (uint64_t)level);
        json_string(&json, "text", text);
        end_array(f->attach, &json);
    } else if (!f->attach->ctl->quiet) {
        print_message(f->attach->n > 1 ? f->id : NULL, text);
    }
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    struct followed *f = userdata;
    struct json json = {0};

    if (!f->attach->ctl->json) {
        progress_draw(f->id, done, total, 0);
        return;
    }
    event(&json, f, "progress");
    json_number(&json, "done", done);
    json_number(&json, "total", total);
    end_array(f->attach, &json);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct followed *f = userdata;
    struct attach *a = f->attach;
    struct json json = {0};
    char words[128];

    a->n_open--;
    progress_clear();
    if (error) {
        f->exit = ctl_error(wsd_client_exit(a->client), f->id, "%s", text);
        return;
    }
    f->exit = info->exit;
    if (a->ctl->json) {
        json_string(&json, "event", "end");
        json_job(&json, info);
        end_array(a, &json);
    }
    if (info->state != WSD_JOB_SUCCEEDED)
        ctl_error(info->exit, f->id, "%s", job_error_text(info, words, sizeof(words)));
}

static int follow(struct followed *f)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks),
        .output = on_output,
        .message = on_message,
        .progress = f->attach->ctl->json || progress_on() ? on_progress : NULL,
        .done = on_done,
        .userdata = f,
    };
    struct wsd_id id;

    if (wsd_id_parse(f->id, &id) < 0 || wsd_client_attach(f->attach->client, &id, &callbacks, &f->call) < 0)
        return ctl_client_error(f->attach->client, f->id, NULL);
    f->attach->n_open++;
    return 0;
}

static int follow_all(struct attach *a)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r == 0; i++)
        r = follow(&a->jobs[i]);
    while (r == 0 && a->n_open > 0 && a->exit == 0) {
        struct pollfd fds[] = {
            {.fd = wsd_client_fd(a->client), .events = wsd_client_events(a->client)},
            {.fd = signals_fd(), .events = POLLIN},
        };

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (fds[1].revents && signals_take()) {
            if (!a->ctl->quiet)
                print_message("wsctl", a->n > 1 ? "detached: the jobs go on" : "detached: the job goes on");
            return CODE_CANCELLED;
        }
        wsd_client_process(a->client);
    }
    r = r ? r : a->exit;
    for (size_t i = 0; i < a->n && r == 0; i++)
        r = a->jobs[i].exit; /* the first, in the order of the arguments */
    return r;
}

int verb_attach(struct ctl *ctl, int argc, char **argv)
{
    struct attach attach = {.ctl = ctl};
    struct wsd_id id;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, -1, &r) == CTL_EXIT)
        return r;
    for (int i = optind; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r;
    attach.n = (size_t)(argc - optind);
    attach.jobs = calloc(attach.n, sizeof(*attach.jobs));
    if (!attach.jobs)
        return ctl_error(CODE_IO, "attach", "out of memory");
    for (size_t i = 0; i < attach.n; i++)
        attach.jobs[i] = (struct followed){.attach = &attach, .id = argv[optind + (int)i]};
    if ((r = ctl_connect(ctl, &attach.client)) == 0) {
        output_open(&attach.output, NULL, NULL);
        progress_init(!ctl->no_progress && !ctl->quiet && !ctl->json);
        signals_init();
        r = follow_all(&attach);
        progress_clear();
    }
    for (size_t i = 0; i < attach.n; i++)
        wsd_call_free(attach.jobs[i].call);
    wsd_client_free(attach.client);
    free(attach.jobs);
    return r;
}
