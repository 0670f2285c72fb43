/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-ring.h: a direct lane: a private ring in shared memory from one client straight into the executor of its trust
 * domain. Declares the layout and its three ends: `front` is wsd's, `back` the executor's, `client` the client
 * library's.
 *
 * There are two regions, each a sealed memfd that wsd makes:
 *
 *    memory  written by client and executor (and by wsd, which ends calls of a lane that goes): submission ring, slots
 *    grant   written by wsd alone (F_SEAL_FUTURE_WRITE), read by both: credit, which numbers may be called, verdicts
 *
 * One slot is one call, or a bundle: up to LANE_ITEMS calls of one function, which one worker runs one after the other.
 * The life of a slot, in slots[i].state, with the generation in the upper half:
 *
 *      client      FREE -> QUEUED        fills the request first (release), then the ring, then notifies `bell`;
 *                                        no notify is needed where all calls are brief and a worker is looking
 *      worker      QUEUED -> RUNNING     compare-and-swap; then copies the request
 *      worker      RUNNING -> DONE       compare-and-swap (release), after the answer; then notifies `done`
 *      client      DONE, LOST -> FREE    with the next generation, when it has taken the answer
 *      wsd         QUEUED, RUNNING -> LOST   compare-and-swap, when the executor is dead; `grant` has the verdict then
 *      wsd         QUEUED -> LOST            the same, when the lane is taken back for another client
 *
 * A client that waits for other things as well sets `notice`, and waits until its notice socket is readable. The worker
 * that answers next clears `notice` and sends a byte to that socket.
 *
 * So each call has exactly one answer, whichever process dies: one compare-and-swap decides. There is no completion
 * ring. The slot's word says all that an entry of such a ring would say, so the two cannot disagree.
 *
 * slots[i].turn says which call of a bundle has its turn:
 *
 *      client      0                     before QUEUED
 *      worker      n -> n + 1            compare-and-swap (release), after the end of call n, if call n gave nothing
 *                                        but output
 *      client      n -> n | LANE_CLOSED  no further call gets its turn: the calls after n are the client's again
 *
 * A client that gives up waiting closes the slot, raises `cancel`, and takes the slot back when the slot has ended. A
 * worker that claims the slot after that answers at once: REFUSED.
 *
 * The slot's answer, or wsd's verdict, belongs to the call that had its turn last. The calls before it have `ends`. The
 * calls after it were not begun.
 *
 * No side trusts what another may have written. The executor copies the request and the numbers once, checks the copies
 * and works on them. Its cursor and its table of calls are private, and it waits for nothing in this memory. wsd tells
 * it which user calls and what that user may call. What wsd needs to keep time limits lies in `up`, which the client
 * does not have. The client trusts wsd, but no size in the executor's answer. A client that scribbles loses its own
 * calls. The executor shuts a lane that rings again and again without a call (executor/lanes.c).
 *
 *                | client_* | back_* | front_*
 *   client_*     |    no    |  yes   |  yes        one thread a lane
 *   back_*       |   yes    |  yes   |  yes        any worker
 *   front_*      |   yes    |  yes   |   no        wsd's loop
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
#define LANE_BINDS  RING_LANE_BINDS
#define LANE_ITEMS  32u   /* calls in one slot */
#define LANE_ROOM   2048u /* bytes of their arguments and inputs, with struct lane_item; larger ones go by the socket */
#define LANE_OUTPUT 2048u /* bytes of output */
#define LANE_CLOSED 0x80000000u

enum lane_state { LANE_FREE = 0, LANE_QUEUED = 1, LANE_RUNNING = 2, LANE_DONE = 3, LANE_LOST = 4 };

/* How a call ended. */
enum lane_outcome {
    LANE_ENDED = 0, /* its function returned: exit */
    /* The call was not begun: no credit, or its number is not allowed now. The client sends it by the socket
     * instead. */
    LANE_REFUSED = 1,
    LANE_CANCELLED = 2,
    LANE_TIMED_OUT = 3,
    LANE_OVERFLOW = 4, /* its output is larger than its room */
    LANE_CRASHED = 5,  /* verdicts of wsd, from here on */
    LANE_INTERRUPTED = 6,
    LANE_UNTOUCHED = 7, /* it had not begun */
    LANE_AGAIN = 8,     /* it had begun, and may run twice */
};

/* One call, in bytes[]: this struct, then its arguments, each with its NUL, then its input at a multiple of LANE_ALIGN.
 * The next call follows at a multiple of LANE_ALIGN. */
struct lane_item {
    uint32_t argc, args_size, input_size;
    uint32_t room; /* bytes for its output, which follows the output of the calls before it */
};
#define LANE_ALIGN 16u

/* The end of a call that was not the last of its bundle: its function has returned 0 and gave nothing but output. */
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
    /* the answer [worker writes before DONE; for calls that are over, before `turn` moves on] */
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
    /* 1: all calls under way will end before another worker would be awake. One looking worker is enough then. [atomic:
     * relaxed, by the client before it reads `looking` or notifies bell] */
    _Atomic uint32_t brief __attribute__((aligned(64)));
    /* Count of workers that will look here again before they sleep or run anything that is not brief. [atomic:
     * seq_cst] */
    _Atomic uint32_t looking;
    /* 1: the client wants to keep the lane while it is idle. [atomic: relaxed, by the client; read by wsd] */
    _Atomic uint32_t kept;
    struct eventcount bell __attribute__((aligned(64))); /* idle workers sleep on it and on all others */
    struct eventcount done __attribute__((aligned(64))); /* the client sleeps on it */
    /* 1: the client waits for its notice socket. [atomic: acq_rel RMWs of both sides] */
    _Atomic uint32_t notice;
    struct lane_slot slots[LANE_SLOTS];
};

/* What became of a call after its executor's death. [wsd writes before it makes the slot LOST] */
struct lane_verdict {
    uint32_t generation;
    uint32_t outcome; /* enum lane_outcome */
    char error[RING_TEXT];
};

struct lane_grant {
    uint32_t magic, version;
    _Atomic uint32_t credit;              /* calls that may run at once; 0: none for now [atomic: seq_cst] */
    _Atomic uint32_t lost;                /* 1: the lane is gone, no call begins any longer [atomic: seq_cst] */
    _Atomic uint32_t allowed[LANE_BINDS]; /* 1: this number may be called [atomic: release/acquire] */
    struct lane_verdict verdicts[LANE_SLOTS];
};

/* --- front: wsd's end [loop] ------------------------------------------------------------------------------------ */

struct lane_front {
    struct lane_memory *memory;
    struct lane_grant *grant;
    int memory_fd, grant_fd;  /* to be handed over, then closed: lane_front_handed() */
    int notice_fd, notify_fd; /* so too: the client's and the executor's end of the notice socket; -1: there is none */
    uint64_t owner;           /* of notice_fd, which a plugin may put descriptors into: as for async_close() */
};

int lane_front_init(struct lane_front *f); /* makes, maps and seals both; 0 or a negative errno */
/* Adds a notice socket. 0 or a negative errno. */
int lane_front_add_notice(struct lane_front *f, uint64_t owner);
void lane_front_handed(struct lane_front *f);
void lane_front_deinit(struct lane_front *f);
void lane_front_credit(struct lane_front *f, uint32_t credit);
void lane_front_allow(struct lane_front *f, uint32_t bind, bool yes);
void lane_front_cancel(struct lane_front *f); /* every call */
/* From here on clients take back what they push. Call before looking at the slots. */
void lane_front_lost(struct lane_front *f);
/* Whether the client wants to keep the lane while the lane is idle. */
bool lane_front_kept(const struct lane_front *f);
/* Reads a slot's word once. The word may hold any value. */
enum lane_state lane_front_look(struct lane_front *f, uint32_t slot, uint32_t *ret_generation);
/* Ends a call that was seen in this state with this verdict. False: its state has changed; look again. */
bool lane_front_judge(struct lane_front *f, uint32_t slot, uint32_t generation, enum lane_state seen,
                      enum lane_outcome outcome, const char *error);

/* --- back: the executor's end ----------------------------------------------------------------------------------- */

struct lane_back {
    struct lane_memory *memory;
    const struct lane_grant *grant;
    _Atomic uint64_t head; /* [atomic: acq_rel, among workers] */
};

/* One call of a request, and where its parts are. */
struct lane_part {
    uint32_t argc, args_size, input_size, room;
    uint32_t args_at, input_at, output_at;
};

/* A request: a checked private copy, and its call that has its turn. */
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
/* yes: from now on the calling worker counts as looking. Otherwise it stops, and must look once again after this call.
 * [any worker] */
void lane_back_look(struct lane_back *b, bool yes);
/* Whether the looking workers are enough for what is waiting. [any worker that does not look] */
bool lane_back_cared_for(struct lane_back *b);
/* The same as lane_back_look(false), but only if other workers look and are enough. [any worker that looks] */
bool lane_back_yield(struct lane_back *b);
bool lane_back_brief(struct lane_back *b); /* [any worker] */
/* The next slot, or RING_NONE. [any worker] */
uint32_t lane_back_take(struct lane_back *b, uint32_t *ret_generation);
/* The number that the slot calls, read before the claim: it may be any value. [the worker that took it] */
uint32_t lane_back_bind(const struct lane_back *b, uint32_t slot);
/* QUEUED -> RUNNING. False: withdrawn, or malformed. [the worker that took it] */
bool lane_back_claim(struct lane_back *b, uint32_t slot, uint32_t generation);
/* Whether the slot's calls are to end. True after the claim of a slot that lane_client_cancel() has found not begun.
 * [the worker that claimed it] */
bool lane_back_cancelled(const struct lane_back *b, uint32_t slot);
/* Copies and checks the request. 0: the first call has its turn; -EBADMSG: some part is malformed. [the worker that
 * claimed it] */
int lane_back_read(struct lane_back *b, uint32_t slot, struct lane_request *ret);
/* The call that has its turn has succeeded. True: the next call has its turn now. False: there is no next one, or the
 * client has closed the bundle or cancelled it; then call lane_back_answer(). */
bool lane_back_turn(struct lane_back *b, uint32_t slot, struct lane_request *q, const struct lane_end *end,
                    const void *output);
/* Writes the answer of the call that has its turn, RUNNING -> DONE, and wakes the client. Returns whether the client
 * slept. LANE_ENDED of a cancelled call becomes LANE_CANCELLED. Does nothing if wsd has given its verdict already. */
bool lane_back_answer(struct lane_back *b, uint32_t slot, uint32_t generation, uint32_t output_at,
                      const struct lane_answer *a);
/* Whether a byte has to be sent to the notice socket after an answer; true once for each wait of the client. */
bool lane_back_notifies(struct lane_back *b);
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
    uint64_t spin_nsec;  /* how long it pays to spin; adapts */
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

/* The answer of a call. Texts are copies. output points into the slot: copy it out once, before
 * lane_client_free_slot(). */
struct lane_result {
    enum lane_outcome outcome;
    int exit;
    uint32_t worker;
    uint64_t run_usec, cpu_usec;
    const void *output;
    size_t output_size;
    char error[RING_TEXT], status[RING_TEXT];
};

/* The memory is not there in children of fork(). */
int lane_client_init(struct lane_client *c, int memory_fd, int grant_fd, bool may_spin);
void lane_client_deinit(struct lane_client *c);
/* Tells wsd whether the lane is to be kept while it is idle. */
void lane_client_keep(struct lane_client *c, bool kept);
/* Whether there are a free slot, credit and a live executor for a call. */
bool lane_client_has_room(const struct lane_client *c);
bool lane_client_dry(const struct lane_client *c); /* no calls are allowed for now */
/* True: the lane is gone for good. */
bool lane_client_lost(const struct lane_client *c);
bool lane_client_allowed(const struct lane_client *c, uint32_t bind);
/* Gives a slot. Requires that one is free. Add its calls in order, then call lane_client_push(), or
 * lane_client_free_slot() if none was added. */
uint32_t lane_client_begin(struct lane_client *c);
/* False: the call does not fit after those before it. */
bool lane_client_add(struct lane_client *c, uint32_t slot, const struct lane_call *call);
/* Publishes the slot. lane_client_ring() must follow. */
void lane_client_push(struct lane_client *c, uint32_t slot, uint32_t bind, uint64_t timeout_usec);
/* Tells workers that n slots were pushed. brief: these and all calls under way will end before another worker would be
 * awake. Then this wakes at most one worker, and none if a worker is looking. If the calls take long after all, call
 * lane_client_press(). True: it may pay to spin for an end. Either no worker had to be woken, or this push is one of
 * many in a row, and a woken worker stays awake for the next. */
bool lane_client_ring(struct lane_client *c, uint32_t n, bool brief);
/* The calls are not brief after all: all workers may come. */
void lane_client_press(struct lane_client *c);
/* Waits until ended() says true. lane_client_spin() spins for as long as that pays; lane_client_sleep() sleeps once,
 * for timeout_usec at most. True: it has ended. */
bool lane_client_spin(struct lane_client *c, bool (*ended)(void *arg), void *arg);
bool lane_client_sleep(struct lane_client *c, bool (*ended)(void *arg), void *arg, uint64_t timeout_usec);
bool lane_client_ended(struct lane_client *c, uint32_t slot); /* a look */
/* Asks for a byte in the notice socket when the next slot ends. Look at the slots after this call. */
void lane_client_want_notice(struct lane_client *c);
/* Withdraws lane_client_want_notice(). True: a byte has come, or is on its way. */
bool lane_client_take_notice(struct lane_client *c);
/* Closes the bundle: calls after the one that has its turn will not begin. Returns which one that is. */
uint32_t lane_client_close(struct lane_client *c, uint32_t slot);
/* Asks the call that has its turn to end. Its end is still to come. Free the slot only after that, since the ring may
 * hold the slot's number until a worker has taken it. Returns whether it has begun. If not, it never will. */
bool lane_client_cancel(struct lane_client *c, uint32_t slot);
/* Which call of an ended slot had its turn last. */
uint32_t lane_client_last(struct lane_client *c, uint32_t slot);
/* The end of a call before the one that had its turn last. */
void lane_client_end(struct lane_client *c, uint32_t slot, uint32_t item, struct lane_end *ret,
                     const void **ret_output);
/* The answer of the call that had its turn last. */
void lane_client_result(struct lane_client *c, uint32_t slot, struct lane_result *ret);
void lane_client_free_slot(struct lane_client *c, uint32_t slot);
