/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c: `wsctl limits`: the limits of wsd.conf that are in force, and moving them while wsd runs.
 * Owns nothing beyond the call. One thread. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "filter.h"
#include "json-write.h"
#include "options.h"
#include "print.h"

struct limits {
    struct ctl *ctl;
    struct wsd_filter whose; /* of it, by_uid and uid */
};

static void name_of(uint32_t uid, char *ret, size_t size)
{
    const struct passwd *user = getpwuid(uid);

    if (user)
        snprintf(ret, size, "%s", user->pw_name);
    else
        snprintf(ret, size, "%u", uid);
}

static int show_limit(const struct wsd_limit_info *info, void *userdata)
{
    const struct limits *l = userdata;
    char user[64] = "", by[64] = "";
    struct json json = {0};

    if (l->whose.by_uid && !(info->of_user && info->uid == l->whose.uid))
        return 0;
    if (l->ctl->json) {
        json_string(&json, "key", info->key);
        json_string(&json, "value", info->value);
        if (info->of_user)
            json_number(&json, "uid", info->uid);
        if (info->moved)
            json_number(&json, "by", info->by);
        return json_end(&json);
    }
    if (info->of_user)
        name_of(info->uid, user, sizeof(user));
    if (info->moved)
        name_of(info->by, by, sizeof(by));
    print_line("%-25s %16s %-14s %s", info->key, *info->value ? info->value : "-", info->of_user ? user : "*",
               info->moved ? by : "-");
    return 0;
}

static int move_limit(const struct limits *l, struct wsd_client *client, char *what)
{
    char *equals = strchr(what, '=');
    int r;

    *equals = 0;
    r = wsd_client_set_limit(client, l->whose.by_uid, l->whose.uid, what, equals + 1);
    return r < 0 ? ctl_client_error(client, what, NULL) : 0;
}

int verb_limits(struct ctl *ctl, int argc, char **argv)
{
    static const struct option own[] = {{"user", required_argument, NULL, OPT_USER}, {0}};
    struct limits l = {.ctl = ctl, .whose = {.size = sizeof(l.whose)}};
    struct wsd_client *client = NULL;
    int c, r;

    while ((c = ctl_getopt(ctl, argc, argv, "", own, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        if ((r = filter_option(&l.whose, c)) != 0)
            return r;
    }
    for (int i = optind; i < argc; i++)
        if (!strchr(argv[i], '=') || *argv[i] == '=')
            return ctl_error(CODE_USAGE, argv[i], "KEY=VALUE is wanted, or KEY= to take it back");
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    for (int i = optind; i < argc && r == 0; i++)
        r = move_limit(&l, client, argv[i]);
    if (optind == argc) {
        if (!ctl->json && !ctl->quiet)
            print_line("%-25s %16s %-14s %s", "KEY", "VALUE", "USER", "MOVED BY");
        r = wsd_client_limits(client, show_limit, &l);
        r = r < 0 ? ctl_client_error(client, "limits", NULL) : r;
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
