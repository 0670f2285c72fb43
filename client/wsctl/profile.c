/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.c: `wsctl profile`: where functions spend their CPU time, and how a job gains from workers.
 * Owns the file. One thread.
 * Keeps: a profile ends with wsctl. What was in the file stays until the new one is complete.
 * Does not trust what an executor says (folded.c). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "flame.h"
#include "folded.h"
#include "json-write.h"
#include "module.h"
#include "options.h"
#include "parse.h"
#include "pprof-module.h"
#include "print.h"
#include "progress.h"
#include "proto/messages.h"
#include "scale.h"
#include "signals.h"
#include "stream.h"

#define DEFAULT_FILE  "wsd-profile.svg"
#define DEFAULT_PPROF "wsd-profile.pb.gz"
#define DEFAULT_SCALE "wsd-scale.svg"
#define DEFAULT_USEC  10000000u
#define DEFAULT_RATE  99u /* not 100: no lockstep with what a program does a hundred times a second */
#define TICK_MSEC     100
#define TOP           20u /* functions of --json */

enum form { FORM_SVG, FORM_FOLDED, FORM_PPROF, FORM_PARALLELISM, FORM_SCALE };

struct profile {
    struct ctl *ctl;
    const char *path; /* NULL: by the form */
    uint64_t usec;
    long long rate;
    bool output; /* -o was given */
    enum form form;
    struct wsd_client *client;
    struct output file;
    FILE *stream;
    struct folded stacks;
    uint64_t lost;
    size_t n_executors;
    bool failed;               /* something of an executor is missing */
    struct submit_options job; /* --parallelism, --scale: what is run */
    char *plugin;
};

static int out_of_memory(void)
{
    return ctl_error(CODE_IO, "profile", "out of memory");
}

/* --- what executors say ------------------------------------------------------------------------------------------- */

static int on_stacks(const void *data, size_t size, void *userdata)
{
    struct profile *p = userdata;

    return folded_add(&p->stacks, data, size) < 0 ? out_of_memory() : 0;
}

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct profile *p = userdata;
    char what[32];

    folded_break(&p->stacks);
    p->n_executors++;
    p->lost += info->lost;
    p->failed |= info->error != 0;
    snprintf(what, sizeof(what), info->executor ? "executor %u" : "an executor", info->executor);
    if (info->error == ESRCH)
        ctl_error(0, what, "it ended while it was profiled; its samples are gone");
    else if (info->error == ETIMEDOUT)
        ctl_error(0, what, "it does not answer; its samples are not in the profile");
    else if (info->error == ENOSPC)
        ctl_error(0, what, "its profile is too large; the rest was cut off");
    else if (info->error)
        ctl_error(0, what, "%s", strerror(info->error));
    else if (info->lost && !p->ctl->quiet)
        ctl_error(0, what, "%" PRIu64 " sample%s found no room; profile for a shorter time, or at a lower rate",
                  info->lost, plural(info->lost));
    return 0;
}

/* --- what is written ---------------------------------------------------------------------------------------------- */

static int write_flame(struct profile *p)
{
    struct call_frame *all = NULL;
    char title[256];

    if (folded_tree(&p->stacks, &all) < 0)
        return out_of_memory();
    snprintf(title, sizeof(title), "%.150s: CPU time, %" PRIu64 " sample%s at %lld Hz",
             p->stacks.only ? p->stacks.only : "wsd", p->stacks.samples, plural(p->stacks.samples), p->rate);
    flame_write(all, title, p->stream);
    call_frame_free(all);
    return 0;
}

static int write_pprof(struct profile *p)
{
    void *entry = module_symbol("--pprof", "../../client/wsctl/", "wsctl-pprof.so", "wsctl_pprof_write");
    __typeof__(&wsctl_pprof_write) write = NULL;

    if (!entry)
        return CODE_NOT_FOUND;
    memcpy(&write, &entry, sizeof(write)); /* what POSIX wants where ISO C has no conversion */
    return write(&p->stacks, (uint64_t)p->rate, p->usec, p->stream) < 0 ? out_of_memory() : 0;
}

static int write_stacks(struct profile *p)
{
    if (p->form == FORM_PPROF)
        return write_pprof(p);
    if (p->form == FORM_SVG)
        return write_flame(p);
    folded_write(&p->stacks, p->stream);
    return 0;
}

static int say_json(const struct profile *p)
{
    struct json json = {0};
    struct hot *hot;
    size_t n;

    if (folded_hot(&p->stacks, &hot, &n) < 0)
        return out_of_memory();
    json_number(&json, "samples", p->stacks.samples);
    json_number(&json, "lost", p->lost);
    json_number(&json, "rate", (uint64_t)p->rate);
    json_open(&json, "functions", '[');
    for (size_t i = 0; i < n && i < TOP; i++) {
        char *name = strndup(hot[i].name, hot[i].size);

        json_open(&json, NULL, '{');
        json_string(&json, "name", name ? name : "");
        json_number(&json, "self", hot[i].self);
        json_number(&json, "total", hot[i].total);
        json_close(&json, '}');
        free(name);
    }
    json_close(&json, ']');
    free(hot);
    return json_end(&json);
}

static void say_result(const struct profile *p)
{
    if (p->ctl->quiet || p->stream == stdout)
        return;
    if (p->n_executors == 0)
        print_line("%s: no executor ran, so there are no samples", p->path);
    else if (p->stacks.samples == 0)
        print_line("%s: no samples: %s used no CPU time", p->path, p->stacks.only ? p->stacks.only : "no worker");
    else
        print_line("%s: %" PRIu64 " sample%s%s", p->path, p->stacks.samples, plural(p->stacks.samples),
                   p->form == FORM_PPROF ? "; open it with pprof"
                   : p->form == FORM_SVG ? "; open it in a browser"
                                         : "");
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* Waits until the time is up, the user presses Ctrl-C, or wsd has gone. Sets usec to how long it was. */
static int wait_a_while(struct profile *p)
{
    uint64_t begin = clock_monotonic_usec(), now = begin;

    while (now - begin < p->usec) {
        uint64_t left = (p->usec - (now - begin) + 999) / 1000;
        struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN},
                               {.fd = wsd_client_fd(p->client), .events = wsd_client_events(p->client)}};

        progress_draw("profile", (now - begin) / 1000, p->usec / 1000, 0);
        if (poll(fds, 2, left < TICK_MSEC ? (int)left : TICK_MSEC) < 0 && errno != EINTR)
            return ctl_error(CODE_IO, "profile", "%s", strerror(errno));
        if (signals_take())
            break;
        if (wsd_client_process(p->client) < 0)
            return ctl_client_error(p->client, "profile", NULL);
        now = clock_monotonic_usec();
    }
    p->usec = clock_monotonic_usec() - begin;
    progress_clear();
    return 0;
}

static int record(struct profile *p)
{
    int r;

    if (wsd_client_profile_start(p->client, (uint32_t)p->rate, false) < 0)
        return ctl_client_error(p->client, "profile", NULL);
    r = wait_a_while(p);
    if (r != 0)
        return r;
    signals_be_patient();
    r = wsd_client_profile_stop(p->client, on_executor, on_stacks, p);
    if (r < 0)
        return ctl_client_error(p->client, "profile", NULL);
    if (folded_end(&p->stacks) < 0)
        return out_of_memory();
    if (p->stacks.n_bad)
        ctl_error(0, "profile", "left out %" PRIu64 " line%s of an executor: no stacks", p->stacks.n_bad,
                  plural(p->stacks.n_bad));
    p->failed |= p->stacks.n_bad > 0;
    return r;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

enum { OPT_FOLDED = 256, OPT_PPROF, OPT_PARALLELISM, OPT_SCALE, OPT_WORKERS };

static const struct option long_options[] = {
    {"seconds", required_argument, NULL, 's'},
    {"rate", required_argument, NULL, 'r'},
    {"output", required_argument, NULL, 'o'},
    {"folded", no_argument, NULL, OPT_FOLDED},
    {"pprof", no_argument, NULL, OPT_PPROF},
    {"parallelism", no_argument, NULL, OPT_PARALLELISM},
    {"scale", no_argument, NULL, OPT_SCALE},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {0},
};

static int take_option(struct profile *p, int c)
{
    if (c == 's' && parse_duration(optarg, &p->usec) < 0)
        return ctl_error(CODE_USAGE, optarg, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h");
    if (c == 'r' && parse_number(optarg, 1, CODEC_RATE_MAX, &p->rate) < 0)
        return ctl_error(CODE_USAGE, optarg, "not a rate; write 1 to %u samples in a second", CODEC_RATE_MAX);
    p->output |= c == 'o';
    if (c == 'o')
        p->path = optarg;
    if (c == OPT_WORKERS) {
        long long n;

        if (parse_number(optarg, 1, SCALE_WORKERS, &n) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of workers; write 1 to %u", SCALE_WORKERS);
        p->job.workers = (unsigned)n;
    }
    if (c >= OPT_FOLDED && c <= OPT_SCALE) {
        if (p->form != FORM_SVG)
            return ctl_error(CODE_USAGE, "profile", "--folded, --pprof, --parallelism and --scale exclude each other");
        p->form = (enum form)(c - OPT_FOLDED + FORM_FOLDED);
    }
    return 0;
}

static bool runs_job(const struct profile *p)
{
    return p->form == FORM_PARALLELISM || p->form == FORM_SCALE;
}

/* name NULL: none was given. */
static int take_job(struct profile *p, const char *name, int argc, char **argv, int *ret_exit)
{
    if (!name)
        *ret_exit =
            ctl_error(CODE_USAGE, "profile", "no plugin is named; usage: wsctl profile %s", p->ctl->verb->usage);
    else
        *ret_exit = submit_set_plugin(&p->job, name, &p->plugin);
    if (*ret_exit != 0)
        return CTL_EXIT;
    p->job.name = name;
    p->job.job.args = (const char *const *)argv + optind;
    p->job.job.n_args = (size_t)(argc - optind);
    p->path = p->path ? p->path : DEFAULT_SCALE;
    return CTL_END;
}

static int take_options(struct profile *p, int argc, char **argv, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(p->ctl, argc, argv, "s:r:o:", long_options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = take_option(p, c)) != 0)
            return CTL_EXIT;
    return CTL_END;
}

/* Options may stand behind the plugin, too, but where arguments of a job do. */
static int parse_options(struct profile *p, int argc, char **argv, int *ret_exit)
{
    const char *name;

    *ret_exit = 0;
    if (take_options(p, argc, argv, ret_exit) == CTL_EXIT)
        return CTL_EXIT;
    name = optind < argc ? argv[optind++] : NULL;
    if (!runs_job(p) && take_options(p, argc, argv, ret_exit) == CTL_EXIT)
        return CTL_EXIT;
    if (runs_job(p))
        return take_job(p, name, argc, argv, ret_exit);
    if (p->job.workers) {
        *ret_exit = ctl_error(CODE_USAGE, "profile", "--workers is for --parallelism and --scale");
        return CTL_EXIT;
    }
    if (optind < argc) {
        *ret_exit =
            ctl_error(CODE_USAGE, argv[optind], "profile takes one PLUGIN[:FUNCTION]; see wsctl profile --help");
        return CTL_EXIT;
    }
    p->stacks.only = name;
    if (!p->path)
        p->path = p->form == FORM_FOLDED ? "-" : p->form == FORM_PPROF ? DEFAULT_PPROF : DEFAULT_FILE;
    return CTL_END;
}

static int open_file(struct profile *p)
{
    int r = output_open(&p->file, p->path, NULL);

    if (r == 0)
        p->stream = output_stream(&p->file);
    return r ? r : p->stream ? 0 : CODE_IO;
}

static int finish_file(struct profile *p, int r)
{
    int ended = 0;

    if (p->stream && r == 0)
        r = write_stacks(p);
    if (p->stream)
        ended = output_stream_end(&p->file, p->stream);
    r = r ? r : ended;
    ended = output_close(&p->file, r == 0);
    return r ? r : ended;
}

/* Here, without a daemon. */
static int run_job(struct profile *p)
{
    struct scale scale = {.n = 0};
    int r, ended;

    if (p->form == FORM_PARALLELISM)
        return scale_parallelism(p->ctl, &p->job);
    r = open_file(p);
    if (r == 0)
        r = scale_run(p->ctl, &p->job, &scale);
    if (r == 0)
        scale_write(&scale, p->stream);
    ended = p->stream ? output_stream_end(&p->file, p->stream) : 0;
    r = r ? r : ended;
    ended = output_close(&p->file, r == 0);
    return r ? r : ended;
}

/* Of the daemon's executors. */
static int sample(struct profile *p)
{
    int r = ctl_connect(p->ctl, &p->client);

    if (r != 0)
        return r;
    signals_init();
    wsd_client_set_interrupt(p->client, signals_out_of_patience, NULL);
    bool file = !p->ctl->json || p->output;
    r = file ? open_file(p) : 0; /* before anything is sampled: where it cannot be written, nothing is */
    if (r == 0)
        r = record(p);
    if (file)
        r = finish_file(p, r);
    if (r == 0 && p->ctl->json)
        r = say_json(p);
    else if (r == 0)
        say_result(p);
    folded_deinit(&p->stacks);
    wsd_client_free(p->client);
    return r == 0 && p->failed ? CODE_IO : r;
}

int verb_profile(struct ctl *ctl, int argc, char **argv)
{
    struct profile p = {.ctl = ctl, .usec = DEFAULT_USEC, .rate = DEFAULT_RATE};
    int r, end;

    if (parse_options(&p, argc, argv, &r) == CTL_EXIT) {
        free(p.plugin);
        return r;
    }
    progress_init(!ctl->no_progress && !ctl->quiet);
    r = runs_job(&p) ? run_job(&p) : sample(&p);
    submit_options_deinit(&p.job);
    free(p.plugin);
    end = print_end();
    return r ? r : end;
}
