/* SPDX-License-Identifier: Apache-2.0
 *
 * test-record.c: rows to bytes and back, and bytes that are no record. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/record.h"
#include "tests/unit/suite.h"

static struct buffer b;

static void teardown(void)
{
    buffer_deinit(&b);
}

static struct store_row full(void)
{
    return (struct store_row){.plugin = "plugin",
                              .function = "",
                              .directory = "/some/where",
                              .priority = -100,
                              .function_flags = UINT64_MAX,
                              .timeout_usec = 127,
                              .retry_usec = 128,
                              .retries = UINT32_MAX,
                              .retry_on = 0x3fff,
                              .submitted_usec = 1ull << 62,
                              .due_usec = 0x4000,
                              .due_at = 1,
                              .delay_usec = 5,
                              .wait_usec = 6,
                              .argc = 7,
                              .tags = "a,b",
                              .after = "x\0y",
                              .after_size = 3,
                              .exit = 8,
                              .retried = 9,
                              .attempts = 10,
                              .ended_usec = 11,
                              .queued_usec = 12,
                              .run_usec = 13,
                              .cpu_usec = 14,
                              .done = 15,
                              .total = 16,
                              .output_size = 17,
                              .error = "error",
                              .status = NULL,
                              .worker = "worker",
                              .backtrace = "back\ntrace",
                              .id = {1, 2, 3, 0, 255},
                              .uid = 18,
                              .state = 19,
                              .key = "key",
                              .traceparent = "00-1-2-01",
                              .args = "ar\0gs",
                              .args_size = 6,
                              .input = "input",
                              .input_size = 5,
                              .output = "the output, so long",
                              .requeued = 20};
}

static void pack(enum record which, const struct store_row *row)
{
    buffer_drop(&b, buffer_size(&b));
    ck_assert_int_eq(record_pack(which, row, &b), 0);
}

static void check_text(const char *got, const char *expected)
{
    if (expected)
        ck_assert_str_eq(got, expected);
    else
        ck_assert_ptr_null(got);
}

START_TEST(what_was_given_comes_back)
{
    struct store_row row = full(), got = {0};

    pack(RECORD_GIVEN, &row);
    ck_assert(record_unpack(RECORD_GIVEN, buffer_data(&b), buffer_size(&b), &got));
    check_text(got.plugin, row.plugin);
    check_text(got.function, row.function);
    check_text(got.directory, row.directory);
    ck_assert_int_eq(got.priority, row.priority);
    ck_assert_uint_eq(got.function_flags, row.function_flags);
    ck_assert_uint_eq(got.timeout_usec, row.timeout_usec);
    ck_assert_uint_eq(got.retry_usec, row.retry_usec);
    ck_assert_uint_eq(got.retries, row.retries);
    ck_assert_uint_eq(got.retry_on, row.retry_on);
    ck_assert_uint_eq(got.submitted_usec, row.submitted_usec);
    ck_assert_uint_eq(got.due_usec, row.due_usec);
    ck_assert_uint_eq(got.due_at, row.due_at);
    ck_assert_uint_eq(got.delay_usec, row.delay_usec);
    ck_assert_uint_eq(got.wait_usec, row.wait_usec);
    ck_assert_uint_eq(got.argc, row.argc);
    check_text(got.tags, row.tags);
    ck_assert_uint_eq(got.after_size, 3);
    ck_assert_mem_eq(got.after, row.after, 3);
    ck_assert_mem_eq(got.id, row.id, sizeof(row.id));
    ck_assert_uint_eq(got.uid, row.uid);
    ck_assert_uint_eq(got.state, row.state);
    check_text(got.key, row.key);
    check_text(got.traceparent, row.traceparent);
    ck_assert_uint_eq(got.args_size, 6);
    ck_assert_mem_eq(got.args, row.args, 6);
    ck_assert_uint_eq(got.input_size, 5);
    ck_assert_mem_eq(got.input, row.input, 5);
    ck_assert_uint_eq(got.exit, 0); /* of the other record */
}
END_TEST

START_TEST(what_is_known_comes_back)
{
    struct store_row row = full(), got = {0};

    pack(RECORD_KNOWN, &row);
    ck_assert(record_unpack(RECORD_KNOWN, buffer_data(&b), buffer_size(&b), &got));
    ck_assert_uint_eq(got.exit, row.exit);
    ck_assert_uint_eq(got.retried, row.retried);
    ck_assert_uint_eq(got.attempts, row.attempts);
    ck_assert_uint_eq(got.due_usec, row.due_usec);
    ck_assert_uint_eq(got.due_at, row.due_at);
    ck_assert_uint_eq(got.ended_usec, row.ended_usec);
    ck_assert_uint_eq(got.queued_usec, row.queued_usec);
    ck_assert_uint_eq(got.run_usec, row.run_usec);
    ck_assert_uint_eq(got.cpu_usec, row.cpu_usec);
    ck_assert_uint_eq(got.done, row.done);
    ck_assert_uint_eq(got.total, row.total);
    ck_assert_uint_eq(got.output_size, row.output_size);
    check_text(got.error, row.error);
    check_text(got.status, row.status);
    check_text(got.worker, row.worker);
    check_text(got.backtrace, row.backtrace);
    ck_assert_uint_eq(got.state, row.state);
    ck_assert_mem_eq(got.output, row.output, row.output_size);
    ck_assert_uint_eq(got.requeued, row.requeued);
    ck_assert_ptr_null(got.plugin);
}
END_TEST

/* They stand somewhere else then; how many there are is known all the same. */
START_TEST(bytes_that_are_not_there_leave_their_size)
{
    struct store_row row = full(), got = {0};

    row.args = row.input = row.output = NULL;
    pack(RECORD_GIVEN, &row);
    ck_assert(record_unpack(RECORD_GIVEN, buffer_data(&b), buffer_size(&b), &got));
    ck_assert_uint_eq(got.args_size, row.args_size);
    ck_assert_uint_eq(got.input_size, row.input_size);
    ck_assert_ptr_null(got.args);
    ck_assert_ptr_null(got.input);
    pack(RECORD_KNOWN, &row);
    ck_assert(record_unpack(RECORD_KNOWN, buffer_data(&b), buffer_size(&b), &got));
    ck_assert_uint_eq(got.output_size, row.output_size);
    ck_assert_ptr_null(got.output);
}
END_TEST

static const int priorities[] = {0, 1, -1, 100, -100, INT32_MAX, INT32_MIN};

START_TEST(each_priority_comes_back)
{
    struct store_row row = {.plugin = "p", .function = "f", .priority = priorities[_i]}, got = {0};

    pack(RECORD_GIVEN, &row);
    ck_assert(record_unpack(RECORD_GIVEN, buffer_data(&b), buffer_size(&b), &got));
    ck_assert_int_eq(got.priority, priorities[_i]);
}
END_TEST

START_TEST(fields_that_an_older_one_lacks_stay_as_they_are)
{
    struct store_row row = full(), got = {.argc = 42};

    pack(RECORD_GIVEN, &row);
    ck_assert(record_unpack(RECORD_GIVEN, buffer_data(&b), sizeof("plugin") + 1, &got));
    check_text(got.plugin, "plugin");
    ck_assert_ptr_null(got.function);
    ck_assert_uint_eq(got.argc, 42);
    ck_assert(record_unpack(RECORD_KNOWN, NULL, 0, &got));
}
END_TEST

/* Bytes of exactly that size, so that a sanitizer sees a step beyond. */
static bool unpack_copy(enum record which, const void *data, size_t size)
{
    struct store_row row = {0};
    _cleanup_(freep) uint8_t *copy = malloc(size + !size);

    memcpy(copy, data, size);
    bool fine = record_unpack(which, copy, size, &row);
    if (fine && which == RECORD_GIVEN) /* texts end within */
        ck_assert(!row.tags || strlen(row.tags) < size);
    return fine;
}

START_TEST(damage_is_told)
{
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    static const uint8_t too_large[] = {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    static const uint8_t no_end[] = {2, 'a', 'b'}, inner_end[] = {3, 'a', 0, 0}, too_long[] = {4, 'a', 0};
    static const uint8_t wide[] = {0xff, 0xff, 0xff, 0xff, 0x10}; /* exit has 32 bits */

    ck_assert(!unpack_copy(RECORD_GIVEN, endless, sizeof(endless)));
    ck_assert(!unpack_copy(RECORD_GIVEN, too_large, sizeof(too_large)));
    ck_assert(!unpack_copy(RECORD_GIVEN, no_end, sizeof(no_end)));
    ck_assert(!unpack_copy(RECORD_GIVEN, inner_end, sizeof(inner_end)));
    ck_assert(!unpack_copy(RECORD_GIVEN, too_long, sizeof(too_long)));
    ck_assert(!unpack_copy(RECORD_KNOWN, wide, sizeof(wide)));
    struct store_row row = full();
    pack(RECORD_KNOWN, &row);
    ck_assert_int_eq(buffer_put(&b, "", 1), 0); /* more than there are fields */
    ck_assert(!unpack_copy(RECORD_KNOWN, buffer_data(&b), buffer_size(&b)));
}
END_TEST

START_TEST(no_bytes_lead_beyond_them)
{
    struct store_row row = full();
    unsigned n_fine = 0;

    srandom(1);
    for (unsigned i = 0; i < 200000; i++) {
        enum record which = i % 2 ? RECORD_GIVEN : RECORD_KNOWN;

        pack(which, &row);
        for (unsigned k = 0; k < 3; k++)
            b.data[(size_t)random() % buffer_size(&b)] = (uint8_t)random();
        n_fine += unpack_copy(which, buffer_data(&b), (size_t)random() % (buffer_size(&b) + 1));
    }
    ck_assert_uint_gt(n_fine, 0);
}
END_TEST

START_TEST(entries_come_back)
{
    static const struct entry entries[] = {
        {ENTRY_GIVEN, ENTRY_APART | ENTRY_KEYED, UINT64_MAX, (const uint8_t *)"given", 5},
        {.kind = ENTRY_STARTED, .number = 1},
        {ENTRY_KNOWN, ENTRY_DEAD, 128, (const uint8_t *)"known", 5},
        {.kind = ENTRY_GONE, .number = 0x4000}};
    struct entry e;
    size_t sum = 0;

    buffer_drop(&b, buffer_size(&b));
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        ck_assert_int_eq(entry_put(&b, &entries[i]), 0);
        sum += entry_size(&entries[i]);
        ck_assert_uint_eq(sum, buffer_size(&b));
    }
    for (size_t end = 0; end <= sum; end++) { /* however many bytes there are of them */
        _cleanup_(freep) uint8_t *copy = malloc(end + !end);
        const uint8_t *at = copy;
        size_t left = end, i = 0;

        memcpy(copy, buffer_data(&b), end);
        for (; entry_next(&at, &left, &e); i++) {
            ck_assert_int_eq(e.kind, entries[i].kind);
            ck_assert_uint_eq(e.flags, entries[i].flags);
            ck_assert_uint_eq(e.number, entries[i].number);
            ck_assert_uint_eq(e.size, entries[i].size);
            if (e.size)
                ck_assert_mem_eq(e.data, entries[i].data, e.size);
        }
        ck_assert_int_eq(i == ARRAY_SIZE(entries), end == sum);
    }
    static const uint8_t no_kind[] = {0, 1, 0}, another_kind[] = {5, 1, 0}, more_flags[] = {ENTRY_GONE | 8 << 3, 1, 0};
    for (size_t i = 0; i < 3; i++) {
        const uint8_t *at = i == 0 ? no_kind : i == 1 ? another_kind : more_flags;
        size_t left = 3;

        ck_assert(!entry_next(&at, &left, &e));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("record");
    Suite *s = suite_create("record");

    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, what_was_given_comes_back);
    tcase_add_test(tc, what_is_known_comes_back);
    tcase_add_test(tc, bytes_that_are_not_there_leave_their_size);
    tcase_add_test(tc, entries_come_back);
    tcase_add_loop_test(tc, each_priority_comes_back, 0, (int)ARRAY_SIZE(priorities));
    tcase_add_test(tc, fields_that_an_older_one_lacks_stay_as_they_are);
    tcase_add_test(tc, damage_is_told);
    tcase_add_test(tc, no_bytes_lead_beyond_them);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
