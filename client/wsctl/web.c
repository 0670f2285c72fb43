/* SPDX-License-Identifier: Apache-2.0
 *
 * web.c: `wsctl web`: runs wsd-web, which alone speaks HTTP, for the user that calls it. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "config.h"
#include "ctl.h"
#include "module.h"
#include "options.h"
#include "print.h"

#define ARGUMENTS 16u

enum { NO_OPEN = 256, READ_ONLY, FLEET };

static const struct option long_options[] = {{"listen", required_argument, NULL, 'l'},
                                             {"fleet", optional_argument, NULL, FLEET},
                                             {"no-open", no_argument, NULL, NO_OPEN},
                                             {"read-only", no_argument, NULL, READ_ONLY},
                                             {0}};

/* How wsctl was told to find wsd, for wsd-web, whose library reads the environment. False: no memory is left. */
static bool tell_where(const struct ctl *ctl)
{
    const struct wsd_tls *tls = &ctl->tls;
    const char *const told[][2] = {{"WSD_HOST", tls->host},
                                   {"WSD_TLS_CERT", tls->certificate},
                                   {"WSD_TLS_KEY", tls->key},
                                   {"WSD_TLS_CA", tls->ca}};

    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
        if (told[i][1] && setenv(told[i][0], told[i][1], 1) < 0)
            return false;
    return true;
}

int verb_web(struct ctl *ctl, int argc, char **argv)
{
    const char *args[ARGUMENTS] = {"wsd-web", "--token"}, *listen = "127.0.0.1:0", *servers = NULL;
    bool open = true, acts = true, shows_fleet = false;
    char path[4096], fleet[1024], program[4096];
    size_t n = 2;
    int c, r;

    while ((c = ctl_getopt(ctl, argc, argv, "l:", long_options, &r)) >= 0) {
        if (c == 'l') {
            listen = optarg;
        } else if (c == NO_OPEN) {
            open = false;
        } else if (c == FLEET) {
            shows_fleet = true;
            servers = optarg;
        } else {
            acts = false;
        }
    }
    if (c == CTL_EXIT)
        return r;
    if (optind < argc)
        return ctl_error(CODE_USAGE, "web", "usage: wsctl web %s", ctl->verb->usage);
    args[n++] = "--listen";
    args[n++] = listen;
    if (!tell_where(ctl))
        return ctl_error(CODE_IO, "web", "out of memory");
    if (ctl->socket && !ctl->tls.host) {
        args[n++] = "--socket";
        args[n++] = ctl->socket;
    }
    if (open)
        args[n++] = "--open";
    if (acts)
        args[n++] = "--act";
    if ((size_t)snprintf(fleet, sizeof(fleet), "--fleet%s%s", servers ? "=" : "", servers ? servers : "") >=
        sizeof(fleet))
        return ctl_error(CODE_USAGE, "web", "--fleet: at most 1,000 bytes of servers");
    if (shows_fleet)
        args[n++] = fleet;
    if (shows_fleet && module_in_build_tree("../../daemon/fleet/wsd-fleet", program, sizeof(program))) {
        args[n++] = "--fleet-program";
        args[n++] = program;
    }
    if (!module_in_build_tree("../../daemon/web/wsd-web", path, sizeof(path)))
        snprintf(path, sizeof(path), "%s/wsd-web", WSD_LIBEXEC_DIR);
    execv(path, (char *const *)args);
    return ctl_error(CODE_NOT_FOUND, "web", "%s: %s%s", path, strerror(errno),
                     errno == ENOENT ? ": install wsd-web, or build with -Dweb=enabled" : "");
}
