/* SPDX-License-Identifier: Apache-2.0
 *
 * test-state.c: the table of legal moves, and the order of the queue. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "jobs/job.h"
#include "jobs/queue.h"
#include "jobs/state.h"

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

static struct job *queued(int priority, uint32_t number)
{
    struct job *job = calloc(1, sizeof(*job));

    list_init(&job->link);
    job->priority = (int8_t)priority;
    job->slot = number;
    queue_put(&domain.queue, job, false);
    return job;
}

static uint32_t next(void)
{
    struct job *job = queue_first(&domain.queue);
    uint32_t number = job ? job->slot : UINT32_MAX;

    if (job)
        queue_take(&domain.queue, job);
    free(job);
    return number;
}

START_TEST(higher_priority_first_then_first_in_first_out)
{
    fair_queue_init(&domain.queue, &jobs.flows, &jobs.counters.n_queued);
    ck_assert_ptr_null(queue_first(&domain.queue));
    queued(0, 1);
    queued(-100, 2);
    queued(100, 3);
    queued(0, 4);
    queued(1, 5);
    queued(100, 6);
    ck_assert_uint_eq(domain.queue.n, 6);
    ck_assert_uint_eq(next(), 3);
    ck_assert_uint_eq(next(), 6);
    ck_assert_uint_eq(next(), 5);
    ck_assert_uint_eq(next(), 1);
    ck_assert_uint_eq(next(), 4);
    ck_assert_uint_eq(next(), 2);
    ck_assert_uint_eq(next(), UINT32_MAX);
    ck_assert_uint_eq(domain.queue.n, 0);
}
END_TEST

START_TEST(every_priority_has_its_place)
{
    fair_queue_init(&domain.queue, &jobs.flows, &jobs.counters.n_queued);
    for (int p = -100; p <= 100; p++)
        queued(p, (uint32_t)(p + 100));
    for (int p = 100; p >= -100; p--)
        ck_assert_uint_eq(next(), (uint32_t)(p + 100));
}
END_TEST

START_TEST(what_comes_back_goes_to_the_head)
{
    struct job *job;

    fair_queue_init(&domain.queue, &jobs.flows, &jobs.counters.n_queued);
    queued(0, 1);
    queued(0, 2);
    job = queue_first(&domain.queue);
    queue_take(&domain.queue, job);
    queue_put(&domain.queue, job, true);
    ck_assert_uint_eq(next(), 1);
    ck_assert_uint_eq(next(), 2);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("state");
    Suite *s = suite_create("jobs");
    SRunner *r = srunner_create(s);

    tcase_add_loop_test_raise_signal(tc, a_final_state_is_never_left, SIGABRT, JOB_SUCCEEDED, JOB_INTERRUPTED + 1);
    tcase_add_loop_test(tc, every_way_to_the_end_is_there, JOB_SUCCEEDED, JOB_INTERRUPTED + 1);
    tcase_add_test_raise_signal(tc, a_new_job_cannot_run_unaccepted, SIGABRT);
    tcase_add_test(tc, higher_priority_first_then_first_in_first_out);
    tcase_add_test(tc, every_priority_has_its_place);
    tcase_add_test(tc, what_comes_back_goes_to_the_head);
    suite_add_tcase(s, tc);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
