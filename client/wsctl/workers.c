/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.c: `wsctl workers`, `wsctl workers set N`: what each worker has done, and how many there are.
 * Owns nothing beyond the call. One thread. */
#include "workers.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
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

#define COLUMNS_MAX 64
#define WORKERS_MAX 1024

struct table {
    struct ctl *ctl;
    uint64_t totals[COLUMNS_MAX], run;
    int widths[COLUMNS_MAX];
    size_t n_columns, n_workers, n_executors, n_failed;
};

const char *worker_kind_name(enum wsd_worker_kind kind)
{
    return kind == WSD_WORKER ? "worker" : kind == WSD_WORKER_RETIRED ? "retired" : "guest";
}

uint64_t worker_counter(const struct wsd_worker_info *info, const char *name)
{
    for (size_t i = 0; i < info->n_counters; i++)
        if (strcmp(info->counters[i].name, name) == 0)
            return info->counters[i].value;
    return 0;
}

uint64_t worker_run(const struct wsd_worker_info *info)
{
    return worker_counter(info, "roots") + worker_counter(info, "ready") + worker_counter(info, "stolen");
}

static int worker_json(const struct wsd_worker_info *info)
{
    struct json json = {0};

    json_number(&json, "executor", info->executor);
    json_number(&json, "worker", info->worker);
    json_string(&json, "kind", worker_kind_name(info->kind));
    if (info->cpu >= 0)
        json_number(&json, "cpu", (uint64_t)info->cpu);
    json_number(&json, "run", worker_run(info));
    for (size_t i = 0; i < info->n_counters; i++)
        json_number(&json, info->counters[i].name, info->counters[i].value);
    return json_end(&json);
}

static int executor_json(const struct wsd_executor_info *info)
{
    struct json json = {0};

    json_number(&json, "executor", info->executor);
    json_number(&json, "uid", info->uid);
    json_number(&json, "workers", info->workers);
    json_number(&json, "pid", info->pid);
    json_number(&json, "age_usec", info->age_usec);
    json_number(&json, "memory", info->memory);
    json_number(&json, "descriptors", info->descriptors);
    return json_end(&json);
}

/* A column is as wide as its heading, and at least as this. */
static int width(const char *name)
{
    return (int)MAX(strlen(name), (size_t)9);
}

static void print_heading(const struct wsd_worker_info *info)
{
    print_text("%-10s %-7s %4s %9s", "WORKER", "KIND", "CPU", "RUN");
    for (size_t i = 0; i < MIN(info->n_counters, (size_t)COLUMNS_MAX); i++) {
        char name[32];
        size_t n = 0;

        for (; n < sizeof(name) - 1 && info->counters[i].name[n]; n++)
            name[n] = info->counters[i].name[n] == '_' ? ' ' : (char)toupper((unsigned char)info->counters[i].name[n]);
        name[n] = 0;
        print_text(" %*s", width(name), name);
    }
    print_line("%s", "");
}

static int show_worker(const struct wsd_worker_info *info, void *userdata)
{
    struct table *t = userdata;
    char name[32], cpu[16] = "-";

    if (t->ctl->json)
        return worker_json(info);
    if (t->n_workers++ == 0 && !t->ctl->quiet)
        print_heading(info);
    snprintf(name, sizeof(name), "%u.%u", info->executor, info->worker);
    if (info->cpu >= 0)
        snprintf(cpu, sizeof(cpu), "%d", info->cpu);
    print_text("%-10s %-7s %4s %9" PRIu64, name, worker_kind_name(info->kind), cpu, worker_run(info));
    t->run += worker_run(info);
    t->n_columns = MIN(info->n_counters, (size_t)COLUMNS_MAX);
    for (size_t i = 0; i < t->n_columns; i++) {
        t->widths[i] = width(info->counters[i].name);
        print_text(" %*" PRIu64, t->widths[i], info->counters[i].value);
        t->totals[i] += info->counters[i].value;
    }
    print_line("%s", "");
    return 0;
}

const char *executor_error_text(int error)
{
    return error == ETIMEDOUT ? "it does not answer"
           : error == ESRCH   ? "it has ended"
           : error == EBADMSG ? "what it answers cannot be; it is replaced"
                              : strerror(error);
}

static void show_error(struct table *t, const struct wsd_executor_info *info)
{
    char what[32];

    snprintf(what, sizeof(what), "executor %u", info->executor);
    ctl_error(CODE_BUSY, what, "%s", executor_error_text(info->error));
    t->n_failed++;
}

static int show_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct table *t = userdata;

    t->n_executors++;
    if (info->error)
        show_error(t, info);
    return 0;
}

/* With --executors: a line each. */
static int show_process(const struct wsd_executor_info *info, void *userdata)
{
    struct table *t = userdata;
    char age[32];

    if (info->error)
        return show_executor(info, userdata);
    if (t->ctl->json)
        return t->n_executors++, executor_json(info);
    if (t->n_executors++ == 0 && !t->ctl->quiet)
        print_line("%-9s %-12s %8s %8s %10s %12s %12s", "EXECUTOR", "USER", "WORKERS", "PID", "AGE", "MEMORY KIB",
                   "DESCRIPTORS");
    print_line("%-9u %-12s %8u %8u %10s %12" PRIu64 " %12u", info->executor, user_name(info->uid), info->workers,
               info->pid, duration_text(info->age_usec, age, sizeof(age)), info->memory / 1024, info->descriptors);
    return 0;
}

static int show_set(const struct wsd_executor_info *info, void *userdata)
{
    struct table *t = userdata;
    struct json json = {0};

    t->n_executors++;
    if (info->error == ESRCH)
        return 0; /* the next one begins with as many as were asked for */
    if (info->error)
        show_error(t, info);
    if (t->ctl->json) {
        json_number(&json, "executor", info->executor);
        json_number(&json, "uid", info->uid);
        json_number(&json, "workers", info->workers);
        json_string(&json, "error", info->error ? executor_error_text(info->error) : "");
        return json_end(&json);
    }
    if (!t->ctl->quiet && !info->error)
        print_line("executor %u: %u worker%s", info->executor, info->workers, plural(info->workers));
    return 0;
}

static void print_totals(const struct table *t)
{
    print_text("%-10s %-7s %4s %9" PRIu64, "all", "", "", t->run);
    for (size_t i = 0; i < t->n_columns; i++)
        print_text(" %*" PRIu64, t->widths[i], t->totals[i]);
    print_line("%s", "");
}

static int list_workers(struct ctl *ctl, struct wsd_client *client, bool executors)
{
    struct table t = {.ctl = ctl};
    int r = wsd_client_workers(client, executors ? NULL : show_worker, executors ? show_process : show_executor, &t);

    if (r < 0)
        return ctl_client_error(client, "workers", NULL);
    if (r > 0)
        return r;
    if (!ctl->json && !ctl->quiet && t.n_workers > 0)
        print_totals(&t);
    if (!ctl->json && !ctl->quiet && t.n_executors == 0)
        print_line("no executor runs: there is no work");
    return t.n_failed ? CODE_BUSY : 0;
}

static int set_workers(struct ctl *ctl, struct wsd_client *client, uint32_t n)
{
    struct table t = {.ctl = ctl};
    int r = wsd_client_set_workers(client, n, show_set, &t);

    if (r < 0)
        return ctl_client_error(client, "workers set", NULL);
    if (r > 0)
        return r;
    if (!ctl->json && !ctl->quiet)
        print_line("new executors: %u worker%s", n, plural(n));
    return t.n_failed ? CODE_BUSY : 0;
}

int verb_workers(struct ctl *ctl, int argc, char **argv)
{
    static const struct option own[] = {{"executors", no_argument, NULL, 'e'}, {0}};
    struct wsd_client *client = NULL;
    bool executors = false;
    long long n = 0;
    int c, r;

    while ((c = ctl_getopt(ctl, argc, argv, "e", own, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        executors = true;
    }
    if (argc > optind && executors)
        return ctl_error(CODE_USAGE, argv[optind], "--executors only shows: leave it out, or this");
    if (argc > optind && (strcmp(argv[optind], "set") != 0 || argc - optind != 2))
        return ctl_error(CODE_USAGE, "workers", "usage: wsctl workers %s", ctl->verb->usage);
    if (argc > optind && parse_number(argv[optind + 1], 1, WORKERS_MAX, &n) < 0)
        return ctl_error(CODE_USAGE, argv[optind + 1], "not a number of workers; write 1 to %d", WORKERS_MAX);
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    r = n ? set_workers(ctl, client, (uint32_t)n) : list_workers(ctl, client, executors);
    wsd_client_free(client);
    return r ? r : print_end();
}
