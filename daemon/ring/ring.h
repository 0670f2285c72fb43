/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h: the two ends of the shared memory of layout.h: `front` is wsd's, `back` the executor's.
 *
 *                 | front_*  | back_take | back_claim | back_complete | back_alloc
 *  front_*        |    no    |    yes    |    yes     |     yes       |    yes       front: one thread, wsd's loop
 *  back_*         |   yes    |    yes    |    yes     |     yes       |    yes       back: any worker
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/layout.h"

/* --- front: wsd's end [loop] ------------------------------------------------------------------------------------ */

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
    const void *input;               /* NULL: it lies elsewhere */
    uint64_t input_size;             /* also if it lies elsewhere; 0 for a pipe */
    uint64_t input_at;               /* in a file, or an arena */
    uint64_t output_at, output_size; /* in an arena */
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
/* Also after death: gives completions behind a hole that the death left in the ring. 0 or FRONT_NONE. */
int front_next_behind_hole(struct front *f, struct front_completion *ret);
/* The fault note, if there is one, with printable text. */
bool front_fault(struct front *f, struct fault_note *ret);
/* Whether the executor says that it is about to die of a fault. A look. */
bool front_dying(const struct front *f);

/* --- back: the executor's end ------------------------------------------------------------------------------------ */

struct back {
    /* [const after init] private copies: no computation uses values that the other side could change */
    const struct down *down;
    struct up *up;
    uint64_t down_size, up_size, down_arena, up_arena;
    int bell_fd;
    _Atomic uint64_t head __attribute__((aligned(64))); /* [atomic: acq_rel, among workers] next entry of down->ring */
    pthread_mutex_t chunk_lock __attribute__((aligned(64)));
    uint64_t last_serial;                 /* [lock chunk_lock] */
    _Atomic uint64_t serial[RING_CHUNKS]; /* [atomic: relaxed, ordered by up->chunks[].used] of the last allocation */
};

/* A submitted job, checked. Every pointer leads to the stated number of bytes inside `down`, which only wsd can
 * write. */
struct back_request {
    uint8_t id[16];
    uint32_t plugin, function, argc, flags;
    const char *directory; /* NULL: none */
    const char *args;      /* ends in NUL where args_size > 0 */
    size_t args_size;
    const void *input; /* NULL: none, or it lies elsewhere */
    uint64_t input_size, input_at, output_at, output_size;
    uint32_t arena;
    uint64_t timeout_usec;
    const _Atomic uint32_t *cancel;
    uint32_t n_items;  /* of a bundle, with the input as their list; 0: one job */
    const char *items; /* the part of the list that has not been read */
    size_t items_size;
    uint32_t item; /* number of jobs read; id is that of the last one read, at first the first one's */
};

/* Maps and checks both regions; does not take over the descriptors. 0, -EBADMSG (not made by front_init()), or a
 * negative errno. */
int back_init(struct back *b, int down_fd, int up_fd, int bell_fd);
void back_deinit(struct back *b);

/* Takes the next submitted slot, or RING_NONE. *ret_usec: how long it is expected to take. [any worker] */
uint32_t back_take(struct back *b, uint32_t *ret_generation, uint32_t *ret_usec);
bool back_ready(struct back *b); /* [any worker] */
/* Whether what is left is worth another worker, if the calling one also works on it. [any worker] */
bool back_worth_waking(struct back *b);
/* QUEUED -> RUNNING, stamped with the time (CLOCK_MONOTONIC). False: it was recalled (the RECALLED completion has been
 * pushed). [the worker that took it] */
bool back_claim(struct back *b, uint32_t slot, uint32_t generation, uint64_t now_usec);
/* Reads and checks the request half. 0; -EBADMSG: it is malformed, and *ret has only id and cancel. [the worker that
 * claimed it] */
int back_read(struct back *b, uint32_t slot, uint32_t generation, struct back_request *ret);
/* Reads the next job of a bundle, at first its first one. 0 or -EBADMSG likewise. */
int back_read_item(struct back_request *ret);
/* The job `item`, which started at started_usec, has ended with nothing but `end` (this call fills in later_usec).
 * True: the next job has its turn. False: the bundle ends with this job, mostly because it is closed. */
bool back_turn(struct back *b, uint32_t slot, uint32_t generation, uint32_t item, uint64_t started_usec,
               struct up_end end);
/* Closes a bundle: no further job begins. The slot is the current job's alone, which may give any answer. [any task of
 * the job] */
void back_close(struct back *b, uint32_t slot);
struct up_slot *back_answer(struct back *b, uint32_t slot);
/* [any task of the job] */
void back_progress(struct back *b, uint32_t slot, uint32_t generation, uint64_t done, uint64_t total);
void *back_small(struct back *b, uint32_t slot); /* RING_SMALL bytes for the last of the output */

/* Allocates a run of n free chunks (1 to RING_RUN_MAX). RING_NONE: there is none; wait for up->space. *ret_serial names
 * this allocation. [any worker] */
uint32_t back_alloc(struct back *b, uint32_t n, uint64_t *ret_serial);
/* Whether wsd has not yet released that allocation. May say yes a moment too long. [any worker] */
bool back_held(struct back *b, uint32_t chunk, uint64_t serial);
void *back_chunk(struct back *b, uint32_t chunk);
/* Gives n chunks back unsent. Also for the unused rest of a run. [any worker] */
void back_unalloc(struct back *b, uint32_t chunk, uint32_t n);
/* Sends a run, which wsd will release. [any worker] */
void back_output(struct back *b, uint32_t slot, uint32_t generation, uint32_t chunk, uint32_t n, uint32_t size);
/* The bundle ends now, before its last job. [the worker that claimed it] */
void back_hold(struct back *b);
/* RUNNING -> DONE, and pushes the completion. Fill the answer half before. [the worker that claimed it] */
void back_done(struct back *b, uint32_t slot, uint32_t generation);
/* Call from a fault handler; async-signal-safe. Leaves the note, once per process. Returns FAULT_TRACE bytes for a
 * backtrace; then back_fault_told() rings the bell. NULL: another thread was first. This call has then waited for its
 * note, so that the process does not die before. */
char *back_fault(struct back *b, uint32_t slot, uint32_t generation, uint32_t worker, int signal, int code,
                 const void *address);
void back_fault_told(struct back *b);
/* Makes wsd look. [any] */
void back_bell(const struct back *b);
