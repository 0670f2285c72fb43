/* SPDX-License-Identifier: Apache-2.0
 *
 * test-words.c: what is read of an executor's text, in a turn of the loop and when its last words are asked for. */
#include "supervisor/words.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TURN (8 * 1024)
#define PIPE (64 * 1024) /* of pipe(7) */

static struct event_base *base;
static struct words words;
static int fd;

static void setup(void)
{
    base = event_base_new();
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(words_init(&words, base, NULL, 1, 1000, &fd), 0);
}

static void teardown(void)
{
    words_deinit(&words);
    close(fd);
    event_base_free(base);
}

/* Writes n bytes in lines of 64. The last line is "the last". */
static void say(size_t n)
{
    char text[PIPE];

    memset(text, '.', sizeof(text));
    for (size_t i = 63; i < n; i += 64)
        text[i] = '\n';
    memcpy(text + n - 9, "\nthe last", 9);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
}

static int left(void)
{
    int n;

    ck_assert_int_eq(ioctl(words.fd, FIONREAD, &n), 0);
    return n;
}

static void turn(void)
{
    ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
}

START_TEST(a_turn_takes_so_much)
{
    static const int sizes[] = {TURN - 1, TURN, TURN + 1, PIPE};

    say((size_t)sizes[_i]);
    for (int n = sizes[_i]; n > 0; n -= TURN) {
        ck_assert_int_eq(left(), n);
        turn();
    }
    ck_assert_int_eq(left(), 0);
}
END_TEST

START_TEST(last_words_are_behind_all_that_was_said)
{
    char text[1024];

    say(PIPE);
    words_last(&words, 0, text, sizeof(text));
    ck_assert_int_eq(left(), 0);
    ck_assert_str_eq(text + strlen(text) - 8, "the last");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *tcase = tcase_create("words");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_turn_takes_so_much, 0, 4);
    tcase_add_test(tcase, last_words_are_behind_all_that_was_said);
    return run_suite(suite);
}
