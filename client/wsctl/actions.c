/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.c: `wsctl actions`: the last changes in wsd, and the user of each.
 * Owns nothing beyond the call. One thread. */
#include <stdio.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"

static void show_json(const struct wsd_action_info *info, struct json *json)
{
    json_number(json, "time_usec", info->time_usec);
    json_number(json, "uid", info->uid);
    json_string(json, "person", info->person);
    json_string(json, "action", info->action);
    json_string(json, "object", info->object);
    json_number(json, "exit", (uint64_t)info->exit);
}

static int show_action(const struct wsd_action_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    char when[64], result[32] = "granted";
    struct json json = {0};

    if (ctl->json) {
        show_json(info, &json);
        return json_end(&json);
    }
    if (info->exit)
        snprintf(result, sizeof(result), "refused (%d)", info->exit);
    print_line("%-23s  %-12s  %-12s  %s%s%s%s%s", time_text(info->time_usec, when, sizeof(when)), user_name(info->uid),
               result, info->action, *info->object ? " " : "", info->object, *info->person ? ", for " : "",
               info->person);
    return 0;
}

static const struct option options[] = {{"limit", required_argument, NULL, 'n'}, {0}};

int verb_actions(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    long long limit = 0;
    int c, r = 0;

    while ((c = ctl_getopt(ctl, argc, argv, "n:", options, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        if (parse_number(optarg, 1, UINT32_MAX, &limit) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of actions from 1 on");
    }
    if (optind < argc)
        return ctl_error(CODE_USAGE, "actions", "too many arguments; usage: wsctl actions %s", ctl->verb->usage);
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (!ctl->json && !ctl->quiet)
        print_line("%-23s  %-12s  %-12s  %s", "WHEN", "USER", "RESULT", "ACTION");
    r = wsd_client_actions(client, (uint32_t)limit, show_action, ctl);
    if (r < 0)
        r = ctl_client_error(client, "actions", NULL);
    wsd_client_free(client);
    return r ? r : print_end();
}
