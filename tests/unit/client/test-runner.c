/* SPDX-License-Identifier: Apache-2.0
 *
 * test-runner.c: the limits of <wsd/runner.h>, what is refused before wsd is asked, and a runner in a child of fork().
 * What needs a wsd is in tests/integration/runner-c.sh. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/runner.h>

#include "tests/unit/suite.h"

static int nothing(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static struct wsd_function functions[65];
static struct wsd_plugin offer;
static struct wsd_runner_options options;
static struct wsd_runner *runner;

static void setup(void)
{
    for (size_t i = 0; i < 65; i++)
        functions[i] = (struct wsd_function){.name = "f", .run = nothing};
    offer = (struct wsd_plugin){.size = sizeof(offer),
                                .abi = WSD_PLUGIN_ABI,
                                .function_size = sizeof(functions[0]),
                                .n_functions = 1,
                                .functions = functions,
                                .name = "r"};
    options = (struct wsd_runner_options){.size = sizeof(options), .socket = "/nowhere/at/all"};
    ck_assert_int_eq(wsd_runner_new(&runner, &options), 0);
}

static void teardown(void)
{
    runner = wsd_runner_free(runner);
}

static void again(int expected)
{
    teardown();
    ck_assert_int_eq(wsd_runner_new(&runner, &options), expected);
}

START_TEST(credit_is_limited)
{
    options.credit = WSD_RUNNER_CREDIT_MAX;
    again(0);
    options.credit++;
    again(-EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "credit: at most 1024");
    ck_assert_int_eq(wsd_runner_exit(runner), 64);
}
END_TEST

START_TEST(flags_are_known)
{
    options.flags = WSD_RUNNER_GATHER;
    again(0);
    options.flags <<= 1;
    again(-EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "unknown flags");
}
END_TEST

START_TEST(a_field_that_is_not_known_is_no_mistake_to_overlook)
{
    struct {
        struct wsd_runner_options known;
        uint64_t later;
    } newer = {{.size = sizeof(newer)}, 0};

    teardown();
    ck_assert_int_eq(wsd_runner_new(&runner, &newer.known), 0);
    teardown();
    newer.later = 1;
    ck_assert_int_eq(wsd_runner_new(&runner, &newer.known), -E2BIG);
    options.size = 0;
    again(-EINVAL);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_said)
{
    char path[200];

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    options.socket = path;
    again(-ENAMETOOLONG);
}
END_TEST

START_TEST(an_offer_has_a_name_and_functions)
{
    offer.name = NULL;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), -EINVAL);
    offer.name = "r";
    offer.n_functions = 0;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), -EINVAL);
    offer.n_functions = 65;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), -EINVAL);
    offer.n_functions = 64;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), -EBUSY);
    ck_assert_str_eq(wsd_runner_error(runner), "the runner offers `r' already: make another one for each name");
}
END_TEST

START_TEST(threads_are_limited_and_need_something_to_run)
{
    ck_assert_int_eq(wsd_runner_run(runner, 1), -EINVAL); /* nothing is offered */
    ck_assert_int_eq(wsd_runner_connect(runner, 0), -EINVAL);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    ck_assert_int_eq(wsd_runner_run(runner, 0), -EINVAL);
    ck_assert_int_eq(wsd_runner_run(runner, WSD_RUNNER_THREADS_MAX + 1), -EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "threads: 1 to 256");
    ck_assert_int_eq(wsd_runner_run(runner, WSD_RUNNER_THREADS_MAX), -ENOENT); /* no wsd: the first try says so */
    functions[0].run = NULL;
    ck_assert_int_eq(wsd_runner_run(runner, 1), -EINVAL);
    ck_assert_str_eq(wsd_runner_error(runner), "function `f' has no `run', which wsd_runner_run() calls");
}
END_TEST

static int fails_to_begin(void)
{
    return wsd_runner_fd(runner) == -1 ? 3 : 4; /* no lock is held that other calls take */
}

START_TEST(what_cannot_begin_does_not_connect)
{
    offer.init = fails_to_begin;
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    ck_assert_int_eq(wsd_runner_run(runner, 1), -EIO);
    ck_assert_str_eq(wsd_runner_error(runner), "init() has failed with status 3");
}
END_TEST

START_TEST(without_a_connection_there_is_no_job)
{
    struct wsd_job *job;

    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
    ck_assert_int_eq(wsd_runner_next(runner, 0, &job), -ENOTCONN);
    ck_assert_int_eq(wsd_runner_connect(runner, 0), -ENOENT);
    ck_assert_int_eq(wsd_runner_exit(runner), 69);
    ck_assert_int_eq(wsd_runner_fd(runner), -1);
    ck_assert_int_eq(wsd_runner_events(runner), 0);
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
}
END_TEST

START_TEST(a_child_can_only_free_it)
{
    struct wsd_job *job;
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        bool right = wsd_runner_offer(runner, &offer) == -ECHILD && wsd_runner_connect(runner, 0) == -ECHILD &&
                     wsd_runner_run(runner, 1) == -ECHILD && wsd_runner_next(runner, 0, &job) == -ECHILD &&
                     wsd_runner_call(runner, NULL) == -ECHILD && wsd_runner_leave(runner) == -ECHILD &&
                     wsd_runner_fd(runner) == -1 && strstr(wsd_runner_error(runner), "another process's");
        wsd_runner_free(runner);
        _exit(right ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runner");
    TCase *c = tcase_create("runner");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, credit_is_limited);
    tcase_add_test(c, flags_are_known);
    tcase_add_test(c, a_field_that_is_not_known_is_no_mistake_to_overlook);
    tcase_add_test(c, a_path_that_is_too_long_is_said);
    tcase_add_test(c, an_offer_has_a_name_and_functions);
    tcase_add_test(c, threads_are_limited_and_need_something_to_run);
    tcase_add_test(c, what_cannot_begin_does_not_connect);
    tcase_add_test(c, without_a_connection_there_is_no_job);
    tcase_add_test(c, a_child_can_only_free_it);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
