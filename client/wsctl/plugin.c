/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c: `wsctl plugin list`, `plugin show NAME`, `plugin release NAME[:FUNCTION]`,
 * `plugin reload NAME`: what can be called, and what not. */
#include "plugin.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "wsd/plugin.h"

static const char *shown; /* as it was asked for; NULL: each of the list */
static const char *const quarantine_names[] = {"", "refused", "trial"};
static const char *const apart_names[] = {"shared", "own", "crashed"};

void plugin_functions_json(const struct wsd_plugin_info *info, struct json *json)
{
    json_open(json, "functions", '[');
    for (size_t i = 0; i < info->n_functions; i++) {
        const struct wsd_function_info *f = &info->functions[i];

        json_open(json, NULL, '{');
        json_string(json, "name", f->name);
        json_string(json, "help", f->help);
        json_bool(json, "idempotent", f->flags & WSD_FN_IDEMPOTENT);
        json_bool(json, "streaming", f->flags & WSD_FN_STREAMING);
        json_bool(json, "opt_in", f->flags & WSD_FN_OPT_IN);
        json_bool(json, "shared", f->flags & WSD_FN_SHARED);
        json_number(json, "crashes", info->crashes[i].crashes);
        json_string(json, "quarantine", quarantine_names[MIN(info->crashes[i].quarantine, 2u)]);
        json_number(json, "quarantine_usec", info->crashes[i].quarantine_usec);
        json_string(json, "last_crash", info->crashes[i].why);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void show_json(const struct wsd_plugin_info *info, struct json *json)
{
    json_string(json, "name", info->name);
    json_string(json, "version", info->version);
    json_string(json, "help", info->help);
    json_string(json, "path", info->path);
    json_string(json, "error", info->error);
    json_string(json, "build", info->build);
    json_string(json, "isolation", apart_names[MIN((unsigned)info->apart, 2u)]);
    plugin_functions_json(info, json);
}

static int list_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    struct json json = {0};

    if (ctl->json) {
        show_json(info, &json);
        return json_end(&json);
    }
    bool quarantine = false;
    for (size_t i = 0; i < info->n_functions; i++)
        quarantine |= info->crashes[i].quarantine > 0;
    print_line("%-16s  %-10s  %s%s%s", info->name, info->version, quarantine ? "[quarantine] " : "",
               info->error[0] ? "unusable: " : info->help, info->error);
    return 0;
}

static void show_crashes(const struct wsd_plugin_info *info, const char *as, size_t i)
{
    const struct wsd_function_crashes *c = &info->crashes[i];
    char left[32];

    if (c->crashes == 0)
        return;
    print_line("  %-16s  crashed %u time%s, at last: %s", "", c->crashes, plural(c->crashes), c->why);
    if (c->quarantine == 2)
        print_line("  %-16s  in quarantine: a job of it runs on trial", "");
    else if (c->quarantine == 1)
        print_line("  %-16s  in quarantine: tried again in %s, or after `wsctl plugin release %s:%s`", "",
                   duration_text(c->quarantine_usec, left, sizeof(left)), as ? as : info->name,
                   info->functions[i].name);
}

void plugin_functions_print(const struct wsd_plugin_info *info, const char *as)
{
    if (info->n_functions > 0) {
        print_line("%s", "");
        print_line("functions:");
    }
    for (size_t i = 0; i < info->n_functions; i++) {
        const struct wsd_function_info *f = &info->functions[i];

        print_line("  %-16s  %s%s%s%s%s", f->name, f->help, f->flags & WSD_FN_IDEMPOTENT ? " [idempotent]" : "",
                   f->flags & WSD_FN_STREAMING ? " [streaming]" : "", f->flags & WSD_FN_OPT_IN ? " [opt-in]" : "",
                   f->flags & WSD_FN_SHARED ? " [shared]" : "");
        show_crashes(info, as, i);
    }
}

static const char *build_words(const char *build, char room[static 32])
{
    room[0] = 0;
    if (build[0])
        snprintf(room, 32, " (build %.16s)", build);
    return room;
}

static int show_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    char build[32];

    if (ctl->json)
        return list_each(info, userdata);
    print_line("%s %s%s", info->name, info->version, build_words(info->build, build));
    if (info->help[0])
        print_line("%s", info->help);
    print_line("%s", info->path);
    if (info->apart)
        print_line("has an executor of its own%s", info->apart == 2
                                                       ? ", because it took one down, until it has proved itself"
                                                       : ": [plugin] isolation in wsd.conf");
    if (info->error[0])
        print_line("unusable: %s", info->error);
    plugin_functions_print(info, shown);
    return 0;
}

/* PLUGIN[:FUNCTION] */
static int release(struct ctl *ctl, const char *what)
{
    struct wsd_client *client = NULL;
    _cleanup_(freep) char *plugin = strdup(what);
    const char *function = NULL;

    if (!plugin)
        return ctl_error(CODE_IO, "plugin", "out of memory");
    if (parse_plugin(plugin, &function) < 0)
        return ctl_error(CODE_USAGE, what, "PLUGIN[:FUNCTION] is wanted");
    int r = ctl_connect(ctl, &client);
    if (r != 0)
        return r;
    r = wsd_client_plugin_release(client, plugin, function);
    if (r < 0)
        r = ctl_client_error(client, what, plugin);
    wsd_client_free(client);
    return r;
}

struct reload {
    struct ctl *ctl;
    const char *what;
    int exit; /* of the first that was not reloaded */
};

static int reload_each(const struct wsd_reload_info *info, void *userdata)
{
    static const char *const outcomes[] = {"", "loaded", "unchanged", "changed", "kept"};
    struct reload *r = userdata;
    char now[32], before[32];
    struct json json = {0};

    if (info->outcome == WSD_RELOAD_KEPT) {
        int exit = ctl_error(info->exit, r->what, "%s: version %s%s stays in use", info->error, info->version,
                             build_words(info->build, now));
        r->exit = r->exit ? r->exit : exit;
    }
    if (r->ctl->json) {
        json_string(&json, "name", info->name);
        json_string(&json, "path", info->path);
        json_string(&json, "outcome", outcomes[MIN((unsigned)info->outcome, 4u)]);
        json_bool(&json, "changed", info->outcome == WSD_RELOAD_CHANGED);
        json_string(&json, "version", info->version);
        json_string(&json, "build", info->build);
        json_string(&json, "old_version", info->old_version);
        json_string(&json, "old_build", info->old_build);
        json_string(&json, "error", info->error);
        if (info->uid != UINT32_MAX) /* else all users share it */
            json_number(&json, "uid", info->uid);
        return json_end(&json);
    }
    if (r->ctl->quiet || info->outcome == WSD_RELOAD_KEPT)
        return 0;
    if (info->uid != UINT32_MAX && info->uid != (uint32_t)getuid())
        print_text("user %u: ", info->uid);
    build_words(info->build, now);
    if (info->outcome == WSD_RELOAD_CHANGED)
        print_line("%s: %s%s, was %s%s", info->name, info->version, now, info->old_version,
                   build_words(info->old_build, before));
    else
        print_line("%s: %s%s, %s", info->name, info->version, now,
                   info->outcome == WSD_RELOAD_SAME ? "unchanged" : "loaded");
    return 0;
}

static int reload(struct ctl *ctl, const char *what)
{
    struct reload r = {.ctl = ctl, .what = what};
    struct wsd_client *client = NULL;
    int error = ctl_connect(ctl, &client);

    if (error != 0)
        return error;
    error = wsd_client_plugin_reload(client, what, reload_each, &r);
    if (error < 0)
        r.exit = ctl_client_error(client, what, what);
    wsd_client_free(client);
    return r.exit ? r.exit : error ? error : print_end();
}

int verb_plugin(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    const char *name = NULL;
    bool list;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, 2, &r) == CTL_EXIT)
        return r;
    if (strcmp(argv[optind], "release") == 0 && argc - optind == 2)
        return release(ctl, argv[optind + 1]);
    if (strcmp(argv[optind], "reload") == 0 && argc - optind == 2)
        return reload(ctl, argv[optind + 1]);
    list = strcmp(argv[optind], "list") == 0 && argc - optind == 1;
    if (!list && (strcmp(argv[optind], "show") != 0 || argc - optind != 2))
        return ctl_error(CODE_USAGE, "plugin", "usage: wsctl plugin %s", ctl->verb->usage);
    shown = name = list ? NULL : argv[optind + 1];
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (list && !ctl->json && !ctl->quiet)
        print_line("%-16s  %-10s  %s", "NAME", "VERSION", "HELP");
    r = wsd_client_plugins(client, name, list ? list_each : show_each, ctl);
    if (r < 0)
        r = ctl_client_error(client, name ? name : "plugin list", name);
    wsd_client_free(client);
    return r ? r : print_end();
}
