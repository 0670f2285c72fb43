/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c: the jobs of an executor: from the ring to the host and back.
 * Owns the slots' private halves. [worker] A slot belongs to the worker that claimed it, from there to finished().
 * Keeps: each claimed slot is completed exactly once, whatever its request says; nothing of a slot is touched after
 * its completion was pushed.
 * Does not load plugins (main.c), and does not outlive a fault (fault.c). */
#include "executor/work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <wsd/task.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "executor/commands.h"
#include "executor/guard.h"
#include "host/cputime.h"
#include "host/files.h"
#include "pool/park.h"
#include "ring/control.h"

#define DOWN_DESCRIPTOR (DOWN_INPUT_FD | DOWN_INPUT_PIPE)
_Static_assert(RING_WAKE_PENDING == PARK_WAKE_PENDING, "the pool's word");
#define PIPE_LOOK_MSEC 20 /* how often a wait for streamed input looks at the cancel flag */

static struct slot *from_job(struct host_job *job)
{
    return container_of(job, struct slot, job);
}

static bool is_cancelled(const struct slot *s)
{
    return atomic_load_explicit(s->request.cancel, memory_order_relaxed) != 0;
}

bool slot_wait(struct slot *s, bool (*there)(struct slot *s, void *arg), void *arg)
{
    struct eventcount *space = &s->work->back.up->space;
    uint64_t since = 0;
    bool yes, blocks = false;

    while (!(yes = there(s, arg)) && !is_cancelled(s)) {
        uint32_t epoch = eventcount_prepare(space);
        yes = there(s, arg);
        if (yes || is_cancelled(s)) {
            eventcount_cancel(space);
            break;
        }
        /* Mostly short. Other waiters are notified too, so the clock tells when it is long. */
        if (since == 0)
            since = clock_monotonic_usec();
        eventcount_wait(space, epoch, blocks ? UINT64_MAX : POOL_BLOCKS_AFTER_USEC, true);
        if (!blocks && clock_monotonic_usec() - since >= POOL_BLOCKS_AFTER_USEC) {
            pool_blocking_begin();
            blocks = true;
        }
    }
    if (blocks)
        pool_blocking_end();
    return yes;
}

void slot_alone(struct slot *s)
{
    if (s->request.n_items > 1)
        back_close(&s->work->back, s->number);
}

/* --- transport ---------------------------------------------------------------------------------------------------- */

static void *transport_reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    return output_reserve(from_job(job), min, ret_size);
}

static void transport_commit(struct host_job *job, size_t size)
{
    output_commit(from_job(job), size);
}

static int transport_flush(struct host_job *job)
{
    return output_flush(from_job(job));
}

/* Waits until there is something to read, the end of the input, or a cancel. */
static void await_input(struct slot *s)
{
    const struct timespec shortly = {.tv_nsec = POOL_BLOCKS_AFTER_USEC * 1000L};
    struct pollfd p = {.fd = s->input_pipe, .events = POLLIN};

    if (ppoll(&p, 1, &shortly, NULL) > 0)
        return;
    pool_blocking_begin();
    while (!is_cancelled(s) && poll(&p, 1, PIPE_LOOK_MSEC) <= 0)
        ;
    pool_blocking_end();
}

static int64_t transport_read(struct host_job *job, void *data, size_t size)
{
    struct slot *s = from_job(job);

    if (s->input_pipe < 0)
        return 0;
    for (;;) {
        await_input(s);
        if (is_cancelled(s))
            return -ECANCELED;
        ssize_t n = read(s->input_pipe, data, size);
        /* an end that comes with a cancel is no end */
        if (n > 0 || (n == 0 && !is_cancelled(s)))
            return n;
        if (n == 0 || (errno != EINTR && errno != EAGAIN))
            return -ECANCELED;
    }
}

static bool open_answered(struct slot *s, void *arg)
{
    return opens_answered(&s->work->opens, arg);
}

/* Has the submitting client open the file, by way of wsd. */
static int open_there(struct slot *s, const char *path)
{
    struct control c = {.kind = CONTROL_OPEN, .slot = s->number, .generation = s->generation};
    size_t size = strlen(path) + 1;
    struct open_wait w;

    if (size > CONTROL_TEXT)
        return -ENAMETOOLONG;
    memcpy(c.text, path, size);
    c.text_size = (uint32_t)size;
    slot_alone(s);
    opens_begin(&s->work->opens, &w, s->number, s->generation);
    c.number = w.serial;
    if (control_send(s->work->control_fd, &c, -1) == 0)
        slot_wait(s, open_answered, &w);
    return opens_end(&s->work->opens, &w);
}

static int transport_open(struct host_job *job, const char *path)
{
    struct slot *s = from_job(job);

    if (!(s->request.flags & DOWN_SAME_USER))
        return open_there(s, path);
    if (path[0] != '/' && !s->request.directory)
        return -ENOENT;
    int fd = files_open(s->request.directory, path);
    if (fd != -EACCES && fd != -EPERM)
        return fd;
    /* the same user, but this process lacks capabilities that the user may have */
    int there = open_there(s, path);
    return there == -ENOTCONN || there == -ECANCELED ? fd : there;
}

static const char *transport_directory(struct host_job *job)
{
    struct slot *s = from_job(job);

    return !(s->request.flags & DOWN_SAME_USER) ? NULL : s->request.directory ? s->request.directory : "";
}

static int transport_command(struct host_job *job, const struct wsd_command *command)
{
    return executor_command(command);
}

static void transport_message(struct host_job *job, int level, const char *text)
{
    struct slot *s = from_job(job);
    struct control c;

    slot_alone(s);
    memset(&c, 0, CONTROL_HEADER);
    c.kind = CONTROL_MESSAGE;
    c.slot = s->number;
    c.generation = s->generation;
    c.number = (uint32_t)level & 7u;
    c.text_size = (uint32_t)strlen(text) + 1;
    memcpy(c.text, text, c.text_size);
    if (control_send(s->work->control_fd, &c, -1) == 0) /* else wsd is gone */
        /* relaxed: partner is transport_finished(), after the joins */
        atomic_fetch_add_explicit(&s->messages, 1, memory_order_relaxed);
}

static void transport_progress(struct host_job *job, uint64_t done, uint64_t total)
{
    struct slot *s = from_job(job);

    slot_alone(s);
    atomic_store_explicit(&s->progress, true, memory_order_relaxed);
    back_progress(&s->work->back, s->number, s->generation, done, total);
}

/* This thread's jobs are expected to be over soon. */
static _Thread_local bool brief;

/* The next job of this thread's bundle has its turn. Not kept in the slot, which may be another's once its last job has
 * ended. */
static _Thread_local bool goes_on;

/* If a job of a bundle has succeeded and gave nothing but output, gives the next one its turn. */
static bool turn_over(struct slot *s, struct wsd_worker *self)
{
    const struct host_job *job = &s->job;
    const struct output *o = &s->output;
    uint64_t run_usec = job->ended_usec - job->started_usec, cpu_usec = host_job_cpu_usec(job);
    bool plain = job->exit == 0 && !*job->status && !o->chunked && run_usec <= UINT32_MAX && cpu_usec <= UINT32_MAX;

    if (s->item + 1 >= s->request.n_items || !plain)
        return false;
    back_answer(&s->work->back, s->number)->worker = self->index;
    goes_on = back_turn(&s->work->back, s->number, s->generation, s->item, job->started_usec,
                        (struct up_end){.run_usec = (uint32_t)run_usec,
                                        .cpu_usec = (uint32_t)cpu_usec,
                                        .output_at = (uint16_t)o->small_at,
                                        .output_size = (uint16_t)o->small_used});
    return goes_on;
}

static void transport_finished(struct host_job *job, struct wsd_worker *self)
{
    struct slot *s = from_job(job);
    struct work *w = s->work;
    uint32_t number = s->number, generation = s->generation;
    struct up_slot *u = back_answer(&w->back, number);
    struct map_rest input;

    if (turn_over(s, self))
        return;
    if (s->request.n_items && s->item + 1 < s->request.n_items)
        back_hold(&w->back);
    output_end(s, &u->output_size, &u->small_size);
    u->small_at = s->output.small_at;
    if (s->output.overflow) {
        job->exit = WSD_STATUS_MAX;
        snprintf(job->error, sizeof(job->error), "its output is larger than its part of the arena");
    }
    if (!map_drop(&s->map, number, &input)) {
        job->exit = WSD_STATUS_MAX;
        snprintf(job->error, sizeof(job->error), "its input was cut while it ran, or could not be read to its end");
    }
    close_fd(s->input_pipe);
    if (s->arena)
        arenas_leave(&w->arenas, s->arena);
    if (s->request.flags & DOWN_DESCRIPTOR)
        inputs_drop(&w->inputs, number, generation);
    u->ended_usec = job->ended_usec;
    u->cpu_usec = host_job_cpu_usec(job);
    u->worker = self->index;
    u->exit = job->exit;
    u->messages = atomic_load_explicit(&s->messages, memory_order_relaxed);
    bool texts = *job->error || *job->status;
    u->texts = (texts ? UP_TEXTS : 0u) | (atomic_load_explicit(&s->progress, memory_order_relaxed) ? UP_PROGRESS : 0u);
    if (texts) {
        memcpy(u->error, job->error, strlen(job->error) + 1);
        memcpy(u->status, job->status, strlen(job->status) + 1);
    }
    /* release: partner is the acquire in work_take(), in the worker that gets this slot's next job. Before the
     * completion, since that lets wsd use the slot again. */
    atomic_store_explicit(&s->busy, false, memory_order_release);
    back_done(&w->back, number, generation);
    if (map_unmap(&input))
        cputime_stale(); /* charged to no job: the next one has not begun */
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

/* --- one job ------------------------------------------------------------------------------------------------------ */

static bool input_there(struct slot *s, void *arg)
{
    int *fd = arg;

    *fd = inputs_take(&s->work->inputs, s->number, s->generation);
    return *fd >= 0;
}

/* Maps the input. NULL, or why it cannot be read in place. A streaming function sees only copies anyway. */
static const char *map_input(struct slot *s, int fd, bool streaming)
{
    const struct back_request *q = &s->request;
    int r = q->flags & DOWN_INPUT_FILE
                ? map_file(&s->map, s->number, fd, q->input_at, q->input_size, q->flags & DOWN_INPUT_COPY && !streaming)
                : map_sealed(&s->map, fd, q->input_size);

    if (!(q->flags & DOWN_INPUT_FILE))
        close_fd(fd);
    s->request.input = s->map.input;
    return r == 0 ? NULL : r == -ESTALE ? "its input was cut before it began" : "its input cannot be mapped";
}

/* Takes an input that came by descriptor. NULL, or why it is not there. */
static const char *get_input(struct slot *s, const struct plugin_function *function)
{
    _cleanup_(close_fdp) int fd = -1;

    if (!slot_wait(s, input_there, &fd))
        return "cancelled before its input came";
    if (s->request.flags & DOWN_INPUT_FD)
        return map_input(s, TAKE_FD(fd), function->flags & WSD_FN_STREAMING);
    if (!(function->flags & WSD_FN_STREAMING))
        return "its input came as a stream, which this function does not take";
    s->input_pipe = TAKE_FD(fd);
    return NULL;
}

static bool arena_there(struct slot *s, void *unused)
{
    s->arena = arenas_use(&s->work->arenas, s->request.arena);
    return s->arena;
}

/* Takes what lies in an arena. NULL, or why it is not there. */
static const char *get_parts(struct slot *s, const struct plugin_function *function)
{
    struct back_request *q = &s->request;

    if (!slot_wait(s, arena_there, NULL))
        return "cancelled before its arena came";
    void *output = arena_part(s->arena, q->output_at, q->output_size),
         *input = arena_part(s->arena, q->input_at, q->input_size);
    if ((q->flags & DOWN_OUTPUT_PART && !output) || (q->flags & DOWN_INPUT_PART && !input))
        return "its part of the arena cannot be mapped";
    if (q->flags & DOWN_OUTPUT_PART)
        output_place(&s->output, output, q->output_size, function->flags & WSD_FN_SHARED);
    if (!(q->flags & DOWN_INPUT_PART))
        return NULL;
    q->input = input;
    if (!(q->flags & DOWN_INPUT_COPY) || function->flags & WSD_FN_STREAMING)
        return NULL; /* streaming, it sees only copies anyway */
    int r = map_copy(&s->map, input, q->input_size);
    q->input = s->map.input;
    return r == 0 ? NULL : "there is no memory for a copy of its input";
}

const struct plugin_function *work_function(struct work *w, uint64_t target)
{
    uint32_t number = (uint32_t)(target >> 32), function = (uint32_t)target;
    /* acquire: partner is the release store where the plugin was loaded */
    const struct host_plugin *p =
        number < WORK_PLUGINS ? atomic_load_explicit(&w->plugins[number], memory_order_acquire) : NULL;

    return p && function < p->n_functions ? &p->functions[function] : NULL;
}

/* Runs the request with its inputs; `why`: the reason that it cannot run. */
static void run_request(struct slot *s, struct wsd_worker *self, const char *why)
{
    struct back_request *q = &s->request;
    const struct plugin_function *function =
        why ? NULL : work_function(s->work, (uint64_t)q->plugin << 32 | q->function);
    uint64_t started_usec = back_answer(&s->work->back, s->number)->started_usec;

    if (!why && !function)
        why = "wsd handed over a job of an unknown function";
    if (!why && q->flags & (DOWN_DESCRIPTOR | DOWN_ARENA)) {
        why = q->flags & DOWN_ARENA ? get_parts(s, function) : get_input(s, function);
        cputime_stale(); /* that may have waited */
    }
    const struct host_request request = {
        .id = q->id,
        .function = why ? NULL : function,
        .args = q->args,
        .args_size = q->args_size,
        .argc = q->argc,
        .input = q->input,
        .input_size = q->input_size,
        .deadline_usec = q->timeout_usec && q->timeout_usec < UINT64_MAX / 2 ? started_usec + q->timeout_usec : 0,
        .started_usec = started_usec,
        .cancel = q->cancel,
        .transport = &transport};
    int r = host_job_begin(&s->job, &request);
    if (why)
        host_job_fail(&s->job, self, "%s", why);
    else if (r < 0)
        host_job_fail(&s->job, self, NULL);
    else
        host_job_run(&s->job, self);
}

#define MALFORMED "wsd handed over a malformed job"

/* Runs the jobs of a bundle, one after the other. */
static void run_items(struct slot *s, struct wsd_worker *self)
{
    uint32_t item = 0;

    do {
        goes_on = false;
        s->item = item;
        if (item) {
            atomic_store_explicit(&s->messages, 0, memory_order_relaxed);
            atomic_store_explicit(&s->progress, false, memory_order_relaxed);
            output_init(&s->output, (uint32_t)ring_aligned(s->output.small_at + s->output.small_used));
        }
        run_request(s, self, back_read_item(&s->request) < 0 ? MALFORMED : NULL);
        item++;
    } while (goes_on);
}

static void run_slot(struct pool_node *node, struct wsd_worker *self)
{
    struct slot *s = from_job(container_of(node, struct host_job, node));
    const char *why = back_read(&s->work->back, s->number, s->generation, &s->request) < 0 ? MALFORMED : NULL;

    work_begun();
    lanes_cool();
    if (s->request.n_items > 0 && s->request.n_items <= RING_BUNDLE)
        run_items(s, self);
    else
        run_request(s, self, why);
}

/* --- the pool's source -------------------------------------------------------------------------------------------- */

void work_begun(void)
{
    brief = false; /* it may wait for other jobs, so other workers should come */
}

/* If both what this worker has taken and what is left will be over before another worker would be awake, it does all of
 * it. */
bool work_worth_waking(void *context)
{
    struct work *w = context;

    return (brief ? back_worth_waking(&w->back) : back_ready(&w->back)) || lanes_ready(w);
}

static struct pool_node *take_job(struct work *w, uint32_t *ret_usec)
{
    uint32_t number, generation;

    while ((number = back_take(&w->back, &generation, ret_usec)) != RING_NONE) {
        struct slot *s = &w->slots[number];

        if (!back_claim(&w->back, number, generation, cputime_recent_nsec() / 1000u)) {
            inputs_drop(&w->inputs, number, generation);
            continue;
        }
        /* acquire: partner is the release in transport_finished(). Busy only if wsd hands out a slot twice. */
        if (atomic_exchange_explicit(&s->busy, true, memory_order_acquire))
            continue;
        if (!s->initialised) {
            host_job_init(&s->job);
            s->job.node.run = run_slot;
            s->work = w;
            s->initialised = true;
        }
        s->number = number;
        s->generation = generation;
        map_init(&s->map);
        s->arena = NULL;
        s->input_pipe = -1;
        atomic_store_explicit(&s->messages, 0, memory_order_relaxed);
        atomic_store_explicit(&s->progress, false, memory_order_relaxed);
        output_init(&s->output, 0);
        lanes_leave(w);
        return &s->job.node;
    }
    return NULL;
}

/* Takes from ring and lanes in turns, so that neither delays the other. */
static struct pool_node *take_in_turn(struct work *w, uint32_t *ret_usec)
{
    static _Thread_local bool direct_first;
    struct pool_node *node;

    direct_first = !direct_first;
    if (direct_first) {
        node = lanes_take(w, ret_usec);
        return node ? node : take_job(w, ret_usec);
    }
    node = take_job(w, ret_usec);
    return node ? node : lanes_take(w, ret_usec);
}

struct pool_node *work_take(void *context, bool *ret_more)
{
    uint32_t usec = RING_WORTH_USEC;
    struct pool_node *node = take_in_turn(context, &usec);

    if (!node) {
        cputime_stale(); /* a worker that finds nothing looks on, or sleeps */
        return NULL;
    }
    guard_look(false);
    brief = usec < RING_WORTH_USEC;
    *ret_more = work_worth_waking(context);
    return node;
}

void work_prepare(void *context, struct eventcount_set *set)
{
    lanes_prepare(context, set);
    guard_look(true);
}

bool work_ready(void *context)
{
    struct work *w = context;

    return back_ready(&w->back) || lanes_ready(w);
}

uint32_t work_running(void *context)
{
    struct work *w = context;
    uint32_t n = 0;

    for (uint32_t i = 0; i < RING_SLOTS; i++) /* relaxed: one that begins or ends now may count or not */
        n += atomic_load_explicit(&w->slots[i].busy, memory_order_relaxed);
    return n + lanes_running(w);
}

void work_leave(void *context)
{
    lanes_leave(context);
    cputime_stale(); /* a worker that sleeps or retires comes back later, and may find a job at once */
}

void work_init(struct work *w, int control_fd)
{
    w->control_fd = control_fd;
    inputs_init(&w->inputs);
    opens_init(&w->opens);
    arenas_init(&w->arenas);
    executor_commands_init(control_fd);
    lanes_init(w);
}
