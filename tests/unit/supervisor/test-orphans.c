/* SPDX-License-Identifier: Apache-2.0
 *
 * test-orphans.c: the list of what wsd has started is as long as what is there, and nothing waits for a process that
 * does not end. */
#include "supervisor/orphans.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descendants.h"

#define ROOM 16 /* the first one */

static unsigned n_grown;
static bool no_memory;

/* Instead of libc's: counts. */
void *reallocarray(void *old, size_t n, size_t size)
{
    n_grown++;
    errno = ENOMEM;
    return no_memory ? NULL : realloc(old, n * size);
}

/* A process that is there until it is killed. */
static pid_t start(void)
{
    ck_assert_int_eq(orphans_reserve(), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        for (;;)
            pause();
    }
    orphans_spare(pid);
    return pid;
}

static void end(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(those_that_are_reaped_take_no_room)
{
    for (int i = 0; i < ROOM * 8; i++)
        end(start());
    ck_assert_uint_eq(n_grown, 1);
}
END_TEST

START_TEST(those_that_are_there_have_room)
{
    pid_t all[ROOM * 2 + 1];

    for (int i = 0; i < ROOM * 2 + 1; i++) {
        all[i] = start();
        ck_assert_uint_eq(n_grown, i < ROOM ? 1 : i < ROOM * 2 ? 2 : 3);
    }
    for (int i = 0; i < ROOM * 2 + 1; i++)
        end(all[i]);
}
END_TEST

START_TEST(without_memory_it_is_full_until_one_is_reaped)
{
    pid_t all[ROOM];

    for (int i = 0; i < ROOM; i++)
        all[i] = start();
    no_memory = true;
    ck_assert_int_eq(orphans_reserve(), -ENOMEM);
    end(all[0]);
    ck_assert_int_eq(orphans_reserve(), 0);
    for (int i = 1; i < ROOM; i++)
        end(all[i]);
}
END_TEST

/* A process that is dead and cannot be reaped before its tracer has seen it, which is when `ret_go` is closed. */
static pid_t start_lingering(pid_t *ret_tracer, int *ret_go)
{
    int go[2], ready[2];
    char c;
    pid_t pid = start();

    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(orphans_reserve(), 0);
    *ret_tracer = fork();
    if (*ret_tracer == 0) {
        close(go[1]);
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 0)
            _exit(1);
        _exit(0);
    }
    orphans_spare(*ret_tracer);
    close(ready[1]);
    close(go[0]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    *ret_go = go[1];
    return pid;
}

static bool is_child(pid_t pid)
{
    siginfo_t info;

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

START_TEST(one_that_is_buried_is_reaped_when_it_is_gone)
{
    struct event_base *base = event_base_new();
    struct orphans *o;
    pid_t tracer;
    int go;

    ck_assert_int_eq(orphans_new(&o, base), 0);
    pid_t pid = start_lingering(&tracer, &go);
    orphans_bury(pid); /* returns */
    ck_assert(is_child(pid));
    close(go);
    while (is_child(pid))
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
    orphans_free(o);
    event_base_free(base);
}
END_TEST

/* There are descriptors to find a process, and none to see whether it is ours: it is looked at again. */
START_TEST(a_process_that_cannot_be_looked_at_is_looked_at_again)
{
    struct event_base *base = event_base_new();
    struct rlimit before, few;
    struct orphans *o;

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) /* here it would never be ours */
        return;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* so that it may be */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for (;;)
            pause();
    }
    while (descendants_status_has(pid, "NoNewPrivs:\t1\n") == 0)
        usleep(1000);
    ck_assert_int_eq(orphans_new(&o, base), 0);
    int first = dup(STDIN_FILENO);
    close(first);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)first + 2, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    orphans_end();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(kill(pid, 0), 0);
    while (kill(pid, 0) == 0)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    orphans_free(o);
    event_base_free(base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("orphans");
    TCase *tcase = tcase_create("orphans");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, those_that_are_reaped_take_no_room);
    tcase_add_test(tcase, those_that_are_there_have_room);
    tcase_add_test(tcase, without_memory_it_is_full_until_one_is_reaped);
    tcase_add_test(tcase, one_that_is_buried_is_reaped_when_it_is_gone);
    tcase_add_test(tcase, a_process_that_cannot_be_looked_at_is_looked_at_again);
    return run_suite(suite);
}
