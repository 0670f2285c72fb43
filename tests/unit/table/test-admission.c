/* SPDX-License-Identifier: Apache-2.0
 *
 * test-admission.c: the bytes of one user and of all users. */
#include <check.h>
#include <errno.h>

#include "base/cleanup.h"
#include "table/admission.h"
#include "tests/unit/suite.h"

static struct jobs jobs;
static struct user users[3];

static void set_up(void)
{
    jobs = (struct jobs){.options.limits = JOBS_LIMITS_DEFAULT};
    for (uint32_t i = 0; i < ARRAY_SIZE(users); i++) {
        users[i] = (struct user){.uid = i + 1};
        list_init(&users[i].kept);
    }
}

START_TEST(bytes_of_all_below_at_and_above)
{
    uint64_t retry = 0;

    jobs.options.limits.bytes = 1000;
    ck_assert_int_eq(user_admit(&jobs, &users[0], 600, &retry), 0);
    ck_assert_int_eq(user_admit(&jobs, &users[1], 401, &retry), -EDQUOT);
    ck_assert_uint_gt(retry, 0);
    ck_assert_uint_eq(jobs.counters.n_bytes, 600);
    ck_assert_int_eq(user_admit(&jobs, &users[1], 400, &retry), 0);
    ck_assert_int_eq(user_charge(&jobs, &users[0], 1), -EDQUOT);
    user_refund(&jobs, &users[0], 600);
    ck_assert_int_eq(user_admit(&jobs, &users[1], 600, &retry), 0);
    retry = 0;
    ck_assert_int_eq(user_admit(&jobs, &users[1], 1001, &retry), -EDQUOT); /* that much never fits */
    ck_assert_uint_eq(retry, 0);
    ck_assert_int_eq(user_admit(&jobs, &users[1], UINT64_MAX, &retry), -ENOSPC);
    user_refund(&jobs, &users[1], 1000);
    ck_assert(users[0].n_bytes == 0 && users[1].n_bytes == 0 && jobs.counters.n_bytes == 0);
    jobs.options.limits.bytes_per_user = 100;
    ck_assert_int_eq(user_admit(&jobs, &users[0], 100, &retry), 0);
    ck_assert_int_eq(user_admit(&jobs, &users[0], 1, &retry), -ENOSPC);
    ck_assert_uint_gt(retry, 0); /* of one user's, too */
}
END_TEST

START_TEST(a_user_that_waits_for_bytes_is_told_later_and_later_until_there_is_room)
{
    uint64_t first = 0, second = 0;

    jobs.options.limits.bytes = 1000;
    ck_assert_int_eq(user_admit(&jobs, &users[0], 1000, &first), 0);
    ck_assert_int_eq(user_admit(&jobs, &users[1], 10, &first), -EDQUOT);
    ck_assert_int_eq(user_admit(&jobs, &users[2], 10, &second), -EDQUOT);
    ck_assert_uint_lt(first, second);
    user_refund(&jobs, &users[0], 500);
    ck_assert(retry_after_is_wanted(&jobs.bytes_retry_after));
    ck_assert_int_eq(user_admit(&jobs, &users[1], 10, &first), 0);
    ck_assert(!retry_after_is_wanted(&jobs.bytes_retry_after)); /* another one would fit */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("admission");
    TCase *t = tcase_create("admission");

    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, bytes_of_all_below_at_and_above);
    tcase_add_test(t, a_user_that_waits_for_bytes_is_told_later_and_later_until_there_is_room);
    suite_add_tcase(s, t);
    return run_suite(s);
}
