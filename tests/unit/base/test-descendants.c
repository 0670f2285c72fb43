/* SPDX-License-Identifier: Apache-2.0
 *
 * test-descendants.c: what cannot be looked for is not taken for gone. */
#include "base/descendants.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

static int cannot_be_told(pid_t pid)
{
    return -EMFILE;
}

START_TEST(one_of_which_nothing_is_known_is_left_alone_and_is_there)
{
    int pair[2];
    char c = 'c';

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (fork() == 0) {
        close(pair[0]);
        while (read(pair[1], &c, 1) == 1 && write(pair[1], &c, 1) == 1)
            ;
        _exit(0);
    }
    close(pair[1]);
    ck_assert_int_eq(descendants_kill(cannot_be_told), 1);
    ck_assert(!descendants_end(cannot_be_told, 0));
    ck_assert_int_eq(write(pair[0], &c, 1), 1);
    ck_assert_int_eq(read(pair[0], &c, 1), 1); /* it lives */
    ck_assert(descendants_end(NULL, 10000));
    close(pair[0]);
}
END_TEST

START_TEST(without_descriptors_nothing_is_known)
{
    int first = dup(STDIN_FILENO);
    pid_t pid = start();

    close(first);
    ck_assert_int_eq(descendants_is_reaper(pid), 0);
    ck_assert_int_eq(descendants_status_has(pid, "Threads:\t1\n"), 1);
    ck_assert_int_eq(descendants_status_has(pid, "Threads:\t2\n"), 0);
    descriptors((rlim_t)first);
    int reaper = descendants_is_reaper(pid), status = descendants_status_has(pid, "Threads:\t1\n");
    descriptors(1024);
    ck_assert_int_eq(reaper, -EMFILE);
    ck_assert_int_eq(status, -EMFILE);
    ck_assert(descendants_end(NULL, 10000));
    ck_assert_int_eq(descendants_is_reaper(pid), 0); /* it is gone */
    ck_assert_int_eq(descendants_status_has(pid, "Threads:\t1\n"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descendants");
    TCase *tcase = tcase_create("descendants");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, none_is_none);
    tcase_add_test(tcase, one_is_killed);
    tcase_add_loop_test(tcase, without_descriptors_none_is_taken_for_gone, 0, 2);
    tcase_add_test(tcase, one_of_which_nothing_is_known_is_left_alone_and_is_there);
    tcase_add_test(tcase, without_descriptors_nothing_is_known);
    return run_suite(suite);
}
