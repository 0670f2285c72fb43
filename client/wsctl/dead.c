/* SPDX-License-Identifier: Apache-2.0
 *
 * dead.c: `wsctl dead list | requeue ID... | drop ID...`: durable jobs that are out of retries. */
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "list.h"
#include "options.h"
#include "print.h"

/* The first that fails gives the exit code; the others are done all the same. */
static int decide(struct wsd_client *client, int argc, char **argv,
                  int (*how)(struct wsd_client *client, const struct wsd_id *id))
{
    int first = 0;

    for (int i = optind + 1; i < argc; i++) {
        struct wsd_id id;

        if (wsd_id_parse(argv[i], &id) == 0 && how(client, &id) < 0) {
            int r = ctl_client_error(client, argv[i], NULL);

            first = first ? first : r;
            if (wsd_client_process(client) < 0)
                break; /* the connection is gone: once is enough */
        }
    }
    return first;
}

int verb_dead(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct wsd_id id;
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, -1, &r) == CTL_EXIT)
        return r;
    bool list = strcmp(argv[optind], "list") == 0, requeue = strcmp(argv[optind], "requeue") == 0;
    bool ids = argc - optind > 1;
    if (list ? ids : !ids || !(requeue || strcmp(argv[optind], "drop") == 0))
        return ctl_error(CODE_USAGE, "dead", "usage: wsctl dead %s", ctl->verb->usage);
    for (int i = optind + 1; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r; /* nothing is done where one is mistyped */
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (list) {
        list_heading(ctl);
        r = wsd_client_dead(client, list_show, ctl);
        if (r < 0)
            r = ctl_client_error(client, "dead list", NULL);
    } else {
        r = decide(client, argc, argv, requeue ? wsd_client_dead_requeue : wsd_client_dead_drop);
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
