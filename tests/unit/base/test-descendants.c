/* SPDX-License-Identifier: Apache-2.0
 *
 * test-descendants.c: what cannot be looked for is not taken for gone. */
#include "base/descendants.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start(void)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void descriptors(rlim_t n)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

START_TEST(none_is_none)
{
    ck_assert_int_eq(descendants_kill(NULL), 0);
    ck_assert(descendants_end(NULL, 0));
}
END_TEST

START_TEST(one_is_killed)
{
    start();
    ck_assert_int_eq(descendants_kill(NULL), 1);
    ck_assert(descendants_end(NULL, 10000));
    ck_assert_int_eq(descendants_kill(NULL), 0);
}
END_TEST

/* 0: for the list of threads; 1: for their children. */
START_TEST(without_descriptors_none_is_taken_for_gone)
{
    int first = dup(STDIN_FILENO);

    close(first);
    start();
    descriptors((rlim_t)first + (rlim_t)_i);
    int n = descendants_kill(NULL);
    bool ended = descendants_end(NULL, 0);
    descriptors(1024);
    ck_assert_int_gt(n, 0);
    ck_assert(!ended);
    ck_assert(descendants_end(NULL, 10000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descendants");
    TCase *tcase = tcase_create("descendants");
    SRunner *runner = srunner_create(suite);
    int n_failures;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, none_is_none);
    tcase_add_test(tcase, one_is_killed);
    tcase_add_loop_test(tcase, without_descriptors_none_is_taken_for_gone, 0, 2);
    srunner_run_all(runner, CK_NORMAL);
    n_failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failures ? 1 : 0;
}
