/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c: one job in this process: a pool, the host, and callbacks for a transport.
 * Owns everything of the run, on the heap: a job that does not heed its timeout keeps it when the caller goes on.
 * Called on one thread; the callbacks come from workers, one at a time, under callback_lock.
 * Keeps: no callback after wsctl_local_run() has returned.
 * Does not survive a crash of the plugin: that is for debuggers to see. */
#include "client/wsctl/local-module.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <wsd/client.h>

#include "base/clock.h"
#include "base/code.h"
#include "base/inherit.h"
#include "base/cpus.h"
#include "host/command.h"
#include "host/files.h"
#include "host/loader.h"
#include "host/reaper.h"
#include "host/run.h"
#include "host/stack.h"
#include "pool/measure.h"

#define OUTPUT_FLUSH (64u * 1024u) /* output is handed on when so much has gathered */
#define OUTPUT_ROOM  (WSD_RESERVE_MAX + OUTPUT_FLUSH)
#define GRACE_USEC   (3u * 1000u * 1000u) /* after the timeout or the cancel, for a job to heed it */
#define LONGEST_MSEC 1000                 /* of one wait: then it looks whether the workers are there still */
#define LOOK_MSEC    20                   /* how often a wait for streamed input looks at the cancel flag */

struct local {
    struct host_job job;
    struct local_request request; /* its pointers only until the job has begun */
    struct loader *loader;
    struct pool *pool;
    struct files_input input;
    struct commands commands;
    struct measure measure; /* if the request wants it */
    char *args;
    char *buffer; /* [job's output_lock] OUTPUT_ROOM bytes */
    size_t used;  /* [job's output_lock] */
    pthread_mutex_t callback_lock;
    bool abandoned;          /* [lock callback_lock] the caller has gone on */
    _Atomic bool unread;     /* [atomic: relaxed] nothing more is read */
    _Atomic uint32_t cancel; /* [atomic: relaxed] the job's flag, by cancel or timeout */
    _Atomic bool finished;   /* [atomic: release by the worker, acquire by the caller: the result is there] */
    uint64_t cancelled_usec; /* [caller] CLOCK_MONOTONIC; 0: the caller has not cancelled it */
    int done_fd;             /* an eventfd: finished */
};

static struct local *from_job(struct host_job *job)
{
    return container_of(job, struct local, job);
}

/* --- transport ---------------------------------------------------------------------------------------------------- */

static bool is_cancelled(const struct local *l)
{
    return atomic_load_explicit(&l->cancel, memory_order_relaxed) != 0;
}

static int transport_flush(struct host_job *job)
{
    struct local *l = from_job(job);
    int r = 0;

    host_lock(&l->callback_lock);
    if (l->abandoned || l->unread) {
        r = -ECANCELED;
    } else if (l->used > 0 && l->request.output) {
        pool_blocking_begin(); /* the reader may be slow; this much output at once is worth the announcement */
        bool read = l->request.output(l->buffer, l->used, l->request.userdata) == 0;
        pool_blocking_end();
        if (!read) {
            l->unread = true;
            atomic_store_explicit(&l->cancel, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&l->callback_lock);
    l->used = 0;
    return is_cancelled(l) ? -ECANCELED : r;
}

static void *transport_reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    struct local *l = from_job(job);

    if (l->used >= OUTPUT_FLUSH && transport_flush(job) < 0)
        return NULL;
    if (is_cancelled(l))
        return NULL;
    *ret_size = OUTPUT_ROOM - l->used; /* >= WSD_RESERVE_MAX >= min */
    return l->buffer + l->used;
}

static void transport_commit(struct host_job *job, size_t size)
{
    from_job(job)->used += size;
}

static int64_t transport_read(struct host_job *job, void *data, size_t size)
{
    const struct timespec shortly = {.tv_nsec = POOL_BLOCKS_AFTER_USEC * 1000L};
    struct local *l = from_job(job);
    struct pollfd p = {.fd = l->request.input_fd, .events = POLLIN};
    ssize_t n;

    if (l->request.input_fd < 0)
        return 0;
    if (ppoll(&p, 1, &shortly, NULL) == 0) {
        pool_blocking_begin();
        while (!is_cancelled(l) && poll(&p, 1, LOOK_MSEC) <= 0)
            ;
        pool_blocking_end();
    }
    if (is_cancelled(l))
        return -ECANCELED;
    do
        n = read(l->request.input_fd, data, size);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -ECANCELED : n;
}

static int transport_open(struct host_job *job, const char *path)
{
    return files_open(NULL, path);
}

static const char *transport_directory(struct host_job *job)
{
    return ".";
}

/* A fork: it allocates nothing, and takes no lock that another thread may hold. */
static int start_reaper(int socket, pid_t *ret_pid, void *context)
{
    pid_t self = getpid(), pid = fork();

    if (pid == 0)
        reaper_run(socket, -1, self);
    if (pid < 0)
        return -errno;
    *ret_pid = pid;
    return 0;
}

static int transport_command(struct host_job *job, const struct wsd_command *command)
{
    return commands_run(&from_job(job)->commands, command);
}

static void transport_message(struct host_job *job, int level, const char *text)
{
    struct local *l = from_job(job);

    host_lock(&l->callback_lock);
    if (!l->abandoned && l->request.message)
        l->request.message(level, text, l->request.userdata);
    pthread_mutex_unlock(&l->callback_lock);
}

static void transport_progress(struct host_job *job, uint64_t done, uint64_t total)
{
    struct local *l = from_job(job);

    host_lock(&l->callback_lock);
    if (!l->abandoned && l->request.progress)
        l->request.progress(done, total, l->request.userdata);
    pthread_mutex_unlock(&l->callback_lock);
}

static void transport_finished(struct host_job *job, struct wsd_worker *self)
{
    struct local *l = from_job(job);
    const uint64_t one = 1;

    transport_flush(job);
    atomic_store_explicit(&l->finished, true, memory_order_release);
    if (write(l->done_fd, &one, sizeof(one)) < 0) /* the caller looks for itself from time to time */
        return;
}

static const struct host_transport transport = {
    .reserve = transport_reserve,
    .commit = transport_commit,
    .flush = transport_flush,
    .read = transport_read,
    .open = transport_open,
    .directory = transport_directory,
    .command = transport_command,
    .message = transport_message,
    .progress = transport_progress,
    .finished = transport_finished,
};

/* --- the run ------------------------------------------------------------------------------------------------------ */

static struct local *local_free(struct local *l)
{
    if (!l)
        return NULL;
    pool_free(l->pool);
    if (l->loader)
        loader_fini(l->loader);
    host_job_deinit(&l->job); /* knows the plugin by its name */
    loader_free(l->loader);
    files_input_deinit(&l->input);
    pthread_mutex_destroy(&l->callback_lock);
    close_fd(l->done_fd);
    commands_deinit(&l->commands);
    free(l->args);
    free(l->buffer);
    free(l);
    return NULL;
}
DEFINE_CLEANUP(struct local, local_free)

static void run_root(struct pool_node *node, struct wsd_worker *self)
{
    host_job_run(container_of(node, struct host_job, node), self);
}

static char *join_args(const struct local_request *q, size_t *ret_size)
{
    size_t size = 0, at = 0;

    for (size_t i = 0; i < q->n_args; i++)
        size += strlen(q->args[i]) + 1;
    char *args = malloc(size + 1);
    for (size_t i = 0; args && i < q->n_args; i++)
        at += (size_t)(stpcpy(args + at, q->args[i]) - (args + at)) + 1;
    *ret_size = size;
    return args;
}

static int local_prepare(struct local *l, const struct plugin_function *function, struct local_result *ret)
{
    const struct local_request *q = &l->request;
    struct host_request request = {
        .function = function,
        .argc = (uint32_t)q->n_args,
        .traceparent = q->traceparent,
        .deadline_usec = q->timeout_usec ? clock_monotonic_usec() + q->timeout_usec : 0,
        .cancel = &l->cancel,
        .transport = &transport,
    };
    int r;

    l->buffer = malloc(OUTPUT_ROOM);
    l->args = join_args(q, &request.args_size);
    if (!l->buffer || !l->args || q->n_args > INT32_MAX) {
        snprintf(ret->error, sizeof(ret->error), "out of memory");
        return -ENOMEM;
    }
    request.args = l->args;
    if (q->input_fd >= 0 && !(function->flags & WSD_FN_STREAMING)) {
        r = files_read(q->input_fd, &l->input);
        if (r < 0) {
            snprintf(ret->error, sizeof(ret->error), "the input cannot be read: %s", strerror(-r));
            return r;
        }
        request.input = l->input.size ? l->input.data : NULL; /* as through wsd, which does not tell empty from none */
        request.input_size = l->input.size;
    }
    l->job.node.run = run_root;
    r = host_job_begin(&l->job, &request);
    if (r < 0)
        snprintf(ret->error, sizeof(ret->error), "%s", l->job.error);
    return r;
}

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static _Thread_local char overflow_words[128] __attribute__((tls_model("initial-exec")));

static void on_fault(int signal, siginfo_t *info, void *context)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    if (stack_overflowed(signal, info, context))
        (void)!write(STDERR_FILENO, overflow_words, strlen(overflow_words));
    sigaction(signal, &by_default, NULL);
    raise(signal); /* blocked in here: strikes when we return */
}

/* The only fault that is not left to debuggers altogether: of this one they show nothing but the depth. */
static void watch_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    struct sigaction before, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) /* else it is a sanitizer's */
            sigaction(signals[i], &action, NULL);
}

static void worker_start(struct wsd_worker *self, uint32_t index, void *context)
{
    size_t size = stack_begin();

    snprintf(overflow_words, sizeof(overflow_words),
             "wsctl: stack overflow: needs more than %zu MiB of stack; recurse less\n", size >> 20);
}

static void worker_stop(struct wsd_worker *self, uint32_t index, void *context)
{
    host_worker_stop(self, index, context);
    stack_end();
}

/* The pool's threads leave every signal to the caller's, but those that a fault raises. */
static int start_pool(struct local *l)
{
    int unread; /* then there may be more workers than CPUs */
    struct pool_options options = {
        .workers = l->request.workers ? l->request.workers : cpus_usable(&unread),
        .stack_size = l->request.stack_size,
        .task_enter = host_task_enter,
        .task_leave = host_task_leave,
        .worker_start = worker_start,
        .worker_stop = worker_stop,
    };
    sigset_t all, before;

    if (l->request.measure) {
        l->measure.workers = options.workers;
        options.workers = 1;
        options.measure = &l->measure;
    }

    watch_faults();
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pool_new(&l->pool, &options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

static bool has_finished(const struct local *l)
{
    return atomic_load_explicit(&l->finished, memory_order_acquire);
}

/* When it is given up (CLOCK_MONOTONIC), by the first that it was to heed. */
static uint64_t given_up_usec(const struct local *l)
{
    uint64_t end = l->request.timeout_usec ? l->job.deadline_usec + GRACE_USEC : UINT64_MAX;

    return l->cancelled_usec ? MIN(end, l->cancelled_usec + GRACE_USEC) : end;
}

static int wait_msec(uint64_t usec)
{
    return (int)MIN(usec / 1000 + 1, (uint64_t)LONGEST_MSEC);
}

/* True: finished. False: the job was given up. */
static bool wait_for_end(struct local *l, int cancel_fd)
{
    while (!has_finished(l)) {
        struct pollfd fds[] = {{.fd = l->done_fd, .events = POLLIN},
                               {.fd = l->cancelled_usec ? -1 : cancel_fd, .events = POLLIN}};
        uint64_t now = clock_monotonic_usec(), deadline = l->job.deadline_usec, end = given_up_usec(l);

        pool_look(l->pool);
        if (now >= end)
            return false;
        if (deadline && now >= deadline)
            atomic_store_explicit(&l->cancel, 1, memory_order_relaxed);
        else if (deadline)
            end = MIN(end, deadline);
        if (poll(fds, ARRAY_SIZE(fds), wait_msec(end - now)) <= 0 || !fds[1].revents || has_finished(l))
            continue;
        l->cancelled_usec = clock_monotonic_usec();
        if (l->request.cancelling)
            l->request.cancelling(l->request.userdata);
        atomic_store_explicit(&l->cancel, 1, memory_order_relaxed);
    }
    return true;
}

/* As wsd tells it (domain_done(), was_running() of daemon/domains): whatever it has returned. */
static void fill_result(const struct local *l, bool finished, struct local_result *ret)
{
    const struct host_job *job = &l->job;
    uint64_t deadline = job->deadline_usec, now = clock_monotonic_usec();

    ret->run_usec = (finished ? job->ended_usec : now) - job->started_usec;
    if (finished) {
        ret->cpu_usec = host_job_cpu_usec(job);
        memcpy(ret->error, job->error, sizeof(ret->error));
        memcpy(ret->status, job->status, sizeof(ret->status));
    }
    if (l->cancelled_usec || l->unread) {
        ret->state = WSD_JOB_CANCELLED;
        ret->exit = CODE_CANCELLED;
        *ret->error = 0;
    } else if (!finished || (deadline && job->ended_usec >= deadline)) {
        ret->state = WSD_JOB_TIMED_OUT;
        ret->exit = CODE_TIMED_OUT;
        snprintf(ret->error, sizeof(ret->error), "its time was up%s",
                 finished ? "" : ", and it did not heed its cancel flag");
    } else {
        ret->exit = job->exit;
        ret->state = job->exit == 0 ? WSD_JOB_SUCCEEDED : WSD_JOB_FAILED;
    }
}

static int fill_measure(const struct local *l, struct local_result *ret)
{
    const struct measure *m = &l->measure;

    if (m->error < 0) {
        snprintf(ret->error, sizeof(ret->error), "out of memory for its paths");
        return m->error;
    }
    *l->request.measure = (struct local_measure){.work_nsec = m->work.nsec,
                                                 .work_strands = m->work.strands,
                                                 .span_nsec = m->span.nsec,
                                                 .span_strands = m->span.strands,
                                                 .burdened_nsec = m->burdened_nsec,
                                                 .spawns = m->spawns,
                                                 .hidden = m->hidden};
    return 0;
}

static int local_load(struct local *l, const struct plugin_function **ret_function, struct local_result *ret)
{
    const struct loader_options options = {
        .dirs = l->request.plugin_dirs,
        .n_dirs = l->request.n_plugin_dirs,
        .flags = LOADER_ANY_PATH | LOADER_REAL_PATH,
        .directory = ".",
    };
    struct host_plugin *plugin;
    int r = loader_new(&l->loader, &options);

    if (r < 0) {
        snprintf(ret->error, sizeof(ret->error), "%s", strerror(-r));
        return r;
    }
    r = loader_load(l->loader, l->request.plugin, &plugin, ret->error, sizeof(ret->error));
    if (r < 0)
        return r;
    const struct plugin_function *function = plugin_find(plugin, l->request.function, NULL);
    if (!function) {
        snprintf(ret->error, sizeof(ret->error), "%s has no function %.64s", plugin->name, l->request.function);
        return -ENOENT;
    }
    memcpy(ret->plugin, plugin->name, sizeof(ret->plugin));
    memcpy(ret->function, function->name, sizeof(ret->function));
    *ret_function = function;
    return 0;
}

__attribute__((visibility("default"))) int wsctl_local_run(const struct local_request *request,
                                                           struct local_result *ret)
{
    _cleanup_(local_freep) struct local *l = calloc(1, sizeof(*l));
    const struct plugin_function *function = NULL;

    memset(ret, 0, sizeof(*ret));
    if (!l || request->size < sizeof(*request) || !request->plugin) {
        snprintf(ret->error, sizeof(ret->error), "%s",
                 l ? "wsctl and its module do not belong together" : "out of memory");
        return l ? -EINVAL : -ENOMEM;
    }
    l->request = *request;
    host_job_init(&l->job);
    (void)handle_share(NULL); /* the plugin's threads are not counted here: one may always be left */
    commands_init(&l->commands, start_reaper, NULL);
    pthread_mutex_init(&l->callback_lock, NULL);
    l->done_fd = eventfd(0, EFD_CLOEXEC);
    int r = l->done_fd < 0 ? -errno : local_load(l, &function, ret);
    if (r == 0)
        r = local_prepare(l, function, ret);
    if (r < 0)
        return r;
    int cancel_fd = l->request.begins ? l->request.begins(l->request.userdata) : -1;
    r = start_pool(l);
    if (r == 0)
        r = pool_submit(l->pool, &l->job.node);
    if (r < 0) {
        char words[INHERIT_ERROR];

        snprintf(ret->error, sizeof(ret->error), "the pool cannot be started: %s%.180s", strerror(-r),
                 inherit_blame(r, words));
        return r;
    }
    bool finished = wait_for_end(l, cancel_fd);
    fill_result(l, finished, ret);
    if (finished && l->request.measure) {
        pool_close(l->pool); /* its worker has left the root: the numbers are complete */
        r = fill_measure(l, ret);
    }
    if (!finished) {
        pthread_mutex_lock(&l->callback_lock);
        l->abandoned = true;
        pthread_mutex_unlock(&l->callback_lock);
        (void)TAKE(l); /* its threads still run; the process is about to end */
    }
    return r;
}
