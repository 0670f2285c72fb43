/* SPDX-License-Identifier: Apache-2.0
 *
 * test-starter.c: what descriptors the thread and what it starts have. */
#include "supervisor/starter.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct starter *starter;
static int before; /* was open when the thread began */

static void setup(void)
{
    before = open("/", O_PATH | O_CLOEXEC);
    ck_assert_int_eq(starter_new(&starter), 0);
}

static void teardown(void)
{
    starter = starter_free(starter);
}

static unsigned entries(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;

    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Descriptors of the thread that is not this one; that of a sanitizer has more. */
static unsigned descriptors_of_thread(void)
{
    DIR *d = opendir("/proc/self/task");
    char path[64];
    unsigned least = UINT_MAX;

    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != gettid()) {
            snprintf(path, sizeof(path), "/proc/self/task/%d/fd", atoi(e->d_name));
            unsigned n = entries(path);
            least = n < least ? n : least;
        }
    closedir(d);
    return least;
}

/* What a shell says, which runs with its end of a pipe as 3. */
static const char *said(const char *script, int words)
{
    static char text[1024];
    int pipes[2], status;
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, NULL};
    char *environment[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
    size_t n = 0;
    pid_t pid;

    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    int binary = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    const struct starter_program p = {
        .fds = &pipes[1], .n = 1, .words = words, .binary_fd = binary, .argv = argv, .environment = environment};
    ck_assert_int_eq(starter_start(starter, &p, &pid), 0);
    close(binary);
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], text + n, sizeof(text) - 1 - n)) > 0; n += (size_t)got)
        ;
    text[n] = 0;
    close(pipes[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    return text;
}

START_TEST(the_thread_has_no_descriptor_of_the_loop)
{
    int after[100];

    for (size_t i = 0; i < 100; i++)
        after[i] = open("/", O_PATH | O_CLOEXEC);
    ck_assert_int_ge(before, 0);
    ck_assert_int_ge(after[99], 0);
    ck_assert_uint_eq(descriptors_of_thread(), 4); /* 0 to 2, and its end of the socket */
}
END_TEST

START_TEST(a_program_gets_its_descriptors_and_no_others)
{
    ck_assert_str_eq(said("echo one >&3; { exec 3>&-; } && test ! -e /proc/self/fd/3 && exit 0", -1), "one\n");
    ck_assert_str_eq(said("echo one; echo two >&2", 0), "one\ntwo\n");
    ck_assert_uint_eq(descriptors_of_thread(), 4);
}
END_TEST

START_TEST(what_cannot_be_started_has_its_error)
{
    char *argv[] = {(char[]){"x"}, NULL};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), many[STARTER_FDS] = {null, null, null, null, null, null, null};
    pid_t pid = -1;
    struct starter_program p = {.words = -1, .binary_fd = null, .argv = argv, .environment = argv + 1};

    ck_assert_int_eq(starter_start(starter, &p, &pid), -EACCES);
    p.fds = many;
    p.n = STARTER_FDS;
    ck_assert_int_eq(starter_start(starter, &p, &pid), -E2BIG);
    p.n = 1;
    many[0] = -1;
    ck_assert_int_eq(starter_start(starter, &p, &pid), -EBADF);
    ck_assert_int_eq(pid, -1);
    ck_assert_uint_eq(descriptors_of_thread(), 4);
    ck_assert_str_eq(said("echo still >&3", -1), "still\n");
}
END_TEST

START_TEST(programs_are_the_process_s_own_children)
{
    char wanted[32];

    snprintf(wanted, sizeof(wanted), "%d\n", getpid());
    ck_assert_str_eq(said("echo $PPID >&3", -1), wanted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("supervisor starter");
    TCase *t = tcase_create("starter");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_thread_has_no_descriptor_of_the_loop);
    tcase_add_test(t, a_program_gets_its_descriptors_and_no_others);
    tcase_add_test(t, what_cannot_be_started_has_its_error);
    tcase_add_test(t, programs_are_the_process_s_own_children);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
