/* SPDX-License-Identifier: Apache-2.0
 *
 * test-frame.c: the fixed header, whole, in pieces, and hostile. Bytes are handed over in blocks of their exact size,
 * so that ASan and valgrind see a read beyond them. */
#include "proto/frame.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static int parse_exact(const uint8_t *data, size_t size, struct frame *ret_frame, size_t *ret_size)
{
    uint8_t *copy = malloc(size ? size : 1);
    int r;

    if (size)
        memcpy(copy, data, size);
    r = frame_parse(copy, size, ret_frame, ret_size);
    free(copy);
    return r;
}

START_TEST(header_is_laid_out_as_documented)
{
    const uint8_t expected[] = {0x57, 1, 0x43, 0, 0x04, 0x03, 0x02, 0x01, 5, 0, 0, 0, 7, 1, 0, 0};
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, FRAME_OUTPUT, 0x01020304, 5, 263);
    ck_assert_mem_eq(header, expected, sizeof(expected));
}
END_TEST

START_TEST(whole_frame_comes_out_as_it_went_in)
{
    uint8_t data[FRAME_HEADER_SIZE + 8 + 3];
    struct frame frame;
    size_t size;

    frame_put_header(data, 0xfedc, UINT32_MAX, 5, 3);
    memcpy(data + FRAME_HEADER_SIZE, "headxbod???", 11);
    ck_assert_int_eq(frame_parse(data, sizeof(data), &frame, &size), 0);
    ck_assert_uint_eq(size, FRAME_HEADER_SIZE + 8);
    ck_assert_uint_eq(frame.type, 0xfedc);
    ck_assert_uint_eq(frame.tag, UINT32_MAX);
    ck_assert_uint_eq(frame.header_size, 5);
    ck_assert_uint_eq(frame.body_size, 3);
    ck_assert_mem_eq(frame.header, "headx", 5);
    ck_assert_mem_eq(frame.body, "bod", 3);
}
END_TEST

START_TEST(every_prefix_asks_for_more)
{
    uint8_t data[FRAME_HEADER_SIZE + 300] = {0};
    struct frame frame;
    size_t size;

    frame_put_header(data, FRAME_PING, 1, 100, 200);
    for (size_t n = 0; n < sizeof(data); n++) {
        ck_assert_int_eq(parse_exact(data, n, &frame, &size), FRAME_MORE);
        ck_assert_uint_eq(size, n < FRAME_HEADER_SIZE ? FRAME_HEADER_SIZE : sizeof(data));
    }
    ck_assert_int_eq(parse_exact(data, sizeof(data), &frame, &size), 0);
}
END_TEST

START_TEST(stream_of_frames_parses_byte_by_byte)
{
    uint8_t data[4096];
    size_t end = 0, at = 0, n_frames = 0;
    struct frame frame;

    for (uint32_t i = 0; i < 20; i++) {
        frame_put_header(data + end, FRAME_PING, i + 1, i, 3 * i);
        memset(data + end + FRAME_HEADER_SIZE, (int)i, (size_t)i * 4);
        end += FRAME_HEADER_SIZE + (size_t)i * 4;
    }
    for (size_t have = 0; have <= end; have++) {
        size_t size;
        int r = parse_exact(data + at, have - at, &frame, &size);

        if (r == FRAME_MORE)
            continue;
        ck_assert_int_eq(r, 0);
        n_frames++;
        ck_assert_uint_eq(frame.tag, n_frames);
        ck_assert_uint_eq(frame.body_size, 3 * (n_frames - 1));
        at += size;
    }
    ck_assert_uint_eq(n_frames, 20);
    ck_assert_uint_eq(at, end);
}
END_TEST

START_TEST(wrong_magic_shows_at_the_first_byte)
{
    struct frame frame;
    size_t size;

    for (unsigned b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;

        ck_assert_int_eq(parse_exact(&byte, 1, &frame, &size), b == FRAME_MAGIC ? FRAME_MORE : FRAME_E_MAGIC);
    }
    ck_assert_int_eq(parse_exact((const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, &frame, &size), FRAME_E_MAGIC);
}
END_TEST

START_TEST(wrong_version_shows_at_the_second_byte)
{
    struct frame frame;
    size_t size;

    for (unsigned b = 0; b < 256; b++) {
        uint8_t bytes[2] = {FRAME_MAGIC, (uint8_t)b};

        ck_assert_int_eq(parse_exact(bytes, 2, &frame, &size), b == FRAME_VERSION ? FRAME_MORE : FRAME_E_VERSION);
    }
}
END_TEST

START_TEST(size_is_limited_below_at_and_above)
{
    static const struct {
        uint32_t header, body;
        int answer;
    } cases[] = {
        {FRAME_PAYLOAD_MAX - 1, 0, FRAME_MORE},
        {FRAME_PAYLOAD_MAX, 0, FRAME_MORE},
        {FRAME_PAYLOAD_MAX + 1, 0, FRAME_E_TOO_LARGE},
        {0, FRAME_PAYLOAD_MAX - 1, FRAME_MORE},
        {0, FRAME_PAYLOAD_MAX, FRAME_MORE},
        {0, FRAME_PAYLOAD_MAX + 1, FRAME_E_TOO_LARGE},
        {100, FRAME_PAYLOAD_MAX - 101, FRAME_MORE},
        {100, FRAME_PAYLOAD_MAX - 100, FRAME_MORE},
        {100, FRAME_PAYLOAD_MAX - 99, FRAME_E_TOO_LARGE},
        {UINT32_MAX, UINT32_MAX, FRAME_E_TOO_LARGE},
        {1, UINT32_MAX, FRAME_E_TOO_LARGE},
        {0x80000000u, 0x80000000u, FRAME_E_TOO_LARGE},
    };
    struct frame frame;
    size_t size;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t data[FRAME_HEADER_SIZE];

        frame_put_header(data, FRAME_PING, 1, cases[i].header, cases[i].body);
        ck_assert_int_eq(parse_exact(data, sizeof(data), &frame, &size), cases[i].answer);
        if (cases[i].header > FRAME_PAYLOAD_MAX)
            ck_assert_int_eq(parse_exact(data, 12, &frame, &size), FRAME_E_TOO_LARGE);
    }
}
END_TEST

START_TEST(largest_frame_is_read)
{
    uint8_t *data = calloc(1, FRAME_MAX);
    struct frame frame;
    size_t size;

    frame_put_header(data, FRAME_PING, 1, 0, FRAME_PAYLOAD_MAX);
    ck_assert_int_eq(frame_parse(data, FRAME_MAX - 1, &frame, &size), FRAME_MORE);
    ck_assert_uint_eq(size, FRAME_MAX);
    ck_assert_int_eq(frame_parse(data, FRAME_MAX, &frame, &size), 0);
    ck_assert_uint_eq(frame.body_size, FRAME_PAYLOAD_MAX);
    free(data);
}
END_TEST

START_TEST(every_answer_has_words)
{
    for (int i = 0; i <= 5; i++)
        ck_assert_uint_gt(strlen(frame_strerror(i)), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame");
    TCase *tcase = tcase_create("frame");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, header_is_laid_out_as_documented);
    tcase_add_test(tcase, whole_frame_comes_out_as_it_went_in);
    tcase_add_test(tcase, every_prefix_asks_for_more);
    tcase_add_test(tcase, stream_of_frames_parses_byte_by_byte);
    tcase_add_test(tcase, wrong_magic_shows_at_the_first_byte);
    tcase_add_test(tcase, wrong_version_shows_at_the_second_byte);
    tcase_add_test(tcase, size_is_limited_below_at_and_above);
    tcase_add_test(tcase, largest_frame_is_read);
    tcase_add_test(tcase, every_answer_has_words);
    return run_suite(suite);
}
