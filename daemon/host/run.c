/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c: one job as one root task: argv, the service table, the rule about statuses, CPU time.
 * Owns what is in struct host_job; the transport owns what is under it. Everything runs on the workers of the job's
 * tasks; host_current() also in signal handlers.
 * Keeps: finished() is called exactly once for each begun job, after its function and all its tasks have returned. What
 * is told about a job is one line of limited length, free of control characters.
 * Does not choose which job runs, where its bytes go, or what becomes of it. */
#include "host/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <wsd/task.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/escape.h"
#include "host/cputime.h"
#include "host/hooks.h"
#include "pool/trace.h"

#define PRINT_INLINE 1024u
#define ROOM_APART   (64u * 1024u) /* at least, for a reservation of a thread that is no worker */

/* --- the job that this thread works for --------------------------------------------------------------------------- */

static _Thread_local struct {
    struct host_job *job;
    uint64_t since_nsec;
} current __attribute__((tls_model("initial-exec")));

struct host_job *host_current(void)
{
    return current.job;
}

/* Its own thread, when all its children were joined, spares itself the RMW. */
static void charge(struct host_job *job, uint64_t nsec, bool alone)
{
    if (alone)
        atomic_store_explicit(&job->cpu_nsec, atomic_load_explicit(&job->cpu_nsec, memory_order_relaxed) + nsec,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&job->cpu_nsec, nsec, memory_order_relaxed);
}

/* This thread now works for `job` (NULL: none). Charges the CPU time since the last switch to the job before. over: no
 * other thread works for that one. */
static struct host_job *switch_at(struct host_job *job, uint64_t now, bool over)
{
    struct host_job *before = current.job;

    if (before)
        charge(before, now - current.since_nsec, over);
    current.job = job;
    current.since_nsec = now;
    return before;
}

static struct host_job *host_switch(struct host_job *job, uint64_t *ret_wall_nsec)
{
    return switch_at(job, cputime_nsec(ret_wall_nsec), false);
}

/* So that a trace can tell. */
static void tell_subject(struct wsd_worker *self, const struct host_job *job)
{
    struct pool_subject s;

    if (!job) {
        pool_subject(self, NULL);
        return;
    }
    memcpy(s.id, job->id, sizeof(s.id));
    s.name = job->function;
    pool_subject(self, &s);
}

/* Tells the plugin of this thread before any of its code runs here; host_current() gives the job. */
static void tell_plugin(struct wsd_worker *self, const struct host_job *job)
{
    if (job && job->function->has_hooks)
        hooks_start(job->function->plugin, self->index);
}

void host_worker_stop(struct wsd_worker *self, uint32_t index, void *context)
{
    hooks_stop(index);
}

void host_subject_name(const void *name, char *ret, size_t size, void *context)
{
    const struct plugin_function *f = name;

    snprintf(ret, size, "%s:%s", f->plugin->name, f->name);
}

void host_task_enter(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    uint64_t wall;

    host_switch(task_context, &wall);
    cputime_stale();
    tell_subject(self, task_context);
    tell_plugin(self, task_context);
}

void host_task_leave(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    uint64_t wall;

    host_switch(outer, &wall);
    tell_subject(self, outer);
}

uint64_t host_job_cpu_usec(const struct host_job *job)
{
    return atomic_load_explicit(&job->cpu_nsec, memory_order_relaxed) / 1000u;
}

uint64_t host_current_cpu_usec(void)
{
    uint64_t wall;

    return current.job ? host_job_cpu_usec(current.job) + (cputime_nsec(&wall) - current.since_nsec) / 1000u : 0;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* A call of a plugin's. The job does not end before it: because this thread is a worker of it, or because the handle is
 * held. */
struct call {
    struct host_job *job; /* NULL: it is over */
    struct handle *handle;
    bool other; /* by a thread that is no worker of the job */
};

static struct call call_begin(struct wsd_job *public)
{
    struct handle *h = container_of(public, struct handle, job);
    struct host_job *job = current.job;

    if (__builtin_expect(job && job->handle == h, true))
        return (struct call){job, h, false};
    return (struct call){handle_enter(h), h, true};
}

static void call_end(struct call *c)
{
    if (__builtin_expect(c->other && c->job, false))
        handle_leave(c->handle);
}

#define CALL(name, public) __attribute__((cleanup(call_end))) struct call name = call_begin(public)

static void service_vlog(struct wsd_job *public, int level, const char *format, va_list args)
{
    CALL(c, public);
    char text[WSD_TEXT_MAX];

    escape_format(text, format, args);
    if (c.job)
        c.job->transport->message(c.job, level, text);
    else
        handle_says(c.handle, text, strlen(text));
}

enum text { TEXT_ERROR, TEXT_STATUS };

__attribute__((format(printf, 3, 0))) static void set_text(struct wsd_job *public, enum text which, const char *format,
                                                           va_list args)
{
    CALL(c, public);
    char text[WSD_TEXT_MAX];

    escape_format(text, format, args);
    if (!c.job) {
        handle_says(c.handle, text, strlen(text));
        return;
    }
    pthread_mutex_lock(&c.job->text_lock);
    memcpy(which == TEXT_ERROR ? c.job->error : c.job->status, text, sizeof(text));
    pthread_mutex_unlock(&c.job->text_lock);
}

static void service_verror(struct wsd_job *public, const char *format, va_list args)
{
    set_text(public, TEXT_ERROR, format, args);
}

static void service_vstatus(struct wsd_job *public, const char *format, va_list args)
{
    set_text(public, TEXT_STATUS, format, args);
}

/* --- locks -------------------------------------------------------------------------------------------------------- */

void host_lock(pthread_mutex_t *lock)
{
    const uint64_t nsec = POOL_BLOCKS_AFTER_USEC * UINT64_C(1000);
    struct timespec until;

    if (pthread_mutex_trylock(lock) == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_timedlock(lock, &until) == 0)
        return;
    pool_blocking_begin();
    pthread_mutex_lock(lock);
    pool_blocking_end();
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* [lock output_lock] */
static int append(struct host_job *job, const char *from, size_t size)
{
    while (size > 0) {
        size_t n = job->transport->pass ? job->transport->pass(job, from, size) : 0;
        if (n > 0) {
            from += n;
            size -= n;
            continue;
        }
        void *room = job->transport->reserve(job, 1, &n);
        if (!room) {
            job->output_lost = true;
            return -ECANCELED;
        }
        n = MIN(n, size);
        copy_away(room, from, n);
        job->transport->commit(job, n);
        from += n;
        size -= n;
    }
    return 0;
}

/* Where the job is over when that thread writes there, it must not be another one's output. [lock output_lock] */
static void *reserve_apart(struct handle *h, size_t min, size_t *ret_size)
{
    if (h->room_size < min) {
        free(h->room);
        h->room_size = MAX(min, (size_t)ROOM_APART);
        h->room = malloc(h->room_size);
        h->room_size = h->room ? h->room_size : 0;
    }
    *ret_size = h->room_size;
    return h->room;
}

static void *service_reserve(struct wsd_job *public, size_t min, size_t *ret_size)
{
    CALL(c, public);
    struct host_job *job = c.job;
    size_t size = 0;

    if (min > WSD_RESERVE_MAX || !job)
        return NULL;
    host_lock(&job->output_lock);
    void *room =
        c.other ? reserve_apart(c.handle, MAX(min, 1u), &size) : job->transport->reserve(job, MAX(min, 1u), &size);
    job->reserved = room ? size : 0;
    c.handle->in_room = c.other;
    job->output_lost |= !room;
    pthread_mutex_unlock(&job->output_lock);
    if (room)
        *ret_size = size;
    return room;
}

static int service_commit(struct wsd_job *public, size_t size)
{
    CALL(c, public);
    struct host_job *job = c.job;
    int r = 0;

    if (!job)
        return -ECANCELED;
    host_lock(&job->output_lock);
    if (size > job->reserved)
        r = -EINVAL;
    else if (c.handle->in_room)
        r = append(job, c.handle->room, size);
    else if (size > 0)
        job->transport->commit(job, size);
    if (r == 0)
        job->reserved = 0;
    pthread_mutex_unlock(&job->output_lock);
    return r;
}

static int service_write(struct wsd_job *public, const void *data, size_t size)
{
    CALL(c, public);

    if (!c.job) {
        handle_says(c.handle, data, size);
        return -ECANCELED;
    }
    host_lock(&c.job->output_lock);
    c.job->reserved = 0;
    int r = append(c.job, data, size);
    pthread_mutex_unlock(&c.job->output_lock);
    return r;
}

static int service_flush(struct wsd_job *public)
{
    CALL(c, public);

    if (!c.job)
        return -ECANCELED;
    host_lock(&c.job->output_lock);
    c.job->reserved = 0;
    int r = c.job->transport->flush(c.job);
    pthread_mutex_unlock(&c.job->output_lock);
    return r;
}

static int service_vprint(struct wsd_job *public, const char *format, va_list args)
{
    char text[PRINT_INLINE];
    va_list again;

    va_copy(again, args);
    int n = vsnprintf(text, sizeof(text), format, args);
    if (n >= (int)sizeof(text)) {
        _cleanup_(freep) char *large = malloc((size_t)n + 1);
        if (large)
            vsnprintf(large, (size_t)n + 1, format, again);
        va_end(again);
        return large ? service_write(public, large, (size_t)n) : -ENOMEM;
    }
    va_end(again);
    return n < 0 ? -EINVAL : service_write(public, text, (size_t)n);
}

/* --- the rest of the services ------------------------------------------------------------------------------------- */

static int64_t service_read(struct wsd_job *public, void *data, size_t size)
{
    CALL(c, public);
    struct host_job *job = c.job;

    if (!job)
        return -ECANCELED;
    if (size == 0)
        return 0;
    if (!job->input)
        return job->transport->read(job, data, MIN(size, (size_t)INT64_MAX));
    size = MIN(size, job->input_size - job->read_at);
    memcpy(data, (const char *)job->input + job->read_at, size);
    job->read_at += size;
    return (int64_t)size;
}

static int service_open(struct wsd_job *public, const char *path)
{
    CALL(c, public);

    return !c.job ? -ECANCELED : *path ? c.job->transport->open(c.job, path) : -ENOENT;
}

static const char *service_directory(struct wsd_job *public)
{
    CALL(c, public);

    return c.job ? c.job->transport->directory(c.job) : NULL;
}

static const char *service_traceparent(struct wsd_job *public)
{
    CALL(c, public);

    return c.job ? c.job->traceparent : NULL;
}

static int service_command(struct wsd_job *public, const struct wsd_command *command)
{
    CALL(c, public);

    if (!c.job)
        return -ECANCELED;
    const struct host_transport *t = c.job->transport;
    return !t->directory(c.job) ? -EPERM : !t->command ? -ENOSYS : t->command(c.job, command);
}

/* What it was told holds at its end, too, whatever the clock says there. */
static bool is_late(struct host_job *job)
{
    if (job->deadline_usec == 0 || clock_monotonic_usec() < job->deadline_usec)
        return false;
    atomic_store_explicit(&job->late, true, memory_order_relaxed);
    return true;
}

bool host_job_cancelled(struct host_job *job)
{
    return atomic_load_explicit(job->cancel, memory_order_relaxed) != 0 || is_late(job);
}

static bool service_cancelled(struct wsd_job *public)
{
    CALL(c, public);

    return !c.job || host_job_cancelled(c.job);
}

static void service_progress(struct wsd_job *public, uint64_t done, uint64_t total)
{
    CALL(c, public);

    if (c.job)
        c.job->transport->progress(c.job, done, total);
}

static const struct wsd_job_ops services = {
    .size = sizeof(struct wsd_job_ops),
    .reserve = service_reserve,
    .commit = service_commit,
    .write = service_write,
    .flush = service_flush,
    .read = service_read,
    .open = service_open,
    .directory = service_directory,
    .cancelled = service_cancelled,
    .progress = service_progress,
    .vlog = service_vlog,
    .verror = service_verror,
    .vstatus = service_vstatus,
    .vprint = service_vprint,
    .command = service_command,
    .traceparent = service_traceparent,
};
_Static_assert(offsetof(struct wsd_job_ops, traceparent) + sizeof(services.traceparent) == sizeof(services),
               "each service is here");

/* --- one job ------------------------------------------------------------------------------------------------------ */

void host_job_init(struct host_job *job)
{
    memset(job, 0, sizeof(*job));
    pthread_mutex_init(&job->output_lock, NULL);
    pthread_mutex_init(&job->text_lock, NULL);
}

/* The next job gets a handle of its own. */
static void retire(struct host_job *job)
{
    handle_retire(job->handle, job->function ? job->function->plugin->name : "",
                  job->function ? job->function->name : "");
    job->handle = NULL;
}

void host_job_deinit(struct host_job *job)
{
    retire(job);
    pthread_mutex_destroy(&job->output_lock);
    pthread_mutex_destroy(&job->text_lock);
}

/* argv points into the caller's bytes: nothing is copied. The count and the last NUL are checked, so no argument
 * reaches beyond them. */
static int fill_argv(struct host_job *job, const struct host_request *q)
{
    const char *at = q->args, *end = q->args_size ? q->args + q->args_size : q->args;
    uint32_t n = 1;

    /* An argument is at least its NUL, so argc is bounded by args_size before anything is allocated. */
    if (q->argc > q->args_size || (q->args_size > 0 && end[-1] != 0))
        return -EINVAL;
    job->argv = job->argv_inline;
    if (q->argc + 2u > HOST_ARGV_INLINE) {
        const char **large = calloc(q->argc + 2u, sizeof(*large));
        if (!large)
            return -ENOMEM;
        job->argv = large;
    }
    job->argv[0] = q->function->name;
    for (; n <= q->argc && at < end; n++) {
        job->argv[n] = at;
        at += strnlen(at, (size_t)(end - at)) + 1;
    }
    if (n != q->argc + 1 || at != end)
        return -EINVAL;
    job->argv[n] = NULL;
    return 0;
}

int host_job_begin(struct host_job *job, const struct host_request *q)
{
    bool streaming = q->function && q->function->flags & WSD_FN_STREAMING;

    job->transport = q->transport;
    job->function = q->function;
    job->cancel = q->cancel;
    job->reserved = 0;
    job->output_lost = false;
    atomic_store_explicit(&job->late, false, memory_order_relaxed);
    job->error[0] = job->status[0] = 0;
    atomic_store_explicit(&job->cpu_nsec, 0, memory_order_relaxed);
    job->input = q->input;
    job->input_size = q->input ? q->input_size : 0;
    job->read_at = 0;
    job->started_usec = job->ended_usec = q->started_usec ? q->started_usec : clock_monotonic_usec();
    job->exit = 0;
    job->argv = NULL;
    job->deadline_usec = q->deadline_usec;
    job->traceparent = q->traceparent;
    if (q->id)
        memcpy(job->id, q->id, sizeof(job->id));
    else
        memset(job->id, 0, sizeof(job->id));
    if (!q->function) {
        snprintf(job->error, sizeof(job->error), "no such function");
        return -EINVAL;
    }
    if (!job->handle)
        job->handle = handle_new(job);
    int r = job->handle ? fill_argv(job, q) : -ENOMEM;
    if (r < 0) {
        snprintf(job->error, sizeof(job->error), "%s", r == -ENOMEM ? "out of memory" : "malformed arguments");
        return r;
    }
    job->handle->in_room = false;
    job->handle->job = (struct wsd_job){
        .size = sizeof(struct wsd_job),
        .argc = q->argc + 1,
        .argv = job->argv,
        .input = streaming ? NULL : q->input,
        .input_size = streaming || !q->input ? 0 : q->input_size,
        .deadline_usec = q->deadline_usec,
        .ops = &services,
    };
    memcpy(job->handle->job.id, job->id, sizeof(job->id));
    return 0;
}

static void finish_job(struct host_job *job, struct wsd_worker *self)
{
    if (job->argv != job->argv_inline)
        free(job->argv);
    job->argv = NULL;
    if (job->exit == 0)
        job->error[0] = 0; /* an error goes with a status of 1 to 63 */
    job->transport->finished(job, self);
}

static uint64_t ended_usec(struct host_job *job, uint64_t wall_nsec)
{
    uint64_t least = atomic_load_explicit(&job->late, memory_order_relaxed) ? job->deadline_usec : job->started_usec;

    return MAX(wall_nsec / 1000u, least);
}

void host_job_run(struct host_job *job, struct wsd_worker *self)
{
    struct wsd_task *top = self->top;
    void *context = self->context;
    uint64_t wall_nsec;

    self->context = job; /* stolen children inherit it */
    struct host_job *outer = switch_at(job, cputime_at(cputime_recent_nsec()), false);
    tell_subject(self, job);
    tell_plugin(self, job);
    cputime_stale();
    int status = job->function->run(&job->handle->job, self);
    if (self->top != top) {
        /* Its children would run on in memory that is gone. End the process while the job at fault is still known. */
        dprintf(STDERR_FILENO, "wsd: function %s returned without joining its tasks\n", job->function->name);
        abort();
    }
    if (__builtin_expect(handle_is_lent(job->handle), false))
        retire(job); /* calls of a thread that it has left reach neither this job nor the next */
    switch_at(outer, cputime_nsec(&wall_nsec), true);
    job->ended_usec = ended_usec(job, wall_nsec);
    self->context = context;
    if (status < 0 || status > WSD_STATUS_MAX) {
        snprintf(job->error, sizeof(job->error), "returned %d, which is not a status", status);
        status = WSD_STATUS_MAX;
    }
    /* A part of the output must never pass for all of it. */
    if (status == 0 && job->output_lost) {
        snprintf(job->error, sizeof(job->error), "cancelled: its output is not whole");
        status = WSD_STATUS_MAX;
    }
    job->exit = status;
    finish_job(job, self);
}

void host_job_fail(struct host_job *job, struct wsd_worker *self, const char *format, ...)
{
    uint64_t wall_nsec;
    va_list args;

    if (format) {
        va_start(args, format);
        escape_format(job->error, format, args);
        va_end(args);
    }
    cputime_nsec(&wall_nsec);
    job->exit = WSD_STATUS_MAX;
    job->ended_usec = ended_usec(job, wall_nsec);
    finish_job(job, self);
}
