/* SPDX-License-Identifier: Apache-2.0
 *
 * test-slice.c: a thread that asks for a short slice gets it alone. Its children and other threads do not, and nothing
 * else of it changes. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/slice.h"
#include "tests/unit/suite.h"

#define ORDINARY_NSEC 700000u /* at least, of the kernel's own */

struct attributes { /* struct sched_attr; linux/sched/types.h cannot be beside sched.h */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static struct attributes mine(void)
{
    struct attributes a = {0};

    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
    return a;
}

static bool has_slices(void) /* since Linux 6.12 */
{
    return mine().runtime > 0;
}

static void *slice_of_mine(void *arg)
{
    *(uint64_t *)arg = mine().runtime;
    return NULL;
}

static uint64_t slice_of_a_thread(void)
{
    pthread_t thread;
    uint64_t slice;

    ck_assert_int_eq(pthread_create(&thread, NULL, slice_of_mine, &slice), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return slice;
}

static bool ordinary_in_a_child(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(mine().runtime >= ORDINARY_NSEC);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

START_TEST(alone)
{
    struct attributes before = mine();

    slice_shorten();
    struct attributes after = mine();
    ck_assert_int_eq(after.policy, before.policy);
    ck_assert_int_eq(after.nice, before.nice);
    if (!has_slices())
        return;
    ck_assert_uint_ge(before.runtime, ORDINARY_NSEC);
    ck_assert_uint_eq(after.runtime, 300000);
    ck_assert_uint_eq(slice_of_a_thread(), before.runtime);
    ck_assert(ordinary_in_a_child());
    slice_shorten();
    ck_assert_uint_eq(mine().runtime, 300000);
}
END_TEST

START_TEST(nicer)
{
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, 5), 0);
    slice_shorten();
    ck_assert_int_eq(mine().nice, 5);
    if (has_slices())
        ck_assert_uint_eq(mine().runtime, 300000);
}
END_TEST

/* What gives the ordinary slice to children would take this from them. */
START_TEST(below_nice_0)
{
    if (setpriority(PRIO_PROCESS, 0, -5) < 0)
        return; /* not allowed here */
    struct attributes before = mine();
    slice_shorten();
    ck_assert_int_eq(mine().nice, -5);
    ck_assert_uint_eq(mine().runtime, before.runtime);
    ck_assert_uint_eq(mine().flags, before.flags);
}
END_TEST

START_TEST(another_policy)
{
    ck_assert_int_eq(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}), 0);
    struct attributes before = mine();
    slice_shorten();
    ck_assert_int_eq(sched_getscheduler(0), SCHED_BATCH);
    ck_assert_uint_eq(mine().runtime, before.runtime);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slice");
    TCase *c = tcase_create("slice");

    suite_add_tcase(s, c);
    tcase_add_test(c, alone);
    tcase_add_test(c, nicer);
    tcase_add_test(c, below_nice_0);
    tcase_add_test(c, another_policy);
    return run_suite(s);
}
