/* SPDX-License-Identifier: Apache-2.0
 *
 * test-fit.c: which size a picture gets, and how far a decoder may divide it. */
#include "plugins/fit.h"
#include "tests/unit/suite.h"

#include <check.h>

#define BOX(...) (&(struct box){__VA_ARGS__})

static void expect(struct frame frame, uint64_t whole_width, uint64_t whole_height, uint32_t width, uint32_t height)
{
    ck_assert_uint_eq(frame.whole_width, whole_width);
    ck_assert_uint_eq(frame.whole_height, whole_height);
    ck_assert_uint_eq(frame.width, width);
    ck_assert_uint_eq(frame.height, height);
}

START_TEST(a_side_that_is_open_follows_the_ratio)
{
    expect(fit_into(400, 300, 1, BOX(.width = 200)), 200, 150, 200, 150);
    expect(fit_into(400, 300, 1, BOX(.height = 200)), 267, 200, 267, 200);
    expect(fit_into(400, 300, 1, BOX(.width = 0)), 400, 300, 400, 300);
}
END_TEST

START_TEST(inside_cover_and_fill_differ)
{
    expect(fit_into(400, 300, 1, BOX(100, 100, FIT_INSIDE)), 100, 75, 100, 75);
    expect(fit_into(400, 300, 1, BOX(100, 100, FIT_COVER)), 133, 100, 100, 100);
    expect(fit_into(400, 300, 1, BOX(100, 100, FIT_FILL)), 100, 100, 100, 100);
    expect(fit_into(10, 10, 1, BOX(30, 20, FIT_COVER)), 30, 30, 30, 20);
}
END_TEST

START_TEST(no_side_gets_lost)
{
    expect(fit_into(65535, 1, 1, BOX(.width = 1)), 1, 1, 1, 1);
    expect(fit_into(1, 65535, 1, BOX(100, 100, FIT_INSIDE)), 1, 100, 1, 100);
    expect(fit_into(1, 65535, 1, BOX(65535, 65535, FIT_COVER)), 65535, 4294836225, 65535, 65535);
}
END_TEST

START_TEST(shrinking_leaves_what_fits)
{
    expect(fit_into(100, 50, 1, BOX(100, 100, .shrink = true)), 100, 50, 100, 50);
    expect(fit_into(101, 50, 1, BOX(100, 100, .shrink = true)), 100, 50, 100, 50);
    expect(fit_into(99, 50, 1, BOX(100, 100)), 100, 51, 100, 51);
}
END_TEST

START_TEST(a_picture_on_its_side_takes_the_box_with_it)
{
    expect(fit_into(300, 400, 4, BOX(.width = 150)), 150, 200, 150, 200);
    expect(fit_into(300, 400, 5, BOX(.width = 200)), 150, 200, 150, 200);
    expect(fit_into(300, 400, 8, BOX(20, 50, FIT_FILL)), 50, 20, 50, 20);
}
END_TEST

START_TEST(decoders_divide_while_two_pixels_are_left_for_one)
{
    ck_assert_uint_eq(fit_divisor(1600, 1600, 1, BOX(.width = 100)), 8);
    ck_assert_uint_eq(fit_divisor(1599, 1599, 1, BOX(.width = 100)), 4);
    ck_assert_uint_eq(fit_divisor(400, 400, 1, BOX(.width = 100)), 2);
    ck_assert_uint_eq(fit_divisor(399, 399, 1, BOX(.width = 100)), 1);
    ck_assert_uint_eq(fit_divisor(4000, 100, 1, BOX(100, 100, FIT_FILL)), 1);
    ck_assert_uint_eq(fit_divisor(4000, 4000, 1, BOX(.width = 0)), 1);
    ck_assert_uint_eq(fit_divisor(60000, 60000, 1, BOX(.width = 1)), 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins fit");
    TCase *tcase = tcase_create("fit");

    tcase_add_test(tcase, a_side_that_is_open_follows_the_ratio);
    tcase_add_test(tcase, inside_cover_and_fill_differ);
    tcase_add_test(tcase, no_side_gets_lost);
    tcase_add_test(tcase, shrinking_leaves_what_fits);
    tcase_add_test(tcase, a_picture_on_its_side_takes_the_box_with_it);
    tcase_add_test(tcase, decoders_divide_while_two_pixels_are_left_for_one);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
