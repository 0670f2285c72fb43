/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.c: the jobs of a runner, a client that takes jobs over its connection.
 * Owns what the runner has said and the rings have not taken yet. [loop]
 * Keeps: a runner is to wsd what an executor is. Its jobs go through rings of its own, of which this file plays the
 * executor's end. So the rules of recovery, cancelling and limits are the same, and there is one place for each.
 * A runner gets jobs of its own user only, at most `credit` at once. It can name only runs that it has.
 * Does not know frames (frontend/serve-runner.c). */
#include "domains/runner.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/runner-names.h"
#include "table/admission.h"
#include "table/policy.h"

const char runner_cannot_place[] =
    "a runner of this name cannot write into an arena: upgrade it, or give the job no part for its output";

static bool flush(struct run *run);

/* --- towards the runner ------------------------------------------------------------------------------------------- */

int runner_take_input(struct runner *r, uint32_t slot)
{
    int fd = r->inputs[slot] - 1;

    r->inputs[slot] = 0;
    return fd;
}

#define BY_DESCRIPTOR ((uint32_t)DOWN_INPUT_FD | DOWN_INPUT_PIPE | DOWN_OUTPUT_PART)

static void give(struct runner *r, struct run *run, const struct back_request *q)
{
    struct job *job = r->domain->slots[run->slot];
    int fd = q->flags & BY_DESCRIPTOR ? runner_take_input(r, run->slot) : -1;
    char name[PLACE_NAME];

    if (r->of->place)
        place_name(job, name);
    const struct runner_run o = {
        .run = ring_word(run->generation, run->slot),
        .id = q->id,
        .function = r->of->place ? name : job_function(job)->name,
        .args = q->args,
        .args_size = q->args_size,
        .argc = q->argc,
        .timeout_usec = q->timeout_usec,
        .priority = job->priority,
        .uid = job->user->uid,
        .attempt = job->attempts + (job->more && job->more->policy ? job->more->policy->attempts_before : 0),
        .directory = q->directory,
        .key = job->more && job->more->policy ? job->more->policy->key : NULL,
        .traceparent = q->traceparent,
        .asks = !(q->flags & DOWN_SAME_USER),
        .input = q->input,
        .input_size = q->input_size,
        .input_at = q->input_at,
        .input_from = q->flags & DOWN_INPUT_PIPE ? RUNNER_PIPE
                      : q->flags & DOWN_INPUT_FD ? RUNNER_FILE
                                                 : RUNNER_BODY,
        .output_at = q->output_at,
        .output_size = q->flags & DOWN_OUTPUT_PART ? q->output_size : 0,
        .fd = fd,
    };

    r->ops->run(r->context, &o);
    async_close(fd, r->domain->key);
}

/* One that came when the job was there already. */
static void cannot_place(struct run *run)
{
    async_close(runner_take_input(run->runner, run->slot), run->runner->domain->key);
    run->ended = true;
    run->status = WSD_STATUS_LAST;
    snprintf(run->error, sizeof(run->error), "%s", runner_cannot_place);
    flush(run);
}

/* Takes one job from the ring. False: there is none, or no memory. */
static bool take_one(struct runner *r)
{
    uint32_t generation, usec, slot;
    struct back_request q;
    struct run *run = calloc(1, sizeof(*run));

    if (!run)
        return false;
    slot = back_take(r->back, &generation, &usec);
    if (slot == RING_NONE) {
        free(run);
        return false;
    }
    uint64_t now = clock_monotonic_usec();
    if (!back_claim(r->back, slot, generation, now)) { /* it was recalled */
        async_close(runner_take_input(r, slot), r->domain->key);
        free(run);
        return true;
    }
    *run = (struct run){.runner = r, .slot = slot, .generation = generation, .started_usec = now};
    list_init(&run->blocked);
    r->runs[slot] = run;
    int malformed = back_read(r->back, slot, generation, &q);

    assert(!malformed); /* wsd has written it */
    run->places = q.flags & DOWN_OUTPUT_PART;
    if (run->places && !r->places)
        cannot_place(run);
    else
        give(r, run, &q);
    return true;
}

void runner_stop(struct runner *r, uint32_t slot, enum job_stop why)
{
    struct run *run = r->runs[slot];

    if (run && !run->ended)
        r->ops->stop(r->context, ring_word(run->generation, slot),
                     why == STOP_TIMEOUT ? RUNNER_TIMED_OUT : RUNNER_CANCELLED);
}

/* --- towards wsd -------------------------------------------------------------------------------------------------- */

static struct run *run_of(struct runner *r, uint64_t run)
{
    uint32_t slot = (uint32_t)run;
    struct run *found = slot < RING_SLOTS ? r->runs[slot] : NULL;

    return found && found->generation == run >> 32 && !found->ended ? found : NULL;
}

static const char no_run[] = "a run that this runner does not have";

void run_free(struct run *run)
{
    list_remove(&run->blocked);
    user_refund(run->runner->domain->jobs, run->runner->user, buffer_size(&run->output));
    buffer_deinit(&run->output);
    run->runner->runs[run->slot] = NULL;
    free(run);
}

/* Its output is in the ring, but for the rest, which goes with the answer. */
static void seal(struct run *run)
{
    struct back *b = run->runner->back;
    struct up_slot *u = back_answer(b, run->slot);
    size_t rest = buffer_size(&run->output);
    uint64_t now = clock_monotonic_usec(), most = (now - run->started_usec + 1) * JOBS_WORKERS_MAX;

    if (rest)
        memcpy(back_small(b, run->slot), buffer_data(&run->output), rest);
    u->ended_usec = now;
    u->cpu_usec = MIN(run->cpu_usec, most);
    u->output_size = run->received;
    u->small_size = (uint32_t)rest;
    u->small_at = 0;
    u->worker = 0;
    u->exit = (int32_t)run->status;
    u->messages = 0;
    u->texts = (*run->error || *run->text ? UP_TEXTS : 0u) | (run->progress ? UP_PROGRESS : 0u);
    memcpy(u->error, run->error, sizeof(u->error));
    memcpy(u->status, run->text, sizeof(u->status));
    back_done(b, run->slot, run->generation);
    run_free(run);
}

/* How many of its pieces wsd still holds. */
static uint32_t count_sent(struct run *run)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->n_sent; i++)
        if (back_held(run->runner->back, run->sent[i].chunk, run->sent[i].serial))
            run->sent[n++] = run->sent[i];
    return run->n_sent = n;
}

/* Moves output into the ring, and seals an answer that is then whole. True: something was done. The run may be freed
 * then. */
static bool flush(struct run *run)
{
    struct back *b = run->runner->back;
    uint32_t moved = 0;

    while (buffer_size(&run->output) > (run->ended ? RING_SMALL : 0) && count_sent(run) < SENT_MAX) {
        uint32_t n = (uint32_t)MIN(buffer_size(&run->output), (size_t)RING_CHUNK);
        uint64_t serial;
        uint32_t chunk = back_alloc(b, 1, &serial);

        if (chunk == RING_NONE)
            break;
        memcpy(back_chunk(b, chunk), buffer_data(&run->output), n);
        back_output(b, run->slot, run->generation, chunk, 1, n);
        buffer_drop(&run->output, n);
        user_refund(run->runner->domain->jobs, run->runner->user, n);
        run->sent[run->n_sent].chunk = chunk;
        run->sent[run->n_sent++].serial = serial;
        moved += n;
    }
    bool waits = buffer_size(&run->output) > (run->ended ? RING_SMALL : 0);
    list_remove(&run->blocked);
    if (waits)
        list_push_back(&run->runner->blocked, &run->blocked);
    if (run->ended && !waits)
        seal(run);
    else if (moved && !run->ended)
        run->runner->ops->credit(run->runner->context, ring_word(run->generation, run->slot), moved);
    return moved || !waits;
}

bool runner_turn(struct runner *r)
{
    struct list due;
    bool some = false;

    list_init(&due); /* what stays blocked goes back into the other list */
    list_move_all(&due, &r->blocked);
    for (struct list *l; (l = list_pop_front(&due));)
        some |= flush(container_of(l, struct run, blocked));
    while (!r->killed && back_ready(r->back) && r->ops->takes(r->context) && take_one(r))
        some = true;
    if (r->leaving && !r->told_left && !r->domain->n_handed) {
        r->told_left = true;
        r->ops->left(r->context);
    }
    return some;
}

/* Puts what was sent behind what is there. NULL, or what is wrong. */
static const char *put(struct run *run, const void *data, size_t size)
{
    if (run->places && size)
        return "output of a run whose output goes into an arena";
    if (buffer_size(&run->output) + size > RUNNER_WINDOW + RING_SMALL)
        return "more output than the window and the credits allow";
    int r = user_charge(run->runner->domain->jobs, run->runner->user, size);
    if (r < 0)
        return user_charge_words(r);
    if (buffer_put(&run->output, data, size) < 0) {
        user_refund(run->runner->domain->jobs, run->runner->user, size);
        return "out of memory";
    }
    run->received += size;
    return NULL;
}

const char *runner_output(struct runner *r, uint64_t run, uint64_t offset, const void *data, size_t size)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run;
    if (offset != of->received)
        return "output that does not follow what was sent before";
    const char *why = put(of, data, size);
    if (!why && list_empty(&of->blocked)) /* it goes on in this turn, with what else comes */
        list_push_back(&r->blocked, &of->blocked);
    return why;
}

static void say(struct runner *r, const struct control *c)
{
    struct executor *e = r->domain->priv->executor;

    e->ops->control(e, c, e->context);
}

const char *runner_message(struct runner *r, uint64_t run, uint32_t level, const char *text)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run;
    struct control c = {.kind = CONTROL_MESSAGE, .slot = of->slot, .generation = of->generation, .number = level};
    snprintf(c.text, sizeof(c.text), "%s", text);
    say(r, &c);
    return NULL;
}

const char *runner_progress(struct runner *r, uint64_t run, uint64_t done, uint64_t total)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run;
    of->progress = true;
    back_progress(r->back, of->slot, of->generation, done, total);
    return NULL;
}

const char *runner_open_file(struct runner *r, uint64_t run, uint32_t serial, const char *path)
{
    struct run *of = run_of(r, run);

    if (!of)
        return no_run;
    struct control c = {.kind = CONTROL_OPEN, .slot = of->slot, .generation = of->generation, .number = serial};
    snprintf(c.text, sizeof(c.text), "%s", path);
    say(r, &c);
    return NULL;
}

const char *runner_end(struct runner *r, uint64_t run, const struct runner_end *end)
{
    struct run *of = run_of(r, run);
    const char *why = of ? NULL : no_run;

    if (!why && end->state && (end->state < JOB_TIMED_OUT || end->state > JOB_INTERRUPTED))
        why = "a state that no run ends in";
    if (!why)
        why = put(of, end->data, end->size);
    if (why)
        return why;
    if (of->places)
        of->received = end->placed;
    of->ended = true;
    of->status = end->state ? RUN_ENDED_AS + end->state : end->status;
    of->cpu_usec = end->cpu_usec;
    snprintf(of->error, sizeof(of->error), "%s", end->error);
    snprintf(of->text, sizeof(of->text), "%s", end->text);
    flush(of);
    return NULL;
}

const char *runner_pong(struct runner *r, uint32_t serial)
{
    struct control c = {.kind = CONTROL_ASKED, .number = serial};

    say(r, &c);
    return NULL;
}
