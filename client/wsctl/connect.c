/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.c: the way to wsd, and the words where there is none.
 * Owns nothing. One thread.
 * Keeps: an error says what to do about it where that is known. */
#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "ctl.h"
#include "print.h"

int ctl_open(const struct ctl *ctl, struct wsd_client **ret_client, uint64_t timeout_usec)
{
    const char *host = getenv("WSD_HOST");
    struct wsd_tls tls = ctl->tls;

    tls.size = sizeof(tls);
    return tls.host || (!ctl->socket && host && *host) ? wsd_client_open_tls(ret_client, &tls, timeout_usec)
                                                       : wsd_client_open(ret_client, ctl->socket, timeout_usec);
}

int ctl_connect(const struct ctl *ctl, struct wsd_client **ret_client)
{
    int r = ctl_open(ctl, ret_client, 0), exit;
    const char *why = wsd_client_error(*ret_client), *colon = strstr(why, ": ");
    char what[256] = "wsd";

    if (r == 0)
        return 0;
    exit = wsd_client_exit(*ret_client);
    if (colon && exit != 76) { /* the library names the socket first */
        snprintf(what, sizeof(what), "%.*s", (int)(colon - why), why);
        why = colon + 2;
    } else if (ctl->socket) {
        snprintf(what, sizeof(what), "%s", ctl->socket);
    }
    if (r == -ENOENT || r == -ECONNREFUSED)
        ctl_error(exit, what,
                  "%s: no daemon there; start one (systemctl start wsd, or wsd --socket PATH) or say where it is "
                  "with --socket PATH or WSD_SOCKET",
                  why);
    else if (r == -EACCES && access(what, W_OK) < 0 && errno == EACCES) /* the socket's file, and not wsd, refuses */
        ctl_error(exit, what,
                  "%s: the group of this socket may connect: join it (the package's is wsd), then log in anew; see "
                  "socket-group in wsd.conf(5)",
                  why);
    else if (exit == CODE_NO_DAEMON)
        ctl_error(exit, what, "%s; is it wsd that listens there?", why);
    else
        ctl_error(exit, what, "%s", why);
    *ret_client = wsd_client_free(*ret_client);
    return exit;
}

const char *plugin_hint(const char *plugin, char *buffer, size_t size)
{
    static const char *const suffixes[] = {"", ".so"};
    char path[512];

    buffer[0] = 0;
    for (size_t i = 0; plugin && !strchr(plugin, '/') && i < 2; i++) {
        size_t n = strlen(plugin);

        if (n < 3 || strcmp(plugin + n - 3, ".so") != 0 ? i == 0 : i == 1)
            continue; /* only what ends in .so is one */
        snprintf(path, sizeof(path), "./%s%s", plugin, suffixes[i]);
        if (access(path, F_OK) == 0) {
            snprintf(buffer, size, "; for the one in this directory write %s", path);
            break;
        }
    }
    return buffer;
}

int ctl_client_error(const struct wsd_client *client, const char *what, const char *plugin)
{
    int exit = wsd_client_exit(client);
    char hint[640] = "";

    return ctl_error(exit, what, "%s%s", wsd_client_error(client),
                     exit == CODE_NOT_FOUND ? plugin_hint(plugin, hint, sizeof(hint)) : "");
}

int ctl_id(const char *text, struct wsd_id *ret_id)
{
    if (wsd_id_parse(text, ret_id) == 0)
        return 0;
    return ctl_error(CODE_USAGE, text, "not the id of a job (32 hexadecimal digits); see wsctl list");
}
