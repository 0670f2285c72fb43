/* SPDX-License-Identifier: Apache-2.0
 *
 * test-fleet-look.c: what is told of the fleet, by a script in the place of wsd-fleet, and by a clock that is moved by hand. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "web/fleet-look.h"

#define EVERY_SEC  5 /* EVERY_USEC and ANSWER_USEC of fleet-look.c */
#define ANSWER_SEC 15

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

static time_t passed; /* seconds */
static char directory[] = "/tmp/test-fleet-look-XXXXXX", program[64];
static struct fleet_look *look;
static struct fleet_look_options options;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = __real_clock_gettime(clock, ret);

    ret->tv_sec += passed;
    return r;
}

/* What the program does. */
static void script(const char *lines)
{
    FILE *f = fopen(program, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\n%s\n", lines);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(program, 0700), 0);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(chdir(directory), 0);
    snprintf(program, sizeof(program), "%s/told", directory);
    options = (struct fleet_look_options){.program = program};
    ck_assert_int_eq(fleet_look_new(&look, &options), 0);
}

static void teardown(void)
{
    char command[80];

    look = fleet_look_free(look);
    snprintf(command, sizeof(command), "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}

/* Looks until something is told, and returns the text of that key; "": it has none. check ends what takes for ever. */
static const char *told(const char *key)
{
    static char text[2048];
    json_t *j;

    while (!(j = fleet_look_now(look)))
        ;
    const char *found = json_string_value(json_object_get(j, key));
    snprintf(text, sizeof(text), "%s", found ? found : "");
    json_decref(j);
    return text;
}

/* Looks until this is told. */
static void becomes(const char *key, const char *words)
{
    while (strcmp(told(key), words) != 0)
        ;
}

static void exists(const char *name)
{
    while (access(name, F_OK) < 0)
        ;
}

START_TEST(nothing_is_told_at_first)
{
    script("exec sleep 1000");
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(fleet_look_now(look));
}
END_TEST

START_TEST(the_last_line_is_told)
{
    script("echo a word of warning >&2; echo '{\"node\":\"a\"}'");
    ck_assert_str_eq(told("node"), "a");
    ck_assert_str_eq(told("error"), "");
}
END_TEST

START_TEST(it_is_asked_as_a_user_would)
{
    script("echo \"{\\\"args\\\":\\\"$*\\\"}\"");
    ck_assert_str_eq(told("args"), "--status --json");
    fleet_look_free(look);
    options.servers = "nats://a:1";
    ck_assert_int_eq(fleet_look_new(&look, &options), 0);
    ck_assert_str_eq(told("args"), "--status --json --servers nats://a:1");
}
END_TEST

START_TEST(what_fails_is_an_error_in_its_words)
{
    script("echo '{\"node\":\"a\"}'; echo no server is there >&2; exit 69");
    ck_assert_str_eq(told("error"), "no server is there");
}
END_TEST

START_TEST(what_is_no_object_is_an_error)
{
    static const struct {
        const char *says, *error;
    } cases[] = {
        {"echo '[1]'", "[1]"},
        {"echo '{\"a\":1,\"a\":2}'", "{\"a\":1,\"a\":2}"},
        {"echo '{'", "{"},
        {"true", "wsd-fleet --status has failed, and says nothing"},
        {"exit 3", "wsd-fleet --status has failed, and says nothing"},
        {"kill -9 $$", "wsd-fleet --status has failed, and says nothing"},
        {"printf '\\377'", "wsd-fleet says something that is no UTF-8"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        script(cases[i].says);
        becomes("error", cases[i].error);
        passed += EVERY_SEC + 1;
    }
}
END_TEST

START_TEST(no_more_is_read_than_four_megabytes)
{
    script("printf '{\"node\":\"'; head -c 4190000 /dev/zero | tr '\\0' a; echo '\"}'");
    ck_assert_str_eq(told("error"), "");
    passed += EVERY_SEC + 1;
    script("exec yes"); /* it does not end by itself */
    becomes("error", "wsd-fleet --status says more than four megabytes");
}
END_TEST

START_TEST(a_program_that_is_missing_says_what_to_install)
{
    char words[128];

    snprintf(words, sizeof(words), "%s: No such file or directory: install wsd-fleet", program);
    ck_assert_str_eq(told("error"), words);
    passed += EVERY_SEC + 1;
    script("echo '{\"node\":\"a\"}'");
    becomes("node", "a"); /* it is installed now */
}
END_TEST

START_TEST(it_is_asked_again_when_the_answer_is_old)
{
    script("echo x >>times; echo \"{\\\"n\\\":\\\"$(wc -l <times)\\\"}\"");
    ck_assert_str_eq(told("n"), "1");
    for (int i = 0; i < 100; i++)
        ck_assert_str_eq(told("n"), "1");
    passed += EVERY_SEC + 1;
    becomes("n", "2"); /* until then the old one is told */
}
END_TEST

START_TEST(one_that_does_not_answer_is_killed)
{
    script("echo $$ >pid; exec sleep 1000");
    ck_assert_ptr_null(fleet_look_now(look));
    exists("pid");
    passed += ANSWER_SEC + 1;
    ck_assert_str_eq(told("error"), "wsd-fleet --status does not answer: is a server of NATS there?");
}
END_TEST

START_TEST(an_answer_that_nobody_took_is_not_told)
{
    script("echo \"{\\\"n\\\":\\\"$(cat n)\\\"}\"; touch done");
    FILE *f = fopen("n", "w");
    fputs("old", f);
    fclose(f);
    ck_assert_ptr_null(fleet_look_now(look));
    exists("done");
    f = fopen("n", "w");
    fputs("new", f);
    fclose(f);
    passed += ANSWER_SEC + 1;
    ck_assert_str_ne(told("n"), "old");
}
END_TEST

START_TEST(its_end_kills_the_one_that_is_asked)
{
    script("echo $$ >started; mv started pid; exec sleep 1000");
    ck_assert_ptr_null(fleet_look_now(look));
    exists("pid");
    FILE *f = fopen("pid", "r");
    int pid = 0;
    ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
    fclose(f);
    look = fleet_look_free(look);
    ck_assert_int_eq(kill(pid, 0), -1);
    ck_assert_int_eq(errno, ESRCH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fleet-look");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, nothing_is_told_at_first);
    tcase_add_test(tcase, the_last_line_is_told);
    tcase_add_test(tcase, it_is_asked_as_a_user_would);
    tcase_add_test(tcase, what_fails_is_an_error_in_its_words);
    tcase_add_test(tcase, what_is_no_object_is_an_error);
    tcase_add_test(tcase, no_more_is_read_than_four_megabytes);
    tcase_add_test(tcase, a_program_that_is_missing_says_what_to_install);
    tcase_add_test(tcase, it_is_asked_again_when_the_answer_is_old);
    tcase_add_test(tcase, one_that_does_not_answer_is_killed);
    tcase_add_test(tcase, an_answer_that_nobody_took_is_not_told);
    tcase_add_test(tcase, its_end_kills_the_one_that_is_asked);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
