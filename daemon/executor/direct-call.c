/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-call.c: calls that come straight from clients, and their answers.
 * Owns the private half of each call, from claim to answer. [worker]
 * Keeps: a call runs on private copies of all that its client wrote, and is answered once. No more calls run at a time
 * than wsd allows, and none that wsd has not bound.
 * Does not know users, and waits for no client. */
#include "executor/direct-call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/task.h>

#include "base/cleanup.h"
#include "executor/commands.h"
#include "executor/worker-hints.h"
#include "host/cputime.h"
#include "host/files.h"

#define SLOT_USEC 1000u /* no call of a slot begins later than this after the first */

/* The next call of this thread's slot has its turn. Not kept in the slot, which may be another call's once its last
 * call has ended. */
static _Thread_local bool goes_on;

/* --- the transport of a call -------------------------------------------------------------------------------------- */

static struct direct_call *from_job(struct host_job *job)
{
    return container_of(job, struct direct_call, job);
}

static void *direct_reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    struct direct_call *d = from_job(job);

    if (d->overflow)
        return NULL;
    free(d->scratch);
    d->scratch = NULL;
    if (min <= sizeof(d->output) - d->used) {
        *ret_size = sizeof(d->output) - d->used;
        return d->output + d->used;
    }
    d->scratch = malloc(min);
    *ret_size = min;
    return d->scratch;
}

static void direct_commit(struct host_job *job, size_t size)
{
    struct direct_call *d = from_job(job);

    /* a part of the output must never pass for all of it */
    if (size > d->request.call.room - d->used) {
        d->overflow = true;
        return;
    }
    if (d->scratch)
        memcpy(d->output + d->used, d->scratch, size);
    d->used += (uint32_t)size;
}

static int direct_flush(struct host_job *job)
{
    return from_job(job)->overflow ? -ECANCELED : 0;
}

static int64_t direct_read(struct host_job *job, void *data, size_t size)
{
    return 0; /* what there is, is in memory */
}

static int direct_open(struct host_job *job, const char *path)
{
    struct direct_call *d = from_job(job);

    if (!d->lane->same_user)
        return -ENOTCONN; /* a function that asks for files says so, and is called by the socket */
    if (path[0] != '/' && !d->lane->directory)
        return -ENOENT;
    return files_open(d->lane->directory, path);
}

static const char *direct_directory(struct host_job *job)
{
    struct direct_call *d = from_job(job);

    return !d->lane->same_user ? NULL : d->lane->directory ? d->lane->directory : "";
}

static int direct_command(struct host_job *job, const struct wsd_command *command)
{
    return executor_command(command);
}

static void direct_message(struct host_job *job, int level, const char *text)
{
    /* messages of a direct call have no reader */
}

static void direct_progress(struct host_job *job, uint64_t done, uint64_t total)
{
}

/* Whether it has used up its time, whatever it returns. */
static bool is_late(const struct direct_call *d)
{
    return d->deadline_usec && d->job.ended_usec >= d->deadline_usec;
}

static enum lane_outcome outcome_of(const struct direct_call *d)
{
    return d->overflow ? LANE_OVERFLOW : is_late(d) ? LANE_TIMED_OUT : LANE_ENDED;
}

static void begin_call(struct direct_call *d)
{
    struct up_direct *u = &d->lane->up->calls[d->number];

    d->overflow = false;
    d->used = 0;
    d->started_usec = cputime_recent_nsec() / 1000u;
    d->deadline_usec = d->limit_usec ? d->started_usec + d->limit_usec : 0;
    atomic_store_explicit(&u->deadline_usec, d->deadline_usec, memory_order_relaxed);
}

/* Tells wsd what a slot calls, from before the claim until after the answer. So wsd knows of each call that runs when
 * the executor dies. */
static void mark_call(struct lane *l, uint32_t slot, uint32_t generation)
{
    struct up_direct *u = &l->up->calls[slot];

    atomic_store_explicit(&u->deadline_usec, 0, memory_order_relaxed);
    atomic_store_explicit(&u->bind, lane_back_bind(&l->back, slot), memory_order_relaxed);
    /* release: partner is wsd's acquire load, which reads the others after */
    atomic_store_explicit(&u->word, ring_word(generation, 1), memory_order_release);
}

/* Withdraws that, unless the slot is another call's already. */
static void unmark_call(struct lane *l, uint32_t slot, uint32_t generation)
{
    uint64_t word = ring_word(generation, 1);

    atomic_compare_exchange_strong_explicit(&l->up->calls[slot].word, &word, 0, memory_order_release,
                                            memory_order_relaxed);
}

/* Whether this slot must stop: others have their turn now, or wsd allows no more of its calls. */
static bool is_over(const struct direct_call *d)
{
    return d->job.ended_usec - d->begun_usec >= SLOT_USEC || !lane_back_allowed(&d->lane->back, d->request.bind) ||
           lane_back_credit(&d->lane->back) == 0;
}

static void flush_bucket(struct direct_call *d)
{
    struct up_called *called = back_called(&d->lane->shared->back, d->lane->number, d->request.bind);

    if (d->n_bucket)
        atomic_fetch_add_explicit(&called->run[d->bucket], d->n_bucket, memory_order_relaxed);
    d->n_bucket = 0;
}

/* Notes how long a call took that has ended. Brief ones take as long as the ones before: they are told together. */
static void note_run(struct direct_call *d, uint64_t run_usec)
{
    uint32_t bucket = histogram_bucket(run_usec);

    if (bucket != d->bucket)
        flush_bucket(d);
    d->bucket = bucket;
    d->n_bucket++;
    d->n_ended++;
    d->run_usec += run_usec;
    d->run_most = MAX(d->run_most, run_usec);
}

/* Adds to a part that only this worker writes. */
static void add(_Atomic uint64_t *part, uint64_t n)
{
    atomic_store_explicit(part, atomic_load_explicit(part, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Tells wsd of all calls of the slot; the last one has ended like that. What is not told when the executor dies is not
 * counted. */
static void tell_called(struct direct_call *d, enum ring_called last)
{
    struct up_calls *u = &back_called(&d->lane->shared->back, d->lane->number, d->request.bind)->slots[d->number];

    flush_bucket(d);
    if (d->n_ended > 1)
        add(&u->ended[RING_CALL_SUCCEEDED], d->n_ended - 1);
    add(&u->ended[last], 1);
    add(&u->run_usec, d->run_usec);
    if (d->run_most > atomic_load_explicit(&u->run_most, memory_order_relaxed))
        atomic_store_explicit(&u->run_most, d->run_most, memory_order_relaxed);
}

static enum ring_called called_as(const struct direct_call *d, const struct lane_answer *a)
{
    if (a->outcome == LANE_TIMED_OUT)
        return RING_CALL_TIMED_OUT;
    if (a->outcome == LANE_OVERFLOW)
        return RING_CALL_FAILED;
    if (lane_back_cancelled(&d->lane->back, d->number))
        return RING_CALL_CANCELLED;
    return a->exit == 0 ? RING_CALL_SUCCEEDED : RING_CALL_FAILED;
}

/* If the call has succeeded and gave nothing but output, gives the next one of its slot its turn. */
static bool begin_next_call(struct direct_call *d)
{
    const struct host_job *job = &d->job;
    uint64_t run_usec = job->ended_usec - job->started_usec, cpu_usec = host_job_cpu_usec(job);
    struct lane_end end = {.run_usec = (uint32_t)run_usec, .cpu_usec = (uint32_t)cpu_usec, .output_size = d->used};

    if (job->exit != 0 || *job->status || d->overflow || is_late(d) || run_usec > UINT32_MAX || cpu_usec > UINT32_MAX ||
        is_over(d) || !lane_back_turn(&d->lane->back, d->number, &d->request, &end, d->output))
        return false;
    free(d->scratch);
    d->scratch = NULL;
    d->cpu_usec += cpu_usec;
    note_run(d, run_usec);
    begin_call(d);
    return true;
}

static void direct_finished(struct host_job *job, struct wsd_worker *self)
{
    struct direct_call *d = from_job(job);
    struct lane *l = d->lane;

    goes_on = begin_next_call(d);
    if (goes_on)
        return;
    uint32_t number = d->number, generation = d->generation, output_at = d->request.call.output_at;
    uint64_t cpu_usec = d->cpu_usec;
    uint8_t output[LANE_OUTPUT];
    char error[WSD_TEXT_MAX], status[WSD_TEXT_MAX];
    struct lane_answer a = {.outcome = outcome_of(d),
                            .exit = job->exit,
                            .worker = self->index,
                            .run_usec = job->ended_usec - job->started_usec,
                            .cpu_usec = host_job_cpu_usec(job),
                            .output = output,
                            .output_size = d->used,
                            .error = error,
                            .status = status};

    if (a.outcome == LANE_TIMED_OUT)
        snprintf(job->error, sizeof(job->error), "its time was up");
    memcpy(output, d->output, d->used);
    memcpy(error, job->error, strlen(job->error) + 1);
    memcpy(status, job->status, strlen(job->status) + 1);
    free(d->scratch);
    d->scratch = NULL;
    if (d->request.item) /* calls beside the first one */
        atomic_fetch_add_explicit(&l->up->begun, d->request.item, memory_order_relaxed);
    note_run(d, a.run_usec);
    tell_called(d, called_as(d, &a));
    if (cpu_usec + a.cpu_usec)
        atomic_fetch_add_explicit(&l->up->cpu_usec, cpu_usec + a.cpu_usec, memory_order_relaxed);
    /* release: partner is the acquire in direct_call_take(). Before the answer, after which the client may use the slot
     * again. */
    atomic_store_explicit(&d->busy, false, memory_order_release);
    atomic_fetch_sub_explicit(&l->up->running, 1, memory_order_seq_cst);
    lane_look_at(l); /* it stays mapped until this worker looks away, also where the client shuts it after the answer */
    bool woke = lane_back_answer(&l->back, number, generation, output_at, &a);
    bool told = lane_notify(l);
    if (woke || told)
        atomic_fetch_add_explicit(&l->up->wakes, 1, memory_order_relaxed);
    unmark_call(l, number, generation);
    hints_answered(woke || told);
}

static const struct host_transport transport = {
    .reserve = direct_reserve,
    .commit = direct_commit,
    .flush = direct_flush,
    .read = direct_read,
    .open = direct_open,
    .directory = direct_directory,
    .command = direct_command,
    .message = direct_message,
    .progress = direct_progress,
    .finished = direct_finished,
};

bool direct_call_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation)
{
    if (job->transport != &transport)
        return false;
    const struct direct_call *d = container_of(job, struct direct_call, job);
    *ret_slot = ring_lane_slot(d->lane->number, d->number);
    *ret_generation = d->generation;
    return true;
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

static const struct plugin_function *find_function(struct lane *l, uint32_t bind)
{
    return bind < LANE_BINDS
               ? shared_function(l->shared, atomic_load_explicit(&l->binds[bind].target, memory_order_relaxed))
               : NULL;
}

static void run_call(struct direct_call *d, struct wsd_worker *self)
{
    static const uint8_t no_id[16];
    const uint8_t *bytes = d->request.bytes;
    const struct lane_part *p = &d->request.call;
    struct host_request request = {.id = no_id,
                                   .function = d->function,
                                   .args = (const char *)bytes + p->args_at,
                                   .args_size = p->args_size,
                                   .argc = p->argc,
                                   .input = p->input_size ? bytes + p->input_at : NULL,
                                   .input_size = p->input_size,
                                   .started_usec = d->started_usec,
                                   .deadline_usec = d->deadline_usec,
                                   .cancel = &d->lane->back.memory->slots[d->number].cancel,
                                   .transport = &transport};

    if (host_job_begin(&d->job, &request) < 0)
        host_job_fail(&d->job, self, NULL);
    else
        host_job_run(&d->job, self);
}

static void run_direct(struct pool_node *node, struct wsd_worker *self)
{
    struct direct_call *d = from_job(container_of(node, struct host_job, node));

    hints_begun();
    do {
        goes_on = false;
        run_call(d, self);
    } while (goes_on);
}

/* Frees it before the answer, since the client may use the slot again after that. */
static void refuse_call(struct lane *l, struct direct_call *d, uint32_t slot, uint32_t generation)
{
    atomic_fetch_sub_explicit(&l->up->running, 1, memory_order_seq_cst);
    atomic_store_explicit(&d->busy, false, memory_order_release);
    lane_back_answer(&l->back, slot, generation, 0, &(struct lane_answer){.outcome = LANE_REFUSED});
    lane_notify(l);
    unmark_call(l, slot, generation);
}

/* Tells wsd that a call runs, once until wsd stops looking. */
static void announce_call(struct shared *shared)
{
    struct up *up = shared->back.up;

    /* seq_cst: after the RMW of running; partner is wsd, which stores 0 and then looks at running */
    if (atomic_load_explicit(&up->lanes_watched, memory_order_seq_cst) == 0 &&
        atomic_exchange_explicit(&up->lanes_watched, 1, memory_order_seq_cst) == 0)
        back_bell(&shared->back);
}

/* Prepares the calls of a claimed slot. False: it is malformed, or may not be called. */
static bool prepare_call(struct lane *l, struct direct_call *d)
{
    uint64_t limit;

    if (lane_back_read(&l->back, d->number, &d->request) < 0 || !lane_back_allowed(&l->back, d->request.bind))
        return false;
    if (!d->initialised) {
        host_job_init(&d->job);
        d->job.node.run = run_direct;
        d->initialised = true;
    }
    limit = atomic_load_explicit(&l->binds[d->request.bind].max_run_usec, memory_order_relaxed);
    if (d->request.timeout_usec && (!limit || d->request.timeout_usec < limit))
        limit = d->request.timeout_usec;
    d->lane = l;
    d->limit_usec = limit < UINT64_MAX / 2 ? limit : 0;
    d->cpu_usec = 0;
    d->n_ended = d->run_usec = d->run_most = 0;
    d->n_bucket = 0;
    d->function = find_function(l, d->request.bind); /* for all of them, even if the number is bound anew meanwhile */
    begin_call(d);
    d->begun_usec = d->started_usec;
    atomic_store_explicit(&l->up->calls[d->number].bind, d->request.bind, memory_order_relaxed); /* as it was copied */
    atomic_fetch_add_explicit(&l->up->begun, 1, memory_order_relaxed);
    announce_call(l->shared);
    return true;
}

struct pool_node *direct_call_take(struct lane *l, uint32_t *ret_usec)
{
    uint32_t slot, generation;

    /* bounded by what one client may have under way: other clients come next */
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        slot = lane_back_take(&l->back, &generation);
        if (slot == RING_NONE)
            return NULL;
        struct direct_call *d = &l->calls[slot];
        /* acquire: partner is the release in direct_finished(). Busy only where a client pushes a slot twice. */
        if (atomic_exchange_explicit(&d->busy, true, memory_order_acquire))
            continue;
        mark_call(l, slot, generation);
        if (!lane_back_claim(&l->back, slot, generation)) {
            unmark_call(l, slot, generation);
            atomic_store_explicit(&d->busy, false, memory_order_release);
            continue;
        }
        uint32_t running = atomic_fetch_add_explicit(&l->up->running, 1, memory_order_seq_cst);

        atomic_store_explicit(&l->alarms, 0, memory_order_relaxed);
        d->number = slot;
        d->generation = generation;
        if (running >= lane_back_credit(&l->back) || lane_back_cancelled(&l->back, slot) || !prepare_call(l, d)) {
            refuse_call(l, d, slot, generation);
            continue;
        }
        bool brief = lane_back_brief(&l->back);

        if (!brief)
            lane_look_away();
        else if (!lane_is_looked_at(l) && lane_ref(l))
            lane_look_at(l);
        *ret_usec = brief ? 0 : RING_WORTH_USEC;
        return &d->job.node;
    }
    return NULL;
}
