/* SPDX-License-Identifier: Apache-2.0
 *
 * test-resample.c: how much work other sizes take, that both orders make the same picture, and that a cancelled job ends
 * within a band. A worker is played by a function that runs loops in one piece. */
#include "plugins/resample.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "wsd/forms.h"

static unsigned looks, looks_max;

static bool cancelled(struct wsd_job *job)
{
    return ++looks > looks_max;
}

static int for_each(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                    wsd_each_fn *body, void *arg)
{
    return body(self, group, begin, end, arg);
}

static const struct wsd_job_ops job_ops = {.size = sizeof(job_ops), .cancelled = cancelled};
static struct wsd_job job = {.size = sizeof(job), .ops = &job_ops};
static const struct wsd_task_ops task_ops = {.size = sizeof(task_ops), .for_each = for_each};
static struct wsd_worker self = {.ops = &task_ops};

static struct frame frame_of(uint32_t width, uint32_t height)
{
    return (struct frame){.whole_width = width, .whole_height = height, .width = width, .height = height};
}

static int resample_within(unsigned n, struct picture *picture, uint32_t width, uint32_t height)
{
    struct frame frame = frame_of(width, height);

    looks = 0;
    looks_max = n;
    return resample(&self, &job, picture, &frame);
}

/* Soft, so that no sample is cut off at 0 or 255. */
static void paint(struct picture *picture, uint32_t width, uint32_t height)
{
    ck_assert_int_eq(picture_init(picture, width, height, 1), 0);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            picture_row(picture, y)[x] = (uint8_t)(60 + x * 120 / width + (y * 7) % 13);
}

START_TEST(work_is_bounded_whatever_the_sides)
{
    static const uint32_t sides[] = {1, 2, 100, 2048, 2895, 11585, 16384, 65535};
    size_t n = ARRAY_SIZE(sides);

    for (size_t i = 0; i < n * n * n * n; i++) {
        uint32_t width = sides[i % n], height = sides[i / n % n], to_width = sides[i / n / n % n];
        struct frame frame = frame_of(to_width, sides[i / n / n / n]);
        struct picture picture = {
            .width = width, .height = height, .full_width = width, .full_height = height, .divisor = 1};

        if (picture_fits(width, height) && picture_fits(frame.width, frame.height))
            ck_assert_uint_le(resample_work(&picture, &frame), RESAMPLE_WORK_MAX);
    }
}
END_TEST

static void transpose(struct picture *picture)
{
    looks = 0;
    looks_max = 1000;
    ck_assert_int_eq(picture_transpose(&self, &job, picture), 0);
}

/* From wide to tall takes the other order than from tall to wide. */
START_TEST(both_orders_make_the_same_picture)
{
    struct picture wide, tall;

    paint(&wide, 4000, 10);
    paint(&tall, 4000, 10);
    wide.orientation = tall.orientation = 6;
    transpose(&tall);
    ck_assert_uint_eq(tall.width, 10);
    ck_assert_int_eq(resample_within(100000, &wide, 10, 4000), 0);
    ck_assert_int_eq(resample_within(100000, &tall, 4000, 10), 0);
    transpose(&tall);
    ck_assert_uint_eq(wide.width, 10);
    ck_assert_uint_eq(wide.height, 4000);
    ck_assert_uint_eq(wide.orientation, 6);
    ck_assert_uint_eq(tall.orientation, 6);
    for (size_t i = 0; i < 40000; i++)
        ck_assert_int_le(abs(wide.pixels[i] - tall.pixels[i]), 1);
    picture_deinit(&wide);
    picture_deinit(&tall);
}
END_TEST

/* One row of the output is made of all rows of the source. */
START_TEST(a_cancelled_job_ends_within_a_band)
{
    struct picture picture;

    paint(&picture, 4096, 8192);
    ck_assert_int_eq(resample_within(1000, &picture, 4096, 1), 0);
    ck_assert_uint_ge(looks, 8);
    ck_assert_uint_eq(picture.height, 1);
    picture_deinit(&picture);
    for (unsigned n = 0; n < 8; n += 3) {
        paint(&picture, 4096, 8192);
        ck_assert_int_eq(resample_within(n, &picture, 4096, 1), -ECANCELED);
        ck_assert_uint_eq(looks, n + 1);
        picture_deinit(&picture);
    }
}
END_TEST

START_TEST(a_picture_that_may_not_be_is_refused)
{
    struct picture picture;

    paint(&picture, 4, 4);
    ck_assert_int_eq(resample_within(0, &picture, PICTURE_SIDE_MAX + 1, 1), -EFBIG);
    picture_deinit(&picture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins resample");
    TCase *tcase = tcase_create("resample");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, work_is_bounded_whatever_the_sides);
    tcase_add_test(tcase, both_orders_make_the_same_picture);
    tcase_add_test(tcase, a_cancelled_job_ends_within_a_band);
    tcase_add_test(tcase, a_picture_that_may_not_be_is_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
