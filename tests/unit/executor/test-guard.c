/* SPDX-License-Identifier: Apache-2.0
 *
 * test-guard.c: a thread that retires is as it was before its jobs, however soon after the last look. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "executor/fault.h"
#include "executor/guard.h"
#include "tests/unit/suite.h"

static uint32_t none_runs(void *context)
{
    return 0;
}

static void begin(void)
{
    ck_assert_int_eq(fault_init(NULL, NULL), 0);
    fault_orderly(); /* no plugin ends this process */
    guard_init(-1, none_runs, NULL);
    guard_thread_begin();
}

static bool blocks(int signal)
{
    sigset_t now;

    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, signal) == 1;
}

static void block(int signal)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static bool has_stack(void)
{
    stack_t now;

    ck_assert_int_eq(sigaltstack(NULL, &now), 0);
    return !(now.ss_flags & SS_DISABLE);
}

START_TEST(its_signals_and_their_stack_are_put_back)
{
    begin();
    for (int i = 0; i < 3; i++) { /* the last look is a moment ago each time */
        block(SIGSEGV);
        ck_assert_int_eq(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), 0);
        guard_retire();
        ck_assert(!blocks(SIGSEGV));
        ck_assert(has_stack());
        guard_look(true);
    }
}
END_TEST

START_TEST(its_cpus_are_put_back)
{
    cpu_set_t before, one, after;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    begin();
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
        guard_retire();
        ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
        ck_assert(CPU_EQUAL(&before, &after)); /* also where there is one alone */
        guard_look(true);
    }
}
END_TEST

START_TEST(its_nice_value_is_put_back_or_told)
{
    int before = getpriority(PRIO_PROCESS, 0);

    if (before >= 19)
        return; /* there is none above */
    begin();
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, before + 1), 0);
    guard_retire();
    if (geteuid() == 0) /* others may not: wsd is told, and has no socket here */
        ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), before);
}
END_TEST

START_TEST(before_it_is_ready_nothing_is_looked_at)
{
    block(SIGSEGV);
    guard_retire();
    ck_assert(blocks(SIGSEGV));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("guard");
    TCase *t = tcase_create("retire");

    tcase_add_test(t, before_it_is_ready_nothing_is_looked_at); /* first, where all are in one process */
    tcase_add_test(t, its_signals_and_their_stack_are_put_back);
    tcase_add_test(t, its_cpus_are_put_back);
    tcase_add_test(t, its_nice_value_is_put_back_or_told);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
