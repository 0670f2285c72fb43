/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.c: jobs as roots of a pool (daemon/pool), on the threads that the runner has anyway.
 * Owns the pool. The thread that runs a job is its worker for that time. Further threads begin when a job forks, as
 * many as there are CPUs for, and sleep while none does.
 * Keeps: CPU time is charged to the job that it was used for, on whichever thread.
 * Does not choose jobs, or know how they end. */
#include "tasks.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "held.h"
#include "pool/pool.h"
#include "wsd/task.h"

struct tasks {
    struct pool *pool;
    const struct wsd_plugin *offer;
    uint32_t first_number;
};

/* A job while it runs. */
struct root {
    struct pool_node node;
    struct held *held;
    int (*what)(struct held *h, struct wsd_worker *self);
    int status;
    bool measured;
    _Atomic uint64_t cpu_usec; /* [atomic: relaxed; read when all its tasks have ended] */
};

/* Up to here the CPU time of this thread is charged. 0: it runs a job that is not measured. */
static _Thread_local uint64_t charged_usec;

/* Charges this thread's CPU time since the last call. NULL: to no root. */
static void charge(struct root *root)
{
    uint64_t now = clock_thread_usec();

    if (root && charged_usec)
        atomic_fetch_add_explicit(&root->cpu_usec, now - charged_usec, memory_order_relaxed);
    charged_usec = now;
}

static void on_task_enter(struct wsd_worker *self, void *task, void *outer, void *context)
{
    charge(outer);
}

static void on_task_leave(struct wsd_worker *self, void *task, void *outer, void *context)
{
    charge(task);
}

static void on_worker_start(struct wsd_worker *self, uint32_t index, void *context)
{
    const struct tasks *t = context;

    if (t->offer && t->offer->worker_start)
        t->offer->worker_start(t->first_number + index);
}

static void on_worker_stop(struct wsd_worker *self, uint32_t index, void *context)
{
    const struct tasks *t = context;

    if (t->offer && t->offer->worker_stop)
        t->offer->worker_stop(t->first_number + index);
}

int tasks_new(struct tasks **ret_tasks, const struct wsd_plugin *offer, uint32_t first_number)
{
    struct tasks *t = malloc(sizeof(*t));
    unsigned n = cpus_usable(&(int){0});

    if (!t)
        return -ENOMEM;
    *t = (struct tasks){.offer = offer, .first_number = first_number};
    const struct pool_options options = {.workers = MIN(MAX(n, 2u) - 1, POOL_WORKERS_MAX), /* the job's own beside */
                                         .guests = WSD_RUNNER_THREADS_MAX,
                                         .lazy = true,
                                         .worker_start = on_worker_start,
                                         .worker_stop = on_worker_stop,
                                         .task_enter = on_task_enter,
                                         .task_leave = on_task_leave,
                                         .context = t};
    int r = pool_new(&t->pool, &options);

    if (r < 0) {
        free(t);
        return r;
    }
    *ret_tasks = t;
    return 0;
}

struct tasks *tasks_free(struct tasks *t)
{
    if (t)
        pool_free(t->pool);
    free(t);
    return NULL;
}

static void run_root(struct pool_node *node, struct wsd_worker *self)
{
    struct root *root = container_of(node, struct root, node);

    self->context = root;
    charged_usec = root->measured ? clock_thread_usec() : 0;
    root->status = root->what(root->held, self);
    if (root->measured)
        charge(root);
}

int tasks_run(struct tasks *t, struct held *h, int (*what)(struct held *h, struct wsd_worker *self),
              uint64_t *ret_cpu_usec)
{
    struct root root = {.node = {.run = run_root}, .held = h, .what = what, .measured = ret_cpu_usec};
    int r = pool_run(t->pool, &root.node);

    assert(r == 0); /* it is open */
    if (ret_cpu_usec)
        *ret_cpu_usec = atomic_load_explicit(&root.cpu_usec, memory_order_relaxed);
    return root.status;
}

bool tasks_is_here(const struct tasks *t)
{
    return pool_is_here(t->pool);
}
