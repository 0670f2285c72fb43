/* SPDX-License-Identifier: Apache-2.0
 *
 * front.h: wsd's end of the shared memory of layout.h. [loop] A call may run at the same time as any of back.h, the
 * executor's end. No two calls of this file may run at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/layout.h"

struct front {
    struct down *down;
    struct up *up;
    int down_fd, up_fd; /* for the executor to inherit */
    int bell_fd;        /* eventfd, written by the executor when up->asleep */
    uint64_t head;      /* private cursor of the completion ring */
    uint64_t tail;      /* private copy of down->tail */
    uint32_t n_free;
    uint32_t free_slots[RING_SLOTS];
    uint32_t generation[RING_SLOTS]; /* private truth */
    uint8_t handed[RING_SLOTS];      /* 1: held by the executor */
    uint8_t recalled[RING_SLOTS];    /* 1: recalled, its completion is still to come */
    uint8_t begun[RING_SLOTS];       /* 1: was seen running once, whatever the state says now */
    uint8_t n_items[RING_SLOTS];     /* of a bundle; 1: it is none */
    uint8_t closed[RING_SLOTS];      /* 1: the bundle is closed, and the job that has its turn is .. */
    uint8_t turn[RING_SLOTS];
    uint16_t first_chunk[RING_SLOTS], n_chunks[RING_SLOTS]; /* of the down arena, held by the slot */
    uint8_t chunk_used[RING_CHUNKS];                        /* private map of the down arena */
};

/* What the jobs layer hands over. Data behind pointers is copied. */
struct front_job {
    const uint8_t *id;
    uint32_t plugin, function, argc, flags;
    const char *directory; /* NULL: none */
    const char *args;
    size_t args_size;
    const char *traceparent;         /* RING_TRACEPARENT - 1 bytes; NULL: none */
    const void *input;               /* NULL: it lies elsewhere */
    uint64_t input_size;             /* also if it lies elsewhere; 0 for a pipe */
    uint64_t input_at;               /* in a file, or an arena */
    uint64_t output_at, output_size; /* in an arena; DOWN_OUTPUT_AGAIN: of an earlier try */
    uint32_t arena;                  /* its number */
    uint64_t timeout_usec;
    uint32_t n_items; /* 0: one job; else a bundle of this many, and `input` is their list */
};

/* What front_next() gives. Everything is a checked private copy except `data`, which points into shared memory: copy it
 * out once, and do not read it twice. */
struct front_completion {
    enum completion_kind kind;
    uint32_t slot;
    uint32_t generation;
    /* OUTPUT: a piece; DONE: the last piece */
    const void *data;
    size_t size;
    uint32_t chunk, run; /* OUTPUT: for front_release() */
    /* DONE */
    uint32_t worker;
    int exit;
    uint32_t messages; /* to be fetched from the control socket first */
    uint64_t started_usec, ended_usec, cpu_usec, output_size;
    uint64_t done, total; /* the last progress */
    char error[RING_TEXT], status[RING_TEXT];
};

/* The same for a job of a bundle that is not its last. */
struct front_end {
    const void *data;
    uint32_t size, run_usec, cpu_usec;
    uint64_t started_usec;
};

/* Positive answers. */
enum {
    FRONT_NONE = 1,   /* nothing there */
    FRONT_E_FULL = 2, /* no slot, or no room in the arena: later */
    FRONT_E_LIES = 3, /* the executor wrote nonsense: replace it */
    FRONT_E_LARGE = 4 /* arguments and input exceed RING_RUN_MAX chunks: the input must go by descriptor */
};

int front_init(struct front *f); /* creates, maps and seals both regions; 0 or a negative errno */
void front_deinit(struct front *f);
/* What the direct calls of one function in a lane came to, by the executor's word. */
struct up_called *front_called(const struct front *f, uint32_t lane, uint32_t bind);

/* Takes a slot for the job and fills it, without publishing it: its descriptor may have to go first. Returns 0,
 * FRONT_E_FULL or FRONT_E_LARGE. */
int front_prepare(struct front *f, const struct front_job *job, uint32_t *ret_slot, uint32_t *ret_generation);
/* Publishes a prepared slot; front_ring() then wakes a worker. expected_usec: how long the job will take, or UINT32_MAX
 * for unknown. A short time saves wake-ups for jobs that end sooner. A caller that gives less must look again later: a
 * worker that takes longer than expected keeps the job from the others. */
void front_submit(struct front *f, uint32_t slot, uint32_t expected_usec);
/* Gives a prepared slot back unpublished. */
void front_abandon(struct front *f, uint32_t slot);
bool front_ring(struct front *f); /* true: a worker was woken */
/* Orders earlier submissions before any later front_running(): a worker seen running afterwards takes them before it
 * sleeps. */
void front_submitted(struct front *f);
/* Recalls a slot. True: recalled before it started, with all its jobs; its completion RECALLED will still come. False:
 * it runs or is done, or was seen so at an earlier look. */
bool front_recall(struct front *f, uint32_t slot);
/* Closes a bundle: no further job of it begins, and it cannot be recalled. Returns which job has its turn, or had it
 * last; 0 if the slot is no bundle. Jobs before that one have ended and are not reported again. Jobs after it are not
 * the slot's any longer: the slot is that one job's alone. */
uint32_t front_close(struct front *f, uint32_t slot);
/* Call after the DONE of a bundle that ended before its last job, once the jobs after it are queued again. Workers may
 * go on. */
void front_go_on(struct front *f, uint32_t slot);
/* The answer of a job of a bundle before that one. 0, or FRONT_E_LIES. front_ended_whole() gives it as front_next()
 * would. */
int front_ended(struct front *f, uint32_t slot, uint32_t item, struct front_end *ret);
int front_ended_whole(struct front *f, uint32_t slot, uint32_t item, struct front_completion *ret);
void front_cancel(struct front *f, uint32_t slot); /* raises the flag */
/* Whether its worker has sealed its answer, which comes with its completion. */
bool front_sealed(struct front *f, uint32_t slot);
void front_progress(struct front *f, uint32_t slot, uint64_t *ret_done, uint64_t *ret_total);
/* Whether it was handed over and no worker has begun it. A look, which may be outdated at once. */
bool front_waiting(struct front *f, uint32_t slot);
/* Whether the worker has begun, and when by its own account; of a bundle, the job that has its turn. A look, which may
 * be outdated at once. */
bool front_running(struct front *f, uint32_t slot, uint64_t *ret_started_usec);
/* The same of a bundle, but with the time at which its first job began. */
bool front_running_bundle(struct front *f, uint32_t slot, uint64_t *ret_started_usec);

/* Gives the next completion, in order. 0, FRONT_NONE, FRONT_E_LIES. A slot is free again after its DONE or RECALLED was
 * given and front_retire() is called: the data of DONE lies in the slot. */
int front_next(struct front *f, struct front_completion *ret);
void front_retire(struct front *f, uint32_t slot);
void front_release(struct front *f, uint32_t chunk, uint32_t run); /* a piece of output was copied out */

/* Call before the loop sleeps. True: something came meanwhile and the loop must not sleep. Call front_awake() after. */
bool front_asleep(struct front *f);
void front_awake(struct front *f);

/* After the executor's death, when front_next() has returned FRONT_NONE: what became of a slot that was handed over.
 * RING_DONE only if its answer is whole (*ret is then filled as by front_next()). */
enum ring_state front_autopsy(struct front *f, uint32_t slot, struct front_completion *ret);
/* Also after death, of a job with DOWN_OUTPUT_FD that was running: what has become of its output. NONE, FILE: a
 * thread that is still there begins no write any longer. FILE: *ret says what may be cut off again. */
enum ring_output front_close_output(struct front *f, uint32_t slot, struct ring_written *ret);
/* Also after death: gives completions behind a hole that the death left in the ring. 0 or FRONT_NONE. */
int front_next_behind_hole(struct front *f, struct front_completion *ret);
/* The fault note, if there is one, with printable text. */
bool front_fault(struct front *f, struct fault_note *ret);
/* Whether the executor says that it is about to die of a fault. A look. */
bool front_dying(const struct front *f);
