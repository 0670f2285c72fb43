/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c: what `wsctl top` sees: one look, and the difference of two.
 * Owns copies: nothing of the library's is kept. One thread.
 * Does not draw (view.c). */
#include "look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "print.h"
#include "workers.h"

const char *const look_sort_names[] = {"run", "cpu", "new"};

static int append_item(struct buffer *array, const void *item, size_t size)
{
    return buffer_put(array, item, size) < 0 ? 1 : 0; /* ends the listing */
}

static void copy_text(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text);
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    struct look_counter c = {.value = value};

    copy_text(c.name, sizeof(c.name), name);
    return append_item(&((struct look *)userdata)->counters, &c, sizeof(c));
}

static int on_worker(const struct wsd_worker_info *info, void *userdata)
{
    struct look_worker w = {.executor = info->executor,
                            .worker = info->worker,
                            .kind = info->kind,
                            .run = worker_run(info),
                            .cpu_usec = worker_counter(info, "cpu_usec")};

    return append_item(&((struct look *)userdata)->workers, &w, sizeof(w));
}

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct look *look = userdata;
    const size_t n = LOOK_N(look->workers, struct look_worker), before = LOOK_N(look->executors, struct look_executor);
    const struct look_executor *last = before ? &LOOK_AT(look->executors, struct look_executor)[before - 1] : NULL;
    struct look_executor e = {
        .executor = info->executor, .uid = info->uid, .pid = info->pid, .memory = info->memory, .error = info->error};

    e.first = last ? last->first + last->n : 0; /* each comes behind its workers */
    e.n = n - e.first;
    return append_item(&look->executors, &e, sizeof(e));
}

static int on_gate(const struct wsd_gate_info *info, void *userdata)
{
    struct look_gate g = {.paused = info->paused,
                          .drained = info->drained,
                          .limit = info->limit,
                          .running = info->running,
                          .waiting = info->waiting};

    copy_text(g.plugin, sizeof(g.plugin), info->plugin);
    copy_text(g.function, sizeof(g.function), info->function);
    copy_text(g.tag, sizeof(g.tag), info->tag);
    return append_item(&((struct look *)userdata)->gates, &g, sizeof(g));
}

static int count_for_user(struct look *look, const struct wsd_job_info *info)
{
    struct look_user fresh = {.uid = info->uid}, *user = LOOK_AT(look->users, struct look_user);
    size_t n = LOOK_N(look->users, struct look_user), i = 0;

    while (i < n && user[i].uid != info->uid)
        i++;
    if (i == n && append_item(&look->users, &fresh, sizeof(fresh)) != 0)
        return 1;
    user = LOOK_AT(look->users, struct look_user) + i;
    user->running += info->state == WSD_JOB_RUNNING;
    user->ended += info->state >= WSD_JOB_SUCCEEDED;
    user->waiting += info->state < WSD_JOB_RUNNING;
    return 0;
}

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    struct look *look = userdata;
    struct look_job job = {.info = *info};

    copy_text(job.plugin, sizeof(job.plugin), info->plugin);
    copy_text(job.function, sizeof(job.function), info->function);
    copy_text(job.worker, sizeof(job.worker), info->worker);
    copy_text(job.error, sizeof(job.error), info->error);
    return append_item(&look->jobs, &job, sizeof(job)) || count_for_user(look, info) ? 1 : 0;
}

static int on_function(const struct wsd_function_stats *s, void *userdata)
{
    struct look_function f = {.uid = s->uid,
                              .bad = s->failed + s->cancelled + s->timed_out + s->crashed + s->interrupted,
                              .refused = s->refused,
                              .queue_p99 = wsd_histogram_quantile(&s->queue_usec, 0.99),
                              .run_p50 = wsd_histogram_quantile(&s->run_usec, 0.5),
                              .run_p99 = wsd_histogram_quantile(&s->run_usec, 0.99),
                              .in_quarantine = s->in_quarantine};

    f.jobs = s->succeeded + f.bad;
    snprintf(f.name, sizeof(f.name), *s->plugin ? "%s:%s" : "(others)", s->plugin, s->function);
    return append_item(&((struct look *)userdata)->functions, &f, sizeof(f));
}

int look_take(struct look *ret, struct wsd_client *client, bool functions)
{
    int r;

    *ret = (struct look){.real_usec = clock_realtime_usec()};
    r = wsd_client_stats(client, on_counter, ret);
    if (r == 0)
        r = wsd_client_gates(client, on_gate, ret);
    ret->listed = r == 0 && look_counter(ret, "jobs_open") + look_counter(ret, "results_kept") <= LOOK_JOBS_MAX;
    if (ret->listed)
        r = wsd_client_list(client, on_job, ret);
    if (r == 0) {
        r = wsd_client_workers(client, on_worker, on_executor, ret);
        if (r == -EAGAIN) /* too much is asked of the executors just now: the next look has them */
            r = 0;
    }
    ret->has_functions = functions;
    if (r == 0 && functions)
        r = wsd_client_functions(client, NULL, on_function, ret);
    ret->usec = clock_monotonic_usec(); /* that of the workers: their shares are of the time between */
    return r > 0 ? -ENOMEM : r;
}

void look_deinit(struct look *look)
{
    struct buffer *const arrays[] = {&look->counters, &look->executors, &look->workers,  &look->gates,
                                     &look->jobs,     &look->users,     &look->functions};

    for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
        buffer_deinit(arrays[i]);
}

/* --- what two looks tell ------------------------------------------------------------------------------------------ */

uint64_t look_counter(const struct look *look, const char *name)
{
    const struct look_counter *c = LOOK_AT(look->counters, struct look_counter);

    for (size_t i = 0; i < LOOK_N(look->counters, struct look_counter); i++)
        if (strcmp(c[i].name, name) == 0)
            return c[i].value;
    return 0;
}

static uint64_t grown(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

uint64_t look_growth(const struct look *before, const struct look *now, const char *name)
{
    return grown(look_counter(before, name), look_counter(now, name));
}

uint64_t look_ended(const struct look *before, const struct look *now)
{
    static const char *const ends[] = {"jobs_succeeded", "jobs_failed",  "jobs_cancelled",
                                       "jobs_timed_out", "jobs_crashed", "jobs_interrupted"};
    uint64_t sum = 0;

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        sum += look_growth(before, now, ends[i]);
    return sum;
}

double look_rate(const struct look *before, const struct look *now, uint64_t growth)
{
    return now->usec > before->usec ? (double)growth * 1e6 / (double)(now->usec - before->usec) : 0;
}

double look_busy(const struct look *before, const struct look *now, const struct look_worker *worker, uint64_t *ret_run)
{
    const struct look_worker *w = LOOK_AT(before->workers, struct look_worker), none = {.executor = 0}, *was = &none;
    double share;

    for (size_t i = 0; i < LOOK_N(before->workers, struct look_worker); i++)
        if (w[i].executor == worker->executor && w[i].worker == worker->worker)
            was = &w[i];
    *ret_run = grown(was->run, worker->run);
    share = look_rate(before, now, grown(was->cpu_usec, worker->cpu_usec)) / 1e4;
    return MIN(share, 100.0);
}

double look_function_rate(const struct look *before, const struct look *now, const struct look_function *f)
{
    const struct look_function *was = before ? LOOK_AT(before->functions, struct look_function) : NULL;

    for (size_t i = 0; was && i < LOOK_N(before->functions, struct look_function); i++)
        if (was[i].uid == f->uid && strcmp(was[i].name, f->name) == 0)
            return look_rate(before, now, grown(was[i].jobs, f->jobs));
    return before && before->has_functions ? look_rate(before, now, f->jobs) : 0;
}

struct wsd_job_info look_job_info(const struct look_job *job)
{
    struct wsd_job_info info = job->info;

    job_clear_texts(&info);
    info.plugin = job->plugin;
    info.function = job->function;
    info.worker = job->worker;
    info.error = job->error;
    return info;
}

struct wsd_gate_info look_gate_info(const struct look_gate *gate)
{
    return (struct wsd_gate_info){.size = sizeof(struct wsd_gate_info),
                                  .plugin = gate->plugin,
                                  .function = gate->function,
                                  .tag = gate->tag,
                                  .paused = gate->paused,
                                  .drained = gate->drained,
                                  .limit = gate->limit,
                                  .running = gate->running,
                                  .waiting = gate->waiting};
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int less_first(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_new(const void *a, const void *b)
{
    const struct wsd_job_info *x = &((const struct look_job *)a)->info, *y = &((const struct look_job *)b)->info;
    int r = less_first(y->submitted_usec, x->submitted_usec);

    return r ? r : memcmp(y->id.bytes, x->id.bytes, sizeof(x->id.bytes)); /* as it was at the look before */
}

static int open_first(const void *a, const void *b, uint64_t of_a, uint64_t of_b)
{
    const struct wsd_job_info *x = &((const struct look_job *)a)->info, *y = &((const struct look_job *)b)->info;
    bool x_ended = x->state >= WSD_JOB_SUCCEEDED, y_ended = y->state >= WSD_JOB_SUCCEEDED;

    if (x_ended != y_ended)
        return x_ended ? 1 : -1;
    int r = x_ended ? 0 : less_first(of_b, of_a);
    return r ? r : by_new(a, b);
}

static int by_run(const void *a, const void *b)
{
    return open_first(a, b, ((const struct look_job *)a)->info.run_usec, ((const struct look_job *)b)->info.run_usec);
}

static int by_cpu(const void *a, const void *b)
{
    return open_first(a, b, ((const struct look_job *)a)->info.cpu_usec, ((const struct look_job *)b)->info.cpu_usec);
}

void look_sort(struct look *look, enum look_sort by)
{
    size_t n = LOOK_N(look->jobs, struct look_job);

    if (n > 1)
        qsort(LOOK_AT(look->jobs, struct look_job), n, sizeof(struct look_job),
              by == LOOK_BY_RUN   ? by_run
              : by == LOOK_BY_CPU ? by_cpu
                                  : by_new);
}

struct ranked {
    double rate;
    struct look_function function;
};

static int by_rate(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rate != y->rate)
        return x->rate > y->rate ? -1 : 1;
    int r = less_first(y->function.jobs, x->function.jobs);
    return r ? r : strcmp(x->function.name, y->function.name);
}

void look_sort_functions(struct look *now, const struct look *before)
{
    struct look_function *f = LOOK_AT(now->functions, struct look_function);
    size_t n = LOOK_N(now->functions, struct look_function);
    _cleanup_(freep) struct ranked *ranked = n ? calloc(n, sizeof(*ranked)) : NULL;

    for (size_t i = 0; ranked && i < n; i++)
        ranked[i] = (struct ranked){look_function_rate(before, now, &f[i]), f[i]};
    if (ranked)
        qsort(ranked, n, sizeof(*ranked), by_rate);
    for (size_t i = 0; ranked && i < n; i++)
        f[i] = ranked[i].function;
}
