/* SPDX-License-Identifier: Apache-2.0
 *
 * test-parts.c: how a large input or output is divided: at, below and above the limits, no byte is in two parts or in
 * none. */
#include <stdint.h>

#include "base/cleanup.h"
#include "fleet/parts.h"
#include "tests/unit/suite.h"

static const struct {
    uint64_t size;
    uint32_t count;
    size_t last;
} divided[] = {
    {1, 1, 1},
    {PARTS_SIZE - 1, 1, PARTS_SIZE - 1},
    {PARTS_SIZE, 1, PARTS_SIZE},
    {PARTS_SIZE + 1, 2, 1},
    {2ull * PARTS_SIZE, 2, PARTS_SIZE},
    {2ull * PARTS_SIZE + 1, 3, 1},
    {LETTER_OUTPUT_MAX, 66, LETTER_OUTPUT_MAX - 65ull * PARTS_SIZE},
    {LETTER_INPUT_MAX, 1041, LETTER_INPUT_MAX - 1040ull * PARTS_SIZE},
};

START_TEST(each_byte_is_in_one_part)
{
    uint64_t sum = 0;
    uint32_t count = parts_count(divided[_i].size);

    ck_assert_uint_eq(count, divided[_i].count);
    for (uint32_t n = 0; n < count; n++) {
        size_t size = parts_size(divided[_i].size, n);

        ck_assert_uint_eq(size, n + 1 < count ? PARTS_SIZE : divided[_i].last);
        sum += size;
    }
    ck_assert_uint_eq(sum, divided[_i].size);
}
END_TEST

START_TEST(nothing_has_no_parts)
{
    ck_assert_uint_eq(parts_count(0), 0);
}
END_TEST

START_TEST(what_is_no_transfer_can_be_ended_and_ticked)
{
    struct parts p = {0};

    parts_tick(&p, UINT64_MAX);
    parts_forget(&p);
    parts_tick(&p, UINT64_MAX);
    parts_forget(&p);
    ck_assert_ptr_null(p.digest);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet parts");
    TCase *c = tcase_create("parts");

    tcase_add_loop_test(c, each_byte_is_in_one_part, 0, ARRAY_SIZE(divided));
    tcase_add_test(c, nothing_has_no_parts);
    tcase_add_test(c, what_is_no_transfer_can_be_ended_and_ticked);
    suite_add_tcase(s, c);
    return run_suite(s);
}
