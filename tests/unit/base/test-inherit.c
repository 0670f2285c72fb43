/* SPDX-License-Identifier: Apache-2.0
 *
 * test-inherit.c: what inherit_begin() makes of a state, in the process of each case. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/inherit.h"
#include "tests/unit/suite.h"

static char error[INHERIT_ERROR];

START_TEST(what_is_closed_can_be_neither_read_nor_written)
{
    char c = 0;

    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    int r = inherit_begin(INHERIT_TOOL, error);
    ssize_t in = read(STDIN_FILENO, &c, 1);
    int in_error = errno;
    ssize_t out = write(STDOUT_FILENO, &c, 1);
    int out_error = errno;

    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(in, -1);
    ck_assert_int_eq(in_error, EBADF);
    ck_assert_int_eq(out, -1);
    ck_assert_int_eq(out_error, EBADF);
    ck_assert_int_gt(open("/", O_RDONLY), STDERR_FILENO);
}
END_TEST

START_TEST(what_is_written_to_a_closed_stderr_is_swallowed)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD, 10);

    close(STDERR_FILENO);
    int r = inherit_begin(INHERIT_DAEMON, error);
    ssize_t n = write(STDERR_FILENO, "x", 1);
    dup2(kept, STDERR_FILENO);
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(what_is_open_stays)
{
    int before = open("/", O_RDONLY);

    ck_assert_int_eq(dup2(before, STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(inherit_begin(INHERIT_TOOL, error), 0);
    errno = 0;
    ck_assert_int_eq(read(STDIN_FILENO, error, 1), -1);
    ck_assert_int_eq(errno, EISDIR);
}
END_TEST

static bool is_ignored(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void on_signal(int number)
{
}

static void spoil_signals(void)
{
    sigset_t all;

    for (int s = 1; s < NSIG; s++)
        if (s != SIGUSR2)
            signal(s, SIG_IGN);
    signal(SIGUSR2, on_signal);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

static bool is_any_blocked(void)
{
    sigset_t now;

    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < NSIG; s++)
        if (sigismember(&now, s) == 1)
            return true;
    return false;
}

START_TEST(a_daemon_ignores_no_signal_but_two)
{
    struct sigaction now;

    spoil_signals();
    ck_assert_int_eq(inherit_begin(INHERIT_DAEMON, error), 0);
    ck_assert(!is_any_blocked());
    for (int s = 1; s < NSIG; s++)
        ck_assert_msg(is_ignored(s) == (s == SIGPIPE || s == SIGXFSZ), "signal %d", s);
    sigaction(SIGUSR2, NULL, &now);
    ck_assert(now.sa_handler == on_signal); /* a sanitizer's */
}
END_TEST

START_TEST(a_tool_heeds_nohup)
{
    spoil_signals();
    ck_assert_int_eq(inherit_begin(INHERIT_TOOL, error), 0);
    ck_assert(!is_any_blocked());
    for (int s = 1; s < NSIG; s++) {
        bool stays =
            s == SIGHUP || s == SIGINT || s == SIGQUIT || s == SIGTSTP || s == SIGTTIN || s == SIGTTOU || s == SIGXFSZ;

        ck_assert_msg(is_ignored(s) == stays, "signal %d", s);
    }
}
END_TEST

START_TEST(what_the_parent_does_not_ignore_is_not_ignored)
{
    signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    signal(SIGINT, SIG_DFL);
    ck_assert_int_eq(inherit_begin(INHERIT_TOOL, error), 0);
    ck_assert(!is_ignored(SIGHUP) && !is_ignored(SIGINT) && is_ignored(SIGXFSZ));
}
END_TEST

static void limit(__rlimit_resource_t resource, rlim_t soft, rlim_t hard)
{
    const struct rlimit l = {soft, hard};

    ck_assert_int_eq(setrlimit(resource, &l), 0);
}

static rlim_t soft(__rlimit_resource_t resource)
{
    struct rlimit l;

    ck_assert_int_eq(getrlimit(resource, &l), 0);
    return l.rlim_cur;
}

START_TEST(soft_limits_are_raised_for_a_daemon)
{
    limit(RLIMIT_NOFILE, 20, 600);
    limit(RLIMIT_CPU, 500, 1000);
    ck_assert_int_eq(inherit_begin(INHERIT_TOOL, error), 0);
    ck_assert_uint_eq(soft(RLIMIT_NOFILE), 20);
    ck_assert_int_eq(inherit_begin(INHERIT_DAEMON, error), 0);
    ck_assert_uint_eq(soft(RLIMIT_NOFILE), 600);
    ck_assert_uint_eq(soft(RLIMIT_CPU), 999);
}
END_TEST

static unsigned table_size(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    unsigned size = 0;

    ck_assert_ptr_nonnull(status);
    while (size == 0 && fgets(line, sizeof(line), status))
        (void)sscanf(line, "FDSize: %u", &size); /* 0 is no size */
    fclose(status);
    return size;
}

START_TEST(the_table_of_descriptors_has_room_for_all)
{
    limit(RLIMIT_NOFILE, 600, 600);
    ck_assert_uint_lt(table_size(), 600);
    inherit_widen_table();
    ck_assert_uint_ge(table_size(), 600);
    ck_assert_int_eq(fcntl(599, F_GETFD), -1);
}
END_TEST

START_TEST(what_does_not_suffice_is_named)
{
    const struct inherit_need needs[] = {{RLIMIT_CPU, 1000}, {RLIMIT_NOFILE, 601}};

    limit(RLIMIT_NOFILE, 20, 600);
    limit(RLIMIT_CPU, 1000, 1000);
    ck_assert_int_eq(inherit_check(needs, 1, error), 0);
    ck_assert_int_eq(inherit_check(needs, 2, error), -EPERM);
    ck_assert_str_eq(error, "RLIMIT_NOFILE is 600, and at least 601 descriptors are wanted (ulimit -n, LimitNOFILE=)");
    const struct inherit_need enough = {RLIMIT_NOFILE, 600};
    ck_assert_int_eq(inherit_check(&enough, 1, error), 0);
}
END_TEST

START_TEST(a_limit_is_blamed_for_its_own_error_only)
{
    char words[INHERIT_ERROR];

    if (soft(RLIMIT_FSIZE) == RLIM_INFINITY)
        ck_assert_str_eq(inherit_blame(-EFBIG, words), "");
    limit(RLIMIT_FSIZE, 1 << 20, 1 << 20);
    limit(RLIMIT_NOFILE, 600, 600);
    ck_assert_str_eq(inherit_blame(EFBIG, words), "; RLIMIT_FSIZE is 1048576 bytes (ulimit -f, LimitFSIZE=)");
    ck_assert_str_eq(inherit_blame(-EMFILE, words), "; RLIMIT_NOFILE is 600 descriptors (ulimit -n, LimitNOFILE=)");
    ck_assert_str_eq(inherit_blame(-ENOENT, words), "");
    ck_assert_str_eq(inherit_blame(0, words), "");
}
END_TEST

START_TEST(a_thread_without_a_stack_is_blamed_on_memory_too)
{
    char words[INHERIT_ERROR];

    limit(RLIMIT_NPROC, 700, 700);
    limit(RLIMIT_DATA, 1ul << 45, 1ul << 45);
    ck_assert_ptr_nonnull(strstr(inherit_blame(EAGAIN, words), "; RLIMIT_DATA is 35184372088832 bytes"));
    ck_assert_ptr_nonnull(strstr(words, "; RLIMIT_NPROC is 700 threads of this user"));
    ck_assert_ptr_null(strstr(inherit_blame(ENOMEM, words), "RLIMIT_NPROC"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inherit");
    TCase *c = tcase_create("inherit");

    tcase_add_test(c, what_is_closed_can_be_neither_read_nor_written);
    tcase_add_test(c, what_is_written_to_a_closed_stderr_is_swallowed);
    tcase_add_test(c, what_is_open_stays);
    tcase_add_test(c, a_daemon_ignores_no_signal_but_two);
    tcase_add_test(c, a_tool_heeds_nohup);
    tcase_add_test(c, what_the_parent_does_not_ignore_is_not_ignored);
    tcase_add_test(c, soft_limits_are_raised_for_a_daemon);
    tcase_add_test(c, the_table_of_descriptors_has_room_for_all);
    tcase_add_test(c, what_does_not_suffice_is_named);
    tcase_add_test(c, a_limit_is_blamed_for_its_own_error_only);
    tcase_add_test(c, a_thread_without_a_stack_is_blamed_on_memory_too);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
