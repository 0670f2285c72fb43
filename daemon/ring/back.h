/* SPDX-License-Identifier: Apache-2.0
 *
 * back.h: the executor's end of the shared memory of layout.h. Which calls may run at once:
 *
 *                 | front_*  | back_take | back_claim | back_complete | back_alloc
 *  front_*        |    no    |    yes    |    yes     |     yes       |    yes       front: one thread, wsd's loop
 *  back_*         |   yes    |    yes    |    yes     |     yes       |    yes       back: any worker
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/layout.h"

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
    const char *traceparent; /* NULL: none */
    const void *input;       /* NULL: none, or it lies elsewhere */
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
/* Where to write what the direct calls of one function in a lane came to. [any worker] */
struct up_called *back_called(const struct back *b, uint32_t lane, uint32_t bind);

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
/* Before the first byte of output goes to its descriptor: what it will be, FILE or GIVEN. A FILE may become GIVEN later.
 * written: of a FILE. False: wsd has taken the job back, and nothing may be written. [worker] */
bool back_claim_output(struct back *b, uint32_t slot, uint32_t generation, enum ring_output as,
                       const struct ring_written *written);
/* Whether that still holds. [worker] */
bool back_output_is_claimed(const struct back *b, uint32_t slot, uint32_t generation);
void back_wrote(struct back *b, uint32_t slot, uint64_t size); /* so much in all [worker] */
void *back_small(struct back *b, uint32_t slot);               /* RING_SMALL bytes for the last of the output */

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
