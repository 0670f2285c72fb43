/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "base/log.h"

START_TEST(lines_above_the_limit_are_left_out_and_counted)
{
    struct log_rate r = {0};
    uint64_t left_out = 99;

    for (unsigned i = 0; i < LOG_RATE_LINES; i++) {
        ck_assert(log_rate_lets(&r, 1000 + i, &left_out));
        ck_assert_uint_eq(left_out, 0);
    }
    for (unsigned i = 0; i < 7; i++)
        ck_assert(!log_rate_lets(&r, 2000, &left_out));
    ck_assert(!log_rate_lets(&r, 1000 + LOG_RATE_USEC - 1, &left_out));
    ck_assert(log_rate_lets(&r, 1000 + LOG_RATE_USEC, &left_out));
    ck_assert_uint_eq(left_out, 8);
    ck_assert(log_rate_lets(&r, 1001 + LOG_RATE_USEC, &left_out));
    ck_assert_uint_eq(left_out, 0);
}
END_TEST

START_TEST(a_quiet_time_begins_anew)
{
    struct log_rate r = {0};
    uint64_t left_out, now = 5;

    for (int round = 0; round < 3; round++, now += LOG_RATE_USEC)
        for (unsigned i = 0; i < LOG_RATE_LINES; i++)
            ck_assert(log_rate_lets(&r, now, &left_out));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *rate = tcase_create("rate");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(rate, lines_above_the_limit_are_left_out_and_counted);
    tcase_add_test(rate, a_quiet_time_begins_anew);
    suite_add_tcase(suite, rate);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
