/* SPDX-License-Identifier: Apache-2.0
 *
 * submit-options.h: the options of a submission: one row each of what is sent, of what a job keeps, of what is told.
 *
 * Three tables. The code that carries a value unchanged is made of them. That is the plain structs and the codec
 * (proto), the client library, struct job_request, the job, its row in the store, and the description of a job. What an
 * option does is written by hand, in the file that owns it. CONTRIBUTING.md lists the files that a new one touches.
 *
 * The letter before a row says what it is: T a text, N a number, L a list, O a field of its own, which the code of its
 * feature fills in. A user of a table gives a macro for each letter; the macro takes the columns:
 *
 *   #define MEMBER(kind, name, ...) const char *name;
 *   struct texts { SUBMIT_FIELDS(MEMBER, SUBMIT_NOTHING, SUBMIT_NOTHING, SUBMIT_NOTHING) };
 */
#pragma once

/* Limits of them; those of texts count the NUL. */
#define CODEC_PRIORITY_MAX    100
#define CODEC_KEY_MAX         256u
#define CODEC_TRACEPARENT_MAX 56u
#define CODEC_RETRIES_MAX     1000u
#define CODEC_RETRY_MAX       86400000000u                             /* microseconds of a first pause */
#define CODEC_RETRY_ON        (1u << 6 | 1u << 8 | 1u << 9 | 1u << 10) /* failed, timed-out, crashed, interrupted */
#define CODEC_SPAN_MAX        315576000000000u             /* microseconds of a delay, or in the queue: ten years */
#define CODEC_AT_MAX          253402300799999999u          /* the last microsecond of the year 9999 */
#define CODEC_AFTER_MAX       1024u                        /* jobs that one may wait for */
#define CODEC_TAG_MAX         64u                          /* of a tag */
#define CODEC_TAGS            3u                           /* of a job */
#define CODEC_TAGS_MAX        (CODEC_TAGS * CODEC_TAG_MAX) /* all of them with commas between */

/* Makes nothing of a row. */
#define SUBMIT_NOTHING(...)

/* Kinds of numbers. INT: from -most to most; BITS: of most; STATE: 1 to most; others: up to most. */
#define SUBMIT_TYPE_U32   uint32_t
#define SUBMIT_TYPE_U64   uint64_t
#define SUBMIT_TYPE_INT   int32_t
#define SUBMIT_TYPE_BITS  uint32_t
#define SUBMIT_TYPE_STATE uint32_t
#define SUBMIT_TYPE_BOOL  bool

/* The fields of Submit, in the order of their numbers (wsd.proto). Each is carried from struct wsd_submit to struct
 * msg_submit, and from there to struct job_request, by its name:
 *   T  const char * (NULL or "": none), struct span, const char *
 *   N  the number in all three
 *   L  IDS: struct wsd_id * and n_NAME, struct span, uint8_t * and n_NAME; most is bytes.
 *      TAGS: char ** and n_NAME, struct span, const char *, with commas between; most is names.
 *      ARGS: char ** and n_NAME, struct span and argc, const char *, args_size and argc
 *   O  is in struct msg_submit only
 * problem: the name in errors. needs: a wsd without this FEATURE_... would ignore it. schedules: whether one has it;
 * then it is a field of Schedule, too, in the same order. */
/* clang-format off */
#define SUBMIT_FIELDS(T, N, L, O)                                                                                   \
    /* kind name           most                   problem              needs          schedules */                  \
    T(TEXT, plugin,        CODEC_PATH_MAX,        "plugin",            0,             YES)                          \
    T(TEXT, function,      CODEC_NAME_MAX,        "function",          0,             YES)                          \
    L(ARGS, args,          0,                     "args",              0,             NO)  /* it has, as field 3 */ \
    N(U64,  timeout_usec,  ANY,                   "timeout_usec",      0,             YES)                          \
    N(INT,  priority,      CODEC_PRIORITY_MAX,    "priority",          0,             YES)                          \
    O(BITS, flags,         SUBMIT_FLAGS_ALL,      "flags",             0,             YES)                          \
    T(TEXT, key,           CODEC_KEY_MAX,         "key",               FEATURE_STORE, NO)                           \
    N(U32,  retries,       CODEC_RETRIES_MAX,     "retries",           FEATURE_STORE, YES)                          \
    N(U64,  retry_usec,    CODEC_RETRY_MAX,       "retries",           0,             YES) /* 0: the default */     \
    N(BITS, retry_on,      CODEC_RETRY_ON,        "retry_on",          0,             YES) /* 0: the default */     \
    O(U32,  input_from,    INPUT_PIPE,            "input",             0,             NO)  /* enum input_from */    \
    O(U64,  input_offset,  ANY,                   "input_offset",      0,             NO)                           \
    O(U64,  input_size,    ANY,                   "input_size",        0,             NO)                           \
    O(U32,  arena,         ANY,                   "arena",             0,             NO)  /* its tag; 0: none */   \
    O(U64,  output_offset, ANY,                   "output_offset",     0,             NO)  /* in the arena */       \
    O(U64,  output_size,   ANY,                   "output_size",       0,             NO)                           \
    N(U64,  delay_usec,    CODEC_SPAN_MAX,        "delay",             FEATURE_TIME,  NO)  /* 0: at once */         \
    N(U64,  at_usec,       CODEC_AT_MAX,          "time",              FEATURE_TIME,  NO)  /* CLOCK_REALTIME */     \
    N(U64,  queue_usec,    CODEC_SPAN_MAX,        "time in the queue", FEATURE_TIME,  YES) /* at most; 0: any */    \
    L(IDS,  after,         CODEC_AFTER_MAX * 16,  "after",             FEATURE_ORDER, NO)  /* on success */         \
    L(IDS,  after_any,     CODEC_AFTER_MAX * 16,  "after",             FEATURE_ORDER, NO)  /* on any end */         \
    L(TAGS, tags,          CODEC_TAGS,            "tags",              FEATURE_ORDER, NO)                           \
    T(TEXT, traceparent,   CODEC_TRACEPARENT_MAX, "traceparent",       0,             YES)                          \
    O(U32,  output_to,     OUTPUT_EITHER,         "output",            0,             NO)  /* enum output_to */   \
    O(U32,  batch,         ANY,                   "batch",             0,             NO)  /* its tag; 0: none */   \
    O(U32,  items,         ANY,                   "items",             0,             NO)  /* of an ARRAY */
/* clang-format on */

/* Texts that a job keeps as they were given, on disk if it is durable: in struct job_more, in struct store_row.
 * place: in the store's record of a job (store/record.c). A new one takes the next place; none is used again.
 * told: whether the description of a job has it. Then it is a field of Job, too: a row of JOB_FIELDS. */
/* clang-format off */
#define KEPT_OPTIONS(X)          \
    /* name        place told */ \
    X(tags,        15,   YES)    \
    X(traceparent, 26,   NO)
/* clang-format on */

/* The fields of Job, in the order of their numbers. Each is carried from struct job_info to struct msg_job, and from
 * there to struct wsd_job_info, by its name:
 *   T  const char * ("": none), struct span, const char *. LINE: only its first line is sent. TAGS: most is names
 *   N  the number in all three
 *   O  is in struct msg_job only; most of IDS is bytes
 * finished: whether FINISHED has it, too. A job of which there is more to tell ends with DONE. Those that may not read
 * a job are told no text but these. */
/* clang-format off */
#define JOB_FIELDS(T, N, O)                                                                          \
    /* kind  name            most             problem           finished */                          \
    O(ID,    id,             16,              "id",             YES)                                 \
    T(TEXT,  plugin,         CODEC_PATH_MAX,  "plugin",         YES)                                 \
    T(TEXT,  function,       CODEC_NAME_MAX,  "function",       YES)                                 \
    N(STATE, state,          CODEC_STATE_MAX, "state",          YES) /* of one that has succeeded */ \
    N(U32,   exit,           EXIT_MAX,        "exit",           NO)                                  \
    T(LINE,  error,          CODEC_TEXT_MAX,  "error",          NO)                                  \
    T(LINE,  status,         CODEC_TEXT_MAX,  "status",         NO)                                  \
    T(TEXT,  worker,         CODEC_NAME_MAX,  "worker",         YES)                                 \
    N(U32,   attempts,       ANY,             "attempts",       YES)                                 \
    N(U32,   uid,            ANY,             "uid",            YES)                                 \
    N(U64,   queued_usec,    ANY,             "queued_usec",    YES)                                 \
    N(U64,   run_usec,       ANY,             "run_usec",       YES)                                 \
    N(U64,   cpu_usec,       ANY,             "cpu_usec",       YES)                                 \
    N(U64,   submitted_usec, ANY,             "submitted_usec", YES)                                 \
    N(U64,   done,           ANY,             "done",           NO)                                  \
    N(U64,   total,          ANY,             "total",          NO)                                  \
    T(TEXT,  backtrace,      CODEC_TRACE_MAX, "backtrace",      NO)                                  \
    N(BOOL,  durable,        ANY,             "durable",        NO)                                  \
    N(BOOL,  dead,           ANY,             "dead",           NO)                                  \
    T(TEXT,  key,            CODEC_KEY_MAX,   "key",            NO)                                  \
    N(U32,   retries,        ANY,             "retries",        NO)                                  \
    N(U64,   due_usec,       ANY,             "due_usec",       NO)                                  \
    N(U64,   placed,         ANY,             "placed",         YES)                                 \
    N(U32,   waits_for,      ANY,             "waits_for",      NO)                                  \
    T(TAGS,  tags,           CODEC_TAGS,      "tags",           NO)                                  \
    O(IDS,   batch,          16,              "batch",          NO)  /* the id of one */             \
    O(IDS,   waits_on,       CODEC_NEAR * 16, "waits_on",       NO)                                  \
    O(IDS,   awaited_by,     CODEC_NEAR * 16, "awaited_by",     NO)
/* clang-format on */
