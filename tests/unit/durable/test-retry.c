/* SPDX-License-Identifier: Apache-2.0
 *
 * test-retry.c: keys and retries. */
#include <check.h>
#include <event2/event.h>
#include <time.h>

#include "base/cleanup.h"
#include "durable/durable.h"
#include "durable/policy-hooks.h"
#include "durable/retry.h"
#include "table/ids.h"
#include "table/state.h"
#include "table/timing.h"
#include "tests/unit/suite.h"

static struct durable durable;
static struct jobs jobs;
static struct domain domain;
static struct user users[2];
static struct plugin_function function = {.name = (char[]){"f"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function, .n_functions = 1};
static uint8_t n_ids;

static void set_up(void)
{
    durable = (struct durable){.store = NULL};
    jobs = (struct jobs){.durable = &durable,
                         .policy_hooks = &policy_hooks,
                         .options = {.base = event_base_new(), .limits = JOBS_LIMITS_DEFAULT},
                         .boot.fd = -1};
    ck_assert_int_eq(due_init(&jobs.boot, jobs.options.base, CLOCK_BOOTTIME, NULL, NULL), 0);
    list_init(&jobs.gates.of_users);
    list_init(&jobs.run_slots.waiting);
    domain = (struct domain){.jobs = &jobs};
    for (uint32_t i = 0; i < ARRAY_SIZE(users); i++) {
        users[i] = (struct user){.uid = i + 1};
        list_init(&users[i].kept);
    }
    plugin.domain = &domain;
    plugin.n_jobs = 0;
    n_ids = 0;
}

static void tear_down(void)
{
    ck_assert_uint_eq(durable.keys.n, 0);
    ck_assert_uint_eq(jobs.by_id.n, 0);
    hash_deinit(&durable.keys);
    hash_deinit(&jobs.by_id);
    for (size_t i = 0; i < JOBS_SLABS; i++)
        slab_trim(&jobs.slabs[i]);
    due_deinit(&jobs.boot);
    event_base_free(jobs.options.base);
}

static struct job *new_job(struct user *user, const struct job_request *r)
{
    struct job *job = job_alloc(&jobs, 0, 0, false);

    ck_assert_ptr_nonnull(job);
    job->domain = &domain;
    job->user = user;
    job->plugin = &plugin;
    plugin.n_jobs++;
    job_set_function(job, &function);
    job->id[0] = ++n_ids;
    ck_assert_int_eq(job_name(&jobs, job), 0);
    ck_assert_int_eq(policy_make(job, r), 0);
    return job;
}

static void run(struct job *job)
{
    if (job->state == JOB_DELAYED)
        time_begun(job);
    job_move(job, JOB_QUEUED);
    job_move(job, JOB_RUNNING);
    job->attempts++;
}

START_TEST(a_key_names_one_job_of_one_user)
{
    struct job *job = new_job(&users[0], &(struct job_request){.uid = 1, .key = "k"});

    ck_assert_ptr_eq(key_find(&jobs, 1, "k"), job);
    ck_assert_ptr_null(key_find(&jobs, 2, "k"));
    ck_assert_ptr_null(key_find(&jobs, 1, "kk"));
    struct job *other = new_job(&users[1], &(struct job_request){.uid = 2, .key = "k"});
    ck_assert_ptr_eq(key_find(&jobs, 2, "k"), other);
    job_free(job); /* by the hook `free` */
    ck_assert_ptr_null(key_find(&jobs, 1, "k"));
    ck_assert_ptr_eq(key_find(&jobs, 2, "k"), other);
    job_free(other);
}
END_TEST

START_TEST(a_job_is_tried_again_as_often_as_was_asked_for)
{
    struct job *job = new_job(&users[0], &(struct job_request){.uid = 1, .retries = 2});

    for (uint32_t i = 0; i < 2; i++) {
        run(job);
        ck_assert(retry_again(job, JOB_FAILED, 3, "no", NULL));
        ck_assert_int_eq(job->state, JOB_DELAYED);
        ck_assert_str_eq(job->more->error, "no");
        ck_assert_uint_eq(job_policy(job)->attempts_before, i + 1);
        ck_assert_uint_eq(jobs.counters.retried, i + 1);
    }
    run(job);
    ck_assert(!retry_again(job, JOB_FAILED, 3, "no", NULL));
    job_free(job);
}
END_TEST

START_TEST(only_ends_that_were_asked_for_are_tried_again)
{
    struct job *job =
        new_job(&users[0], &(struct job_request){.uid = 1, .retries = 9, .retry_on = 1u << JOB_TIMED_OUT});

    run(job);
    ck_assert(!retry_again(job, JOB_FAILED, 3, "no", NULL));
    ck_assert(!retry_again(job, JOB_SUCCEEDED, 0, NULL, NULL));
    job->more->stop = STOP_CANCEL;
    ck_assert(!retry_again(job, JOB_TIMED_OUT, 3, NULL, NULL));
    job->more->stop = STOP_NONE;
    jobs.draining = true; /* it is not durable, so it would be lost */
    ck_assert(!retry_again(job, JOB_TIMED_OUT, 3, NULL, NULL));
    jobs.draining = false;
    ck_assert(retry_again(job, JOB_TIMED_OUT, 3, NULL, NULL));
    job_free(job);
}
END_TEST

START_TEST(pauses_double_up_to_a_limit_and_are_shortened_by_a_half_at_most)
{
    struct job *job = new_job(&users[0], &(struct job_request){.uid = 1, .retries = 40, .retry_usec = 1000000});
    uint64_t most = 1000000;

    for (uint32_t i = 0; i < 40; i++) {
        run(job);
        ck_assert(retry_again(job, JOB_FAILED, 3, NULL, NULL));
        uint64_t left = due_left(&job_time(job)->due);
        ck_assert_uint_le(left, most);
        ck_assert_uint_gt(left + 1000000, most / 2); /* some time may have gone by */
        most = MIN(2 * most, RETRY_MAX_USEC);
    }
    job_free(job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("retry");
    TCase *t = tcase_create("retry");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_key_names_one_job_of_one_user);
    tcase_add_test(t, a_job_is_tried_again_as_often_as_was_asked_for);
    tcase_add_test(t, only_ends_that_were_asked_for_are_tried_again);
    tcase_add_test(t, pauses_double_up_to_a_limit_and_are_shortened_by_a_half_at_most);
    suite_add_tcase(s, t);
    return run_suite(s);
}
