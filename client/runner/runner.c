/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.c: a runner: its beginning and end, what wsd says to it, and the calls of a loop.
 * Owns the runner, and the jobs that no thread has begun.
 * Keeps: a frame that breaks the protocol ends the connection. Jobs of a connection that is over are told so. */
#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/address.h"
#include "client/given.h"
#include "client/text.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "held.h"
#include "serve.h"
#include "tasks.h"
#include "wire.h"

#define LOOK_USEC    1000u /* between two looks for frames while jobs are here */
#define CONNECT_USEC 5000000u

/* --- what wsd says ------------------------------------------------------------------------------------------------ */

static struct held *find_in(struct list *jobs, uint64_t run)
{
    for (struct list *l = jobs->next; l != jobs; l = l->next) {
        struct held *h = container_of(l, struct held, link);

        if (h->run == run && h->n_connection == h->runner->n_connection)
            return h;
    }
    return NULL;
}

static struct held *find_job(struct wsd_runner *r, uint64_t run)
{
    struct held *h = find_in(&r->running, run);

    h = h ? h : find_in(&r->ready, run);
    return h ? h : find_in(&r->filling, run);
}

static void make_ready(struct wsd_runner *r, struct held *h)
{
    list_remove(&h->link);
    list_push_back(&r->ready, &h->link);
    r->n_ready++;
}

/* For one that is not begun, or not even there. */
static void refuse_run(struct wsd_runner *r, uint64_t run, const char *why)
{
    const struct msg msg = {.type = FRAME_RUN_END,
                            .run_end = {.run = run, .status = WSD_STATUS_MAX, .error = {why, strlen(why)}}};

    (void)wire_put(r, &msg, NULL, 0); /* the reader sends it */
}

static void take_run(struct wsd_runner *r, const struct frame *frame, const struct msg_run *run)
{
    bool brings = run->job.input_from != RUN_INPUT_BODY || run->job.output_size > 0;
    int fd = brings ? wire_take_fd(r) : -1;

    if (brings && fd < 0) {
        wire_break(r, "wsd does not keep to the protocol: no descriptor with RUN");
        return;
    }
    struct held *h = held_new(r, run, frame, fd);
    if (!h) {
        refuse_run(r, run->run, "the runner has no memory, or no such function");
        return;
    }
    if (run->job.flags & RUN_MORE)
        list_push_back(&r->filling, &h->link);
    else
        make_ready(r, h);
}

static void take_input(struct wsd_runner *r, const struct frame *frame, const struct msg_run_chunk *chunk)
{
    struct held *h = find_in(&r->filling, chunk->run);

    if (!h)
        return;
    if (held_more_input(h, frame) < 0) {
        held_free(h);
        refuse_run(r, chunk->run, "the runner has no memory for its input");
    } else if (chunk->last) {
        make_ready(r, h);
    }
}

static void take_stop(struct wsd_runner *r, const struct msg_run_ref *ref)
{
    struct held *h = find_job(r, ref->run);

    if (!h)
        return;
    held_stop(h, ref->why);
    if (find_in(&r->running, ref->run))
        return;
    if (find_in(&r->ready, ref->run))
        r->n_ready--;
    held_free(h);
    refuse_run(r, ref->run, "it was stopped before it began");
}

static void take_credit(struct wsd_runner *r, const struct msg_run_credit *credit)
{
    struct held *h = find_job(r, credit->run);

    if (h)
        h->allowed += credit->bytes;
    if (r->n_waiting)
        pthread_cond_broadcast(&r->changed);
}

static void take_opened(struct wsd_runner *r, const struct msg_run_opened *opened)
{
    struct held *h = find_job(r, opened->run);
    int result = opened->error ? -(int)opened->error : wire_take_fd(r);

    if (!opened->error && result < 0) {
        wire_break(r, "wsd does not keep to the protocol: no descriptor with RUN_OPENED");
        return;
    }
    for (struct list *l = h ? h->files.next : NULL; l && l != &h->files; l = l->next) {
        struct asked_file *f = container_of(l, struct asked_file, link);

        if (f->serial == opened->serial && !f->answered) {
            f->answered = true;
            f->result = result;
            if (r->n_waiting)
                pthread_cond_broadcast(&r->changed);
            return;
        }
    }
    close_fd(result);
}

static void take_error(struct wsd_runner *r, const struct msg_error *error)
{
    if (r->answer == 0)
        r->answer = failure_remote(&r->failure, error);
    else
        wire_break(r, "%s", error->text.size ? error->text.data : "wsd closed the connection");
}

static void take_frame(struct wsd_runner *r, const struct frame *frame, const struct msg *msg)
{
    switch (msg->type) {
    case FRAME_RUNNER:
        r->answer = 1;
        break;
    case FRAME_ERROR:
        take_error(r, &msg->error);
        break;
    case FRAME_END:
        r->left = true;
        serve_lost(r);
        break;
    case FRAME_RUN:
        take_run(r, frame, &msg->run);
        break;
    case FRAME_RUN_INPUT:
        take_input(r, frame, &msg->run_chunk);
        break;
    case FRAME_RUN_STOP:
        take_stop(r, &msg->run_ref);
        break;
    case FRAME_RUN_CREDIT:
        take_credit(r, &msg->run_credit);
        break;
    case FRAME_RUN_OPENED:
        take_opened(r, &msg->run_opened);
        break;
    case FRAME_RUN_PING:
        (void)wire_put(r, &(struct msg){.type = FRAME_RUN_PONG, .run_ref = {.run = msg->run_ref.run}}, NULL, 0);
        wire_flush(r);
        break;
    case FRAME_GOODBYE: /* jobs end as ever, and then the connection does */
        break;
    default:
        wire_break(r, "wsd does not keep to the protocol: unexpected %s", codec_type_name(msg->type));
    }
}

static void free_all(struct list *jobs)
{
    struct list *l;

    while ((l = list_pop_front(jobs)))
        held_free(container_of(l, struct held, link));
}

static void lose_jobs(struct wsd_runner *r)
{
    for (struct list *l = r->running.next; l != &r->running; l = l->next)
        atomic_store_explicit(&container_of(l, struct held, link)->stop, HELD_LOST, memory_order_relaxed);
    free_all(&r->ready);
    free_all(&r->filling);
    r->n_ready = 0;
    pthread_cond_broadcast(&r->changed);
    serve_lost(r);
}

static const struct runner_ops ops = {.frame = take_frame, .looked = serve_looked, .lost = lose_jobs};

/* --- the handle --------------------------------------------------------------------------------------------------- */

static const char foreign[] = "the runner is another process's, of which this one is a child: make one here";

/* The same for a call that only asks. */
static struct wsd_runner *enter_const(const struct wsd_runner *runner)
{
    return runner_enter((struct wsd_runner *)(uintptr_t)runner);
}

const char *wsd_runner_error(const struct wsd_runner *runner)
{
    static _Thread_local char text[sizeof(runner->failure.text)];
    _cleanup_(runner_leavep) struct wsd_runner *r = runner ? enter_const(runner) : NULL;

    if (!r)
        return runner ? foreign : "out of memory";
    memcpy(text, r->failure.text, sizeof(text)); /* other threads have failures, too */
    return text;
}

int wsd_runner_exit(const struct wsd_runner *runner)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner ? enter_const(runner) : NULL;

    return r ? r->failure.exit : runner ? CODE_USAGE : CODE_IO;
}

static int init(struct wsd_runner *r)
{
    pthread_condattr_t attr;
    int error = owner_init(&r->owner);

    if (error < 0)
        return error;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
    list_init(&r->filling);
    list_init(&r->ready);
    list_init(&r->running);
    r->ops = &ops;
    error = wire_init(r);
    if (error < 0)
        owner_deinit(&r->owner);
    return error;
}

int wsd_runner_new(struct wsd_runner **ret_runner, const struct wsd_runner_options *options)
{
    static const struct wsd_runner_options none = {.size = sizeof(none)};
    struct wsd_runner *r = *ret_runner = calloc(1, sizeof(*r));
    struct wsd_runner_options room;
    int error = r ? init(r) : -ENOMEM;

    if (error < 0) {
        free(r);
        *ret_runner = NULL;
        return error;
    }
    const struct wsd_runner_options *o =
        GIVEN(&r->failure, wsd_runner_options, options ? options : &none, &room, &error);
    if (!o)
        return error;
    if (o->credit > WSD_RUNNER_CREDIT_MAX)
        return failure_set(&r->failure, -EINVAL, CODE_USAGE, "credit: at most %d", WSD_RUNNER_CREDIT_MAX);
    if (o->flags & ~(uint64_t)WSD_RUNNER_GATHER)
        return failure_set(&r->failure, -EINVAL, CODE_USAGE, "unknown flags");
    r->credit = o->credit;
    r->gathers = o->flags & WSD_RUNNER_GATHER;
    return address_find(o->socket, &r->connection.address, &r->failure);
}

int wsd_runner_offer(struct wsd_runner *runner, const struct wsd_plugin *offer)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner_enter(runner);

    if (!r)
        return -ECHILD;
    if (r->offer)
        return failure_set(&r->failure, -EBUSY, CODE_USAGE,
                           "the runner offers `%s' already: make another one for each name", r->offer->name);
    if (!offer->name || offer->n_functions == 0 || offer->n_functions > CODEC_FUNCTIONS ||
        offer->function_size < sizeof(struct wsd_function))
        return failure_set(&r->failure, -EINVAL, CODE_USAGE, "an offer needs a name, and 1 to %u functions",
                           CODEC_FUNCTIONS);
    r->offered = calloc(offer->n_functions, sizeof(*r->offered));
    if (!r->offered)
        return failure_set(&r->failure, -ENOMEM, CODE_IO, "%s", strerror(ENOMEM));
    for (uint32_t i = 0; i < offer->n_functions; i++)
        r->offered[i] = (struct offered){
            .function = (const void *)((const char *)offer->functions + (size_t)i * offer->function_size),
            .usec = UINT64_MAX};
    r->offer = offer;
    return 0;
}

static int has_left(struct wsd_runner *r)
{
    return failure_set(&r->failure, -ESHUTDOWN, CODE_USAGE, "the runner has left: make another one");
}

/* That it can connect. */
static int check_offer(struct wsd_runner *r)
{
    if (r->left)
        return has_left(r);
    return r->offer ? 0 : failure_set(&r->failure, -EINVAL, CODE_USAGE, "nothing is offered: call wsd_runner_offer()");
}

int wsd_runner_connect(struct wsd_runner *runner, uint64_t timeout_usec)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner_enter(runner);

    if (!r)
        return -ECHILD;
    int error = check_offer(r);
    if (error < 0)
        return error;
    if (r->serving && !r->stands)
        return failure_set(&r->failure, -EBUSY, CODE_USAGE, "wsd_runner_run() looks after the connection");
    return wire_open(r, r->credit ? r->credit : 1, deadline_in(timeout_usec ? timeout_usec : CONNECT_USEC));
}

static int check_run(struct wsd_runner *r, unsigned threads)
{
    int error = check_offer(r);

    if (error == 0 && (threads == 0 || threads > WSD_RUNNER_THREADS_MAX))
        error = failure_set(&r->failure, -EINVAL, CODE_USAGE, "threads: 1 to %d", WSD_RUNNER_THREADS_MAX);
    for (uint32_t i = 0; error == 0 && i < r->offer->n_functions; i++)
        if (!r->offered[i].function->run)
            error =
                failure_set(&r->failure, -EINVAL, CODE_USAGE,
                            "function `%s' has no `run', which wsd_runner_run() calls", r->offered[i].function->name);
    return error;
}

/* [lock, which it leaves] */
static int initialise(struct wsd_runner *r)
{
    pthread_mutex_unlock(&r->lock);
    int status = r->offer->init ? r->offer->init() : 0;
    pthread_mutex_lock(&r->lock);
    return status == 0 ? 0 : failure_set(&r->failure, -EIO, CODE_IO, "init() has failed with status %d", status);
}

/* [lock, which it leaves] */
static void finish(struct wsd_runner *r)
{
    pthread_mutex_unlock(&r->lock);
    if (r->offer->fini)
        r->offer->fini();
    pthread_mutex_lock(&r->lock);
}

int wsd_runner_run(struct wsd_runner *runner, unsigned threads)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner_enter(runner);
    int error = r ? check_run(r, threads) : -ECHILD;

    if (error < 0)
        return error;
    if (r->runs)
        return failure_set(&r->failure, -EBUSY, CODE_USAGE, "another thread is in wsd_runner_run()");
    r->runs = true;
    error = initialise(r);
    if (error == 0) {
        error = serve(r, threads);
        finish(r);
    }
    r->runs = false;
    return error;
}

int wsd_runner_leave(struct wsd_runner *runner)
{
    const uint64_t one = 1;
    int kept = errno; /* of what a signal has interrupted */

    if (!owner_is_here(&runner->owner))
        return -ECHILD;
    atomic_store_explicit(&runner->leaving, true, memory_order_relaxed); /* partner: the thread that wake_fd wakes */
    int error = write(runner->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN ? -errno : 0;
    errno = kept;
    return error;
}

/* --- a loop ------------------------------------------------------------------------------------------------------- */

static bool has_news(const void *arg)
{
    const struct wsd_runner *r = arg;

    return r->n_ready > 0 || r->left || (!r->left_told && atomic_load_explicit(&r->leaving, memory_order_relaxed));
}

/* Looks for frames, but not again and again while jobs are here. [lock] */
static void look(struct wsd_runner *r)
{
    uint64_t now = clock_monotonic_usec();

    if (r->n_ready > 0 && now - r->looked_usec < LOOK_USEC)
        return;
    wire_flush(r);
    wire_look(r);
    r->looked_usec = now;
}

/* The oldest one that can begin. NULL: there is none. [lock, which it leaves] */
static struct wsd_job *take_job(struct wsd_runner *r)
{
    for (struct list *l; (l = list_pop_front(&r->ready));) {
        struct held *h = container_of(l, struct held, link);

        r->n_ready--;
        r->n_running++;
        list_push_back(&r->running, &h->link);
        pthread_mutex_unlock(&r->lock);
        int error = held_settle(h);
        pthread_mutex_lock(&r->lock);
        if (error == 0)
            return &h->job;
        r->n_running--;
        (void)held_end(h, WSD_STATUS_MAX, 0, true); /* the runner goes on all the same */
    }
    return NULL;
}

int wsd_runner_next(struct wsd_runner *runner, uint64_t timeout_usec, struct wsd_job **ret_job)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner_enter(runner);

    if (!r)
        return -ECHILD;
    if (!r->n_connection)
        return failure_set(&r->failure, -ENOTCONN, CODE_USAGE, "not connected: call wsd_runner_connect()");
    uint64_t deadline = deadline_in(timeout_usec);
    struct wsd_job *job;
    wire_tell_leaving(r);
    look(r);
    while (!(job = take_job(r)) && r->stands && !r->left && timeout_usec && wire_wait(r, deadline, true, has_news, r))
        wire_tell_leaving(r);
    if (!job)
        return r->left ? has_left(r) : r->stands ? 0 : -ECONNRESET;
    *ret_job = job;
    return 1;
}

static int just_run(struct held *h, struct wsd_worker *self)
{
    return h->offered->function->run(&h->job, self);
}

/* 0 or a negative errno, said. [lock] */
static int check_call(struct wsd_runner *r, const struct held *h)
{
    int error = r->tasks ? 0 : tasks_new(&r->tasks, NULL, 0);

    if (error < 0)
        return failure_set(&r->failure, error, CODE_IO, "a pool for its jobs: %s", strerror(-error));
    if (!h->offered->function->run)
        return failure_set(&r->failure, -EINVAL, CODE_USAGE, "function `%s' has no `run'", h->offered->function->name);
    if (tasks_is_here(r->tasks))
        return failure_set(&r->failure, -EDEADLK, CODE_USAGE,
                           "wsd_runner_call() within a function that it runs: finish that job first");
    return 0;
}

int wsd_runner_call(struct wsd_runner *runner, struct wsd_job *job)
{
    struct held *h = container_of(job, struct held, job);
    struct wsd_runner *r = runner_enter(runner);
    int error = r ? check_call(r, h) : -ECHILD;

    runner_leavep(&r);
    return error < 0 ? error : tasks_run(runner->tasks, h, just_run, &h->cpu_usec);
}

int wsd_runner_finish(struct wsd_runner *runner, struct wsd_job *job, int status)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = runner_enter(runner);

    if (!r)
        return -ECHILD;
    r->n_running--;
    struct held *h = container_of(job, struct held, job);
    return held_end(h, status, h->cpu_usec, !r->gathers);
}

int wsd_runner_finish_as(struct wsd_runner *runner, struct wsd_job *job, enum wsd_job_state state)
{
    if (state < WSD_JOB_TIMED_OUT || state > WSD_JOB_INTERRUPTED)
        return -EINVAL;
    container_of(job, struct held, job)->ends_as = state;
    return wsd_runner_finish(runner, job, WSD_STATUS_MAX);
}

size_t wsd_runner_room(const struct wsd_job *job)
{
    return held_room(container_of(job, struct held, job));
}

int wsd_runner_info(const struct wsd_job *job, struct wsd_run_info *ret_info)
{
    const struct held *h = container_of(job, struct held, job);
    struct wsd_run_info info = {
        .uid = h->uid, .attempt = h->attempt, .priority = h->priority, .key = h->key, .traceparent = h->traceparent};

    if (ret_info->size < sizeof(info.size))
        return -EINVAL;
    info.size = MIN(ret_info->size, sizeof(info));
    memcpy(ret_info, &info, info.size);
    return 0;
}

int wsd_runner_fd(const struct wsd_runner *runner)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = enter_const(runner);

    return r && r->stands ? r->connection.fd : -1;
}

short wsd_runner_events(const struct wsd_runner *runner)
{
    _cleanup_(runner_leavep) struct wsd_runner *r = enter_const(runner);

    return (short)(!r || !r->stands ? 0 : POLLIN | (buffer_size(&r->connection.out) > 0 ? POLLOUT : 0));
}

struct wsd_runner *wsd_runner_free(struct wsd_runner *runner)
{
    if (!runner)
        return NULL;
    if (!owner_is_here(&runner->owner)) {
        wire_forsake(runner);
    } else {
        pthread_mutex_lock(&runner->lock);
        wire_flush(runner);
        wire_break(runner, "the connection was closed");
        pthread_mutex_unlock(&runner->lock);
        free_all(&runner->running);
        tasks_free(runner->tasks);
        wire_deinit(runner);
        pthread_cond_destroy(&runner->changed);
        pthread_mutex_destroy(&runner->lock);
        owner_deinit(&runner->owner);
    }
    free(runner->offered);
    free(runner);
    return NULL;
}
