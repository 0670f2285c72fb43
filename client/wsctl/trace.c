/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: `wsctl trace`: records what the workers do into a file for chrome://tracing and Perfetto.
 * Owns nothing that lasts. One thread.
 * Keeps: a trace that is not left running ends with wsctl.
 * Does not know what the events mean (trace-file.c). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "trace-file.h"

#define DEFAULT_FILE "wsd-trace.json"
#define DEFAULT_USEC 1000000u
#define TICK_MSEC    100

struct trace {
    struct ctl *ctl;
    const char *path, *otlp;
    const char *job; /* as it was given; NULL: all */
    struct wsd_id id;
    uint64_t usec;
    bool start, stop, seconds, output;
    struct wsd_client *client;
    struct trace_file *file; /* NULL: none is written */
};

/* --- time ------------------------------------------------------------------------------------------------------- */

/* Whether the job of the trace goes on; one that wsd has forgotten has ended. */
static bool goes_on(struct trace *t)
{
    struct wsd_job_info info = {.size = sizeof(info)};

    return !t->job || (wsd_client_job(t->client, &t->id, &info) == 0 && info.state < WSD_JOB_SUCCEEDED);
}

/* Waits until the time is up, the job has ended, the user presses Ctrl-C, or wsd has gone. */
static int wait_a_while(struct trace *t)
{
    uint64_t begin = clock_monotonic_usec(), now = begin;

    while (now - begin < t->usec && goes_on(t)) {
        uint64_t left = (t->usec - (now - begin) + 999) / 1000;
        struct pollfd p[] = {{.fd = signals_fd(), .events = POLLIN},
                             {.fd = wsd_client_fd(t->client), .events = wsd_client_events(t->client)}};

        progress_draw("trace", (now - begin) / 1000, t->usec < UINT64_MAX ? t->usec / 1000 : 0, 0);
        if (poll(p, 2, left < TICK_MSEC ? (int)left : TICK_MSEC) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "trace", "%s", strerror(errno));
        if (signals_take())
            break;
        if (wsd_client_process(t->client) < 0)
            return ctl_client_error(t->client, "trace", NULL);
        now = clock_monotonic_usec();
    }
    progress_clear();
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------------------------- */

enum { OPT_START = 256, OPT_STOP, OPT_JOB, OPT_OTLP };

static const struct option long_options[] = {
    {"seconds", required_argument, NULL, 's'},
    {"output", required_argument, NULL, 'o'},
    {"otlp", required_argument, NULL, OPT_OTLP},
    {"job", required_argument, NULL, OPT_JOB},
    {"start", no_argument, NULL, OPT_START},
    {"stop", no_argument, NULL, OPT_STOP},
    {0},
};

/* One option. Returns 0 or the exit code, said. */
static int take_option(struct trace *t, int c)
{
    t->start |= c == OPT_START;
    t->stop |= c == OPT_STOP;
    t->seconds |= c == 's';
    t->output |= c == 'o' || c == OPT_OTLP;
    switch (c) {
    case 'o':
        t->path = optarg;
        return 0;
    case OPT_OTLP:
        t->otlp = optarg;
        return 0;
    case OPT_JOB:
        t->job = optarg;
        return ctl_id(optarg, &t->id);
    case 's':
        return parse_duration(optarg, &t->usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h");
    default:
        return 0;
    }
}

/* 0 or the exit code, said. */
static int check_options(struct trace *t, int argc, char **argv)
{
    if (optind < argc)
        return ctl_error(CODE_USAGE, argv[optind], "trace takes options only; see wsctl trace --help");
    if (t->start + t->stop + t->seconds > 1 || (t->start && t->output))
        return ctl_error(CODE_USAGE, "trace",
                         "--start, --stop and --seconds exclude each other, and --start writes nothing");
    if (t->job && (t->start || t->stop))
        return ctl_error(CODE_USAGE, "--job", "it traces until the job has ended: not with --start and --stop");
    if (t->otlp && strcmp(t->otlp, t->path) == 0)
        return ctl_error(CODE_USAGE, "--otlp", "the trace goes there, too; name another file, or --output");
    if (t->job && !t->seconds)
        t->usec = UINT64_MAX;
    return 0;
}

static int parse_options(struct trace *t, int argc, char **argv, int *ret_exit)
{
    int c;

    *ret_exit = 0;
    while ((c = ctl_getopt(t->ctl, argc, argv, "s:o:", long_options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = take_option(t, c)) != 0)
            return CTL_EXIT;
    *ret_exit = check_options(t, argc, argv);
    return *ret_exit ? CTL_EXIT : CTL_END;
}

/* Whether there is something of the job to trace. 0 or the exit code, said. */
static int look_at_job(struct trace *t)
{
    struct wsd_job_info info = {.size = sizeof(info)};

    if (wsd_client_job(t->client, &t->id, &info) < 0)
        return ctl_client_error(t->client, t->job, NULL);
    if (info.state >= WSD_JOB_SUCCEEDED)
        return ctl_error(CODE_NOT_FOUND, t->job, "it has ended: wsctl status shows its times");
    trace_file_only(t->file, &t->id);
    return 0;
}

static int record(struct trace *t)
{
    int r = 0;

    if (!t->stop && wsd_client_trace_start(t->client, t->start) < 0)
        return ctl_client_error(t->client, "trace", NULL);
    if (t->job)
        r = look_at_job(t);
    if (t->start || r != 0)
        return r;
    if (!t->stop)
        r = wait_a_while(t);
    signals_be_patient();
    return r ? r : trace_file_take(t->file, t->client, NULL);
}

int verb_trace(struct ctl *ctl, int argc, char **argv)
{
    struct trace t = {.ctl = ctl, .path = DEFAULT_FILE, .usec = DEFAULT_USEC};
    int r;

    if (parse_options(&t, argc, argv, &r) == CTL_EXIT || (r = ctl_connect(ctl, &t.client)) != 0)
        return r;
    progress_init(!ctl->no_progress && !ctl->quiet);
    signals_init();
    wsd_client_set_interrupt(t.client, signals_out_of_patience, NULL);
    if (!t.start)
        r = trace_file_open(ctl, t.path, t.otlp, &t.file);
    if (r == 0)
        r = record(&t);
    if (t.file)
        r = trace_file_close(t.file, r);
    wsd_client_free(t.client);
    return r ? r : print_end();
}
