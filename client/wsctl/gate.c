/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c: `wsctl pause`, `resume`, `drain`, `limit`: what may run, and how much of it at once.
 * Owns nothing beyond the call. One thread. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "progress.h"

#define LOOK_MSEC 100 /* between two looks at what is left of a drain */

/* PLUGIN[:FUNCTION] or NULL; everything. */
static int act(struct ctl *ctl, struct wsd_client *client, enum wsd_gate_action action, const char *what, bool is_tag,
               uint32_t limit)
{
    _cleanup_(freep) char *plugin = what ? strdup(what) : NULL;
    const char *function = NULL;

    if (is_tag) {
        int r = wsd_client_gate_tag(client, action, what, limit);

        return r == -EINVAL ? ctl_error(CODE_USAGE, what, "not the name of a tag")
               : r < 0      ? ctl_client_error(client, what, NULL)
                            : 0;
    }
    if (what && (!plugin || parse_plugin(plugin, &function) < 0))
        return ctl_error(CODE_USAGE, what, "PLUGIN[:FUNCTION] is wanted");
    int r = wsd_client_gate(client, action, plugin, function, limit);
    return r < 0 ? ctl_client_error(client, what ? what : ctl->verb->name, NULL) : 0;
}

/* --tag TAG, then at most so many arguments. Returns 0, the exit code, said, or -1: help was given. */
static int parse_options(struct ctl *ctl, int argc, char **argv, int max, const char **ret_tag)
{
    static const struct option own[] = {{"tag", required_argument, NULL, 't'}, {0}};
    int c, r;

    *ret_tag = NULL;
    while ((c = ctl_getopt(ctl, argc, argv, "t:", own, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r ? r : -1;
        *ret_tag = optarg;
    }
    if (argc - optind > max - !!*ret_tag)
        return ctl_error(CODE_USAGE, ctl->verb->name, "too many arguments; usage: wsctl %s %s", ctl->verb->name,
                         ctl->verb->usage);
    return 0;
}

static int verb_act(struct ctl *ctl, int argc, char **argv, enum wsd_gate_action action)
{
    struct wsd_client *client = NULL;
    const char *tag;
    int r = parse_options(ctl, argc, argv, 1, &tag);

    if (r != 0)
        return MAX(r, 0);
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    r = act(ctl, client, action, tag ? tag : optind < argc ? argv[optind] : NULL, tag, 0);
    wsd_client_free(client);
    return r;
}

int verb_pause(struct ctl *ctl, int argc, char **argv)
{
    return verb_act(ctl, argc, argv, WSD_GATE_PAUSE);
}

int verb_resume(struct ctl *ctl, int argc, char **argv)
{
    return verb_act(ctl, argc, argv, WSD_GATE_RESUME);
}

/* --- drain -------------------------------------------------------------------------------------------------------- */

struct look {
    uint64_t left;
    bool drained, paused;
};

static int look_each(const struct wsd_gate_info *info, void *userdata)
{
    struct look *look = userdata;

    *look = (struct look){.left = info->running + info->waiting, .drained = info->drained, .paused = info->paused};
    return 1; /* everything: the first is enough */
}

static int wait_until_empty(struct ctl *ctl, struct wsd_client *client)
{
    uint64_t total = 0;

    for (;;) {
        struct look look = {0};
        int r = wsd_client_gates(client, look_each, &look);

        if (r < 0)
            return ctl_client_error(client, "drain", NULL);
        if (!look.drained)
            return ctl_error(CODE_INTERRUPTED, "drain", "somebody has resumed: wsd takes jobs again");
        if (look.left == 0)
            break;
        total = MAX(total, look.left);
        progress_draw(look.paused ? "drain (all is paused)" : "drain", total - look.left, total, 0);
        poll(NULL, 0, LOOK_MSEC);
    }
    progress_clear();
    if (ctl->json) {
        struct json json = {0};

        json_bool(&json, "drained", true);
        json_number(&json, "waited_for", total);
        return json_end(&json);
    }
    if (!ctl->quiet)
        print_line("drained: `wsctl resume` lets wsd take jobs again");
    return 0;
}

int verb_drain(struct ctl *ctl, int argc, char **argv)
{
    static const struct option own[] = {{"no-wait", no_argument, NULL, 'n'}, {0}};
    struct wsd_client *client = NULL;
    bool wait = true;
    int c, r;

    while ((c = ctl_getopt(ctl, argc, argv, "n", own, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        wait = false;
    }
    if (optind < argc)
        return ctl_error(CODE_USAGE, "drain", "too many arguments; usage: wsctl drain %s", ctl->verb->usage);
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    progress_init(!ctl->quiet && !ctl->no_progress && !ctl->json);
    r = act(ctl, client, WSD_GATE_DRAIN, NULL, false, 0);
    if (r == 0 && wait)
        r = wait_until_empty(ctl, client);
    wsd_client_free(client);
    return r ? r : print_end();
}

/* --- limit -------------------------------------------------------------------------------------------------------- */

static int list_each(const struct wsd_gate_info *info, void *userdata)
{
    const struct ctl *ctl = userdata;
    char name[300], limit[16] = "-";
    struct json json = {0};

    if (ctl->json) {
        json_gate(&json, info);
        return json_end(&json);
    }
    gate_text(info, name, sizeof(name));
    if (info->limit)
        snprintf(limit, sizeof(limit), "%u", info->limit);
    print_line("%-24s %6s %9" PRIu64 " %9" PRIu64 "  %s%s", name, limit, info->running, info->waiting,
               info->paused ? "paused " : "", info->drained ? "drained" : "");
    return 0;
}

int verb_limit(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_client *client = NULL;
    const char *tag, *number;
    long long n = 0;
    int r = parse_options(ctl, argc, argv, 2, &tag);

    if (r != 0)
        return MAX(r, 0);
    if (argc - optind == 1 - !!tag)
        return ctl_error(CODE_USAGE, "limit", "usage: wsctl limit %s", ctl->verb->usage);
    number = argc > optind ? argv[argc - 1] : NULL;
    if (number && strcmp(number, "none") != 0 && parse_number(number, 1, UINT32_MAX, &n) < 0)
        return ctl_error(CODE_USAGE, number, "a number of jobs from 1 on, or none, is wanted");
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (number) {
        r = act(ctl, client, WSD_GATE_LIMIT, tag ? tag : argv[optind], tag, (uint32_t)n);
    } else {
        if (!ctl->json && !ctl->quiet)
            print_line("%-24s %6s %9s %9s", "FUNCTION", "LIMIT", "RUNNING", "WAITING");
        r = wsd_client_gates(client, list_each, ctl);
        r = r < 0 ? ctl_client_error(client, "limit", NULL) : r;
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
