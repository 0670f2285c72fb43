/* SPDX-License-Identifier: Apache-2.0
 *
 * test-histogram.c: counts by buckets: how near, how far, and together. */
#include "base/histogram.h"

#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "../suite.h"

static uint64_t random_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t total(const struct histogram *h)
{
    uint64_t n = 0;

    for (uint32_t b = 0; (b = histogram_next(h, b)) < HISTOGRAM_BUCKETS; b++)
        n += histogram_at(h, b);
    return n;
}

/* The middle of the bucket in which the value of this rank is. */
static uint64_t shown(const struct histogram *h, uint64_t rank)
{
    uint32_t b = histogram_next(h, 0);

    for (uint64_t n = histogram_at(h, b); n <= rank; n += histogram_at(h, b))
        b = histogram_next(h, b + 1);
    return histogram_low(b) + (histogram_high(b) - histogram_low(b)) / 2;
}

START_TEST(each_bucket_begins_behind_the_one_before)
{
    ck_assert_uint_eq(histogram_low(0), 0);
    for (uint32_t b = 0; b < HISTOGRAM_BUCKETS; b++) {
        ck_assert_uint_le(histogram_low(b), histogram_high(b));
        ck_assert_uint_eq(histogram_bucket(histogram_low(b)), b);
        ck_assert_uint_eq(histogram_bucket(histogram_high(b)), b);
        if (b > 0)
            ck_assert_uint_eq(histogram_high(b - 1) + 1, histogram_low(b));
    }
    ck_assert_uint_eq(histogram_high(HISTOGRAM_BUCKETS - 1), HISTOGRAM_MAX - 1);
}
END_TEST

START_TEST(small_values_have_a_bucket_each)
{
    for (uint32_t v = 0; v < 2 * HISTOGRAM_SUB; v++) {
        ck_assert_uint_eq(histogram_low(v), v);
        ck_assert_uint_eq(histogram_high(v), v);
    }
    ck_assert_uint_eq(histogram_high(2 * HISTOGRAM_SUB), histogram_low(2 * HISTOGRAM_SUB) + 1);
}
END_TEST

static void assert_near(uint64_t value)
{
    uint32_t b = histogram_bucket(value);
    uint64_t middle = histogram_low(b) + (histogram_high(b) - histogram_low(b)) / 2;
    uint64_t off = middle > value ? middle - value : value - middle;

    ck_assert_msg(off * 64 <= value, "%lu is shown as %lu", (unsigned long)value, (unsigned long)middle);
}

START_TEST(the_middle_of_a_bucket_is_near_each_of_its_values)
{
    uint64_t state = 88172645463325252;

    for (unsigned bit = 0; bit < 40; bit++)
        for (unsigned i = 0; i < 2000; i++) {
            uint64_t base = UINT64_C(1) << bit;

            assert_near(base + random_number(&state) % base);
            assert_near(base);
            assert_near(2 * base - 1);
        }
}
END_TEST

START_TEST(what_is_too_large_is_in_the_last_bucket_and_keeps_its_sum)
{
    struct histogram h = {.blocks = NULL};

    histogram_add(&h, HISTOGRAM_MAX - 1);
    histogram_add(&h, HISTOGRAM_MAX);
    histogram_add(&h, HISTOGRAM_MAX + 1);
    ck_assert_uint_eq(histogram_at(&h, HISTOGRAM_BUCKETS - 1), 3);
    ck_assert_uint_eq(h.sum, 3 * HISTOGRAM_MAX);
    ck_assert_uint_eq(h.max, HISTOGRAM_MAX + 1);
    histogram_add(&h, UINT64_MAX);
    ck_assert_uint_eq(h.sum, UINT64_MAX);
    histogram_add(&h, 1);
    ck_assert_uint_eq(h.sum, UINT64_MAX);
    ck_assert_uint_eq(h.max, UINT64_MAX);
    ck_assert_uint_eq(total(&h), 5);
    histogram_deinit(&h);
}
END_TEST

START_TEST(counts_go_beyond_32_bits)
{
    struct histogram h = {.blocks = NULL};

    histogram_count(&h, 7, UINT32_MAX);
    histogram_add(&h, 7);
    ck_assert_uint_eq(histogram_at(&h, 7), UINT64_C(1) << 32);
    histogram_deinit(&h);
}
END_TEST

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

START_TEST(quantiles_are_near_the_exact_ones)
{
    enum { N = 100000 };
    uint64_t *values = calloc(N, sizeof(*values)), state = 42, sum = 0;
    struct histogram h = {.blocks = NULL};

    ck_assert_ptr_nonnull(values);
    for (unsigned i = 0; i < N; i++) {
        values[i] = random_number(&state) >> (24 + random_number(&state) % 40); /* all magnitudes */
        histogram_add(&h, values[i]);
        sum += values[i];
    }
    qsort(values, N, sizeof(*values), compare);
    for (unsigned rank = 0; rank < N; rank += 97) {
        uint64_t s = shown(&h, rank), off = s > values[rank] ? s - values[rank] : values[rank] - s;

        ck_assert_msg(off * 64 <= values[rank], "rank %u: %lu for %lu", rank, (unsigned long)s,
                      (unsigned long)values[rank]);
    }
    ck_assert_uint_eq(h.sum, sum);
    ck_assert_uint_eq(h.max, values[N - 1]);
    ck_assert_uint_eq(total(&h), N);
    free(values);
    histogram_deinit(&h);
}
END_TEST

START_TEST(two_together_are_as_one)
{
    struct histogram one = {.blocks = NULL}, a = {.blocks = NULL}, b = {.blocks = NULL};
    uint64_t state = 7;

    for (unsigned i = 0; i < 10000; i++) {
        uint64_t v = random_number(&state) >> (24 + random_number(&state) % 36);

        histogram_add(&one, v);
        histogram_add(i % 3 ? &a : &b, v);
    }
    histogram_merge(&a, &b);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        ck_assert_uint_eq(histogram_at(&a, i), histogram_at(&one, i));
    ck_assert_uint_eq(a.max, one.max);
    ck_assert_uint_eq(a.sum, one.sum);
    histogram_deinit(&one);
    histogram_deinit(&a);
    histogram_deinit(&b);
}
END_TEST

START_TEST(only_powers_of_two_that_occur_take_memory)
{
    struct histogram h = {.blocks = NULL};

    ck_assert_uint_eq(histogram_next(&h, 0), HISTOGRAM_BUCKETS);
    for (unsigned i = 0; i < 1000; i++)
        histogram_add(&h, 4096 + i);
    ck_assert_uint_eq(h.n_blocks, 1);
    histogram_add(&h, 3);
    ck_assert_uint_eq(h.n_blocks, 2);
    ck_assert_uint_eq(histogram_next(&h, 0), 3);
    ck_assert_uint_eq(histogram_next(&h, 4), histogram_bucket(4096)); /* over empty blocks, from inside of one */
    ck_assert_uint_eq(histogram_next(&h, HISTOGRAM_SUB + 1), histogram_bucket(4096));
    for (unsigned bit = 0; bit < 64; bit++)
        histogram_add(&h, UINT64_C(1) << bit);
    ck_assert_uint_eq(h.n_blocks, HISTOGRAM_BLOCKS);
    histogram_deinit(&h);
    ck_assert_uint_eq(h.n_blocks, 0);
    ck_assert_uint_eq(histogram_next(&h, 0), HISTOGRAM_BUCKETS);
}
END_TEST

START_TEST(percentiles_are_right_to_a_thirty_second)
{
    static const uint64_t bounds[] = {1, 63, 64, 65, 127, 128, 129, 1000, 1000000, HISTOGRAM_MAX, UINT64_MAX};
    struct histogram h = {.blocks = NULL};

    ck_assert_uint_eq(histogram_percentile(&h, 50), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
        histogram_deinit(&h);
        histogram_add(&h, bounds[i]);
        ck_assert_uint_eq(histogram_percentile(&h, 1), bounds[i]); /* never above the greatest */
    }
    for (uint64_t n = 1; n <= 100000; n *= 10) {
        histogram_deinit(&h);
        for (uint64_t i = 1; i <= n; i++)
            histogram_add(&h, i);
        for (uint32_t percent = 1; percent <= 100; percent++) {
            uint64_t exact = (n * percent + 99) / 100, got = histogram_percentile(&h, percent);

            ck_assert_uint_ge(got, exact);
            ck_assert_uint_le(got, exact + exact / 32);
        }
        ck_assert_uint_eq(h.max, n);
    }
    histogram_deinit(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *cases = tcase_create("all");

    tcase_add_test(cases, each_bucket_begins_behind_the_one_before);
    tcase_add_test(cases, small_values_have_a_bucket_each);
    tcase_add_test(cases, the_middle_of_a_bucket_is_near_each_of_its_values);
    tcase_add_test(cases, what_is_too_large_is_in_the_last_bucket_and_keeps_its_sum);
    tcase_add_test(cases, counts_go_beyond_32_bits);
    tcase_add_test(cases, quantiles_are_near_the_exact_ones);
    tcase_add_test(cases, percentiles_are_right_to_a_thirty_second);
    tcase_add_test(cases, two_together_are_as_one);
    tcase_add_test(cases, only_powers_of_two_that_occur_take_memory);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
