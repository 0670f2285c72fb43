/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h: a direct lane: a private ring in shared memory from one client straight into the executor of its trust
 * domain. Layout, and the three ends: `front` is wsd's, `back` the executor's, `client` the client library's.
 *
 * Two regions, each a sealed memfd that wsd makes:
 *
 *   memory  written by client and executor (and by wsd, after a death): submission ring, slots
 *   grant   written by wsd alone (F_SEAL_FUTURE_WRITE), read by both: credit, which numbers may be called, verdicts
 *
 * One slot is one call, or up to LANE_ITEMS calls of one function, which one worker runs one behind the other: a
 * bundle. Its life, in slots[i].state, generation in the upper half:
 *
 *     client      FREE -> QUEUED        fills the request first (release), then the ring, then notifies `bell`; or not,
 *                                       where all is brief and somebody looks on
 *     worker      QUEUED -> RUNNING     compare-and-swap; then copies the request
 *     worker      RUNNING -> DONE       compare-and-swap (release), after the answer; then notifies `done`
 *     client      DONE, LOST -> FREE    with the next generation, when it has taken the answer
 *     wsd         QUEUED, RUNNING -> LOST   compare-and-swap, when the executor is dead; the verdict is in `grant` then
 *
 * So each call has one answer, whoever dies when: one compare-and-swap decides. There is no completion ring: the slot's
 * word says all that an entry of one would say, and there is nothing that could disagree with it.
 *
 * Which call of a bundle has its turn is in slots[i].turn:
 *
 *     client      0                     before QUEUED
 *     worker      n -> n + 1            compare-and-swap (release), after the end of call n, where that said nothing
 *     but output client      n -> n | LANE_CLOSED  no other gets its turn: those behind n are the client's again
 *
 * The slot's answer, or wsd's verdict, is that of the one which had its turn last; those before it have `ends`, those
 * behind it were not begun.
 *
 * Nobody believes what another may have written: the executor copies request and numbers once, checks the copies, and
 * works on them; its cursor and its table of calls are private; it waits for nothing in here. Who the user is and what
 * he may call it has from wsd. What wsd needs to keep time limits lies in `up`, which the client has not got. The
 * client believes wsd, and of the executor's answer no size. A client that scribbles loses its own calls; the executor
 * shuts a lane that rings again and again without a call (executor/lane.c).
 *
 *               | client_* | back_* | front_*
 *  client_*     |    no    |  yes   |  yes        one thread a lane
 *  back_*       |   yes    |  yes   |  yes        any worker
 *  front_*      |   yes    |  yes   |   no        wsd's loop
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "ring/layout.h"

#define LANE_MAGIC   0x316c6477u /* "wdl1" */
#define LANE_VERSION 2u

#define LANE_SLOTS  RING_LANE_SLOTS
#define LANE_BINDS  64u   /* functions that are bound at a time */
#define LANE_ITEMS  32u   /* calls in one slot */
#define LANE_ROOM   2048u /* bytes of their arguments and inputs, with struct lane_item; larger ones go by the socket */
#define LANE_OUTPUT 2048u /* bytes of output */
#define LANE_CLOSED 0x80000000u

enum lane_state { LANE_FREE = 0, LANE_QUEUED = 1, LANE_RUNNING = 2, LANE_DONE = 3, LANE_LOST = 4 };

/* How a call ended. */
enum lane_outcome {
    LANE_ENDED = 0, /* its function returned: exit */
    /* it was not begun: no credit, or a number that is not allowed (any more): by the socket, then */
    LANE_REFUSED = 1,
    LANE_CANCELLED = 2,
    LANE_TIMED_OUT = 3,
    LANE_OVERFLOW = 4, /* its output is larger than the room that it was given */
    LANE_CRASHED = 5,  /* verdicts of wsd, from here on */
    LANE_INTERRUPTED = 6,
    LANE_UNTOUCHED = 7, /* it had not begun */
    LANE_AGAIN = 8,     /* it had, and may run twice */
};

/* One call, in bytes[]: this, its arguments, each with its NUL, and from a multiple of LANE_ALIGN on its input; the
 * next one follows so, too. */
struct lane_item {
    uint32_t argc, args_size, input_size;
    uint32_t room; /* for output, which lies so behind that of those before it */
};
#define LANE_ALIGN 16u

/* The end of a call that the next one was run behind: its function has returned 0 and said nothing but output. */
struct lane_end {
    uint32_t run_usec, cpu_usec, output_size;
};

struct lane_slot {
    _Atomic uint64_t state;  /* ring_word(generation, enum lane_state) */
    _Atomic uint32_t cancel; /* [atomic: relaxed; a flag that is polled; client and wsd raise it] */
    /* the request [client writes before QUEUED] */
    uint32_t bind; /* number from LANE_BOUND */
    uint32_t n_items;
    uint32_t size;         /* in bytes[] */
    uint64_t timeout_usec; /* of each call */
    uint8_t bytes[LANE_ROOM] __attribute__((aligned(64)));
    /* the answer [worker writes before DONE, and of calls that are over before turn] */
    _Atomic uint32_t turn __attribute__((aligned(64)));
    uint32_t outcome;
    int32_t exit;
    uint32_t output_size;
    uint32_t worker;
    uint64_t run_usec, cpu_usec;
    struct lane_end ends[LANE_ITEMS - 1];
    uint8_t output[LANE_OUTPUT] __attribute__((aligned(32)));
    char error[RING_TEXT], status[RING_TEXT];
} __attribute__((aligned(128)));

struct lane_memory {
    uint32_t magic, version;
    _Atomic uint64_t tail __attribute__((aligned(64))); /* [atomic: release by the client, acquire by workers] */
    _Atomic uint64_t ring[LANE_SLOTS];                  /* ring_word(generation, slot) */
    /* 1: all that is under way is over before another worker would be awake: one who looks is enough [atomic: relaxed,
     * by the client before `looking` is read, or bell notified] */
    _Atomic uint32_t brief __attribute__((aligned(64)));
    /* workers that look again before they sleep, or run what is not brief [atomic: seq_cst] */
    _Atomic uint32_t looking;
    struct eventcount bell __attribute__((aligned(64))); /* idle workers sleep on it, beside all others */
    struct eventcount done __attribute__((aligned(64))); /* the client sleeps on it */
    struct lane_slot slots[LANE_SLOTS];
};

/* What became of a call whose executor is dead. [wsd writes before it makes the slot LOST] */
struct lane_verdict {
    uint32_t generation;
    uint32_t outcome; /* enum lane_outcome */
    char error[RING_TEXT];
};

struct lane_grant {
    uint32_t magic, version;
    _Atomic uint32_t credit;              /* calls that may run at once; 0: none for now [atomic: relaxed] */
    _Atomic uint32_t lost;                /* 1: the executor is dead, nobody will take a call [atomic: seq_cst] */
    _Atomic uint32_t allowed[LANE_BINDS]; /* 1: this number may be called [atomic: release/acquire] */
    struct lane_verdict verdicts[LANE_SLOTS];
};

/* --- front: wsd's end [loop] ------------------------------------------------------------------------------------ */

struct lane_front {
    struct lane_memory *memory;
    struct lane_grant *grant;
    int memory_fd, grant_fd; /* to be handed over, then closed: lane_front_handed() */
};

int lane_front_init(struct lane_front *f); /* makes, maps and seals both; 0 or a negative errno */
void lane_front_handed(struct lane_front *f);
void lane_front_deinit(struct lane_front *f);
void lane_front_credit(struct lane_front *f, uint32_t credit);
void lane_front_allow(struct lane_front *f, uint32_t bind, bool yes);
void lane_front_cancel(struct lane_front *f); /* every call */
/* From here on clients take back what they push. Before the slots are looked at. */
void lane_front_lost(struct lane_front *f);
/* One look at a slot's word, which says anything. */
enum lane_state lane_front_look(struct lane_front *f, uint32_t slot, uint32_t *ret_generation);
/* Ends a call that was seen in this state with this verdict. False: it has moved on; look again. */
bool lane_front_judge(struct lane_front *f, uint32_t slot, uint32_t generation, enum lane_state seen,
                      enum lane_outcome outcome, const char *error);

/* --- back: the executor's end ----------------------------------------------------------------------------------- */

struct lane_back {
    struct lane_memory *memory;
    const struct lane_grant *grant;
    _Atomic uint64_t head; /* [atomic: acq_rel, among workers] */
};

/* A call in a request, and where its parts are. */
struct lane_part {
    uint32_t argc, args_size, input_size, room;
    uint32_t args_at, input_at, output_at;
};

/* A request: a private copy, checked, and the call in it that has its turn. */
struct lane_request {
    uint32_t bind, n_items, item, size;
    uint64_t timeout_usec;
    struct lane_part call;
    uint8_t bytes[LANE_ROOM] __attribute__((aligned(LANE_ALIGN)));
};

struct lane_answer {
    enum lane_outcome outcome;
    int exit;
    uint32_t worker;
    uint64_t run_usec, cpu_usec;
    const void *output;
    uint32_t output_size; /* at most LANE_OUTPUT */
    const char *error, *status;
};

/* Maps and checks both regions; the descriptors stay the caller's. 0, -EBADMSG, or a negative errno. */
int lane_back_init(struct lane_back *b, int memory_fd, int grant_fd);
void lane_back_deinit(struct lane_back *b);
bool lane_back_ready(struct lane_back *b); /* [any worker] */
/* Who calls it is one who looks on, until it says that it is none any more, and then looks once more. [any worker] */
void lane_back_look(struct lane_back *b, bool yes);
/* Those who look are enough for what is waiting. [any worker who does not] */
bool lane_back_cared_for(struct lane_back *b);
/* The same as lane_back_look(false), where others look and are enough. [any worker who looks] */
bool lane_back_yield(struct lane_back *b);
bool lane_back_brief(struct lane_back *b); /* [any worker] */
/* The next slot, or RING_NONE. [any worker] */
uint32_t lane_back_take(struct lane_back *b, uint32_t *ret_generation);
/* The number that it calls, before it is claimed: any. [the worker that took it] */
uint32_t lane_back_bind(const struct lane_back *b, uint32_t slot);
/* QUEUED -> RUNNING. False: withdrawn, or nonsense. [the worker that took it] */
bool lane_back_claim(struct lane_back *b, uint32_t slot, uint32_t generation);
/* 0: the first call has its turn; or -EBADMSG where any of it is nonsense. [the worker that claimed it] */
int lane_back_read(struct lane_back *b, uint32_t slot, struct lane_request *ret);
/* The call that has its turn is over, and well: the next one has it now. False: there is none, or the client has closed
 * them or wants them cancelled: lane_back_answer(). */
bool lane_back_turn(struct lane_back *b, uint32_t slot, struct lane_request *q, const struct lane_end *end,
                    const void *output);
/* The answer of the call that has its turn; RUNNING -> DONE, and the client is woken: whether it slept. Nothing happens
 * where wsd has judged already. */
bool lane_back_answer(struct lane_back *b, uint32_t slot, uint32_t generation, uint32_t output_at,
                      const struct lane_answer *a);
uint32_t lane_back_credit(const struct lane_back *b);
bool lane_back_allowed(const struct lane_back *b, uint32_t bind); /* any number */

/* --- client: the client library's end [one thread] -------------------------------------------------------------- */

/* The calls of a slot. */
struct lane_pushed {
    uint32_t n, size, room; /* how many, and what they take of bytes[] and output[] */
    uint16_t output_at[LANE_ITEMS];
};

struct lane_client {
    struct lane_memory *memory;
    const struct lane_grant *grant;
    uint64_t tail;       /* private copy */
    uint64_t spin_nsec;  /* how long it pays to spin; adapted */
    uint64_t ended_nsec; /* of the last slot */
    uint32_t n_misses;
    bool may_spin; /* more than one CPU */
    bool brief;    /* private copy */
    uint32_t n_free, free_slots[LANE_SLOTS];
    uint32_t generation[LANE_SLOTS]; /* private truth */
    struct lane_pushed pushed[LANE_SLOTS];
};

struct lane_call {
    const char *const *args;
    size_t n_args;
    const void *input;
    size_t input_size;
    size_t room; /* for output */
};

/* What came back. Texts are copies; output points into the slot: copy it out once, before lane_client_free_slot(). */
struct lane_result {
    enum lane_outcome outcome;
    int exit;
    uint32_t worker;
    uint64_t run_usec, cpu_usec;
    const void *output;
    size_t output_size;
    char error[RING_TEXT], status[RING_TEXT];
};

int lane_client_init(struct lane_client *c, int memory_fd, int grant_fd, bool may_spin);
void lane_client_deinit(struct lane_client *c);
/* Whether there is a slot for a call: credit, an executor. */
bool lane_client_has_room(const struct lane_client *c);
bool lane_client_dry(const struct lane_client *c); /* no calls are allowed for now */
/* True: the lane is dead, and will not be alive again. */
bool lane_client_lost(const struct lane_client *c);
bool lane_client_allowed(const struct lane_client *c, uint32_t bind);
/* A slot, which there is; then its calls, in their order; then lane_client_push(), or with none of them
 * lane_client_free_slot(). */
uint32_t lane_client_begin(struct lane_client *c);
/* False: it does not fit behind those before it. */
bool lane_client_add(struct lane_client *c, uint32_t slot, const struct lane_call *call);
/* lane_client_ring() is to follow. */
void lane_client_push(struct lane_client *c, uint32_t slot, uint32_t bind, uint64_t timeout_usec);
/* n slots were pushed. brief: they and all that is under way are over before another worker would be awake; then one is
 * woken at most, none where somebody looks on, and if it takes long after all, lane_client_press(). True: it may pay to
 * spin for an end: nobody had to be woken, or it is one of many that come one behind the other, and whoever is woken
 * stays awake for the next. */
bool lane_client_ring(struct lane_client *c, uint32_t n, bool brief);
/* It is not brief: all workers may come. */
void lane_client_press(struct lane_client *c);
/* Waits for what ended() looks at; as long as that pays at most, or so long. True: it has ended. */
bool lane_client_spin(struct lane_client *c, bool (*ended)(void *arg), void *arg);
bool lane_client_sleep(struct lane_client *c, bool (*ended)(void *arg), void *arg, uint64_t timeout_usec);
bool lane_client_ended(struct lane_client *c, uint32_t slot); /* a look */
/* Those behind the one that has its turn will not be begun any more; which one that is. */
uint32_t lane_client_close(struct lane_client *c, uint32_t slot);
/* Of a slot that has ended: which call had its turn last. */
uint32_t lane_client_last(struct lane_client *c, uint32_t slot);
/* Of a call before that one. */
void lane_client_end(struct lane_client *c, uint32_t slot, uint32_t item, struct lane_end *ret,
                     const void **ret_output);
/* Of that one. */
void lane_client_result(struct lane_client *c, uint32_t slot, struct lane_result *ret);
void lane_client_free_slot(struct lane_client *c, uint32_t slot);
