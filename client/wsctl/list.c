/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c: `wsctl list`: jobs, once or again and again.
 * Owns what a watch has seen of each. One thread.
 * Keeps: a line fits the terminal, and nothing that a job says can steer it. */
#include "list.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/escape.h"
#include "base/hash.h"
#include "connect.h"
#include "ctl.h"
#include "filter.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "signals.h"

#define FIXED_COLUMNS 59u /* id, state, run time, and what is between them */

/* 0, 0: it is no terminal. */
static struct winsize terminal(void)
{
    struct winsize size = {0};

    if (!isatty(STDOUT_FILENO))
        return size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    return size;
}

/* Not in the middle of a character. */
static void cut(char *text, size_t columns)
{
    size_t n = 0;

    for (char *p = text; *p; p++)
        if (((unsigned char)*p & 0xc0) != 0x80 && n++ == columns) {
            *p = 0;
            return;
        }
}

int list_show(const struct wsd_job_info *info, void *userdata)
{
    struct ctl *ctl = userdata;
    char id[WSD_ID_TEXT], run[32], name[160], text[512], rest[512];
    struct winsize size = terminal();
    struct json json = {0};

    if (ctl->json) {
        json_job(&json, info);
        return json_end(&json);
    }
    wsd_id_text(&info->id, id);
    snprintf(name, sizeof(name), "%.80s%s%.60s", info->plugin, info->function[0] ? ":" : "", info->function);
    snprintf(text, sizeof(text), "%-24s%s%s%s%s%s", name, info->tags[0] ? "  [" : "", info->tags,
             info->tags[0] ? "]" : "", info->error[0] ? "  " : "", info->error);
    escape_text(rest, sizeof(rest), text);
    if (size.ws_col)
        cut(rest, size.ws_col > FIXED_COLUMNS ? size.ws_col - FIXED_COLUMNS : 1u);
    print_text("%s  ", id);
    print_state(info->state);
    print_line("  %10s  %s", duration_text(info->run_usec, run, sizeof(run)), rest);
    return 0;
}

void list_heading(const struct ctl *ctl)
{
    if (!ctl->json && !ctl->quiet)
        print_line("%-32s  %-11s  %10s  %s", "ID", "STATE", "RUN", "PLUGIN");
}

/* --- again and again ---------------------------------------------------------------------------------------------- */

struct watched {
    struct hash_link by_id;
    struct wsd_id id;
    enum wsd_job_state state;
    uint32_t attempts;
    uint64_t look; /* the last one that had it */
};

struct watch {
    struct ctl *ctl;
    struct hash jobs;
    uint64_t look;
};

static uint64_t key_of(const struct wsd_id *id)
{
    return hash_text(0, (const char *)id->bytes, sizeof(id->bytes));
}

static struct watched *watched_find(struct watch *w, const struct wsd_id *id)
{
    for (struct hash_link *l = hash_first(&w->jobs, key_of(id)); l; l = hash_next(l)) {
        struct watched *j = container_of(l, struct watched, by_id);

        if (memcmp(&j->id, id, sizeof(*id)) == 0)
            return j;
    }
    return NULL;
}

static int on_look(const struct wsd_job_info *info, void *userdata)
{
    struct watch *w = userdata;
    struct watched *j = watched_find(w, &info->id);
    bool changed = !j || j->state != info->state || j->attempts != info->attempts;

    if (!j) {
        j = calloc(1, sizeof(*j));
        if (!j || hash_insert(&w->jobs, &j->by_id, key_of(&info->id)) < 0) {
            free(j);
            return ctl_error(CODE_IO, "list", "out of memory");
        }
        j->id = info->id;
    }
    j->state = info->state;
    j->attempts = info->attempts;
    j->look = w->look;
    return changed ? list_show(info, w->ctl) : 0;
}

/* Those that the look did not have are told, and forgotten. 0 or the exit code, said. */
static int tell_gone(struct watch *w, bool all)
{
    int r = 0;

    for (size_t i = 0; i < w->jobs.n_buckets; i++)
        for (struct hash_link *l = w->jobs.buckets[i], *next; l; l = next) {
            struct watched *j = container_of(l, struct watched, by_id);
            char id[WSD_ID_TEXT];
            struct json json = {0};

            next = l->next;
            if (!all && j->look == w->look)
                continue;
            wsd_id_text(&j->id, id);
            if (!all && w->ctl->json) {
                json_string(&json, "id", id);
                json_bool(&json, "gone", true);
                r = r ? r : json_end(&json);
            } else if (!all) {
                print_line("%s  gone", id);
            }
            hash_remove(&w->jobs, &j->by_id);
            free(j);
        }
    return r;
}

/* A screenful, drawn over the one before. */
static int repaint(struct ctl *ctl, struct wsd_client *client, const struct wsd_filter *filter, struct winsize size)
{
    struct wsd_filter shown = *filter;
    uint32_t rows = size.ws_row > 3 ? size.ws_row - 2u : 1;

    if (!shown.limit || shown.limit > rows)
        shown.limit = rows;
    fputs("\033[H\033[J", stdout);
    list_heading(ctl);
    return wsd_client_list_where(client, &shown, list_show, ctl);
}

static int watch_jobs(struct ctl *ctl, struct wsd_client *client, const struct wsd_filter *filter, uint64_t delay_usec)
{
    struct pollfd fd = {.events = POLLIN};
    struct watch w = {.ctl = ctl};
    int r = 0;

    signals_init();
    fd.fd = signals_fd();
    if (!terminal().ws_col)
        list_heading(ctl);
    while (r == 0) {
        struct winsize size = ctl->json ? (struct winsize){0} : terminal();

        w.look++;
        if (size.ws_col) {
            r = repaint(ctl, client, filter, size);
        } else {
            r = wsd_client_list_where(client, filter, on_look, &w);
            r = r ? r : tell_gone(&w, false);
        }
        if (r < 0)
            r = ctl_client_error(client, "list", NULL);
        if (r == 0)
            r = print_end();
        if (r == 0 && poll(&fd, 1, (int)(delay_usec / 1000)) > 0 && signals_take())
            r = CODE_CANCELLED;
    }
    tell_gone(&w, true);
    hash_deinit(&w.jobs);
    return r;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static const struct option options[] = {FILTER_OPTIONS,
                                        {"limit", required_argument, NULL, 'n'},
                                        {"watch", no_argument, NULL, 'w'},
                                        {"delay", required_argument, NULL, 'd'},
                                        {0}};

int verb_list(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_filter filter = {.size = sizeof(filter)};
    struct wsd_client *client = NULL;
    uint64_t delay_usec = 1000000;
    bool again = false, chosen = false;
    long long number;
    int c, r = 0;

    while ((c = ctl_getopt(ctl, argc, argv, "n:wd:", options, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        if (c == 'w')
            again = true;
        else if (c == 'd' &&
                 (parse_duration(optarg, &delay_usec) < 0 || delay_usec < 100000 || delay_usec > 86400000000u))
            return ctl_error(CODE_USAGE, optarg, "not a delay; write 100ms to a day");
        else if (c == 'n' && parse_number(optarg, 1, UINT32_MAX, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of jobs from 1 on");
        else if (c == 'n')
            filter.limit = (uint32_t)number;
        else if (c != 'd' && (r = filter_option(&filter, c)) != 0)
            return r;
        chosen |= c != 'd';
    }
    if (optind < argc)
        return ctl_error(CODE_USAGE, "list", "too many arguments; usage: wsctl list %s", ctl->verb->usage);
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (again) {
        r = watch_jobs(ctl, client, &filter, delay_usec);
    } else {
        list_heading(ctl);
        r = chosen ? wsd_client_list_where(client, &filter, list_show, ctl) : wsd_client_list(client, list_show, ctl);
        if (r < 0)
            r = ctl_client_error(client, "list", NULL);
    }
    wsd_client_free(client);
    return r ? r : print_end();
}
