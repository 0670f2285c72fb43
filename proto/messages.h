/* SPDX-License-Identifier: Apache-2.0
 *
 * messages.h: the messages as plain structs, their limits, and the features that both sides may know.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/submit-options.h"

#define CODEC_ARENA          (128u * 1024u)
#define CODEC_ARGS_MAX       4096u         /* arguments of one job */
#define CODEC_ARGS_SIZE      (48u * 1024u) /* all of them together, with one NUL each */
#define CODEC_PATH_MAX       4096u         /* plugin, directory, file: bytes, with NUL */
#define CODEC_NAME_MAX       64u           /* function, plugin name: bytes, with NUL */
#define CODEC_PLACE_MAX      128u          /* both, as PLUGIN:FUNCTION, likewise */
#define CODEC_TEXT_MAX       256u          /* error, status, message: bytes, with NUL */
#define CODEC_TRACE_MAX      2048u         /* backtrace: bytes, with NUL */
#define CODEC_RUNNERS        256u          /* runners of one name that are shown */
#define CODEC_FUNCTIONS      64u           /* functions of one plugin */
#define CODEC_COUNTERS       256u
#define CODEC_WORKERS_MAX    1024u /* that can be asked for */
#define CODEC_QUARANTINE     2u    /* of a function */
#define CODEC_APART          2u    /* of a plugin */
#define CODEC_BUILD_MAX      65u   /* of a build id, with NUL */
#define CODEC_RELOADED       4u    /* outcomes of a reload: 1 to this */
#define CODEC_KIND_MAX       3u    /* of a worker */
#define CODEC_CALENDAR_MAX   256u  /* when a schedule runs: bytes, with NUL */
#define CODEC_ITEMS_MAX      4096u /* of one ARRAY */
#define CODEC_ITEM_SIZE      8u    /* bytes before the arguments of an item */
#define CODEC_END_SIZE       48u   /* bytes before the texts of a record of ENDS */
#define CODEC_ONE_SIZE       16u   /* bytes before the output of each item in one that is for several */
#define CODEC_CREDIT_MAX     1024u /* jobs that a runner may have at once */
#define CODEC_CREDIT_PLAIN   256u  /* the same without FEATURE_CREDIT */
#define CODEC_RUN_STATUS     63u   /* of a run that has failed, at most */
#define CODEC_RUN_STATE      10u   /* of a run, at most */
#define CODEC_HISTOGRAM_KIND 4u    /* of one, at most */
#define CODEC_BUCKETS        1152u /* of a histogram, at most */
#define CODEC_PERSON_MAX     256u  /* name of a person, with NUL */
#define CODEC_NEAR           16u   /* jobs that one waits for, and that wait for it, as far as STATUS tells them */
#define CODEC_BUCKET_SIZE    10u   /* bytes of one in the body of FUNCTION_STATS */
#define CODEC_STATE_FINAL    5u    /* of a job: from here on it has ended (enum wsd_job_state of client.h) */
#define CODEC_STATE_MAX      10u

/* Features, in HELLO and WELCOME: what both have set may be used. */
#define CODEC_RATE_MAX  999u  /* of a profile: samples in a second */
#define FEATURE_LANE    1u    /* direct lanes */
#define FEATURE_FORGET  2u    /* FORGET */
#define FEATURE_PAYLOAD 4u    /* Submit.input_from, ARENA_OPEN */
#define FEATURE_BRIEF   8u    /* FINISHED, SUBMIT_QUIET, SUBMIT_LEFT */
#define FEATURE_STORE   16u   /* durable jobs, keys, retries, DEAD */
#define FEATURE_TIME    32u   /* delays, times, the longest time in the queue, SCHEDULE */
#define FEATURE_ORDER   64u   /* Submit.after, after_any and tags, Gate.tag */
#define FEATURE_ARRAY   128u  /* ARRAY, BATCH, Submit.batch, Filter.batch */
#define FEATURE_LIMITS  512u  /* LIMIT */
#define FEATURE_WHERE   256u  /* LIST_WHERE, CANCEL_WHERE, progress of AWAIT, Error.retry_usec */
#define FEATURE_ALIKE   1024u /* records of ENDS that are for several items which went well */
#define FEATURE_ENDS                                                                                                   \
    2048u /* Error.accepted and no 75 after ACCEPTED; ACCEPTED before all ENDS; PROGRESS of an item before its end;
           * CANCEL of what has ended is 66 and closes a batch; a detached batch has detached jobs only. */
#define FEATURE_NOTICE    4096u   /* a third descriptor with LANE */
#define FEATURE_RUNNER    8192u   /* RUNNER_OPEN and what belongs to it */
#define FEATURE_PLACED    16384u  /* Run.output_offset, RunEnd.placed */
#define FEATURE_USER      32768u  /* Hello.user */
#define FEATURE_OUTPUT    65536u  /* Submit.output_to */
#define FEATURE_CREDIT    131072u /* credits above CODEC_CREDIT_PLAIN */
#define FEATURE_FUNCTIONS 262144u /* FUNCTIONS */
#define FEATURE_PROFILE   524288u /* Trace.kind, rate and id */
/* TRACE has wsd's own part */
#define FEATURE_WAY     1048576u
#define FEATURE_PERSON  2097152u /* PERSON */
#define FEATURE_ACTIONS 4194304u /* ACTIONS */
#define FEATURE_PIPE    8388608u /* INPUT_PIPE */
/* that this build knows */
#define FEATURES_ALL                                                                                                   \
    (131071u | FEATURE_CREDIT | FEATURE_FUNCTIONS | FEATURE_PROFILE | FEATURE_WAY | FEATURE_PERSON | FEATURE_ACTIONS | \
     FEATURE_PIPE)

struct span {
    const char *data; /* followed by a NUL that is not counted; never NULL in a decoded message */
    size_t size;
};

enum histogram_kind { HISTOGRAM_QUEUE = 1, HISTOGRAM_RUN = 2, HISTOGRAM_CPU = 3, HISTOGRAM_OUTPUT = 4 };
enum gate_action { GATE_PAUSE = 1, GATE_RESUME = 2, GATE_DRAIN = 3, GATE_LIMIT = 4, GATE_LIST = 5 };
enum limit_flags { LIMIT_OWN = 1, LIMIT_MOVED = 2 };
enum gate_flags { GATE_PAUSED = 1, GATE_DRAINED = 2 };
enum trace_action { TRACE_ACTION_START = 1, TRACE_ACTION_KEEP = 2, TRACE_ACTION_STOP = 3, TRACE_ACTION_STACK = 4 };
enum trace_of { TRACE_OF_EVENTS = 0, TRACE_OF_STACKS = 1 }; /* Trace.kind */
enum dead_action { DEAD_LIST = 1, DEAD_REQUEUE = 2, DEAD_DROP = 3 };
enum schedule_action { SCHEDULE_ADD = 1, SCHEDULE_LIST = 2, SCHEDULE_REMOVE = 3, SCHEDULE_RUN = 4 };
enum scheduled_flags { SCHEDULED_PERSISTENT = 1, SCHEDULED_CONFIGURED = 2, SCHEDULED_RUNNING = 4 };
enum batch_action { BATCH_OPEN = 1, BATCH_CLOSE = 2, BATCH_STATUS = 3, BATCH_AWAIT = 4, BATCH_CANCEL = 5 };
enum batch_flags { BATCH_DETACH = 1, BATCH_PROGRESS = 2, BATCH_KEEP_GOING = 4 };
enum batch_state_flags { BATCH_CLOSED = 1, BATCH_ENDED = 2, BATCH_STOPPED = 4 };
enum submit_flags {
    SUBMIT_DETACH = 1,
    SUBMIT_PROGRESS = 2,
    SUBMIT_MORE = 4,
    SUBMIT_DURABLE = 8,
    SUBMIT_QUIET = 16, /* no ACCEPTED: its end has the id */
    SUBMIT_LEFT = 32,  /* ACCEPTED is the last frame of the call */
    /* it waits for a runner of its plugin's name, as long as it takes; needs FEATURE_RUNNER */
    SUBMIT_WAIT_RUNNER = 64,
};
#define SUBMIT_FLAGS_ALL 127u
/* PIPE goes with SUBMIT_MORE. CREDIT asks for the bytes where the job cannot read the pipe itself. Needs FEATURE_PIPE. */
enum input_from { INPUT_BODY = 0, INPUT_FILE = 1, INPUT_ARENA = 2, INPUT_PIPE = 3 };
/* EITHER: by OUTPUT where it cannot go to the descriptor. Those other than FRAMES need FEATURE_OUTPUT. */
enum output_to { OUTPUT_FRAMES = 0, OUTPUT_FD = 1, OUTPUT_EITHER = 2 };
enum run_flags { RUN_ASKS = 1, RUN_MORE = 2 };
enum run_input { RUN_INPUT_BODY = 0, RUN_INPUT_FILE = 1, RUN_INPUT_PIPE = 2 };
enum run_why { RUN_CANCELLED = 1, RUN_TIMED_OUT = 2 };
#define CODEC_STATES (((2u << CODEC_STATE_MAX) - 1) & ~1u) /* of Filter.states */

struct msg_hello {
    uint32_t version_min, version_max;
    uint64_t features;
    struct span directory, program;
    uint32_t window;
    struct span user; /* empty: the client's own; needs FEATURE_USER */
};
struct msg_welcome {
    uint32_t version;
    uint64_t features;
    struct span program;
    uint32_t window;
};
/* The rows of submit-options.h as members. */
#define MSG_TEXT(kind, name, ...)   struct span name;
#define MSG_NUMBER(kind, name, ...) SUBMIT_TYPE_##kind name;
#define MSG_LIST(kind, name, ...)   MSG_LIST_##kind(name)
#define MSG_LIST_IDS(name)          struct span name; /* 16 bytes each */
#define MSG_LIST_TAGS(name)         struct span name; /* names with commas between */
/* the arguments one behind the other, each ending in NUL; size counts the NULs */
#define MSG_LIST_ARGS(name)                                                                                            \
    struct span name;                                                                                                  \
    uint32_t argc;
#define MSG_ID(kind, name, ...) MSG_ID_##kind(name)
#define MSG_ID_ID(name)         uint8_t name[16];
#define MSG_ID_IDS(name)        struct span name;

/* input_offset and input_size are together at most INT64_MAX, and so are output_offset and output_size. */
struct msg_submit {
    SUBMIT_FIELDS(MSG_TEXT, MSG_NUMBER, MSG_LIST, MSG_NUMBER)
};
struct msg_id {
    bool has_id;
    uint8_t id[16];
    uint32_t flags, item, items;
};
struct msg_chunk {
    uint64_t offset;
    bool last;
};
struct msg_credit {
    uint64_t bytes;
    uint32_t item;
};
struct msg_progress {
    uint64_t done, total;
    uint32_t item;
};
struct msg_message {
    uint32_t level;
    struct span text;
    uint32_t item;
};
struct msg_job {
    JOB_FIELDS(MSG_TEXT, MSG_NUMBER, MSG_ID)
};
struct msg_finished {
    uint8_t id[16];
    struct span plugin, function, worker;
    uint32_t attempts, uid;
    uint64_t queued_usec, run_usec, cpu_usec, submitted_usec, placed;
};
struct msg_error {
    uint32_t code;
    struct span text;
    uint64_t retry_usec;
    bool accepted;
};
struct msg_plugins {
    struct span name;
    bool runners;
};
struct msg_function {
    struct span name, help;
    uint64_t flags;
    uint32_t crashes, quarantine;
    uint64_t quarantine_usec;
    struct span why;
};
struct msg_release {
    struct span name, function;
};
struct msg_reload {
    struct span name;
};
struct msg_reloaded {
    uint32_t outcome, uid, code;
    struct span name, path, version, build, old_version, old_build, error;
};
struct msg_runner {
    uint32_t uid, pid, credit, running;
    uint64_t since_usec;
    bool leaving;
};
struct msg_plugin {
    struct span name, version, help, path, error;
    const struct msg_function *functions;
    size_t n_functions;
    uint32_t apart;
    bool runs;
    uint64_t waiting;
    const struct msg_runner *runners;
    size_t n_runners;
    struct span build;
};
struct msg_counter {
    struct span name;
    uint64_t value;
};
struct msg_stats {
    const struct msg_counter *counters;
    size_t n_counters;
};
struct msg_functions {
    struct span plugin, function;
    bool by_uid;
    uint32_t uid;
};
struct msg_histogram {
    uint32_t kind; /* enum histogram_kind */
    uint64_t sum, max;
    uint32_t buckets;
};
struct msg_function_stats {
    struct span plugin, function;
    uint32_t uid;
    uint64_t succeeded, failed, cancelled, timed_out, crashed, interrupted, refused, direct;
    const struct msg_histogram *histograms;
    size_t n_histograms;
    uint32_t crashes, quarantine;
    uint64_t quarantine_usec;
    struct span why;
};
struct msg_person {
    struct span name;
};
struct msg_actions {
    uint32_t limit;
};
struct msg_action {
    uint64_t time_usec;
    uint32_t uid, code;
    struct span person, verb, object;
};
struct msg_workers {
    uint32_t set;
};
struct msg_executor {
    uint32_t executor, uid, workers, error;
    uint64_t lost;
    uint32_t pid, descriptors;
    uint64_t age_usec, memory;
};
struct msg_worker {
    uint32_t executor, worker, kind, cpu;
    const struct msg_counter *counters;
    size_t n_counters;
};
struct msg_trace {
    uint32_t action, kind, rate;
    struct msg_id id;
};
struct msg_gate {
    uint32_t action;
    struct span plugin, function;
    uint32_t limit;
    struct span tag;
};
struct msg_limit {
    uint32_t flags, uid;
    struct span key, value;
    uint32_t by;
};
struct msg_gate_state {
    struct span plugin, function;
    uint32_t flags, limit;
    uint64_t running, waiting;
    struct span tag;
};
struct msg_dead {
    uint32_t action;
    struct msg_id id;
};
struct msg_filter {
    uint32_t states;
    bool by_uid;
    uint32_t uid;
    struct span plugin, function;
    uint64_t newer_usec, older_usec;
    uint32_t limit;
    struct span batch; /* an id, or empty */
};
struct msg_count {
    uint64_t n;
};
struct msg_schedule {
    uint32_t action;
    struct span name, calendar;
    bool persistent;
    struct msg_submit job; /* without key, delay and time; flags: SUBMIT_DURABLE, SUBMIT_WAIT_RUNNER */
};
struct msg_scheduled {
    struct span name, calendar, plugin, function, error;
    uint32_t uid, flags, state, exit;
    uint64_t next_usec, ran_usec, runs, skipped;
    struct msg_id id;
};
struct msg_open {
    uint32_t serial;
    struct span path;
    uint32_t item;
};
struct msg_lane_bind {
    uint32_t lane;
    struct span plugin, function;
};
struct msg_lane_bound {
    uint32_t number, flags;
};
#define LANE_BOUND_IDEMPOTENT 1u
#define CODEC_LANE_NUMBERS    64u /* of functions in a lane */
struct msg_opened {
    uint32_t serial, error, item;
};
struct msg_batch {
    uint32_t action;
    struct msg_id id;
    uint32_t flags;
};
struct msg_batch_state {
    uint8_t id[16];
    uint32_t uid, flags, exit;
    uint64_t total, queued, running, done, failed, submitted_usec;
};
struct msg_offer {
    struct span name, version, help;
    const struct msg_function *functions;
    size_t n_functions;
    uint32_t credit;
};
struct msg_run {
    uint64_t run;
    uint8_t id[16];
    uint32_t uid, attempt;
    struct span directory, user; /* user: only between machines */
    /* function, args, key, traceparent, timeout_usec, priority, flags (enum run_flags), places of the input and output */
    struct msg_submit job;
};
struct msg_run_chunk {
    uint64_t run, offset;
    bool last;
};
struct msg_run_ref {
    uint64_t run;
    uint32_t why;
};
struct msg_run_credit {
    uint64_t run, bytes;
};
struct msg_run_message {
    uint64_t run;
    uint32_t level;
    struct span text;
};
struct msg_run_progress {
    uint64_t run, done, total;
};
struct msg_run_open {
    uint64_t run;
    uint32_t serial;
    struct span path;
};
struct msg_run_opened {
    uint64_t run;
    uint32_t serial, error;
};
struct msg_run_end {
    uint64_t run;
    uint32_t status;
    struct span error, text;
    uint64_t cpu_usec, placed;
    uint32_t state;
};
struct msg_ends {
    uint8_t id[16];
    struct span plugin, function;
    uint32_t uid, records;
    uint64_t submitted_usec;
    bool last;
};

/* A decoded message: the member that goes with the frame's type (see frame.h). */
struct msg {
    uint16_t type;
    union {
        struct msg_hello hello;
        struct msg_welcome welcome;
        struct msg_submit submit; /* SUBMIT, ARRAY */
        struct msg_id id;         /* CANCEL, AWAIT, STATUS, ACCEPTED */
        struct msg_chunk chunk;   /* INPUT, OUTPUT, PIECE */
        struct msg_credit credit;
        struct msg_progress progress;
        struct msg_message message;
        struct msg_job job; /* JOB, DONE */
        struct msg_finished finished;
        struct msg_error error; /* ERROR, GOODBYE, LANE_LOST */
        struct msg_plugins plugins;
        struct msg_release release;
        struct msg_reload reload;
        struct msg_reloaded reloaded;
        struct msg_plugin plugin;
        struct msg_stats stats;
        struct msg_functions functions;
        struct msg_function_stats function_stats;
        struct msg_person person;
        struct msg_actions actions;
        struct msg_action action;
        struct msg_open open;
        struct msg_opened opened;
        struct msg_workers workers;
        struct msg_executor executor;
        struct msg_worker worker;
        struct msg_trace trace;
        struct msg_gate gate;
        struct msg_gate_state gate_state;
        struct msg_limit limit;
        struct msg_dead dead;
        struct msg_filter filter; /* LIST_WHERE, CANCEL_WHERE */
        struct msg_count count;
        struct msg_schedule schedule;
        struct msg_scheduled scheduled;
        struct msg_lane_bind lane_bind;
        struct msg_lane_bound lane_bound;
        struct msg_batch batch;
        struct msg_batch_state batch_state;
        struct msg_ends ends;
        struct msg_offer offer;
        struct msg_run run;
        struct msg_run_chunk run_chunk; /* RUN_INPUT, RUN_OUTPUT */
        struct msg_run_ref run_ref;     /* RUN_STOP, RUN_PING, RUN_PONG */
        struct msg_run_credit run_credit;
        struct msg_run_message run_message;
        struct msg_run_progress run_progress;
        struct msg_run_open run_open;
        struct msg_run_opened run_opened;
        struct msg_run_end run_end;
    };
};

/* What a tag is: 1 to CODEC_TAG_MAX - 1 of letters, digits, `.`, `_`, `-`. Here for wsctl, which links no codec.
 * [any] */
static inline bool codec_is_tag(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= 'A' && text[i] <= 'Z') &&
            !(text[i] >= '0' && text[i] <= '9') && text[i] != '.' && text[i] != '_' && text[i] != '-')
            return false;
    return size > 0 && size < CODEC_TAG_MAX;
}

/* Whether it is a traceparent of W3C Trace Context in version 00, in which neither id is all zero. Here for wsctl, too.
 * [any] */
static inline bool codec_is_traceparent(const char *text, size_t size)
{
    static const char form[] = "00-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-PPPPPPPPPPPPPPPP-FF";
    bool trace = false, parent = false;

    if (size != sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool is_hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');

        if (form[i] == 'T' || form[i] == 'P' || form[i] == 'F' ? !is_hex : text[i] != form[i])
            return false;
        trace |= form[i] == 'T' && text[i] != '0';
        parent |= form[i] == 'P' && text[i] != '0';
    }
    return trace && parent;
}
#define TRACEPARENT_WORDS                                                                                              \
    "not a traceparent: 00-, 32 hexadecimal digits, -, 16 of them, -, 2 of them; no id is all zero"

/* Without a NUL inside, and with room for one behind it in so many bytes, as the limits above are. [any] */
static inline bool codec_is_text(struct span s, size_t room)
{
    return s.size < room && (s.size == 0 || !memchr(s.data, 0, s.size));
}
