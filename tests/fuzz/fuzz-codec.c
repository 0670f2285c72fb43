/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-codec.c: any bytes through codec_decode(). Input: a byte of type, a byte of body size (times 256), the header.
 * Keeps: what decodes can be encoded again, and decodes to the same; every text ends in NUL and lies within its limit.
 */
#include "fuzz.h"

#include <string.h>

#include "base/cleanup.h"
#include "proto/codec.h"
#include "proto/records.h"

static void check_span(struct span s, size_t room)
{
    FUZZ_CHECK(s.data && s.size < room && strlen(s.data) == s.size);
}

static void check_texts(const struct msg *msg)
{
    switch (msg->type) {
    case FRAME_SUBMIT:
        check_span(msg->submit.plugin, CODEC_PATH_MAX);
        check_span(msg->submit.function, CODEC_NAME_MAX);
        check_span(msg->submit.key, CODEC_KEY_MAX);
        check_span(msg->submit.traceparent, CODEC_TRACEPARENT_MAX);
        FUZZ_CHECK(msg->submit.args.data && msg->submit.args.size <= CODEC_ARGS_SIZE);
        break;
    case FRAME_JOB:
    case FRAME_DONE:
        check_span(msg->job.plugin, CODEC_PATH_MAX);
        check_span(msg->job.function, CODEC_NAME_MAX);
        check_span(msg->job.error, CODEC_TEXT_MAX);
        check_span(msg->job.status, CODEC_TEXT_MAX);
        check_span(msg->job.worker, CODEC_NAME_MAX);
        check_span(msg->job.backtrace, CODEC_TRACE_MAX);
        check_span(msg->job.key, CODEC_KEY_MAX);
        break;
    case FRAME_FINISHED:
        check_span(msg->finished.plugin, CODEC_PATH_MAX);
        check_span(msg->finished.function, CODEC_NAME_MAX);
        check_span(msg->finished.worker, CODEC_NAME_MAX);
        break;
    case FRAME_PLUGIN:
        check_span(msg->plugin.name, CODEC_NAME_MAX);
        check_span(msg->plugin.path, CODEC_PATH_MAX);
        for (size_t i = 0; i < msg->plugin.n_functions; i++)
            check_span(msg->plugin.functions[i].help, CODEC_TEXT_MAX);
        for (size_t i = 0; i < msg->plugin.n_functions; i++)
            check_span(msg->plugin.functions[i].why, CODEC_TEXT_MAX);
        break;
    case FRAME_RELEASE:
        check_span(msg->release.name, CODEC_PATH_MAX);
        check_span(msg->release.function, CODEC_NAME_MAX);
        break;
    case FRAME_GATE:
        check_span(msg->gate.plugin, CODEC_PATH_MAX);
        check_span(msg->gate.function, CODEC_NAME_MAX);
        break;
    case FRAME_LIMIT:
    case FRAME_LIMIT_STATE:
        check_span(msg->limit.key, CODEC_NAME_MAX);
        check_span(msg->limit.value, CODEC_TEXT_MAX);
        break;
    case FRAME_GATE_STATE:
        check_span(msg->gate_state.plugin, CODEC_PATH_MAX);
        check_span(msg->gate_state.function, CODEC_NAME_MAX);
        break;
    case FRAME_RELOAD:
        check_span(msg->reload.name, CODEC_PATH_MAX);
        break;
    case FRAME_RELOADED:
        check_span(msg->reloaded.name, CODEC_NAME_MAX);
        check_span(msg->reloaded.path, CODEC_PATH_MAX);
        check_span(msg->reloaded.version, CODEC_NAME_MAX);
        check_span(msg->reloaded.build, CODEC_BUILD_MAX);
        check_span(msg->reloaded.old_version, CODEC_NAME_MAX);
        check_span(msg->reloaded.old_build, CODEC_BUILD_MAX);
        check_span(msg->reloaded.error, CODEC_TEXT_MAX);
        break;
    case FRAME_COUNTERS:
        for (size_t i = 0; i < msg->stats.n_counters; i++)
            check_span(msg->stats.counters[i].name, CODEC_NAME_MAX);
        break;
    case FRAME_WORKER:
        for (size_t i = 0; i < msg->worker.n_counters; i++)
            check_span(msg->worker.counters[i].name, CODEC_NAME_MAX);
        break;
    case FRAME_ERROR:
        check_span(msg->error.text, CODEC_TEXT_MAX);
        break;
    case FRAME_OPEN:
        check_span(msg->open.path, CODEC_PATH_MAX);
        break;
    case FRAME_ENDS:
        check_span(msg->ends.plugin, CODEC_PATH_MAX);
        check_span(msg->ends.function, CODEC_NAME_MAX);
        break;
    case FRAME_FUNCTIONS:
        check_span(msg->functions.plugin, CODEC_PATH_MAX);
        check_span(msg->functions.function, CODEC_NAME_MAX);
        break;
    case FRAME_FUNCTION_STATS:
        check_span(msg->function_stats.plugin, CODEC_PATH_MAX);
        check_span(msg->function_stats.function, CODEC_NAME_MAX);
        check_span(msg->function_stats.why, CODEC_TEXT_MAX);
        FUZZ_CHECK(msg->function_stats.n_histograms <= CODEC_HISTOGRAM_KIND);
        break;
    case FRAME_ACTION:
        check_span(msg->action.person, CODEC_PERSON_MAX);
        check_span(msg->action.verb, CODEC_NAME_MAX);
        check_span(msg->action.object, CODEC_TEXT_MAX);
        break;
    case FRAME_PERSON:
        check_span(msg->person.name, CODEC_PERSON_MAX);
        break;
    default:
        break;
    }
}

/* What codec_decode() has looked through can be taken apart, and put together again. */
static void check_ones(const struct msg_end *end)
{
    struct span left = end->output;
    struct msg_one one;
    uint8_t again[CODEC_ONE_SIZE];

    for (uint32_t i = 0; end->state && end->n > 1 && i < end->n; i++) {
        const char *at = left.data;

        FUZZ_CHECK(codec_next_one(&left, &one) && one.output.data >= at + CODEC_ONE_SIZE &&
                   one.output.data + one.output.size == left.data);
        one.output.data = NULL; /* only what goes before it is put */
        FUZZ_CHECK(codec_put_one(&one, again) == again + CODEC_ONE_SIZE + one.output.size &&
                   memcmp(again, at, CODEC_ONE_SIZE) == 0);
    }
    FUZZ_CHECK(!end->state || end->n == 1 || left.size == 0);
}

static void check_buckets(const struct msg_function_stats *m, struct span body)
{
    uint8_t again[CODEC_BUCKET_SIZE];
    struct msg_bucket b;

    for (size_t i = 0; i < m->n_histograms; i++) {
        for (uint32_t j = 0, least = 0; j < m->histograms[i].buckets; j++, least = b.index + 1) {
            const char *at = body.data;

            FUZZ_CHECK(codec_next_bucket(&body, &b) && b.n && b.index >= least && b.index < CODEC_BUCKETS);
            codec_put_bucket(&b, again);
            FUZZ_CHECK(memcmp(again, at, sizeof(again)) == 0);
        }
    }
    FUZZ_CHECK(body.size == 0);
}

static void check_records(const struct msg *msg, const struct frame *frame)
{
    static uint8_t again[FRAME_MAX];
    struct span body = {(const char *)frame->body, frame->body_size};
    bool array = msg->type == FRAME_ARRAY;
    struct msg_item item;
    struct msg_end end;

    if (msg->type == FRAME_FUNCTION_STATS) {
        check_buckets(&msg->function_stats, body);
        return;
    }
    for (uint32_t i = 0; i < (array ? msg->submit.items : msg->ends.records); i++) {
        const char *at = body.data;

        if (array) {
            FUZZ_CHECK(codec_next_item(&body, &item) && item.args.size <= CODEC_ARGS_SIZE);
            codec_put_item(&item, again);
            FUZZ_CHECK(memcmp(again, at, CODEC_ITEM_SIZE) == 0);
        } else {
            FUZZ_CHECK(codec_next_end(&body, &end) && codec_end_size(&end) == (size_t)(body.data - at));
            FUZZ_CHECK(codec_put_end(&end, again) == again + codec_end_size(&end));
            FUZZ_CHECK(memcmp(again, at, codec_end_size(&end)) == 0);
            check_ones(&end);
        }
    }
    FUZZ_CHECK(body.size == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct codec *codec;
    static uint8_t first[FRAME_MAX], second[FRAME_MAX];
    struct frame frame;
    struct msg msg;
    size_t n, m, whole;

    if (!codec)
        FUZZ_CHECK(codec_new(&codec) == 0);
    if (size < 2 || size - 2 > FRAME_PAYLOAD_MAX)
        return 0;
    frame = (struct frame){.type = data[0],
                           .tag = 1,
                           .header_size = (uint32_t)(size - 2),
                           .body_size = MIN((uint32_t)data[1] << 8, FRAME_PAYLOAD_MAX - (uint32_t)(size - 2)),
                           .header = data + 2};
    if (frame.type == FRAME_ARRAY || frame.type == FRAME_ENDS || frame.type == FRAME_FUNCTION_STATS) {
        /* the rest is the body: it is looked into */
        frame.header_size = MIN((uint32_t)data[1], frame.header_size);
        frame.body = data + 2 + frame.header_size;
        frame.body_size = (uint32_t)size - 2 - frame.header_size;
    }
    if (codec_decode(codec, &frame, &msg) != 0)
        return 0;
    check_texts(&msg);
    if (frame.body)
        check_records(&msg, &frame);

    /* Our form is the shortest one, so it fits wherever the original did. */
    n = codec_encode(&msg, 1, frame.body_size, first, sizeof(first));
    FUZZ_CHECK(n >= FRAME_HEADER_SIZE && n - FRAME_HEADER_SIZE <= frame.header_size && codec_room(&msg) >= n);
    if (frame.body)
        memcpy(first + n, frame.body, frame.body_size);
    FUZZ_CHECK(frame_parse(first, n + frame.body_size, &frame, &whole) == 0);
    FUZZ_CHECK(codec_decode(codec, &frame, &msg) == 0);
    m = codec_encode(&msg, 1, frame.body_size, second, sizeof(second));
    FUZZ_CHECK(n == m && memcmp(first, second, n) == 0);
    return 0;
}
