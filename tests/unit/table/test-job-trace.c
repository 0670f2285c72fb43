/* SPDX-License-Identifier: Apache-2.0
 *
 * test-job-trace.c: which events of jobs a trace has, and which are lost. */
#include "table/job-trace.h"

#include <check.h>
#include <string.h>

#include "tests/unit/suite.h"

static struct jobs jobs;
static struct domain domain = {.jobs = &jobs};
static struct user alice = {.uid = 1000}, bob = {.uid = 1001};
static struct plugin_function function = {.name = (char[]){"f"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function, .n_functions = 1};

static void setup(void)
{
    jobs = (struct jobs){.n_selections = 0};
    list_init(&jobs.traces.all);
}

static void teardown(void)
{
    job_traces_deinit(&jobs);
    ck_assert_ptr_null(jobs.traces.ring);
}

static struct job job_of(struct user *user)
{
    return (struct job){.id = {1, 2, 3}, .domain = &domain, .plugin = &plugin, .user = user, .state = JOB_QUEUED};
}

static bool is_any(const struct job_trace *t, const void *context)
{
    return true;
}

static bool is_number(const struct job_trace *t, const void *context)
{
    return t->number == *(const uint32_t *)context;
}

static uint64_t count(struct job_trace *t)
{
    struct job_trace_event e;
    uint64_t n = 0;

    while (job_trace_next(t, &e))
        n++;
    return n;
}

START_TEST(without_a_trace_nothing_is_kept)
{
    struct job job = job_of(&alice);

    job_trace_event(&job, JOB_TRACE_ACCEPTED);
    job_trace_end(&job, 0, NULL);
    ck_assert_ptr_null(jobs.traces.ring);
    ck_assert_ptr_null(job_trace_stop(&jobs, is_any, NULL));
}
END_TEST

START_TEST(an_event_says_what_its_job_was)
{
    struct job job = job_of(&alice);
    const struct front_completion c = {.started_usec = 5, .ended_usec = 7};
    struct job_trace_event e;

    ck_assert_int_eq(job_trace_start(&jobs, 1, 1000, 1000), 0);
    job.accepted_usec = 3;
    job_trace_event(&job, JOB_TRACE_ACCEPTED);
    job.state = JOB_FAILED;
    job_trace_end(&job, 4, &c);
    struct job_trace *t = job_trace_stop(&jobs, is_any, NULL);
    ck_assert_ptr_nonnull(t);
    ck_assert(job_trace_next(t, &e));
    ck_assert_int_eq(e.kind, JOB_TRACE_ACCEPTED);
    ck_assert_uint_eq(e.from_nsec, 3000);
    ck_assert_str_eq(e.plugin, "a");
    ck_assert(job_trace_next(t, &e));
    ck_assert_int_eq(e.state, JOB_FAILED);
    ck_assert_int_eq(e.exit, 4);
    ck_assert_uint_eq(e.from_nsec, 5000);
    ck_assert_uint_eq(e.to_nsec, 7000);
    ck_assert(t->from_nsec <= e.nsec && e.nsec <= t->to_nsec);
    ck_assert(!job_trace_next(t, &e));
    job_trace_free(t);
}
END_TEST

START_TEST(a_user_has_the_own_jobs_only)
{
    struct job one = job_of(&alice), other = job_of(&bob);
    const uint32_t first = 1, second = 2;

    ck_assert_int_eq(job_trace_start(&jobs, first, 1000, 1000), 0);
    job_trace_state(&one);
    job_trace_state(&other); /* no trace has it */
    ck_assert_int_eq(job_trace_start(&jobs, second, 0, 0), 0);
    job_trace_state(&one);
    job_trace_state(&other);
    struct job_trace *mine = job_trace_stop(&jobs, is_number, &first);
    struct job_trace *all = job_trace_stop(&jobs, is_number, &second);
    ck_assert_uint_eq(count(mine), 2);
    ck_assert_uint_eq(count(all), 2);
    job_trace_free(mine);
    ck_assert_ptr_nonnull(jobs.traces.ring);
    job_trace_free(all);
    ck_assert_ptr_null(jobs.traces.ring);
}
END_TEST

/* The ring's size, and one event less and more. */
START_TEST(the_oldest_events_are_lost_and_counted)
{
    struct job job = job_of(&alice);
    const uint64_t n = JOB_TRACE_EVENTS - 1 + (unsigned)_i;

    ck_assert_int_eq(job_trace_start(&jobs, 1, 1000, 1000), 0);
    for (uint64_t i = 0; i < n; i++)
        job_trace_state(&job);
    struct job_trace *t = job_trace_stop(&jobs, is_any, NULL);
    ck_assert_uint_eq(t->lost, n > JOB_TRACE_EVENTS ? n - JOB_TRACE_EVENTS : 0);
    ck_assert_uint_eq(count(t) + t->lost, n);
    job_trace_free(t);
}
END_TEST

START_TEST(what_another_trace_overwrites_is_lost)
{
    struct job job = job_of(&alice);
    const uint32_t first = 1;

    ck_assert_int_eq(job_trace_start(&jobs, first, 1000, 1000), 0);
    ck_assert_int_eq(job_trace_start(&jobs, 2, 0, 0), 0);
    job_trace_state(&job);
    job_trace_state(&job);
    struct job_trace *t = job_trace_stop(&jobs, is_number, &first);
    for (uint64_t i = 0; i < JOB_TRACE_EVENTS - 1; i++)
        job_trace_state(&job);
    ck_assert_uint_eq(count(t), 1);
    ck_assert_uint_eq(t->lost, 1);
    job_trace_free(t);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job trace");
    Suite *s = suite_create("table");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, without_a_trace_nothing_is_kept);
    tcase_add_test(tc, an_event_says_what_its_job_was);
    tcase_add_test(tc, a_user_has_the_own_jobs_only);
    tcase_add_loop_test(tc, the_oldest_events_are_lost_and_counted, 0, 3);
    tcase_add_test(tc, what_another_trace_overwrites_is_lost);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
