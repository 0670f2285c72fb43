/* SPDX-License-Identifier: Apache-2.0
 *
 * ping.c: `wsctl ping`: is wsd there, and how long does it take to answer. */
#include <stdio.h>

#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

int verb_ping(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct json json = {0};
    uint64_t usec;
    char text[32];
    int r;

    if (ctl_arguments(ctl, argc, argv, 0, 0, &r) == CTL_EXIT || (r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (wsd_client_ping(client, &usec) < 0) {
        r = ctl_client_error(client, "ping", NULL);
    } else if (ctl->json) {
        json_string(&json, "daemon", wsd_client_daemon_version(client));
        json_number(&json, "usec", usec);
        r = json_end(&json);
    } else if (!ctl->quiet) {
        print_line("%s: %s", wsd_client_daemon_version(client), duration_text(usec, text, sizeof(text)));
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
