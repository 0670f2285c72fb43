/* SPDX-License-Identifier: Apache-2.0
 *
 * test-jobs.c: what keeps the loop awake. */
#include <check.h>

#include "base/cleanup.h"
#include "durable/durable.h"
#include "jobs/jobs.h"
#include "table/job.h"
#include "tests/unit/suite.h"

static struct durable durable; /* no store is open */
static struct jobs jobs;

static void set_up(void)
{
    jobs = (struct jobs){.durable = &durable};
    list_init(&jobs.domains);
}

/* Covers work that came after jobs_poll() and is left for the next turn, or has found no memory for its timer. An
 * example: frames of a connection had been held back, and now submit a job with a deadline. */
START_TEST(wsd_does_not_sleep_over_what_is_due)
{
    list_init(&jobs.after_due);
    list_init(&jobs.batches.due);
    list_init(&jobs.moved);
    list_init(&jobs.ends_due);
    ck_assert(jobs_asleep(&jobs) && jobs_have_told(&jobs));
    struct list untold;
    list_push_back(&jobs.ends_due, &untold);
    ck_assert(!jobs_asleep(&jobs) && !jobs_have_told(&jobs));
    list_remove(&untold);
    jobs.run_slots.due = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.run_slots.due = false;
    jobs.gates.due = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.gates.due = false;
    jobs.untimed = true;
    ck_assert(!jobs_asleep(&jobs));
    jobs.untimed = false;
    ck_assert(jobs_asleep(&jobs));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("jobs");
    TCase *t = tcase_create("jobs");

    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, wsd_does_not_sleep_over_what_is_due);
    suite_add_tcase(s, t);
    return run_suite(s);
}
