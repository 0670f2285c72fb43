/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c: `wsctl list`: the caller's jobs. */
#include "ctl.h"

#include <stdio.h>

#include "json.h"

int list_show(const struct wsd_job_info *info, void *userdata)
{
    struct ctl *ctl = userdata;
    char id[WSD_ID_TEXT], state[32], run[32], name[160];
    struct json json = {0};

    if (ctl->json) {
        json_job(&json, info);
        return json_end(&json);
    }
    wsd_id_text(&info->id, id);
    snprintf(name, sizeof(name), "%.80s%s%.60s", info->plugin, info->function[0] ? ":" : "", info->function);
    printf("%s  %s  %10s  %-24s%s%s%s%s%s\n", id, state_text(info->state, state, sizeof(state)),
           duration_text(info->run_usec, run, sizeof(run)), name, info->tags[0] ? "  [" : "", info->tags,
           info->tags[0] ? "]" : "", info->error[0] ? "  " : "", info->error);
    return 0;
}

void list_heading(const struct ctl *ctl)
{
    if (!ctl->json && !ctl->quiet)
        printf("%-32s  %-11s  %10s  %s\n", "ID", "STATE", "RUN", "PLUGIN");
}

int verb_list(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    int r;

    if (ctl_arguments(ctl, argc, argv, 0, 0, &r) == CTL_EXIT || (r = ctl_connect(ctl, &client)) != 0)
        return r;
    list_heading(ctl);
    r = wsd_client_list(client, list_show, ctl);
    if (r < 0)
        r = ctl_client_error(client, "list", NULL);
    wsd_client_free(client);
    return r ? r : print_end();
}
