/* SPDX-License-Identifier: Apache-2.0
 *
 * test-job-trace-text.c: the spans of jobs that are made of their events. */
#include "domains/job-trace-text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/job-trace.h"
#include "tests/unit/suite.h"

static struct jobs jobs;
static struct domain domain = {.jobs = &jobs};
static struct user user = {.uid = 1000};
static struct plugin_function function = {.name = (char[]){"f\"\n"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function, .n_functions = 1};
#define PIECE (60u * 1024u) /* of a frame */

static char text[4u << 20];

static void setup(void)
{
    list_init(&jobs.traces.all);
    ck_assert_int_eq(job_trace_start(&jobs, 1, 1000, 1000), 0);
}

static struct job job_number(uint32_t n)
{
    struct job job = {.domain = &domain, .plugin = &plugin, .user = &user, .state = JOB_QUEUED};

    memcpy(job.id, &n, sizeof(n));
    return job;
}

static bool is_any(const struct job_trace *t, const void *context)
{
    return true;
}

/* The whole text, read by pieces of this size. */
static void read_text(size_t piece)
{
    struct job_trace_text *t = job_trace_text_new(job_trace_stop(&jobs, is_any, NULL));
    size_t used = 0, n;

    ck_assert_ptr_nonnull(t);
    while ((n = job_trace_text_read(t, text + used, piece)) > 0) {
        ck_assert_uint_le(n, piece);
        ck_assert_int_eq(text[used + n - 1], '\n');
        used += n;
        ck_assert_uint_lt(used + piece, sizeof(text));
    }
    text[used] = 0;
    job_trace_text_free(t);
    ck_assert_ptr_null(jobs.traces.ring);
}

static unsigned times(const char *what)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void come(struct job *job, enum job_state state)
{
    job->state = (unsigned)state & 15u;
    job_trace_state(job);
}

START_TEST(a_job_is_its_spans)
{
    struct job job = job_number(7);
    /* an executor that lies: it would have ended before it began, and before it was handed over */
    const struct front_completion c = {.started_usec = 1, .ended_usec = 2};

    job_trace_event(&job, JOB_TRACE_ACCEPTED);
    come(&job, JOB_DELAYED);
    come(&job, JOB_QUEUED);
    job_trace_event(&job, JOB_TRACE_GATE);
    come(&job, JOB_QUEUED);
    come(&job, JOB_RUNNING);
    job.state = JOB_FAILED;
    job_trace_end(&job, 3, &c);
    job_trace_event(&job, JOB_TRACE_TOLD);
    read_text(PIECE);
    ck_assert_uint_eq(times("\"name\":\"delayed\""), 1);
    ck_assert_uint_eq(times("\"name\":\"queued\""), 2);
    ck_assert_uint_eq(times("\"name\":\"limited\""), 1);
    ck_assert_uint_eq(times("\"name\":\"answer\""), 1);
    ck_assert_uint_eq(times("\"name\":\"a:f??\""), 1);
    ck_assert_uint_eq(times("\"state\":\"failed\",\"exit\":3"), 1);
    ck_assert_uint_eq(times("\"dur\":-"), 0);
}
END_TEST

START_TEST(what_was_before_the_trace_begins_with_it)
{
    struct job waits = job_number(1), runs = job_number(2);

    come(&waits, JOB_RUNNING);
    runs.state = JOB_SUCCEEDED;
    job_trace_end(&runs, 0, NULL);
    job_trace_event(&runs, JOB_TRACE_TOLD);
    read_text(PIECE);
    ck_assert_uint_eq(times("\"name\":\"queued\""), 1);
    ck_assert_uint_eq(times("\"state\":\"running\""), 1); /* cut off at the end */
    ck_assert_uint_eq(times("\"state\":\"succeeded\""), 1);
}
END_TEST

/* Below, at and above the number of lanes. */
START_TEST(more_jobs_than_lanes_are_counted)
{
    const unsigned lanes = 1024, n = lanes - 1 + (unsigned)_i;

    for (unsigned i = 0; i < n; i++) {
        struct job job = job_number(i);

        come(&job, JOB_QUEUED);
    }
    read_text(6 * JOB_TRACE_LINE); /* a job, at times */
    ck_assert_uint_eq(times("\"cat\":\"job\""), n < lanes ? n : lanes);
    ck_assert_uint_eq(times("\"thread_name\""), n < lanes ? n : lanes);
    ck_assert_uint_eq(times("more jobs at once than lanes"), n > lanes);
}
END_TEST

START_TEST(a_lane_is_used_again)
{
    for (unsigned i = 0; i < 3000; i++) {
        struct job job = job_number(i);

        come(&job, JOB_QUEUED);
        job_trace_event(&job, JOB_TRACE_TOLD);
    }
    read_text(PIECE);
    ck_assert_uint_eq(times("\"cat\":\"job\""), 3000);
    ck_assert_uint_eq(times("\"thread_name\""), 1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job trace text");
    Suite *s = suite_create("domains");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_job_is_its_spans);
    tcase_add_test(tc, what_was_before_the_trace_begins_with_it);
    tcase_add_loop_test(tc, more_jobs_than_lanes_are_counted, 0, 3);
    tcase_add_test(tc, a_lane_is_used_again);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
