/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet.c: `wsctl fleet init`, `fleet status`: runs wsd-fleet, which alone speaks to other machines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "config.h"
#include "ctl.h"
#include "module.h"
#include "options.h"
#include "print.h"

int verb_fleet(struct ctl *ctl, int argc, char **argv)
{
    char path[4096];
    int r;

    if (ctl_arguments(ctl, argc, argv, 1, 64, &r) == CTL_EXIT)
        return r;
    bool init = strcmp(argv[optind], "init") == 0;
    if (!init && strcmp(argv[optind], "status") != 0)
        return ctl_error(CODE_USAGE, "fleet", "usage: wsctl fleet %s", ctl->verb->usage);
    for (int i = optind + 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            ctl_help(ctl->verb);
            return print_end();
        }
    }
    _cleanup_(freep) char **args = calloc((size_t)argc + 3, sizeof(*args));
    if (!args)
        return ctl_error(CODE_BUSY, "fleet", "out of memory");
    char json[] = "--json", name[] = "wsd-fleet", what[] = "--status", other[] = "--init";
    size_t n = 0;
    args[n++] = name;
    args[n++] = init ? other : what;
    if (ctl->json)
        args[n++] = json;
    for (int i = optind + 1; i < argc; i++)
        args[n++] = argv[i];
    if (!module_in_build_tree("../../daemon/fleet/wsd-fleet", path, sizeof(path)))
        snprintf(path, sizeof(path), "%s/wsd-fleet", WSD_LIBEXEC_DIR);
    execv(path, args);
    return ctl_error(CODE_NOT_FOUND, "fleet", "%s: %s%s", path, strerror(errno),
                     errno == ENOENT ? ": this wsd was built without wsd-fleet (-Dfleet=enabled)" : "");
}
