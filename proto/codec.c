/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c: protobuf bytes <-> the plain structs of messages.h.
 * Owns the arena that a decoded message lives in; one thread a codec.
 * Keeps: a message that comes out of codec_decode() or goes into the bytes of codec_encode() has passed the same
 * limits.
 * Does not know sockets, the order of messages, or what names may contain. */
#include "proto/codec.h"
#include "proto/records.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/fields.h"
#include "proto/wsd.pb-c.h"

#define ANY        UINT64_MAX
#define OFFSET_MAX ((uint64_t)INT64_MAX) /* of chunks: an offset fits off_t */
#define EXIT_MAX   255u
#define ERRNO_MAX  4095u
#define LEVEL_MAX  7u
#define IDS_MAX    (CODEC_AFTER_MAX * 16u) /* of after and after_any together */

/* What a frame holds finds room: its bytes with NULs; arguments, or lists. */
static_assert(CODEC_ARENA >= FRAME_MAX + CODEC_FUNCTIONS * sizeof(struct msg_function) +
                                 CODEC_RUNNERS * sizeof(struct msg_runner) + 64,
              "functions and runners");
static_assert(CODEC_ARENA >= FRAME_MAX + CODEC_ARGS_SIZE + CODEC_COUNTERS * sizeof(struct msg_counter) + 64,
              "counters");
static_assert(FRAME_PAYLOAD_MAX >= CODEC_HISTOGRAM_KIND * (CODEC_BUCKETS * CODEC_BUCKET_SIZE + 64) + CODEC_PATH_MAX +
                                       CODEC_NAME_MAX + 256,
              "all buckets of a function");

struct codec {
    struct arena arena;
    char error[160];
};

/* --- the messages: fields in the order of their numbers, and their limits ----------------------------------------- */

#define FIELD(t, m, k, s, l, h, p)                                                                                     \
    {                                                                                                                  \
        .name = #m, .problem = (p), .least = (l), .most = (h), .offset = offsetof(struct msg_##t, m), .size = (s),     \
        .kind = (k)                                                                                                    \
    }
#define WIDTH(t, m)          sizeof(((struct msg_##t *)0)->m)
#define NUMBER(t, m)         FIELD(t, m, FIELD_NUMBER, WIDTH(t, m), 0, ANY, #m)
#define RANGE(t, m, l, h, p) FIELD(t, m, FIELD_NUMBER, WIDTH(t, m), l, h, p)
#define FLAGS(t, m, h)       FIELD(t, m, FIELD_FLAGS, WIDTH(t, m), 0, h, #m)
#define SIGNED(t, m, h)      FIELD(t, m, FIELD_SIGNED, WIDTH(t, m), 0, h, #m)
#define TEXT(t, m, h)        FIELD(t, m, FIELD_TEXT, 0, 0, h, #m)
#define NAMED(t, m, h)       FIELD(t, m, FIELD_TEXT, 0, 1, h, #m)
#define TAGS(t, m, h)        FIELD(t, m, FIELD_TAGS, 0, 0, h, #m)
#define IDS(t, m, h, p)      FIELD(t, m, FIELD_IDS, 0, 0, h, p)
#define ID(t)                FIELD(t, id, FIELD_ID, 0, 0, 0, "id")
#define MAYBE_ID(t, m)       FIELD(t, m, FIELD_MAYBE_ID, 0, 0, 0, "id")
#define SELF_ID                                                                                                        \
    {                                                                                                                  \
        .name = "id", .problem = "id", .kind = FIELD_MAYBE_ID                                                          \
    } /* in struct msg_id itself */
#define ARGS(t, m)   FIELD(t, m, FIELD_ARGS, 0, 0, 0, #m)
#define ABSENT(t, m) FIELD(t, m, FIELD_ABSENT, 0, 0, 0, #m)
#define LIST(t, m, h, o)                                                                                               \
    {                                                                                                                  \
        .name = #m, .problem = "number of " #m, .most = (h), .of = &(o), .offset = offsetof(struct msg_##t, m),        \
        .kind = FIELD_LIST                                                                                             \
    }
/* A LIST's two members, as fields.c has them. */
#define LIST_OF(t, m)                                                                                                  \
    static_assert(offsetof(struct msg_##t, n_##m) == offsetof(struct msg_##t, m) + sizeof(void *) &&                   \
                      WIDTH(t, n_##m) == sizeof(size_t),                                                               \
                  #m)

#define MESSAGE(pb, t, ...)                                                                                            \
    static const struct field pb##_fields[] = {__VA_ARGS__};                                                           \
    static const struct message pb = {&wsd__pb__##pb##__descriptor, pb##_fields,                                       \
                                      sizeof(pb##_fields) / sizeof(struct field), sizeof(struct msg_##t)}

#define NAME(t, m) TEXT(t, m, CODEC_NAME_MAX)
#define PATH(t, m) TEXT(t, m, CODEC_PATH_MAX)
#define WORD(t, m) TEXT(t, m, CODEC_TEXT_MAX)

/* A row of submit-options.h as a field. `problem` is that of numbers and ids; others have their own above. */
#define OF_TEXT(t, m, most, problem)  TEXT(t, m, most),
#define OF_LINE(t, m, most, problem)  TEXT(t, m, most),
#define OF_TAGS(t, m, most, problem)  TAGS(t, m, most),
#define OF_IDS(t, m, most, problem)   IDS(t, m, most, problem),
#define OF_ID(t, m, most, problem)    ID(t),
#define OF_ARGS(t, m, most, problem)  ARGS(t, m),
#define OF_U32(t, m, most, problem)   RANGE(t, m, 0, most, problem),
#define OF_U64(t, m, most, problem)   RANGE(t, m, 0, most, problem),
#define OF_BOOL(t, m, most, problem)  RANGE(t, m, 0, most, problem),
#define OF_STATE(t, m, most, problem) RANGE(t, m, 1, most, problem),
#define OF_INT(t, m, most, problem)   SIGNED(t, m, most),
#define OF_BITS(t, m, most, problem)  FLAGS(t, m, most),

#define OF_SUBMIT(kind, name, most, problem, ...) OF_##kind(submit, name, most, problem)
#define OF_JOB(kind, name, most, problem, ...)    OF_##kind(job, name, most, problem)

/* Those that a schedule has; and the spans of the others. */
#define OF_SCHEDULE(kind, name, most, problem, needs, schedules) OF_SCHEDULE_##schedules(kind, job.name, most, problem)
#define OF_SCHEDULE_YES(kind, m, most, problem)                  OF_##kind(schedule, m, most, problem)
#define OF_SCHEDULE_NO(kind, m, most, problem)
#define ABSENT_SPAN(kind, name, most, problem, needs, schedules) ABSENT_##schedules(kind, job.name)
#define ABSENT_YES(kind, m)
#define ABSENT_NO(kind, m) ABSENT_##kind(m)
#define ABSENT_TEXT(m)     ABSENT(schedule, m),
#define ABSENT_TAGS(m)     ABSENT(schedule, m),
#define ABSENT_IDS(m)      ABSENT(schedule, m),
#define ABSENT_ARGS(m)

MESSAGE(hello, hello, NUMBER(hello, version_min), NUMBER(hello, version_max), NUMBER(hello, features),
        PATH(hello, directory), WORD(hello, program), NUMBER(hello, window), WORD(hello, user));
MESSAGE(welcome, welcome, NUMBER(welcome, version), NUMBER(welcome, features), WORD(welcome, program),
        NUMBER(welcome, window));
MESSAGE(submit, submit, SUBMIT_FIELDS(OF_SUBMIT, OF_SUBMIT, OF_SUBMIT, OF_SUBMIT));
MESSAGE(batch, batch, RANGE(batch, action, BATCH_OPEN, BATCH_CANCEL, "action"), MAYBE_ID(batch, id),
        NUMBER(batch, flags));
MESSAGE(batch_state, batch_state, ID(batch_state), NUMBER(batch_state, uid), NUMBER(batch_state, flags),
        NUMBER(batch_state, total), NUMBER(batch_state, queued), NUMBER(batch_state, running),
        NUMBER(batch_state, done), NUMBER(batch_state, failed), RANGE(batch_state, exit, 0, EXIT_MAX, "exit"),
        NUMBER(batch_state, submitted_usec));
MESSAGE(ends, ends, ID(ends), PATH(ends, plugin), NAME(ends, function), NUMBER(ends, uid), NUMBER(ends, submitted_usec),
        RANGE(ends, records, 0, FRAME_MAX / CODEC_END_SIZE, "number of records"), NUMBER(ends, last));
MESSAGE(accepted, id, SELF_ID, NUMBER(id, items));
MESSAGE(chunk, chunk, NUMBER(chunk, offset), NUMBER(chunk, last));
MESSAGE(credit, credit, RANGE(credit, bytes, 0, UINT32_MAX, "bytes"), NUMBER(credit, item));
MESSAGE(progress, progress, NUMBER(progress, done), NUMBER(progress, total), NUMBER(progress, item));
MESSAGE(message, message, RANGE(message, level, 0, LEVEL_MAX, "level"), WORD(message, text), NUMBER(message, item));
MESSAGE(job, job, JOB_FIELDS(OF_JOB, OF_JOB, OF_JOB));
MESSAGE(finished, finished, ID(finished), PATH(finished, plugin), NAME(finished, function), NAME(finished, worker),
        NUMBER(finished, attempts), NUMBER(finished, uid), NUMBER(finished, queued_usec), NUMBER(finished, run_usec),
        NUMBER(finished, cpu_usec), NUMBER(finished, submitted_usec), NUMBER(finished, placed));
MESSAGE(error, error, RANGE(error, code, 0, EXIT_MAX, "code"), WORD(error, text), NUMBER(error, retry_usec),
        NUMBER(error, accepted));
MESSAGE(id, id, SELF_ID, NUMBER(id, item), NUMBER(id, flags));
MESSAGE(filter, filter, FLAGS(filter, states, CODEC_STATES), NUMBER(filter, by_uid), NUMBER(filter, uid),
        PATH(filter, plugin), NAME(filter, function), NUMBER(filter, newer_usec), NUMBER(filter, older_usec),
        NUMBER(filter, limit), IDS(filter, batch, 16, "batch"));
MESSAGE(count, count, NUMBER(count, n));
MESSAGE(plugins, plugins, PATH(plugins, name), NUMBER(plugins, runners));
MESSAGE(runner, runner, NUMBER(runner, uid), NUMBER(runner, pid), RANGE(runner, credit, 0, CODEC_CREDIT_MAX, "credit"),
        NUMBER(runner, running), NUMBER(runner, since_usec), NUMBER(runner, leaving));
MESSAGE(function, function, NAME(function, name), WORD(function, help), NUMBER(function, flags),
        NUMBER(function, crashes), WORD(function, why), RANGE(function, quarantine, 0, CODEC_QUARANTINE, "function"),
        NUMBER(function, quarantine_usec));
MESSAGE(release, release, NAMED(release, name, CODEC_PATH_MAX), NAME(release, function));
MESSAGE(reload, reload, NAMED(reload, name, CODEC_PATH_MAX));
MESSAGE(reloaded, reloaded, RANGE(reloaded, outcome, 1, CODEC_RELOADED, "outcome"), NUMBER(reloaded, uid),
        NAME(reloaded, name), PATH(reloaded, path), NAME(reloaded, version), TEXT(reloaded, build, CODEC_BUILD_MAX),
        NAME(reloaded, old_version), TEXT(reloaded, old_build, CODEC_BUILD_MAX), WORD(reloaded, error),
        RANGE(reloaded, code, 0, EXIT_MAX, "outcome"));
MESSAGE(gate, gate, RANGE(gate, action, GATE_PAUSE, GATE_LIST, "action"), PATH(gate, plugin), NAME(gate, function),
        NUMBER(gate, limit), TAGS(gate, tag, 1));
MESSAGE(gate_state, gate_state, PATH(gate_state, plugin), NAME(gate_state, function), NUMBER(gate_state, flags),
        NUMBER(gate_state, limit), NUMBER(gate_state, running), NUMBER(gate_state, waiting), TAGS(gate_state, tag, 1));
MESSAGE(limit, limit, FLAGS(limit, flags, LIMIT_OWN | LIMIT_MOVED), NUMBER(limit, uid), NAME(limit, key),
        WORD(limit, value), NUMBER(limit, by));
MESSAGE(plugin, plugin, NAME(plugin, name), WORD(plugin, version), WORD(plugin, help), PATH(plugin, path),
        WORD(plugin, error), LIST(plugin, functions, CODEC_FUNCTIONS, function),
        RANGE(plugin, apart, 0, CODEC_APART, "apart"), NUMBER(plugin, runs), NUMBER(plugin, waiting),
        LIST(plugin, runners, CODEC_RUNNERS, runner), TEXT(plugin, build, CODEC_BUILD_MAX));
MESSAGE(counter, counter, NAME(counter, name), NUMBER(counter, value));
MESSAGE(stats, stats, LIST(stats, counters, CODEC_COUNTERS, counter));
MESSAGE(functions, functions, PATH(functions, plugin), NAME(functions, function), NUMBER(functions, by_uid),
        NUMBER(functions, uid));
MESSAGE(histogram, histogram, RANGE(histogram, kind, 1, CODEC_HISTOGRAM_KIND, "kind of a histogram"),
        NUMBER(histogram, sum), NUMBER(histogram, max),
        RANGE(histogram, buckets, 0, CODEC_BUCKETS, "number of buckets"));
MESSAGE(function_stats, function_stats, PATH(function_stats, plugin), NAME(function_stats, function),
        NUMBER(function_stats, uid), NUMBER(function_stats, succeeded), NUMBER(function_stats, failed),
        NUMBER(function_stats, cancelled), NUMBER(function_stats, timed_out), NUMBER(function_stats, crashed),
        NUMBER(function_stats, interrupted), NUMBER(function_stats, refused), NUMBER(function_stats, direct),
        LIST(function_stats, histograms, CODEC_HISTOGRAM_KIND, histogram), NUMBER(function_stats, crashes),
        WORD(function_stats, why), RANGE(function_stats, quarantine, 0, CODEC_QUARANTINE, "quarantine"),
        NUMBER(function_stats, quarantine_usec));
MESSAGE(person, person, TEXT(person, name, CODEC_PERSON_MAX));
MESSAGE(actions, actions, NUMBER(actions, limit));
MESSAGE(action, action, NUMBER(action, time_usec), NUMBER(action, uid), TEXT(action, person, CODEC_PERSON_MAX),
        NAME(action, verb), WORD(action, object), RANGE(action, code, 0, EXIT_MAX, "code"));
MESSAGE(open, open, NUMBER(open, serial), NAMED(open, path, CODEC_PATH_MAX), NUMBER(open, item));
MESSAGE(opened, opened, NUMBER(opened, serial), RANGE(opened, error, 0, ERRNO_MAX, "error"), NUMBER(opened, item));
MESSAGE(workers, workers, RANGE(workers, set, 0, CODEC_WORKERS_MAX, "set"));
MESSAGE(executor, executor, NUMBER(executor, executor), NUMBER(executor, uid), NUMBER(executor, workers),
        RANGE(executor, error, 0, ERRNO_MAX, "error"), NUMBER(executor, lost), NUMBER(executor, pid),
        NUMBER(executor, age_usec), NUMBER(executor, memory), NUMBER(executor, descriptors));
MESSAGE(worker, worker, NUMBER(worker, executor), NUMBER(worker, worker),
        RANGE(worker, kind, 1, CODEC_KIND_MAX, "kind"), NUMBER(worker, cpu),
        LIST(worker, counters, CODEC_COUNTERS, counter));
MESSAGE(trace, trace, RANGE(trace, action, TRACE_ACTION_START, TRACE_ACTION_STACK, "action"),
        RANGE(trace, kind, 0, TRACE_OF_STACKS, "kind of a trace"), RANGE(trace, rate, 0, CODEC_RATE_MAX, "rate"),
        MAYBE_ID(trace, id));
MESSAGE(dead, dead, RANGE(dead, action, DEAD_LIST, DEAD_DROP, "action"), MAYBE_ID(dead, id));
MESSAGE(schedule, schedule, RANGE(schedule, action, SCHEDULE_ADD, SCHEDULE_RUN, "action"), NAME(schedule, name),
        ARGS(schedule, job.args), TEXT(schedule, calendar, CODEC_CALENDAR_MAX), NUMBER(schedule, persistent),
        SUBMIT_FIELDS(OF_SCHEDULE, OF_SCHEDULE, OF_SCHEDULE, OF_SCHEDULE)
            SUBMIT_FIELDS(ABSENT_SPAN, SUBMIT_NOTHING, ABSENT_SPAN, SUBMIT_NOTHING));
MESSAGE(scheduled, scheduled, NAME(scheduled, name), TEXT(scheduled, calendar, CODEC_CALENDAR_MAX),
        PATH(scheduled, plugin), NAME(scheduled, function), NUMBER(scheduled, uid), NUMBER(scheduled, flags),
        NUMBER(scheduled, next_usec), NUMBER(scheduled, ran_usec), NUMBER(scheduled, runs), NUMBER(scheduled, skipped),
        MAYBE_ID(scheduled, id), RANGE(scheduled, state, 0, CODEC_STATE_MAX, "state"),
        RANGE(scheduled, exit, 0, EXIT_MAX, "exit"), WORD(scheduled, error));
MESSAGE(lane_bind, lane_bind, NUMBER(lane_bind, lane), NAMED(lane_bind, plugin, CODEC_PATH_MAX),
        NAME(lane_bind, function));
MESSAGE(lane_bound, lane_bound, RANGE(lane_bound, number, 0, CODEC_LANE_NUMBERS - 1, "number"),
        NUMBER(lane_bound, flags));
MESSAGE(offer, offer, NAMED(offer, name, CODEC_NAME_MAX), NAME(offer, version), WORD(offer, help),
        LIST(offer, functions, CODEC_FUNCTIONS, function), RANGE(offer, credit, 1, CODEC_CREDIT_MAX, "credit"));
MESSAGE(run, run, NUMBER(run, run), ID(run), TEXT(run, job.function, CODEC_PLACE_MAX), ARGS(run, job.args),
        NUMBER(run, job.timeout_usec), SIGNED(run, job.priority, CODEC_PRIORITY_MAX),
        FLAGS(run, job.flags, RUN_ASKS | RUN_MORE), NUMBER(run, uid), NUMBER(run, attempt), PATH(run, directory),
        RANGE(run, job.input_from, 0, RUN_INPUT_PIPE, "input"), NUMBER(run, job.input_offset),
        NUMBER(run, job.input_size), NUMBER(run, job.output_offset), NUMBER(run, job.output_size), WORD(run, user),
        TEXT(run, job.key, CODEC_KEY_MAX), TEXT(run, job.traceparent, CODEC_TRACEPARENT_MAX));
MESSAGE(run_chunk, run_chunk, NUMBER(run_chunk, run), RANGE(run_chunk, offset, 0, OFFSET_MAX, "offset"),
        NUMBER(run_chunk, last));
MESSAGE(run_ref, run_ref, NUMBER(run_ref, run), NUMBER(run_ref, why));
MESSAGE(run_credit, run_credit, NUMBER(run_credit, run), NUMBER(run_credit, bytes));
MESSAGE(run_message, run_message, NUMBER(run_message, run), RANGE(run_message, level, 0, LEVEL_MAX, "level"),
        WORD(run_message, text));
MESSAGE(run_progress, run_progress, NUMBER(run_progress, run), NUMBER(run_progress, done), NUMBER(run_progress, total));
MESSAGE(run_open, run_open, NUMBER(run_open, run), NUMBER(run_open, serial), PATH(run_open, path));
MESSAGE(run_opened, run_opened, NUMBER(run_opened, run), NUMBER(run_opened, serial),
        RANGE(run_opened, error, 0, ERRNO_MAX, "error"));
MESSAGE(run_end, run_end, NUMBER(run_end, run), RANGE(run_end, status, 0, CODEC_RUN_STATUS, "status"),
        WORD(run_end, error), WORD(run_end, text), NUMBER(run_end, cpu_usec), NUMBER(run_end, placed),
        RANGE(run_end, state, 0, CODEC_RUN_STATE, "state"));
static const struct message empty = {.descriptor = &wsd__pb__empty__descriptor};

LIST_OF(plugin, functions);
LIST_OF(plugin, runners);
LIST_OF(offer, functions);
LIST_OF(stats, counters);
LIST_OF(function_stats, histograms);
LIST_OF(worker, counters);

/* --- limits of several fields at once: each returns what is out of range, or NULL --------------------------------- */

static bool is_part(uint64_t at, uint64_t size)
{
    return at <= OFFSET_MAX && size <= OFFSET_MAX - at;
}

static const char *check_hello(const struct msg *msg, size_t body)
{
    return msg->hello.version_min > msg->hello.version_max ? "version_min" : NULL;
}

static const char *check_job_to_be(const struct msg_submit *m)
{
    bool in_part = m->input_from == INPUT_FILE || m->input_from == INPUT_ARENA;

    if (m->at_usec && m->delay_usec)
        return "time";
    if (m->after.size + m->after_any.size > IDS_MAX)
        return "after";
    if (!is_part(m->input_offset, m->input_size) || (!in_part && (m->input_offset || m->input_size)))
        return "input";
    if (!is_part(m->output_offset, m->output_size) ||
        (m->arena ? m->input_from != INPUT_BODY && m->input_from != INPUT_ARENA : m->input_from == INPUT_ARENA) ||
        (!m->arena && (m->output_offset || m->output_size)))
        return "arena";
    if (m->output_to && m->output_size)
        return "output";
    return NULL;
}

static const char *check_submit(const struct msg *msg, size_t body)
{
    return msg->submit.items ? "number of items" : check_job_to_be(&msg->submit);
}

static const char *check_array(const struct msg *msg, size_t body)
{
    const struct msg_submit *m = &msg->submit;

    if (m->argc)
        return "arguments beside those of the items";
    if (m->input_from != INPUT_BODY || m->arena)
        return "input beside that of the items";
    if (m->output_to)
        return "output beside that of the items";
    return m->items < 1 || m->items > CODEC_ITEMS_MAX ? "number of items" : check_job_to_be(m);
}

static const char *check_batch(const struct msg *msg, size_t body)
{
    const struct msg_batch *m = &msg->batch;
    bool opens = m->action == BATCH_OPEN;
    uint32_t flags = opens                      ? BATCH_DETACH | BATCH_PROGRESS | BATCH_KEEP_GOING
                     : m->action == BATCH_AWAIT ? BATCH_PROGRESS
                                                : 0;

    if (m->flags & ~flags)
        return "flags";
    return m->id.has_id == (m->action >= BATCH_STATUS) ? NULL : "id";
}

static const char *check_id(const struct msg *msg, size_t body)
{
    return msg->id.has_id ? NULL : "id";
}

static const char *check_await(const struct msg *msg, size_t body)
{
    return msg->id.flags & ~(uint32_t)SUBMIT_PROGRESS ? "flags" : check_id(msg, body);
}

static const char *check_chunk(const struct msg *msg, size_t body)
{
    return msg->chunk.offset <= OFFSET_MAX - body ? NULL : "offset";
}

static const char *check_run(const struct msg *msg, size_t body)
{
    return is_part(msg->run.job.output_offset, msg->run.job.output_size) ? NULL : "output";
}

static const char *check_done(const struct msg *msg, size_t body)
{
    return msg->job.state < CODEC_STATE_FINAL ? "state" : NULL;
}

static const char *check_gate(const struct msg *msg, size_t body)
{
    const struct msg_gate *m = &msg->gate;

    if (m->tag.size && (m->plugin.size || m->function.size))
        return "tag";
    return m->plugin.size || !m->function.size ? NULL : "function";
}

static const char *check_named_limit(const struct msg *msg, size_t body)
{
    return msg->limit.key.size ? NULL : "key";
}

static const char *check_limit(const struct msg *msg, size_t body)
{
    const struct msg_limit *m = &msg->limit;

    if (m->flags & LIMIT_MOVED)
        return check_named_limit(msg, body);
    return m->flags ? "flags" : m->key.size ? "key" : m->value.size ? "value" : NULL;
}

static const char *check_dead(const struct msg *msg, size_t body)
{
    return msg->dead.id.has_id == (msg->dead.action != DEAD_LIST) ? NULL : "id";
}

static const char *check_offer(const struct msg *msg, size_t body)
{
    const struct msg_offer *m = &msg->offer;

    if (!m->n_functions)
        return "number of functions";
    for (size_t i = 0; i < m->n_functions; i++)
        for (size_t j = 0; j < i; j++)
            if (m->functions[i].name.size == m->functions[j].name.size &&
                memcmp(m->functions[i].name.data, m->functions[j].name.data, m->functions[i].name.size) == 0)
                return "name of a function";
    return NULL;
}

static const char *check_functions(const struct msg *msg, size_t body)
{
    return msg->functions.plugin.size || !msg->functions.function.size ? NULL : "function";
}

/* Each kind comes once at most. */
static const char *check_function_stats(const struct msg *msg, size_t body)
{
    const struct msg_function_stats *m = &msg->function_stats;
    uint32_t kinds = 0;

    for (size_t i = 0; i < m->n_histograms; i++) {
        uint32_t kind = m->histograms[i].kind;

        if (kind > CODEC_HISTOGRAM_KIND || kinds >> kind & 1)
            return "kind of a histogram";
        kinds |= 1u << kind;
    }
    return NULL;
}

static const char *check_schedule(const struct msg *msg, size_t body)
{
    if (msg->schedule.job.flags & ~(uint32_t)(SUBMIT_DURABLE | SUBMIT_WAIT_RUNNER))
        return "job.flags";
    return !msg->schedule.name.size != (msg->schedule.action == SCHEDULE_LIST) ? "name" : NULL;
}

/* --- the types of frames ------------------------------------------------------------------------------------------ */

struct type {
    const char *name;
    const struct message *message;
    bool body;
    const char *(*check)(const struct msg *msg, size_t body_size); /* NULL: the limits of its fields are all */
};

static const struct type types[] = {
    [FRAME_HELLO] = {"HELLO", &hello, .check = check_hello},
    [FRAME_SUBMIT] = {"SUBMIT", &submit, .body = true, .check = check_submit},
    [FRAME_INPUT] = {"INPUT", &chunk, .body = true, .check = check_chunk},
    [FRAME_CREDIT] = {"CREDIT", &credit},
    [FRAME_CANCEL] = {"CANCEL", &id},
    [FRAME_AWAIT] = {"AWAIT", &id, .check = check_await},
    [FRAME_STATUS] = {"STATUS", &id, .check = check_id},
    [FRAME_LIST] = {"LIST", &empty},
    [FRAME_PLUGINS] = {"PLUGINS", &plugins},
    [FRAME_STATS] = {"STATS", &empty},
    [FRAME_PING] = {"PING", &empty, .body = true},
    [FRAME_OPENED] = {"OPENED", &opened},
    [FRAME_WORKERS] = {"WORKERS", &workers},
    [FRAME_TRACE] = {"TRACE", &trace},
    [FRAME_DEAD] = {"DEAD", &dead, .check = check_dead},
    [FRAME_SCHEDULE] = {"SCHEDULE", &schedule, .check = check_schedule},
    [FRAME_SCHEDULED] = {"SCHEDULED", &scheduled},
    [FRAME_RELEASE] = {"RELEASE", &release},
    [FRAME_RELOAD] = {"RELOAD", &reload},
    [FRAME_RELOADED] = {"RELOADED", &reloaded},
    [FRAME_FORGET] = {"FORGET", &empty},
    [FRAME_GATE] = {"GATE", &gate, .check = check_gate},
    [FRAME_GATE_STATE] = {"GATE_STATE", &gate_state},
    [FRAME_ARRAY] = {"ARRAY", &submit, .body = true, .check = check_array},
    [FRAME_BATCH] = {"BATCH", &batch, .check = check_batch},
    [FRAME_BATCH_STATE] = {"BATCH_STATE", &batch_state},
    [FRAME_ENDS] = {"ENDS", &ends, .body = true},
    [FRAME_LIMIT] = {"LIMIT", &limit, .check = check_limit},
    [FRAME_LIMIT_STATE] = {"LIMIT_STATE", &limit, .check = check_named_limit},
    [FRAME_LIST_WHERE] = {"LIST_WHERE", &filter},
    [FRAME_CANCEL_WHERE] = {"CANCEL_WHERE", &filter},
    [FRAME_COUNT] = {"COUNT", &count},
    [FRAME_LANE_OPEN] = {"LANE_OPEN", &empty},
    [FRAME_LANE_BIND] = {"LANE_BIND", &lane_bind},
    [FRAME_LANE_WAITS] = {"LANE_WAITS", &empty},
    [FRAME_LANE_CLOSE] = {"LANE_CLOSE", &empty},
    [FRAME_LANE] = {"LANE", &empty},
    [FRAME_ARENA_OPEN] = {"ARENA_OPEN", &empty},
    [FRAME_ARENA_CLOSE] = {"ARENA_CLOSE", &empty},
    [FRAME_ARENA] = {"ARENA", &empty},
    [FRAME_LANE_BOUND] = {"LANE_BOUND", &lane_bound},
    [FRAME_LANE_LOST] = {"LANE_LOST", &error},
    [FRAME_RUNNER_OPEN] = {"RUNNER_OPEN", &offer, .check = check_offer},
    [FRAME_RUNNER_CLOSE] = {"RUNNER_CLOSE", &empty},
    [FRAME_RUN_OUTPUT] = {"RUN_OUTPUT", &run_chunk, .body = true},
    [FRAME_RUN_MESSAGE] = {"RUN_MESSAGE", &run_message},
    [FRAME_RUN_PROGRESS] = {"RUN_PROGRESS", &run_progress},
    [FRAME_RUN_OPEN] = {"RUN_OPEN", &run_open},
    [FRAME_RUN_END] = {"RUN_END", &run_end, .body = true},
    [FRAME_RUN_PONG] = {"RUN_PONG", &run_ref},
    [FRAME_FUNCTIONS] = {"FUNCTIONS", &functions, .check = check_functions},
    [FRAME_FUNCTION_STATS] = {"FUNCTION_STATS", &function_stats, .body = true, .check = check_function_stats},
    [FRAME_PERSON] = {"PERSON", &person},
    [FRAME_ACTIONS] = {"ACTIONS", &actions},
    [FRAME_ACTION] = {"ACTION", &action},
    [FRAME_RUNNER] = {"RUNNER", &empty},
    [FRAME_RUN] = {"RUN", &run, .body = true, .check = check_run},
    [FRAME_RUN_INPUT] = {"RUN_INPUT", &run_chunk, .body = true},
    [FRAME_RUN_STOP] = {"RUN_STOP", &run_ref},
    [FRAME_RUN_OPENED] = {"RUN_OPENED", &run_opened},
    [FRAME_RUN_CREDIT] = {"RUN_CREDIT", &run_credit},
    [FRAME_RUN_PING] = {"RUN_PING", &run_ref},
    [FRAME_FINISHED] = {"FINISHED", &finished, .body = true},
    [FRAME_WELCOME] = {"WELCOME", &welcome},
    [FRAME_ACCEPTED] = {"ACCEPTED", &accepted, .check = check_id},
    [FRAME_OUTPUT] = {"OUTPUT", &chunk, .body = true, .check = check_chunk},
    [FRAME_PROGRESS] = {"PROGRESS", &progress},
    [FRAME_MESSAGE] = {"MESSAGE", &message},
    [FRAME_DONE] = {"DONE", &job, .check = check_done},
    [FRAME_ERROR] = {"ERROR", &error},
    [FRAME_JOB] = {"JOB", &job},
    [FRAME_PLUGIN] = {"PLUGIN", &plugin},
    [FRAME_COUNTERS] = {"COUNTERS", &stats},
    [FRAME_PONG] = {"PONG", &empty, .body = true},
    [FRAME_END] = {"END", &empty},
    [FRAME_OPEN] = {"OPEN", &open},
    [FRAME_GOODBYE] = {"GOODBYE", &error},
    [FRAME_EXECUTOR] = {"EXECUTOR", &executor},
    [FRAME_WORKER] = {"WORKER", &worker},
    [FRAME_PIECE] = {"PIECE", &chunk, .body = true, .check = check_chunk},
};

static const struct type *type_find(uint16_t type)
{
    return type < sizeof(types) / sizeof(*types) && types[type].name ? &types[type] : NULL;
}

const struct message *codec_message(uint16_t type)
{
    return type_find(type) ? types[type].message : NULL;
}

const char *codec_type_name(uint16_t type)
{
    return type_find(type) ? types[type].name : "?";
}

/* Every member of the union begins where the first one does. */
static const void *plain_of(const struct msg *msg)
{
    return &msg->hello;
}

/* Beside the limits of its fields. */
static const char *check_message(const struct type *type, const struct msg *msg, size_t body_size)
{
    if (body_size && !type->body)
        return "body";
    return type->check ? type->check(msg, body_size) : NULL;
}

const char *codec_problem(const struct msg *msg)
{
    const struct type *type = type_find(msg->type);
    const char *problem = type ? message_problem(type->message, plain_of(msg)) : "type";

    return problem ? problem : check_message(type, msg, 0);
}

/* --- there and back ----------------------------------------------------------------------------------------------- */

int codec_new(struct codec **ret_codec)
{
    struct codec *codec = calloc(1, sizeof(*codec));

    if (!codec)
        return -ENOMEM;
    codec->arena = (struct arena){.data = malloc(CODEC_ARENA), .size = CODEC_ARENA};
    if (!codec->arena.data) {
        free(codec);
        return -ENOMEM;
    }
    *ret_codec = codec;
    return 0;
}

struct codec *codec_free(struct codec *codec)
{
    if (codec)
        free(codec->arena.data);
    free(codec);
    return NULL;
}

const char *codec_strerror(const struct codec *codec)
{
    return codec->error;
}

static int out_of_range(struct codec *codec, const struct type *type, const char *what)
{
    snprintf(codec->error, sizeof(codec->error), "%s: %s is out of range", type->name, what);
    return CODEC_E_LIMIT;
}

int codec_decode_again(struct codec *codec, const struct frame *frame, struct msg *ret_msg)
{
    const struct type *type = type_find(frame->type);
    struct msg msg;
    const char *problem;

    if (!type) {
        snprintf(codec->error, sizeof(codec->error), "no frame type %u", frame->type);
        return CODEC_E_TYPE;
    }
    codec->arena.used = 0;
    msg.type = frame->type;
    bool whole = message_unpack(type->message, &codec->arena, frame->header, frame->header_size, &msg.hello, &problem);
    if (!whole && !problem) {
        snprintf(codec->error, sizeof(codec->error), "%s: cannot be read", type->name);
        return CODEC_E_BYTES;
    }
    if (!problem)
        problem = check_message(type, &msg, frame->body_size);
    if (problem)
        return out_of_range(codec, type, problem);
    codec->error[0] = 0;
    memcpy(ret_msg, &msg, offsetof(struct msg, hello) + type->message->size);
    return 0;
}

int codec_decode(struct codec *codec, const struct frame *frame, struct msg *ret_msg)
{
    int r = codec_decode_again(codec, frame, ret_msg);
    const char *problem = NULL;

    if (r == 0 && (frame->type == FRAME_ARRAY || frame->type == FRAME_ENDS || frame->type == FRAME_FUNCTION_STATS))
        problem = codec_records_problem(ret_msg, (struct span){(const char *)frame->body, frame->body_size});
    return problem ? out_of_range(codec, type_find(frame->type), problem) : r;
}

size_t codec_room(const struct msg *msg)
{
    const struct type *type = type_find(msg->type);

    return type ? FRAME_HEADER_SIZE + message_room(type->message, plain_of(msg)) : 0;
}

size_t codec_encode(const struct msg *msg, uint32_t tag, size_t body_size, uint8_t *ret, size_t room)
{
    const struct type *type = type_find(msg->type);

    if (!type || body_size > FRAME_PAYLOAD_MAX || room < FRAME_HEADER_SIZE || check_message(type, msg, body_size))
        return 0;
    const uint8_t *end = message_pack(type->message, plain_of(msg), ret + FRAME_HEADER_SIZE, ret + room);
    size_t size = end ? (size_t)(end - ret) : 0;
    if (!size || size > FRAME_MAX - body_size)
        return 0;
    frame_put_header(ret, msg->type, tag, (uint32_t)(size - FRAME_HEADER_SIZE), (uint32_t)body_size);
    return size;
}
