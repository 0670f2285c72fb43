/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c: `wsctl plugin list`, `wsctl plugin show NAME`: what can be called. */
#include "ctl.h"

#include <stdio.h>
#include <string.h>

#include "json.h"
#include "wsd/plugin.h"

static void show_json(const struct wsd_plugin_info *info, struct json *json)
{
    json_string(json, "name", info->name);
    json_string(json, "version", info->version);
    json_string(json, "help", info->help);
    json_string(json, "path", info->path);
    json_string(json, "error", info->error);
    json_open(json, "functions", '[');
    for (size_t i = 0; i < info->n_functions; i++) {
        const struct wsd_function_info *f = &info->functions[i];

        json_open(json, NULL, '{');
        json_string(json, "name", f->name);
        json_string(json, "help", f->help);
        json_bool(json, "idempotent", f->flags & WSD_FN_IDEMPOTENT);
        json_bool(json, "streaming", f->flags & WSD_FN_STREAMING);
        json_bool(json, "opt_in", f->flags & WSD_FN_OPT_IN);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static int list_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    struct json json = {0};

    if (ctl->json) {
        show_json(info, &json);
        return json_end(&json);
    }
    printf("%-16s  %-10s  %s%s\n", info->name, info->version, info->error[0] ? "unusable: " : info->help, info->error);
    return 0;
}

static int show_each(const struct wsd_plugin_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;

    if (ctl->json)
        return list_each(info, userdata);
    printf("%s %s\n%s%s%s\n", info->name, info->version, info->help, info->help[0] ? "\n" : "", info->path);
    if (info->error[0])
        printf("unusable: %s\n", info->error);
    if (info->n_functions > 0)
        printf("\nfunctions:\n");
    for (size_t i = 0; i < info->n_functions; i++) {
        const struct wsd_function_info *f = &info->functions[i];

        printf("  %-16s  %s%s%s%s\n", f->name, f->help, f->flags & WSD_FN_IDEMPOTENT ? " [idempotent]" : "",
               f->flags & WSD_FN_STREAMING ? " [streaming]" : "", f->flags & WSD_FN_OPT_IN ? " [opt-in]" : "");
    }
    return 0;
}

int verb_plugin(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    const char *name = NULL;
    bool list;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, 2, &r) == CTL_EXIT)
        return r;
    list = strcmp(argv[optind], "list") == 0 && argc - optind == 1;
    if (!list && (strcmp(argv[optind], "show") != 0 || argc - optind != 2))
        return ctl_error(EXIT_USAGE, "plugin", "usage: wsctl plugin %s", ctl->verb->usage);
    name = list ? NULL : argv[optind + 1];
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (list && !ctl->json && !ctl->quiet)
        printf("%-16s  %-10s  %s\n", "NAME", "VERSION", "HELP");
    r = wsd_client_plugins(client, name, list ? list_each : show_each, ctl);
    if (r < 0)
        r = ctl_client_error(client, name ? name : "plugin list", name);
    wsd_client_free(client);
    return r ? r : print_end();
}
