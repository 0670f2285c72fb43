/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.c: `wsctl runner list`, `runner show NAME`: which runners are connected, and what they do. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "plugin.h"
#include "print.h"

static int show_json(const struct wsd_plugin_info *info)
{
    struct json json = {0};

    json_string(&json, "name", info->name);
    json_string(&json, "version", info->version);
    json_string(&json, "help", info->help);
    json_number(&json, "waiting", info->waiting);
    json_open(&json, "runners", '[');
    for (size_t i = 0; i < info->n_runners; i++) {
        const struct wsd_plugin_runner *r = &info->runners[i];

        json_open(&json, NULL, '{');
        json_number(&json, "uid", r->uid);
        json_number(&json, "pid", r->pid);
        json_number(&json, "credit", r->credit);
        json_number(&json, "running", r->running);
        json_number(&json, "since_usec", r->since_usec);
        json_bool(&json, "leaving", r->leaving);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    plugin_functions_json(info, &json);
    return json_end(&json);
}

static int list_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    unsigned credit = 0, running = 0;

    if (ctl->json)
        return show_json(info);
    for (size_t i = 0; i < info->n_runners; i++) {
        credit += info->runners[i].credit;
        running += info->runners[i].running;
    }
    print_line("%-16s  %7zu  %7u  %6u  %7llu  %s", info->name, info->n_runners, running, credit,
               (unsigned long long)info->waiting, info->help);
    return 0;
}

static const char *since_text(uint64_t usec, char room[static 32])
{
    time_t when = (time_t)(usec / 1000000);
    struct tm tm;

    if (!localtime_r(&when, &tm) || strftime(room, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        strcpy(room, "?");
    return room;
}

static int show_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    char since[32];

    if (ctl->json)
        return show_json(info);
    print_line("%s %s", info->name, info->version);
    if (info->help[0])
        print_line("%s", info->help);
    print_line("jobs that wait: %llu", (unsigned long long)info->waiting);
    print_line("%s", "");
    print_line(info->n_runners ? "runners:" : "no runner is connected");
    for (size_t i = 0; i < info->n_runners; i++) {
        const struct wsd_plugin_runner *r = &info->runners[i];

        print_line("  pid %-8u user %-8u runs %u of %u, since %s%s", r->pid, r->uid, r->running, r->credit,
                   since_text(r->since_usec, since), r->leaving ? ", leaves" : "");
    }
    plugin_functions_print(info, NULL);
    return 0;
}

int verb_runner(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, 2, &r) == CTL_EXIT)
        return r;
    bool list = strcmp(argv[optind], "list") == 0 && argc - optind == 1;
    if (!list && (strcmp(argv[optind], "show") != 0 || argc - optind != 2))
        return ctl_error(CODE_USAGE, "runner", "usage: wsctl runner %s", ctl->verb->usage);
    const char *name = list ? NULL : argv[optind + 1];
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (list && !ctl->json && !ctl->quiet)
        print_line("%-16s  %7s  %7s  %6s  %7s  %s", "NAME", "RUNNERS", "RUNNING", "CREDIT", "WAITING", "HELP");
    r = wsd_client_runners(client, name, list ? list_each : show_each, ctl);
    if (r < 0)
        r = ctl_client_error(client, name ? name : "runner list", name);
    wsd_client_free(client);
    return r ? r : print_end();
}
