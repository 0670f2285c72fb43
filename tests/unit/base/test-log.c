/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/suite.h"

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

static unsigned n_sent;

static void count(const struct iovec *fields, int n)
{
    n_sent++;
}

static unsigned n_of(uint32_t uid)
{
    const struct log_about about = {.uid = &uid};
    unsigned before = n_sent;

    ck_assert_int_eq(log_event(LOG_KIND_JOB_CRASHED, LOG_ERR, &about, "crashed"), n_sent != before);
    return n_sent - before;
}

START_TEST(the_flood_of_one_user_hides_no_line_of_another)
{
    const uint32_t other = 1002;
    const struct log_about about = {.uid = &other};

    log_set_journal(count);
    for (unsigned i = 0; i < LOG_RATE_LINES; i++)
        ck_assert_uint_eq(n_of(1001), 1);
    for (unsigned i = 0; i < 100000; i++)
        ck_assert_uint_eq(n_of(1001), 0);
    for (unsigned i = 0; i < LOG_RATE_LINES; i++)
        ck_assert_uint_eq(n_of(other), 1);
    ck_assert_uint_eq(n_of(other), 0);
    /* nor does one kind hide another */
    ck_assert(log_event(LOG_KIND_JOB_DEAF, LOG_ERR, &about, "deaf"));
}
END_TEST

static char sent[16][256];
static int n_fields;

static void on_fields(const struct iovec *fields, int n)
{
    for (n_fields = 0; n_fields < n; n_fields++)
        snprintf(sent[n_fields], sizeof(sent[0]), "%.*s", (int)fields[n_fields].iov_len,
                 (const char *)fields[n_fields].iov_base);
}

static bool was_sent(const char *field)
{
    for (int i = 0; i < n_fields; i++)
        if (strcmp(sent[i], field) == 0)
            return true;
    return false;
}

START_TEST(no_field_of_the_journal_steers_a_terminal)
{
    const struct log_about about = {.plugin = "./\x1b]0;x\a.so", .function = "f\nPRIORITY=0"};

    log_set_journal(on_fields);
    ck_assert(
        log_event(LOG_KIND_PLUGIN_REFUSED, LOG_WARNING, &about, "plugin %s: \xc2\x9b\x9b\xe2\x80\xae", about.plugin));
    ck_assert(was_sent("MESSAGE=plugin ./\\x1b]0;x\\x07.so: \\u{9b}\\x9b\\u{202e}"));
    ck_assert(was_sent("PLUGIN=./\\x1b]0;x\\x07.so"));
    ck_assert(was_sent("FUNCTION=f\\x0aPRIORITY=0"));
}
END_TEST

START_TEST(no_line_on_stderr_steers_a_terminal)
{
    char line[128] = "";
    int pipes[2], n;

    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_int_ge(dup2(pipes[1], STDERR_FILENO), 0);
    log_warning("a\x1b[2J\nwsd: b\xc2\x9b");
    n = (int)read(pipes[0], line, sizeof(line) - 1);
    ck_assert_int_gt(n, 0);
    ck_assert_str_eq(line, "wsd: a\\x1b[2J\\x0awsd: b\\u{9b}\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *rate = tcase_create("rate");

    tcase_add_test(rate, lines_above_the_limit_are_left_out_and_counted);
    tcase_add_test(rate, a_quiet_time_begins_anew);
    tcase_add_test(rate, the_flood_of_one_user_hides_no_line_of_another);
    tcase_add_test(rate, no_field_of_the_journal_steers_a_terminal);
    tcase_add_test(rate, no_line_on_stderr_steers_a_terminal);
    suite_add_tcase(suite, rate);
    return run_suite(suite);
}
