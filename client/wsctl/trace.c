/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: `wsctl trace`: records what the workers do into a file for chrome://tracing and Perfetto.
 * Owns the file. One thread.
 * Keeps: what is in the file is JSON, whatever an executor said, and what was there before until that is complete; a
 * trace that is not left running ends with wsctl.
 * Does not know what the events mean. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-parse.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "stream.h"

#define DEFAULT_FILE "wsd-trace.json"
#define DEFAULT_USEC 1000000u
#define LINE_MAX_    4096u /* the pool writes at most 1,024 */
#define TICK_MSEC    100

struct trace {
    struct ctl *ctl;
    const char *path;
    uint64_t usec;
    bool start, stop, seconds, output;
    struct wsd_client *client;
    struct output file;
    FILE *stream;       /* into it */
    struct buffer rest; /* the beginning of a line */
    uint64_t n_events, n_bad;
    size_t n_executors;
    bool failed; /* something of an executor is missing */
};

/* --- the file --------------------------------------------------------------------------------------------------- */

static int open_file(struct trace *t)
{
    int r = output_open(&t->file, t->path, NULL);

    if (r == 0)
        t->stream = output_stream(&t->file);
    return r ? r : t->stream ? 0 : CODE_IO;
}

static int begin_file(struct trace *t)
{
    return fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", t->stream) < 0
               ? ctl_error(CODE_IO, t->path, "%s", strerror(errno))
               : 0;
}

static int write_failed(struct trace *t)
{
    return ctl_error(CODE_IO, t->path, "%s", strerror(errno));
}

static int put_line(struct trace *t, const char *line, size_t size)
{
    int is_event = size <= LINE_MAX_ ? json_is_object(line, size) : 0;

    if (is_event < 0)
        return ctl_error(CODE_IO, "trace", "out of memory");
    if (!is_event) {
        t->n_bad++;
        return 0;
    }
    if (fputs(t->n_events++ ? ",\n" : "", t->stream) < 0 || fwrite(line, 1, size, t->stream) != size)
        return write_failed(t);
    return 0;
}

static int on_events(const void *data, size_t size, void *userdata)
{
    struct trace *t = userdata;
    const char *end;
    int r = 0;

    if (buffer_put(&t->rest, data, size) < 0)
        return ctl_error(CODE_IO, "trace", "out of memory");
    while (r == 0 && (end = memchr(buffer_data(&t->rest), '\n', buffer_size(&t->rest)))) {
        const char *line = (const char *)buffer_data(&t->rest);

        r = put_line(t, line, (size_t)(end - line));
        buffer_drop(&t->rest, (size_t)(end - line) + 1);
    }
    if (r == 0 && buffer_size(&t->rest) > LINE_MAX_) { /* that is no line */
        buffer_deinit(&t->rest);
        t->n_bad++;
    }
    return r;
}

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct trace *t = userdata;
    char what[32];

    bool own = info->executor == 0 && !info->error; /* wsd's part */

    buffer_deinit(&t->rest); /* half a line of the one before */
    t->n_executors += !own;
    t->failed |= info->error != 0;
    snprintf(what, sizeof(what), own ? "wsd" : info->executor ? "executor %u" : "an executor", info->executor);
    if (info->error == ESRCH)
        ctl_error(0, what, "it ended while it was traced; its events are gone");
    else if (info->error == ETIMEDOUT)
        ctl_error(0, what, "it does not answer; its events are not in the trace");
    else if (info->error == ENOSPC)
        ctl_error(0, what, "its trace is too large; the rest was cut off");
    else if (info->error)
        ctl_error(0, what, "%s", strerror(info->error));
    else if (info->lost && !t->ctl->quiet)
        ctl_error(0, what, "%" PRIu64 " older events were overwritten; trace for a shorter time", info->lost);
    return 0;
}

static int finish_file(struct trace *t, int r)
{
    int ended = 0;

    if (t->stream && r == 0 && fputs("\n]}\n", t->stream) < 0)
        r = write_failed(t);
    if (t->stream)
        ended = output_stream_end(&t->file, t->stream);
    r = r ? r : ended;
    ended = output_close(&t->file, r == 0);
    return r ? r : ended;
}

static int stop_trace(struct trace *t)
{
    int r = begin_file(t);

    if (r != 0)
        return r;
    r = wsd_client_trace_stop(t->client, on_executor, on_events, t);
    if (r < 0)
        return ctl_client_error(t->client, "trace", NULL);
    if (t->n_bad)
        ctl_error(0, "trace", "%" PRIu64 " lines of an executor were not JSON, and were left out", t->n_bad);
    t->failed |= t->n_bad > 0;
    return r;
}

static void say_result(const struct trace *t)
{
    if (t->ctl->quiet || t->stream == stdout)
        return;
    if (t->n_executors == 0)
        print_line("%s: no executor ran, so there are no events", t->path);
    else
        print_line("%s: %" PRIu64 " events; open it in https://ui.perfetto.dev or chrome://tracing", t->path,
                   t->n_events);
}

/* --- time ------------------------------------------------------------------------------------------------------- */

/* Waits until the time is up, the user presses Ctrl-C, or wsd has gone. */
static int wait_a_while(struct trace *t)
{
    uint64_t begin = clock_monotonic_usec(), now = begin;

    while (now - begin < t->usec) {
        uint64_t left = (t->usec - (now - begin) + 999) / 1000;
        struct pollfd p[] = {{.fd = signals_fd(), .events = POLLIN},
                             {.fd = wsd_client_fd(t->client), .events = wsd_client_events(t->client)}};

        progress_draw("trace", (now - begin) / 1000, t->usec / 1000, 0);
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

enum { OPT_START = 256, OPT_STOP };

static const struct option long_options[] = {
    {"seconds", required_argument, NULL, 's'},
    {"output", required_argument, NULL, 'o'},
    {"start", no_argument, NULL, OPT_START},
    {"stop", no_argument, NULL, OPT_STOP},
    {0},
};

static int parse_options(struct trace *t, int argc, char **argv, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(t->ctl, argc, argv, "s:o:", long_options, ret_exit)) != CTL_END) {
        if (c == CTL_EXIT)
            return c;
        t->start |= c == OPT_START;
        t->stop |= c == OPT_STOP;
        t->seconds |= c == 's';
        t->output |= c == 'o';
        if (c == 'o')
            t->path = optarg;
        if (c == 's' && parse_duration(optarg, &t->usec) < 0) {
            *ret_exit = ctl_error(CODE_USAGE, optarg, "not a duration; write 30, 1.5s, 500ms, 2min or 1h");
            return CTL_EXIT;
        }
    }
    if (optind < argc || t->start + t->stop + t->seconds > 1 || (t->start && t->output)) {
        *ret_exit = optind < argc
                        ? ctl_error(CODE_USAGE, argv[optind], "trace takes options only; see wsctl trace --help")
                        : ctl_error(CODE_USAGE, "trace",
                                    "--start, --stop and --seconds exclude each other, "
                                    "and --start writes nothing");
        return CTL_EXIT;
    }
    return CTL_END;
}

static int record(struct trace *t)
{
    int r = 0;

    if (!t->stop && wsd_client_trace_start(t->client, t->start) < 0)
        return ctl_client_error(t->client, "trace", NULL);
    if (t->start)
        return 0;
    if (!t->stop)
        r = wait_a_while(t);
    return r ? r : stop_trace(t);
}

int verb_trace(struct ctl *ctl, int argc, char **argv)
{
    struct trace t = {.ctl = ctl, .path = DEFAULT_FILE, .usec = DEFAULT_USEC};
    int r;

    if (parse_options(&t, argc, argv, &r) == CTL_EXIT || (r = ctl_connect(ctl, &t.client)) != 0)
        return r;
    progress_init(!ctl->no_progress && !ctl->quiet);
    signals_init();
    /* before anything is recorded: where it cannot be written, nothing is */
    if (!t.start)
        r = open_file(&t);
    if (r == 0)
        r = record(&t);
    if (!t.start)
        r = finish_file(&t, r);
    if (r == 0 && !t.start)
        say_result(&t);
    buffer_deinit(&t.rest);
    wsd_client_free(t.client);
    r = r ? r : print_end();
    return r == 0 && t.failed ? CODE_IO : r;
}
