/* SPDX-License-Identifier: Apache-2.0
 *
 * test-state.c: the table of legal moves. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "table/job.h"
#include "table/state.h"
#include "tests/unit/suite.h"

static struct jobs jobs;
static struct user user;
static struct domain domain = {.jobs = &jobs};

START_TEST(a_final_state_is_never_left)
{
    struct job job = {.state = (unsigned)_i & 15u, .domain = &domain, .user = &user};

    job_move(&job, JOB_QUEUED);
}
END_TEST

START_TEST(every_way_to_the_end_is_there)
{
    struct job job = {.state = JOB_NEW, .domain = &domain, .user = &user};

    job_move(&job, JOB_HELD);
    job_move(&job, JOB_QUEUED);
    job_move(&job, JOB_RUNNING);
    job_move(&job, JOB_QUEUED); /* to run again */
    job_move(&job, JOB_RUNNING);
    job_move(&job, (enum job_state)_i);
    ck_assert_int_eq(job.state, _i);
}
END_TEST

START_TEST(a_new_job_cannot_run_unaccepted)
{
    struct job job = {.state = JOB_NEW, .domain = &domain, .user = &user};

    job_move(&job, JOB_RUNNING);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("state");
    Suite *s = suite_create("jobs");

    tcase_add_loop_test_raise_signal(tc, a_final_state_is_never_left, SIGABRT, JOB_SUCCEEDED, JOB_INTERRUPTED + 1);
    tcase_add_loop_test(tc, every_way_to_the_end_is_there, JOB_SUCCEEDED, JOB_INTERRUPTED + 1);
    tcase_add_test_raise_signal(tc, a_new_job_cannot_run_unaccepted, SIGABRT);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
