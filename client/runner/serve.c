/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.c: threads that run the jobs of a runner, and one that looks after the connection meanwhile.
 * Owns the threads.
 * Keeps: a thread reads within a tick, so wsd has its answers also where each thread runs a long job.
 * Ends of short jobs go together, and none waits longer than a tick.
 *
 * Workers lead and follow (Schmidt and others, "Leader/Followers", 2000): one of them reads, and runs the job that it
 * has read. It wakes a second one before a long job only; for a short one it is back sooner than another thread is
 * awake. Where its guess is wrong, or all workers are in worker_start(), the keeper reads from the next tick on, until
 * a worker is free. The keeper sleeps while a worker reads and there are no jobs, as Go's sysmon does. */
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "held.h"
#include "tasks.h"
#include "wire.h"

#define LONG_USEC     50u    /* a job that is expected to take longer is a long one */
#define TOGETHER_USEC 50u    /* ends of jobs wait no longer for each other */
#define TOGETHER_SIZE 32768u /* and not if they are larger */
#define TICK_MSEC     10
#define TICKS_AWAKE   100u   /* without a job, before the keeper sleeps */
#define PAUSE_USEC    20000u /* between two tries to connect, at first */
#define PAUSE_MAX     5000000u
#define CONNECT_USEC  5000000u

struct serving {
    struct wsd_runner *runner;
    unsigned n_threads, n_begun; /* of workers */
    struct tasks *tasks;
    pthread_cond_t idle; /* of workers: there is a job, or the role of the reader is free */
    unsigned n_idle;
    bool keeper_awake;       /* it looks at each tick */
    uint64_t pause_usec;     /* before the last try to connect; 0: there was none */
    uint64_t connected_usec; /* when that was */
    bool over;
    int result;
};

static bool is_over(const struct serving *s)
{
    return s->over || s->runner->left;
}

/* [lock] */
static void wake_keeper(const struct wsd_runner *r)
{
    const uint64_t one = 1;

    if (write(r->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already, so often as that counts */
}

/* [lock] */
static void end(struct serving *s, int result)
{
    s->over = true;
    s->result = result;
    pthread_cond_broadcast(&s->idle);
    pthread_cond_broadcast(&s->runner->changed);
    wake_keeper(s->runner);
}

/* --- the connection ----------------------------------------------------------------------------------------------- */

/* wsd does not want us. -EACCES is not: a wsd that begins gives its socket to its group after it was bound. */
static bool is_final(int error)
{
    return error == -EINVAL || error == -EOPNOTSUPP || error == -EPROTONOSUPPORT || error == -EPROTO;
}

/* Also where jobs of a connection before still run: their threads are free again when these end. */
static uint32_t credit_of(const struct serving *s)
{
    return s->runner->credit ? s->runner->credit : s->n_threads;
}

/* True: it is connected, or need not be any more. [lock, which it leaves] */
static bool try_to_connect(struct serving *s)
{
    struct wsd_runner *r = s->runner;

    if (is_over(s))
        return true;
    if (atomic_load_explicit(&r->leaving, memory_order_relaxed)) {
        r->left = true; /* wsd has nothing of us */
        end(s, 0);
        return true;
    }
    int error = wire_connect(r, credit_of(s), deadline_in(CONNECT_USEC));
    if (is_final(error))
        end(s, error);
    s->connected_usec = clock_monotonic_usec();
    return error == 0 || is_final(error);
}

/* As the reader. [lock, which it leaves] */
static void connect_again(struct serving *s)
{
    struct wsd_runner *r = s->runner;

    r->reading = true;
    if (clock_monotonic_usec() - s->connected_usec > PAUSE_MAX)
        s->pause_usec = 0; /* it had stood for long */
    while (s->pause_usec || !try_to_connect(s)) {
        s->pause_usec = s->pause_usec ? MIN(2 * s->pause_usec, PAUSE_MAX) : PAUSE_USEC;
        wire_pause(r, s->pause_usec);
        if (try_to_connect(s))
            break;
    }
    r->reading = false;
    pthread_cond_broadcast(&r->changed);
    wire_tell_leaving(r); /* it may have been told in between */
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* [lock] */
static void learn(struct offered *o, uint64_t usec)
{
    o->usec = o->usec == UINT64_MAX ? usec : (3 * o->usec + usec) / 4;
}

/* Ends that were not sent yet. [lock] */
static bool has_waited(const struct wsd_runner *r, uint64_t now_usec)
{
    return r->out_since_usec &&
           (now_usec - r->out_since_usec >= TOGETHER_USEC || buffer_size(&r->connection.out) >= TOGETHER_SIZE);
}

static int settle_and_run(struct held *h, struct wsd_worker *self)
{
    return held_settle(h) < 0 ? WSD_STATUS_MAX : h->offered->function->run(&h->job, self);
}

/* Runs it, and sends its end. [lock, which it leaves] */
static void run_job(struct serving *s, struct held *h)
{
    struct wsd_runner *r = s->runner;
    struct offered *o = h->offered;
    uint64_t began = clock_monotonic_usec(), cpu_usec = 0;
    bool is_long = o->usec > LONG_USEC;

    if (is_long || has_waited(r, began))
        wire_drain(r);
    if (s->n_idle > 0 && !r->reading && is_long)
        pthread_cond_signal(&s->idle);
    if (!s->keeper_awake) {
        s->keeper_awake = true;
        wake_keeper(r);
    }
    h->attended = true;
    pthread_mutex_unlock(&r->lock);
    int status = tasks_run(s->tasks, h, settle_and_run, is_long ? &cpu_usec : NULL);
    uint64_t took = clock_monotonic_usec() - began;
    cpu_usec = is_long ? cpu_usec : took; /* the kernel is not asked about short ones */
    pthread_mutex_lock(&r->lock);
    learn(o, took);
    r->n_running--;
    bool later = r->n_ready > 0 && !has_waited(r, began + took);
    (void)held_end(h, status, cpu_usec, !later); /* if its connection is over, wsd has decided */
    if (later && !r->out_since_usec)
        r->out_since_usec = began + took;
}

/* One thing. [lock, which it leaves] */
static void work_once(struct serving *s)
{
    struct wsd_runner *r = s->runner;
    struct list *l = list_pop_front(&r->ready);

    if (l) {
        struct held *h = container_of(l, struct held, link);

        r->n_ready--;
        r->n_running++;
        list_push_back(&r->running, &h->link);
        if (r->n_ready > 0 && s->n_idle > 0)
            pthread_cond_signal(&s->idle);
        run_job(s, h);
    } else if (r->reading) {
        s->n_idle++;
        pthread_cond_wait(&s->idle, &r->lock);
        s->n_idle--;
    } else if (r->stands) {
        wire_read(r);
    } else {
        connect_again(s);
    }
}

static void work(struct serving *s, uint32_t number)
{
    struct wsd_runner *r = s->runner;
    const struct wsd_plugin *o = r->offer;

    if (o->worker_start)
        o->worker_start(number);
    pthread_mutex_lock(&r->lock);
    while (!is_over(s))
        work_once(s);
    end(s, s->result); /* the others find that, too */
    pthread_mutex_unlock(&r->lock);
    if (o->worker_stop)
        o->worker_stop(number);
}

/* --- the keeper --------------------------------------------------------------------------------------------------- */

static bool never(const void *arg)
{
    return false;
}

/* Reads in place of the workers, until one of them is free. [lock, which it leaves] */
static void read_for_workers(struct serving *s)
{
    struct wsd_runner *r = s->runner;

    while (!is_over(s) && r->stands && !r->reading && s->n_idle == 0) {
        wire_wait(r, UINT64_MAX, true, never, NULL);
        wire_tell_leaving(r);
    }
    pthread_cond_signal(&s->idle);
}

/* Until something is to be done, or the next tick. [lock, which it leaves] */
static void await_tick(const struct serving *s)
{
    struct wsd_runner *r = s->runner;
    struct pollfd p = {.fd = r->wake_fd, .events = POLLIN};
    int timeout = s->keeper_awake ? TICK_MSEC : -1;
    uint64_t word;

    pthread_mutex_unlock(&r->lock);
    if (poll(&p, 1, timeout) > 0 && read(p.fd, &word, sizeof(word)) < 0)
        poll(NULL, 0, TICK_MSEC); /* never, since no other thread reads it; if so, slowly */
    pthread_mutex_lock(&r->lock);
}

static void *keep(void *arg)
{
    struct serving *s = arg;
    struct wsd_runner *r = s->runner;
    uint64_t seen = 0;
    unsigned quiet = 0;

    pthread_mutex_lock(&r->lock);
    while (!is_over(s)) {
        await_tick(s);
        wire_tell_leaving(r);
        if (atomic_load_explicit(&r->leaving, memory_order_relaxed))
            pthread_cond_broadcast(&r->changed); /* it may be between two tries to connect */
        bool moved = r->n_reads != seen;
        seen = r->n_reads;
        quiet = moved || r->n_running || !r->reading ? 0 : quiet + 1;
        s->keeper_awake = quiet < TICKS_AWAKE;
        if (has_waited(r, clock_monotonic_usec()))
            wire_drain(r);
        if (!moved && !r->reading) /* for a whole tick */
            read_for_workers(s);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

void serve_looked(struct wsd_runner *r)
{
    if (r->serving && r->serving->n_idle > 0 && r->n_ready > 0)
        pthread_cond_signal(&r->serving->idle);
}

void serve_lost(struct wsd_runner *r)
{
    if (r->serving)
        pthread_cond_broadcast(&r->serving->idle);
}

static void *work_here(void *arg)
{
    struct serving *s = arg;

    pthread_mutex_lock(&s->runner->lock);
    uint32_t number = s->n_begun++;
    pthread_mutex_unlock(&s->runner->lock);
    work(s, number);
    return NULL;
}

/* [lock, which it leaves] */
static void serve_by_threads(struct serving *s)
{
    struct wsd_runner *r = s->runner;
    pthread_t threads[WSD_RUNNER_THREADS_MAX];
    unsigned n = 0;

    pthread_mutex_unlock(&r->lock);
    int error = pthread_create(&threads[n], NULL, keep, s);
    for (n += error == 0; error == 0 && n < s->n_threads; n += error == 0)
        error = pthread_create(&threads[n], NULL, work_here, s);
    if (error != 0) {
        pthread_mutex_lock(&r->lock);
        wire_break(r, "a thread cannot be started"); /* so that none of the others waits for wsd */
        end(s, failure_set(&r->failure, -EAGAIN, CODE_BUSY, "a thread cannot be started: %s", strerror(error)));
        pthread_mutex_unlock(&r->lock);
    } else {
        work_here(s);
    }
    while (n > 0)
        pthread_join(threads[--n], NULL);
    pthread_mutex_lock(&r->lock);
}

int serve(struct wsd_runner *r, unsigned threads)
{
    struct serving s = {.runner = r, .n_threads = threads, .idle = PTHREAD_COND_INITIALIZER, .keeper_awake = true};

    int error = tasks_new(&s.tasks, r->offer, threads);

    if (error < 0)
        return failure_set(&r->failure, error, CODE_IO, "a pool for its jobs: %s", strerror(-error));
    r->serving = &s;
    error = wire_open(r, credit_of(&s), deadline_in(CONNECT_USEC));
    s.connected_usec = clock_monotonic_usec();
    if (error == 0)
        serve_by_threads(&s);
    r->serving = NULL;
    pthread_mutex_unlock(&r->lock);
    tasks_free(s.tasks); /* its threads may be in worker_stop() */
    pthread_mutex_lock(&r->lock);
    pthread_cond_destroy(&s.idle);
    return error < 0 ? error : s.result;
}
