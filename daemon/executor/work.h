/* SPDX-License-Identifier: Apache-2.0
 *
 * work.h: the jobs of an executor: one struct slot for each slot of the ring, joining ring and host.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "executor/arenas.h"
#include "executor/inputs.h"
#include "executor/lane.h"
#include "executor/map.h"
#include "executor/opens.h"
#include "executor/output.h"
#include "host/plugin.h"
#include "host/run.h"
#include "pool/pool.h"
#include "ring/ring.h"

#define WORK_PLUGINS 4096u /* numbers that wsd may give */

struct work;

/* One job; of a bundle, the one that has its turn. [the worker that claimed it, and its tasks] */
struct slot {
    struct host_job job; /* first */
    struct work *work;
    uint32_t item; /* of the bundle */
    bool initialised;
    _Atomic bool busy; /* [atomic: acquire by the taker, release at the end: the memory is free for the next job] */
    uint32_t number, generation;
    struct back_request request;
    struct output output;       /* [job's output_lock] */
    struct map map;             /* of the input, where it came by descriptor */
    struct mapped_arena *arena; /* where its input or output lies; NULL */
    int input_pipe;             /* -1: none */
    _Atomic bool progress;      /* this job has told some [atomic: relaxed; likewise] */
    _Atomic uint32_t messages;  /* sent by this job [atomic: relaxed; counted by its tasks, read after their joins] */
};

struct work {
    struct back back;
    int control_fd;
    struct inputs inputs;
    struct opens opens;
    struct arena_table arenas;
    _Atomic(struct host_plugin *)
        plugins[WORK_PLUGINS]; /* [atomic: release by the control thread, acquire by workers] */
    struct lanes lanes;
    struct slot slots[RING_SLOTS]; /* zero until first used, so that idle executors stay small */
};

/* One executor a process: its memory is static. [main, before threads] */
void work_init(struct work *w, int control_fd);

/* The pool's source: the submission ring and the direct lanes. */
struct pool_node *work_take(void *work, bool *ret_more);
void work_leave(void *work);
void work_prepare(void *work, struct eventcount_set *set);
bool work_ready(void *work);
bool work_worth_waking(void *work);
/* Returns how many jobs of the ring run. [any] */
uint32_t work_running(void *work);
/* What was taken is being run. [worker] */
void work_begun(void);

/* The function of a plugin's number << 32 | index; NULL: there is none. [worker] */
const struct plugin_function *work_function(struct work *w, uint64_t target);

/* The job has more to say than its output: its bundle ends with it. [any task of the job] */
void slot_alone(struct slot *s);

/* Waits until there() is true, and returns true; or until the job is cancelled, and returns false. The thread that
 * makes there() true, or cancels, notifies up->space afterwards. [worker] */
bool slot_wait(struct slot *s, bool (*there)(struct slot *s, void *arg), void *arg);
