/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c: what `wsctl top` says, in lines and in JSON.
 * Owns nothing. One thread.
 * Keeps: a line is printable, whatever is in it; where room is short, each part gets some of it, and what is left out
 * is counted.
 * Does not know terminals: a line has a style, and where it goes is the caller's. */
#include "view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "json-write.h"
#include "print.h"
#include "workers.h"

#define PART_MIN 3u /* lines of a part, where there is room for few */

struct page {
    const struct view *view;
    void (*put)(enum screen_style style, const char *text, void *userdata);
    void *userdata;
    size_t n; /* lines so far */
};

__attribute__((format(printf, 3, 4))) static void line(struct page *p, enum screen_style style, const char *format, ...)
{
    char text[1024], shown[sizeof(text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(shown, sizeof(shown), text);
    p->n++;
    p->put(style, shown, p->userdata);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void draw_summary(struct page *p)
{
    const struct view *v = p->view;
    char clock[16] = "", delay[32], rate[48] = "-";
    time_t now = (time_t)(v->now->real_usec / 1000000);
    struct tm tm;

    if (localtime_r(&now, &tm))
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    if (v->before)
        snprintf(rate, sizeof(rate), "%.1f", look_rate(v->before, v->now, look_ended(v->before, v->now)));
    line(p, SCREEN_BOLD, "%s  %s  every %s%s", v->daemon, clock, duration_text(v->delay_usec, delay, sizeof(delay)),
         v->paused ? "  stopped" : "");
    line(p, SCREEN_PLAIN,
         "%s jobs/s  %" PRIu64 " open: %" PRIu64 " handed to executors, %" PRIu64 " queued  %" PRIu64 " refused", rate,
         look_counter(v->now, "jobs_open"), look_counter(v->now, "jobs_handed_over"),
         look_counter(v->now, "jobs_queued"), look_counter(v->now, "jobs_refused"));
    line(p, SCREEN_PLAIN,
         "%" PRIu64 " succeeded  %" PRIu64 " failed  %" PRIu64 " cancelled  %" PRIu64 " timed out  %" PRIu64
         " crashed  %" PRIu64 " interrupted  %" PRIu64 " connection%s",
         look_counter(v->now, "jobs_succeeded"), look_counter(v->now, "jobs_failed"),
         look_counter(v->now, "jobs_cancelled"), look_counter(v->now, "jobs_timed_out"),
         look_counter(v->now, "jobs_crashed"), look_counter(v->now, "jobs_interrupted"),
         look_counter(v->now, "connections"), plural(look_counter(v->now, "connections")));
    if (v->keys)
        line(p, SCREEN_PLAIN, "q quit  f %s  s sort (%s)  space %s", v->functions ? "jobs" : "functions",
             look_sort_names[v->sort], v->paused ? "go on" : "stop");
}

/* How many of n lines have room, when what comes behind them wants some too. */
static size_t some(const struct page *p, size_t n)
{
    size_t left = p->view->rows > p->n ? p->view->rows - p->n : 0;

    return p->view->rows == 0 ? n : MIN(n, MAX(left / 3, (size_t)PART_MIN));
}

/* Lines of what comes last, without that of its heading. */
static size_t rest(const struct page *p)
{
    const struct view *v = p->view;

    return v->rows == 0 ? v->jobs : v->rows > p->n + 1 ? v->rows - p->n - 1 : 0;
}

static void draw_rest(struct page *p, size_t left_out)
{
    if (left_out > 0)
        line(p, SCREEN_PLAIN, "  and %zu more", left_out);
}

static void draw_executor(struct page *p, const struct look_executor *e)
{
    const struct view *v = p->view;
    const struct look_worker *w = LOOK_AT(v->now->workers, struct look_worker) + e->first;
    char each[640] = "", busy[16] = "-", rate[24] = "-";
    double sum = 0;
    uint64_t run = 0, n_run;
    size_t n = 0, at = 0;

    for (size_t i = 0; i < e->n; i++) {
        double share;

        if (w[i].kind != WSD_WORKER || !v->before)
            continue;
        share = look_busy(v->before, v->now, &w[i], &n_run);
        sum += share;
        run += n_run;
        n++;
        if (at < sizeof(each) - 8)
            at += (size_t)snprintf(each + at, sizeof(each) - at, " %3.0f", share);
    }
    for (size_t i = 0; i < e->n && !v->before; i++)
        n += w[i].kind == WSD_WORKER;
    if (v->before && n > 0) {
        snprintf(busy, sizeof(busy), "%.0f%%", sum / (double)n);
        snprintf(rate, sizeof(rate), "%.1f", look_rate(v->before, v->now, run));
    }
    line(p, SCREEN_PLAIN, "%8u  %-12s %8u %8" PRIu64 " %7zu %5s %12s %s", e->executor, user_name(e->uid), e->pid,
         e->memory >> 20, n, busy, rate, e->error ? executor_error_text(e->error) : each);
}

static void draw_executors(struct page *p)
{
    const struct look_executor *e = LOOK_AT(p->view->now->executors, struct look_executor);
    size_t n = LOOK_N(p->view->now->executors, struct look_executor), room = some(p, n);

    if (n > 0)
        line(p, SCREEN_REVERSE, "%8s  %-12s %8s %8s %7s %5s %12s  %s", "EXECUTOR", "USER", "PID", "MIB", "WORKERS",
             "BUSY", "TASKS/S", "EACH %");
    for (size_t i = 0; i < room; i++)
        draw_executor(p, &e[i]);
    draw_rest(p, n - room);
}

/* The first is everything: it has a line only where there is something to say. */
static void draw_gates(struct page *p)
{
    const struct look_gate *g = LOOK_AT(p->view->now->gates, struct look_gate);
    size_t n = LOOK_N(p->view->now->gates, struct look_gate),
           first = n > 0 && !g->paused && !g->drained && !g->limit ? 1 : 0, room = some(p, n - first);
    char name[192], limit[16];

    if (n > first)
        line(p, SCREEN_REVERSE, "%-32s %8s %8s %8s", "PAUSED OR LIMITED", "LIMIT", "RUNNING", "WAITING");
    for (size_t i = first; i < first + room; i++) {
        const struct wsd_gate_info info = look_gate_info(&g[i]);

        gate_text(&info, name, sizeof(name));
        snprintf(limit, sizeof(limit), g[i].limit ? "%u" : "-", g[i].limit);
        line(p, SCREEN_PLAIN, "%-32s %8s %8" PRIu64 " %8" PRIu64 "  %s%s", name, limit, g[i].running, g[i].waiting,
             g[i].paused ? "paused " : "", g[i].drained ? "drained" : "");
    }
    draw_rest(p, n - first - room);
}

static void draw_users(struct page *p)
{
    const struct look_user *u = LOOK_AT(p->view->now->users, struct look_user);
    size_t n = LOOK_N(p->view->now->users, struct look_user), room = some(p, n);

    if (n > 0)
        line(p, SCREEN_REVERSE, "%-12s %9s %9s %9s", "USER", "RUNNING", "WAITING", "ENDED");
    for (size_t i = 0; i < room; i++)
        line(p, SCREEN_PLAIN, "%-12s %9" PRIu64 " %9" PRIu64 " %9" PRIu64, user_name(u[i].uid), u[i].running,
             u[i].waiting, u[i].ended);
    draw_rest(p, n - room);
}

static void draw_job(struct page *p, const struct look_job *job)
{
    const struct wsd_job_info info = look_job_info(job);
    char id[WSD_ID_TEXT], run[32], cpu[32], progress[16] = "";

    wsd_id_text(&info.id, id);
    if (info.total > 0)
        snprintf(progress, sizeof(progress), "%.0f%%", 100.0 * (double)MIN(info.done, info.total) / (double)info.total);
    line(p, SCREEN_PLAIN, "%s  %-11s %-12s %-8s %10s %10s %5s  %s%s%s", id, wsd_job_state_name(info.state),
         user_name(info.uid), info.worker, duration_text(info.run_usec, run, sizeof(run)),
         duration_text(info.cpu_usec, cpu, sizeof(cpu)), progress, info.plugin, *info.function ? ":" : "",
         info.function);
}

static void draw_jobs(struct page *p)
{
    const struct view *v = p->view;
    const struct look_job *j = LOOK_AT(v->now->jobs, struct look_job);
    size_t n = LOOK_N(v->now->jobs, struct look_job), room = rest(p);

    if (!v->now->listed) {
        line(p, SCREEN_PLAIN, "more than %u jobs: they are not listed, nor counted by user", LOOK_JOBS_MAX);
        return;
    }
    if (n > 0)
        line(p, SCREEN_REVERSE, "%-32s  %-11s %-12s %-8s %10s %10s %5s  %s", "JOB", "STATE", "USER", "WORKER", "RUN",
             "CPU", "DONE", "FUNCTION");
    for (size_t i = 0; i < MIN(n, room); i++)
        draw_job(p, &j[i]);
}

static void draw_function(struct page *p, const struct look_function *f)
{
    char spark[SPARK_LOOKS + 1], queue[32], p50[32], p99[32];

    sparks_text(p->view->sparks, f, spark);
    line(p, SCREEN_PLAIN, "%-32s %-12s %9.1f [%s] %9" PRIu64 " %8" PRIu64 " %10s %10s %10s%s", f->name,
         user_name(f->uid), look_function_rate(p->view->before, p->view->now, f), spark, f->jobs, f->bad,
         duration_text(f->queue_p99, queue, sizeof(queue)), duration_text(f->run_p50, p50, sizeof(p50)),
         duration_text(f->run_p99, p99, sizeof(p99)), f->in_quarantine ? "  in quarantine" : "");
}

static void draw_functions(struct page *p)
{
    const struct view *v = p->view;
    const struct look_function *f = LOOK_AT(v->now->functions, struct look_function);
    size_t n = LOOK_N(v->now->functions, struct look_function), room = rest(p);

    line(p, SCREEN_REVERSE, "%-32s %-12s %9s %-22s %9s %8s %10s %10s %10s", "FUNCTION", "USER", "JOBS/S",
         "[THE LAST LOOKS]", "JOBS", "BAD", "QUEUE P99", "RUN P50", "RUN P99");
    for (size_t i = 0; i < MIN(n, room); i++)
        draw_function(p, &f[i]);
}

void view_draw(const struct view *view, void (*put)(enum screen_style style, const char *text, void *userdata),
               void *userdata)
{
    struct page p = {.view = view, .put = put, .userdata = userdata};

    draw_summary(&p);
    draw_executors(&p);
    draw_gates(&p);
    if (view->functions) {
        draw_functions(&p);
        return;
    }
    draw_users(&p);
    draw_jobs(&p);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_executors(struct json *json, const struct view *v)
{
    const struct look_executor *e = LOOK_AT(v->now->executors, struct look_executor);

    json_open(json, "executors", '[');
    for (size_t i = 0; i < LOOK_N(v->now->executors, struct look_executor); i++) {
        const struct look_worker *w = LOOK_AT(v->now->workers, struct look_worker) + e[i].first;

        json_open(json, NULL, '{');
        json_number(json, "executor", e[i].executor);
        if (e[i].uid != UINT32_MAX) /* else all users share it */
            json_number(json, "uid", e[i].uid);
        json_number(json, "pid", e[i].pid);
        json_number(json, "memory", e[i].memory);
        json_string(json, "error", e[i].error ? executor_error_text(e[i].error) : "");
        json_open(json, "workers", '[');
        for (size_t k = 0; k < e[i].n; k++) {
            uint64_t run;
            double busy = look_busy(v->before, v->now, &w[k], &run);

            json_open(json, NULL, '{');
            json_number(json, "worker", w[k].worker);
            json_string(json, "kind", worker_kind_name(w[k].kind));
            json_real(json, "busy_percent", busy);
            json_real(json, "tasks_per_second", look_rate(v->before, v->now, run));
            json_close(json, '}');
        }
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_gates(struct json *json, const struct look *now)
{
    const struct look_gate *g = LOOK_AT(now->gates, struct look_gate);

    json_open(json, "gates", '[');
    for (size_t i = 0; i < LOOK_N(now->gates, struct look_gate); i++) {
        json_open(json, NULL, '{');
        const struct wsd_gate_info info = look_gate_info(&g[i]);

        json_gate(json, &info);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_users(struct json *json, const struct look *now)
{
    const struct look_user *u = LOOK_AT(now->users, struct look_user);

    json_open(json, "users", '[');
    for (size_t i = 0; i < LOOK_N(now->users, struct look_user); i++) {
        json_open(json, NULL, '{');
        json_number(json, "uid", u[i].uid);
        json_number(json, "running", u[i].running);
        json_number(json, "waiting", u[i].waiting);
        json_number(json, "ended", u[i].ended);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_functions(struct json *json, const struct view *v)
{
    const struct look_function *f = LOOK_AT(v->now->functions, struct look_function);

    json_open(json, "functions", '[');
    for (size_t i = 0; i < LOOK_N(v->now->functions, struct look_function); i++) {
        json_open(json, NULL, '{');
        json_string(json, "name", f[i].name);
        if (f[i].uid != UINT32_MAX)
            json_number(json, "uid", f[i].uid);
        json_real(json, "jobs_per_second", look_function_rate(v->before, v->now, &f[i]));
        json_number(json, "jobs", f[i].jobs);
        json_number(json, "bad", f[i].bad);
        json_number(json, "refused", f[i].refused);
        json_number(json, "queue_p99_usec", f[i].queue_p99);
        json_number(json, "run_p50_usec", f[i].run_p50);
        json_number(json, "run_p99_usec", f[i].run_p99);
        json_bool(json, "in_quarantine", f[i].in_quarantine);
        json_close(json, '}');
    }
    json_close(json, ']');
}

int view_json(const struct view *view)
{
    const struct look *now = view->now, *before = view->before;
    const struct look_counter *c = LOOK_AT(now->counters, struct look_counter);
    const struct look_job *j = LOOK_AT(now->jobs, struct look_job);
    struct json json = {0};

    json_number(&json, "time_usec", now->real_usec);
    json_number(&json, "interval_usec", now->usec - before->usec);
    json_real(&json, "jobs_per_second", look_rate(before, now, look_ended(before, now)));
    json_real(&json, "submitted_per_second", look_rate(before, now, look_growth(before, now, "jobs_submitted")));
    json_open(&json, "counters", '{');
    for (size_t i = 0; i < LOOK_N(now->counters, struct look_counter); i++)
        json_number(&json, c[i].name, c[i].value);
    json_close(&json, '}');
    json_executors(&json, view);
    json_gates(&json, now);
    if (view->functions)
        json_functions(&json, view);
    json_bool(&json, "listed", now->listed);
    json_users(&json, now);
    json_open(&json, "jobs", '[');
    for (size_t i = 0; i < MIN(LOOK_N(now->jobs, struct look_job), view->jobs); i++) {
        struct wsd_job_info info = look_job_info(&j[i]);

        json_open(&json, NULL, '{');
        json_job(&json, &info);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    return json_end(&json);
}
