/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c: `wsctl bench`: how long a job takes from here to wsd and back, and how many a second go through.
 * Owns the connections and the calls in flight. One thread, one poll loop.
 * Keeps: each connection has so many jobs in flight, no more; what was begun is waited for before anything is said.
 * Does not judge the engine or compare: that is tests/bench. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/histogram.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "progress.h"
#include "signals.h"

#define DEFAULT_PLUGIN  "fib:nothing"
#define DEFAULT_USEC    5000000u
#define CONNECTIONS_MAX 1000
#define IN_FLIGHT_MAX   100000
#define SIZE_MAX_       (1 << 30)
#define COUNT_MAX       1000000000000
#define TICK_MSEC       100
#define BAR             50u /* columns */

struct bench {
    struct ctl *ctl;
    const char *name; /* as it was given */
    char *plugin;
    const char *function;
    char *const *args;
    size_t n_args;
    uint64_t usec, count; /* 0: no such end */
    size_t n_connections, in_flight, size;
    uint8_t *input;
    struct connection *connections;
    struct pollfd *fds;
    uint64_t begin_usec, last_usec;
    uint64_t n_begun, n_open, n_done;
    struct histogram latency;
    bool counting, stopping, closing;
    int exit; /* of the first that went wrong, said */
};

struct connection {
    struct bench *bench;
    struct wsd_client *client;
};

/* One job in flight. */
struct shot {
    struct connection *connection;
    uint64_t begin_usec;
};

static void begin_job(struct shot *shot);

static void fail(struct bench *b, int exit, const char *text)
{
    if (b->exit == 0 && !b->closing)
        b->exit = ctl_error(exit, b->name, "%s", text);
    b->stopping = true;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    return 0; /* not wanted */
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct shot *shot = userdata;
    struct bench *b = shot->connection->bench;
    char room[128];

    b->n_open--;
    b->last_usec = clock_monotonic_usec();
    if (error != 0) {
        fail(b, wsd_client_exit(shot->connection->client), text);
    } else if (info->state != WSD_JOB_SUCCEEDED) {
        fail(b, info->exit, job_error_text(info, room, sizeof(room)));
    } else if (b->counting) {
        b->n_done++;
        histogram_add(&b->latency, b->last_usec - shot->begin_usec);
    }
    wsd_call_free(call);
    if (b->counting)
        begin_job(shot);
}

static bool more(const struct bench *b)
{
    return !b->stopping && (!b->count || b->n_begun < b->count);
}

static void begin_job(struct shot *shot)
{
    struct bench *b = shot->connection->bench;
    struct wsd_submit request = {
        .size = sizeof(request),
        .plugin = b->plugin,
        .function = b->function,
        .args = (const char *const *)b->args,
        .n_args = b->n_args,
        .input = b->input,
        .input_size = b->size,
    };
    struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = on_output, .done = on_done, .userdata = shot};
    struct wsd_call *call;

    if (!more(b))
        return;
    shot->begin_usec = clock_monotonic_usec();
    if (wsd_client_submit(shot->connection->client, &request, &callbacks, &call) < 0) {
        fail(b, wsd_client_exit(shot->connection->client), wsd_client_error(shot->connection->client));
        return;
    }
    b->n_begun += b->counting;
    b->n_open++;
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static void show_progress(const struct bench *b, uint64_t now)
{
    if (b->count)
        progress_draw("bench", b->n_done, b->count, 0);
    else
        progress_draw("bench", (now - b->begin_usec) / 1000, b->usec / 1000, 0);
}

/* Until everything that was begun has ended. */
static int turn_until_done(struct bench *b)
{
    struct pollfd *fds = b->fds;

    while (b->n_open > 0) {
        uint64_t now = clock_monotonic_usec();

        if (b->counting && b->usec && now - b->begin_usec >= b->usec)
            b->stopping = true;
        if (b->counting)
            show_progress(b, now);
        for (size_t i = 0; i < b->n_connections; i++)
            fds[i] = (struct pollfd){.fd = wsd_client_fd(b->connections[i].client),
                                     .events = wsd_client_events(b->connections[i].client)};
        fds[b->n_connections] = (struct pollfd){.fd = signals_fd(), .events = POLLIN};
        if (poll(fds, b->n_connections + 1, TICK_MSEC) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (signals_take())
            b->stopping = true;
        for (size_t i = 0; i < b->n_connections; i++)
            if (fds[i].revents)
                wsd_client_process(b->connections[i].client); /* where it fails, done has been told */
    }
    return 0;
}

/* Without it the first job would be measured with the start of an executor and the loading of the plugin. */
static int warm_up(struct bench *b, struct shot *shots)
{
    int r;

    for (size_t i = 0; i < b->n_connections; i++)
        begin_job(&shots[i]);
    r = turn_until_done(b);
    return r ? r : b->exit;
}

static int measure(struct bench *b, struct shot *shots)
{
    int r;

    b->counting = true;
    b->begin_usec = b->last_usec = clock_monotonic_usec();
    /* One of each connection after the other: those that come last do not wait for all of the first. */
    for (size_t i = 0; i < b->n_connections * b->in_flight; i++)
        begin_job(&shots[i]);
    r = turn_until_done(b);
    progress_clear();
    return r ? r : b->exit;
}

static int run_bench(struct bench *b)
{
    size_t n = b->n_connections * b->in_flight;
    _cleanup_(freep) struct shot *shots = calloc(n, sizeof(*shots));
    int r = 0;

    if (!shots)
        return ctl_error(CODE_IO, "bench", "out of memory");
    for (size_t i = 0; i < b->n_connections && r == 0; i++) {
        b->connections[i].bench = b;
        r = ctl_connect(b->ctl, &b->connections[i].client);
    }
    for (size_t i = 0; i < n; i++)
        shots[i].connection = &b->connections[i % b->n_connections];
    if (r == 0)
        r = signals_init() < 0 ? ctl_error(CODE_IO, "bench", "%s", strerror(errno)) : 0;
    if (r == 0)
        r = warm_up(b, shots);
    if (r == 0 && !b->stopping)
        r = measure(b, shots);
    b->closing = b->stopping = true;
    for (size_t i = 0; i < b->n_connections; i++) { /* what is still open ends here, unheard */
        b->connections[i].client = wsd_client_free(b->connections[i].client);
    }
    return r;
}

/* --- what comes out --------------------------------------------------------------------------------------------- */

/* How many values of a histogram are from here to there. */
static uint64_t count_within(const struct histogram *h, uint64_t low, uint64_t high)
{
    uint64_t n = 0;

    for (uint32_t i = histogram_next(h, histogram_bucket(low)); i < HISTOGRAM_BUCKETS && histogram_low(i) <= high;
         i = histogram_next(h, i + 1))
        n += histogram_at(h, i);
    return n;
}

/* A line for each power of two of microseconds, from the first that has jobs to the last. */
static void draw_latency(const struct histogram *h)
{
    const uint64_t first = histogram_low(histogram_next(h, 0));
    uint64_t low = 1, most = 0;
    char bar[BAR + 1], from[32];

    while (low * 2 <= first)
        low *= 2;
    for (uint64_t at = low; at && at <= h->max; at *= 2)
        most = MAX(most, count_within(h, at == 1 ? 0 : at, at * 2 - 1));
    for (uint64_t at = low; at && at <= h->max; at *= 2) {
        uint64_t n = count_within(h, at == 1 ? 0 : at, at * 2 - 1);
        size_t width = n ? MAX((size_t)((double)n / (double)most * BAR), (size_t)1) : 0;

        memset(bar, '#', width);
        bar[width] = 0;
        print_line("  from %8s  %-*s %" PRIu64, duration_text(at, from, sizeof(from)), (int)BAR, bar, n);
    }
}

static int report(const struct bench *b)
{
    const uint64_t usec = MAX(b->last_usec - b->begin_usec, UINT64_C(1)), p50 = histogram_percentile(&b->latency, 50),
                   p99 = histogram_percentile(&b->latency, 99);
    const double rate = (double)b->n_done * 1e6 / (double)usec;
    char text[3][32];
    struct json json = {0};

    if (b->n_done == 0)
        return ctl_error(CODE_CANCELLED, "bench", "ended before a job had");
    if (b->ctl->json) {
        json_string(&json, "function", b->name);
        json_number(&json, "connections", b->n_connections);
        json_number(&json, "in_flight", b->in_flight);
        json_number(&json, "size", b->size);
        json_number(&json, "jobs", b->n_done);
        json_number(&json, "usec", usec);
        json_real(&json, "jobs_per_second", rate);
        json_number(&json, "p50_usec", p50);
        json_number(&json, "p99_usec", p99);
        json_number(&json, "max_usec", b->latency.max);
        return json_end(&json);
    }
    if (!b->ctl->quiet)
        print_line("%s: %zu connection%s, %zu in flight on each, %zu byte%s of input", b->name, b->n_connections,
                   plural(b->n_connections), b->in_flight, b->size, plural(b->size));
    print_line("%" PRIu64 " job%s in %s: %.0f jobs/s", b->n_done, plural(b->n_done),
               duration_text(usec, text[0], sizeof(text[0])), rate);
    print_line("latency: p50 %s, p99 %s, max %s", duration_text(p50, text[0], sizeof(text[0])),
               duration_text(p99, text[1], sizeof(text[1])), duration_text(b->latency.max, text[2], sizeof(text[2])));
    if (!b->ctl->quiet)
        draw_latency(&b->latency);
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------------------------- */

enum { OPT_SIZE = 256 };

static const struct option long_options[] = {
    {"connections", required_argument, NULL, 'c'}, {"in-flight", required_argument, NULL, 'f'},
    {"count", required_argument, NULL, 'n'},       {"seconds", required_argument, NULL, 's'},
    {"size", required_argument, NULL, OPT_SIZE},   {0},
};

/* Returns 0 or the exit code, said. */
static int set_option(struct bench *b, int c)
{
    long long number;

    if (c == 's')
        return parse_duration(optarg, &b->usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h");

    long long min = c == OPT_SIZE ? 0 : 1, max = c == 'c'   ? CONNECTIONS_MAX
                                                 : c == 'f' ? IN_FLIGHT_MAX
                                                 : c == 'n' ? COUNT_MAX
                                                            : SIZE_MAX_;

    if (parse_number(optarg, min, max, &number) < 0)
        return ctl_error(CODE_USAGE, optarg, "not a number from %lld to %lld", min, max);
    switch (c) {
    case 'c':
        b->n_connections = (size_t)number;
        break;
    case 'f':
        b->in_flight = (size_t)number;
        break;
    case 'n':
        b->count = (uint64_t)number;
        break;
    default:
        b->size = (size_t)number;
    }
    return 0;
}

static int parse_options(struct bench *b, int argc, char **argv, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(b->ctl, argc, argv, "c:f:n:s:", long_options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = set_option(b, c)) != 0)
            return CTL_EXIT;
    if (!b->usec && !b->count)
        b->usec = DEFAULT_USEC;
    if (optind < argc)
        b->name = argv[optind++];
    b->args = argv + optind;
    b->n_args = (size_t)(argc - optind);
    b->plugin = strdup(b->name);
    b->connections = calloc(b->n_connections, sizeof(*b->connections));
    b->fds = calloc(b->n_connections + 1, sizeof(*b->fds));
    b->input = b->size ? calloc(1, b->size) : NULL;
    if (!b->plugin || !b->connections || !b->fds || (b->size && !b->input))
        *ret_exit = ctl_error(CODE_IO, "bench", "out of memory");
    else if (parse_plugin(b->plugin, &b->function) < 0)
        *ret_exit = ctl_error(CODE_USAGE, b->name, "not the name of a plugin; write PLUGIN or PLUGIN:FUNCTION");
    else
        return CTL_END;
    return CTL_EXIT;
}

int verb_bench(struct ctl *ctl, int argc, char **argv)
{
    struct bench b = {.ctl = ctl, .name = DEFAULT_PLUGIN, .n_connections = 1, .in_flight = 1};
    int r;

    if (parse_options(&b, argc, argv, &r) != CTL_EXIT) {
        progress_init(!ctl->no_progress && !ctl->quiet);
        r = run_bench(&b);
        if (r == 0)
            r = report(&b);
        if (r == 0)
            r = print_end();
    }
    free(b.plugin);
    free(b.connections);
    free(b.fds);
    free(b.input);
    histogram_deinit(&b.latency);
    return r;
}
