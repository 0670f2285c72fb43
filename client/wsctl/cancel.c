/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel.c: `wsctl cancel ID...` */
#include "ctl.h"

#include <stdlib.h>

int verb_cancel(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    struct wsd_id id;
    int r, first = 0;

    if (ctl_arguments(ctl, argc, argv, 1, -1, &r) == CTL_EXIT)
        return r;
    for (int i = optind; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r; /* nothing is cancelled where one is mistyped */
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    for (int i = optind; i < argc; i++) {
        if (wsd_id_parse(argv[i], &id) == 0 && wsd_client_cancel(client, &id) < 0) {
            r = ctl_client_error(client, argv[i], NULL);
            first = first ? first : r;
            if (wsd_client_process(client) < 0)
                break; /* the connection is gone: once is enough */
        }
    }
    wsd_client_free(client);
    return first;
}
