/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c: what a worker does with the jobs of an executor: from the ring to the host and back.
 * Owns each slot from the worker's claim until transport_finished(). [worker]
 * Keeps: each claimed slot is completed exactly once, whatever its request says. Nothing of a slot is touched after its
 * completion was pushed.
 * Does not load plugins (main.c), and does not outlive a fault (fault.c). */
#include "executor/work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <wsd/task.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "executor/commands.h"
#include "executor/direct-call.h"
#include "executor/guard.h"
#include "executor/open-lane.h"
#include "executor/output-to.h"
#include "executor/slot-input.h"
#include "executor/worker-hints.h"
#include "host/cputime.h"
#include "host/files.h"
#include "pool/park.h"
#include "ring/control.h"

_Static_assert(RING_WAKE_PENDING == PARK_WAKE_PENDING, "the pool's word");

/* --- transport ---------------------------------------------------------------------------------------------------- */

static void *transport_reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    return output_reserve(slot_of(job), min, ret_size);
}

static void transport_commit(struct host_job *job, size_t size)
{
    output_commit(slot_of(job), size);
}

static size_t transport_pass(struct host_job *job, const void *data, size_t size)
{
    struct slot *s = slot_of(job);

    return s->output.to.on ? output_to_pass(s, data, size) : 0;
}

static int transport_flush(struct host_job *job)
{
    return output_flush(slot_of(job));
}

static int64_t transport_read(struct host_job *job, void *data, size_t size)
{
    return slot_input_read(slot_of(job), data, size);
}

static bool open_answered(struct slot *s, void *arg)
{
    return opens_answered(&s->shared->opens, arg);
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
    opens_begin(&s->shared->opens, &w, s->number, s->generation);
    c.number = w.serial;
    if (control_send(s->shared->control_fd, &c, -1) == 0)
        slot_wait(s, open_answered, &w);
    return opens_end(&s->shared->opens, &w);
}

static int transport_open(struct host_job *job, const char *path)
{
    struct slot *s = slot_of(job);

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
    struct slot *s = slot_of(job);

    return !(s->request.flags & DOWN_SAME_USER) ? NULL : s->request.directory ? s->request.directory : "";
}

static int transport_command(struct host_job *job, const struct wsd_command *command)
{
    return executor_command(command);
}

static void transport_message(struct host_job *job, int level, const char *text)
{
    struct slot *s = slot_of(job);
    struct control c;

    slot_alone(s);
    memset(&c, 0, CONTROL_HEADER);
    c.kind = CONTROL_MESSAGE;
    c.slot = s->number;
    c.generation = s->generation;
    c.number = (uint32_t)level & 7u;
    c.text_size = (uint32_t)strlen(text) + 1;
    memcpy(c.text, text, c.text_size);
    if (control_send(s->shared->control_fd, &c, -1) == 0) /* else wsd is gone */
        /* relaxed: partner is transport_finished(), after the joins */
        atomic_fetch_add_explicit(&s->messages, 1, memory_order_relaxed);
}

static void transport_progress(struct host_job *job, uint64_t done, uint64_t total)
{
    struct slot *s = slot_of(job);

    slot_alone(s);
    atomic_store_explicit(&s->progress, true, memory_order_relaxed);
    back_progress(&s->shared->back, s->number, s->generation, done, total);
}

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
    back_answer(&s->shared->back, s->number)->worker = self->index;
    goes_on = back_turn(&s->shared->back, s->number, s->generation, s->item, job->started_usec,
                        (struct up_end){.run_usec = (uint32_t)run_usec,
                                        .cpu_usec = (uint32_t)cpu_usec,
                                        .output_at = (uint16_t)o->small_at,
                                        .output_size = (uint16_t)o->small_used});
    return goes_on;
}

/* The rest of the output goes to its descriptor, which may wait. */
static void end_output_to(struct slot *s)
{
    struct host_job *job = &s->job;

    if (!output_to_end(s, job->error, sizeof(job->error)))
        job->exit = WSD_STATUS_MAX;
    job->ended_usec = MAX(job->ended_usec, clock_monotonic_usec());
    cputime_stale();
}

static void transport_finished(struct host_job *job, struct wsd_worker *self)
{
    struct slot *s = slot_of(job);
    struct back *back = &s->shared->back;
    uint32_t number = s->number, generation = s->generation;
    struct up_slot *u = back_answer(back, number);
    struct input_map_rest input;

    if (turn_over(s, self))
        return;
    if (s->request.n_items && s->item + 1 < s->request.n_items)
        back_hold(back);
    if (s->request.flags & DOWN_OUTPUT_FD)
        end_output_to(s);
    output_end(s, &u->output_size, &u->small_size);
    u->small_at = s->output.small_at;
    if (s->output.overflow) {
        job->exit = WSD_STATUS_MAX;
        snprintf(job->error, sizeof(job->error), "its output is larger than its part of the arena");
    }
    if (!slot_input_drop(s, &input)) {
        job->exit = WSD_STATUS_MAX;
        snprintf(job->error, sizeof(job->error), "its input was cut while it ran, or could not be read to its end");
    }
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
    slot_vacate(s); /* before the completion, since that lets wsd use the slot again */
    back_done(back, number, generation);
    if (input_map_unmap(&input))
        cputime_stale(); /* charged to no job: the next one has not begun */
}

static const struct host_transport transport = {
    .reserve = transport_reserve,
    .commit = transport_commit,
    .flush = transport_flush,
    .pass = transport_pass,
    .read = transport_read,
    .open = transport_open,
    .directory = transport_directory,
    .command = transport_command,
    .message = transport_message,
    .progress = transport_progress,
    .finished = transport_finished,
};

/* --- one job ------------------------------------------------------------------------------------------------------ */

/* Runs the request with its inputs; `why`: the reason that it cannot run. */
static void run_request(struct slot *s, struct wsd_worker *self, const char *why)
{
    struct back_request *q = &s->request;
    const struct plugin_function *function =
        why ? NULL : shared_function(s->shared, (uint64_t)q->plugin << 32 | q->function);
    uint64_t started_usec = back_answer(&s->shared->back, s->number)->started_usec;

    if (!why && !function)
        why = "wsd handed over a job of an unknown function";
    if (!why && slot_input_is_outside(s)) {
        why = slot_input_fetch(s, function);
        cputime_stale(); /* that may have waited */
    }
    if (!why && q->flags & DOWN_OUTPUT_FD) {
        why = output_to_begin(s);
        cputime_stale();
    }
    const struct host_request request = {
        .id = q->id,
        .function = why ? NULL : function,
        .args = q->args,
        .args_size = q->args_size,
        .traceparent = q->traceparent,
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
        if (item) {
            slot_begin_item(s, item);
            output_init(&s->output, (uint32_t)ring_aligned(s->output.small_at + s->output.small_used));
        }
        run_request(s, self, back_read_item(&s->request) < 0 ? MALFORMED : NULL);
        item++;
    } while (goes_on);
}

static void run_slot(struct pool_node *node, struct wsd_worker *self)
{
    struct slot *s = slot_of(container_of(node, struct host_job, node));
    const char *why = back_read(&s->shared->back, s->number, s->generation, &s->request) < 0 ? MALFORMED : NULL;

    hints_begun();
    hints_not_direct();
    if (s->request.n_items > 0 && s->request.n_items <= RING_BUNDLE)
        run_items(s, self);
    else
        run_request(s, self, why);
}

/* --- the pool's source -------------------------------------------------------------------------------------------- */

/* If both what this worker has taken and what is left will be over before another worker would be awake, it does all of
 * it. */
bool work_worth_waking(void *context)
{
    struct work *w = context;
    struct back *back = &w->shared.back;

    return (hints_brief() ? back_worth_waking(back) : back_ready(back)) || lanes_ready(&w->lanes);
}

static void note_used(struct work *w, uint32_t number)
{
    uint32_t n = atomic_load_explicit(&w->n_used, memory_order_relaxed);

    while (n <= number && !atomic_compare_exchange_weak_explicit(&w->n_used, &n, number + 1, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
}

static struct pool_node *take_job(struct work *w, uint32_t *ret_usec)
{
    struct shared *shared = &w->shared;
    uint32_t number, generation;

    while ((number = back_take(&shared->back, &generation, ret_usec)) != RING_NONE) {
        struct slot *s = &w->slots[number];

        if (!back_claim(&shared->back, number, generation, cputime_recent_nsec() / 1000u)) {
            inputs_drop(&shared->inputs, number, generation);
            inputs_drop(&shared->outputs, number, generation);
            continue;
        }
        if (!slot_occupy(s, shared, number, generation))
            continue;
        note_used(w, number);
        s->job.node.run = run_slot;
        output_init(&s->output, 0);
        lane_look_away();
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
        node = lanes_take(&w->lanes, ret_usec);
        return node ? node : take_job(w, ret_usec);
    }
    node = take_job(w, ret_usec);
    return node ? node : lanes_take(&w->lanes, ret_usec);
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
    hints_set_brief(usec < RING_WORTH_USEC);
    *ret_more = work_worth_waking(context);
    return node;
}

void work_prepare(void *context, struct eventcount_set *set)
{
    struct work *w = context;

    guard_look(true); /* first: it reads the clocks, and no client wakes a worker that looks */
    cputime_sleeps();
    lanes_prepare(&w->lanes, set);
}

void work_done(void *context, struct eventcount_set *set)
{
    struct work *w = context;

    cputime_slept();
    lanes_done(&w->lanes, set);
}

void work_watch(void *context, struct eventcount_set *set)
{
    struct work *w = context;

    lanes_prepare(&w->lanes, set);
}

void work_watched(void *context, struct eventcount_set *set)
{
    struct work *w = context;

    lanes_done(&w->lanes, set);
}

bool work_ready(void *context)
{
    struct work *w = context;

    return back_ready(&w->shared.back) || lanes_ready(&w->lanes);
}

bool work_may_spin(void *context)
{
    struct work *w = context;

    return lanes_may_spin(&w->lanes);
}

uint32_t work_running(void *context)
{
    struct work *w = context;
    uint32_t n_used = atomic_load_explicit(&w->n_used, memory_order_relaxed), n = 0;

    for (uint32_t i = 0; i < n_used; i++) /* relaxed: one that begins or ends now may count or not */
        n += atomic_load_explicit(&w->slots[i].busy, memory_order_relaxed);
    return n + lanes_running(&w->lanes);
}

void work_leave(void *context)
{
    lane_look_away();
    cputime_stale(); /* a worker that sleeps or retires comes back later, and may find a job at once */
}

void work_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation)
{
    if (direct_call_place(job, ret_slot, ret_generation))
        return;
    const struct slot *s = container_of(job, struct slot, job);
    *ret_slot = s->number;
    *ret_generation = s->generation;
}

void work_init(struct work *w, int control_fd)
{
    shared_init(&w->shared, control_fd);
    executor_commands_init(control_fd);
    lanes_init(&w->lanes, &w->shared);
}
