/* SPDX-License-Identifier: Apache-2.0
 *
 * test-sandbox.c: what wsd says of the sandbox, each part of it alone, and that a part that is missing is found. Each
 * confinement is a child's. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "executor/landlock.h"
#include "executor/sandbox.h"
#include "executor/syscall-filter.h"
#include "executor/verify.h"
#include "tests/unit/suite.h"

#define OPEN   "required=1,commands=1,core=0,memory=0,deny=,writable=/"
#define CLOSED "required=1,commands=0,core=0,memory=0,deny=,writable="

static struct sandbox parsed(const char *text)
{
    static char room[1024]; /* s points into it */
    struct sandbox s;

    snprintf(room, sizeof(room), "%s", text);
    ck_assert_msg(sandbox_parse(&s, room) == 0, "%s", text);
    return s;
}

/* Runs test in a child, which is settled as process.c leaves it; its exit status. */
static int in_child(int (*test)(const struct sandbox *s), const char *text)
{
    struct sandbox s = parsed(text);
    int status;

    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(test(&s));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* --- what wsd says ------------------------------------------------------------------------------------------------ */

START_TEST(every_key_is_read)
{
    struct sandbox s =
        parsed("required=0,commands=1,children=1,core=18446744073709551615,memory=4096,deny=a b,writable=/x,y=1:/z");

    ck_assert(!s.required);
    ck_assert(s.commands);
    ck_assert(s.children);
    ck_assert_uint_eq(s.core_size, UINT64_MAX);
    ck_assert_uint_eq(s.memory, 4096);
    ck_assert_str_eq(s.deny, "a b");
    ck_assert_str_eq(s.writable, "/x,y=1:/z");
    s = parsed("writable=");
    ck_assert(s.required);
    ck_assert(!s.commands);
    ck_assert(!s.children);
    ck_assert_str_eq(s.deny, "");
    ck_assert_str_eq(s.writable, "");
}
END_TEST

START_TEST(nonsense_is_refused)
{
    static const char *const bad[] = {"",
                                      "required",
                                      "required=1",
                                      "required=,writable=",
                                      "required=x,writable=/",
                                      "core=-1,writable=/",
                                      "core=99999999999999999999,writable=/",
                                      "colour=1,writable=/",
                                      "memory=1x,writable=",
                                      ",writable="};
    struct sandbox s;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_(freep) char *copy = strdup(bad[i]);

        ck_assert_msg(sandbox_parse(&s, copy) == -EINVAL, "accepted: %s", bad[i]);
    }
}
END_TEST

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int enter(const struct sandbox *s)
{
    char error[SANDBOX_ERROR] = "";
    int r = sandbox_enter(s, error);

    if (r < 0)
        fprintf(stderr, "%s\n", error);
    return r < 0;
}

START_TEST(the_whole_of_it_holds)
{
    ck_assert_int_eq(in_child(enter, OPEN), 0);
    ck_assert_int_eq(in_child(enter, CLOSED), 0);
    ck_assert_int_eq(in_child(enter, "required=1,core=4096,deny=times ptrace clone3 socket,writable=/tmp:/var/tmp"), 0);
}
END_TEST

/* Without one part; 0 where what is said begins with its name. */
static int without_capabilities(const struct sandbox *s)
{
    int v = landlock_version();

    return landlock_enter(s, v, NULL) < 0 || syscall_filter_enter(s, false) < 0 ||
           strncmp(verify(s, v, getppid()), "capabilities:", 13) != 0;
}

static int without_landlock(const struct sandbox *s)
{
    /* the filter keeps the signals in */
    return capabilities_drop() < 0 || syscall_filter_enter(s, true) < 0 ||
           strncmp(verify(s, 2, getppid()), "Landlock:", 9) != 0;
}

static int without_any_guard_of_signals(const struct sandbox *s)
{
    return capabilities_drop() < 0 || syscall_filter_enter(s, false) < 0 ||
           strncmp(verify(s, 0, getppid()), "signals:", 8) != 0;
}

static int without_filter(const struct sandbox *s)
{
    int v = landlock_version();

    return capabilities_drop() < 0 || landlock_enter(s, v, NULL) < 0 ||
           strncmp(verify(s, v, getppid()), "seccomp:", 8) != 0;
}

static int dumpable(const struct sandbox *s)
{
    int v = landlock_version();

    prctl(PR_SET_DUMPABLE, 1);
    return capabilities_drop() < 0 || landlock_enter(s, v, NULL) < 0 || syscall_filter_enter(s, false) < 0 ||
           strncmp(verify(s, v, getppid()), "dumpable:", 9) != 0;
}

START_TEST(a_part_that_is_missing_is_found)
{
    if (getuid() == 0) {
        ck_assert_int_eq(in_child(without_capabilities, CLOSED), 0);
        ck_assert_int_eq(in_child(without_any_guard_of_signals, CLOSED), 0);
    }
    ck_assert_int_eq(in_child(dumpable, CLOSED), 0);
    if (landlock_version() > 0) {
        ck_assert_int_eq(in_child(without_landlock, CLOSED), 0);
        ck_assert_int_eq(in_child(without_filter, CLOSED), 0);
    }
}
END_TEST

/* --- the filter --------------------------------------------------------------------------------------------------- */

static bool is_refused(long r)
{
    return r == -1 && errno == EPERM;
}

static void *nothing(void *arg)
{
    return arg;
}

static int filtered(const struct sandbox *s)
{
    pthread_t thread;
    void *got = NULL;
    int pair[2];

    if (syscall_filter_enter(s, true) < 0)
        return 1;
    if (!is_refused(syscall(SYS_times, NULL)) || !is_refused(syscall(SYS_unshare, 0)) ||
        !is_refused(syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, NULL, NULL)))
        return 2;
    if (!is_refused(kill(getppid(), 0)) || !is_refused(kill(0, 0)) || !is_refused(kill(-1, 0)) ||
        kill(getpid(), 0) != 0)
        return 3;
    /* the upper half of an int argument is ignored, and hides nothing */
    if (!is_refused(syscall(SYS_socket, 0x100000000ul | AF_UNIX, SOCK_STREAM, 0)) ||
        !is_refused(syscall(SYS_kill, 0x100000000ul | (unsigned)getppid(), 0)))
        return 4;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 5;
    /* threads still start, and abort() still is SIGABRT */
    if (pthread_create(&thread, NULL, nothing, pair) != 0 || pthread_join(thread, &got) != 0 || got != pair)
        return 6;
    signal(SIGABRT, SIG_IGN);
    return raise(SIGABRT) == 0 ? 0 : 7;
}

START_TEST(the_filter_refuses_what_it_should_and_no_more)
{
    ck_assert_int_eq(in_child(filtered, "required=1,deny=times,writable="), 0);
}
END_TEST

static int unknown_name(const struct sandbox *s)
{
    return syscall_filter_enter(s, false) != -EINVAL;
}

START_TEST(a_name_that_is_none_is_no_filter)
{
    ck_assert_int_eq(in_child(unknown_name, "required=1,deny=times tims,writable="), 0);
}
END_TEST

/* --- Landlock ----------------------------------------------------------------------------------------------------- */

static char directory[] = "/tmp/wsd-test-sandbox-XXXXXX";

static int makes(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    return unlink(path) < 0 ? -errno : 0;
}

static int moves(void)
{
    char from[128], to[128];

    snprintf(from, sizeof(from), "%s/a/file", directory);
    snprintf(to, sizeof(to), "%s/b/file", directory);
    return rename(from, to) < 0 ? -errno : rename(to, from) < 0 ? -errno : 0;
}

static int writes_nowhere(const struct sandbox *s)
{
    if (landlock_enter(s, landlock_version(), NULL) < 0)
        return 1;
    if (makes("a/x") != -EACCES || moves() == 0)
        return 2;
    int fd = open("/dev/null", O_WRONLY | O_TRUNC | O_CLOEXEC), memory = memfd_create("x", MFD_CLOEXEC);
    if (fd < 0 || memory < 0 || ftruncate(memory, 4096) < 0)
        return 3;
    char *argv[] = {(char[]){"true"}, NULL};
    return execv("/bin/true", argv) == -1 && errno == EACCES ? 0 : 4;
}

static int writes_in_a(const struct sandbox *s)
{
    return landlock_enter(s, landlock_version(), NULL) < 0 || makes("a/x") != 0 || makes("b/x") != -EACCES ||
           moves() == 0;
}

static int writes_everywhere(const struct sandbox *s)
{
    char path[128];

    if (landlock_enter(s, landlock_version(), NULL) < 0)
        return 1;
    snprintf(path, sizeof(path), "%s/device", directory);
    /* what root may do otherwise: capabilities are still there */
    if (mknod(path, S_IFCHR | 0600, 0x103) == 0 || (getuid() == 0 && errno != EACCES))
        return 2;
    return makes("a/x") != 0 || makes("b/x") != 0 || moves() != 0;
}

START_TEST(landlock_lets_write_where_it_should)
{
    char text[128], path[128];

    if (landlock_version() <= 0)
        return;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    for (const char *name = "ab"; *name; name++) {
        snprintf(path, sizeof(path), "%s/%c", directory, *name);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof(path), "%s/a/file", directory);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ck_assert_int_eq(in_child(writes_nowhere, CLOSED), 0);
    ck_assert_int_eq(in_child(writes_everywhere, OPEN), 0);
    snprintf(text, sizeof(text), "required=1,writable=/var/tmp:%s/a", directory);
    ck_assert_int_eq(in_child(writes_in_a, text), 0);
    snprintf(text, sizeof(text), "rm -r '%s'", directory);
    ck_assert_int_eq(system(text), 0);
}
END_TEST

static int no_such_directory(const struct sandbox *s)
{
    return landlock_enter(s, landlock_version(), NULL) != -ENOENT;
}

START_TEST(a_directory_that_is_not_there_is_told)
{
    if (landlock_version() > 0)
        ck_assert_int_eq(in_child(no_such_directory, "required=1,writable=/nowhere"), 0);
}
END_TEST

/* --- memory ------------------------------------------------------------------------------------------------------- */

#define LIMIT (32u << 20)

static int bounded(const struct sandbox *s)
{
    size_t got = 0;

    if (sandbox_limit_memory(s) < 0)
        return 1;
    /* what can only be read, or is shared, is not counted */
    if (mmap(NULL, 4 * LIMIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ||
        mmap(NULL, 4 * LIMIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        return 2;
    while (got <= 2 * LIMIT &&
           mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        got += 1u << 20;
    return got <= LIMIT + (1u << 20) && got >= LIMIT - (1u << 20) ? 0 : 3;
}

static int unbounded(const struct sandbox *s)
{
    struct rlimit before, after;

    getrlimit(RLIMIT_DATA, &before);
    int r = sandbox_limit_memory(s);
    getrlimit(RLIMIT_DATA, &after);
    return r != 0 || before.rlim_cur != after.rlim_cur;
}

START_TEST(memory_is_bounded_beyond_what_is_there)
{
    ck_assert_int_eq(in_child(bounded, "memory=33554432,writable=/"), 0);
    ck_assert_int_eq(in_child(unbounded, OPEN), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sandbox");
    TCase *t = tcase_create("sandbox");

    tcase_add_test(t, every_key_is_read);
    tcase_add_test(t, nonsense_is_refused);
    tcase_add_test(t, the_whole_of_it_holds);
    tcase_add_test(t, a_part_that_is_missing_is_found);
    tcase_add_test(t, the_filter_refuses_what_it_should_and_no_more);
    tcase_add_test(t, a_name_that_is_none_is_no_filter);
    tcase_add_test(t, landlock_lets_write_where_it_should);
    tcase_add_test(t, a_directory_that_is_not_there_is_told);
    tcase_add_test(t, memory_is_bounded_beyond_what_is_there);
    suite_add_tcase(s, t);
    return run_suite(s);
}
