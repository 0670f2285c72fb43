/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c: `wsctl stats`: wsd's counters; and of functions how their jobs have ended, and how long they took.
 * Owns copies of what is sorted. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "connect.h"
#include "ctl.h"
#include "filter.h"
#include "json-write.h"
#include "options.h"
#include "parse.h"
#include "print.h"

/* --- counters ----------------------------------------------------------------------------------------------------- */

static int show_counter(const char *name, uint64_t value, void *userdata)
{
    struct json *json = userdata;

    if (json)
        json_number(json, name, value);
    else
        print_line("%-32s %" PRIu64, name, value);
    return 0;
}

static int show_counters(struct ctl *ctl, struct wsd_client *client)
{
    struct json json = {0};

    if (wsd_client_stats(client, show_counter, ctl->json ? &json : NULL) < 0) {
        buffer_deinit(&json.out);
        return ctl_client_error(client, "stats", NULL);
    }
    return ctl->json ? json_end(&json) : 0;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

/* What a line of the table shows. */
struct line {
    char *name; /* escaped when it is printed */
    uint32_t uid;
    uint64_t jobs, bad, direct;
    uint64_t run_usec, queue_p50, run_p50, run_p99;
};

struct functions {
    struct ctl *ctl;
    struct wsd_filter filter;
    int (*sort)(const void *a, const void *b);
    struct line *lines;
    size_t n, room;
    uint64_t n_shown;
};

static uint64_t bad_of(const struct wsd_function_stats *s)
{
    return s->failed + s->cancelled + s->timed_out + s->crashed + s->interrupted;
}

static uint64_t jobs_of(const struct wsd_function_stats *s)
{
    return s->succeeded + bad_of(s);
}

static char *name_of(const struct wsd_function_stats *s)
{
    char *name;

    return asprintf(&name, *s->plugin ? "%s:%s" : "(others)", s->plugin, s->function) < 0 ? NULL : name;
}

static void histogram_json(struct json *json, const char *key, const struct wsd_histogram *h)
{
    json_open(json, key, '{');
    json_number(json, "count", h->count);
    json_number(json, "sum", h->sum);
    json_number(json, "p50", wsd_histogram_quantile(h, 0.5));
    json_number(json, "p90", wsd_histogram_quantile(h, 0.9));
    json_number(json, "p99", wsd_histogram_quantile(h, 0.99));
    json_number(json, "max", h->max);
    json_open(json, "buckets", '[');
    for (size_t i = 0; i < h->n_buckets; i++) {
        json_open(json, NULL, '[');
        json_number(json, NULL, h->buckets[i].low);
        json_number(json, NULL, h->buckets[i].high);
        json_number(json, NULL, h->buckets[i].count);
        json_close(json, ']');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static int function_json(const struct wsd_function_stats *s)
{
    struct json json = {0};

    json_string(&json, "plugin", s->plugin);
    json_string(&json, "function", s->function);
    json_number(&json, "uid", s->uid);
    json_number(&json, "succeeded", s->succeeded);
    json_number(&json, "failed", s->failed);
    json_number(&json, "cancelled", s->cancelled);
    json_number(&json, "timed_out", s->timed_out);
    json_number(&json, "crashed", s->crashed);
    json_number(&json, "interrupted", s->interrupted);
    json_number(&json, "refused", s->refused);
    json_number(&json, "direct", s->direct);
    histogram_json(&json, "queue_usec", &s->queue_usec);
    histogram_json(&json, "run_usec", &s->run_usec);
    histogram_json(&json, "cpu_usec", &s->cpu_usec);
    histogram_json(&json, "output_bytes", &s->output_bytes);
    return json_end(&json);
}

static void print_histogram(const char *name, const struct wsd_histogram *h, bool bytes)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 1};
    char text[32];

    if (h->count == 0)
        return;
    print_text("  %-8s", name);
    for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++) {
        uint64_t value = wsd_histogram_quantile(h, quantiles[i]);

        if (bytes)
            snprintf(text, sizeof(text), "%" PRIu64 " B", value);
        else
            duration_text(value, text, sizeof(text));
        print_text(" %12s", text);
    }
    print_line(" %12" PRIu64, h->count);
}

static int print_function(const struct wsd_function_stats *s)
{
    const struct {
        const char *name;
        uint64_t n;
    } outcomes[] = {{"succeeded", s->succeeded}, {"failed", s->failed},
                    {"cancelled", s->cancelled}, {"timed out", s->timed_out},
                    {"crashed", s->crashed},     {"interrupted", s->interrupted},
                    {"refused", s->refused},     {"of these by direct lanes", s->direct}};
    _cleanup_(freep) char *name = name_of(s);
    const char *between = "";

    if (!name)
        return ctl_error(CODE_IO, "stats", "out of memory");
    print_line("%s, user %s", name, user_name(s->uid));
    print_text("  ");
    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
        if (outcomes[i].n) {
            print_text("%s%" PRIu64 " %s", between, outcomes[i].n, outcomes[i].name);
            between = ", ";
        }
    print_line("%s", "");
    if (s->run_usec.count)
        print_line("  %-8s %12s %12s %12s %12s %12s", "", "p50", "p90", "p99", "max", "jobs");
    print_histogram("queue", &s->queue_usec, false);
    print_histogram("run", &s->run_usec, false);
    print_histogram("CPU", &s->cpu_usec, false);
    print_histogram("output", &s->output_bytes, true);
    return 0;
}

static int show_function(const struct wsd_function_stats *s, void *userdata)
{
    struct functions *f = userdata;

    f->n_shown++;
    return f->ctl->json ? function_json(s) : print_function(s);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    return r ? r : x->uid < y->uid ? -1 : x->uid > y->uid;
}

static int falling(uint64_t x, uint64_t y, const void *a, const void *b)
{
    return x > y ? -1 : x < y ? 1 : compare_names(a, b);
}

static int compare_run(const void *a, const void *b)
{
    return falling(((const struct line *)a)->run_usec, ((const struct line *)b)->run_usec, a, b);
}

static int compare_jobs(const void *a, const void *b)
{
    return falling(((const struct line *)a)->jobs, ((const struct line *)b)->jobs, a, b);
}

static int compare_p99(const void *a, const void *b)
{
    return falling(((const struct line *)a)->run_p99, ((const struct line *)b)->run_p99, a, b);
}

static int compare_bad(const void *a, const void *b)
{
    return falling(((const struct line *)a)->bad, ((const struct line *)b)->bad, a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
} sorts[] = {
    {"run", compare_run}, {"jobs", compare_jobs}, {"p99", compare_p99}, {"bad", compare_bad}, {"name", compare_names}};

static int set_sort(struct functions *f, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(sorts); i++)
        if (strcmp(sorts[i].name, key) == 0) {
            f->sort = sorts[i].compare;
            return 0;
        }
    return ctl_error(CODE_USAGE, key, "not a key to sort by; write run, jobs, p99, bad or name");
}

static int keep_line(const struct wsd_function_stats *s, void *userdata)
{
    struct functions *f = userdata;

    if (f->ctl->json)
        return function_json(s);
    if (f->n == f->room) {
        size_t room = MAX(2 * f->room, (size_t)64);
        struct line *lines = realloc(f->lines, room * sizeof(*lines));

        if (!lines)
            return ctl_error(CODE_IO, "stats", "out of memory");
        f->lines = lines;
        f->room = room;
    }
    struct line *l = &f->lines[f->n];
    *l = (struct line){.name = name_of(s),
                       .uid = s->uid,
                       .jobs = jobs_of(s),
                       .bad = bad_of(s),
                       .direct = s->direct,
                       .run_usec = s->run_usec.sum,
                       .queue_p50 = wsd_histogram_quantile(&s->queue_usec, 0.5),
                       .run_p50 = wsd_histogram_quantile(&s->run_usec, 0.5),
                       .run_p99 = wsd_histogram_quantile(&s->run_usec, 0.99)};
    if (!l->name)
        return ctl_error(CODE_IO, "stats", "out of memory");
    f->n++;
    return 0;
}

static void print_lines(struct functions *f)
{
    char all[32], queue[32], p50[32], p99[32];

    if (f->n)
        qsort(f->lines, f->n, sizeof(*f->lines), f->sort);
    if (!f->ctl->quiet)
        print_line("%-32s %-12s %10s %8s %10s %10s %10s %10s", "FUNCTION", "USER", "JOBS", "BAD", "RUN", "QUEUE P50",
                   "RUN P50", "RUN P99");
    for (size_t i = 0; i < f->n; i++) {
        const struct line *l = &f->lines[i];

        print_line("%-32s %-12s %10" PRIu64 " %8" PRIu64 " %10s %10s %10s %10s", l->name, user_name(l->uid), l->jobs,
                   l->bad, duration_text(l->run_usec, all, sizeof(all)),
                   duration_text(l->queue_p50, queue, sizeof(queue)), duration_text(l->run_p50, p50, sizeof(p50)),
                   duration_text(l->run_p99, p99, sizeof(p99)));
    }
}

static int list_functions(struct functions *f, struct wsd_client *client)
{
    int r = wsd_client_functions(client, &f->filter, keep_line, f);

    if (r == 0 && !f->ctl->json)
        print_lines(f);
    return r < 0 ? ctl_client_error(client, "stats", NULL) : r;
}

/* One of the arguments: PLUGIN or PLUGIN:FUNCTION. */
static int show_named(struct functions *f, struct wsd_client *client, char *name)
{
    _cleanup_(freep) char *shown = strdup(name);
    int r;

    f->n_shown = 0;
    f->filter.plugin = name;
    f->filter.function = NULL;
    if (!shown || parse_plugin(name, &f->filter.function) < 0)
        return ctl_error(CODE_USAGE, name, "not the name of a plugin; write PLUGIN or PLUGIN:FUNCTION");
    r = wsd_client_functions(client, &f->filter, show_function, f);
    if (r == 0 && f->n_shown == 0)
        return ctl_error(CODE_NOT_FOUND, shown,
                         "no job of it has ended since wsd's start; see wsctl stats --functions");
    return r < 0 ? ctl_client_error(client, shown, NULL) : r;
}

int verb_stats(struct ctl *ctl, int argc, char **argv)
{
    static const struct option own[] = {{"functions", no_argument, NULL, 'f'},
                                        {"user", required_argument, NULL, OPT_USER},
                                        {"sort", required_argument, NULL, 's'},
                                        {0}};
    struct functions f = {.ctl = ctl, .filter = {.size = sizeof(f.filter)}, .sort = compare_run};
    struct wsd_client *client = NULL;
    bool all = false;
    int c, r;

    while ((c = ctl_getopt(ctl, argc, argv, "fs:", own, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        all |= c == 'f';
        r = c == 'f' ? 0 : c == 's' ? set_sort(&f, optarg) : filter_option(&f.filter, c);
        if (r != 0)
            return r;
    }
    if (all && optind < argc)
        return ctl_error(CODE_USAGE, argv[optind], "--functions shows all of them: name functions without it");
    if (!all && optind == argc && (f.filter.by_uid || f.sort != compare_run))
        return ctl_error(CODE_USAGE, "stats", "--user and --sort are for functions: add --functions, or name some");
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    if (all)
        r = list_functions(&f, client);
    else if (optind == argc)
        r = show_counters(ctl, client);
    for (int i = optind; i < argc && r == 0; i++)
        r = show_named(&f, client, argv[i]);
    wsd_client_free(client);
    for (size_t i = 0; i < f.n; i++)
        free(f.lines[i].name);
    free(f.lines);
    return r ? r : print_end();
}
