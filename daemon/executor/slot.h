/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.h: the private half of a slot of the ring: one job, from the worker's claim to its completion. The half of the
 * ring's slot i is slots[i].
 *
 *      free       nothing but `job` and `shared` lives on from one job to the next
 *      occupied   from slot_occupy() until slot_vacate(): the memory is this job's, and its worker's
 *
 * wsd uses the ring's slot again after the completion, so slot_vacate() comes first. The job's own states are those of
 * the ring's slot (layout.h). The slot of a bundle is occupied once: its jobs have their turn in it one after the
 * other.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "executor/input-map.h"
#include "executor/output.h"
#include "executor/shared.h"
#include "host/run.h"

/* One job; of a bundle, the one that has its turn. [the worker that claimed it, and its tasks] */
struct slot {
    struct host_job job; /* first */
    struct shared *shared;
    uint32_t item; /* of the bundle */
    bool initialised;
    _Atomic bool busy; /* [atomic: acquire by slot_occupy(), release by slot_vacate()] */
    uint32_t number, generation;
    struct back_request request;
    struct output output;       /* [job's output_lock] */
    struct input_map map;       /* of the input, where it came by descriptor */
    struct mapped_arena *arena; /* where its input or output lies; NULL */
    int input_pipe;             /* -1: none */
    bool input_blocks;          /* poll it before each read */
    _Atomic bool progress;      /* this job has told some [atomic: relaxed; likewise] */
    _Atomic uint32_t messages;  /* sent by this job [atomic: relaxed; counted by its tasks, read after their joins] */
};

static inline struct slot *slot_of(struct host_job *job)
{
    return container_of(job, struct slot, job);
}

/* Whether the job is to stop. [any task of the job] */
static inline bool slot_is_cancelled(const struct slot *s)
{
    return atomic_load_explicit(s->request.cancel, memory_order_relaxed) != 0;
}

/* Prepares the memory for the job of that number and generation, which the worker has claimed. False: another job has
 * it, so wsd has handed out a slot twice. [worker] */
bool slot_occupy(struct slot *s, struct shared *shared, uint32_t number, uint32_t generation);
/* The job has been answered: nothing of the slot is touched after that. [worker] */
void slot_vacate(struct slot *s);

/* Forgets what a job of the bundle has said. [worker, before a job begins] */
void slot_begin_item(struct slot *s, uint32_t item);

/* The job has more to say than its output: its bundle ends with it. [any task of the job] */
void slot_alone(struct slot *s);

/* Waits until there() is true, and returns true; or until the job is cancelled, and returns false. The thread that
 * makes there() true, or cancels, notifies up->space afterwards. [worker] */
bool slot_wait(struct slot *s, bool (*there)(struct slot *s, void *arg), void *arg);
