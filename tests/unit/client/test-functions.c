/* SPDX-License-Identifier: Apache-2.0
 *
 * test-functions.c: how jobs of functions have ended, as a client gets it from a wsd that it knows; and quantiles. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/histogram.h"
#include "peer.h"
#include "proto/records.h"
#include "tests/unit/suite.h"
#include "wsd/client.h"

static struct peer peer;
static struct wsd_client *client;
static struct wsd_function_stats last;
static struct wsd_bucket buckets[8];
static char plugin[64];
static unsigned n_shown;

static void begin(uint64_t features)
{
    n_shown = 0;
    peer_start(&peer, &client, 1 << 20, features);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static int keep(const struct wsd_function_stats *stats, void *userdata)
{
    last = *stats;
    ck_assert_uint_eq(stats->size, sizeof(*stats));
    ck_assert_uint_le(stats->run_usec.n_buckets, 8);
    memcpy(buckets, stats->run_usec.buckets, stats->run_usec.n_buckets * sizeof(*buckets));
    last.run_usec.buckets = buckets;
    strcpy(plugin, stats->plugin);
    n_shown++;
    return userdata ? *(int *)userdata : 0;
}

/* One function, with two histograms. */
static void send_function(uint32_t tag)
{
    static const struct msg_histogram two[] = {{HISTOGRAM_OUTPUT, 5, 5, 1}, {HISTOGRAM_RUN, 1000, 900, 2}};
    const struct msg m = {.type = FRAME_FUNCTION_STATS,
                          .function_stats = {.plugin = {"p", 1},
                                             .function = {"f", 1},
                                             .uid = 7,
                                             .succeeded = 1,
                                             .failed = 2,
                                             .cancelled = 3,
                                             .timed_out = 4,
                                             .crashed = 5,
                                             .interrupted = 6,
                                             .refused = 8,
                                             .direct = 9,
                                             .histograms = two,
                                             .n_histograms = 2}};
    uint8_t body[3 * CODEC_BUCKET_SIZE];

    codec_put_bucket(&(struct msg_bucket){5, 10}, body);
    codec_put_bucket(&(struct msg_bucket){63, 1}, body + CODEC_BUCKET_SIZE);
    codec_put_bucket(&(struct msg_bucket){histogram_bucket(900), 3}, body + 2 * CODEC_BUCKET_SIZE);
    peer_send(&peer, &m, tag, body, sizeof(body));
}

START_TEST(a_function_is_shown)
{
    begin(FEATURE_FUNCTIONS);
    send_function(1);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_functions(client, NULL, keep, NULL), 0);
    ck_assert_uint_eq(n_shown, 1);
    ck_assert_str_eq(plugin, "p");
    ck_assert(last.uid == 7 && last.succeeded == 1 && last.failed == 2 && last.cancelled == 3 && last.timed_out == 4);
    ck_assert(last.crashed == 5 && last.interrupted == 6 && last.refused == 8 && last.direct == 9);
    ck_assert(last.queue_usec.count == 0 && last.cpu_usec.n_buckets == 0);
    ck_assert(last.output_bytes.count == 10 && last.output_bytes.sum == 5);
    ck_assert(last.run_usec.count == 4 && last.run_usec.sum == 1000 && last.run_usec.max == 900);
    ck_assert(buckets[0].low == 63 && buckets[0].high == 63 && buckets[0].count == 1);
    ck_assert(buckets[1].low <= 900 && buckets[1].high >= 900 && buckets[1].count == 3);
}
END_TEST

START_TEST(a_callback_ends_the_list)
{
    begin(FEATURE_FUNCTIONS);
    send_function(1);
    send_function(1);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_functions(client, NULL, keep, &(int){-7}), -7);
    ck_assert_uint_eq(n_shown, 1);
}
END_TEST

START_TEST(a_filter_that_fits_none_is_refused_here)
{
    struct wsd_filter filter = {.size = sizeof(filter), .limit = 1};

    begin(FEATURE_FUNCTIONS);
    ck_assert_int_eq(wsd_client_functions(client, &filter, keep, NULL), -EINVAL);
    filter = (struct wsd_filter){.size = sizeof(filter), .function = "f"};
    ck_assert_int_eq(wsd_client_functions(client, &filter, keep, NULL), -EINVAL); /* of no plugin */
    ck_assert_int_eq(wsd_client_exit(client), 64);
}
END_TEST

START_TEST(an_older_wsd_does_not_count)
{
    begin(FEATURES_ALL & ~(uint64_t)FEATURE_FUNCTIONS);
    ck_assert_int_eq(wsd_client_functions(client, NULL, keep, NULL), -EOPNOTSUPP);
    ck_assert_str_eq(wsd_client_error(client), "wsd 9.9 does not count by function");
}
END_TEST

START_TEST(quantiles_are_values_at_or_below_which_a_part_is)
{
    static const struct wsd_bucket three[] = {{10, 10, 1}, {20, 21, 2}, {100, 103, 1}};
    const struct wsd_histogram h = {.count = 4, .sum = 151, .max = 101, .buckets = three, .n_buckets = 3}, none = {0};

    ck_assert_uint_eq(wsd_histogram_quantile(&h, 0), 10);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 0.25), 10);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 0.26), 20);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 0.75), 20);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 0.76), 101);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 1), 101);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, 7), 101);
    ck_assert_uint_eq(wsd_histogram_quantile(&h, -1), 10);
    ck_assert_uint_eq(wsd_histogram_quantile(&none, 0.5), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("functions");
    TCase *cases = tcase_create("all");

    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_add_test(cases, a_function_is_shown);
    tcase_add_test(cases, a_callback_ends_the_list);
    tcase_add_test(cases, a_filter_that_fits_none_is_refused_here);
    tcase_add_test(cases, an_older_wsd_does_not_count);
    suite_add_tcase(suite, cases);
    TCase *alone = tcase_create("alone");
    tcase_add_test(alone, quantiles_are_values_at_or_below_which_a_part_is);
    suite_add_tcase(suite, alone);
    return run_suite(suite);
}
