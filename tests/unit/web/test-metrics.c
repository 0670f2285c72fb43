/* SPDX-License-Identifier: Apache-2.0
 *
 * test-metrics.c: a look as text for Prometheus: families in one piece, units, escapes, and what another version of wsd
 * does not have. That Prometheus takes it is shown by integration/web.sh. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "web/metrics.h"

static struct buffer text;

static void setup(void)
{
    text = (struct buffer){0};
}

static void teardown(void)
{
    buffer_deinit(&text);
}

static const char *write_look(const char *json, bool openmetrics)
{
    json_error_t error;
    json_t *look = json ? json_loads(json, 0, &error) : NULL;

    ck_assert(!json || look);
    ck_assert_int_eq(metrics_write(&text, look, openmetrics), 0);
    ck_assert_int_eq(buffer_put(&text, "", 1), 0);
    json_decref(look);
    return (const char *)buffer_data(&text);
}

#define HAS(said, words)   ck_assert_msg(strstr(said, words) != NULL, "`%s' is not in:\n%s", words, said)
#define LACKS(said, words) ck_assert_msg(strstr(said, words) == NULL, "`%s' is in:\n%s", words, said)

START_TEST(a_wsd_that_does_not_answer_is_down)
{
    const char *said = write_look(NULL, false);

    HAS(said, "\nwsd_up 0\n");
    LACKS(said, "wsd_jobs");
    HAS(said, "process_cpu_seconds_total ");
}
END_TEST

START_TEST(counters_have_their_values_and_units)
{
    const char *said = write_look("{\"wsd\":\"wsd 9\",\"counters\":{\"jobs_submitted\":12,\"jobs_succeeded\":7,"
                                  "\"jobs_timed_out\":2,\"jobs_open\":3,\"direct_cpu_usec\":1500000,\"unheard_of\":1}}",
                                  false);

    HAS(said, "\nwsd_up 1\n");
    HAS(said, "# TYPE wsd_jobs_submitted_total counter\nwsd_jobs_submitted_total 12\n");
    HAS(said, "# TYPE wsd_jobs_total counter\nwsd_jobs_total{outcome=\"succeeded\"} 7\n"
              "wsd_jobs_total{outcome=\"timed-out\"} 2\n");
    HAS(said, "# TYPE wsd_jobs_open gauge\nwsd_jobs_open 3\n");
    HAS(said, "\nwsd_direct_cpu_seconds_total 1.500000\n");
    LACKS(said, "unheard_of");
    LACKS(said, "wsd_jobs_queued"); /* another version of wsd may have no such counter */
    LACKS(said, "# EOF");
}
END_TEST

START_TEST(a_family_without_its_first_counter_has_its_help)
{
    const char *said = write_look("{\"counters\":{\"jobs_crashed\":1}}", false);

    HAS(said, "# HELP wsd_jobs_total Jobs that have ended, by outcome.\n");
}
END_TEST

START_TEST(openmetrics_names_families_without_total)
{
    const char *said = write_look("{\"counters\":{\"jobs_submitted\":12}}", true);

    HAS(said, "# TYPE wsd_jobs_submitted counter\nwsd_jobs_submitted_total 12\n");
    ck_assert_str_eq(said + strlen(said) - 6, "# EOF\n");
}
END_TEST

START_TEST(workers_are_told_apart)
{
    const char *said = write_look("{\"pool\":{\"workers\":[{\"executor\":1,\"worker\":0,\"counters\":{\"roots\":5,"
                                  "\"cpu_usec\":250000}},{\"executor\":1,\"worker\":1,\"counters\":{\"roots\":6}}]}}",
                                  false);

    HAS(said,
        "wsd_worker_jobs_total{executor=\"1\",worker=\"0\"} 5\nwsd_worker_jobs_total{executor=\"1\",worker=\"1\"} 6\n");
    HAS(said, "wsd_worker_cpu_seconds_total{executor=\"1\",worker=\"0\"} 0.250000\n");
}
END_TEST

START_TEST(functions_have_histograms_in_seconds)
{
    const char *said = write_look(
        "{\"functions\":[{\"plugin\":\"fib\",\"function\":\"fib\",\"user\":\"bob\",\"succeeded\":5,\"timed_out\":1,"
        "\"cpu_usec\":{\"sum\":250000},\"run_usec\":{\"count\":6,\"sum\":1500000,\"below\":[0,1,2,3,4,5,5,5,5,5,5,5,5,"
        "6]}}]}",
        false);

    HAS(said, "wsd_function_jobs_total{plugin=\"fib\",function=\"fib\",user=\"bob\",outcome=\"succeeded\"} 5\n");
    HAS(said, "outcome=\"timed-out\"} 1\n");
    HAS(said, "wsd_function_cpu_seconds_total{plugin=\"fib\",function=\"fib\",user=\"bob\"} 0.250000\n");
    HAS(said, "# TYPE wsd_function_run_seconds histogram\n");
    HAS(said, "wsd_function_run_seconds_bucket{plugin=\"fib\",function=\"fib\",user=\"bob\",le=\"1e-06\"} 0\n");
    HAS(said, "user=\"bob\",le=\"67.1089\"} 6\n");
    HAS(said, "user=\"bob\",le=\"+Inf\"} 6\nwsd_function_run_seconds_sum{");
    HAS(said, "wsd_function_run_seconds_sum{plugin=\"fib\",function=\"fib\",user=\"bob\"} 1.500000\n");
    HAS(said, "wsd_function_run_seconds_count{plugin=\"fib\",function=\"fib\",user=\"bob\"} 6\n");
}
END_TEST

START_TEST(what_wsd_says_cannot_end_a_label)
{
    const char *said = write_look("{\"wsd\":\"a\\\"b\\\\c\\nd\"}", false);

    HAS(said, "wsd_info{version=\"a\\\"b\\\\c\\nd\"} 1\n");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("web metrics");
    TCase *c = tcase_create("metrics");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_wsd_that_does_not_answer_is_down);
    tcase_add_test(c, counters_have_their_values_and_units);
    tcase_add_test(c, a_family_without_its_first_counter_has_its_help);
    tcase_add_test(c, openmetrics_names_families_without_total);
    tcase_add_test(c, workers_are_told_apart);
    tcase_add_test(c, functions_have_histograms_in_seconds);
    tcase_add_test(c, what_wsd_says_cannot_end_a_label);
    suite_add_tcase(s, c);
    return run_suite(s);
}
