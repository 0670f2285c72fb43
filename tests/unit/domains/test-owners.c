/* SPDX-License-Identifier: Apache-2.0
 *
 * test-owners.c: which users share an executor. */
#include <check.h>

#include "base/cleanup.h"
#include "domains/owners.h"
#include "domains/plugin-query.h"
#include "tests/unit/suite.h"

static const uint32_t one[] = {7}, two[] = {8, 9};
static const struct jobs_domain configured[] = {
    {.workers = 1},
    {.name = "one", .uids = one, .n_uids = 1, .workers = 2},
    {.name = "two", .uids = two, .n_uids = 2, .workers = 3},
};
static struct jobs jobs;

static void set_up(void)
{
    jobs = (struct jobs){.options = {.domains = configured, .n_domains = ARRAY_SIZE(configured)}};
}

START_TEST(a_user_that_shares_with_none_owns_the_executor)
{
    ck_assert_uint_eq(domain_owner(&jobs, 5), 5);
    ck_assert_uint_eq(domain_owner(&jobs, 7), 7);
    ck_assert_uint_eq(jobs_owner_uid(&jobs, 7), 7);
    ck_assert_uint_eq(owner_settings(&jobs, 5)->workers, 1);
    ck_assert_uint_eq(owner_settings(&jobs, 7)->workers, 2);
}
END_TEST

START_TEST(users_of_one_section_share)
{
    uint64_t owner = domain_owner(&jobs, 8);

    ck_assert_uint_eq(owner, domain_owner(&jobs, 9));
    ck_assert_uint_ge(owner, OWNER_SHARED);
    ck_assert_uint_eq(jobs_owner_uid(&jobs, owner), UINT32_MAX);
    ck_assert_uint_eq(owner_settings(&jobs, owner)->workers, 3);
}
END_TEST

START_TEST(all_others_share_where_all_trust_each_other)
{
    jobs.options.one_domain = true;
    ck_assert_uint_eq(domain_owner(&jobs, 5), domain_owner(&jobs, 6));
    ck_assert_uint_ne(domain_owner(&jobs, 5), domain_owner(&jobs, 8));
    ck_assert_uint_eq(domain_owner(&jobs, 7), 7);
    ck_assert_uint_eq(owner_settings(&jobs, domain_owner(&jobs, 5))->workers, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("owners");
    TCase *t = tcase_create("owners");

    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, a_user_that_shares_with_none_owns_the_executor);
    tcase_add_test(t, users_of_one_section_share);
    tcase_add_test(t, all_others_share_where_all_trust_each_other);
    suite_add_tcase(s, t);
    return run_suite(s);
}
