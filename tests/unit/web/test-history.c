/* SPDX-License-Identifier: Apache-2.0
 *
 * test-history.c: an hour by the second and a week by the minute: what is kept, what leaves a gap, and what goes. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "web/history.h"

static uint64_t now = 200000;
static char directory[] = "/tmp/wsd-history-XXXXXX";

static void make_directory(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void remove_directory(void)
{
    char command[80];

    snprintf(command, sizeof(command), "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static struct history h;
static uint64_t times[HISTORY_MINUTES];
static float firsts[HISTORY_MINUTES];
static uint32_t n;

static void setup(void)
{
    memset(&h, 0, sizeof(h));
    h.n_series = 2;
    n = 0;
}

static void add(uint64_t seconds, float first, float second)
{
    float values[HISTORY_SERIES] = {first, second};

    history_add(&h, seconds, values);
}

static void note(uint64_t time, const float *values, void *context)
{
    times[n] = time;
    firsts[n++] = values[0];
}

static uint32_t look(enum history_span span)
{
    n = 0;
    history_each(&h, span, note, NULL);
    return n;
}

START_TEST(nothing_is_there_at_first)
{
    ck_assert_uint_eq(look(HISTORY_HOUR), 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 0);
}
END_TEST

START_TEST(samples_come_back_in_order_and_gaps_stay)
{
    add(100000, 1, 0);
    add(100001, 2, 0);
    add(100007, 3, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 3);
    ck_assert_uint_eq(times[0], 100000);
    ck_assert_uint_eq(times[1], 100001);
    ck_assert_uint_eq(times[2], 100007);
    ck_assert_float_eq(firsts[2], 3);
}
END_TEST

START_TEST(a_second_has_its_last_value)
{
    add(100000, 1, 0);
    add(100000, 5, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 5);
}
END_TEST

START_TEST(a_clock_that_was_set_back_a_little_changes_nothing)
{
    add(100000, 1, 0);
    add(99999, 5, 0);
    add(100000 - HISTORY_BACK, 7, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 1);
}
END_TEST

START_TEST(samples_go_on_where_a_clock_far_ahead_is_put_right)
{
    add(100000, 1, 0);
    add(100005 + 86400, 2, 0);
    add(100001, 3, 0);
    add(100002, 4, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 3);
    ck_assert_uint_eq(times[0], 100000);
    ck_assert_uint_eq(times[2], 100002);
    ck_assert_float_eq(firsts[1], 3);
    ck_assert_uint_eq(look(HISTORY_WEEK), 1);
    ck_assert_float_eq_tol(firsts[0], 3.5f, 0.01f); /* the minute is begun anew */
    add(100002 - HISTORY_BACK - 1, 5, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 5);
    add(100002 - HISTORY_BACK - 1 - HISTORY_SECONDS, 6, 0); /* the same place */
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
    ck_assert_float_eq(firsts[0], 6);
}
END_TEST

START_TEST(an_hour_is_kept_and_no_more)
{
    for (uint32_t i = 0; i <= HISTORY_SECONDS; i++)
        add(100000 + i, (float)i, 0);
    ck_assert_uint_eq(look(HISTORY_HOUR), HISTORY_SECONDS);
    ck_assert_uint_eq(times[0], 100001);
    ck_assert_float_eq(firsts[0], 1);
    add(100000 + 2 * HISTORY_SECONDS + 5, 9, 0); /* all before is out of the hour */
    ck_assert_uint_eq(look(HISTORY_HOUR), 1);
}
END_TEST

START_TEST(a_minute_is_the_mean_of_its_seconds)
{
    for (uint32_t i = 0; i < 60; i++)
        add(120000 + i, (float)i, 0);
    add(120060, 100, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 2);
    ck_assert_uint_eq(times[0], 120000);
    ck_assert_float_eq_tol(firsts[0], 29.5f, 0.01f);
    ck_assert_uint_eq(times[1], 120060);
    ck_assert_float_eq(firsts[1], 100);
}
END_TEST

START_TEST(what_is_not_known_is_left_out_of_the_mean)
{
    add(120000, NAN, 0);
    add(120001, 4, 0);
    add(120002, NAN, 0);
    add(120003, 6, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 1);
    ck_assert_float_eq(firsts[0], 5);
    add(120060, NAN, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), 2);
    ck_assert(isnan(firsts[1]));
}
END_TEST

START_TEST(a_week_is_kept_and_no_more)
{
    for (uint32_t i = 0; i <= HISTORY_MINUTES; i++)
        add(600000 + i * UINT64_C(60), (float)i, 0);
    ck_assert_uint_eq(look(HISTORY_WEEK), HISTORY_MINUTES);
    ck_assert_uint_eq(times[0], 600060);
}
END_TEST

/* Returns what history_open() returns; *ret is closed by the caller. */
static int open_here(const char *name, struct history **ret, uint32_t n_series)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return history_open(ret, path, n_series, now);
}

START_TEST(a_file_keeps_what_was_seen)
{
    const float values[HISTORY_SERIES] = {4, 5};
    struct history *first, *again;
    int status;

    pid_t child = fork(); /* its lock and its mapping go with it, and it is killed */
    if (child == 0) {
        if (open_here("kept", &first, 2) == 0)
            history_add(first, 100000, values);
        raise(SIGKILL);
    }
    ck_assert(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    ck_assert_int_eq(open_here("kept", &again, 2), 0);
    n = 0;
    history_each(again, HISTORY_HOUR, note, NULL);
    ck_assert_uint_eq(n, 1);
    ck_assert(times[0] == 100000);
    ck_assert_float_eq(firsts[0], 4);
    history_close(again);
}
END_TEST

START_TEST(samples_of_a_clock_that_was_ahead_go)
{
    const float values[HISTORY_SERIES] = {4, 5};
    struct history *first, *again;
    int status;

    pid_t child = fork(); /* with which the lock goes */
    if (child == 0) {
        if (open_here("ahead", &first, 2) == 0) {
            history_add(first, now - 1, values);
            history_add(first, now + 1, values);
        }
        _exit(0);
    }
    ck_assert(child > 0 && waitpid(child, &status, 0) == child);
    n = 0;
    ck_assert_int_eq(open_here("ahead", &again, 2), 0);
    history_each(again, HISTORY_HOUR, note, NULL);
    ck_assert_uint_eq(n, 1);
    ck_assert(times[0] == now - 1);
    history_close(again);
}
END_TEST

START_TEST(another_layout_or_half_a_file_is_begun_anew)
{
    struct history *h1;
    char path[300];

    snprintf(path, sizeof(path), "%s/half", directory);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs("wsdhist1 and no more", f);
    fclose(f);
    ck_assert_int_eq(open_here("half", &h1, 2), 0);
    n = 0;
    history_each(h1, HISTORY_HOUR, note, NULL);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(h1->n_series, 2);
    history_close(h1);
}
END_TEST

START_TEST(what_is_no_file_of_its_own_is_refused)
{
    struct history *h1, *h2;
    char path[300];

    ck_assert_int_eq(open_here("none/there", &h1, 2), -ENOENT);
    ck_assert_int_eq(history_open(&h1, "/dev/null", 2, now), -EINVAL);
    snprintf(path, sizeof(path), "%s/link", directory);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_eq(history_open(&h1, path, 2, now), -ELOOP);
    ck_assert_int_eq(open_here("locked", &h1, 2), 0);
    ck_assert_int_eq(open_here("locked", &h2, 2), -EWOULDBLOCK);
    history_close(h1);
    ck_assert_int_eq(history_open(&h1, NULL, 2, now), 0);
    history_close(h1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("web history");
    TCase *c = tcase_create("history");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, nothing_is_there_at_first);
    tcase_add_test(c, samples_come_back_in_order_and_gaps_stay);
    tcase_add_test(c, a_second_has_its_last_value);
    tcase_add_test(c, a_clock_that_was_set_back_a_little_changes_nothing);
    tcase_add_test(c, samples_go_on_where_a_clock_far_ahead_is_put_right);
    tcase_add_test(c, an_hour_is_kept_and_no_more);
    tcase_add_test(c, a_minute_is_the_mean_of_its_seconds);
    tcase_add_test(c, what_is_not_known_is_left_out_of_the_mean);
    tcase_add_test(c, a_week_is_kept_and_no_more);
    tcase_add_unchecked_fixture(c, make_directory, remove_directory);
    tcase_add_test(c, a_file_keeps_what_was_seen);
    tcase_add_test(c, samples_of_a_clock_that_was_ahead_go);
    tcase_add_test(c, another_layout_or_half_a_file_is_begun_anew);
    tcase_add_test(c, what_is_no_file_of_its_own_is_refused);
    suite_add_tcase(s, c);
    return run_suite(s);
}
