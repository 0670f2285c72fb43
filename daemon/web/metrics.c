/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c: metrics by Prometheus' conventions: base units, `_total` behind counters, one family behind the other.
 * Owns nothing. */
#include "web/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

struct text {
    struct buffer *to;
    bool openmetrics, failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...)
{
    char line[1024];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(line) || buffer_put(t->to, line, (size_t)n) < 0)
        t->failed = true;
}

/* The value of a label, with its escapes. */
static void put_label(struct text *t, const char *name, const char *value, char before)
{
    put(t, "%c%s=\"", before, name);
    for (const char *c = value; *c; c++)
        put(t, *c == '\n' ? "\\n" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    put(t, "\"");
}

/* The name of a counter is without `_total` here. OpenMetrics names the family so, too. */
static void family(struct text *t, const char *name, bool counter, const char *help)
{
    const char *total = counter && !t->openmetrics ? "_total" : "";

    put(t, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, total, help, name, total, counter ? "counter" : "gauge");
}

/* Each is a counter of `wsctl stats`. Those of one family stand together; the first has its help. */
static const struct metric {
    const char *counter, *name;
    bool is_counter;
    const char *outcome, *help;
    double scale;
} metrics[] = {
    {"jobs_submitted", "wsd_jobs_submitted", true, NULL, "Jobs that wsd has accepted.", 1},
    {"jobs_refused", "wsd_jobs_refused", true, NULL, "Jobs that wsd has refused.", 1},
    {"jobs_succeeded", "wsd_jobs", true, "succeeded", "Jobs that have ended, by outcome.", 1},
    {"jobs_failed", "wsd_jobs", true, "failed", NULL, 1},
    {"jobs_cancelled", "wsd_jobs", true, "cancelled", NULL, 1},
    {"jobs_timed_out", "wsd_jobs", true, "timed-out", NULL, 1},
    {"jobs_crashed", "wsd_jobs", true, "crashed", NULL, 1},
    {"jobs_interrupted", "wsd_jobs", true, "interrupted", NULL, 1},
    {"jobs_run_again", "wsd_jobs_run_again", true, NULL, "Jobs that ran again, as their executor had died.", 1},
    {"jobs_tried_again", "wsd_jobs_tried_again", true, NULL, "Jobs that ran again, as they are to be retried.", 1},
    {"direct_calls", "wsd_direct_calls", true, NULL, "Calls by direct lanes.", 1},
    {"direct_cpu_usec", "wsd_direct_cpu_seconds", true, NULL, "CPU time of calls by direct lanes.", 1e-6},
    {"executors_started", "wsd_executors_started", true, NULL, "Executors that were started.", 1},
    {"executors_died", "wsd_executors_died", true, NULL, "Executors that have died.", 1},
    {"jobs_open", "wsd_jobs_open", false, NULL, "Jobs that have not ended.", 1},
    {"jobs_queued", "wsd_jobs_queued", false, NULL, "Jobs that wait for a worker.", 1},
    {"jobs_handed_over", "wsd_jobs_handed_over", false, NULL, "Jobs that executors have.", 1},
    {"jobs_dead", "wsd_jobs_dead", false, NULL, "Durable jobs that are out of retries.", 1},
    {"queue_oldest_usec", "wsd_queue_oldest_seconds", false, NULL, "Time that the oldest queued job has waited.", 1e-6},
    {"store_commits", "wsd_store_commits", true, NULL, "Transactions of the store.", 1},
    {"store_commit_usec", "wsd_store_commit_seconds", true, NULL, "Time of the store's transactions.", 1e-6},
    {"results_kept", "wsd_results_kept", false, NULL, "Ends that are kept for whoever asks.", 1},
    {"store_bytes", "wsd_store_bytes", false, NULL, "Size of the store of durable jobs.", 1},
    {"bytes_charged", "wsd_charged_bytes", false, NULL, "Memory that jobs are charged for.", 1},
    {"executors", "wsd_executors", false, NULL, "Executors that run.", 1},
    {"runners", "wsd_runners", false, NULL, "Runners that are connected.", 1},
    {"connections", "wsd_connections", false, NULL, "Connections of clients.", 1},
    {"direct_lanes", "wsd_direct_lanes", false, NULL, "Direct lanes that are open.", 1},
};

static void put_counters(struct text *t, const json_t *counters)
{
    const char *last = "";

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        const struct metric *m = &metrics[i];
        const json_t *value = json_object_get(counters, m->counter);

        if (!value)
            continue; /* of another version of wsd */
        if (strcmp(m->name, last) != 0)
            family(t, m->name, m->is_counter, m->help ? m->help : "Jobs that have ended, by outcome.");
        last = m->name;
        put(t, "%s%s", m->name, m->is_counter ? "_total" : "");
        if (m->outcome) {
            put_label(t, "outcome", m->outcome, '{');
            put(t, "}");
        }
        if (m->scale == 1)
            put(t, " %" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
        else
            put(t, " %.6f\n", (double)json_integer_value(value) * m->scale);
    }
}

/* Counters of a worker, each a family. */
static const struct {
    const char *counter, *name, *help;
    double scale;
} of_workers[] = {
    {"roots", "wsd_worker_jobs", "Jobs that a worker has begun.", 1},
    {"stolen", "wsd_worker_stolen_tasks", "Tasks that a worker has stolen.", 1},
    {"cpu_usec", "wsd_worker_cpu_seconds", "CPU time of a worker.", 1e-6},
};

static void put_worker(struct text *t, const json_t *w, size_t which)
{
    const json_t *value = json_object_get(json_object_get(w, "counters"), of_workers[which].counter);

    if (!value)
        return;
    put(t, "%s_total{executor=\"%" JSON_INTEGER_FORMAT "\",worker=\"%" JSON_INTEGER_FORMAT "\"} ",
        of_workers[which].name, json_integer_value(json_object_get(w, "executor")),
        json_integer_value(json_object_get(w, "worker")));
    if (of_workers[which].scale == 1)
        put(t, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        put(t, "%.6f\n", (double)json_integer_value(value) * of_workers[which].scale);
}

static void put_workers(struct text *t, const json_t *workers)
{
    for (size_t which = 0; json_array_size(workers) && which < ARRAY_SIZE(of_workers); which++) {
        family(t, of_workers[which].name, true, of_workers[which].help);
        for (size_t i = 0; i < json_array_size(workers); i++)
            put_worker(t, json_array_get(workers, i), which);
    }
}

static void put_labels(struct text *t, const json_t *f)
{
    static const char *const names[] = {"plugin", "function", "user"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = json_string_value(json_object_get(f, names[i]));

        put_label(t, names[i], value ? value : "", i == 0 ? '{' : ',');
    }
}

static void put_function_outcomes(struct text *t, const json_t *f)
{
    static const char *const outcomes[][2] = {{"succeeded", "succeeded"}, {"failed", "failed"},
                                              {"cancelled", "cancelled"}, {"timed_out", "timed-out"},
                                              {"crashed", "crashed"},     {"interrupted", "interrupted"}};

    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
        put(t, "wsd_function_jobs_total");
        put_labels(t, f);
        put_label(t, "outcome", outcomes[i][1], ',');
        put(t, "} %" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(f, outcomes[i][0])));
    }
}

static void put_histogram(struct text *t, const char *name, const json_t *f, const char *key)
{
    const json_t *h = json_object_get(f, key), *below = json_object_get(h, "below");
    json_int_t count = json_integer_value(json_object_get(h, "count"));

    for (uint32_t bound = 0; bound < METRICS_BOUNDS; bound++) {
        put(t, "%s_bucket", name);
        put_labels(t, f);
        put(t, ",le=\"%g\"} %" JSON_INTEGER_FORMAT "\n", (double)METRICS_BOUND_USEC(bound) * 1e-6,
            json_integer_value(json_array_get(below, bound)));
    }
    put(t, "%s_bucket", name);
    put_labels(t, f);
    put(t, ",le=\"+Inf\"} %" JSON_INTEGER_FORMAT "\n%s_sum", count, name);
    put_labels(t, f);
    put(t, "} %.6f\n%s_count", (double)json_integer_value(json_object_get(h, "sum")) * 1e-6, name);
    put_labels(t, f);
    put(t, "} %" JSON_INTEGER_FORMAT "\n", count);
}

static void put_functions(struct text *t, const json_t *functions)
{
    static const struct {
        const char *name, *key, *help;
    } histograms[] = {
        {"wsd_function_queue_seconds", "queue_usec", "Time from submit to begin, of jobs that have run."},
        {"wsd_function_run_seconds", "run_usec", "Time that jobs ran."},
    };
    size_t n = json_array_size(functions);

    if (n == 0)
        return;
    family(t, "wsd_function_jobs", true, "Jobs that have ended, by function, user and outcome.");
    for (size_t i = 0; i < n; i++)
        put_function_outcomes(t, json_array_get(functions, i));
    family(t, "wsd_function_quarantined", false, "Whether new jobs of a function are refused, as it has crashed.");
    for (size_t i = 0; i < n; i++) {
        put(t, "wsd_function_quarantined");
        put_labels(t, json_array_get(functions, i));
        put(t, "} %d\n", json_is_true(json_object_get(json_array_get(functions, i), "in_quarantine")));
    }
    family(t, "wsd_function_cpu_seconds", true, "CPU time of jobs.");
    for (size_t i = 0; i < n; i++) {
        const json_t *f = json_array_get(functions, i);

        put(t, "wsd_function_cpu_seconds_total");
        put_labels(t, f);
        put(t, "} %.6f\n", (double)json_integer_value(json_object_get(json_object_get(f, "cpu_usec"), "sum")) * 1e-6);
    }
    for (size_t h = 0; h < ARRAY_SIZE(histograms); h++) {
        put(t, "# HELP %s %s\n# TYPE %s histogram\n", histograms[h].name, histograms[h].help, histograms[h].name);
        for (size_t i = 0; i < n; i++)
            put_histogram(t, histograms[h].name, json_array_get(functions, i), histograms[h].key);
    }
}

static const struct {
    const char *key, *name, *help;
    double scale;
} of_executors[] = {
    {"memory", "wsd_executor_resident_bytes", "Resident memory that is an executor's own.", 1},
    {"descriptors", "wsd_executor_open_fds", "Descriptors that an executor has open.", 1},
    {"age_usec", "wsd_executor_age_seconds", "Time since an executor was started.", 1e-6},
};

static void put_executors(struct text *t, const json_t *executors)
{
    for (size_t which = 0; json_array_size(executors) && which < ARRAY_SIZE(of_executors); which++) {
        family(t, of_executors[which].name, false, of_executors[which].help);
        for (size_t i = 0; i < json_array_size(executors); i++) {
            const json_t *e = json_array_get(executors, i);
            const char *user = json_string_value(json_object_get(e, "user"));

            put(t, "%s{executor=\"%" JSON_INTEGER_FORMAT "\"", of_executors[which].name,
                json_integer_value(json_object_get(e, "executor")));
            put_label(t, "user", user ? user : "", ',');
            put(t, "} %.6g\n",
                (double)json_integer_value(json_object_get(e, of_executors[which].key)) * of_executors[which].scale);
        }
    }
}

/* Of this process, by the names that Prometheus' own libraries use. */
static void put_process(struct text *t)
{
    struct rusage used = {0};
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f && fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    (void)getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    family(t, "process_cpu_seconds", true, "CPU time of wsd-web.");
    put(t, "process_cpu_seconds_total %.6f\n", cpu);
    family(t, "process_resident_memory_bytes", false, "Resident memory of wsd-web.");
    put(t, "process_resident_memory_bytes %lu\n", pages * (unsigned long)sysconf(_SC_PAGESIZE));
}

int metrics_write(struct buffer *to, const json_t *look, bool openmetrics)
{
    struct text t = {.to = to, .openmetrics = openmetrics};
    const char *version = json_string_value(json_object_get(look, "wsd"));

    family(&t, "wsd_up", false, "Whether wsd answers.");
    put(&t, "wsd_up %d\n", look != NULL);
    if (look) {
        family(&t, "wsd_info", false, "The version of wsd.");
        put(&t, "wsd_info");
        put_label(&t, "version", version ? version : "", '{');
        put(&t, "} 1\n");
        put_counters(&t, json_object_get(look, "counters"));
        put_functions(&t, json_object_get(look, "functions"));
        put_workers(&t, json_object_get(json_object_get(look, "pool"), "workers"));
        put_executors(&t, json_object_get(json_object_get(look, "pool"), "executors"));
    }
    put_process(&t);
    if (openmetrics)
        put(&t, "# EOF\n");
    return t.failed ? -ENOMEM : 0;
}
