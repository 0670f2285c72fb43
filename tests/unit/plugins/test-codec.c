/* SPDX-License-Identifier: Apache-2.0
 *
 * test-codec.c: a cancelled job ends in each codec, while it decodes and while it encodes, wherever it is by then. The
 * services of a job are played by functions that count how often it asks whether to go on. */
#include "plugins/codec.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define WIDTH  600u
#define HEIGHT 500u

static const struct codec *const codecs[] = {&codec_jpeg, &codec_png, &codec_webp};
static unsigned looks, looks_max;
static struct buffer written;

static bool cancelled(struct wsd_job *job)
{
    return ++looks > looks_max;
}

static void *reserve(struct wsd_job *job, size_t min, size_t *ret_size)
{
    *ret_size = min;
    return buffer_room(&written, min);
}

static int commit(struct wsd_job *job, size_t size)
{
    written.size += size;
    return 0;
}

static const struct wsd_job_ops ops = {
    .size = sizeof(ops), .cancelled = cancelled, .reserve = reserve, .commit = commit};
static struct wsd_job job = {.size = sizeof(job), .ops = &ops};

/* Noise: a format can make nothing small of it. */
static void paint(struct picture *picture)
{
    uint32_t x = 42;

    ck_assert_int_eq(picture_init(picture, WIDTH, HEIGHT, 3), 0);
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT * 3; i++) {
        x = x * 1664525 + 1013904223;
        picture->pixels[i] = (uint8_t)(x >> 24);
    }
    picture->lossless = true;
}

/* Encodes into `written`, as long as the job is asked no more than n times. */
static int encode_within(const struct codec *codec, unsigned n)
{
    struct coding coding = {.job = &job};
    struct output output = {.job = &job};
    struct picture picture;
    int r, end;

    paint(&picture);
    looks = 0;
    looks_max = n;
    written.size = 0;
    r = codec->encode(&coding, &picture, 0, &output);
    end = output_end(&output);
    picture_deinit(&picture);
    return r ? r : end;
}

static int decode_within(const struct codec *codec, unsigned n)
{
    struct coding coding = {.job = &job};
    struct picture picture;
    int r;

    looks = 0;
    looks_max = n;
    r = codec->decode(&coding, (const uint8_t *)written.data, written.size, &(struct box){.width = 0}, &picture);
    ck_assert(r || (picture.width == WIDTH && picture.height == HEIGHT));
    picture_deinit(&picture);
    return r;
}

/* It asks `all` times, from the first to the last part of the work: ends at each of some of them. */
static void ends_at(int (*work)(const struct codec *codec, unsigned n), const struct codec *codec, unsigned all)
{
    ck_assert_uint_ge(all, 4);
    for (unsigned n = 0; n < all; n += MAX(all / 7, 1)) {
        ck_assert_int_eq(work(codec, n), -ECANCELED);
        ck_assert_uint_le(looks, n + 2); /* a library may ask again on its way out */
    }
    ck_assert_int_eq(work(codec, all - 1), -ECANCELED);
}

START_TEST(a_cancelled_job_encodes_no_further)
{
    ck_assert_int_eq(encode_within(codecs[_i], UINT32_MAX), 0);
    ends_at(encode_within, codecs[_i], looks);
    buffer_deinit(&written);
}
END_TEST

START_TEST(a_cancelled_job_decodes_no_further)
{
    ck_assert_int_eq(encode_within(codecs[_i], UINT32_MAX), 0);
    ck_assert_int_eq(decode_within(codecs[_i], UINT32_MAX), 0);
    ends_at(decode_within, codecs[_i], looks);
    buffer_deinit(&written);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins codec");
    TCase *tcase = tcase_create("codec");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_cancelled_job_encodes_no_further, 0, ARRAY_SIZE(codecs));
    tcase_add_loop_test(tcase, a_cancelled_job_decodes_no_further, 0, ARRAY_SIZE(codecs));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
