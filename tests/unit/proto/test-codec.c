/* SPDX-License-Identifier: Apache-2.0
 *
 * test-codec.c: every message there and back, every limit below, at and above, and bytes that must not be sent.
 * Limits are tested on the way in with bytes written by hand (struct wire), since codec_encode() would refuse them. */
#include "base/cleanup.h"
#include "proto/codec.h"
#include "proto/fields.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct codec *codec;
static uint8_t buffer[FRAME_MAX];

static void setup(void)
{
    ck_assert_int_eq(codec_new(&codec), 0);
}

static void teardown(void)
{
    codec = codec_free(codec);
}

/* --- protobuf by hand -------------------------------------------------------------------------------------------- */

struct wire {
    size_t size;
    uint8_t data[FRAME_PAYLOAD_MAX + 1024];
};

static struct wire wire;

static void put_varint(uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        wire.data[wire.size++] = (uint8_t)(value | 0x80);
    wire.data[wire.size++] = (uint8_t)value;
}

static void put_number(unsigned field, uint64_t value)
{
    put_varint(field << 3);
    put_varint(value);
}

static void put_bytes(unsigned field, const void *data, size_t size)
{
    put_varint(field << 3 | 2);
    put_varint(size);
    memcpy(wire.data + wire.size, data, size);
    wire.size += size;
}

/* `size` times the letter x. */
static void put_text(unsigned field, size_t size)
{
    static char text[FRAME_MAX];

    memset(text, 'x', sizeof(text));
    put_bytes(field, text, size);
}

static void put_id(unsigned field)
{
    put_bytes(field, "0123456789abcdef", 16);
}

/* Decodes the wire as a frame of this type, and starts the next one. */
static int decode(uint16_t type, size_t body_size, struct msg *ret)
{
    uint8_t *exact = malloc(wire.size ? wire.size : 1);
    struct frame frame = {
        .type = type,
        .tag = 1,
        .header_size = (uint32_t)wire.size,
        .body_size = (uint32_t)body_size,
        .header = exact,
        .body = exact + wire.size,
    };
    int r;

    memcpy(exact, wire.data, wire.size);
    memset(ret, 0xaa, sizeof(*ret));
    r = codec_decode(codec, &frame, ret);
    free(exact); /* what was decoded must not point into it */
    wire.size = 0;
    if (r > 0)
        ck_assert_uint_gt(strlen(codec_strerror(codec)), 0);
    return r;
}

static int answer(uint16_t type)
{
    struct msg msg;

    return decode(type, 0, &msg);
}

/* --- there and back ---------------------------------------------------------------------------------------------- */

static struct span span(const char *text)
{
    return (struct span){.data = text, .size = strlen(text)};
}

static void assert_span(struct span s, const char *text)
{
    ck_assert_uint_eq(s.size, strlen(text));
    ck_assert_mem_eq(s.data, text, s.size + 1); /* with its NUL */
}

/* 0: it cannot be encoded. */
static size_t encoded_size(const struct msg *msg)
{
    static uint8_t bytes[FRAME_MAX];

    return codec_encode(msg, 1, 0, bytes, sizeof(bytes));
}

static struct msg round_trip(const struct msg *msg, uint32_t tag, size_t body_size)
{
    size_t size = encoded_size(msg), n;
    struct frame frame;
    struct msg ret;

    ck_assert_uint_ge(size, FRAME_HEADER_SIZE);
    ck_assert_uint_eq(codec_encode(msg, tag, body_size, buffer, size - 1), 0);
    ck_assert_uint_ge(codec_room(msg), size);
    if (codec_room(msg) <= sizeof(buffer))
        ck_assert_uint_eq(codec_encode(msg, tag, body_size, buffer, codec_room(msg)), size);
    ck_assert_uint_eq(codec_encode(msg, tag, body_size, buffer, size), size);
    memset(buffer + size, 'b', body_size);
    ck_assert_int_eq(frame_parse(buffer, size + body_size, &frame, &n), 0);
    ck_assert_uint_eq(n, size + body_size);
    ck_assert_uint_eq(frame.tag, tag);
    ck_assert_uint_eq(frame.body_size, body_size);
    ck_assert_int_eq(codec_decode(codec, &frame, &ret), 0);
    ck_assert_uint_eq(ret.type, msg->type);
    memset(buffer, 0xee, size + body_size); /* what was decoded must not point into it */
    return ret;
}

#define TRACEPARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

START_TEST(every_table_goes_with_its_descriptor)
{
    for (uint16_t type = 0; type < 256; type++)
        ck_assert_msg(!codec_message(type) || message_fits(codec_message(type)), "%s", codec_type_name(type));
}
END_TEST

START_TEST(hello_and_welcome_survive)
{
    struct msg m = {.type = FRAME_HELLO,
                    .hello = {1, 3, 1ull << 63, span("/home/\xff ä"), span("wsctl 1"), 1 << 20, span("alice")}};
    struct msg r = round_trip(&m, 0, 0);

    ck_assert_uint_eq(r.hello.version_min, 1);
    ck_assert_uint_eq(r.hello.version_max, 3);
    ck_assert_uint_eq(r.hello.features, 1ull << 63);
    assert_span(r.hello.directory, "/home/\xff ä");
    assert_span(r.hello.program, "wsctl 1");
    ck_assert_uint_eq(r.hello.window, 1 << 20);
    assert_span(r.hello.user, "alice");

    m = (struct msg){.type = FRAME_WELCOME, .welcome = {2, 5, span("wsd 1"), UINT32_MAX}};
    r = round_trip(&m, 0, 0);
    ck_assert_uint_eq(r.welcome.version, 2);
    ck_assert_uint_eq(r.welcome.features, 5);
    assert_span(r.welcome.program, "wsd 1");
    ck_assert_uint_eq(r.welcome.window, UINT32_MAX);
}
END_TEST

START_TEST(submit_survives)
{
    static const char args[] = "one\0\0three \xff\0"; /* the second is empty */
    struct msg m = {.type = FRAME_SUBMIT,
                    .submit = {span("./my.so"), span("f"), {args, sizeof(args) - 1}, 3, UINT64_MAX, -100, 7}};
    struct msg r = round_trip(&m, 77, 1000);

    assert_span(r.submit.plugin, "./my.so");
    assert_span(r.submit.function, "f");
    ck_assert_uint_eq(r.submit.argc, 3);
    ck_assert_uint_eq(r.submit.args.size, sizeof(args) - 1);
    ck_assert_mem_eq(r.submit.args.data, args, sizeof(args) - 1);
    ck_assert_uint_eq(r.submit.timeout_usec, UINT64_MAX);
    ck_assert_int_eq(r.submit.priority, -100);
    ck_assert_uint_eq(r.submit.flags, 7);
}
END_TEST

START_TEST(finished_survives)
{
    struct msg m = {.type = FRAME_FINISHED,
                    .finished = {.plugin = span("p"),
                                 .function = span("f"),
                                 .worker = span("1.0"),
                                 .attempts = UINT32_MAX,
                                 .uid = UINT32_MAX,
                                 .queued_usec = UINT64_MAX,
                                 .run_usec = UINT64_MAX - 1,
                                 .cpu_usec = UINT64_MAX - 2,
                                 .submitted_usec = UINT64_MAX - 3}};

    m.finished.id[3] = 7;
    struct msg r = round_trip(&m, UINT32_MAX, 1000);
    ck_assert_mem_eq(r.finished.id, m.finished.id, 16);
    assert_span(r.finished.plugin, "p");
    assert_span(r.finished.function, "f");
    assert_span(r.finished.worker, "1.0");
    ck_assert(r.finished.attempts == UINT32_MAX && r.finished.uid == UINT32_MAX);
    ck_assert(r.finished.queued_usec == UINT64_MAX && r.finished.run_usec == UINT64_MAX - 1);
    ck_assert(r.finished.cpu_usec == UINT64_MAX - 2 && r.finished.submitted_usec == UINT64_MAX - 3);
}
END_TEST

START_TEST(promises_survive)
{
    struct msg m = {.type = FRAME_SUBMIT,
                    .submit = {.plugin = span("p"),
                               .flags = SUBMIT_DURABLE,
                               .key = span("k\xff"),
                               .traceparent = span(TRACEPARENT),
                               .retries = CODEC_RETRIES_MAX,
                               .retry_on = CODEC_RETRY_ON,
                               .retry_usec = CODEC_RETRY_MAX}};
    struct msg r = round_trip(&m, 1, 0);

    ck_assert_uint_eq(r.submit.flags, SUBMIT_DURABLE);
    assert_span(r.submit.key, "k\xff");
    assert_span(r.submit.traceparent, TRACEPARENT);
    ck_assert_uint_eq(r.submit.retries, CODEC_RETRIES_MAX);
    ck_assert_uint_eq(r.submit.retry_on, CODEC_RETRY_ON);
    ck_assert_uint_eq(r.submit.retry_usec, CODEC_RETRY_MAX);
    m.submit.retry_on = 1u << CODEC_STATE_FINAL; /* a success is not retried */
    ck_assert_uint_eq(encoded_size(&m), 0);

    m = (struct msg){.type = FRAME_JOB,
                     .job = {.state = 2, .durable = true, .dead = true, .key = span("k"), .retries = 3, .due_usec = 4}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.job.durable && r.job.dead && r.job.retries == 3 && r.job.due_usec == 4);
    assert_span(r.job.key, "k");

    m = (struct msg){.type = FRAME_DEAD, .dead = {.action = DEAD_LIST}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).dead.action, DEAD_LIST);
    m.dead.id.has_id = true;
    ck_assert_uint_eq(encoded_size(&m), 0); /* of all */
    for (m.dead.action = DEAD_REQUEUE; m.dead.action <= DEAD_DROP; m.dead.action++) {
        m.dead.id.has_id = true;
        m.dead.id.id[15] = 9;
        r = round_trip(&m, 1, 0);
        ck_assert(r.dead.id.has_id && r.dead.id.id[15] == 9);
        m.dead.id.has_id = false;
        ck_assert_uint_eq(encoded_size(&m), 0);
    }
}
END_TEST

START_TEST(times_and_schedules_survive)
{
    static const char args[] = "one\0two\0";
    struct msg m = {.type = FRAME_SUBMIT, .submit = {.delay_usec = CODEC_SPAN_MAX, .queue_usec = CODEC_SPAN_MAX}};
    struct msg r = round_trip(&m, 1, 0);

    ck_assert(r.submit.delay_usec == CODEC_SPAN_MAX && r.submit.queue_usec == CODEC_SPAN_MAX);
    m.submit.at_usec = 1;
    ck_assert_uint_eq(encoded_size(&m), 0); /* one of the two */
    m.submit.delay_usec = 0;
    ck_assert_uint_eq(round_trip(&m, 1, 0).submit.at_usec, 1);

    m = (struct msg){.type = FRAME_SCHEDULE,
                     .schedule = {.action = SCHEDULE_ADD,
                                  .name = span("n"),
                                  .calendar = span("daily"),
                                  .persistent = true,
                                  .job = {.plugin = span("p"),
                                          .function = span("f"),
                                          .args = {args, sizeof(args) - 1},
                                          .argc = 2,
                                          .timeout_usec = 1,
                                          .priority = -3,
                                          .flags = SUBMIT_DURABLE,
                                          .retries = 4,
                                          .retry_usec = 5,
                                          .retry_on = CODEC_RETRY_ON,
                                          .queue_usec = 6,
                                          .traceparent = span("00-t")}}};
    r = round_trip(&m, 1, 0);
    assert_span(r.schedule.name, "n");
    assert_span(r.schedule.calendar, "daily");
    assert_span(r.schedule.job.plugin, "p");
    assert_span(r.schedule.job.function, "f");
    ck_assert(r.schedule.persistent && r.schedule.job.argc == 2 && r.schedule.job.args.size == sizeof(args) - 1);
    ck_assert_mem_eq(r.schedule.job.args.data, args, sizeof(args) - 1);
    ck_assert(r.schedule.job.timeout_usec == 1 && r.schedule.job.priority == -3 &&
              r.schedule.job.flags == SUBMIT_DURABLE && r.schedule.job.retries == 4 && r.schedule.job.retry_usec == 5 &&
              r.schedule.job.retry_on == CODEC_RETRY_ON && r.schedule.job.queue_usec == 6);
    assert_span(r.schedule.job.traceparent, "00-t");
    m.schedule.job.flags = SUBMIT_DETACH;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.schedule.job.flags = 0;
    m.schedule.name = span("");
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.schedule.action = SCHEDULE_LIST;
    ck_assert_uint_ne(encoded_size(&m), 0);

    m = (struct msg){.type = FRAME_SCHEDULED,
                     .scheduled = {.name = span("n"),
                                   .calendar = span("c"),
                                   .plugin = span("p"),
                                   .function = span("f"),
                                   .error = span("e"),
                                   .uid = 1,
                                   .flags = 7,
                                   .state = CODEC_STATE_MAX,
                                   .exit = 255,
                                   .next_usec = 2,
                                   .ran_usec = 3,
                                   .runs = 4,
                                   .skipped = 5,
                                   .id = {.has_id = true, .id = {9}}}};
    r = round_trip(&m, 1, 0);
    assert_span(r.scheduled.name, "n");
    assert_span(r.scheduled.error, "e");
    ck_assert(r.scheduled.uid == 1 && r.scheduled.flags == 7 && r.scheduled.state == CODEC_STATE_MAX &&
              r.scheduled.exit == 255 && r.scheduled.next_usec == 2 && r.scheduled.ran_usec == 3 &&
              r.scheduled.runs == 4 && r.scheduled.skipped == 5 && r.scheduled.id.has_id && r.scheduled.id.id[0] == 9);
}
END_TEST

START_TEST(input_elsewhere_survives)
{
    struct msg m = {.type = FRAME_SUBMIT, .submit = {.plugin = span("p"), .input_from = INPUT_FILE}}, r;
    static const uint64_t good[][2] = {{0, 0}, {1, 2}, {INT64_MAX, 0}, {0, INT64_MAX}, {1, INT64_MAX - 1}},
                          bad[][2] = {{1, INT64_MAX},
                                      {INT64_MAX, 1},
                                      {UINT64_MAX, 0},
                                      {0, UINT64_MAX},
                                      {UINT64_MAX, UINT64_MAX}};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        m.submit.input_offset = good[i][0];
        m.submit.input_size = good[i][1];
        r = round_trip(&m, 1, 0);
        ck_assert(r.submit.input_from == INPUT_FILE && r.submit.input_offset == good[i][0] &&
                  r.submit.input_size == good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        m.submit.input_offset = bad[i][0];
        m.submit.input_size = bad[i][1];
        ck_assert_uint_eq(encoded_size(&m), 0);
    }
    struct msg run = {.type = FRAME_RUN};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        run.run.job.output_offset = good[i][0];
        run.run.job.output_size = good[i][1];
        r = round_trip(&run, 1, 0);
        ck_assert(r.run.job.output_offset == good[i][0] && r.run.job.output_size == good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        run.run.job.output_offset = bad[i][0];
        run.run.job.output_size = bad[i][1];
        ck_assert_uint_eq(encoded_size(&run), 0);
    }
    m.submit = (struct msg_submit){.plugin = span("p"),
                                   .input_from = INPUT_ARENA,
                                   .input_offset = 1,
                                   .input_size = 2,
                                   .arena = 3,
                                   .output_offset = 4,
                                   .output_size = INT64_MAX - 4};
    r = round_trip(&m, 1, 0);
    ck_assert(r.submit.input_from == INPUT_ARENA && r.submit.arena == 3 && r.submit.output_offset == 4 &&
              r.submit.output_size == INT64_MAX - 4);
    m.submit.output_size++;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit.output_size = 0;
    m.submit.input_from = INPUT_FILE; /* two descriptors */
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit = (struct msg_submit){.plugin = span("p"), .input_from = INPUT_ARENA}; /* of none */
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit = (struct msg_submit){.plugin = span("p"), .output_size = 1};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_JOB, .job = {.state = 5, .placed = 7}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).job.placed, 7);
    m = (struct msg){.type = FRAME_FINISHED, .finished = {.placed = 8}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).finished.placed, 8);
    m = (struct msg){.type = FRAME_SUBMIT, .submit = {.plugin = span("p"), .input_from = INPUT_PIPE}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).submit.input_from, INPUT_PIPE);
    m.submit.input_size = 1; /* it has neither a size nor an offset */
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit.input_size = 0;
    m.submit.arena = 3;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_SUBMIT, .submit = {.plugin = span("p"), .input_from = INPUT_PIPE + 1}};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit = (struct msg_submit){.plugin = span("p"), .input_size = 1}; /* of nothing */
    ck_assert_uint_eq(encoded_size(&m), 0);
}
END_TEST

START_TEST(output_to_a_descriptor_survives)
{
    struct msg m = {.type = FRAME_SUBMIT, .submit = {.plugin = span("p")}};

    for (uint32_t to = OUTPUT_FRAMES; to <= OUTPUT_EITHER; to++) {
        m.submit.output_to = to;
        ck_assert_uint_eq(round_trip(&m, 1, 0).submit.output_to, to);
    }
    m.submit.output_to = OUTPUT_EITHER + 1;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit = (struct msg_submit){.plugin = span("p"), .output_to = OUTPUT_FD, .arena = 1, .output_size = 1};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.submit.output_to = OUTPUT_FRAMES;
    ck_assert_uint_ne(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_ARRAY, .submit = {.plugin = span("p"), .items = 1, .output_to = OUTPUT_FD}};
    ck_assert_uint_eq(encoded_size(&m), 0);
}
END_TEST

START_TEST(submit_of_nothing_survives)
{
    struct msg m = {.type = FRAME_SUBMIT};
    struct msg r = round_trip(&m, 1, 0);

    assert_span(r.submit.plugin, "");
    assert_span(r.submit.function, "");
    ck_assert_uint_eq(r.submit.argc, 0);
    ck_assert_uint_eq(r.submit.args.size, 0);
    ck_assert_ptr_nonnull(r.submit.args.data);
}
END_TEST

START_TEST(arguments_of_every_length_survive)
{
    char text[20000];

    memset(text, 'a', sizeof(text));
    for (size_t n = 0; n < sizeof(text); n = n < 300 ? n + 1 : n * 2 - 1) {
        text[n] = 0;

        struct msg m = {.type = FRAME_SUBMIT, .submit = {.args = {text, n + 1}, .argc = 1}};
        struct msg r = round_trip(&m, 1, 0);

        ck_assert_uint_eq(r.submit.args.size, n + 1);
        ck_assert_mem_eq(r.submit.args.data, text, n + 1);
        text[n] = 'a';
    }
}
END_TEST

START_TEST(ids_survive)
{
    static const uint16_t with[] = {FRAME_ACCEPTED, FRAME_AWAIT, FRAME_STATUS, FRAME_CANCEL};

    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
        struct msg m = {.type = with[i], .id = {true, {0, 1, 2, 255}}};
        struct msg r = round_trip(&m, 9, 0);

        ck_assert(r.id.has_id);
        ck_assert_mem_eq(r.id.id, m.id.id, 16);
    }
    struct msg m = {.type = FRAME_CANCEL};

    ck_assert(!round_trip(&m, 9, 0).id.has_id);
}
END_TEST

START_TEST(small_messages_survive)
{
    struct msg m = {.type = FRAME_OUTPUT, .chunk = {1ull << 40, true}}, r = round_trip(&m, 1, FRAME_BODY_CHUNK);

    ck_assert_uint_eq(r.chunk.offset, 1ull << 40);
    ck_assert(r.chunk.last);
    m = (struct msg){.type = FRAME_INPUT, .chunk = {0, false}};
    r = round_trip(&m, 1, 0);
    ck_assert(!r.chunk.last && r.chunk.offset == 0);
    m = (struct msg){.type = FRAME_CREDIT, .credit = {123456}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).credit.bytes, 123456);
    m = (struct msg){.type = FRAME_PROGRESS, .progress = {5, UINT64_MAX}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.progress.done == 5 && r.progress.total == UINT64_MAX);
    m = (struct msg){.type = FRAME_MESSAGE, .message = {7, span("hm")}};
    r = round_trip(&m, 1, 0);
    ck_assert_uint_eq(r.message.level, 7);
    assert_span(r.message.text, "hm");
    m = (struct msg){.type = FRAME_ERROR, .error = {75, span("full")}};
    r = round_trip(&m, 1, 0);
    ck_assert_uint_eq(r.error.code, 75);
    assert_span(r.error.text, "full");
    m.type = FRAME_GOODBYE;
    assert_span(round_trip(&m, 0, 0).error.text, "full");
    m = (struct msg){.type = FRAME_PLUGINS, .plugins = {span("fib")}};
    assert_span(round_trip(&m, 1, 0).plugins.name, "fib");
    m = (struct msg){.type = FRAME_OPEN, .open = {7, span("a/b")}};
    r = round_trip(&m, 1, 0);
    ck_assert_uint_eq(r.open.serial, 7);
    assert_span(r.open.path, "a/b");
    m = (struct msg){.type = FRAME_OPENED, .opened = {7, 13}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.opened.serial == 7 && r.opened.error == 13);
    m = (struct msg){.type = FRAME_WORKERS, .workers = {1024}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).workers.set, 1024);
    m = (struct msg){.type = FRAME_TRACE, .trace = {TRACE_ACTION_STOP}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).trace.action, TRACE_ACTION_STOP);
    m.trace = (struct msg_trace){.action = TRACE_ACTION_START, .kind = TRACE_OF_STACKS, .rate = CODEC_RATE_MAX};
    r = round_trip(&m, 1, 0);
    ck_assert(r.trace.kind == TRACE_OF_STACKS && r.trace.rate == CODEC_RATE_MAX && !r.trace.id.has_id);
    m.trace = (struct msg_trace){.action = TRACE_ACTION_STACK, .id = {.has_id = true, .id = {7}}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.trace.id.has_id && r.trace.id.id[0] == 7);
    m = (struct msg){.type = FRAME_EXECUTOR, .executor = {7, UINT32_MAX, 1024, 4095, UINT64_MAX, 1, 2, 3, 4}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.executor.executor == 7 && r.executor.uid == UINT32_MAX && r.executor.workers == 1024);
    ck_assert(r.executor.error == 4095 && r.executor.lost == UINT64_MAX);
    ck_assert(r.executor.pid == 1 && r.executor.descriptors == 2 && r.executor.age_usec == 3 && r.executor.memory == 4);
    m = (struct msg){.type = FRAME_PIECE, .chunk = {1ull << 40, false}};
    ck_assert_uint_eq(round_trip(&m, 1, FRAME_BODY_CHUNK).chunk.offset, 1ull << 40);
}
END_TEST

START_TEST(empty_messages_survive)
{
    static const uint16_t empty[] = {FRAME_FORGET, FRAME_LIST, FRAME_STATS, FRAME_PING, FRAME_PONG, FRAME_END};

    for (size_t i = 0; i < sizeof(empty) / sizeof(*empty); i++) {
        struct msg m = {.type = empty[i]};

        round_trip(&m, 1, 0);
    }
    struct msg m = {.type = FRAME_PING};

    round_trip(&m, 1, FRAME_PAYLOAD_MAX);
}
END_TEST

START_TEST(job_survives)
{
    static const uint16_t jobs[] = {FRAME_JOB, FRAME_DONE};

    for (size_t i = 0; i < 2; i++) {
        struct msg m = {.type = jobs[i],
                        .job = {.id = {9, 8, 7},
                                .plugin = span("p"),
                                .function = span("f"),
                                .error = span("e"),
                                .status = span("s"),
                                .worker = span("1.2"),
                                .state = 10,
                                .exit = 255,
                                .attempts = 3,
                                .uid = 1000,
                                .queued_usec = 1,
                                .run_usec = 2,
                                .cpu_usec = 3,
                                .submitted_usec = 4,
                                .done = 5,
                                .total = 6,
                                .backtrace = span("#0 a\n#1 b\n")}};
        struct msg r = round_trip(&m, 1, 0);

        ck_assert_mem_eq(r.job.id, m.job.id, 16);
        assert_span(r.job.plugin, "p");
        assert_span(r.job.function, "f");
        assert_span(r.job.error, "e");
        assert_span(r.job.status, "s");
        assert_span(r.job.worker, "1.2");
        ck_assert(r.job.state == 10 && r.job.exit == 255 && r.job.attempts == 3 && r.job.uid == 1000);
        ck_assert(r.job.queued_usec == 1 && r.job.run_usec == 2 && r.job.cpu_usec == 3 && r.job.submitted_usec == 4);
        ck_assert(r.job.done == 5 && r.job.total == 6);
        assert_span(r.job.backtrace, "#0 a\n#1 b\n");
    }
}
END_TEST

START_TEST(largest_plugin_survives)
{
    char name[CODEC_NAME_MAX], text[CODEC_TEXT_MAX], path[CODEC_PATH_MAX];
    struct msg_function functions[CODEC_FUNCTIONS];
    struct msg_runner runners[CODEC_RUNNERS];

    memset(name, 'n', sizeof(name));
    memset(text, 't', sizeof(text));
    memset(path, 'p', sizeof(path));
    name[sizeof(name) - 1] = text[sizeof(text) - 1] = path[sizeof(path) - 1] = 0;
    for (size_t i = 0; i < CODEC_FUNCTIONS; i++)
        functions[i] = (struct msg_function){span(name), span(text), i, 3, CODEC_QUARANTINE, UINT64_MAX, span(text)};

    struct msg m = {.type = FRAME_PLUGIN,
                    .plugin = {span(name), span(text), span(text), span(path), span(text), functions, CODEC_FUNCTIONS,
                               CODEC_APART, true, UINT64_MAX, runners, CODEC_RUNNERS}};
    for (uint32_t i = 0; i < CODEC_RUNNERS; i++)
        runners[i] = (struct msg_runner){UINT32_MAX, UINT32_MAX, CODEC_CREDIT_MAX, UINT32_MAX, UINT64_MAX - i, i % 2};
    struct msg r = round_trip(&m, 1, 0);

    assert_span(r.plugin.path, path);
    assert_span(r.plugin.error, text);
    ck_assert_uint_eq(r.plugin.n_functions, CODEC_FUNCTIONS);
    for (size_t i = 0; i < CODEC_FUNCTIONS; i++) {
        assert_span(r.plugin.functions[i].name, name);
        assert_span(r.plugin.functions[i].help, text);
        ck_assert_uint_eq(r.plugin.functions[i].flags, i);
        assert_span(r.plugin.functions[i].why, text);
        ck_assert(r.plugin.functions[i].crashes == 3 && r.plugin.functions[i].quarantine == CODEC_QUARANTINE &&
                  r.plugin.functions[i].quarantine_usec == UINT64_MAX);
    }
    ck_assert_uint_eq(r.plugin.apart, CODEC_APART);
    ck_assert(r.plugin.runs && r.plugin.waiting == UINT64_MAX && r.plugin.n_runners == CODEC_RUNNERS);
    for (uint32_t i = 0; i < CODEC_RUNNERS; i++)
        ck_assert(r.plugin.runners[i].uid == UINT32_MAX && r.plugin.runners[i].credit == CODEC_CREDIT_MAX &&
                  r.plugin.runners[i].since_usec == UINT64_MAX - i && r.plugin.runners[i].leaving == i % 2);
    functions[0].quarantine++;
    ck_assert_uint_eq(encoded_size(&m), 0);
    functions[0].quarantine--;
    m.plugin.n_functions = 0;
    ck_assert_uint_eq(round_trip(&m, 1, 0).plugin.n_functions, 0);
}
END_TEST

START_TEST(most_counters_survive)
{
    struct msg_counter counters[CODEC_COUNTERS + 1];

    for (size_t i = 0; i <= CODEC_COUNTERS; i++)
        counters[i] = (struct msg_counter){span("a-counter-with-quite-a-long-name-of-sixty-three-bytes-xxxxxxxxxx"), i};

    struct msg m = {.type = FRAME_COUNTERS, .stats = {counters, CODEC_COUNTERS}};
    struct msg r;

    ck_assert_uint_eq(encoded_size(&m), 0); /* 64 bytes: one too many */
    for (size_t i = 0; i <= CODEC_COUNTERS; i++)
        counters[i].name.size--;
    counters[0].name = span("first");
    r = round_trip(&m, 1, 0);
    ck_assert_uint_eq(r.stats.n_counters, CODEC_COUNTERS);
    assert_span(r.stats.counters[0].name, "first");
    ck_assert_uint_eq(r.stats.counters[CODEC_COUNTERS - 1].value, CODEC_COUNTERS - 1);
    m.stats.n_counters++;
    ck_assert_uint_eq(encoded_size(&m), 0);
}
END_TEST

START_TEST(workers_survive)
{
    struct msg_counter counters[CODEC_COUNTERS + 1];
    struct msg m = {.type = FRAME_WORKER, .worker = {1, 2, 3, 4, counters, 2}}, r;

    for (size_t i = 0; i <= CODEC_COUNTERS; i++)
        counters[i] = (struct msg_counter){span("x"), i};
    r = round_trip(&m, 1, 0);
    ck_assert(r.worker.executor == 1 && r.worker.worker == 2 && r.worker.kind == 3 && r.worker.cpu == 4);
    ck_assert_uint_eq(r.worker.n_counters, 2);
    ck_assert_uint_eq(r.worker.counters[1].value, 1);
    assert_span(r.worker.counters[1].name, "x");
    m.worker.n_counters = CODEC_COUNTERS;
    ck_assert_uint_eq(round_trip(&m, 1, 0).worker.n_counters, CODEC_COUNTERS);
    m.worker.n_counters++;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m.worker.n_counters = 0;
    round_trip(&m, 1, 0);
    m.worker.kind = 0;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_RELEASE, .release = {span(""), span("f")}};
    ck_assert_uint_eq(encoded_size(&m), 0); /* no name */
    m.release.name = span("p");
    r = round_trip(&m, 1, 0);
    assert_span(r.release.name, "p");
    assert_span(r.release.function, "f");
    m = (struct msg){.type = FRAME_RELOAD, .reload = {span("")}};
    ck_assert_uint_eq(encoded_size(&m), 0); /* no name */
    m.reload.name = span("p");
    r = round_trip(&m, 1, 0);
    assert_span(r.reload.name, "p");
    m = (struct msg){.type = FRAME_RELOADED,
                     .reloaded = {CODEC_RELOADED, UINT32_MAX, 66, span("n"), span("/p"), span("2"), span("ab"),
                                  span("1"), span("cd"), span("why")}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.reloaded.outcome == CODEC_RELOADED && r.reloaded.uid == UINT32_MAX && r.reloaded.code == 66);
    assert_span(r.reloaded.name, "n");
    assert_span(r.reloaded.path, "/p");
    assert_span(r.reloaded.version, "2");
    assert_span(r.reloaded.build, "ab");
    assert_span(r.reloaded.old_version, "1");
    assert_span(r.reloaded.old_build, "cd");
    assert_span(r.reloaded.error, "why");
    m.reloaded.outcome = 0;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_TRACE};
    ck_assert_uint_eq(encoded_size(&m), 0); /* no action */
    m = (struct msg){.type = FRAME_GATE, .gate = {GATE_LIMIT, span("p"), span("f"), UINT32_MAX}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.gate.action == GATE_LIMIT && r.gate.limit == UINT32_MAX);
    assert_span(r.gate.plugin, "p");
    assert_span(r.gate.function, "f");
    m.gate.plugin = span("");
    ck_assert_uint_eq(encoded_size(&m), 0); /* a function of no plugin */
    m = (struct msg){.type = FRAME_LIMIT, .limit = {LIMIT_OWN | LIMIT_MOVED, UINT32_MAX, span("k"), span("v"), 7}};
    for (int told = 0; told < 2; told++) {
        m.type = told ? FRAME_LIMIT_STATE : FRAME_LIMIT;
        r = round_trip(&m, 1, 0);
        ck_assert(r.limit.flags == (LIMIT_OWN | LIMIT_MOVED) && r.limit.uid == UINT32_MAX && r.limit.by == 7);
        assert_span(r.limit.key, "k");
        assert_span(r.limit.value, "v");
    }
    m = (struct msg){.type = FRAME_LIMIT};
    ck_assert_uint_eq(round_trip(&m, 1, 0).limit.flags, 0);
    m.limit.key = span("k");
    ck_assert_uint_eq(encoded_size(&m), 0); /* asks for all, and names one */
    m.limit = (struct msg_limit){.flags = LIMIT_MOVED};
    ck_assert_uint_eq(encoded_size(&m), 0); /* moves none */
    m = (struct msg){.type = FRAME_LIMIT_STATE};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_LIST_WHERE,
                     .filter = {CODEC_STATES, true, UINT32_MAX, span("p"), span("f"), UINT64_MAX, 1, UINT32_MAX}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.filter.states == CODEC_STATES && r.filter.by_uid && r.filter.uid == UINT32_MAX);
    ck_assert(r.filter.newer_usec == UINT64_MAX && r.filter.older_usec == 1 && r.filter.limit == UINT32_MAX);
    assert_span(r.filter.plugin, "p");
    assert_span(r.filter.function, "f");
    m.filter.states = 1; /* there is no such state */
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_FUNCTIONS, .functions = {span("p"), span("f"), true, UINT32_MAX}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.functions.by_uid && r.functions.uid == UINT32_MAX);
    assert_span(r.functions.plugin, "p");
    assert_span(r.functions.function, "f");
    m.functions.plugin = span("");
    ck_assert_uint_eq(encoded_size(&m), 0); /* a function of no plugin */
    m = (struct msg){.type = FRAME_ACTIONS, .actions = {UINT32_MAX}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).actions.limit, UINT32_MAX);
    m = (struct msg){.type = FRAME_ACTION, .action = {UINT64_MAX, UINT32_MAX, 255, span("p"), span("v"), span("o")}};
    r = round_trip(&m, 1, 0);
    ck_assert(r.action.time_usec == UINT64_MAX && r.action.uid == UINT32_MAX && r.action.code == 255);
    assert_span(r.action.person, "p");
    assert_span(r.action.verb, "v");
    assert_span(r.action.object, "o");
    m.action.code = 256;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_COUNT, .count = {UINT64_MAX}};
    ck_assert(round_trip(&m, 1, 0).count.n == UINT64_MAX);
    m = (struct msg){.type = FRAME_AWAIT, .id = {.has_id = true, .flags = SUBMIT_PROGRESS}};
    ck_assert_uint_eq(round_trip(&m, 1, 0).id.flags, SUBMIT_PROGRESS);
    m.id.flags = SUBMIT_DETACH;
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_ERROR, .error = {.code = 75, .text = span("why"), .retry_usec = UINT64_MAX}};
    ck_assert(round_trip(&m, 1, 0).error.retry_usec == UINT64_MAX);
    m = (struct msg){.type = FRAME_GATE};
    ck_assert_uint_eq(encoded_size(&m), 0); /* no action */
    m = (struct msg){.type = FRAME_GATE_STATE,
                     .gate_state = {span("p"), span("f"), GATE_DRAINED, 3, 1ull << 40, UINT64_MAX}};
    r = round_trip(&m, 1, 0);
    assert_span(r.gate_state.plugin, "p");
    assert_span(r.gate_state.function, "f");
    ck_assert(r.gate_state.flags == GATE_DRAINED && r.gate_state.limit == 3);
    ck_assert(r.gate_state.running == 1ull << 40 && r.gate_state.waiting == UINT64_MAX);
}
END_TEST

/* --- limits on the way in ----------------------------------------------------------------------------------------- */

/* One text field of one type: `field` may have at most room - 1 bytes. */
static const struct text_limit {
    uint16_t type;
    unsigned field;
    size_t room;
} text_limits[] = {
    {FRAME_HELLO, 4, CODEC_PATH_MAX},
    {FRAME_HELLO, 5, CODEC_TEXT_MAX},
    {FRAME_WELCOME, 3, CODEC_TEXT_MAX},
    {FRAME_SUBMIT, 1, CODEC_PATH_MAX},
    {FRAME_SUBMIT, 2, CODEC_NAME_MAX},
    {FRAME_SUBMIT, 48, CODEC_TRACEPARENT_MAX},
    {FRAME_RUN, 18, CODEC_TRACEPARENT_MAX},
    {FRAME_SCHEDULE, 16, CODEC_TRACEPARENT_MAX},
    {FRAME_MESSAGE, 2, CODEC_TEXT_MAX},
    {FRAME_JOB, 2, CODEC_PATH_MAX},
    {FRAME_JOB, 3, CODEC_NAME_MAX},
    {FRAME_JOB, 6, CODEC_TEXT_MAX},
    {FRAME_JOB, 17, CODEC_TRACE_MAX},
    {FRAME_DONE, 17, CODEC_TRACE_MAX},
    {FRAME_JOB, 7, CODEC_TEXT_MAX},
    {FRAME_JOB, 8, CODEC_NAME_MAX},
    {FRAME_DONE, 6, CODEC_TEXT_MAX},
    {FRAME_ERROR, 2, CODEC_TEXT_MAX},
    {FRAME_GOODBYE, 2, CODEC_TEXT_MAX},
    {FRAME_PLUGINS, 1, CODEC_PATH_MAX},
    {FRAME_PLUGIN, 1, CODEC_NAME_MAX},
    {FRAME_PLUGIN, 2, CODEC_TEXT_MAX},
    {FRAME_PLUGIN, 3, CODEC_TEXT_MAX},
    {FRAME_PLUGIN, 4, CODEC_PATH_MAX},
    {FRAME_PLUGIN, 5, CODEC_TEXT_MAX},
    {FRAME_OPEN, 2, CODEC_PATH_MAX},
    {FRAME_LIMIT, 3, CODEC_NAME_MAX},
    {FRAME_LIMIT, 4, CODEC_TEXT_MAX},
    {FRAME_LIMIT_STATE, 3, CODEC_NAME_MAX},
    {FRAME_LIMIT_STATE, 4, CODEC_TEXT_MAX},
    {FRAME_RELEASE, 1, CODEC_PATH_MAX},
    {FRAME_RUN_OPEN, 3, CODEC_PATH_MAX},
    {FRAME_RUN_MESSAGE, 3, CODEC_TEXT_MAX},
    {FRAME_RUN_END, 3, CODEC_TEXT_MAX},
    {FRAME_RUN_END, 4, CODEC_TEXT_MAX},
    {FRAME_RUN, 3, CODEC_PLACE_MAX},
    {FRAME_RUN, 10, CODEC_PATH_MAX},
    {FRAME_RUNNER_OPEN, 2, CODEC_NAME_MAX},
    {FRAME_RUNNER_OPEN, 3, CODEC_TEXT_MAX},
    {FRAME_RELEASE, 2, CODEC_NAME_MAX},
    {FRAME_GATE, 2, CODEC_PATH_MAX},
    {FRAME_GATE, 3, CODEC_NAME_MAX},
    {FRAME_LIST_WHERE, 4, CODEC_PATH_MAX},
    {FRAME_LIST_WHERE, 5, CODEC_NAME_MAX},
    {FRAME_CANCEL_WHERE, 4, CODEC_PATH_MAX},
    {FRAME_CANCEL_WHERE, 5, CODEC_NAME_MAX},
    {FRAME_GATE_STATE, 1, CODEC_PATH_MAX},
    {FRAME_GATE_STATE, 2, CODEC_NAME_MAX},
    {FRAME_RELOAD, 1, CODEC_PATH_MAX},
    {FRAME_RELOADED, 3, CODEC_NAME_MAX},
    {FRAME_RELOADED, 4, CODEC_PATH_MAX},
    {FRAME_RELOADED, 5, CODEC_NAME_MAX},
    {FRAME_RELOADED, 6, CODEC_BUILD_MAX},
    {FRAME_RELOADED, 7, CODEC_NAME_MAX},
    {FRAME_RELOADED, 8, CODEC_BUILD_MAX},
    {FRAME_RELOADED, 9, CODEC_TEXT_MAX},
    {FRAME_FINISHED, 2, CODEC_PATH_MAX},
    {FRAME_FINISHED, 3, CODEC_NAME_MAX},
    {FRAME_FINISHED, 4, CODEC_NAME_MAX},
    {FRAME_SUBMIT, 30, CODEC_KEY_MAX},
    {FRAME_JOB, 32, CODEC_KEY_MAX},
    {FRAME_SCHEDULE, 2, CODEC_NAME_MAX},
    {FRAME_SCHEDULE, 4, CODEC_CALENDAR_MAX},
    {FRAME_SCHEDULE, 7, CODEC_PATH_MAX},
    {FRAME_SCHEDULE, 8, CODEC_NAME_MAX},
    {FRAME_SCHEDULED, 1, CODEC_NAME_MAX},
    {FRAME_SCHEDULED, 2, CODEC_CALENDAR_MAX},
    {FRAME_SCHEDULED, 3, CODEC_PATH_MAX},
    {FRAME_SCHEDULED, 4, CODEC_NAME_MAX},
    {FRAME_SCHEDULED, 14, CODEC_TEXT_MAX},
    {FRAME_HELLO, 7, CODEC_TEXT_MAX},
    {FRAME_RUN, 16, CODEC_TEXT_MAX},
    {FRAME_FUNCTIONS, 1, CODEC_PATH_MAX},
    {FRAME_FUNCTIONS, 2, CODEC_NAME_MAX},
    {FRAME_FUNCTION_STATS, 1, CODEC_PATH_MAX},
    {FRAME_FUNCTION_STATS, 2, CODEC_NAME_MAX},
    {FRAME_RUN, 17, CODEC_KEY_MAX},
    {FRAME_PLUGIN, 11, CODEC_BUILD_MAX},
    {FRAME_PERSON, 1, CODEC_PERSON_MAX},
    {FRAME_ACTION, 3, CODEC_PERSON_MAX},
    {FRAME_ACTION, 4, CODEC_NAME_MAX},
    {FRAME_ACTION, 5, CODEC_TEXT_MAX},
    {FRAME_FUNCTION_STATS, 14, CODEC_TEXT_MAX},
    {FRAME_LANE_BIND, 2, CODEC_PATH_MAX},
    {FRAME_LANE_BIND, 3, CODEC_NAME_MAX},
    {FRAME_RUNNER_OPEN, 1, CODEC_NAME_MAX},
    {FRAME_ENDS, 2, CODEC_PATH_MAX},
    {FRAME_ENDS, 3, CODEC_NAME_MAX},
};

static void put_needed(uint16_t type)
{
    if (type == FRAME_JOB || type == FRAME_DONE) {
        put_id(1);
        put_number(4, 5);
    }
    if (type == FRAME_FINISHED || type == FRAME_ENDS)
        put_id(1);
    if (type == FRAME_RUN)
        put_id(2);
    if (type == FRAME_RUNNER_OPEN) {
        put_bytes(1, "r", 1);
        put_bytes(4,
                  "\x0a\x01"
                  "f",
                  3);
        put_number(5, 1);
    }
    if (type == FRAME_TRACE)
        put_number(1, 1);
    if (type == FRAME_SCHEDULE) {
        put_number(1, SCHEDULE_ADD);
        put_bytes(2, "n", 1);
    }
    if (type == FRAME_LIMIT || type == FRAME_LIMIT_STATE) {
        put_number(1, LIMIT_MOVED);
        put_bytes(3, "k", 1);
    }
    if (type == FRAME_GATE) {
        put_number(1, GATE_PAUSE);
        put_bytes(2, "p", 1);
    }
    if (type == FRAME_FUNCTIONS)
        put_bytes(1, "p", 1);
    if (type == FRAME_RELEASE || type == FRAME_RELOAD)
        put_bytes(1, "p", 1);
    if (type == FRAME_LANE_BIND)
        put_bytes(2, "p", 1);
    if (type == FRAME_RELOADED)
        put_number(1, 1);
    if (type == FRAME_WORKER)
        put_number(3, 1);
}

START_TEST(texts_are_limited_below_at_and_above)
{
    const struct text_limit *l = &text_limits[_i];

    for (size_t n = l->room - 2; n <= l->room + 1; n++) {
        put_needed(l->type);
        put_text(l->field, n);
        ck_assert_int_eq(answer(l->type), n < l->room ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(text_with_nul_is_refused)
{
    const struct text_limit *l = &text_limits[_i];

    for (size_t at = 0; at < 3; at++) {
        char text[] = "abc";

        text[at] = 0;
        put_needed(l->type);
        put_bytes(l->field, text, 3);
        ck_assert_int_eq(answer(l->type), CODEC_E_LIMIT);
    }
}
END_TEST

static bool limit_is_tested(const struct message *m, uint32_t field)
{
    for (size_t i = 0; i < sizeof(text_limits) / sizeof(*text_limits); i++)
        if (codec_message(text_limits[i].type) == m && text_limits[i].field == field)
            return true;
    return false;
}

/* A text that is new in a table of codec.c or in submit-options.h. */
START_TEST(each_text_has_its_limit_tested)
{
    for (uint16_t type = 0; type <= UINT8_MAX; type++) {
        const struct message *m = codec_message(type);

        for (uint32_t i = 0; m && i < m->descriptor->n_fields; i++)
            if (m->fields[i].kind == FIELD_TEXT)
                ck_assert_msg(limit_is_tested(m, m->descriptor->fields[i].id), "%s.%s: add it to text_limits",
                              codec_type_name(type), m->fields[i].name);
    }
}
END_TEST

START_TEST(a_traceparent_is_of_version_00_and_strict)
{
    static const char *const wrong[] = {
        "",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
    };

    ck_assert(codec_is_traceparent(TRACEPARENT, strlen(TRACEPARENT)));
    ck_assert(codec_is_traceparent("00-00000000000000000000000000000001-0000000000000001-00", 55));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        ck_assert_msg(!codec_is_traceparent(wrong[i], strlen(wrong[i])), "%s", wrong[i]);
}
END_TEST

START_TEST(ids_have_sixteen_bytes)
{
    static const uint16_t with[] = {FRAME_ACCEPTED, FRAME_AWAIT, FRAME_STATUS, FRAME_CANCEL, FRAME_JOB, FRAME_DONE};

    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
        bool job = with[i] == FRAME_JOB || with[i] == FRAME_DONE;

        for (size_t n = 0; n < 40; n++) {
            put_text(1, n);
            if (job)
                put_number(4, 5);
            ck_assert_int_eq(answer(with[i]), n == 16 || (n == 0 && with[i] == FRAME_CANCEL) ? 0 : CODEC_E_LIMIT);
        }
    }
    ck_assert_int_eq(answer(FRAME_CANCEL), 0);
    ck_assert_int_eq(answer(FRAME_AWAIT), CODEC_E_LIMIT);
}
END_TEST

START_TEST(number_of_arguments_is_limited)
{
    for (unsigned n = CODEC_ARGS_MAX - 1; n <= CODEC_ARGS_MAX + 1; n++) {
        for (unsigned i = 0; i < n; i++)
            put_bytes(3, "", 0);
        ck_assert_int_eq(answer(FRAME_SUBMIT), n <= CODEC_ARGS_MAX ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(size_of_arguments_is_limited)
{
    for (size_t n = CODEC_ARGS_SIZE - 1; n <= CODEC_ARGS_SIZE + 1; n++) {
        put_text(3, 1000);
        put_text(3, n - 1001 - 1);
        ck_assert_int_eq(answer(FRAME_SUBMIT), n <= CODEC_ARGS_SIZE ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(most_and_largest_arguments_together_fit_a_frame)
{
    static char args[CODEC_ARGS_SIZE];
    char path[CODEC_PATH_MAX], name[CODEC_NAME_MAX];

    memset(args, 'a', sizeof(args));
    memset(path, 'p', sizeof(path));
    memset(name, 'n', sizeof(name));
    for (size_t i = 11; i < sizeof(args); i += 12)
        args[i] = 0;

    struct msg m = {.type = FRAME_SUBMIT,
                    .submit = {.plugin = {path, sizeof(path) - 1},
                               .function = {name, sizeof(name) - 1},
                               .args = {args, sizeof(args)},
                               .argc = CODEC_ARGS_MAX}};

    ck_assert_uint_eq(round_trip(&m, 1, 0).submit.argc, CODEC_ARGS_MAX);
}
END_TEST

START_TEST(nul_inside_an_argument_is_refused)
{
    struct msg msg;

    put_bytes(3, "ok", 2);
    put_bytes(3, "a\0b", 3);
    ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_LIMIT);
    put_bytes(3, "a\0", 2);
    ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_LIMIT);
    put_bytes(3, "ok", 2);
    ck_assert_int_eq(decode(FRAME_SUBMIT, 0, &msg), 0);
    ck_assert_mem_eq(msg.submit.args.data, "ok", 3);
}
END_TEST

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* One number field: `last` is the largest value allowed. */
static const struct number_limit {
    uint16_t type;
    unsigned field;
    uint64_t last;
} number_limits[] = {
    {FRAME_SUBMIT, 6, SUBMIT_FLAGS_ALL},
    {FRAME_SUBMIT, 31, CODEC_RETRIES_MAX},
    {FRAME_SUBMIT, 32, CODEC_RETRY_MAX},
    {FRAME_SUBMIT, 40, CODEC_SPAN_MAX},
    {FRAME_SUBMIT, 41, CODEC_AT_MAX},
    {FRAME_SUBMIT, 42, CODEC_SPAN_MAX},
    {FRAME_SCHEDULE, 1, SCHEDULE_RUN},
    {FRAME_SCHEDULED, 12, CODEC_STATE_MAX},
    {FRAME_SCHEDULED, 13, 255},
    {FRAME_MESSAGE, 1, 7},
    {FRAME_JOB, 4, 10},
    {FRAME_DONE, 4, 10},
    {FRAME_JOB, 5, 255},
    {FRAME_ERROR, 1, 255},
    {FRAME_OPENED, 2, 4095},
    {FRAME_WORKERS, 1, CODEC_WORKERS_MAX},
    {FRAME_TRACE, 1, TRACE_ACTION_STACK},
    {FRAME_TRACE, 2, TRACE_OF_STACKS},
    {FRAME_TRACE, 3, CODEC_RATE_MAX},
    {FRAME_GATE, 1, GATE_LIST},
    {FRAME_LIMIT_STATE, 1, LIMIT_OWN | LIMIT_MOVED},
    {FRAME_EXECUTOR, 4, 4095},
    {FRAME_WORKER, 3, CODEC_KIND_MAX},
    {FRAME_PLUGIN, 7, CODEC_APART},
    {FRAME_RELOADED, 1, CODEC_RELOADED},
    {FRAME_RELOADED, 10, UINT8_MAX},
    {FRAME_PIECE, 1, INT64_MAX},
    {FRAME_CREDIT, 1, UINT32_MAX},
    {FRAME_OUTPUT, 1, INT64_MAX},
    {FRAME_INPUT, 1, INT64_MAX},
};

START_TEST(numbers_are_limited_below_at_and_above)
{
    const struct number_limit *l = &number_limits[_i];

    for (uint64_t value = l->last - 1; value <= l->last + 1; value++) {
        put_needed(l->type);
        put_number(l->field, value);
        ck_assert_int_eq(answer(l->type), value <= l->last ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(states_are_known_and_final_where_it_is_done)
{
    for (unsigned state = 0; state <= 12; state++) {
        put_id(1);
        put_number(4, state);
        ck_assert_int_eq(answer(FRAME_JOB), state >= 1 && state <= 10 ? 0 : CODEC_E_LIMIT);
        put_id(1);
        put_number(4, state);
        ck_assert_int_eq(answer(FRAME_DONE), state >= 5 && state <= 10 ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(priority_is_limited)
{
    static const int64_t values[] = {INT32_MIN, -101, -100, -99, 0, 99, 100, 101, INT32_MAX};

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        put_number(5, zigzag(values[i]));
        ck_assert_int_eq(answer(FRAME_SUBMIT), values[i] >= -100 && values[i] <= 100 ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(range_of_versions_is_not_backwards)
{
    put_number(1, 2);
    put_number(2, 1);
    ck_assert_int_eq(answer(FRAME_HELLO), CODEC_E_LIMIT);
    put_number(1, 2);
    put_number(2, 2);
    ck_assert_int_eq(answer(FRAME_HELLO), 0);
}
END_TEST

START_TEST(path_to_open_is_not_empty)
{
    put_number(1, 2);
    ck_assert_int_eq(answer(FRAME_OPEN), CODEC_E_LIMIT);
}
END_TEST

START_TEST(functions_and_counters_are_limited)
{
    for (unsigned n = CODEC_FUNCTIONS - 1; n <= CODEC_FUNCTIONS + 1; n++) {
        for (unsigned i = 0; i < n; i++)
            put_bytes(6, "", 0);
        ck_assert_int_eq(answer(FRAME_PLUGIN), n <= CODEC_FUNCTIONS ? 0 : CODEC_E_LIMIT);
    }
    for (unsigned n = CODEC_RUNNERS - 1; n <= CODEC_RUNNERS + 1; n++) {
        for (unsigned i = 0; i < n; i++)
            put_bytes(10, "", 0);
        ck_assert_int_eq(answer(FRAME_PLUGIN), n <= CODEC_RUNNERS ? 0 : CODEC_E_LIMIT);
    }
    for (unsigned n = CODEC_COUNTERS - 1; n <= CODEC_COUNTERS + 1; n++) {
        for (unsigned i = 0; i < n; i++)
            put_bytes(1, "", 0);
        ck_assert_int_eq(answer(FRAME_COUNTERS), n <= CODEC_COUNTERS ? 0 : CODEC_E_LIMIT);
        put_needed(FRAME_WORKER);
        for (unsigned i = 0; i < n; i++)
            put_bytes(5, "", 0);
        ck_assert_int_eq(answer(FRAME_WORKER), n <= CODEC_COUNTERS ? 0 : CODEC_E_LIMIT);
    }
    put_needed(FRAME_WORKER);
    put_bytes(5, "\x0a\x01\0", 3); /* a counter named NUL */
    ck_assert_int_eq(answer(FRAME_WORKER), CODEC_E_LIMIT);
    put_bytes(6,
              "\x0a\x03"
              "a\0b",
              5); /* a function with a NUL in its name */
    ck_assert_int_eq(answer(FRAME_PLUGIN), CODEC_E_LIMIT);
    put_bytes(1,
              "\x0a\x03"
              "a\0b",
              5);
    ck_assert_int_eq(answer(FRAME_COUNTERS), CODEC_E_LIMIT);
}
END_TEST

START_TEST(body_only_where_it_belongs)
{
    for (uint16_t type = 0; type < 256; type++) {
        bool body = type == FRAME_SUBMIT || type == FRAME_INPUT || type == FRAME_OUTPUT || type == FRAME_PING ||
                    type == FRAME_PONG || type == FRAME_PIECE || type == FRAME_FINISHED || type == FRAME_RUN ||
                    type == FRAME_RUN_INPUT || type == FRAME_RUN_OUTPUT || type == FRAME_RUN_END;
        struct msg msg;
        int r;

        put_needed(type);
        if (type == FRAME_ACCEPTED || type == FRAME_AWAIT || type == FRAME_STATUS)
            put_id(1);
        if (type == FRAME_OPEN)
            put_text(2, 1);
        r = decode(type, 1, &msg);
        if (r != CODEC_E_TYPE)
            ck_assert_int_eq(r, body ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(offset_and_body_do_not_overflow)
{
    struct msg msg;

    put_number(1, INT64_MAX - 10);
    ck_assert_int_eq(decode(FRAME_OUTPUT, 10, &msg), 0);
    put_number(1, INT64_MAX - 10);
    ck_assert_int_eq(decode(FRAME_OUTPUT, 11, &msg), CODEC_E_LIMIT);
}
END_TEST

/* --- limits on the way out, hostile bytes ------------------------------------------------------------------------- */

START_TEST(encode_refuses_what_decode_would)
{
    struct msg m = {.type = FRAME_SUBMIT, .submit = {.priority = 101}};

    ck_assert_uint_eq(encoded_size(&m), 0);
    ck_assert_uint_eq(codec_encode(&m, 1, 0, buffer, sizeof(buffer)), 0);
    m = (struct msg){.type = FRAME_SUBMIT, .submit = {.args = {"a", 2}, .argc = 2}};
    ck_assert_uint_eq(encoded_size(&m), 0); /* argc does not fit the bytes */
    m = (struct msg){.type = FRAME_SUBMIT, .submit = {.args = {"ab", 2}, .argc = 0}};
    ck_assert_uint_eq(encoded_size(&m), 0); /* does not end in NUL */
    m = (struct msg){.type = FRAME_AWAIT};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = 60};
    ck_assert_uint_eq(encoded_size(&m), 0);
    m = (struct msg){.type = FRAME_END};
    ck_assert_uint_eq(codec_encode(&m, 1, 1, buffer, sizeof(buffer)), 0); /* has no body */
    m = (struct msg){.type = FRAME_PING};
    ck_assert_uint_gt(codec_encode(&m, 1, FRAME_PAYLOAD_MAX, buffer, sizeof(buffer)), 0);
    ck_assert_uint_eq(codec_encode(&m, 1, FRAME_PAYLOAD_MAX + 1, buffer, sizeof(buffer)), 0);
    m = (struct msg){.type = FRAME_OUTPUT, .chunk = {.offset = 1}};
    ck_assert_uint_eq(codec_encode(&m, 1, FRAME_PAYLOAD_MAX, buffer, sizeof(buffer)), 0); /* header and body */
}
END_TEST

START_TEST(unknown_types_are_told_apart)
{
    static const uint16_t unknown[] = {0, 60, 64, 200, 255, 256 + FRAME_PING, UINT16_MAX};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
        ck_assert_int_eq(answer(unknown[i]), CODEC_E_TYPE);
}
END_TEST

START_TEST(unknown_fields_are_skipped)
{
    struct msg msg;

    put_number(1, 5);
    put_text(99, 100);
    put_number(100, 7);
    ck_assert_int_eq(decode(FRAME_CREDIT, 0, &msg), 0);
    ck_assert_uint_eq(msg.credit.bytes, 5);
}
END_TEST

START_TEST(truncated_bytes_are_refused)
{
    put_varint(1 << 3 | 2);
    put_varint(1000);
    ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_BYTES);
    wire.data[wire.size++] = 0xff;
    ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_BYTES);
    put_varint(1 << 3 | 2);
    put_varint(UINT64_MAX);
    ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_BYTES);
}
END_TEST

START_TEST(failed_decode_leaves_the_message_alone)
{
    struct msg msg, before;

    memset(&before, 0xaa, sizeof(before));
    put_number(5, 1000);
    ck_assert_int_eq(decode(FRAME_SUBMIT, 0, &msg), CODEC_E_LIMIT);
    ck_assert_mem_eq(&msg, &before, sizeof(msg));
}
END_TEST

START_TEST(flood_of_fields_finds_room)
{
    while (wire.size + 2 <= FRAME_PAYLOAD_MAX)
        put_bytes(9, "", 0); /* unknown to Empty */
    ck_assert_int_eq(answer(FRAME_PING), 0);
    for (size_t size = 0; size <= 17; size++) { /* arguments, as small as they take the most room: too many */
        while (wire.size + 2 + size <= FRAME_PAYLOAD_MAX)
            put_bytes(3, "0123456789abcdefg", size);
        ck_assert_int_eq(answer(FRAME_SUBMIT), CODEC_E_LIMIT);
    }
    while (wire.size + 4 <= FRAME_PAYLOAD_MAX)
        put_bytes(6, "\x08\x01", 2); /* functions without a name */
    ck_assert_int_eq(answer(FRAME_PLUGIN), CODEC_E_LIMIT);
    while (wire.size + 2 <= FRAME_PAYLOAD_MAX)
        put_bytes(1, "", 0); /* counters */
    ck_assert_int_eq(answer(FRAME_COUNTERS), CODEC_E_LIMIT);
    ck_assert_int_eq(answer(FRAME_SUBMIT), 0); /* and the codec goes on */
}
END_TEST

START_TEST(nested_groups_do_not_recurse)
{
    memset(wire.data, 0x0b, FRAME_PAYLOAD_MAX); /* start of group 1, again and again */
    wire.size = FRAME_PAYLOAD_MAX;
    ck_assert_int_eq(answer(FRAME_PLUGIN), CODEC_E_BYTES);
}
END_TEST

int main(void)
{
    const int n_texts = sizeof(text_limits) / sizeof(*text_limits);
    const int n_numbers = sizeof(number_limits) / sizeof(*number_limits);
    Suite *suite = suite_create("codec");
    TCase *tcase = tcase_create("codec");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_table_goes_with_its_descriptor);
    tcase_add_test(tcase, hello_and_welcome_survive);
    tcase_add_test(tcase, submit_survives);
    tcase_add_test(tcase, finished_survives);
    tcase_add_test(tcase, promises_survive);
    tcase_add_test(tcase, times_and_schedules_survive);
    tcase_add_test(tcase, input_elsewhere_survives);
    tcase_add_test(tcase, output_to_a_descriptor_survives);
    tcase_add_test(tcase, submit_of_nothing_survives);
    tcase_add_test(tcase, arguments_of_every_length_survive);
    tcase_add_test(tcase, each_text_has_its_limit_tested);
    tcase_add_test(tcase, a_traceparent_is_of_version_00_and_strict);
    tcase_add_test(tcase, ids_survive);
    tcase_add_test(tcase, small_messages_survive);
    tcase_add_test(tcase, empty_messages_survive);
    tcase_add_test(tcase, job_survives);
    tcase_add_test(tcase, largest_plugin_survives);
    tcase_add_test(tcase, most_counters_survive);
    tcase_add_test(tcase, workers_survive);
    tcase_add_loop_test(tcase, texts_are_limited_below_at_and_above, 0, n_texts);
    tcase_add_loop_test(tcase, text_with_nul_is_refused, 0, n_texts);
    tcase_add_test(tcase, ids_have_sixteen_bytes);
    tcase_add_test(tcase, number_of_arguments_is_limited);
    tcase_add_test(tcase, size_of_arguments_is_limited);
    tcase_add_test(tcase, most_and_largest_arguments_together_fit_a_frame);
    tcase_add_test(tcase, nul_inside_an_argument_is_refused);
    tcase_add_loop_test(tcase, numbers_are_limited_below_at_and_above, 0, n_numbers);
    tcase_add_test(tcase, states_are_known_and_final_where_it_is_done);
    tcase_add_test(tcase, priority_is_limited);
    tcase_add_test(tcase, range_of_versions_is_not_backwards);
    tcase_add_test(tcase, path_to_open_is_not_empty);
    tcase_add_test(tcase, functions_and_counters_are_limited);
    tcase_add_test(tcase, body_only_where_it_belongs);
    tcase_add_test(tcase, offset_and_body_do_not_overflow);
    tcase_add_test(tcase, encode_refuses_what_decode_would);
    tcase_add_test(tcase, unknown_types_are_told_apart);
    tcase_add_test(tcase, unknown_fields_are_skipped);
    tcase_add_test(tcase, truncated_bytes_are_refused);
    tcase_add_test(tcase, failed_decode_leaves_the_message_alone);
    tcase_add_test(tcase, flood_of_fields_finds_room);
    tcase_add_test(tcase, nested_groups_do_not_recurse);
    return run_suite(suite);
}
