/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h: the shared memory between wsd and one executor. It holds no pointers, only offsets and numbers.
 *
 * Two regions, each a sealed memfd:
 *
 *    down  written by wsd, mapped read-only by the executor (F_SEAL_FUTURE_WRITE: even the executor cannot change that)
 *            submission ring, request half of each slot, arena with arguments and inputs
 *    up    written by both
 *            completion ring, answer half of each slot with its state word, chunk table, fault note, arena with outputs
 *
 * A slot is one job that wsd has handed ahead. Its life, in up->slots[i].state, with the generation in the upper half:
 *
 *      wsd         FREE -> QUEUED                     fills the down slot first, then stores the state (release)
 *      worker      QUEUED -> RUNNING                  compare-and-swap (acquire)
 *      wsd         QUEUED -> RECALLED                 compare-and-swap: cancelled before it ran
 *      worker      RUNNING -> DONE                    store (release) after the answer half is written
 *      worker      pushes DONE or RECALLED on the completion ring, exactly once
 *      wsd         takes it, -> FREE with the next generation
 *
 * A *bundle* is a slot of several small jobs, which one worker runs one after the other. `at` in its struct up_bundle
 * says which job has its turn. An answer that is only output goes into a record, and the next job begins. Any other
 * answer, and that of the last job, is the slot's own, and the bundle ends with it. Closing a bundle keeps the next job
 * from beginning. wsd closes it when it wants some of the jobs back. The worker closes it when a job has more to say
 * than its output:
 *
 *      worker      at: i -> i + 1                     compare-and-swap (release), after record i was written;
 *                                                     fails if the bundle is closed
 *      either      at: i -> i, closed                 the jobs after i are untouched, and the slot is i's alone
 *      worker      hold + 1, before DONE              if the bundle ends before its last job: no worker takes what was
 *      wsd         hold - 1                           submitted after it until the jobs after i are back before that
 *
 * wsd trusts nothing that it reads from `up`. It keeps private cursors and its own table of slots, and reads each word
 * once. The executor, too, trusts nothing where trust would turn another process's mistake into its own crash.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/copy.h"
#include "base/eventcount.h"
#include "base/histogram.h"

#define RING_MAGIC   0x31647377u /* "wsd1" */
#define RING_VERSION 16u

#define RING_SLOTS       1024u         /* jobs handed ahead; bounds what a dying executor can hurt */
#define RING_TINY        192u          /* bytes in each slot itself: enough for most jobs */
#define RING_SMALL       4096u         /* bytes of the arena reserved for each slot */
#define RING_ALIGN       16u           /* alignment of an input after its arguments */
#define RING_CHUNK       (64u * 1024u) /* unit of the rest of the arena */
#define RING_CHUNKS      1024u         /* in each direction */
#define RING_RUN_MAX     16u           /* chunks in one piece: 1 MiB */
#define RING_COMPLETIONS 4096u         /* >= slots + chunks, so the ring is never full */
#define RING_TEXT        256u          /* error, status */
#define RING_TRACEPARENT 56u           /* a traceparent with its NUL */
/* Chunks that one job may hold. So a reader that stalls delays no other job. */
#define RING_JOB_CHUNKS 64u
#define RING_BUNDLE     128u /* jobs in one slot */
#define RING_WORTH_USEC 100u /* expected work for which waking another worker pays */
#define RING_WAKE_PENDING                                                                                              \
    (1u << 29) /* bit of up->searchers: wsd has woken a worker, which has not begun to search yet */
#define RING_NONE       UINT32_MAX
#define RING_LANES      64u        /* direct lanes of one executor (lane-ring.h); a sleeper waits on them all */
#define RING_LANE_SLOTS 64u        /* calls under way in one of them */
#define RING_LANE_BINDS 64u        /* functions that one of them has numbers for */
#define RING_ARENAS     RING_SLOTS /* arenas mapped by one executor: as many as jobs can use at once */

enum ring_state { RING_FREE = 0, RING_QUEUED = 1, RING_RUNNING = 2, RING_DONE = 3, RING_RECALLED = 4 };

static inline uint64_t ring_word(uint32_t generation, uint32_t low)
{
    return (uint64_t)generation << 32 | low;
}

/* An entry of the submission ring. expected_usec: how long wsd expects the job to take; RING_WORTH_USEC if that is
 * longer or unknown. */
static inline uint64_t ring_entry(uint32_t generation, uint32_t slot, uint32_t expected_usec)
{
    return ring_word(generation, expected_usec << 16 | slot);
}

static inline uint32_t ring_entry_slot(uint64_t entry)
{
    return (uint32_t)entry & 0xffffu;
}

static inline uint32_t ring_entry_usec(uint64_t entry)
{
    return (uint32_t)entry >> 16;
}

_Static_assert((RING_ARENAS & (RING_ARENAS - 1)) == 0, "numbers may begin anew");

/* The place of an arena in the executor's table. The next arena in a place has a number that is RING_ARENAS higher. A
 * worker may take its job before the control thread has heard that the old arena is gone. */
static inline uint32_t ring_arena_place(uint32_t number)
{
    return number % RING_ARENAS;
}

enum down_flags {
    DOWN_SAME_USER = 1u << 0,   /* the executor runs with the submitter's rights: it opens files itself */
    DOWN_INPUT_FD = 1u << 1,    /* the input is a sealed memfd that came over the control socket */
    DOWN_INPUT_PIPE = 1u << 2,  /* the input is streamed through a pipe that came over the control socket */
    DOWN_INPUT_FILE = 1u << 3,  /* with FD: not a memfd of wsd's but a file that others may change or truncate */
    DOWN_INPUT_COPY = 1u << 4,  /* with FILE or PART: a function that gets the input whole gets a copy */
    DOWN_INPUT_PART = 1u << 5,  /* the input is a part of an arena */
    DOWN_OUTPUT_PART = 1u << 6, /* the output goes to a part of it */
    DOWN_TRACEPARENT = 1u << 7, /* RING_TRACEPARENT bytes of a traceparent follow the arguments */
    DOWN_OUTPUT_FD = 1u << 8,   /* the output goes to a descriptor that came over the control socket */
    /* with OUTPUT_FD: an earlier try began at output_at of that file, and has written output_size bytes at least */
    DOWN_OUTPUT_AGAIN = 1u << 9,
    DOWN_ARENA = DOWN_INPUT_PART | DOWN_OUTPUT_PART,
    /* input or output lies outside the slot */
    DOWN_ELSEWHERE = DOWN_INPUT_FILE | DOWN_ARENA | DOWN_OUTPUT_AGAIN,
};

/* The request half. [wsd writes before QUEUED; executor reads after its CAS] */
struct down_slot {
    /* The first cache line: all that most jobs need. */
    uint8_t id[16];
    uint32_t generation;
    uint32_t plugin;   /* number given by wsd in CONTROL_LOAD */
    uint16_t function; /* index in the plugin's table */
    uint16_t argc;     /* arguments, without argv[0] */
    uint16_t flags;    /* enum down_flags */
    /* 0: one job; else a bundle of this many jobs, each with a struct down_item in the input's place */
    uint16_t n_items;
    uint32_t directory_size; /* blob: directory, NUL included (0: none) .. */
    uint32_t args_size;      /* .. then arguments, each with its NUL .. (DOWN_TRACEPARENT) */
    uint64_t input_size;     /* .. then, 16-aligned, the input unless it has a descriptor */
    uint64_t timeout_usec;   /* of its run time: the executor adds the time at which it starts; 0: none */
    uint32_t blob;           /* offset in `down` */
    _Atomic uint32_t cancel; /* [atomic: relaxed both sides; a flag that is polled] */
    /* The other lines hold the blob, if it fits here. This spares both sides another page. Or they say where input and
     * output lie in a descriptor. */
    union {
        uint8_t tiny[RING_TINY];
        struct {
            uint64_t input_at;               /* DOWN_INPUT_FILE, DOWN_INPUT_PART: offset of the input */
            uint64_t output_at, output_size; /* DOWN_OUTPUT_PART, DOWN_OUTPUT_AGAIN */
            uint32_t arena;                  /* DOWN_ARENA: its number, as CONTROL_ARENA said */
        };
    };
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct down_slot, tiny) == 64 && sizeof(struct down_slot) == 256, "one line, and three");

/* A job of a bundle: what differs from the other jobs. Its id is that of the job before it, plus one. Its arguments
 * follow without a gap, each with its NUL. Then, 16-aligned, its input; then, 16-aligned, the next item. */
struct down_item {
    uint32_t argc, args_size, input_size, unused;
};

_Static_assert(sizeof(struct down_item) % RING_ALIGN == 0, "what is behind it is aligned");

static inline uint64_t ring_aligned(uint64_t size)
{
    return (size + RING_ALIGN - 1) & ~(uint64_t)(RING_ALIGN - 1);
}

/* Copies data and pads it with zeros up to the alignment: the executor sees all of it. */
static inline void ring_put(void *at, const void *data, size_t size)
{
    if (size == 0)
        return;
    memset((char *)at + ring_aligned(size) - RING_ALIGN, 0, RING_ALIGN);
    copy_away(at, data, size);
}

struct down {
    uint32_t magic, version;
    uint64_t size;
    uint64_t arena; /* offset of small[RING_SLOTS], followed by chunk[RING_CHUNKS] */
    _Atomic uint64_t tail __attribute__((aligned(64))); /* [atomic: release by wsd, acquire by workers] */
    _Atomic uint64_t ring[RING_SLOTS];                  /* ring_entry() */
    struct down_slot slots[RING_SLOTS];
};

/* What else an answer has. */
enum up_texts {
    UP_TEXTS = 1,    /* error and status; without it both are "" */
    UP_PROGRESS = 2, /* the job has reported progress */
};

/* What has become of output that goes to a descriptor. */
enum ring_output {
    RING_OUTPUT_NONE = 0,   /* nothing was written */
    RING_OUTPUT_CLOSED = 1, /* nothing was, and nothing may be: wsd has taken the job back */
    RING_OUTPUT_FILE = 2,   /* something was, and it can be cut off again */
    RING_OUTPUT_GIVEN = 3,  /* something was, and it cannot be recalled */
};

/* Of a FILE: where the job began to write, and how much it has noted. */
struct ring_written {
    uint64_t begin, size;
};

/* The answer half. [worker that runs the job writes before DONE; wsd reads after] */
struct up_slot {
    /* The first cache line: all that most answers need. */
    _Atomic uint64_t state; /* ring_word(generation, enum ring_state) */
    /* CLOCK_MONOTONIC when the job's time began. [atomic: relaxed; written before the CAS to RUNNING (release): a
     * reader that has read RUNNING with acquire then reads this job's time] */
    _Atomic uint64_t started_usec;
    uint64_t ended_usec;
    uint64_t cpu_usec;    /* over all tasks of the job */
    uint64_t output_size; /* all output bytes: chunks, then the small area */
    uint32_t small_size;  /* bytes of output in the slot's small area, last in order */
    uint32_t worker;
    int32_t exit;
    uint32_t messages; /* MESSAGE packets that it sent on the control socket: they precede its end */
    uint32_t texts;    /* enum up_texts: what else is there */
    uint32_t small_at; /* where those bytes begin: after the output of the bundle's earlier jobs */
    /* The progress of the job of generation progress_of; of another generation it is stale. [atomic: relaxed; wsd looks
     * now and then] */
    _Atomic uint64_t progress_done __attribute__((aligned(64)));
    _Atomic uint64_t progress_total;
    _Atomic uint32_t progress_of;
    /* DOWN_OUTPUT_FD: ring_word(generation, enum ring_output) [atomic: wsd writes before QUEUED; then CAS of both sides,
     * acq_rel]. Of a FILE: where the job has begun, and the bytes that it has written at least. [atomic: relaxed; the
     * executor writes, wsd reads after its death] */
    _Atomic uint64_t output_state, output_begin, output_written;
    char error[RING_TEXT];
    char status[RING_TEXT];
} __attribute__((aligned(128)));

_Static_assert(offsetof(struct up_slot, progress_done) == 64, "one line");

/* The answer of a job that was not the last of its bundle. It succeeded, and gave nothing but output. [its worker
 * writes before `at` moves on] */
struct up_end {
    uint32_t later_usec; /* how much later than the first job it started */
    uint32_t run_usec, cpu_usec;
    uint16_t output_at, output_size; /* in the slot's small area */
};

#define BUNDLE_CLOSED 0x80000000u

struct up_bundle {
    /* ring_word(generation, job that has its turn | BUNDLE_CLOSED) [wsd sets it to 0 before QUEUED] */
    _Atomic uint64_t at;
    uint64_t started_usec; /* of the first; written with its record */
    struct up_end ends[RING_BUNDLE - 1];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct up_end) == 16 && offsetof(struct up_bundle, ends) == 16, "four in a line");

enum completion_kind { COMPLETION_DONE = 1, COMPLETION_RECALLED = 2, COMPLETION_OUTPUT = 3 };

/* `seq` is position + 1 once the entry is whole (release; wsd: acquire). Its `value` is kind << 56 | index << 32 |
 * generation. An `index` is a slot, or for OUTPUT the first chunk of a run. */
struct completion {
    _Atomic uint64_t seq;
    _Atomic uint64_t value; /* [atomic: relaxed, ordered by seq] */
};

static inline uint64_t completion_word(enum completion_kind kind, uint32_t index, uint32_t generation)
{
    return (uint64_t)kind << 56 | (uint64_t)(index & 0xffffffu) << 32 | generation;
}

/* One run of output chunks, described at the entry of its first. [worker writes before it pushes OUTPUT] */
struct up_chunk {
    uint32_t slot;
    uint32_t size;         /* bytes of output in it */
    uint32_t run;          /* chunks in it */
    _Atomic uint32_t used; /* 1 from allocation (executor) to release (wsd, release order; executor: acquire) */
};

/* The note is written by the fault handler in the executor, in this order: `written`, then `told`, then the bell. A
 * plugin that ends the process by exit() or quick_exit() leaves a note, too, with signal 0 and the code FAULT_EXIT. */
#define FAULT_EXIT 0x65786974 /* "exit" */
/* The code, with signal 0, if the job has ended its worker's thread. */
#define FAULT_THREAD 0x74687264 /* "thrd" */
/* The code, with signal 0, if the job has done so by the exit system call: the thread itself could report nothing. */
#define FAULT_GONE  0x676f6e65 /* "gone" */
#define FAULT_TRACE 2048u      /* bytes of a backtrace, with NUL */
/* The code if the thread's stack was used up. Then the address is the stack's size. */
#define FAULT_STACK 0x7374616b /* "stak" */

struct fault_note {
    _Atomic uint32_t written; /* 1: the rest is there (release/acquire). The first fault wins by CAS 0 -> 2 -> 1 */
    uint32_t slot;            /* RING_NONE: no job was running on that thread; ring_lane_slot(): a direct call */
    uint32_t generation;
    int32_t signal;
    int32_t code;
    uint32_t worker;
    uint64_t address;
    uint64_t cpu_usec;           /* of the job */
    _Atomic uint32_t told;       /* 1: the backtrace is whole too, and the process dies now (release/acquire) */
    char backtrace[FAULT_TRACE]; /* one line per frame; incomplete if the handler did not finish */
};

/* What wsd must know of a direct lane, in memory that the lane's client cannot write. [worker that runs the call
 * writes; wsd looks] */
struct up_lane {
    _Atomic uint32_t running;  /* calls [atomic: seq_cst RMWs of workers; see up.lanes_watched] */
    _Atomic uint64_t begun;    /* calls since it was opened [atomic: relaxed] */
    _Atomic uint64_t cpu_usec; /* of those that have ended [atomic: relaxed] */
    _Atomic uint64_t wakes;    /* times that the client slept and was woken [atomic: relaxed] */
    struct up_direct {
        _Atomic uint64_t word;          /* ring_word(generation, 1): runs; 0: does not [atomic: release/acquire] */
        _Atomic uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0: none [atomic: relaxed, before word] */
        _Atomic uint32_t bind;          /* which function it calls [atomic: relaxed, before word] */
    } calls[RING_LANE_SLOTS];
} __attribute__((aligned(128)));

/* How a direct call has ended, for wsd's counters. */
enum ring_called { RING_CALL_SUCCEEDED, RING_CALL_FAILED, RING_CALL_CANCELLED, RING_CALL_TIMED_OUT, RING_CALL_ENDS };

/* What the direct calls of one function in a lane came to. They lie behind the arena of `up`, by lane and number of the
 * function. Each part of `slots` only grows, while the lane is open. [worker that runs a call of that slot: relaxed
 * loads and stores, since no other worker has the slot. Read by wsd] */
struct up_called {
    struct up_calls {
        _Atomic uint64_t ended[RING_CALL_ENDS];
        _Atomic uint64_t run_usec; /* of all */
        _Atomic uint64_t run_most; /* of the longest one */
    } __attribute__((aligned(64))) slots[RING_LANE_SLOTS];
    /* How many took how long, by histogram_bucket(). [atomic: relaxed: workers add, wsd exchanges for 0] */
    _Atomic uint64_t run[HISTOGRAM_BUCKETS];
};

_Static_assert(sizeof(struct up_calls) == 64, "a line each");

/* The number that stands for a direct call where a slot number is expected. */
static inline uint32_t ring_lane_slot(uint32_t lane, uint32_t slot)
{
    return RING_SLOTS + lane * RING_LANE_SLOTS + slot;
}

struct up {
    uint32_t magic, version;
    uint64_t size;
    uint64_t arena; /* offset of small[RING_SLOTS], followed by chunk[RING_CHUNKS] */
    struct eventcount doorbell __attribute__((aligned(64))); /* workers sleep on it; wsd notifies after submitting */
    /* count of searching workers, and wake-up bits: pool/park.h. [atomic: RMWs of both sides, acq_rel] */
    _Atomic uint32_t searchers __attribute__((aligned(64)));
    /* 0: workers take from the ring. [atomic: release by both sides, acquire by the taker] */
    _Atomic uint32_t hold __attribute__((aligned(64)));
    /* Jobs wait here for free chunks; wsd notifies after releasing some. */
    struct eventcount space __attribute__((aligned(64)));
    _Atomic uint32_t asleep __attribute__((aligned(64))); /* 1: wsd's loop sleeps and wants its eventfd written */
    _Atomic uint64_t tail __attribute__((aligned(64)));   /* completion ring; fetch_add by workers */
    /* 0: wsd does not look at direct calls. A worker that begins a direct call then sets this to 1 and rings the bell.
     * From then on wsd looks now and then until nothing moves, and sets it to 0 again. [atomic: seq_cst RMWs; partner:
     * running] */
    _Atomic uint32_t lanes_watched __attribute__((aligned(64)));
    struct fault_note fault __attribute__((aligned(64)));
    struct completion completions[RING_COMPLETIONS];
    struct up_chunk chunks[RING_CHUNKS];
    struct up_slot slots[RING_SLOTS];
    struct up_bundle bundles[RING_SLOTS];
    struct up_lane lanes[RING_LANES];
};

/* Offset in `down` of a slot's `tiny` bytes. */
static inline uint64_t ring_tiny(uint32_t slot)
{
    return offsetof(struct down, slots) + slot * sizeof(struct down_slot) + offsetof(struct down_slot, tiny);
}

/* Offsets of the arenas' parts, the same in both regions. */
static inline uint64_t ring_small(uint64_t arena, uint32_t slot)
{
    return arena + (uint64_t)slot * RING_SMALL;
}

static inline uint64_t ring_chunk(uint64_t arena, uint32_t chunk)
{
    return arena + (uint64_t)RING_SLOTS * RING_SMALL + (uint64_t)chunk * RING_CHUNK;
}

#define RING_ARENA_SIZE ((uint64_t)RING_SLOTS * RING_SMALL + (uint64_t)RING_CHUNKS * RING_CHUNK)
/* The size of both parts of `up` behind the fields. */
#define RING_UP_TAIL ((uint64_t)RING_ARENA_SIZE + RING_LANES * RING_LANE_BINDS * sizeof(struct up_called))

/* Offset in `up` of what the calls of this function in a lane came to. */
static inline uint64_t ring_called(uint64_t arena, uint32_t lane, uint32_t bind)
{
    return arena + RING_ARENA_SIZE + ((uint64_t)lane * RING_LANE_BINDS + bind) * sizeof(struct up_called);
}
