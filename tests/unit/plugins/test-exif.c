/* SPDX-License-Identifier: Apache-2.0
 *
 * test-exif.c: the orientation, of both orders of bytes, and of what is broken. */
#include "plugins/exif.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <string.h>

#define LITTLE(n) "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" n "\0\0\0\0\0\0\0"
#define BIG(n)    "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" n "\0\0\0\0\0\0"

static unsigned orientation(const char *data, size_t size)
{
    return exif_orientation((const uint8_t *)data, size);
}

START_TEST(each_orientation_is_read_in_both_orders)
{
    for (uint8_t n = 1; n <= 8; n++) {
        char little[] = LITTLE("\1"), big[] = BIG("\1");

        little[24] = big[25] = (char)n;
        ck_assert_uint_eq(orientation(little, sizeof(little)), n);
        ck_assert_uint_eq(orientation(big, sizeof(big)), n);
    }
}
END_TEST

START_TEST(a_number_that_means_nothing_is_1)
{
    ck_assert_uint_eq(orientation(LITTLE("\0"), sizeof(LITTLE("\0"))), 1);
    ck_assert_uint_eq(orientation(LITTLE("\x09"), sizeof(LITTLE("\x09"))), 1);
    ck_assert_uint_eq(orientation(BIG("\xff"), sizeof(BIG("\xff"))), 1);
}
END_TEST

START_TEST(what_is_cut_short_or_broken_is_1)
{
    char data[] = LITTLE("\6");

    for (size_t size = 0; size < 25; size++)
        ck_assert_uint_eq(orientation(data, size), 1);
    data[6] = 'X';
    ck_assert_uint_eq(orientation(data, sizeof(data)), 1);
    memcpy(data, LITTLE("\6"), sizeof(data));
    memset(data + 10, 0xff, 4); /* where the directory is */
    ck_assert_uint_eq(orientation(data, sizeof(data)), 1);
    memcpy(data, LITTLE("\6"), sizeof(data));
    data[14] = 0; /* entries */
    ck_assert_uint_eq(orientation(data, sizeof(data)), 1);
    memcpy(data, LITTLE("\6"), sizeof(data));
    data[18] = 4; /* another type */
    ck_assert_uint_eq(orientation(data, sizeof(data)), 1);
}
END_TEST

/* Adds a segment; returns the new end. */
static size_t segment(uint8_t *to, size_t at, uint8_t marker, const void *data, size_t size)
{
    const uint8_t head[] = {0xff, marker, (uint8_t)((size + 2) >> 8), (uint8_t)(size + 2)};

    memcpy(to + at, head, sizeof(head));
    memcpy(to + at + sizeof(head), data, size);
    return at + sizeof(head) + size;
}

START_TEST(the_first_segment_of_a_jpeg_counts)
{
    uint8_t jpeg[1u << 14] = {0xff, 0xd8};
    size_t n = segment(jpeg, 2, 0xe0, "JFIF", 5), end;

    ck_assert_uint_eq(exif_of_jpeg(jpeg, n), 1);
    n = segment(jpeg, n, 0xe1, "http://ns.adobe.com/xap/1.0/", 29);
    end = segment(jpeg, n, 0xe1, LITTLE("\6"), sizeof(LITTLE("\6")));
    end = segment(jpeg, end, 0xe1, LITTLE("\3"), sizeof(LITTLE("\3")));
    ck_assert_uint_eq(exif_of_jpeg(jpeg, end), 6);
    for (size_t size = 0; size < n + 40; size++) /* it is cut short */
        ck_assert_uint_eq(exif_of_jpeg(jpeg, size), size < n + 4 + sizeof(LITTLE("\6")) ? 1u : 6u);
    end = segment(jpeg, n, 0xda, "pixels", 6);
    end = segment(jpeg, end, 0xe1, LITTLE("\6"), sizeof(LITTLE("\6")));
    ck_assert_uint_eq(exif_of_jpeg(jpeg, end), 1);
}
END_TEST

static unsigned behind(unsigned n_segments)
{
    uint8_t jpeg[1u << 14] = {0xff, 0xd8};
    size_t end = 2;

    for (unsigned i = 0; i < n_segments; i++)
        end = segment(jpeg, end, 0xfe, "", 0);
    return exif_of_jpeg(jpeg, segment(jpeg, end, 0xe1, LITTLE("\6"), sizeof(LITTLE("\6"))));
}

START_TEST(it_is_looked_for_among_a_thousand)
{
    ck_assert_uint_eq(behind(998), 6);
    ck_assert_uint_eq(behind(999), 6);
    ck_assert_uint_eq(behind(1000), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins exif");
    TCase *tcase = tcase_create("exif");

    tcase_add_test(tcase, each_orientation_is_read_in_both_orders);
    tcase_add_test(tcase, a_number_that_means_nothing_is_1);
    tcase_add_test(tcase, what_is_cut_short_or_broken_is_1);
    tcase_add_test(tcase, the_first_segment_of_a_jpeg_counts);
    tcase_add_test(tcase, it_is_looked_for_among_a_thousand);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
