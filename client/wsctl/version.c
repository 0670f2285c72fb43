/* SPDX-License-Identifier: Apache-2.0
 *
 * version.c: `wsctl version`: of wsctl, of the library, and of the daemon where there is one. */
#include <stdio.h>

#include "config.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

int verb_version(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct json json = {0};
    const char *daemon;
    int r = 0;

    if (ctl_arguments(ctl, argc, argv, 0, 0, &r) == CTL_EXIT)
        return r;
    /* No daemon is an answer here, not an error. */
    daemon = ctl_open(ctl, &client, 0) == 0 ? wsd_client_daemon_version(client) : "";
    if (ctl->json) {
        json_string(&json, "wsctl", WSD_VERSION);
        json_string(&json, "library", wsd_client_library_version());
        json_string(&json, "daemon", daemon);
        r = json_end(&json);
    } else {
        print_line("wsctl %s", WSD_VERSION);
        print_line("libwsclient %s", wsd_client_library_version());
        print_line("daemon: %s", *daemon ? daemon : wsd_client_error(client));
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
