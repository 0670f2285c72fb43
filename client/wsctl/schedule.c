/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c: `wsctl schedule add | list | remove | run`: jobs that wsd submits again and again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"
#include "submit-options.h"

enum { OPT_ON = 512, OPT_PERSISTENT };

static const struct option own[] = {
    {"on", required_argument, NULL, OPT_ON},
    {"persistent", no_argument, NULL, OPT_PERSISTENT},
    {0},
};

struct add_options {
    const char *on;
    bool persistent;
    int n; /* given */
    struct submit_options submit;
};

/* They stand before the action, behind it, or behind the name. CTL_END, or CTL_EXIT with the exit code. */
static int take_options(struct ctl *ctl, int argc, char **argv, struct add_options *o, int *ret_exit)
{
    struct option_list list;
    int c;

    submit_options_list(SUBMIT_SCHEDULE, own, "", &list);
    for (; (c = ctl_getopt(ctl, argc, argv, list.letters, list.options, ret_exit)) != CTL_END; o->n++) {
        if (c == CTL_EXIT)
            return c;
        if (c == OPT_ON)
            o->on = optarg;
        else if (c == OPT_PERSISTENT)
            o->persistent = true;
        else if ((*ret_exit = submit_option(&o->submit, c)) != 0)
            return CTL_EXIT;
    }
    return CTL_END;
}

static int schedule_add(struct ctl *ctl, int argc, char **argv, const char *name, const struct add_options *options)
{
    struct wsd_schedule schedule = {
        .size = sizeof(schedule), .name = name, .calendar = options->on, .persistent = options->persistent};
    struct submit_options submit = options->submit;
    struct wsd_submit *job = &submit.job;
    struct wsd_client *client = NULL;
    char *plugin;
    int r;

    if (!schedule.calendar)
        return ctl_error(CODE_USAGE, "schedule add", "no time is given: --on, such as --on 'Mon..Fri 08:00'");
    if (optind == argc)
        return ctl_error(CODE_USAGE, "schedule add", "no plugin is named; usage: wsctl schedule %s", ctl->verb->usage);
    if ((r = submit_options_check(&options->submit)) != 0)
        return r;
    if ((r = submit_set_plugin(&submit, argv[optind], &plugin)) != 0)
        return r;
    job->size = sizeof(*job);
    job->args = (const char *const *)argv + optind + 1;
    job->n_args = (size_t)(argc - optind - 1);
    schedule.job = job;
    if ((r = ctl_connect(ctl, &client)) == 0 && wsd_client_schedule_add(client, &schedule) < 0)
        r = ctl_client_error(client, name, NULL);
    wsd_client_free(client);
    free(plugin);
    return r;
}

static const char *end_text(const struct wsd_schedule_info *info)
{
    if (info->running)
        return "running";
    if (info->state)
        return wsd_job_state_name(info->state);
    return info->exit ? "refused" : info->ran_usec ? "unknown" : "-";
}

static void show_json(const struct wsd_schedule_info *info, struct json *json)
{
    char id[WSD_ID_TEXT];

    json_string(json, "name", info->name);
    json_string(json, "on", info->calendar);
    json_string(json, "plugin", info->plugin);
    json_string(json, "function", info->function);
    json_number(json, "uid", info->uid);
    json_bool(json, "persistent", info->persistent);
    json_bool(json, "configured", info->configured);
    json_number(json, "next_usec", info->next_usec);
    json_number(json, "runs", info->runs);
    json_number(json, "skipped", info->skipped);
    json_string(json, "last", end_text(info));
    json_number(json, "exit", (uint64_t)info->exit);
    json_string(json, "error", info->error);
    if (!info->ran_usec)
        return;
    wsd_id_text(&info->id, id);
    json_number(json, "ran_usec", info->ran_usec);
    json_string(json, "id", id);
}

static int schedule_show(const struct wsd_schedule_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    char next[64], ran[64];
    struct json json = {0};

    if (ctl->json) {
        show_json(info, &json);
        return json_end(&json);
    }
    print_line("%-16s  %-23s  %-23s  %-11s  %6" PRIu64 "  %7" PRIu64 "  %s%s%s  %s%s%s",
               info->name[0] ? info->name : "-", time_text(info->next_usec, next, sizeof(next)),
               time_text(info->ran_usec, ran, sizeof(ran)), end_text(info), info->runs, info->skipped, info->plugin,
               info->function[0] ? ":" : "", info->function, info->calendar, info->error[0] ? "  " : "", info->error);
    return 0;
}

static int list(struct ctl *ctl)
{
    struct wsd_client *client = NULL;
    int r = ctl_connect(ctl, &client);

    if (r != 0)
        return r;
    if (!ctl->json && !ctl->quiet)
        print_line("%-16s  %-23s  %-23s  %-11s  %6s  %7s  %s", "NAME", "NEXT", "LAST", "ENDED", "RUNS", "SKIPPED",
                   "PLUGIN  ON");
    r = wsd_client_schedules(client, schedule_show, ctl);
    if (r < 0)
        r = ctl_client_error(client, "schedule list", NULL);
    wsd_client_free(client);
    return r ? r : print_end();
}

static int change(struct ctl *ctl, const char *name, bool run)
{
    struct wsd_client *client = NULL;
    struct json json = {0};
    struct wsd_id id;
    char text[WSD_ID_TEXT];
    int r = ctl_connect(ctl, &client);

    if (r != 0)
        return r;
    if ((run ? wsd_client_schedule_run(client, name, &id) : wsd_client_schedule_remove(client, name)) < 0) {
        r = ctl_client_error(client, name, NULL);
    } else if (run) {
        wsd_id_text(&id, text);
        if (ctl->json) {
            json_string(&json, "id", text);
            r = json_end(&json);
        } else {
            print_line("%s", text);
        }
    }
    wsd_client_free(client);
    return r ? r : print_end();
}

int verb_schedule(struct ctl *ctl, int argc, char **argv)
{
    struct add_options o = {.n = 0};
    int r;

    if (take_options(ctl, argc, argv, &o, &r) == CTL_EXIT)
        return r;
    const char *action = optind < argc ? argv[optind++] : "";
    if (take_options(ctl, argc, argv, &o, &r) == CTL_EXIT)
        return r;
    const char *name = optind < argc ? argv[optind++] : NULL;
    if (name && take_options(ctl, argc, argv, &o, &r) == CTL_EXIT)
        return r;
    if (name && strcmp(action, "add") == 0)
        return schedule_add(ctl, argc, argv, name, &o);
    if (strcmp(action, "list") == 0 && !name && o.n == 0)
        return list(ctl);
    if (name && o.n == 0 && optind == argc && (strcmp(action, "run") == 0 || strcmp(action, "remove") == 0))
        return change(ctl, name, strcmp(action, "run") == 0);
    return ctl_error(CODE_USAGE, "schedule", "usage: wsctl schedule %s", ctl->verb->usage);
}
