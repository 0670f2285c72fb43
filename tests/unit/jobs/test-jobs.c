/* SPDX-License-Identifier: Apache-2.0
 *
 * test-jobs.c: what keeps the loop awake. */
#include <check.h>

#include "base/cleanup.h"
#include "domains/executors.h"
#include "durable/durable.h"
#include "jobs/jobs.h"
#include "jobs/schedule.h"
#include "table/job.h"
#include "tests/unit/suite.h"

static struct durable durable; /* no store is open */
static struct jobs jobs;

static void set_up(void)
{
    jobs = (struct jobs){.durable = &durable};
    list_init(&jobs.domains);
    list_init(&jobs.after_due);
    list_init(&jobs.batches.due);
    list_init(&jobs.offers_due);
    list_init(&jobs.ends_due);
    list_init(&jobs.settle_due);
}

/* Covers work that came after jobs_poll() and is left for the next turn, or has found no memory for its timer. An
 * example: frames of a connection had been held back, and now submit a job with a deadline. */
START_TEST(wsd_does_not_sleep_over_what_is_due)
{
    ck_assert(jobs_asleep(&jobs) && jobs_have_told(&jobs));
    struct list untold;
    list_push_back(&jobs.ends_due, &untold);
    ck_assert(!jobs_asleep(&jobs) && !jobs_have_told(&jobs));
    list_remove(&untold);
    struct list unsettled;
    list_push_back(&jobs.settle_due, &unsettled);
    ck_assert(!jobs_asleep(&jobs));
    list_remove(&unsettled);
    jobs.run_slots.due = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.run_slots.due = false;
    jobs.gates.due = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.gates.due = false;
    jobs.drain.due = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.drain.due = false;
    jobs.untimed = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.untimed = false;
    ck_assert(jobs_asleep(&jobs));
}
END_TEST

/* A drain with very many jobs does not keep the loop: so many turns, each with its share of the table. */
START_TEST(a_drain_goes_on_turn_by_turn)
{
    static struct job others[5000]; /* queued: a drain leaves them alone */
    struct executors executors = {0};
    struct schedules schedules = {0};
    uint32_t turns = 0;

    jobs.executors = &executors;
    jobs.schedules = &schedules;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        others[i] = (struct job){.state = JOB_QUEUED};
        ck_assert_int_eq(hash_insert(&jobs.by_id, &others[i].by_id, hash_mix(i)), 0);
    }
    jobs_drain(&jobs);
    while (!jobs_asleep(&jobs)) {
        jobs_poll(&jobs);
        turns++;
    }
    ck_assert_uint_ge(turns, jobs.by_id.n_buckets / 128);
    ck_assert_uint_le(turns, jobs.by_id.n_buckets / 128 + 1);
    hash_deinit(&jobs.by_id);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("jobs");
    TCase *t = tcase_create("jobs");

    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, a_drain_goes_on_turn_by_turn);
    tcase_add_test(t, wsd_does_not_sleep_over_what_is_due);
    suite_add_tcase(s, t);
    return run_suite(s);
}
