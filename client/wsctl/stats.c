/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c: `wsctl stats`: wsd's counters. */
#include <inttypes.h>
#include <stdio.h>

#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

static int show_counter(const char *name, uint64_t value, void *userdata)
{
    struct json *json = userdata;

    if (json)
        json_number(json, name, value);
    else
        print_line("%-32s %" PRIu64, name, value);
    return 0;
}

int verb_stats(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct json json = {0};
    int r;

    if (ctl_arguments(ctl, argc, argv, 0, 0, &r) == CTL_EXIT || (r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (wsd_client_stats(client, show_counter, ctl->json ? &json : NULL) < 0) {
        r = ctl_client_error(client, "stats", NULL);
        buffer_deinit(&json.out);
    } else if (ctl->json) {
        r = json_end(&json);
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
