/* SPDX-License-Identifier: Apache-2.0
 *
 * top.c: `wsctl top`: looks again and again, and shows what there is and what has changed.
 * Owns the connection and the last two looks. One thread, one poll loop.
 * Keeps: between two looks it sleeps, and wsd does nothing for it; a daemon that goes is noticed at once; the terminal
 * is given back whichever way it ends.
 * Does not draw on terminals (screen.c, loaded on demand), nor know what is worth seeing (look.c, view.c). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "module.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "signals.h"
#include "view.h"

#define DEFAULT_USEC 2000000u
#define DEFAULT_JOBS 20u
#define ROWS_MAX     10000

struct top {
    struct ctl *ctl;
    struct wsd_client *client;
    const struct screen *screen; /* NULL: batch */
    struct look looks[2], *before, *now;
    struct view view;
    struct sparks sparks;
    uint64_t iterations; /* 0: until it is ended */
    bool batch, quit;
    bool looks_now; /* functions are wanted, which the last look has not asked for */
    int row;
};

/* --- out ---------------------------------------------------------------------------------------------------------- */

static void put_row(enum screen_style style, const char *text, void *userdata)
{
    struct top *t = userdata;

    t->screen->put(t->row++, style, text);
}

static void put_text(enum screen_style style, const char *text, void *userdata)
{
    print_line("%s", text);
}

static void draw(struct top *t)
{
    int rows, columns;

    t->screen->dimensions(&rows, &columns);
    t->view.rows = (size_t)MAX(rows, 1);
    t->screen->clear();
    t->row = 0;
    view_draw(&t->view, put_row, t);
    t->screen->show();
}

/* 0 or the exit code, said. */
static int show_screen(struct top *t)
{
    int r = 0;

    look_sort(t->now, t->view.sort);
    look_sort_functions(t->now, t->before);
    if (t->screen) {
        draw(t);
        return 0;
    }
    if (t->ctl->json) {
        r = view_json(&t->view);
    } else {
        view_draw(&t->view, put_text, t);
        print_line("%s", "");
    }
    return r ? r : print_end();
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static int say_lost(struct top *t)
{
    if (t->screen)
        t->screen->close(); /* before anything is said */
    return ctl_client_error(t->client, "top", NULL);
}

/* 0 or the exit code, said. */
static int look_at_wsd(struct top *t)
{
    struct look *next = t->before ? t->before : t->now ? &t->looks[1] : &t->looks[0];
    int r;

    look_deinit(next);
    r = look_take(next, t->client, t->view.functions);
    if (r < 0)
        return say_lost(t);
    if (t->now && sparks_note(&t->sparks, t->now, next) < 0)
        return ctl_error(CODE_IO, "top", "out of memory");
    t->before = t->now;
    t->now = next;
    t->view.before = t->before;
    t->view.now = t->now;
    return 0;
}

static void keys(struct top *t)
{
    for (int key; (key = t->screen->key()) != SCREEN_NONE && !t->quit;) {
        if (key == 'q' || key == 'Q')
            t->quit = true;
        else if (key == 's')
            t->view.sort = (t->view.sort + 1) % LOOK_SORTS;
        else if (key == 'f')
            t->looks_now = t->view.functions = !t->view.functions;
        else if (key == ' ' || key == 'p')
            t->view.paused = !t->view.paused;
        else if (key != SCREEN_RESIZED)
            continue;
        if (!t->quit)
            show_screen(t);
    }
}

/* Waits until the next look is due, or the user wants to end. 0 or the exit code, said. */
static int wait_a_while(struct top *t)
{
    const uint64_t end = clock_monotonic_usec() + t->view.delay_usec;
    uint64_t now;

    while (!t->quit && !t->looks_now && ((now = clock_monotonic_usec()) < end || t->view.paused)) {
        uint64_t left = now < end ? (end - now + 999) / 1000 : 0;
        struct pollfd p[] = {{.fd = signals_fd(), .events = POLLIN},
                             {.fd = wsd_client_fd(t->client), .events = wsd_client_events(t->client)},
                             {.fd = t->screen ? STDIN_FILENO : -1, .events = POLLIN}};

        if (poll(p, ARRAY_SIZE(p), t->view.paused ? -1 : (int)MIN(left, (uint64_t)60000)) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (signals_take())
            return CODE_CANCELLED;
        if (p[1].revents && wsd_client_process(t->client) < 0)
            return say_lost(t);
        if (p[2].revents & (POLLHUP | POLLERR))
            return CODE_CANCELLED; /* the terminal is gone */
        if (t->screen)
            keys(t); /* a resize comes as one, behind a signal */
    }
    t->looks_now = false;
    return 0;
}

static int run_top(struct top *t)
{
    int r = look_at_wsd(t);

    if (r == 0 && t->screen)
        r = show_screen(t); /* without rates: better than nothing for an interval */
    for (uint64_t i = 0; r == 0 && (!t->iterations || i < t->iterations); i++) {
        r = wait_a_while(t);
        if (r == 0 && t->quit)
            break;
        if (r == 0)
            r = look_at_wsd(t);
        if (r == 0)
            r = show_screen(t);
    }
    return r;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int open_screen(struct top *t)
{
    const struct screen *screen;
    const char *term = getenv("TERM");

    screen = module_symbol("top", "", "wsctl-top.so", "wsctl_screen");
    if (!screen)
        return CODE_NOT_FOUND;
    if (screen->size != sizeof(*screen))
        return ctl_error(CODE_NOT_FOUND, "top", "wsctl-top.so is of another version than wsctl");
    if (screen->open() < 0)
        return ctl_error(CODE_USAGE, "top", "cannot draw on a terminal of type %s (TERM); use --batch",
                         term && *term ? term : "none");
    t->screen = screen;
    signals_before_quitting(screen->abandon);
    return 0;
}

static const struct option long_options[] = {
    {"delay", required_argument, NULL, 'd'},
    {"iterations", required_argument, NULL, 'n'},
    {"batch", no_argument, NULL, 'b'},
    {"sort", required_argument, NULL, 's'},
    {"rows", required_argument, NULL, 'r'},
    {"functions", no_argument, NULL, 'f'},
    {0},
};

/* Returns 0 or the exit code, said. */
static int set_option(struct top *t, int c)
{
    long long number;

    switch (c) {
    case 'd':
        return parse_duration(optarg, &t->view.delay_usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h");
    case 'n':
        if (parse_number(optarg, 1, INT64_MAX, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of iterations; write 1 or more");
        t->iterations = (uint64_t)number;
        return 0;
    case 'b':
        t->batch = true;
        return 0;
    case 'f':
        t->view.functions = true;
        return 0;
    case 'r':
        if (parse_number(optarg, 0, ROWS_MAX, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of rows; write 0 to %d", ROWS_MAX);
        t->view.jobs = (size_t)number;
        return 0;
    default:
        for (int i = 0; i < LOOK_SORTS; i++)
            if (strcmp(optarg, look_sort_names[i]) == 0) {
                t->view.sort = (enum look_sort)i;
                return 0;
            }
        return ctl_error(CODE_USAGE, optarg, "not what jobs are sorted by; write run, cpu or new");
    }
}

static int parse_options(struct top *t, int argc, char **argv, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(t->ctl, argc, argv, "d:n:bs:r:f", long_options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = set_option(t, c)) != 0)
            return CTL_EXIT;
    t->batch |= t->ctl->json;
    if (optind < argc)
        *ret_exit = ctl_error(CODE_USAGE, argv[optind], "top takes options only; see wsctl top --help");
    else if (!t->batch && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        *ret_exit = ctl_error(CODE_USAGE, "top", "there is no terminal; use --batch or --json");
    else
        return CTL_END;
    return CTL_EXIT;
}

int verb_top(struct ctl *ctl, int argc, char **argv)
{
    struct top t = {.ctl = ctl, .view = {.delay_usec = DEFAULT_USEC, .jobs = DEFAULT_JOBS}};
    int r;

    if (parse_options(&t, argc, argv, &r) == CTL_EXIT || (r = ctl_connect(ctl, &t.client)) != 0)
        return r;
    t.view.daemon = wsd_client_daemon_version(t.client);
    t.view.keys = !t.batch;
    t.view.sparks = &t.sparks;
    signals_init();
    if (!t.batch)
        r = open_screen(&t);
    if (r == 0)
        r = run_top(&t);
    if (t.screen) {
        t.screen->close();
        signals_before_quitting(NULL);
    }
    for (size_t i = 0; i < ARRAY_SIZE(t.looks); i++)
        look_deinit(&t.looks[i]);
    sparks_deinit(&t.sparks);
    wsd_client_free(t.client);
    return r;
}
