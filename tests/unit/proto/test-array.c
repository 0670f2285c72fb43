/* SPDX-License-Identifier: Apache-2.0
 *
 * test-array.c: the bodies of many records: items of ARRAY, ends in ENDS, buckets in FUNCTION_STATS. They are encoded and decoded, with each limit
 * below, at and above, and with bodies that do not hold what they say. */
#include "proto/codec.h"
#include "proto/records.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct codec *codec;
static uint8_t body[FRAME_MAX];
static size_t body_size;

static void setup(void)
{
    ck_assert_int_eq(codec_new(&codec), 0);
    body_size = 0;
}

static void teardown(void)
{
    codec = codec_free(codec);
}

static struct span span(const char *text)
{
    return (struct span){.data = text, .size = strlen(text)};
}

/* Sends the message with the body as it is; the answer of codec_decode(). */
static int send(const struct msg *msg, struct msg *ret)
{
    static uint8_t bytes[FRAME_MAX + 1024], *copy;
    size_t n = codec_encode(msg, 1, body_size, bytes, sizeof(bytes)), used;
    struct frame frame;
    int r;

    ck_assert_uint_gt(n, 0);
    memcpy(bytes + n, body, body_size);
    free(copy);
    copy = malloc(n + body_size); /* so that a look behind it is seen */
    memcpy(copy, bytes, n + body_size);
    ck_assert_int_eq(frame_parse(copy, n + body_size, &frame, &used), 0);
    r = codec_decode(codec, &frame, ret);
    if (r > 0)
        ck_assert_uint_gt(strlen(codec_strerror(codec)), 0);
    return r;
}

static void put_item(const char *args, size_t args_size, uint32_t argc, const char *input, size_t input_size)
{
    const struct msg_item item = {.args = {args, args_size}, .argc = argc, .input = {input, input_size}};

    codec_put_item(&item, body + body_size);
    body_size += CODEC_ITEM_SIZE;
    if (args_size)
        memcpy(body + body_size, args, args_size);
    if (input_size)
        memcpy(body + body_size + args_size, input, input_size);
    body_size += args_size + input_size;
}

static int array(uint32_t items)
{
    const struct msg m = {.type = FRAME_ARRAY, .submit = {.plugin = span("echo"), .items = items}};
    struct msg ret;

    return send(&m, &ret);
}

START_TEST(items_survive)
{
    const struct msg m = {
        .type = FRAME_ARRAY,
        .submit = {
            .plugin = span("p"), .function = span("f"), .priority = -2, .flags = SUBMIT_QUIET, .batch = 7, .items = 3}};
    struct msg_item item;
    struct msg r;

    put_item("a\0bc", 5, 2, "input", 5);
    put_item(NULL, 0, 0, NULL, 0);
    put_item("", 1, 1, "\0", 1);
    ck_assert_int_eq(send(&m, &r), 0);
    ck_assert(r.submit.items == 3 && r.submit.batch == 7 && r.submit.priority == -2 && r.submit.flags == SUBMIT_QUIET);
    struct span left = {(const char *)body, body_size};
    ck_assert(codec_next_item(&left, &item) && item.argc == 2 && item.args.size == 5 && item.input.size == 5);
    ck_assert_mem_eq(item.args.data, "a\0bc", 5);
    ck_assert_mem_eq(item.input.data, "input", 5);
    ck_assert(codec_next_item(&left, &item) && !item.argc && !item.args.size && !item.input.size);
    ck_assert(codec_next_item(&left, &item) && item.argc == 1 && item.args.size == 1 && item.input.size == 1);
    ck_assert(!left.size && !codec_next_item(&left, &item));
}
END_TEST

START_TEST(number_of_items_is_what_the_body_holds)
{
    put_item("a", 2, 1, "x", 1);
    put_item("a", 2, 1, "x", 1);
    ck_assert_int_eq(array(1), CODEC_E_LIMIT);
    ck_assert_int_eq(array(2), 0);
    ck_assert_int_eq(array(3), CODEC_E_LIMIT);
}
END_TEST

START_TEST(number_of_items_is_limited_below_at_and_above)
{
    struct msg m = {.type = FRAME_ARRAY, .submit = {.plugin = span("echo")}};

    ck_assert_str_eq(codec_problem(&m), "number of items");
    m.submit.items = CODEC_ITEMS_MAX + 1;
    ck_assert_str_eq(codec_problem(&m), "number of items");
    m.submit.items = CODEC_ITEMS_MAX;
    ck_assert_ptr_null(codec_problem(&m));
    for (uint32_t i = 0; i < CODEC_ITEMS_MAX; i++)
        put_item(NULL, 0, 0, NULL, 0);
    ck_assert_int_eq(array(CODEC_ITEMS_MAX), 0);
    m.type = FRAME_SUBMIT;
    ck_assert_str_eq(codec_problem(&m), "number of items");
}
END_TEST

START_TEST(arguments_are_in_the_items_only)
{
    const struct msg m = {.type = FRAME_ARRAY,
                          .submit = {.plugin = span("echo"), .items = 1, .args = {"a", 2}, .argc = 1}};

    ck_assert_ptr_nonnull(codec_problem(&m));
}
END_TEST

START_TEST(items_that_overrun_are_refused)
{
    put_item("abc", 4, 1, "input", 5);
    ck_assert_int_eq(array(1), 0);
    for (size_t whole = body_size--; body_size + 1 > 0 && body_size < whole; body_size--)
        ck_assert_int_eq(array(1), CODEC_E_LIMIT);
    body_size = 0;
    put_item("abc", 4, 1, "input", 5);
    memset(body + 4, 0xff, 4); /* size of the input */
    ck_assert_int_eq(array(1), CODEC_E_LIMIT);
    memset(body + 2, 0xff, 2); /* of the arguments */
    ck_assert_int_eq(array(1), CODEC_E_LIMIT);
}
END_TEST

START_TEST(arguments_of_items_are_limited_below_at_and_above)
{
    static char args[CODEC_ARGS_SIZE + 1];

    put_item("a", 2, 2, NULL, 0);
    ck_assert_int_eq(array(1), CODEC_E_LIMIT);
    body_size = 0;
    put_item("ab", 2, 0, NULL, 0); /* no NUL at its end */
    ck_assert_int_eq(array(1), CODEC_E_LIMIT);
    for (uint32_t n = CODEC_ARGS_MAX - 1; n <= CODEC_ARGS_MAX + 1; n++) {
        body_size = 0;
        put_item(args, n, n, NULL, 0);
        ck_assert_int_eq(array(1), n > CODEC_ARGS_MAX ? CODEC_E_LIMIT : 0);
    }
    memset(args, 'x', sizeof(args));
    for (uint32_t n = CODEC_ARGS_SIZE - 1; n <= CODEC_ARGS_SIZE + 1; n++) {
        body_size = 0;
        args[n - 1] = 0;
        put_item(args, n, 1, NULL, 0);
        ck_assert_int_eq(array(1), n > CODEC_ARGS_SIZE ? CODEC_E_LIMIT : 0);
        args[n - 1] = 'x';
    }
}
END_TEST

static void put_end(const struct msg_end *end)
{
    codec_put_end(end, body + body_size);
    body_size += codec_end_size(end);
}

static int ends(uint32_t records)
{
    const struct msg m = {.type = FRAME_ENDS,
                          .ends = {.plugin = span("echo"), .function = span("main"), .records = records}};
    struct msg ret;

    return send(&m, &ret);
}

static int one_end(const struct msg_end *end)
{
    body_size = 0;
    put_end(end);
    return ends(1);
}

START_TEST(ends_survive)
{
    const struct msg m = {.type = FRAME_ENDS,
                          .ends = {.id = "0123456789abcde",
                                   .plugin = span("p"),
                                   .function = span("f"),
                                   .uid = 3,
                                   .records = 3,
                                   .submitted_usec = 1ull << 60,
                                   .last = true}};
    const struct msg_end given[] = {
        {.index = 4,
         .n = 1,
         .state = 6,
         .exit = 63,
         .attempts = 65535,
         .queued_usec = 1,
         .run_usec = 1ull << 63,
         .cpu_usec = 3,
         .worker = span("1.2"),
         .error = span("why"),
         .status = span("so"),
         .backtrace = span("there"),
         .output = span("out")},
        {.index = 5, .n = 1, .state = 4, .output = span("more")},
        {.index = 0, .n = 4096, .exit = 75, .queued_usec = 250000, .error = span("full")},
    };
    struct msg_end end;
    struct msg r;

    for (size_t i = 0; i < 3; i++)
        put_end(&given[i]);
    ck_assert_int_eq(send(&m, &r), 0);
    ck_assert(r.ends.uid == 3 && r.ends.records == 3 && r.ends.submitted_usec == 1ull << 60 && r.ends.last);
    ck_assert_mem_eq(r.ends.id, "0123456789abcde", 16);
    struct span left = {(const char *)body, body_size};
    for (size_t i = 0; i < 3; i++) {
        const struct msg_end *g = &given[i];

        ck_assert(codec_next_end(&left, &end));
        ck_assert(end.index == g->index && end.n == g->n && end.state == g->state && end.exit == g->exit &&
                  end.attempts == g->attempts && end.queued_usec == g->queued_usec && end.run_usec == g->run_usec &&
                  end.cpu_usec == g->cpu_usec);
        ck_assert(end.worker.size == g->worker.size && end.error.size == g->error.size &&
                  end.status.size == g->status.size && end.backtrace.size == g->backtrace.size &&
                  end.output.size == g->output.size);
        if (g->output.size)
            ck_assert_mem_eq(end.output.data, g->output.data, g->output.size);
        if (g->error.size)
            ck_assert_mem_eq(end.error.data, g->error.data, g->error.size);
    }
    ck_assert(!left.size && !codec_next_end(&left, &end));
}
END_TEST

START_TEST(fields_of_ends_are_limited_below_at_and_above)
{
    for (uint32_t state = 0; state < 256; state++)
        ck_assert_int_eq(one_end(&(struct msg_end){.n = 1, .state = state}),
                         state && (state < 4 || state > 10) ? CODEC_E_LIMIT : 0);
    for (uint32_t index = CODEC_ITEMS_MAX - 1; index <= CODEC_ITEMS_MAX; index++)
        ck_assert_int_eq(one_end(&(struct msg_end){.index = index, .n = 1, .state = 5}),
                         index == CODEC_ITEMS_MAX ? CODEC_E_LIMIT : 0);
    ck_assert_int_eq(one_end(&(struct msg_end){.n = 0}), CODEC_E_LIMIT);
    ck_assert_int_eq(one_end(&(struct msg_end){.n = 2, .state = 5}), CODEC_E_LIMIT);
    for (uint32_t n = CODEC_ITEMS_MAX - 1; n <= CODEC_ITEMS_MAX + 1; n++)
        ck_assert_int_eq(one_end(&(struct msg_end){.index = 1, .n = n}), n >= CODEC_ITEMS_MAX ? CODEC_E_LIMIT : 0);
    for (size_t n = CODEC_TEXT_MAX - 2; n <= CODEC_TEXT_MAX; n++) {
        static char text[CODEC_TEXT_MAX];

        memset(text, 'x', sizeof(text));
        ck_assert_int_eq(one_end(&(struct msg_end){.n = 1, .error = {text, n}}),
                         n == CODEC_TEXT_MAX ? CODEC_E_LIMIT : 0);
        ck_assert_int_eq(one_end(&(struct msg_end){.n = 1, .status = {text, n}}),
                         n == CODEC_TEXT_MAX ? CODEC_E_LIMIT : 0);
    }
    ck_assert_int_eq(one_end(&(struct msg_end){.n = 1, .worker = {"1\0", 2}}), CODEC_E_LIMIT);
}
END_TEST

START_TEST(ends_that_overrun_are_refused)
{
    const struct msg_end end = {.n = 1, .state = 5, .worker = span("1.2"), .output = span("out")};

    ck_assert_int_eq(one_end(&end), 0);
    ck_assert_int_eq(ends(0), CODEC_E_LIMIT);
    ck_assert_int_eq(ends(2), CODEC_E_LIMIT);
    for (size_t whole = body_size--; body_size + 1 > 0 && body_size < whole; body_size--)
        ck_assert_int_eq(ends(1), CODEC_E_LIMIT);
    body_size = 0;
    ck_assert_int_eq(ends(0), 0);
}
END_TEST

/* n items of 3 bytes of output each, in a record that says so many. */
static struct msg_end several(uint32_t n, uint32_t says, char ret[static 64 * (CODEC_ONE_SIZE + 3)])
{
    uint8_t *at = (uint8_t *)ret;

    for (uint32_t i = 0; i < n; i++)
        at = codec_put_one(
            &(struct msg_one){
                .later_usec = i, .run_usec = UINT32_MAX - i, .cpu_usec = 7, .output = {&"abcdef"[i % 4], 3}},
            at);
    return (struct msg_end){.index = 9,
                            .n = says,
                            .state = CODEC_STATE_FINAL,
                            .attempts = 1,
                            .queued_usec = 5,
                            .worker = span("1.2"),
                            .output = {ret, (size_t)(at - (uint8_t *)ret)}};
}

START_TEST(a_record_for_several_survives)
{
    char ones[64 * (CODEC_ONE_SIZE + 3)];
    const struct msg_end given = several(40, 40, ones);
    struct msg_end end;
    struct msg_one one;

    ck_assert_int_eq(one_end(&given), 0);
    struct span left = {(const char *)body, body_size};
    ck_assert(codec_next_end(&left, &end) && !left.size);
    ck_assert(end.index == 9 && end.n == 40 && end.queued_usec == 5 && end.worker.size == 3);
    left = end.output;
    for (uint32_t i = 0; i < 40; i++) {
        ck_assert(codec_next_one(&left, &one));
        ck_assert(one.later_usec == i && one.run_usec == UINT32_MAX - i && one.cpu_usec == 7 && one.output.size == 3);
        ck_assert_mem_eq(one.output.data, &"abcdef"[i % 4], 3);
    }
    ck_assert(!left.size && !codec_next_one(&left, &one));
}
END_TEST

/* The encoder leaves the output to the caller, to be appended at the end of the record. */
START_TEST(a_record_is_put_without_its_output)
{
    struct msg_end end = {.n = 1, .state = 5, .worker = span("1.2"), .output = {.size = 3}};

    memcpy(body + CODEC_END_SIZE + 3, "mine", 4);
    uint8_t *behind = codec_put_end(&end, body);
    ck_assert_ptr_eq(behind, body + codec_end_size(&end));
    ck_assert_mem_eq(behind - 3, "min", 3);
}
END_TEST

START_TEST(records_for_several_are_limited_below_at_and_above)
{
    char ones[64 * (CODEC_ONE_SIZE + 3)];
    struct msg_end end = several(3, 3, ones);

    for (uint32_t n = 2; n <= 4; n++) {
        end = several(3, n, ones);
        ck_assert_int_eq(one_end(&end), n == 3 ? 0 : CODEC_E_LIMIT);
    }
    end = several(3, 3, ones);
    for (uint32_t state = 0; state < 16; state++) {
        end.state = state;
        ck_assert_int_eq(one_end(&end), state == 0 || state == CODEC_STATE_FINAL ? 0 : CODEC_E_LIMIT);
    }
    end.state = CODEC_STATE_FINAL;
    for (uint32_t index = CODEC_ITEMS_MAX - 4; index <= CODEC_ITEMS_MAX; index++) {
        end.index = index;
        ck_assert_int_eq(one_end(&end), index + 3 > CODEC_ITEMS_MAX ? CODEC_E_LIMIT : 0);
    }
    end.index = 0;
    for (size_t size = end.output.size--; end.output.size + 1 > 0 && end.output.size < size; end.output.size--)
        ck_assert_int_eq(one_end(&end), CODEC_E_LIMIT);
    const struct msg_end wrong[] = {{.exit = 1},
                                    {.run_usec = 1},
                                    {.cpu_usec = 1},
                                    {.error = span("why")},
                                    {.status = span("so")},
                                    {.backtrace = span("there")}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        end = several(3, 3, ones);
        end.exit = wrong[i].exit;
        end.run_usec = wrong[i].run_usec;
        end.cpu_usec = wrong[i].cpu_usec;
        end.error = wrong[i].error;
        end.status = wrong[i].status;
        end.backtrace = wrong[i].backtrace;
        ck_assert_int_eq(one_end(&end), CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(batches_survive)
{
    static uint8_t bytes[FRAME_MAX];
    struct msg m = {.type = FRAME_BATCH,
                    .batch = {.action = BATCH_OPEN, .flags = BATCH_DETACH | BATCH_PROGRESS | BATCH_KEEP_GOING}};
    const struct msg state = {.type = FRAME_BATCH_STATE,
                              .batch_state = {.id = "0123456789abcde",
                                              .uid = 1,
                                              .flags = 7,
                                              .exit = 255,
                                              .total = 2,
                                              .queued = 3,
                                              .running = 4,
                                              .done = 5,
                                              .failed = 6,
                                              .submitted_usec = 7}};
    struct frame frame;
    struct msg r;
    size_t n, used;

    ck_assert_int_eq(send(&m, &r), 0);
    ck_assert(r.batch.action == BATCH_OPEN && r.batch.flags == 7 && !r.batch.id.has_id);
    m.batch.id.has_id = true;
    ck_assert_str_eq(codec_problem(&m), "id");
    for (uint32_t action = 0; action <= BATCH_CANCEL + 1; action++) {
        m.batch = (struct msg_batch){.action = action, .id = {.has_id = action >= BATCH_STATUS}};
        ck_assert(!codec_problem(&m) == (action >= BATCH_OPEN && action <= BATCH_CANCEL));
        m.batch.flags = BATCH_PROGRESS;
        ck_assert(!codec_problem(&m) == (action == BATCH_OPEN || action == BATCH_AWAIT));
        m.batch.flags = BATCH_KEEP_GOING;
        ck_assert(!codec_problem(&m) == (action == BATCH_OPEN));
    }
    n = codec_encode(&state, 1, 0, bytes, sizeof(bytes));
    ck_assert_int_eq(frame_parse(bytes, n, &frame, &used), 0);
    ck_assert_int_eq(codec_decode(codec, &frame, &r), 0);
    ck_assert_mem_eq(&r.batch_state, &state.batch_state, sizeof(state.batch_state));
}
END_TEST

START_TEST(items_of_other_messages_survive)
{
    struct msg r;

    ck_assert_int_eq(send(&(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = 1, .item = 2}}, &r), 0);
    ck_assert_uint_eq(r.credit.item, 2);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_OPEN, .open = {.path = span("p"), .item = 3}}, &r), 0);
    ck_assert_uint_eq(r.open.item, 3);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_OPENED, .opened = {.item = 4}}, &r), 0);
    ck_assert_uint_eq(r.opened.item, 4);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_MESSAGE, .message = {.item = 5}}, &r), 0);
    ck_assert_uint_eq(r.message.item, 5);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = 6}}, &r), 0);
    ck_assert_uint_eq(r.id.items, 6);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_LIST_WHERE, .filter = {.batch = span("0123456789abcdef")}}, &r),
                     0);
    ck_assert_uint_eq(r.filter.batch.size, 16);
    ck_assert_int_eq(send(&(struct msg){.type = FRAME_JOB, .job = {.state = 5, .batch = span("0123456789abcdef")}}, &r),
                     0);
    ck_assert_uint_eq(r.job.batch.size, 16);
    for (size_t n = 1; n <= 17; n++) {
        const struct msg m = {.type = FRAME_CANCEL_WHERE, .filter = {.batch = {"0123456789abcdefg", n}}};

        ck_assert(!codec_problem(&m) == (n == 16));
    }
}
END_TEST

/* --- buckets ------------------------------------------------------------------------------------------------------ */

static void put_bucket(uint32_t index, uint64_t n)
{
    codec_put_bucket(&(struct msg_bucket){.index = index, .n = n}, body + body_size);
    body_size += CODEC_BUCKET_SIZE;
}

/* Two histograms with so many buckets each. */
static int histograms(uint32_t first, uint32_t second)
{
    const struct msg_histogram two[] = {{.kind = HISTOGRAM_QUEUE, .buckets = first},
                                        {.kind = HISTOGRAM_OUTPUT, .buckets = second}};
    const struct msg m = {
        .type = FRAME_FUNCTION_STATS,
        .function_stats = {.plugin = span("p"), .function = span("f"), .histograms = two, .n_histograms = 2}};
    struct msg ret;

    return send(&m, &ret);
}

START_TEST(functions_survive)
{
    const struct msg_histogram given[] = {{HISTOGRAM_RUN, UINT64_MAX, 7, 2}, {HISTOGRAM_CPU, 1, UINT64_MAX, 0}};
    const struct msg m = {
        .type = FRAME_FUNCTION_STATS,
        .function_stats = {span("p"), span("f"), UINT32_MAX, 1, 2, 3, 4, 5, 6, 7, UINT64_MAX, given, 2}};
    struct msg_bucket b;
    struct msg r;

    put_bucket(0, 1);
    put_bucket(CODEC_BUCKETS - 1, UINT64_MAX);
    ck_assert_int_eq(send(&m, &r), 0);
    const struct msg_function_stats *s = &r.function_stats;
    ck_assert(s->uid == UINT32_MAX && s->succeeded == 1 && s->failed == 2 && s->cancelled == 3 && s->timed_out == 4);
    ck_assert(s->crashed == 5 && s->interrupted == 6 && s->refused == 7 && s->direct == UINT64_MAX);
    ck_assert(s->n_histograms == 2 && s->histograms[0].kind == HISTOGRAM_RUN && s->histograms[0].sum == UINT64_MAX);
    ck_assert(s->histograms[0].max == 7 && s->histograms[0].buckets == 2 && s->histograms[1].max == UINT64_MAX);
    struct span left = {(const char *)body, body_size};
    ck_assert(codec_next_bucket(&left, &b) && b.index == 0 && b.n == 1);
    ck_assert(codec_next_bucket(&left, &b) && b.index == CODEC_BUCKETS - 1 && b.n == UINT64_MAX);
    ck_assert(!left.size && !codec_next_bucket(&left, &b));
}
END_TEST

START_TEST(buckets_rise_and_are_not_empty)
{
    put_bucket(3, 1);
    put_bucket(4, 1);
    put_bucket(4, 1); /* of the next histogram */
    ck_assert_int_eq(histograms(2, 1), 0);
    ck_assert_int_eq(histograms(1, 2), CODEC_E_LIMIT); /* 4 twice */
    ck_assert_int_eq(histograms(2, 0), CODEC_E_LIMIT); /* one is left */
    ck_assert_int_eq(histograms(2, 2), CODEC_E_LIMIT); /* one lacks */
    body_size = 0;
    put_bucket(5, 1);
    put_bucket(4, 1);
    ck_assert_int_eq(histograms(2, 0), CODEC_E_LIMIT);
    body_size = 0;
    put_bucket(5, 0);
    ck_assert_int_eq(histograms(1, 0), CODEC_E_LIMIT);
    for (uint32_t index = CODEC_BUCKETS - 1; index <= CODEC_BUCKETS; index++) {
        body_size = 0;
        put_bucket(index, 1);
        ck_assert_int_eq(histograms(1, 0), index < CODEC_BUCKETS ? 0 : CODEC_E_LIMIT);
    }
}
END_TEST

START_TEST(all_buckets_of_a_function_fit_a_frame)
{
    struct msg_histogram all[CODEC_HISTOGRAM_KIND + 1];
    char path[CODEC_PATH_MAX], name[CODEC_NAME_MAX];
    struct msg m = {.type = FRAME_FUNCTION_STATS,
                    .function_stats = {.plugin = {path, sizeof(path) - 1},
                                       .function = {name, sizeof(name) - 1},
                                       .uid = UINT32_MAX,
                                       .histograms = all,
                                       .n_histograms = CODEC_HISTOGRAM_KIND}},
               r;

    memset(path, 'p', sizeof(path));
    memset(name, 'n', sizeof(name));
    for (uint32_t i = 0; i <= CODEC_HISTOGRAM_KIND; i++)
        all[i] = (struct msg_histogram){i + 1, UINT64_MAX, UINT64_MAX, CODEC_BUCKETS};
    for (uint32_t i = 0; i < CODEC_HISTOGRAM_KIND; i++)
        for (uint32_t b = 0; b < CODEC_BUCKETS; b++)
            put_bucket(b, UINT64_MAX);
    ck_assert_int_eq(send(&m, &r), 0);
    all[0].buckets++;
    ck_assert_ptr_nonnull(codec_problem(&m));
    all[0].buckets--;
    all[1].kind = 1; /* twice */
    ck_assert_ptr_nonnull(codec_problem(&m));
    all[1].kind = 2;
    ck_assert_ptr_null(codec_problem(&m));
    m.function_stats.n_histograms++;
    ck_assert_ptr_nonnull(codec_problem(&m));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array");
    TCase *tcase = tcase_create("array");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, items_survive);
    tcase_add_test(tcase, number_of_items_is_what_the_body_holds);
    tcase_add_test(tcase, number_of_items_is_limited_below_at_and_above);
    tcase_add_test(tcase, arguments_are_in_the_items_only);
    tcase_add_test(tcase, items_that_overrun_are_refused);
    tcase_add_test(tcase, arguments_of_items_are_limited_below_at_and_above);
    tcase_add_test(tcase, ends_survive);
    tcase_add_test(tcase, fields_of_ends_are_limited_below_at_and_above);
    tcase_add_test(tcase, ends_that_overrun_are_refused);
    tcase_add_test(tcase, a_record_for_several_survives);
    tcase_add_test(tcase, a_record_is_put_without_its_output);
    tcase_add_test(tcase, records_for_several_are_limited_below_at_and_above);
    tcase_add_test(tcase, batches_survive);
    tcase_add_test(tcase, items_of_other_messages_survive);
    tcase_add_test(tcase, functions_survive);
    tcase_add_test(tcase, buckets_rise_and_are_not_empty);
    tcase_add_test(tcase, all_buckets_of_a_function_fit_a_frame);
    return run_suite(suite);
}
