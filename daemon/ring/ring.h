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
    uint8_t handed[RING_SLOTS];      /* 1: with the executor */
    uint8_t recalled[RING_SLOTS];    /* 1: taken back, the completion is still to come */
    uint8_t begun[RING_SLOTS];       /* 1: seen once, whatever the state says now */
    uint8_t n_items[RING_SLOTS];     /* of a bundle; 1: it is none */
    uint8_t closed[RING_SLOTS];      /* 1: the bundle is, and this is the one that has its turn: */
    uint8_t turn[RING_SLOTS];
    uint16_t first_chunk[RING_SLOTS], n_chunks[RING_SLOTS]; /* of the down arena, held by the slot */
    uint8_t chunk_used[RING_CHUNKS];                        /* private map of the down arena */
};

/* What the jobs layer hands over. Pointers are copied from. */
struct front_job {
    const uint8_t *id;
    uint32_t plugin, function, argc, flags;
    const char *directory; /* NULL: none */
    const char *args;
    size_t args_size;
    const void *input;               /* NULL where it lies elsewhere */
    uint64_t input_size;             /* also of what does; 0 for a pipe */
    uint64_t input_at;               /* in a file, or an arena */
    uint64_t output_at, output_size; /* in an arena */
    uint32_t arena;                  /* its number */
    uint64_t timeout_usec;
    uint32_t n_items; /* 0: it is one job; else a bundle of so many, and `input` is their list */
};

/* What front_next() gives. Everything is a checked private copy, but `data`, which points into shared memory: copy it
 * out once, do not look twice. */
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

/* The same of a job of a bundle, not its last. */
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

/* Takes a slot for the job and fills it, but does not publish it yet (its descriptor may have to go first).
 * FRONT_E_FULL, FRONT_E_LARGE. */
int front_prepare(struct front *f, const struct front_job *job, uint32_t *ret_slot, uint32_t *ret_generation);
/* Publishes a prepared slot; front_ring() wakes a worker. expected_usec: how long it will take, which saves workers
 * wake-ups for what is over sooner; UINT32_MAX: nobody knows. Who says less looks after it: a worker that took longer
 * than expected keeps it from the others. */
void front_submit(struct front *f, uint32_t slot, uint32_t expected_usec);
/* Gives a prepared slot back unpublished. */
void front_abandon(struct front *f, uint32_t slot);
bool front_ring(struct front *f); /* true: somebody was woken */
/* A slot that front_running() says runs after this has a worker that takes, before it sleeps, what was submitted before
 * this. */
void front_submitted(struct front *f);
/* True: recalled before it started, with all that is in it; its completion RECALLED will still come. False: it runs or
 * is done, or did so at an earlier look. */
bool front_recall(struct front *f, uint32_t slot);
/* Nothing more of a bundle begins, and it is not recalled any more. Which of its jobs has its turn, or had; 0 where it
 * is no bundle. What is before that one has ended, and is not told again; what is behind it is the slot's no more, and
 * the slot is its alone. */
uint32_t front_close(struct front *f, uint32_t slot);
/* DONE: it was a bundle that ended before its last job; what is behind it is in the queue again, and workers may go
 * on. */
void front_go_on(struct front *f, uint32_t slot);
/* The answer of a job of a bundle before that one. 0, or FRONT_E_LIES. The second gives it as front_next() would. */
int front_ended(struct front *f, uint32_t slot, uint32_t item, struct front_end *ret);
int front_ended_whole(struct front *f, uint32_t slot, uint32_t item, struct front_completion *ret);
void front_cancel(struct front *f, uint32_t slot); /* raises the flag */
/* Its worker has sealed its answer, which is taken with its completion. */
bool front_sealed(struct front *f, uint32_t slot);
void front_progress(struct front *f, uint32_t slot, uint64_t *ret_done, uint64_t *ret_total);
/* It was handed over, and no worker has begun it (a look, which may be old at once). */
bool front_waiting(struct front *f, uint32_t slot);
/* The worker has begun, and when by its own word (a look, which may be old at once); of a bundle, the one that has its
 * turn. */
bool front_running(struct front *f, uint32_t slot, uint64_t *ret_started_usec);
/* The same of a bundle, and when its first one began. */
bool front_running_bundle(struct front *f, uint32_t slot, uint64_t *ret_started_usec);

/* The next completion, in order. 0, FRONT_NONE, FRONT_E_LIES. A slot is free again after its DONE or RECALLED was
 * given, when front_retire() is called: the data of DONE is the slot's. */
int front_next(struct front *f, struct front_completion *ret);
void front_retire(struct front *f, uint32_t slot);
void front_release(struct front *f, uint32_t chunk, uint32_t run); /* a piece of output was copied out */

/* Before the loop sleeps: true where something came meanwhile and it must not. front_awake() after. */
bool front_asleep(struct front *f);
void front_awake(struct front *f);

/* After the executor's death, when front_next() has said FRONT_NONE: what became of a slot that was handed. RING_DONE
 * only where its answer is whole (*ret is then filled as by front_next). */
enum ring_state front_autopsy(struct front *f, uint32_t slot, struct front_completion *ret);
/* After death too: completions behind a hole that the death left. 0 or FRONT_NONE. */
int front_next_behind_hole(struct front *f, struct front_completion *ret);
/* The fault note, if there is one, with printable text. */
bool front_fault(struct front *f, struct fault_note *ret);
/* The executor says that it is about to die of a fault. A look. */
bool front_dying(const struct front *f);

/* --- back: the executor's end ------------------------------------------------------------------------------------ */

struct back {
    /* [const after init] private copies: nothing is computed from what the other side could change */
    const struct down *down;
    struct up *up;
    uint64_t down_size, up_size, down_arena, up_arena;
    int bell_fd;
    _Atomic uint64_t head __attribute__((aligned(64))); /* [atomic: acq_rel, among workers] next entry of down->ring */
    pthread_mutex_t chunk_lock __attribute__((aligned(64)));
    uint64_t last_serial;                 /* [lock chunk_lock] */
    _Atomic uint64_t serial[RING_CHUNKS]; /* [atomic: relaxed, ordered by up->chunks[].used] of the last allocation */
};

/* A submitted job, checked: every pointer leads to that many bytes inside `down`, which wsd alone can write. */
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
    uint32_t n_items;  /* of a bundle, whose list the input is; 0: it is one job */
    const char *items; /* those of the list that have not been read */
    size_t items_size;
    uint32_t item; /* so many have been read; id is the last one's, or the first one's */
};

/* Maps and checks both regions; does not take over the descriptors. 0, -EBADMSG (not what front_init() makes), or a
 * negative errno. */
int back_init(struct back *b, int down_fd, int up_fd, int bell_fd);
void back_deinit(struct back *b);

/* The next submitted slot, or RING_NONE. *ret_usec: how long it is expected to take. [any worker] */
uint32_t back_take(struct back *b, uint32_t *ret_generation, uint32_t *ret_usec);
bool back_ready(struct back *b); /* [any worker] */
/* Whether what is left is worth another worker, while the asking one goes through it. [any worker] */
bool back_worth(struct back *b);
/* QUEUED -> RUNNING, stamped with the time (CLOCK_MONOTONIC). False: it was recalled (the RECALLED completion has been
 * pushed). [the worker that took it] */
bool back_claim(struct back *b, uint32_t slot, uint32_t generation, uint64_t now_usec);
/* The request half: 0, or -EBADMSG where it is nonsense (then *ret has only id and cancel). [the worker that claimed
 * it] */
int back_read(struct back *b, uint32_t slot, uint32_t generation, struct back_request *ret);
/* Of a bundle: its next job, the first one to begin with: 0 or -EBADMSG likewise. */
int back_read_item(struct back_request *ret);
/* That one, which started then, has ended with nothing but this (later_usec is found here), and the next one has its
 * turn. False: the bundle ends with this one, mostly because it is closed. */
bool back_turn(struct back *b, uint32_t slot, uint32_t generation, uint32_t item, uint64_t started_usec,
               struct up_end end);
/* Nothing more of a bundle begins: the slot is its job's alone, which may say what it likes. [any task of the job] */
void back_close(struct back *b, uint32_t slot);
struct up_slot *back_answer(struct back *b, uint32_t slot);
/* [any task of the job] */
void back_progress(struct back *b, uint32_t slot, uint32_t generation, uint64_t done, uint64_t total);
void *back_small(struct back *b, uint32_t slot); /* RING_SMALL bytes for the last of the output */

/* A run of n free chunks (1 to RING_RUN_MAX), or RING_NONE: then wait for up->space. *ret_serial names this allocation.
 * [any worker] */
uint32_t back_alloc(struct back *b, uint32_t n, uint64_t *ret_serial);
/* Whether that allocation is still there, or wsd has released it. May say yes a moment too long. [any worker] */
bool back_held(struct back *b, uint32_t chunk, uint64_t serial);
void *back_chunk(struct back *b, uint32_t chunk);
/* Gives n chunks back unsent; also the unused rest of a run. [any worker] */
void back_unalloc(struct back *b, uint32_t chunk, uint32_t n);
/* Sends a run: wsd releases it. [any worker] */
void back_output(struct back *b, uint32_t slot, uint32_t generation, uint32_t chunk, uint32_t n, uint32_t size);
/* The bundle ends before its last job, now. [the worker that claimed it] */
void back_hold(struct back *b);
/* RUNNING -> DONE and its completion; the answer half is filled before. [the worker that claimed it] */
void back_done(struct back *b, uint32_t slot, uint32_t generation);
/* From a fault handler: async-signal-safe. Leaves the note, once a process: gives FAULT_TRACE bytes for a backtrace,
 * after which back_fault_told() rings the bell. NULL: somebody was first, and his note has been waited for, so that the
 * process does not die before. */
char *back_fault(struct back *b, uint32_t slot, uint32_t generation, uint32_t worker, int signal, int code,
                 const void *address);
void back_fault_told(struct back *b);
/* Makes wsd look. [any] */
void back_bell(const struct back *b);
