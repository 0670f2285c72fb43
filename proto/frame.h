/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h: the fixed header around every message, and the incremental reader of a byte stream.
 *
 *      0      1        2          4                8              12             16
 *      ├──────┼────────┼──────────┼────────────────┼──────────────┼──────────────┼───────────────┬───────────┐
 *      │ 0x57 │ version│ type u16 │ tag u32        │ header u32   │ body u32     │ header: protobuf │ body: raw │
 *      └──────┴────────┴──────────┴────────────────┴──────────────┴──────────────┴───────────────┴───────────┘
 *
 * Little endian. header and body are lengths in bytes; the whole frame is at most FRAME_MAX.
 * `tag` is chosen by the client for each request, not 0, and unique among its open ones; answers carry it back.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC       0x57u
#define FRAME_VERSION     1u
#define FRAME_HEADER_SIZE 16u
#define FRAME_MAX         (64u * 1024u)                   /* whole frame, fixed header included */
#define FRAME_PAYLOAD_MAX (FRAME_MAX - FRAME_HEADER_SIZE) /* protobuf header plus body */
#define FRAME_BODY_CHUNK  (60u * 1024u)                   /* body bytes that a sender of chunks puts in one frame */

enum frame_type {
    FRAME_NONE = 0,
    /* client to wsd */
    FRAME_HELLO = 1,         /* Hello, first */
    FRAME_SUBMIT = 2,        /* Submit + body -> ACCEPTED, OUTPUT.., MESSAGE.., PROGRESS.., DONE | ERROR */
    FRAME_INPUT = 3,         /* Chunk + body: more input of the call */
    FRAME_CREDIT = 4,        /* Credit: both directions */
    FRAME_CANCEL = 5,        /* Id -> EMPTY | ERROR; without id no answer of its own */
    FRAME_AWAIT = 6,         /* Id -> as SUBMIT after ACCEPTED */
    FRAME_STATUS = 7,        /* Id -> JOB | ERROR */
    FRAME_LIST = 8,          /* Empty -> JOB.., END */
    FRAME_PLUGINS = 9,       /* Plugins -> PLUGIN.., END | ERROR */
    FRAME_STATS = 10,        /* Empty -> COUNTERS */
    FRAME_PING = 11,         /* Empty + any body -> PONG with the same body */
    FRAME_OPENED = 12,       /* Opened (+ descriptor) */
    FRAME_WORKERS = 13,      /* Workers -> WORKER.., EXECUTOR.., END | ERROR */
    FRAME_TRACE = 14,        /* Trace -> EXECUTOR.., PIECE.., END | ERROR */
    FRAME_RELEASE = 15,      /* Release -> END | ERROR */
    FRAME_RELOAD = 16,       /* Reload -> RELOADED.., END | ERROR */
    FRAME_GATE = 17,         /* Gate -> GATE_STATE.., END | ERROR */
    FRAME_FORGET = 18,       /* Empty -> END; the call with this tag is followed no more */
    FRAME_DEAD = 20,         /* Dead -> JOB.., END | ERROR */
    FRAME_SCHEDULE = 21,     /* Schedule -> SCHEDULED.., END | ERROR */
    FRAME_ARRAY = 23,        /* Submit + body: many jobs at once -> ACCEPTED, ENDS.., MESSAGE.. | ERROR */
    FRAME_BATCH = 24,        /* Batch: many jobs as a unit -> BATCH_STATE.. | END | ERROR */
    FRAME_LIST_WHERE = 25,   /* Filter -> JOB.., END | ERROR */
    FRAME_CANCEL_WHERE = 26, /* Filter -> COUNT | ERROR */
    FRAME_LIMIT = 36,        /* Limit -> LIMIT_STATE.., END | ERROR */
    FRAME_LANE_OPEN = 30,    /* Empty -> LANE, and at the end LANE_LOST or END | ERROR */
    FRAME_LANE_BIND = 31,    /* LaneBind -> LANE_BOUND | ERROR */
    FRAME_LANE_WAITS = 32,   /* Empty, tag of the LANE_OPEN: a call has been waiting for long */
    FRAME_LANE_CLOSE = 33,   /* Empty, tag of the LANE_OPEN, which ends with END */
    FRAME_ARENA_OPEN = 34,   /* Empty (+ descriptor) -> ARENA, and at the end END | ERROR */
    FRAME_ARENA_CLOSE = 35,  /* Empty, tag of the ARENA_OPEN, which ends with END */
    FRAME_RUNNER_OPEN = 40,  /* Offer -> RUNNER, RUN.., and at the end END | ERROR */
    FRAME_RUNNER_CLOSE = 41, /* Empty, tag of the RUNNER_OPEN (as all to 47): no more jobs; it ends with END */
    FRAME_RUN_OUTPUT = 42,   /* RunChunk + body */
    FRAME_RUN_MESSAGE = 43,  /* RunMessage */
    FRAME_RUN_PROGRESS = 44, /* RunProgress */
    FRAME_RUN_OPEN = 45,     /* RunOpen -> RUN_OPENED */
    FRAME_RUN_END = 46,      /* RunEnd + body */
    FRAME_RUN_PONG = 47,     /* RunRef: answer to RUN_PING */
    FRAME_FUNCTIONS = 50,    /* Functions -> FUNCTION_STATS.., END */
    FRAME_PERSON = 51,       /* Person: behind the requests that follow */
    FRAME_ACTIONS = 52,      /* Actions -> ACTION.., END */
    /* wsd to client */
    FRAME_WELCOME = 65,         /* Welcome, first */
    FRAME_ACCEPTED = 66,        /* Accepted */
    FRAME_OUTPUT = 67,          /* Chunk + body */
    FRAME_PROGRESS = 68,        /* Progress */
    FRAME_MESSAGE = 69,         /* Message: a log line of the job */
    FRAME_DONE = 70,            /* Job, in a final state: the last frame of a call */
    FRAME_ERROR = 71,           /* Error: the last frame of its request; tag 0: about the connection, which closes */
    FRAME_JOB = 72,             /* Job */
    FRAME_PLUGIN = 73,          /* Plugin */
    FRAME_COUNTERS = 74,        /* Stats */
    FRAME_PONG = 75,            /* Empty + body */
    FRAME_END = 76,             /* Empty: end of a list; also the plain yes of CANCEL */
    FRAME_OPEN = 77,            /* Open: asks for a file of the client's */
    FRAME_GOODBYE = 78,         /* Error, tag 0: wsd is draining; open calls will end, new ones are refused */
    FRAME_EXECUTOR = 79,        /* Executor */
    FRAME_WORKER = 80,          /* Worker */
    FRAME_PIECE = 81,           /* Chunk + body: the next bytes of a trace, of the EXECUTOR before it */
    FRAME_RELOADED = 82,        /* Reloaded */
    FRAME_GATE_STATE = 83,      /* GateState */
    FRAME_SCHEDULED = 84,       /* Scheduled */
    FRAME_BATCH_STATE = 86,     /* BatchState */
    FRAME_ENDS = 87,            /* Ends + body: of items of an ARRAY */
    FRAME_COUNT = 88,           /* Count: of how many it was done */
    FRAME_LANE = 100,           /* Empty (+ two descriptors: memory, grant) */
    FRAME_LANE_BOUND = 101,     /* LaneBound */
    FRAME_LANE_LOST = 102,      /* Error: the last frame of the LANE_OPEN: its executor is gone */
    FRAME_ARENA = 103,          /* Empty: it is set up */
    FRAME_LIMIT_STATE = 106,    /* Limit */
    FRAME_RUNNER = 110,         /* Empty: the runner is known, and gets jobs */
    FRAME_RUN = 111,            /* Run + body (+ descriptor): a job */
    FRAME_RUN_INPUT = 112,      /* RunChunk + body: more of its input */
    FRAME_RUN_STOP = 113,       /* RunRef: it is to end soon */
    FRAME_RUN_OPENED = 114,     /* RunOpened (+ descriptor) */
    FRAME_RUN_CREDIT = 115,     /* RunCredit: more output may be sent */
    FRAME_RUN_PING = 116,       /* RunRef -> RUN_PONG */
    FRAME_FUNCTION_STATS = 120, /* FunctionStats + body: one function of one user */
    FRAME_ACTION = 121,         /* Action: which user changed something */
    FRAME_FINISHED = 105,       /* Finished + body: the last output and DONE in one */
};

struct frame {
    uint16_t type;
    uint32_t tag;
    uint32_t header_size;
    uint32_t body_size;
    const uint8_t *header; /* protobuf bytes; points into the bytes that were parsed */
    const uint8_t *body;
};

/* What frame_parse() found. Positive: an answer that the caller handles. */
enum {
    FRAME_MORE = 1,        /* not a whole frame yet: *ret_size is how many bytes the whole one has, or 16 */
    FRAME_E_MAGIC = 2,     /* not our protocol */
    FRAME_E_VERSION = 3,   /* another version of the fixed header */
    FRAME_E_TOO_LARGE = 4, /* above FRAME_MAX */
};

/* Parses the first bytes of a stream. 0: *ret_frame is set and *ret_size bytes are used up. Reads nothing beyond. Finds
 * an error as soon as the offending byte is there. [any] */
int frame_parse(const uint8_t *data, size_t size, struct frame *ret_frame, size_t *ret_size);

/* Writes the fixed header. [any] */
void frame_put_header(uint8_t ret[FRAME_HEADER_SIZE], uint16_t type, uint32_t tag, uint32_t header_size,
                      uint32_t body_size);

/* The words for a positive answer of frame_parse(), for the peer. */
const char *frame_strerror(int answer);
