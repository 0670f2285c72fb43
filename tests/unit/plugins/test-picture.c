/* SPDX-License-Identifier: Apache-2.0
 *
 * test-picture.c: limits, turning and flattening. */
#include "plugins/picture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>

START_TEST(limits_hold_at_their_edges)
{
    struct picture picture;

    ck_assert(picture_fits(1, 1));
    ck_assert(!picture_fits(0, 1) && !picture_fits(1, 0));
    ck_assert(picture_fits(PICTURE_SIDE_MAX, 1) && picture_fits(1, PICTURE_SIDE_MAX));
    ck_assert(!picture_fits(PICTURE_SIDE_MAX + 1, 1) && !picture_fits(1, PICTURE_SIDE_MAX + 1));
    ck_assert(picture_fits(1u << 13, 1u << 14));
    ck_assert(!picture_fits(1u << 13, (1u << 14) + 1));
    ck_assert(!picture_fits(UINT32_MAX, UINT32_MAX));
    ck_assert_int_eq(picture_init(&picture, PICTURE_SIDE_MAX + 1, 1, 1), -EFBIG);
    picture_deinit(&picture);
}
END_TEST

/* Two rows of three pixels become what is expected of them, row by row. */
static void turned(unsigned orientation, uint32_t width, const char *expected)
{
    struct picture from, picture;

    ck_assert_int_eq(picture_init(&from, 3, 2, 1), 0);
    memcpy(from.pixels, "abcdef", 6);
    from.orientation = orientation;
    from.lossless = true;
    ck_assert_int_eq(picture_turned_init(&picture, &from), 0);
    picture_turn_rows(&from, &picture, 0, 1);
    picture_turn_rows(&from, &picture, 1, picture.height);
    picture_deinit(&from);
    ck_assert_uint_eq(picture.width, width);
    ck_assert_uint_eq(picture.height, 6 / width);
    ck_assert_uint_eq(picture.orientation, 1);
    ck_assert(picture.lossless);
    ck_assert_mem_eq(picture.pixels, expected, 6);
    picture_deinit(&picture);
}

START_TEST(each_orientation_is_turned_upright)
{
    turned(1, 3, "abcdef");
    turned(2, 3, "cbafed");
    turned(3, 3, "fedcba");
    turned(4, 3, "defabc");
    turned(5, 2, "adbecf");
    turned(6, 2, "daebfc");
    turned(7, 2, "fcebda");
    turned(8, 2, "cfbead");
}
END_TEST

START_TEST(alpha_is_laid_on_white)
{
    static const uint8_t pixels[] = {10, 20, 30, 255, 10, 20, 30, 0, 0, 255, 100, 128};
    static const uint8_t flat[] = {10, 20, 30, 255, 255, 255, 127, 255, 177};
    struct picture picture;

    ck_assert_int_eq(picture_init(&picture, 3, 1, 4), 0);
    memcpy(picture.pixels, pixels, sizeof(pixels));
    picture_flatten(&picture);
    ck_assert_uint_eq(picture.channels, 3);
    ck_assert_mem_eq(picture.pixels, flat, sizeof(flat));
    picture_flatten(&picture);
    ck_assert_mem_eq(picture.pixels, flat, sizeof(flat));
    picture_deinit(&picture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins picture");
    TCase *tcase = tcase_create("picture");

    tcase_add_test(tcase, limits_hold_at_their_edges);
    tcase_add_test(tcase, each_orientation_is_turned_upright);
    tcase_add_test(tcase, alpha_is_laid_on_white);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
