/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c: protobuf bytes <-> the plain structs of codec.h.
 * Owns the arena that a decoded message lives in; one thread a codec.
 * Keeps: a message that comes out of codec_decode() or goes into the bytes of codec_encode() has passed the same
 * check_message(), so both ends hold the same limits; protobuf-c gets memory from the arena only.
 * Does not know sockets, the order of messages, or what names may contain. */
#include "proto/codec.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/flat.h"
#include "proto/wsd.pb-c.h"

#define OFFSET_MAX ((uint64_t)INT64_MAX) /* of chunks: an offset fits off_t */
#define CREDIT_MAX ((uint64_t)UINT32_MAX)
#define EXIT_MAX   255u
#define ERRNO_MAX  4095u
#define LEVEL_MAX  7u

struct codec {
    ProtobufCAllocator allocator;
    size_t used;
    char error[160];
    uint8_t *arena;
};

/* --- the types of frames ---------------------------------------------------------------------------------------- */

struct type_info {
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    bool body;
    bool flat; /* one a job: flat.h */
};

static const struct type_info types[] = {
    [FRAME_HELLO] = {"HELLO", &wsd__pb__hello__descriptor},
    [FRAME_SUBMIT] = {"SUBMIT", &wsd__pb__submit__descriptor, .body = true, .flat = true},
    [FRAME_INPUT] = {"INPUT", &wsd__pb__chunk__descriptor, .body = true},
    [FRAME_CREDIT] = {"CREDIT", &wsd__pb__credit__descriptor},
    [FRAME_CANCEL] = {"CANCEL", &wsd__pb__id__descriptor},
    [FRAME_AWAIT] = {"AWAIT", &wsd__pb__id__descriptor},
    [FRAME_STATUS] = {"STATUS", &wsd__pb__id__descriptor},
    [FRAME_LIST] = {"LIST", &wsd__pb__empty__descriptor},
    [FRAME_PLUGINS] = {"PLUGINS", &wsd__pb__plugins__descriptor},
    [FRAME_STATS] = {"STATS", &wsd__pb__empty__descriptor},
    [FRAME_PING] = {"PING", &wsd__pb__empty__descriptor, .body = true},
    [FRAME_OPENED] = {"OPENED", &wsd__pb__opened__descriptor},
    [FRAME_WORKERS] = {"WORKERS", &wsd__pb__workers__descriptor},
    [FRAME_TRACE] = {"TRACE", &wsd__pb__trace__descriptor},
    [FRAME_DEAD] = {"DEAD", &wsd__pb__dead__descriptor},
    [FRAME_SCHEDULE] = {"SCHEDULE", &wsd__pb__schedule__descriptor},
    [FRAME_SCHEDULED] = {"SCHEDULED", &wsd__pb__scheduled__descriptor},
    [FRAME_RELEASE] = {"RELEASE", &wsd__pb__release__descriptor},
    [FRAME_RELOAD] = {"RELOAD", &wsd__pb__reload__descriptor},
    [FRAME_RELOADED] = {"RELOADED", &wsd__pb__reloaded__descriptor},
    [FRAME_FORGET] = {"FORGET", &wsd__pb__empty__descriptor},
    [FRAME_GATE] = {"GATE", &wsd__pb__gate__descriptor},
    [FRAME_GATE_STATE] = {"GATE_STATE", &wsd__pb__gate_state__descriptor},
    [FRAME_ARRAY] = {"ARRAY", &wsd__pb__submit__descriptor, .body = true},
    [FRAME_BATCH] = {"BATCH", &wsd__pb__batch__descriptor},
    [FRAME_BATCH_STATE] = {"BATCH_STATE", &wsd__pb__batch_state__descriptor},
    [FRAME_ENDS] = {"ENDS", &wsd__pb__ends__descriptor, .body = true},
    [FRAME_LIMIT] = {"LIMIT", &wsd__pb__limit__descriptor},
    [FRAME_LIMIT_STATE] = {"LIMIT_STATE", &wsd__pb__limit__descriptor},
    [FRAME_LIST_WHERE] = {"LIST_WHERE", &wsd__pb__filter__descriptor},
    [FRAME_CANCEL_WHERE] = {"CANCEL_WHERE", &wsd__pb__filter__descriptor},
    [FRAME_COUNT] = {"COUNT", &wsd__pb__count__descriptor},
    [FRAME_LANE_OPEN] = {"LANE_OPEN", &wsd__pb__empty__descriptor},
    [FRAME_LANE_BIND] = {"LANE_BIND", &wsd__pb__lane_bind__descriptor},
    [FRAME_LANE_WAITS] = {"LANE_WAITS", &wsd__pb__empty__descriptor},
    [FRAME_LANE_CLOSE] = {"LANE_CLOSE", &wsd__pb__empty__descriptor},
    [FRAME_LANE] = {"LANE", &wsd__pb__empty__descriptor},
    [FRAME_ARENA_OPEN] = {"ARENA_OPEN", &wsd__pb__empty__descriptor},
    [FRAME_ARENA_CLOSE] = {"ARENA_CLOSE", &wsd__pb__empty__descriptor},
    [FRAME_ARENA] = {"ARENA", &wsd__pb__empty__descriptor},
    [FRAME_LANE_BOUND] = {"LANE_BOUND", &wsd__pb__lane_bound__descriptor},
    [FRAME_LANE_LOST] = {"LANE_LOST", &wsd__pb__error__descriptor},
    [FRAME_FINISHED] = {"FINISHED", &wsd__pb__finished__descriptor, .body = true, .flat = true},
    [FRAME_WELCOME] = {"WELCOME", &wsd__pb__welcome__descriptor},
    [FRAME_ACCEPTED] = {"ACCEPTED", &wsd__pb__accepted__descriptor},
    [FRAME_OUTPUT] = {"OUTPUT", &wsd__pb__chunk__descriptor, .body = true},
    [FRAME_PROGRESS] = {"PROGRESS", &wsd__pb__progress__descriptor},
    [FRAME_MESSAGE] = {"MESSAGE", &wsd__pb__message__descriptor},
    [FRAME_DONE] = {"DONE", &wsd__pb__job__descriptor},
    [FRAME_ERROR] = {"ERROR", &wsd__pb__error__descriptor},
    [FRAME_JOB] = {"JOB", &wsd__pb__job__descriptor},
    [FRAME_PLUGIN] = {"PLUGIN", &wsd__pb__plugin__descriptor},
    [FRAME_COUNTERS] = {"COUNTERS", &wsd__pb__stats__descriptor},
    [FRAME_PONG] = {"PONG", &wsd__pb__empty__descriptor, .body = true},
    [FRAME_END] = {"END", &wsd__pb__empty__descriptor},
    [FRAME_OPEN] = {"OPEN", &wsd__pb__open__descriptor},
    [FRAME_GOODBYE] = {"GOODBYE", &wsd__pb__error__descriptor},
    [FRAME_EXECUTOR] = {"EXECUTOR", &wsd__pb__executor__descriptor},
    [FRAME_WORKER] = {"WORKER", &wsd__pb__worker__descriptor},
    [FRAME_PIECE] = {"PIECE", &wsd__pb__chunk__descriptor, .body = true},
};

static const struct type_info *type_find(uint16_t type)
{
    return type < sizeof(types) / sizeof(*types) && types[type].name ? &types[type] : NULL;
}

/* --- the arena -------------------------------------------------------------------------------------------------- */

/* Every piece gets a NUL behind it, so that the `bytes` that protobuf-c copies out are C strings with no second copy.
 */
static void *arena_alloc(void *data, size_t size)
{
    struct codec *codec = data;
    size_t at = (codec->used + 15) & ~(size_t)15;

    if (at >= CODEC_ARENA || size >= CODEC_ARENA - at)
        return NULL;
    codec->used = at + size + 1;
    codec->arena[at + size] = 0;
    return codec->arena + at;
}

static void arena_free(void *data, void *pointer)
{
    /* All at once, by the next decode. */
}

int codec_new(struct codec **ret_codec)
{
    struct codec *codec = calloc(1, sizeof(*codec));

    if (!codec)
        return -ENOMEM;
    codec->arena = malloc(CODEC_ARENA);
    if (!codec->arena) {
        free(codec);
        return -ENOMEM;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        assert(!types[i].flat || flat_fits(types[i].descriptor));
    codec->allocator = (ProtobufCAllocator){.alloc = arena_alloc, .free = arena_free, .allocator_data = codec};
    *ret_codec = codec;
    return 0;
}

struct codec *codec_free(struct codec *codec)
{
    if (codec)
        free(codec->arena);
    free(codec);
    return NULL;
}

const char *codec_strerror(const struct codec *codec)
{
    return codec->error;
}

/* --- limits: each returns the field that is out of range, or NULL ------------------------------------------------ */

/* room: with the NUL, as the limits of codec.h are. */
static bool span_fits(struct span s, size_t room)
{
    return s.size < room && (s.size == 0 || !memchr(s.data, 0, s.size));
}

static const char *check_args(struct span args, uint32_t argc)
{
    uint32_t n = 0;

    if (argc > CODEC_ARGS_MAX)
        return "number of arguments";
    if (args.size > CODEC_ARGS_SIZE)
        return "size of the arguments";
    for (size_t i = 0; i < args.size; i++)
        n += args.data[i] == 0;
    return n != argc || (args.size > 0 && args.data[args.size - 1] != 0) ? "NUL inside an argument" : NULL;
}

static bool are_tags(struct span s)
{
    uint32_t n = 0;

    for (size_t at = 0, size; at < s.size; at += size + 1) {
        const char *comma = memchr(s.data + at, ',', s.size - at);

        size = comma ? (size_t)(comma - s.data) - at : s.size - at;
        if (!codec_is_tag(s.data + at, size) || ++n > CODEC_TAGS || (comma && at + size + 1 == s.size))
            return false;
    }
    return true;
}

static bool are_ids(struct span a, struct span b)
{
    return a.size % 16 == 0 && b.size % 16 == 0 && a.size / 16 + b.size / 16 <= CODEC_AFTER_MAX;
}

static bool is_part(uint64_t at, uint64_t size)
{
    return at <= OFFSET_MAX && size <= OFFSET_MAX - at;
}

static const char *check_submit(const struct msg_submit *m)
{
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    if (!span_fits(m->function, CODEC_NAME_MAX))
        return "function";
    if (m->priority < -CODEC_PRIORITY_MAX || m->priority > CODEC_PRIORITY_MAX)
        return "priority";
    if (m->flags & ~SUBMIT_FLAGS_ALL)
        return "flags";
    if (!span_fits(m->key, CODEC_KEY_MAX))
        return "key";
    if (m->retries > CODEC_RETRIES_MAX || m->retry_usec > CODEC_RETRY_MAX || m->retry_on & ~CODEC_RETRY_ON)
        return "retries";
    if (m->delay_usec > CODEC_SPAN_MAX)
        return "delay";
    if (m->at_usec > CODEC_AT_MAX || (m->at_usec && m->delay_usec))
        return "time";
    if (m->queue_usec > CODEC_SPAN_MAX)
        return "time in the queue";
    if (!are_ids(m->after, m->after_any))
        return "after";
    if (!are_tags(m->tags))
        return "tags";
    if (m->input_from > INPUT_ARENA || !is_part(m->input_offset, m->input_size) ||
        (m->input_from == INPUT_BODY && (m->input_offset || m->input_size)))
        return "input";
    if (!is_part(m->output_offset, m->output_size) || (m->arena ? m->input_from == INPUT_FILE : m->input_from == INPUT_ARENA) ||
        (!m->arena && (m->output_offset || m->output_size)))
        return "arena";
    return check_args(m->args, m->argc);
}

static const char *check_array(const struct msg_submit *m)
{
    if (m->argc)
        return "arguments beside those of the items";
    if (m->input_from != INPUT_BODY || m->arena)
        return "input beside that of the items";
    if (m->items < 1 || m->items > CODEC_ITEMS_MAX)
        return "number of items";
    return check_submit(m);
}

static const char *check_batch(const struct msg_batch *m)
{
    bool opens = m->action == BATCH_OPEN;
    uint32_t flags = opens ? BATCH_DETACH | BATCH_PROGRESS | BATCH_KEEP_GOING : m->action == BATCH_AWAIT ? BATCH_PROGRESS : 0;

    if (m->action < BATCH_OPEN || m->action > BATCH_CANCEL)
        return "action";
    if (m->flags & ~flags)
        return "flags";
    return m->id.has_id == (m->action >= BATCH_STATUS) ? NULL : "id";
}

static const char *check_ends(const struct msg_ends *m)
{
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    if (!span_fits(m->function, CODEC_NAME_MAX))
        return "function";
    return m->records <= FRAME_MAX / CODEC_END_SIZE ? NULL : "number of records";
}

static const char *check_schedule(const struct msg_schedule *m)
{
    if (m->action < SCHEDULE_ADD || m->action > SCHEDULE_RUN)
        return "action";
    if (!span_fits(m->name, CODEC_NAME_MAX) || !m->name.size != (m->action == SCHEDULE_LIST))
        return "name";
    if (!span_fits(m->calendar, CODEC_CALENDAR_MAX))
        return "calendar";
    return m->job.flags & ~(uint32_t)SUBMIT_DURABLE ? "flags" : check_submit(&m->job);
}

static const char *check_scheduled(const struct msg_scheduled *m)
{
    if (!span_fits(m->name, CODEC_NAME_MAX))
        return "name";
    if (!span_fits(m->calendar, CODEC_CALENDAR_MAX))
        return "calendar";
    if (!span_fits(m->plugin, CODEC_PATH_MAX) || !span_fits(m->function, CODEC_NAME_MAX))
        return "plugin";
    if (m->state > CODEC_STATE_MAX || m->exit > EXIT_MAX)
        return "state";
    return span_fits(m->error, CODEC_TEXT_MAX) ? NULL : "error";
}

static const char *check_hello(const struct msg_hello *m)
{
    if (m->version_min > m->version_max)
        return "version_min";
    if (!span_fits(m->directory, CODEC_PATH_MAX))
        return "directory";
    return span_fits(m->program, CODEC_TEXT_MAX) ? NULL : "program";
}

static const char *check_job(const struct msg_job *m, bool final)
{
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    if (!span_fits(m->function, CODEC_NAME_MAX))
        return "function";
    if (!span_fits(m->error, CODEC_TEXT_MAX))
        return "error";
    if (!span_fits(m->backtrace, CODEC_TRACE_MAX))
        return "backtrace";
    if (!span_fits(m->status, CODEC_TEXT_MAX))
        return "status";
    if (!span_fits(m->worker, CODEC_NAME_MAX))
        return "worker";
    if (!span_fits(m->key, CODEC_KEY_MAX))
        return "key";
    if (!are_tags(m->tags))
        return "tags";
    if (m->batch.size && m->batch.size != 16)
        return "batch";
    if (m->state < (final ? CODEC_STATE_FINAL : 1) || m->state > CODEC_STATE_MAX)
        return "state";
    return m->exit <= EXIT_MAX ? NULL : "exit";
}

static const char *check_finished(const struct msg_finished *m)
{
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    if (!span_fits(m->function, CODEC_NAME_MAX))
        return "function";
    return span_fits(m->worker, CODEC_NAME_MAX) ? NULL : "worker";
}

static const char *check_error(const struct msg_error *m)
{
    if (m->code > EXIT_MAX)
        return "code";
    return span_fits(m->text, CODEC_TEXT_MAX) ? NULL : "text";
}

static const char *check_plugin(const struct msg_plugin *m)
{
    if (!span_fits(m->name, CODEC_NAME_MAX))
        return "name";
    if (!span_fits(m->version, CODEC_TEXT_MAX))
        return "version";
    if (!span_fits(m->help, CODEC_TEXT_MAX))
        return "help";
    if (!span_fits(m->path, CODEC_PATH_MAX))
        return "path";
    if (!span_fits(m->error, CODEC_TEXT_MAX))
        return "error";
    if (m->n_functions > CODEC_FUNCTIONS)
        return "number of functions";
    for (size_t i = 0; i < m->n_functions; i++)
        if (!span_fits(m->functions[i].name, CODEC_NAME_MAX) || !span_fits(m->functions[i].help, CODEC_TEXT_MAX) ||
            !span_fits(m->functions[i].why, CODEC_TEXT_MAX) || m->functions[i].quarantine > CODEC_QUARANTINE)
            return "function";
    return m->apart <= CODEC_APART ? NULL : "apart";
}

static const char *check_gate(const struct msg_gate *m)
{
    if (m->action < GATE_PAUSE || m->action > GATE_LIST)
        return "action";
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    if (m->tag.size && (m->plugin.size || m->function.size || !codec_is_tag(m->tag.data, m->tag.size)))
        return "tag";
    return span_fits(m->function, CODEC_NAME_MAX) && (m->plugin.size || !m->function.size) ? NULL : "function";
}

static const char *check_limit(const struct msg_limit *m, bool told)
{
    bool named = told || m->flags & LIMIT_MOVED;

    if (m->flags & ~(uint32_t)(LIMIT_OWN | LIMIT_MOVED) || (!named && m->flags))
        return "flags";
    if (!span_fits(m->key, CODEC_NAME_MAX) || !m->key.size != !named)
        return "key";
    return span_fits(m->value, CODEC_TEXT_MAX) && (named || !m->value.size) ? NULL : "value";
}

static const char *check_gate_state(const struct msg_gate_state *m)
{
    if (m->tag.size && !codec_is_tag(m->tag.data, m->tag.size))
        return "tag";
    return !span_fits(m->plugin, CODEC_PATH_MAX) ? "plugin" : span_fits(m->function, CODEC_NAME_MAX) ? NULL : "function";
}

static const char *check_filter(const struct msg_filter *m)
{
    if (m->states & ~CODEC_STATES)
        return "states";
    if (m->batch.size && m->batch.size != 16)
        return "batch";
    if (!span_fits(m->plugin, CODEC_PATH_MAX))
        return "plugin";
    return span_fits(m->function, CODEC_NAME_MAX) ? NULL : "function";
}

static const char *check_reloaded(const struct msg_reloaded *m)
{
    if (m->outcome < 1 || m->outcome > CODEC_RELOADED || m->code > UINT8_MAX)
        return "outcome";
    if (!span_fits(m->name, CODEC_NAME_MAX) || !span_fits(m->path, CODEC_PATH_MAX))
        return "name";
    if (!span_fits(m->version, CODEC_NAME_MAX) || !span_fits(m->old_version, CODEC_NAME_MAX))
        return "version";
    if (!span_fits(m->build, CODEC_BUILD_MAX) || !span_fits(m->old_build, CODEC_BUILD_MAX))
        return "build";
    return span_fits(m->error, CODEC_TEXT_MAX) ? NULL : "error";
}

static const char *check_stats(const struct msg_stats *m)
{
    if (m->n_counters > CODEC_COUNTERS)
        return "number of counters";
    for (size_t i = 0; i < m->n_counters; i++)
        if (!span_fits(m->counters[i].name, CODEC_NAME_MAX))
            return "counter";
    return NULL;
}

static const char *check_worker(const struct msg_worker *m)
{
    if (m->kind < 1 || m->kind > CODEC_KIND_MAX)
        return "kind";
    return check_stats(&(struct msg_stats){.counters = m->counters, .n_counters = m->n_counters});
}

static const char *check_message(const struct msg *msg, size_t body_size)
{
    if (body_size > 0 && !types[msg->type].body)
        return "body";
    switch (msg->type) {
    case FRAME_HELLO:
        return check_hello(&msg->hello);
    case FRAME_WELCOME:
        return span_fits(msg->welcome.program, CODEC_TEXT_MAX) ? NULL : "program";
    case FRAME_SUBMIT:
        return msg->submit.items ? "number of items" : check_submit(&msg->submit);
    case FRAME_ARRAY:
        return check_array(&msg->submit);
    case FRAME_BATCH:
        return check_batch(&msg->batch);
    case FRAME_BATCH_STATE:
        return msg->batch_state.exit <= EXIT_MAX ? NULL : "exit";
    case FRAME_ENDS:
        return check_ends(&msg->ends);
    case FRAME_AWAIT:
        return !msg->id.has_id ? "id" : msg->id.flags & ~(uint32_t)SUBMIT_PROGRESS ? "flags" : NULL;
    case FRAME_STATUS:
    case FRAME_ACCEPTED:
        return msg->id.has_id ? NULL : "id";
    case FRAME_LIST_WHERE:
    case FRAME_CANCEL_WHERE:
        return check_filter(&msg->filter);
    case FRAME_INPUT:
    case FRAME_OUTPUT:
    case FRAME_PIECE:
        return msg->chunk.offset <= OFFSET_MAX - body_size ? NULL : "offset";
    case FRAME_CREDIT:
        return msg->credit.bytes <= CREDIT_MAX ? NULL : "bytes";
    case FRAME_MESSAGE:
        if (msg->message.level > LEVEL_MAX)
            return "level";
        return span_fits(msg->message.text, CODEC_TEXT_MAX) ? NULL : "text";
    case FRAME_JOB:
    case FRAME_DONE:
        return check_job(&msg->job, msg->type == FRAME_DONE);
    case FRAME_FINISHED:
        return check_finished(&msg->finished);
    case FRAME_ERROR:
    case FRAME_GOODBYE:
    case FRAME_LANE_LOST:
        return check_error(&msg->error);
    case FRAME_PLUGINS:
        return span_fits(msg->plugins.name, CODEC_PATH_MAX) ? NULL : "name";
    case FRAME_RELEASE:
        return !span_fits(msg->release.name, CODEC_PATH_MAX) || !msg->release.name.size ? "name"
               : span_fits(msg->release.function, CODEC_NAME_MAX)                         ? NULL
                                                                                          : "function";
    case FRAME_RELOAD:
        return span_fits(msg->reload.name, CODEC_PATH_MAX) && msg->reload.name.size ? NULL : "name";
    case FRAME_RELOADED:
        return check_reloaded(&msg->reloaded);
    case FRAME_GATE:
        return check_gate(&msg->gate);
    case FRAME_LIMIT:
    case FRAME_LIMIT_STATE:
        return check_limit(&msg->limit, msg->type == FRAME_LIMIT_STATE);
    case FRAME_GATE_STATE:
        return check_gate_state(&msg->gate_state);
    case FRAME_PLUGIN:
        return check_plugin(&msg->plugin);
    case FRAME_COUNTERS:
        return check_stats(&msg->stats);
    case FRAME_OPEN:
        return span_fits(msg->open.path, CODEC_PATH_MAX) && msg->open.path.size > 0 ? NULL : "path";
    case FRAME_OPENED:
        return msg->opened.error <= ERRNO_MAX ? NULL : "error";
    case FRAME_WORKERS:
        return msg->workers.set <= CODEC_WORKERS_MAX ? NULL : "set";
    case FRAME_TRACE:
        return msg->trace.action >= TRACE_ACTION_START && msg->trace.action <= TRACE_ACTION_STOP ? NULL : "action";
    case FRAME_EXECUTOR:
        return msg->executor.error <= ERRNO_MAX ? NULL : "error";
    case FRAME_WORKER:
        return check_worker(&msg->worker);
    case FRAME_DEAD:
        if (msg->dead.action < DEAD_LIST || msg->dead.action > DEAD_DROP)
            return "action";
        return msg->dead.id.has_id == (msg->dead.action != DEAD_LIST) ? NULL : "id";
    case FRAME_SCHEDULE:
        return check_schedule(&msg->schedule);
    case FRAME_SCHEDULED:
        return check_scheduled(&msg->scheduled);
    case FRAME_LANE_BIND:
        return !span_fits(msg->lane_bind.plugin, CODEC_PATH_MAX) || !msg->lane_bind.plugin.size ? "plugin"
               : span_fits(msg->lane_bind.function, CODEC_NAME_MAX)                               ? NULL
                                                                                                   : "function";
    case FRAME_LANE_BOUND:
        return msg->lane_bound.number < CODEC_LANE_NUMBERS ? NULL : "number";
    default:
        return NULL;
    }
}

/* --- bodies of many records: little endian, by hand, since there are many ----------------------------------------- */

static void put_le(uint8_t *ret, uint64_t value, unsigned bytes)
{
    value = htole64(value);
    memcpy(ret, &value, bytes);
}

static uint64_t get_le(const char *data, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, data, bytes);
    return le64toh(value);
}

static bool cut(struct span *from, size_t size, struct span *ret)
{
    if (from->size < size)
        return false;
    *ret = (struct span){from->data, size};
    *from = (struct span){from->data + size, from->size - size};
    return true;
}

bool codec_next_item(struct span *body, struct msg_item *ret)
{
    struct span head;

    if (!cut(body, CODEC_ITEM_SIZE, &head))
        return false;
    ret->argc = (uint32_t)get_le(head.data, 2);
    return cut(body, get_le(head.data + 2, 2), &ret->args) && cut(body, get_le(head.data + 4, 4), &ret->input);
}

void codec_put_item(const struct msg_item *item, uint8_t ret[static CODEC_ITEM_SIZE])
{
    put_le(ret, item->argc, 2);
    put_le(ret + 2, item->args.size, 2);
    put_le(ret + 4, item->input.size, 4);
}

/* The sum of what is cut so has been looked at. */
static const char *cut_known(const char *from, uint64_t size, struct span *ret)
{
    *ret = (struct span){from, (size_t)size};
    return from + size;
}

/* index 4, n 4, state 1, exit 1, attempts 2, sizes of worker, error, status and backtrace 2 each, of output 4; three times 8 */
bool codec_next_end(struct span *body, struct msg_end *ret)
{
    struct span head;

    if (!cut(body, CODEC_END_SIZE, &head))
        return false;
    uint64_t worker = get_le(head.data + 12, 2), error = get_le(head.data + 14, 2), status = get_le(head.data + 16, 2);
    uint64_t backtrace = get_le(head.data + 18, 2), output = get_le(head.data + 20, 4);
    if (body->size < worker + error + status + backtrace + output)
        return false;
    ret->index = (uint32_t)get_le(head.data, 4);
    ret->n = (uint32_t)get_le(head.data + 4, 4);
    ret->state = (uint8_t)head.data[8];
    ret->exit = (uint8_t)head.data[9];
    ret->attempts = (uint32_t)get_le(head.data + 10, 2);
    ret->queued_usec = get_le(head.data + 24, 8);
    ret->run_usec = get_le(head.data + 32, 8);
    ret->cpu_usec = get_le(head.data + 40, 8);
    const char *at = cut_known(body->data, worker, &ret->worker);
    at = cut_known(at, error, &ret->error);
    at = cut_known(at, status, &ret->status);
    at = cut_known(at, backtrace, &ret->backtrace);
    at = cut_known(at, output, &ret->output);
    *body = (struct span){at, body->size - (size_t)(at - body->data)};
    return true;
}

size_t codec_end_size(const struct msg_end *end)
{
    return CODEC_END_SIZE + end->worker.size + end->error.size + end->status.size + end->backtrace.size + end->output.size;
}

static uint8_t *put_span(uint8_t *ret, struct span span)
{
    if (span.size && span.data)
        memcpy(ret, span.data, span.size);
    return ret + span.size;
}

uint8_t *codec_put_end(const struct msg_end *end, uint8_t *ret)
{
    put_le(ret, end->index, 4);
    put_le(ret + 4, end->n, 4);
    ret[8] = (uint8_t)end->state;
    ret[9] = (uint8_t)end->exit;
    put_le(ret + 10, end->attempts, 2);
    put_le(ret + 12, end->worker.size, 2);
    put_le(ret + 14, end->error.size, 2);
    put_le(ret + 16, end->status.size, 2);
    put_le(ret + 18, end->backtrace.size, 2);
    put_le(ret + 20, end->output.size, 4);
    put_le(ret + 24, end->queued_usec, 8);
    put_le(ret + 32, end->run_usec, 8);
    put_le(ret + 40, end->cpu_usec, 8);
    ret = put_span(ret + CODEC_END_SIZE, end->worker);
    ret = put_span(ret, end->error);
    ret = put_span(ret, end->status);
    ret = put_span(ret, end->backtrace);
    return put_span(ret, end->output);
}

bool codec_next_one(struct span *ones, struct msg_one *ret)
{
    struct span head;

    if (!cut(ones, CODEC_ONE_SIZE, &head))
        return false;
    ret->later_usec = (uint32_t)get_le(head.data, 4);
    ret->run_usec = (uint32_t)get_le(head.data + 4, 4);
    ret->cpu_usec = (uint32_t)get_le(head.data + 8, 4);
    return cut(ones, get_le(head.data + 12, 4), &ret->output);
}

uint8_t *codec_put_one(const struct msg_one *one, uint8_t *ret)
{
    put_le(ret, one->later_usec, 4);
    put_le(ret + 4, one->run_usec, 4);
    put_le(ret + 8, one->cpu_usec, 4);
    put_le(ret + 12, one->output.size, 4);
    return put_span(ret + CODEC_ONE_SIZE, one->output);
}

/* Of a record that is for several items which went well. */
static const char *check_ones(const struct msg_end *end)
{
    struct span left = end->output;
    struct msg_one one;

    if (end->exit || end->run_usec || end->cpu_usec || end->error.size || end->status.size || end->backtrace.size)
        return "end of several items";
    for (uint32_t i = 0; i < end->n; i++)
        if (!codec_next_one(&left, &one))
            return "size of an item";
    return left.size ? "number of items" : NULL;
}

static const char *check_end(const struct msg_end *end)
{
    const char *problem;

    if (end->state != 0 && (end->state < CODEC_STATE_FINAL - 1 || end->state > CODEC_STATE_MAX))
        return "state";
    if (end->index >= CODEC_ITEMS_MAX || end->n < 1 ||
        end->n > (end->state && end->state != CODEC_STATE_FINAL ? 1 : CODEC_ITEMS_MAX - end->index))
        return "index of an item";
    if (end->state && end->n > 1 && (problem = check_ones(end)))
        return problem;
    return !span_fits(end->worker, CODEC_NAME_MAX) || !span_fits(end->error, CODEC_TEXT_MAX) ||
                   !span_fits(end->status, CODEC_TEXT_MAX) || !span_fits(end->backtrace, CODEC_TRACE_MAX)
               ? "text"
               : NULL;
}

static const char *check_records(const struct msg *msg, const struct frame *frame)
{
    struct span body = {(const char *)frame->body, frame->body_size};
    bool array = msg->type == FRAME_ARRAY;
    uint32_t n = array ? msg->submit.items : msg->ends.records;
    struct msg_item item;
    struct msg_end end;

    if (!array && msg->type != FRAME_ENDS)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        const char *problem = "size of an item";

        if (array ? codec_next_item(&body, &item) : codec_next_end(&body, &end))
            problem = array ? check_args(item.args, item.argc) : check_end(&end);
        if (problem)
            return problem;
    }
    return body.size ? "number of items" : NULL;
}

/* --- out of protobuf's structs ----------------------------------------------------------------------------------- */

/* The bytes are in the arena already, with a NUL behind them (arena_alloc). */
static struct span span_of(ProtobufCBinaryData b)
{
    return b.len > 0 ? (struct span){.data = (const char *)b.data, .size = b.len} : (struct span){.data = ""};
}

/* Arguments one behind the other. The frame bounds the sum, so it cannot overflow. */
static const char *args_of(struct codec *codec, const ProtobufCBinaryData *args, size_t n, struct msg_submit *ret)
{
    size_t size = 0;

    if (n > CODEC_ARGS_MAX)
        return "number of arguments";
    for (size_t i = 0; i < n; i++)
        size += args[i].len + 1;
    if (size > CODEC_ARGS_SIZE)
        return "size of the arguments";
    ret->argc = (uint32_t)n;
    ret->args = (struct span){.data = "", .size = size};
    if (size == 0)
        return NULL;

    char *p = arena_alloc(codec, size);

    if (!p)
        return "size of the arguments";
    ret->args.data = p;
    for (size_t i = 0; i < n; i++) {
        if (args[i].len > 0)
            p = (char *)memcpy(p, args[i].data, args[i].len) + args[i].len;
        *p++ = 0;
    }
    return NULL;
}

static const char *submit_of(struct codec *codec, const Wsd__Pb__Submit *pb, struct msg_submit *ret)
{
    *ret = (struct msg_submit){
        .plugin = span_of(pb->plugin),
        .function = span_of(pb->function),
        .timeout_usec = pb->timeout_usec,
        .priority = pb->priority,
        .flags = pb->flags,
        .key = span_of(pb->key),
        .retries = pb->retries,
        .retry_usec = pb->retry_usec,
        .retry_on = pb->retry_on,
        .delay_usec = pb->delay_usec,
        .at_usec = pb->at_usec,
        .queue_usec = pb->queue_usec,
        .after = span_of(pb->after),
        .after_any = span_of(pb->after_any),
        .tags = span_of(pb->tags),
        .input_from = pb->input_from,
        .input_offset = pb->input_offset,
        .input_size = pb->input_size,
        .arena = pb->arena,
        .output_offset = pb->output_offset,
        .output_size = pb->output_size,
        .batch = pb->batch,
        .items = pb->items,
    };
    return args_of(codec, pb->args, pb->n_args, ret);
}

static const char *batch_state_of(const Wsd__Pb__BatchState *pb, struct msg_batch_state *ret)
{
    if (pb->id.len != sizeof(ret->id))
        return "id";
    *ret = (struct msg_batch_state){.uid = pb->uid,
                                    .flags = pb->flags,
                                    .exit = pb->exit,
                                    .total = pb->total,
                                    .queued = pb->queued,
                                    .running = pb->running,
                                    .done = pb->done,
                                    .failed = pb->failed,
                                    .submitted_usec = pb->submitted_usec};
    memcpy(ret->id, pb->id.data, sizeof(ret->id));
    return NULL;
}

static const char *ends_of(const Wsd__Pb__Ends *pb, struct msg_ends *ret)
{
    if (pb->id.len != sizeof(ret->id))
        return "id";
    *ret = (struct msg_ends){.plugin = span_of(pb->plugin),
                             .function = span_of(pb->function),
                             .uid = pb->uid,
                             .records = pb->records,
                             .submitted_usec = pb->submitted_usec,
                             .last = pb->last};
    memcpy(ret->id, pb->id.data, sizeof(ret->id));
    return NULL;
}

static const char *schedule_of(struct codec *codec, const Wsd__Pb__Schedule *pb, struct msg_schedule *ret)
{
    *ret = (struct msg_schedule){
        .action = pb->action,
        .name = span_of(pb->name),
        .calendar = span_of(pb->calendar),
        .persistent = pb->persistent,
        .job = {.plugin = span_of(pb->plugin),
                .function = span_of(pb->function),
                .timeout_usec = pb->timeout_usec,
                .priority = pb->priority,
                .flags = pb->flags,
                .retries = pb->retries,
                .retry_usec = pb->retry_usec,
                .retry_on = pb->retry_on,
                .queue_usec = pb->queue_usec,
                .key = {.data = ""},
                .after = {.data = ""},
                .after_any = {.data = ""},
                .tags = {.data = ""}},
    };
    return args_of(codec, pb->args, pb->n_args, &ret->job);
}

static const char *id_of(ProtobufCBinaryData id, struct msg_id *ret)
{
    if (id.len != 0 && id.len != sizeof(ret->id))
        return "id";
    *ret = (struct msg_id){.has_id = id.len > 0};
    if (ret->has_id)
        memcpy(ret->id, id.data, sizeof(ret->id));
    return NULL;
}

static const char *scheduled_of(const Wsd__Pb__Scheduled *pb, struct msg_scheduled *ret)
{
    *ret = (struct msg_scheduled){
        .name = span_of(pb->name),
        .calendar = span_of(pb->calendar),
        .plugin = span_of(pb->plugin),
        .function = span_of(pb->function),
        .error = span_of(pb->error),
        .uid = pb->uid,
        .flags = pb->flags,
        .state = pb->state,
        .exit = pb->exit,
        .next_usec = pb->next_usec,
        .ran_usec = pb->ran_usec,
        .runs = pb->runs,
        .skipped = pb->skipped,
    };
    return id_of(pb->id, &ret->id);
}

static const char *job_of(const Wsd__Pb__Job *pb, struct msg_job *ret)
{
    if (pb->id.len != sizeof(ret->id))
        return "id";
    *ret = (struct msg_job){
        .plugin = span_of(pb->plugin),
        .function = span_of(pb->function),
        .error = span_of(pb->error),
        .status = span_of(pb->status),
        .worker = span_of(pb->worker),
        .backtrace = span_of(pb->backtrace),
        .state = pb->state,
        .exit = pb->exit,
        .attempts = pb->attempts,
        .uid = pb->uid,
        .queued_usec = pb->queued_usec,
        .run_usec = pb->run_usec,
        .cpu_usec = pb->cpu_usec,
        .submitted_usec = pb->submitted_usec,
        .done = pb->done,
        .total = pb->total,
        .durable = pb->durable,
        .dead = pb->dead,
        .key = span_of(pb->key),
        .retries = pb->retries,
        .due_usec = pb->due_usec,
        .waits_for = pb->waits_for,
        .placed = pb->placed,
        .tags = span_of(pb->tags),
        .batch = span_of(pb->batch),
    };
    memcpy(ret->id, pb->id.data, sizeof(ret->id));
    return NULL;
}

static const char *finished_of(const Wsd__Pb__Finished *pb, struct msg_finished *ret)
{
    if (pb->id.len != sizeof(ret->id))
        return "id";
    *ret = (struct msg_finished){
        .plugin = span_of(pb->plugin),
        .function = span_of(pb->function),
        .worker = span_of(pb->worker),
        .attempts = pb->attempts,
        .uid = pb->uid,
        .queued_usec = pb->queued_usec,
        .run_usec = pb->run_usec,
        .cpu_usec = pb->cpu_usec,
        .submitted_usec = pb->submitted_usec,
        .placed = pb->placed,
    };
    memcpy(ret->id, pb->id.data, sizeof(ret->id));
    return NULL;
}

static const char *plugin_of(struct codec *codec, const Wsd__Pb__Plugin *pb, struct msg_plugin *ret)
{
    struct msg_function *functions;

    if (pb->n_functions > CODEC_FUNCTIONS)
        return "number of functions";
    functions = arena_alloc(codec, pb->n_functions * sizeof(*functions));
    if (!functions)
        return "number of functions";
    for (size_t i = 0; i < pb->n_functions; i++)
        functions[i] = (struct msg_function){
            .name = span_of(pb->functions[i]->name),
            .help = span_of(pb->functions[i]->help),
            .flags = pb->functions[i]->flags,
            .crashes = pb->functions[i]->crashes,
            .quarantine = pb->functions[i]->quarantine,
            .quarantine_usec = pb->functions[i]->quarantine_usec,
            .why = span_of(pb->functions[i]->why),
        };
    *ret = (struct msg_plugin){
        .name = span_of(pb->name),
        .version = span_of(pb->version),
        .help = span_of(pb->help),
        .path = span_of(pb->path),
        .error = span_of(pb->error),
        .functions = functions,
        .n_functions = pb->n_functions,
        .apart = pb->apart,
    };
    return NULL;
}

static const char *counters_of(struct codec *codec, Wsd__Pb__Counter *const *pb, size_t n,
                               const struct msg_counter **ret)
{
    struct msg_counter *counters;

    if (n > CODEC_COUNTERS)
        return "number of counters";
    counters = arena_alloc(codec, n * sizeof(*counters));
    if (!counters)
        return "number of counters";
    for (size_t i = 0; i < n; i++)
        counters[i] = (struct msg_counter){.name = span_of(pb[i]->name), .value = pb[i]->value};
    *ret = counters;
    return NULL;
}

static const char *stats_of(struct codec *codec, const Wsd__Pb__Stats *pb, struct msg_stats *ret)
{
    *ret = (struct msg_stats){.n_counters = pb->n_counters};
    return counters_of(codec, pb->counters, pb->n_counters, &ret->counters);
}

static const char *worker_of(struct codec *codec, const Wsd__Pb__Worker *pb, struct msg_worker *ret)
{
    *ret = (struct msg_worker){.executor = pb->executor,
                               .worker = pb->worker,
                               .kind = pb->kind,
                               .cpu = pb->cpu,
                               .n_counters = pb->n_counters};
    return counters_of(codec, pb->counters, pb->n_counters, &ret->counters);
}

/* Any message as protobuf-c has it. Every one begins with its base. */
union any {
    ProtobufCMessage base;
    Wsd__Pb__Hello hello;
    Wsd__Pb__Welcome welcome;
    Wsd__Pb__Submit submit;
    Wsd__Pb__Accepted accepted;
    Wsd__Pb__Chunk chunk;
    Wsd__Pb__Credit credit;
    Wsd__Pb__Progress progress;
    Wsd__Pb__Message message;
    Wsd__Pb__Job job;
    Wsd__Pb__Finished finished;
    Wsd__Pb__Error error;
    Wsd__Pb__Id id;
    Wsd__Pb__Plugins plugins;
    Wsd__Pb__Release release;
    Wsd__Pb__Gate gate;
    Wsd__Pb__GateState gate_state;
    Wsd__Pb__Limit limit;
    Wsd__Pb__Reload reload;
    Wsd__Pb__Reloaded reloaded;
    Wsd__Pb__Plugin plugin;
    Wsd__Pb__Stats stats;
    Wsd__Pb__Open open;
    Wsd__Pb__Opened opened;
    Wsd__Pb__Workers workers;
    Wsd__Pb__Executor executor;
    Wsd__Pb__Worker worker;
    Wsd__Pb__Trace trace;
    Wsd__Pb__Dead dead;
    Wsd__Pb__Schedule schedule;
    Wsd__Pb__Scheduled scheduled;
    Wsd__Pb__LaneBind lane_bind;
    Wsd__Pb__LaneBound lane_bound;
    Wsd__Pb__Filter filter;
    Wsd__Pb__Count count;
    Wsd__Pb__Batch batch;
    Wsd__Pb__BatchState batch_state;
    Wsd__Pb__Ends ends;
    Wsd__Pb__Empty empty;
};

/* Returns the field that is out of range already by its shape, or NULL. */
static const char *message_of(struct codec *codec, const ProtobufCMessage *base, struct msg *ret)
{
    const union any *pb = (const void *)base;

    switch (ret->type) {
    case FRAME_HELLO:
        ret->hello = (struct msg_hello){
            .version_min = pb->hello.version_min,
            .version_max = pb->hello.version_max,
            .features = pb->hello.features,
            .directory = span_of(pb->hello.directory),
            .program = span_of(pb->hello.program),
            .window = pb->hello.window,
        };
        return NULL;
    case FRAME_WELCOME:
        ret->welcome = (struct msg_welcome){
            .version = pb->welcome.version,
            .features = pb->welcome.features,
            .program = span_of(pb->welcome.program),
            .window = pb->welcome.window,
        };
        return NULL;
    case FRAME_SUBMIT:
    case FRAME_ARRAY:
        return submit_of(codec, &pb->submit, &ret->submit);
    case FRAME_ACCEPTED:
        if (pb->accepted.id.len != sizeof(ret->id.id) || id_of(pb->accepted.id, &ret->id))
            return "id";
        ret->id.items = pb->accepted.items;
        return NULL;
    case FRAME_BATCH:
        ret->batch = (struct msg_batch){.action = pb->batch.action, .flags = pb->batch.flags};
        return id_of(pb->batch.id, &ret->batch.id);
    case FRAME_BATCH_STATE:
        return batch_state_of(&pb->batch_state, &ret->batch_state);
    case FRAME_ENDS:
        return ends_of(&pb->ends, &ret->ends);
    case FRAME_CANCEL:
    case FRAME_AWAIT:
    case FRAME_STATUS: {
        const char *wrong = id_of(pb->id.id, &ret->id);

        ret->id.flags = pb->id.flags;
        ret->id.item = pb->id.item;
        return wrong;
    }
    case FRAME_LIST_WHERE:
    case FRAME_CANCEL_WHERE:
        ret->filter = (struct msg_filter){.states = pb->filter.states,
                                          .by_uid = pb->filter.by_uid,
                                          .uid = pb->filter.uid,
                                          .plugin = span_of(pb->filter.plugin),
                                          .function = span_of(pb->filter.function),
                                          .newer_usec = pb->filter.newer_usec,
                                          .older_usec = pb->filter.older_usec,
                                          .limit = pb->filter.limit,
                                          .batch = span_of(pb->filter.batch)};
        return NULL;
    case FRAME_COUNT:
        ret->count = (struct msg_count){.n = pb->count.n};
        return NULL;
    case FRAME_INPUT:
    case FRAME_OUTPUT:
    case FRAME_PIECE:
        ret->chunk = (struct msg_chunk){.offset = pb->chunk.offset, .last = pb->chunk.last};
        return NULL;
    case FRAME_CREDIT:
        ret->credit = (struct msg_credit){.bytes = pb->credit.bytes, .item = pb->credit.item};
        return NULL;
    case FRAME_PROGRESS:
        ret->progress = (struct msg_progress){.done = pb->progress.done, .total = pb->progress.total, .item = pb->progress.item};
        return NULL;
    case FRAME_MESSAGE:
        ret->message = (struct msg_message){
            .level = pb->message.level, .text = span_of(pb->message.text), .item = pb->message.item};
        return NULL;
    case FRAME_JOB:
    case FRAME_DONE:
        return job_of(&pb->job, &ret->job);
    case FRAME_FINISHED:
        return finished_of(&pb->finished, &ret->finished);
    case FRAME_ERROR:
    case FRAME_GOODBYE:
    case FRAME_LANE_LOST:
        ret->error = (struct msg_error){.code = pb->error.code,
                                        .text = span_of(pb->error.text),
                                        .retry_usec = pb->error.retry_usec,
                                        .accepted = pb->error.accepted};
        return NULL;
    case FRAME_PLUGINS:
        ret->plugins = (struct msg_plugins){.name = span_of(pb->plugins.name)};
        return NULL;
    case FRAME_RELEASE:
        ret->release =
            (struct msg_release){.name = span_of(pb->release.name), .function = span_of(pb->release.function)};
        return NULL;
    case FRAME_RELOAD:
        ret->reload = (struct msg_reload){.name = span_of(pb->reload.name)};
        return NULL;
    case FRAME_GATE:
        ret->gate = (struct msg_gate){.action = pb->gate.action,
                                      .plugin = span_of(pb->gate.plugin),
                                      .function = span_of(pb->gate.function),
                                      .tag = span_of(pb->gate.tag),
                                      .limit = pb->gate.limit};
        return NULL;
    case FRAME_LIMIT:
    case FRAME_LIMIT_STATE:
        ret->limit = (struct msg_limit){.flags = pb->limit.flags,
                                        .uid = pb->limit.uid,
                                        .key = span_of(pb->limit.key),
                                        .value = span_of(pb->limit.value),
                                        .by = pb->limit.by};
        return NULL;
    case FRAME_GATE_STATE:
        ret->gate_state = (struct msg_gate_state){.plugin = span_of(pb->gate_state.plugin),
                                                  .function = span_of(pb->gate_state.function),
                                                  .tag = span_of(pb->gate_state.tag),
                                                  .flags = pb->gate_state.flags,
                                                  .limit = pb->gate_state.limit,
                                                  .running = pb->gate_state.running,
                                                  .waiting = pb->gate_state.waiting};
        return NULL;
    case FRAME_RELOADED:
        ret->reloaded = (struct msg_reloaded){
            .outcome = pb->reloaded.outcome,
            .uid = pb->reloaded.uid,
            .code = pb->reloaded.code,
            .name = span_of(pb->reloaded.name),
            .path = span_of(pb->reloaded.path),
            .version = span_of(pb->reloaded.version),
            .build = span_of(pb->reloaded.build),
            .old_version = span_of(pb->reloaded.old_version),
            .old_build = span_of(pb->reloaded.old_build),
            .error = span_of(pb->reloaded.error),
        };
        return NULL;
    case FRAME_PLUGIN:
        return plugin_of(codec, &pb->plugin, &ret->plugin);
    case FRAME_COUNTERS:
        return stats_of(codec, &pb->stats, &ret->stats);
    case FRAME_OPEN:
        ret->open = (struct msg_open){.serial = pb->open.serial, .path = span_of(pb->open.path), .item = pb->open.item};
        return NULL;
    case FRAME_OPENED:
        ret->opened = (struct msg_opened){.serial = pb->opened.serial, .error = pb->opened.error, .item = pb->opened.item};
        return NULL;
    case FRAME_WORKERS:
        ret->workers = (struct msg_workers){.set = pb->workers.set};
        return NULL;
    case FRAME_LANE_BIND:
        ret->lane_bind = (struct msg_lane_bind){.lane = pb->lane_bind.lane,
                                                .plugin = span_of(pb->lane_bind.plugin),
                                                .function = span_of(pb->lane_bind.function)};
        return NULL;
    case FRAME_LANE_BOUND:
        ret->lane_bound =
            (struct msg_lane_bound){.number = pb->lane_bound.number, .flags = pb->lane_bound.flags};
        return NULL;
    case FRAME_TRACE:
        ret->trace = (struct msg_trace){.action = pb->trace.action};
        return NULL;
    case FRAME_EXECUTOR:
        ret->executor = (struct msg_executor){.executor = pb->executor.executor,
                                              .uid = pb->executor.uid,
                                              .workers = pb->executor.workers,
                                              .error = pb->executor.error,
                                              .lost = pb->executor.lost};
        return NULL;
    case FRAME_WORKER:
        return worker_of(codec, &pb->worker, &ret->worker);
    case FRAME_SCHEDULE:
        return schedule_of(codec, &pb->schedule, &ret->schedule);
    case FRAME_SCHEDULED:
        return scheduled_of(&pb->scheduled, &ret->scheduled);
    case FRAME_DEAD:
        ret->dead = (struct msg_dead){.action = pb->dead.action};
        return id_of(pb->dead.id, &ret->dead.id);
    default:
        return NULL;
    }
}

int codec_decode(struct codec *codec, const struct frame *frame, struct msg *ret_msg)
{
    const struct type_info *type = type_find(frame->type);
    struct msg msg = {.type = frame->type};
    const ProtobufCMessage *pb;
    const char *field;

    if (!type) {
        snprintf(codec->error, sizeof(codec->error), "no frame type %u", frame->type);
        return CODEC_E_TYPE;
    }
    codec->used = 0;
    pb = type->flat ? flat_unpack(type->descriptor, &codec->allocator, frame->header_size, frame->header)
                    : protobuf_c_message_unpack(type->descriptor, &codec->allocator, frame->header_size, frame->header);
    if (!pb) {
        snprintf(codec->error, sizeof(codec->error), "%s: cannot be read", type->name);
        return CODEC_E_BYTES;
    }
    field = message_of(codec, pb, &msg);
    if (!field)
        field = check_message(&msg, frame->body_size);
    if (!field)
        field = check_records(&msg, frame);
    if (field) {
        snprintf(codec->error, sizeof(codec->error), "%s: %s is out of range", type->name, field);
        return CODEC_E_LIMIT;
    }
    codec->error[0] = 0;
    *ret_msg = msg;
    return 0;
}

/* --- into protobuf's structs, which point at the caller's bytes --------------------------------------------------- */

static ProtobufCBinaryData bytes_of(struct span s)
{
    return (ProtobufCBinaryData){.len = s.size, .data = (uint8_t *)(uintptr_t)s.data};
}

static ProtobufCBinaryData id_bytes(const uint8_t id[16])
{
    return (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)(uintptr_t)id};
}

static void put_job(const struct msg_job *m, Wsd__Pb__Job *ret)
{
    wsd__pb__job__init(ret);
    ret->id = id_bytes(m->id);
    ret->plugin = bytes_of(m->plugin);
    ret->function = bytes_of(m->function);
    ret->state = m->state;
    ret->exit = m->exit;
    ret->error = bytes_of(m->error);
    ret->status = bytes_of(m->status);
    ret->worker = bytes_of(m->worker);
    ret->backtrace = bytes_of(m->backtrace);
    ret->attempts = m->attempts;
    ret->uid = m->uid;
    ret->queued_usec = m->queued_usec;
    ret->run_usec = m->run_usec;
    ret->cpu_usec = m->cpu_usec;
    ret->submitted_usec = m->submitted_usec;
    ret->done = m->done;
    ret->total = m->total;
    ret->durable = m->durable;
    ret->dead = m->dead;
    ret->key = bytes_of(m->key);
    ret->retries = m->retries;
    ret->due_usec = m->due_usec;
    ret->waits_for = m->waits_for;
    ret->placed = m->placed;
    ret->tags = bytes_of(m->tags);
    ret->batch = bytes_of(m->batch);
}

static void put_finished(const struct msg_finished *m, Wsd__Pb__Finished *ret)
{
    wsd__pb__finished__init(ret);
    ret->id = id_bytes(m->id);
    ret->plugin = bytes_of(m->plugin);
    ret->function = bytes_of(m->function);
    ret->worker = bytes_of(m->worker);
    ret->attempts = m->attempts;
    ret->uid = m->uid;
    ret->queued_usec = m->queued_usec;
    ret->run_usec = m->run_usec;
    ret->cpu_usec = m->cpu_usec;
    ret->placed = m->placed;
    ret->submitted_usec = m->submitted_usec;
}

/* The arguments are not in it: see put_args(). */
static void put_schedule(const struct msg_schedule *m, Wsd__Pb__Schedule *ret)
{
    wsd__pb__schedule__init(ret);
    ret->action = m->action;
    ret->name = bytes_of(m->name);
    ret->calendar = bytes_of(m->calendar);
    ret->persistent = m->persistent;
    ret->plugin = bytes_of(m->job.plugin);
    ret->function = bytes_of(m->job.function);
    ret->timeout_usec = m->job.timeout_usec;
    ret->priority = m->job.priority;
    ret->flags = m->job.flags;
    ret->retries = m->job.retries;
    ret->retry_usec = m->job.retry_usec;
    ret->retry_on = m->job.retry_on;
    ret->queue_usec = m->job.queue_usec;
}

static void put_scheduled(const struct msg_scheduled *m, Wsd__Pb__Scheduled *ret)
{
    wsd__pb__scheduled__init(ret);
    ret->name = bytes_of(m->name);
    ret->calendar = bytes_of(m->calendar);
    ret->plugin = bytes_of(m->plugin);
    ret->function = bytes_of(m->function);
    ret->error = bytes_of(m->error);
    ret->uid = m->uid;
    ret->flags = m->flags;
    ret->state = m->state;
    ret->exit = m->exit;
    ret->next_usec = m->next_usec;
    ret->ran_usec = m->ran_usec;
    ret->runs = m->runs;
    ret->skipped = m->skipped;
    if (m->id.has_id)
        ret->id = id_bytes(m->id.id);
}

/* The arguments are not in it: see put_args(). */
static void put_submit(const struct msg_submit *m, Wsd__Pb__Submit *ret)
{
    wsd__pb__submit__init(ret);
    ret->plugin = bytes_of(m->plugin);
    ret->function = bytes_of(m->function);
    ret->timeout_usec = m->timeout_usec;
    ret->priority = m->priority;
    ret->flags = m->flags;
    ret->key = bytes_of(m->key);
    ret->retries = m->retries;
    ret->retry_usec = m->retry_usec;
    ret->retry_on = m->retry_on;
    ret->delay_usec = m->delay_usec;
    ret->at_usec = m->at_usec;
    ret->queue_usec = m->queue_usec;
    ret->after = bytes_of(m->after);
    ret->after_any = bytes_of(m->after_any);
    ret->tags = bytes_of(m->tags);
    ret->input_from = m->input_from;
    ret->input_offset = m->input_offset;
    ret->input_size = m->input_size;
    ret->arena = m->arena;
    ret->output_offset = m->output_offset;
    ret->output_size = m->output_size;
    ret->batch = m->batch;
    ret->items = m->items;
}

static void put_batch_state(const struct msg_batch_state *m, Wsd__Pb__BatchState *ret)
{
    wsd__pb__batch_state__init(ret);
    ret->id = id_bytes(m->id);
    ret->uid = m->uid;
    ret->flags = m->flags;
    ret->total = m->total;
    ret->queued = m->queued;
    ret->running = m->running;
    ret->done = m->done;
    ret->failed = m->failed;
    ret->exit = m->exit;
    ret->submitted_usec = m->submitted_usec;
}

static void put_ends(const struct msg_ends *m, Wsd__Pb__Ends *ret)
{
    wsd__pb__ends__init(ret);
    ret->id = id_bytes(m->id);
    ret->plugin = bytes_of(m->plugin);
    ret->function = bytes_of(m->function);
    ret->uid = m->uid;
    ret->submitted_usec = m->submitted_usec;
    ret->records = m->records;
    ret->last = m->last;
}

static void put_handshake(const struct msg *msg, union any *ret)
{
    if (msg->type == FRAME_HELLO) {
        wsd__pb__hello__init(&ret->hello);
        ret->hello.version_min = msg->hello.version_min;
        ret->hello.version_max = msg->hello.version_max;
        ret->hello.features = msg->hello.features;
        ret->hello.directory = bytes_of(msg->hello.directory);
        ret->hello.program = bytes_of(msg->hello.program);
        ret->hello.window = msg->hello.window;
    } else {
        wsd__pb__welcome__init(&ret->welcome);
        ret->welcome.version = msg->welcome.version;
        ret->welcome.features = msg->welcome.features;
        ret->welcome.program = bytes_of(msg->welcome.program);
        ret->welcome.window = msg->welcome.window;
    }
}

/* Messages without parts of variable number. */
static void put_flat(const struct msg *msg, union any *ret)
{
    switch (msg->type) {
    case FRAME_HELLO:
    case FRAME_WELCOME:
        put_handshake(msg, ret);
        break;
    case FRAME_SUBMIT:
    case FRAME_ARRAY:
        put_submit(&msg->submit, &ret->submit);
        break;
    case FRAME_ACCEPTED:
        wsd__pb__accepted__init(&ret->accepted);
        ret->accepted.id = id_bytes(msg->id.id);
        ret->accepted.items = msg->id.items;
        break;
    case FRAME_BATCH:
        wsd__pb__batch__init(&ret->batch);
        ret->batch.action = msg->batch.action;
        if (msg->batch.id.has_id)
            ret->batch.id = id_bytes(msg->batch.id.id);
        ret->batch.flags = msg->batch.flags;
        break;
    case FRAME_BATCH_STATE:
        put_batch_state(&msg->batch_state, &ret->batch_state);
        break;
    case FRAME_ENDS:
        put_ends(&msg->ends, &ret->ends);
        break;
    case FRAME_CANCEL:
    case FRAME_AWAIT:
    case FRAME_STATUS:
        wsd__pb__id__init(&ret->id);
        if (msg->id.has_id)
            ret->id.id = id_bytes(msg->id.id);
        ret->id.flags = msg->id.flags;
        ret->id.item = msg->id.item;
        break;
    case FRAME_LIST_WHERE:
    case FRAME_CANCEL_WHERE:
        wsd__pb__filter__init(&ret->filter);
        ret->filter.states = msg->filter.states;
        ret->filter.by_uid = msg->filter.by_uid;
        ret->filter.uid = msg->filter.uid;
        ret->filter.plugin = bytes_of(msg->filter.plugin);
        ret->filter.function = bytes_of(msg->filter.function);
        ret->filter.newer_usec = msg->filter.newer_usec;
        ret->filter.older_usec = msg->filter.older_usec;
        ret->filter.limit = msg->filter.limit;
        ret->filter.batch = bytes_of(msg->filter.batch);
        break;
    case FRAME_COUNT:
        wsd__pb__count__init(&ret->count);
        ret->count.n = msg->count.n;
        break;
    case FRAME_INPUT:
    case FRAME_OUTPUT:
    case FRAME_PIECE:
        wsd__pb__chunk__init(&ret->chunk);
        ret->chunk.offset = msg->chunk.offset;
        ret->chunk.last = msg->chunk.last;
        break;
    case FRAME_CREDIT:
        wsd__pb__credit__init(&ret->credit);
        ret->credit.bytes = msg->credit.bytes;
        ret->credit.item = msg->credit.item;
        break;
    case FRAME_PROGRESS:
        wsd__pb__progress__init(&ret->progress);
        ret->progress.done = msg->progress.done;
        ret->progress.total = msg->progress.total;
        ret->progress.item = msg->progress.item;
        break;
    case FRAME_MESSAGE:
        wsd__pb__message__init(&ret->message);
        ret->message.level = msg->message.level;
        ret->message.text = bytes_of(msg->message.text);
        ret->message.item = msg->message.item;
        break;
    case FRAME_JOB:
    case FRAME_DONE:
        put_job(&msg->job, &ret->job);
        break;
    case FRAME_FINISHED:
        put_finished(&msg->finished, &ret->finished);
        break;
    case FRAME_ERROR:
    case FRAME_GOODBYE:
    case FRAME_LANE_LOST:
        wsd__pb__error__init(&ret->error);
        ret->error.code = msg->error.code;
        ret->error.text = bytes_of(msg->error.text);
        ret->error.retry_usec = msg->error.retry_usec;
        ret->error.accepted = msg->error.accepted;
        break;
    case FRAME_PLUGINS:
        wsd__pb__plugins__init(&ret->plugins);
        ret->plugins.name = bytes_of(msg->plugins.name);
        break;
    case FRAME_RELEASE:
        wsd__pb__release__init(&ret->release);
        ret->release.name = bytes_of(msg->release.name);
        ret->release.function = bytes_of(msg->release.function);
        break;
    case FRAME_RELOAD:
        wsd__pb__reload__init(&ret->reload);
        ret->reload.name = bytes_of(msg->reload.name);
        break;
    case FRAME_GATE:
        wsd__pb__gate__init(&ret->gate);
        ret->gate.action = msg->gate.action;
        ret->gate.plugin = bytes_of(msg->gate.plugin);
        ret->gate.function = bytes_of(msg->gate.function);
        ret->gate.limit = msg->gate.limit;
        ret->gate.tag = bytes_of(msg->gate.tag);
        break;
    case FRAME_LIMIT:
    case FRAME_LIMIT_STATE:
        wsd__pb__limit__init(&ret->limit);
        ret->limit.flags = msg->limit.flags;
        ret->limit.uid = msg->limit.uid;
        ret->limit.key = bytes_of(msg->limit.key);
        ret->limit.value = bytes_of(msg->limit.value);
        ret->limit.by = msg->limit.by;
        break;
    case FRAME_GATE_STATE:
        wsd__pb__gate_state__init(&ret->gate_state);
        ret->gate_state.plugin = bytes_of(msg->gate_state.plugin);
        ret->gate_state.function = bytes_of(msg->gate_state.function);
        ret->gate_state.tag = bytes_of(msg->gate_state.tag);
        ret->gate_state.flags = msg->gate_state.flags;
        ret->gate_state.limit = msg->gate_state.limit;
        ret->gate_state.running = msg->gate_state.running;
        ret->gate_state.waiting = msg->gate_state.waiting;
        break;
    case FRAME_RELOADED:
        wsd__pb__reloaded__init(&ret->reloaded);
        ret->reloaded.outcome = msg->reloaded.outcome;
        ret->reloaded.uid = msg->reloaded.uid;
        ret->reloaded.code = msg->reloaded.code;
        ret->reloaded.name = bytes_of(msg->reloaded.name);
        ret->reloaded.path = bytes_of(msg->reloaded.path);
        ret->reloaded.version = bytes_of(msg->reloaded.version);
        ret->reloaded.build = bytes_of(msg->reloaded.build);
        ret->reloaded.old_version = bytes_of(msg->reloaded.old_version);
        ret->reloaded.old_build = bytes_of(msg->reloaded.old_build);
        ret->reloaded.error = bytes_of(msg->reloaded.error);
        break;
    case FRAME_OPEN:
        wsd__pb__open__init(&ret->open);
        ret->open.serial = msg->open.serial;
        ret->open.path = bytes_of(msg->open.path);
        ret->open.item = msg->open.item;
        break;
    case FRAME_OPENED:
        wsd__pb__opened__init(&ret->opened);
        ret->opened.serial = msg->opened.serial;
        ret->opened.error = msg->opened.error;
        ret->opened.item = msg->opened.item;
        break;
    case FRAME_WORKERS:
        wsd__pb__workers__init(&ret->workers);
        ret->workers.set = msg->workers.set;
        break;
    case FRAME_LANE_BIND:
        wsd__pb__lane_bind__init(&ret->lane_bind);
        ret->lane_bind.lane = msg->lane_bind.lane;
        ret->lane_bind.plugin = bytes_of(msg->lane_bind.plugin);
        ret->lane_bind.function = bytes_of(msg->lane_bind.function);
        break;
    case FRAME_LANE_BOUND:
        wsd__pb__lane_bound__init(&ret->lane_bound);
        ret->lane_bound.number = msg->lane_bound.number;
        ret->lane_bound.flags = msg->lane_bound.flags;
        break;
    case FRAME_TRACE:
        wsd__pb__trace__init(&ret->trace);
        ret->trace.action = msg->trace.action;
        break;
    case FRAME_DEAD:
        wsd__pb__dead__init(&ret->dead);
        ret->dead.action = msg->dead.action;
        if (msg->dead.id.has_id)
            ret->dead.id = id_bytes(msg->dead.id.id);
        break;
    case FRAME_SCHEDULE:
        put_schedule(&msg->schedule, &ret->schedule);
        break;
    case FRAME_SCHEDULED:
        put_scheduled(&msg->scheduled, &ret->scheduled);
        break;
    case FRAME_EXECUTOR:
        wsd__pb__executor__init(&ret->executor);
        ret->executor.executor = msg->executor.executor;
        ret->executor.uid = msg->executor.uid;
        ret->executor.workers = msg->executor.workers;
        ret->executor.error = msg->executor.error;
        ret->executor.lost = msg->executor.lost;
        break;
    default:
        wsd__pb__empty__init(&ret->empty);
    }
}

/* ret NULL: only counts. */
static size_t pack(const ProtobufCMessage *pb, uint8_t *ret)
{
    return ret ? protobuf_c_message_pack(pb, ret) : protobuf_c_message_get_packed_size(pb);
}

static size_t put_plugin(const struct msg_plugin *m, uint8_t *ret)
{
    Wsd__Pb__Function functions[CODEC_FUNCTIONS], *pointers[CODEC_FUNCTIONS];
    Wsd__Pb__Plugin pb;

    wsd__pb__plugin__init(&pb);
    pb.name = bytes_of(m->name);
    pb.version = bytes_of(m->version);
    pb.help = bytes_of(m->help);
    pb.path = bytes_of(m->path);
    pb.error = bytes_of(m->error);
    pb.n_functions = m->n_functions;
    pb.apart = m->apart;
    pb.functions = pointers;
    for (size_t i = 0; i < m->n_functions; i++) {
        wsd__pb__function__init(&functions[i]);
        functions[i].name = bytes_of(m->functions[i].name);
        functions[i].help = bytes_of(m->functions[i].help);
        functions[i].flags = m->functions[i].flags;
        functions[i].crashes = m->functions[i].crashes;
        functions[i].quarantine = m->functions[i].quarantine;
        functions[i].quarantine_usec = m->functions[i].quarantine_usec;
        functions[i].why = bytes_of(m->functions[i].why);
        pointers[i] = &functions[i];
    }
    return pack(&pb.base, ret);
}

/* Counters with an array of pointers to them, as protobuf-c wants them. */
struct pb_counters {
    Wsd__Pb__Counter counters[CODEC_COUNTERS], *pointers[CODEC_COUNTERS];
};

static Wsd__Pb__Counter **put_counters(const struct msg_counter *counters, size_t n, struct pb_counters *ret)
{
    for (size_t i = 0; i < n; i++) {
        wsd__pb__counter__init(&ret->counters[i]);
        ret->counters[i].name = bytes_of(counters[i].name);
        ret->counters[i].value = counters[i].value;
        ret->pointers[i] = &ret->counters[i];
    }
    return ret->pointers;
}

static size_t put_stats(const struct msg_stats *m, uint8_t *ret)
{
    struct pb_counters counters;
    Wsd__Pb__Stats pb;

    wsd__pb__stats__init(&pb);
    pb.n_counters = m->n_counters;
    pb.counters = put_counters(m->counters, m->n_counters, &counters);
    return pack(&pb.base, ret);
}

static size_t put_worker(const struct msg_worker *m, uint8_t *ret)
{
    struct pb_counters counters;
    Wsd__Pb__Worker pb;

    wsd__pb__worker__init(&pb);
    pb.executor = m->executor;
    pb.worker = m->worker;
    pb.kind = m->kind;
    pb.cpu = m->cpu;
    pb.n_counters = m->n_counters;
    pb.counters = put_counters(m->counters, m->n_counters, &counters);
    return pack(&pb.base, ret);
}

/* The arguments by hand, behind the packed rest: protobuf-c wants an array of 16 bytes for each argument, which is 64 KiB
 * of stack or a malloc. Fields may come in any order. ret NULL: only counts. */
static size_t put_args(struct span args, uint8_t *ret)
{
    const uint8_t key = 3 << 3 | 2; /* field 3, length-delimited */
    size_t n = 0;

    for (size_t at = 0, size; at < args.size; at += size + 1) {
        size = strlen(args.data + at); /* each ends in NUL: check_args() */
        if (ret)
            ret[n] = key;
        n++;
        for (size_t rest = size;; rest >>= 7) {
            if (ret)
                ret[n] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
            n++;
            if (rest <= 0x7f)
                break;
        }
        if (ret)
            memcpy(ret + n, args.data + at, size);
        n += size;
    }
    return n;
}

/* ret NULL: only counts. */
static size_t put_message(const struct msg *msg, uint8_t *ret)
{
    union any pb;
    size_t n;

    if (msg->type == FRAME_PLUGIN)
        return put_plugin(&msg->plugin, ret);
    if (msg->type == FRAME_COUNTERS)
        return put_stats(&msg->stats, ret);
    if (msg->type == FRAME_WORKER)
        return put_worker(&msg->worker, ret);
    put_flat(msg, &pb);
    n = ret && types[msg->type].flat ? flat_pack(&pb.base, ret) : pack(&pb.base, ret);
    if (msg->type == FRAME_SUBMIT || msg->type == FRAME_SCHEDULE) /* the same field of both */
        n += put_args(msg->type == FRAME_SUBMIT ? msg->submit.args : msg->schedule.job.args, ret ? ret + n : NULL);
    return n;
}

const char *codec_problem(const struct msg *msg)
{
    return type_find(msg->type) ? check_message(msg, 0) : "type";
}

const char *codec_type_name(uint16_t type)
{
    return type_find(type) ? types[type].name : "?";
}

size_t codec_size(const struct msg *msg)
{
    if (!type_find(msg->type) || check_message(msg, 0))
        return 0;
    return FRAME_HEADER_SIZE + put_message(msg, NULL);
}

/* At most so many bytes has the protobuf header of a message of the hot path; 0: not one of these. Each field takes at most 16 bytes
 * beside the bytes of a span, all of which have to stand here. */
static size_t most(const struct msg *msg)
{
    size_t fields = 64 + (size_t)types[msg->type].descriptor->n_fields * 16;
    const struct msg_submit *s = &msg->submit;
    const struct msg_job *j = &msg->job;

    switch (msg->type) {
    case FRAME_SUBMIT:
    case FRAME_ARRAY: /* an argument: up to four bytes before it, and its NUL, which is not sent */
        return fields + s->plugin.size + s->function.size + s->key.size + s->after.size + s->after_any.size + s->tags.size +
               s->args.size + (size_t)s->argc * 3;
    case FRAME_JOB:
    case FRAME_DONE:
        return fields + j->plugin.size + j->function.size + j->error.size + j->status.size + j->worker.size +
               j->backtrace.size + j->key.size + j->tags.size + j->batch.size;
    case FRAME_FINISHED:
        return fields + msg->finished.plugin.size + msg->finished.function.size + msg->finished.worker.size;
    case FRAME_ENDS:
        return fields + msg->ends.plugin.size + msg->ends.function.size;
    case FRAME_ACCEPTED:
    case FRAME_INPUT:
    case FRAME_OUTPUT:
    case FRAME_CREDIT:
        return fields;
    default:
        return 0;
    }
}

size_t codec_room(const struct msg *msg)
{
    size_t n = most(msg);

    return n ? FRAME_HEADER_SIZE + n : codec_size(msg);
}

size_t codec_encode(const struct msg *msg, uint32_t tag, size_t body_size, uint8_t *ret, size_t room)
{
    size_t n, enough;

    if (!type_find(msg->type) || body_size > FRAME_PAYLOAD_MAX || check_message(msg, body_size))
        return 0;
    enough = most(msg);
    if (!enough || enough + FRAME_HEADER_SIZE > room) {
        n = put_message(msg, NULL);
        if (n > FRAME_PAYLOAD_MAX - body_size || n + FRAME_HEADER_SIZE > room)
            return 0;
    }
    n = put_message(msg, ret + FRAME_HEADER_SIZE);
    assert(n + FRAME_HEADER_SIZE <= room);
    if (n > FRAME_PAYLOAD_MAX - body_size)
        return 0;
    frame_put_header(ret, msg->type, tag, (uint32_t)n, (uint32_t)body_size);
    return FRAME_HEADER_SIZE + n;
}
