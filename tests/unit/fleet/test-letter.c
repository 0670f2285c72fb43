/* SPDX-License-Identifier: Apache-2.0
 *
 * test-letter.c: jobs and ends as messages: what is put in comes out, at the limits and beyond; what is cut or in
 * disorder is refused with words. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/letter.h"
#include "tests/unit/suite.h"

static struct codec *codec;
static struct buffer letter;
static char why[160];

static void setup(void)
{
    ck_assert_int_eq(codec_new(&codec), 0);
    letter = (struct buffer){0};
    *why = 0;
}

static void teardown(void)
{
    codec_free(codec);
    buffer_deinit(&letter);
}

static struct span span(const char *text)
{
    return (struct span){text, strlen(text)};
}

static struct msg_run job(void)
{
    struct msg_run run = {.uid = 1000,
                          .attempt = 2,
                          .user = span("alice"),
                          .job = {.function = span("checksum:sha256"),
                                  .args = {"a\0bc", 5},
                                  .argc = 2,
                                  .timeout_usec = 1234567,
                                  .priority = -3}};

    memset(run.id, 0xab, sizeof(run.id));
    return run;
}

static char *bytes(size_t size)
{
    char *b = malloc(size + 1);

    ck_assert_ptr_nonnull(b);
    for (size_t i = 0; i < size; i++)
        b[i] = (char)(i * 31 + i / 256);
    return b;
}

static int get_job(void)
{
    struct letter_job got = {0};
    int r = letter_get_job(codec, buffer_data(&letter), buffer_size(&letter), &got, why);

    buffer_deinit(&got.input);
    return r;
}

static int get_end(void)
{
    struct letter_end got = {0};
    int r = letter_get_end(codec, buffer_data(&letter), buffer_size(&letter), &got, why);

    buffer_deinit(&got.output);
    return r;
}

static const size_t sizes[] = {0, 1, FRAME_BODY_CHUNK - 1, FRAME_BODY_CHUNK, FRAME_BODY_CHUNK + 1, FRAME_MAX, 1000000};

START_TEST(a_job_comes_out_as_it_went_in)
{
    size_t size = sizes[_i];
    _cleanup_(freep) char *input = bytes(size);
    const struct msg_run run = job();
    struct letter_job got = {0};

    ck_assert_int_eq(letter_put_job(&letter, "node-1", &run, input, size), 0);
    ck_assert_int_eq(letter_get_job(codec, buffer_data(&letter), buffer_size(&letter), &got, why), 0);
    ck_assert_mem_eq(got.run.id, run.id, sizeof(run.id));
    ck_assert_uint_eq(got.run.attempt, 2);
    ck_assert_uint_eq(got.run.uid, 1000);
    ck_assert_str_eq(got.run.user.data, "alice");
    ck_assert_uint_eq(got.run.job.timeout_usec, 1234567);
    ck_assert_int_eq(got.run.job.priority, -3);
    ck_assert_uint_eq(got.run.job.argc, 2);
    ck_assert_uint_eq(got.run.job.args.size, 5);
    ck_assert_mem_eq(got.run.job.args.data, "a\0bc", 5);
    ck_assert_uint_eq(got.run.job.function.size, 15);
    ck_assert_mem_eq(got.run.job.function.data, "checksum:sha256", 15);
    ck_assert_mem_eq(got.run.directory.data, "node-1", 6);
    ck_assert_uint_eq(buffer_size(&got.input), size);
    ck_assert(size == 0 || memcmp(buffer_data(&got.input), input, size) == 0);
    buffer_deinit(&got.input);
}
END_TEST

START_TEST(an_end_comes_out_as_it_went_in)
{
    size_t size = sizes[_i];
    _cleanup_(freep) char *output = bytes(size);
    const struct msg_run_end end = {.run = 1, .status = 7, .error = span("why"), .text = span("status")};
    struct letter_end got = {0};

    ck_assert_int_eq(letter_put_end(&letter, &end, output, size), 0);
    ck_assert_int_eq(letter_get_end(codec, buffer_data(&letter), buffer_size(&letter), &got, why), 0);
    ck_assert_uint_eq(got.end.status, 7);
    ck_assert_mem_eq(got.end.error.data, "why", 3);
    ck_assert_mem_eq(got.end.text.data, "status", 6);
    ck_assert_uint_eq(buffer_size(&got.output), size);
    ck_assert(size == 0 || memcmp(buffer_data(&got.output), output, size) == 0);
    buffer_deinit(&got.output);
}
END_TEST

START_TEST(what_is_too_large_is_refused)
{
    _cleanup_(freep) char *data = bytes(LETTER_MAX);
    const struct msg_run run = job();
    const struct msg_run_end end = {.run = 1};

    ck_assert_int_eq(letter_put_job(&letter, "n", &run, data, LETTER_MAX), -E2BIG);
    buffer_drop(&letter, buffer_size(&letter));
    ck_assert_int_eq(letter_put_end(&letter, &end, data, LETTER_MAX), -E2BIG);
}
END_TEST

/* A letter of exactly LETTER_MAX bytes is one. */
START_TEST(the_largest_letter_is_taken)
{
    _cleanup_(freep) char *data = bytes(LETTER_MAX);
    const struct msg_run run = job();
    size_t size = LETTER_MAX - 2000;

    ck_assert_int_eq(letter_put_job(&letter, "n", &run, data, size), 0);
    size += LETTER_MAX - buffer_size(&letter);
    for (size_t over = 0; over < 2; over++) {
        buffer_drop(&letter, buffer_size(&letter));
        ck_assert_int_eq(letter_put_job(&letter, "n", &run, data, size + over), over ? -E2BIG : 0);
        ck_assert_uint_eq(buffer_size(&letter), LETTER_MAX + over);
    }
}
END_TEST

static struct letter_seal seal_of(uint64_t size)
{
    struct letter_seal seal = {.size = size};

    memset(seal.mark, 0xa5, sizeof(seal.mark));
    memset(seal.digest, 0x5a, sizeof(seal.digest));
    return seal;
}

static int get_sealed(uint64_t size, bool is_job, struct letter_seal *ret)
{
    const struct letter_seal seal = seal_of(size);
    const struct msg_run run = job();
    const struct msg_run_end e = {.run = 3, .status = 9};
    struct letter_job got_job = {0};
    struct letter_end got_end = {0};
    int r;

    buffer_drop(&letter, buffer_size(&letter));
    if (is_job) {
        ck_assert_int_eq(letter_put_sealed_job(&letter, "node-1", &run, &seal), 0);
        r = letter_get_job(codec, buffer_data(&letter), buffer_size(&letter), &got_job, why);
        ck_assert(r < 0 || got_job.run.attempt == 2);
        ck_assert_uint_eq(buffer_size(&got_job.input), 0);
        *ret = got_job.seal;
    } else {
        ck_assert_int_eq(letter_put_output_seal(&letter, &seal), 0);
        ck_assert_int_eq(letter_put_end(&letter, &e, NULL, 0), 0);
        r = letter_get_end(codec, buffer_data(&letter), buffer_size(&letter), &got_end, why);
        ck_assert(r < 0 || got_end.end.status == 9);
        ck_assert_uint_eq(buffer_size(&got_end.output), 0);
        *ret = got_end.seal;
    }
    return r;
}

START_TEST(a_seal_comes_out_as_it_went_in_up_to_the_limit)
{
    bool is_job = _i;
    uint64_t max = is_job ? LETTER_INPUT_MAX : LETTER_OUTPUT_MAX;

    for (const uint64_t *size = (const uint64_t[]){1, LETTER_MAX, max - 1, max, 0}; *size; size++) {
        const struct letter_seal want = seal_of(*size);
        struct letter_seal got;

        ck_assert_int_eq(get_sealed(*size, is_job, &got), 0);
        ck_assert_uint_eq(got.size, *size);
        ck_assert_mem_eq(got.mark, want.mark, sizeof(want.mark));
        ck_assert_mem_eq(got.digest, want.digest, sizeof(want.digest));
    }
    struct letter_seal got;
    ck_assert_int_eq(get_sealed(max + 1, is_job, &got), -EBADMSG);
    ck_assert_str_eq(why, "parts that are larger together than they may be");
}
END_TEST

/* A seal of nothing is a piece of another size than the job says. */
START_TEST(a_seal_of_nothing_is_refused)
{
    const struct letter_seal seal = seal_of(0);
    const struct msg_run run = job();

    ck_assert_int_eq(letter_put_sealed_job(&letter, "node-1", &run, &seal), 0);
    ck_assert_int_eq(get_job(), -EBADMSG);
}
END_TEST

START_TEST(parts_have_subjects_of_their_own)
{
    const uint8_t mark[LETTER_MARK] = {0};
    char subject[LETTER_SUBJECT];

    letter_parts_subject(subject, NULL, "00112233445566778899aabbccddeeff", 7, "in", mark);
    ck_assert_str_eq(subject, "wsd.part.00112233445566778899aabbccddeeff-7.in.0000000000000000");
    letter_parts_subject(subject, "here", "00112233445566778899aabbccddeeff", 7, "out", mark);
    ck_assert_str_eq(subject, "wsd.part.here.00112233445566778899aabbccddeeff-7.out.0000000000000000");
}
END_TEST

static const struct {
    const char *id;
    uint32_t attempt; /* 0: it is none */
} sent[] = {
    {"00112233445566778899aabbccddeeff-7", 7},     {"00112233445566778899aabbccddeeff-4294967295", 4294967295u},
    {"00112233445566778899aabbccddeeff", 0},       {"00112233445566778899aabbccddeeff-", 0},
    {"00112233445566778899aabbccddeeff-7x", 0},    {"00112233445566778899aabbccddeef-7", 0},
    {"00112233445566778899aabbccddeefff-7", 0},    {"00112233445566778899aabbccddeefF-7", 0},
    {"end-00112233445566778899aabbccddeeff-7", 0}, {"", 0},
};

START_TEST(the_message_id_of_a_letter_says_whose_it_is)
{
    char id[LETTER_ID] = "";
    uint32_t attempt = 0;

    ck_assert_int_eq(letter_get_sent(sent[_i].id, id, &attempt), sent[_i].attempt > 0);
    ck_assert_str_eq(id, sent[_i].attempt ? "00112233445566778899aabbccddeeff" : "");
    if (sent[_i].attempt)
        ck_assert_uint_eq(attempt, sent[_i].attempt);
}
END_TEST

START_TEST(what_a_job_says_comes_out_as_it_went_in)
{
    struct msg m;

    ck_assert_int_eq(live_put_message(&letter, 2, 4, "a line"), 0);
    ck_assert_int_eq(live_put_progress(&letter, 3, 5, UINT64_MAX), 0);
    struct span rest = {(const char *)buffer_data(&letter), buffer_size(&letter)};
    ck_assert_int_eq(live_get(codec, &rest, &m, why), 0);
    ck_assert_int_eq(m.type, FRAME_RUN_MESSAGE);
    ck_assert_uint_eq(m.run_message.run, 2);
    ck_assert_uint_eq(m.run_message.level, 4);
    ck_assert_str_eq(m.run_message.text.data, "a line");
    ck_assert_int_eq(live_get(codec, &rest, &m, why), 0);
    ck_assert_int_eq(m.type, FRAME_RUN_PROGRESS);
    ck_assert_uint_eq(m.run_progress.run, 3);
    ck_assert_uint_eq(m.run_progress.done, 5);
    ck_assert_uint_eq(m.run_progress.total, UINT64_MAX);
    ck_assert_uint_eq(rest.size, 0);
    ck_assert_int_eq(live_get(codec, &rest, &m, why), -EBADMSG);
}
END_TEST

START_TEST(what_a_job_says_has_a_limit)
{
    char text[CODEC_TEXT_MAX] = "";

    memset(text, 'x', sizeof(text) - 1);
    while (buffer_size(&letter) + 300 < LIVE_MAX)
        ck_assert_int_eq(live_put_message(&letter, 1, 6, text), 0);
    size_t before = buffer_size(&letter);
    text[0] = 0;
    ck_assert_int_eq(live_put_message(&letter, 1, 6, text), 0); /* how much is there around the text */
    size_t around = buffer_size(&letter) - before;
    letter.end -= around;
    size_t fits = LIVE_MAX - before - around - 3; /* 3: its length, which an empty one has not */
    ck_assert_uint_lt(fits, sizeof(text));
    memset(text, 'x', sizeof(text) - 1);
    text[fits + 1] = 0;
    ck_assert_int_eq(live_put_message(&letter, 1, 6, text), -E2BIG);
    ck_assert_uint_eq(buffer_size(&letter), before);
    text[fits] = 0;
    ck_assert_int_eq(live_put_message(&letter, 1, 6, text), 0);
    ck_assert_uint_eq(buffer_size(&letter), LIVE_MAX);
    ck_assert_int_eq(live_put_progress(&letter, 1, 1, 2), -E2BIG);
    ck_assert_uint_eq(buffer_size(&letter), LIVE_MAX);
}
END_TEST

START_TEST(nothing_else_is_what_a_job_says)
{
    const struct msg_run run = job();
    struct msg m;

    ck_assert_int_eq(_i ? letter_put_job(&letter, "n", &run, "x", 1)
                        : letter_put_end(&letter, &(struct msg_run_end){.run = 1}, NULL, 0),
                     0);
    struct span rest = {(const char *)buffer_data(&letter), buffer_size(&letter)};
    ck_assert_int_eq(live_get(codec, &rest, &m, why), -EBADMSG);
    ck_assert_str_eq(why, "neither a message nor a progress");
}
END_TEST

/* No beginning of a message is one, and none is taken for one. */
START_TEST(what_is_cut_is_refused)
{
    _cleanup_(freep) char *input = bytes(200000);
    const struct msg_run run = job();

    ck_assert_int_eq(letter_put_job(&letter, "n", &run, input, 200000), 0);
    for (size_t size = 0; size < buffer_size(&letter); size += size < 200 ? 1 : 997) {
        struct letter_job got = {0};

        *why = 0;
        ck_assert_int_eq(letter_get_job(codec, buffer_data(&letter), size, &got, why), -EBADMSG);
        ck_assert_uint_gt(strlen(why), 0);
        buffer_deinit(&got.input);
    }
}
END_TEST

START_TEST(what_is_in_disorder_is_refused)
{
    const struct msg_run run = job();
    const struct msg_run_end end = {.run = 1};

    ck_assert_int_eq(letter_put_end(&letter, &end, "x", 1), 0);
    ck_assert_int_eq(get_job(), -EBADMSG);
    ck_assert_str_eq(why, "it does not begin with a job");
    buffer_drop(&letter, buffer_size(&letter));
    ck_assert_int_eq(letter_put_job(&letter, "n", &run, "x", 1), 0);
    ck_assert_int_eq(get_end(), -EBADMSG);
    ck_assert_int_eq(letter_put_job(&letter, "n", &run, "x", 1), 0); /* two in one */
    ck_assert_int_eq(get_job(), -EBADMSG);
    buffer_drop(&letter, buffer_size(&letter));
    ck_assert_int_eq(letter_put_job(&letter, "a.b", &run, "x", 1), 0);
    ck_assert_int_eq(get_job(), -EBADMSG);
    ck_assert_str_eq(why, "no node that it comes from");
}
END_TEST

/* A letter of one job has no sign of parcels. */
START_TEST(the_first_job_of_a_parcel_is_a_letter)
{
    const struct msg_run run = job();
    struct msg_run first = run;
    struct buffer parcel = {0};

    first.run = 1;
    ck_assert_int_eq(letter_put_job(&letter, "n", &run, "xyz", 3), 0);
    ck_assert_int_eq(parcel_put_job(&parcel, "n", &first, "xyz", 3), 0);
    ck_assert_uint_eq(buffer_size(&parcel), buffer_size(&letter));
    ck_assert_mem_eq(buffer_data(&parcel), buffer_data(&letter), buffer_size(&letter));
    buffer_deinit(&parcel);
}
END_TEST

START_TEST(jobs_of_a_parcel_come_out_in_their_order)
{
    _cleanup_(freep) char *input = bytes(PARCEL_SIZE);
    struct msg_run run = job();

    for (uint32_t i = 0; i < PARCEL_JOBS; i++) {
        run.run = i + 1;
        memset(run.id, (int)i, sizeof(run.id));
        ck_assert_int_eq(parcel_put_job(&letter, "node-1", &run, input, i), 0);
    }
    struct span rest = {(const char *)buffer_data(&letter), buffer_size(&letter)};
    for (uint32_t i = 0; i < PARCEL_JOBS; i++) {
        struct letter_job got = {0};

        ck_assert_int_eq(parcel_get_job(codec, &rest, &got, why), 0);
        ck_assert_uint_eq(got.run.run, i + 1);
        ck_assert_uint_eq(got.run.id[0], (uint8_t)i);
        ck_assert_uint_eq(buffer_size(&got.input), i);
        ck_assert(i == 0 || memcmp(buffer_data(&got.input), input, i) == 0);
        buffer_deinit(&got.input);
    }
    ck_assert_uint_eq(rest.size, 0);
    ck_assert_int_eq(get_job(), -EBADMSG); /* it is no letter */
}
END_TEST

START_TEST(ends_of_a_parcel_come_out_with_their_places)
{
    static const size_t outputs[] = {0, 1, FRAME_BODY_CHUNK, FRAME_BODY_CHUNK + 1, 200000};
    _cleanup_(freep) char *output = bytes(200000);

    for (size_t i = 0; i < ARRAY_SIZE(outputs); i++) {
        const struct msg_run_end end = {.run = 256 - i, .status = (uint32_t)i, .text = span("status")};
        ck_assert_int_eq(parcel_put_end(&letter, &end, output, outputs[i]), 0);
    }
    struct span rest = {(const char *)buffer_data(&letter), buffer_size(&letter)};
    for (size_t i = 0; i < ARRAY_SIZE(outputs); i++) {
        struct letter_end got = {0};

        ck_assert_int_eq(parcel_get_end(codec, &rest, &got, why), 0);
        ck_assert_uint_eq(got.end.run, 256 - i);
        ck_assert_uint_eq(got.end.status, i);
        ck_assert_uint_eq(buffer_size(&got.output), outputs[i]);
        ck_assert(outputs[i] == 0 || memcmp(buffer_data(&got.output), output, outputs[i]) == 0);
        buffer_deinit(&got.output);
    }
    ck_assert_uint_eq(rest.size, 0);
}
END_TEST

/* What does not fit leaves the parcel as it was, at the limit and beyond. */
START_TEST(what_does_not_fit_is_not_in_the_parcel)
{
    _cleanup_(freep) char *data = bytes(LETTER_MAX);
    struct msg_run run = job();
    const struct msg_run_end end = {.run = 1};
    size_t size;

    run.run = 1;
    ck_assert_int_eq(parcel_put_job(&letter, "n", &run, data, 10), 0);
    size = buffer_size(&letter);
    ck_assert_int_eq(parcel_put_job(&letter, "n", &run, data, LETTER_MAX - size), -E2BIG);
    ck_assert_uint_eq(buffer_size(&letter), size);
    ck_assert_int_eq(get_job(), 0);
    buffer_drop(&letter, size);
    ck_assert_int_eq(parcel_put_end(&letter, &end, data, 1), 0);
    size = buffer_size(&letter);
    ck_assert_int_eq(parcel_put_end(&letter, &end, data, LETTER_MAX - size), -E2BIG);
    ck_assert_uint_eq(buffer_size(&letter), size);
    while (buffer_size(&letter) < LETTER_MAX - 30000)
        ck_assert_int_eq(parcel_put_end(&letter, &end, data, 20000), 0);
    size = buffer_size(&letter);
    ck_assert_int_eq(parcel_put_end(&letter, &end, data, 1000), 0);
    size_t frame = buffer_size(&letter) - size - 1000;
    ck_assert_int_eq(parcel_put_end(&letter, &end, data, LETTER_MAX - buffer_size(&letter) - frame + 1), -E2BIG);
    ck_assert_int_eq(parcel_put_end(&letter, &end, data, LETTER_MAX - buffer_size(&letter) - frame), 0);
    ck_assert_uint_eq(buffer_size(&letter), LETTER_MAX);
}
END_TEST

START_TEST(parcels_have_no_parts)
{
    const struct letter_seal seal = seal_of(5);
    const struct msg_run run = job();
    const struct msg_run_end e = {.run = 1};
    struct letter_job got_job = {0};
    struct letter_end got_end = {0};

    ck_assert_int_eq(letter_put_sealed_job(&letter, "n", &run, &seal), 0);
    struct span rest = {(const char *)buffer_data(&letter), buffer_size(&letter)};
    ck_assert_int_eq(parcel_get_job(codec, &rest, &got_job, why), -EBADMSG);
    ck_assert_str_eq(why, "a parcel has no parts");
    buffer_drop(&letter, buffer_size(&letter));
    ck_assert_int_eq(letter_put_output_seal(&letter, &seal), 0);
    ck_assert_int_eq(letter_put_end(&letter, &e, NULL, 0), 0);
    rest = (struct span){(const char *)buffer_data(&letter), buffer_size(&letter)};
    ck_assert_int_eq(parcel_get_end(codec, &rest, &got_end, why), -EBADMSG);
    ck_assert_str_eq(why, "a parcel has no parts");
}
END_TEST

START_TEST(parcels_have_subjects_that_no_letter_has)
{
    char subject[LETTER_SUBJECT], id[LETTER_ID];
    const char *most = "00112233445566778899aabbccddeeff";

    ck_assert(letter_parcel_subject(subject, "fib:f", 1, most));
    ck_assert_str_eq(subject, "wsd.job.00.hi.fib.00112233445566778899aabbccddeeff");
    ck_assert(letter_get_parcel_id(subject, id));
    ck_assert_str_eq(id, most);
    ck_assert(!letter_parcel_subject(subject, "a.b", 1, most));
    for (const char *const *bad =
             (const char *const[]){"", "wsd.job.00.hi.fib", "wsd.job.00.hi.fib.", "wsd.job.00.hi.fib.a.b",
                                   "wsd.job.00.hi.fib.00112233445566778899aabbccddeeff0", NULL};
         *bad; bad++)
        ck_assert(!letter_get_parcel_id(*bad, id));
}
END_TEST

START_TEST(subjects_have_names_only)
{
    char subject[LETTER_SUBJECT], long_name[CODEC_NAME_MAX + 1];

    ck_assert(letter_job_subject(subject, "checksum:sha256", 5));
    ck_assert_str_eq(subject, "wsd.job.00.hi.checksum");
    ck_assert(letter_job_subject(subject, "fib", 0));
    ck_assert_str_eq(subject, "wsd.job.00.norm.fib");
    ck_assert(letter_job_subject(subject, "fib", -100));
    ck_assert_str_eq(subject, "wsd.job.00.lo.fib");
    for (const char *const *bad = (const char *const[]){"", ":f", "a.b", "a b", "*", ">", "a/b", NULL}; *bad; bad++)
        ck_assert(!letter_job_subject(subject, *bad, 0));
    ck_assert(letter_job_subject(subject, "fib.0123456789abcdef:f", 0));
    ck_assert_str_eq(subject, "wsd.job.00.norm.fib+0123456789abcdef");
    for (const char *const *bad = (const char *const[]){"fib.", "fib.0123456789abcde", "fib.0123456789abcdef0",
                                                        "fib.0123456789abcdeF", ".0123456789abcdef", NULL};
         *bad; bad++)
        ck_assert(!letter_job_subject(subject, *bad, 0));
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[CODEC_NAME_MAX] = 0;
    ck_assert(!letter_job_subject(subject, long_name, 0));
    long_name[CODEC_NAME_MAX - 1] = 0;
    ck_assert(letter_job_subject(subject, long_name, 0));
}
END_TEST

START_TEST(receipts_are_read)
{
    struct letter_receipt r;

    ck_assert(letter_get_receipt("$JS.ACK.WSD_JOBS.norm_fib.3.1234.7.1700000000000000000.5", &r));
    ck_assert_str_eq(r.consumer, "norm_fib");
    ck_assert_uint_eq(r.delivered, 3);
    ck_assert_uint_eq(r.sequence, 1234);
    for (const char *const *bad =
             (const char *const[]){"", "_INBOX.x", "$JS.ACK.", "$JS.ACK.a.b", "$JS.ACK.a.b.c.d.", NULL};
         *bad; bad++)
        ck_assert(!letter_get_receipt(*bad, &r));
}
END_TEST

START_TEST(what_is_given_back_again_comes_later)
{
    static const char *const pauses[] = {"500000000",  "500000000",   "1000000000",  "2000000000", "4000000000",
                                         "8000000000", "16000000000", "30000000000", "30000000000"};
    char reply[80], words[LETTER_ANSWER], wanted[LETTER_ANSWER];

    for (unsigned i = 0; i < ARRAY_SIZE(pauses); i++) {
        snprintf(reply, sizeof(reply), "$JS.ACK.WSD_JOBS.norm_fib.%u.1234.7.1700000000000000000.5", i);
        letter_give_back(reply, words);
        snprintf(wanted, sizeof(wanted), "-NAK {\"delay\":%s}", pauses[i]);
        ck_assert_str_eq(words, wanted);
    }
    letter_give_back("$JS.ACK.WSD_JOBS.norm_fib.18446744073709551615.1234.7.1700000000000000000.5", words);
    ck_assert_str_eq(words, "-NAK {\"delay\":30000000000}");
    letter_give_back("", words);
    ck_assert_str_eq(words, "-NAK {\"delay\":500000000}");
}
END_TEST

/* What wsd-fleet of this version sends: a later one has to read it. */
static const char golden_job[] =
    "57016f0001000000490000000500000008011210abababababababababababababababab1a0f636865636b73756d3a73"
    "68613235362887ad4b300540e807480252066e6f64652d316805820105616c69636522016122026263696e707574";
static const char golden_end[] =
    "57012a00010000000400000006000000080118016f757470757457012e00010000001300000000000000080210071a03"
    "77687922067374617475733809";

static void put_hex(const char *hex)
{
    unsigned byte;

    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        ck_assert_int_eq(buffer_put(&letter, &(uint8_t){(uint8_t)byte}, 1), 0);
}

static void check_hex(const char *hex)
{
    ck_assert_uint_eq(buffer_size(&letter), strlen(hex) / 2);
    struct buffer is = letter;
    letter = (struct buffer){0};
    put_hex(hex);
    ck_assert_mem_eq(buffer_data(&is), buffer_data(&letter), buffer_size(&is));
    buffer_deinit(&is);
}

/* A field that a later version adds to the first frame. */
static void add_field(void)
{
    static const uint8_t field[] = {0xfa, 0x3f, 3, 'n', 'e', 'w'}; /* number 1023, bytes */
    struct buffer old = letter;
    struct frame frame;
    uint8_t header[FRAME_HEADER_SIZE];
    size_t used;

    letter = (struct buffer){0};
    ck_assert_int_eq(frame_parse(buffer_data(&old), buffer_size(&old), &frame, &used), 0);
    frame_put_header(header, frame.type, frame.tag, frame.header_size + sizeof(field), frame.body_size);
    ck_assert_int_eq(buffer_put(&letter, header, sizeof(header)), 0);
    ck_assert_int_eq(buffer_put(&letter, frame.header, frame.header_size), 0);
    ck_assert_int_eq(buffer_put(&letter, field, sizeof(field)), 0);
    ck_assert_int_eq(buffer_put(&letter, frame.body, frame.body_size), 0);
    ck_assert_int_eq(buffer_put(&letter, (const uint8_t *)buffer_data(&old) + used, buffer_size(&old) - used), 0);
    buffer_deinit(&old);
}

START_TEST(a_job_of_another_version_is_read)
{
    const struct msg_run run = job();
    struct letter_job got = {0};

    ck_assert_int_eq(letter_put_job(&letter, "node-1", &run, "input", 5), 0);
    check_hex(golden_job);
    if (_i)
        add_field();
    ck_assert_int_eq(letter_get_job(codec, buffer_data(&letter), buffer_size(&letter), &got, why), 0);
    ck_assert_mem_eq(got.run.id, run.id, sizeof(run.id));
    ck_assert_uint_eq(got.run.attempt, 2);
    ck_assert_str_eq(got.run.user.data, "alice");
    ck_assert_str_eq(got.run.job.function.data, "checksum:sha256");
    ck_assert_mem_eq(got.run.job.args.data, "a\0bc", 5);
    ck_assert_mem_eq(buffer_data(&got.input), "input", 5);
    buffer_deinit(&got.input);
}
END_TEST

START_TEST(an_end_of_another_version_is_read)
{
    const struct msg_run_end end = {.run = 2, .status = 7, .error = span("why"), .text = span("status"), .state = 9};
    struct letter_end got = {0};

    ck_assert_int_eq(letter_put_end(&letter, &end, "output", 6), 0);
    check_hex(golden_end);
    if (_i)
        add_field();
    ck_assert_int_eq(letter_get_end(codec, buffer_data(&letter), buffer_size(&letter), &got, why), 0);
    ck_assert_uint_eq(got.end.run, 2);
    ck_assert_uint_eq(got.end.status, 7);
    ck_assert_uint_eq(got.end.state, 9);
    ck_assert_str_eq(got.end.error.data, "why");
    ck_assert_mem_eq(buffer_data(&got.output), "output", 6);
    buffer_deinit(&got.output);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet letter");
    TCase *c = tcase_create("letter");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_job_comes_out_as_it_went_in, 0, ARRAY_SIZE(sizes));
    tcase_add_loop_test(c, an_end_comes_out_as_it_went_in, 0, ARRAY_SIZE(sizes));
    tcase_add_test(c, what_is_too_large_is_refused);
    tcase_add_test(c, the_largest_letter_is_taken);
    tcase_add_loop_test(c, a_seal_comes_out_as_it_went_in_up_to_the_limit, 0, 2);
    tcase_add_test(c, a_seal_of_nothing_is_refused);
    tcase_add_test(c, parts_have_subjects_of_their_own);
    tcase_add_loop_test(c, the_message_id_of_a_letter_says_whose_it_is, 0, ARRAY_SIZE(sent));
    tcase_add_test(c, what_a_job_says_comes_out_as_it_went_in);
    tcase_add_test(c, what_a_job_says_has_a_limit);
    tcase_add_loop_test(c, nothing_else_is_what_a_job_says, 0, 2);
    tcase_add_test(c, what_is_cut_is_refused);
    tcase_add_test(c, what_is_in_disorder_is_refused);
    tcase_add_test(c, the_first_job_of_a_parcel_is_a_letter);
    tcase_add_test(c, jobs_of_a_parcel_come_out_in_their_order);
    tcase_add_test(c, ends_of_a_parcel_come_out_with_their_places);
    tcase_add_test(c, what_does_not_fit_is_not_in_the_parcel);
    tcase_add_test(c, parcels_have_no_parts);
    tcase_add_test(c, parcels_have_subjects_that_no_letter_has);
    tcase_add_test(c, subjects_have_names_only);
    tcase_add_test(c, receipts_are_read);
    tcase_add_test(c, what_is_given_back_again_comes_later);
    tcase_add_loop_test(c, a_job_of_another_version_is_read, 0, 2);
    tcase_add_loop_test(c, an_end_of_another_version_is_read, 0, 2);
    suite_add_tcase(s, c);
    return run_suite(s);
}
