/* SPDX-License-Identifier: Apache-2.0
 *
 * test-domain.c: the life of a domain: its parts, and where it is found. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/owners.h"
#include "tests/unit/suite.h"

static const struct jobs_domain all_users = {.workers = 1};
static struct executors executors;
static struct jobs jobs;
static char calls[64]; /* a letter a call */
static int fails;      /* the third part's answer */

static int said(const char *call, int result)
{
    strcat(calls, call);
    return result;
}

static int init_a(struct domain *d)
{
    list_init(&d->priv->plugins.all); /* a domain is looked up by what its plugins are called */
    return said("a", 0);
}

static int init_b(struct domain *d)
{
    return said("b", 0);
}

static int init_c(struct domain *d)
{
    return said("c", fails);
}

static void deinit_a(struct domain *d)
{
    (void)said("A", 0);
}

static void deinit_b(struct domain *d)
{
    (void)said("B", 0);
}

static void deinit_c(struct domain *d)
{
    (void)said("C", 0);
}

static const struct domain_part parts[] = {{init_a, deinit_a}, {init_b, deinit_b}, {init_c, deinit_c}, {NULL, NULL}};

static bool is_own(const char *plugin, void *context)
{
    return strcmp(plugin, "apart") == 0;
}

static void set_up(void)
{
    executors = (struct executors){.parts = parts};
    jobs = (struct jobs){.executors = &executors,
                         .options = {.domains = &all_users, .n_domains = 1, .plugin_own = is_own}};
    list_init(&jobs.domains);
    *calls = 0;
    fails = 0;
}

static void tear_down(void)
{
    list_for_each_safe (l, n, &jobs.domains)
        domain_free(container_of(l, struct domain, link));
    hash_deinit(&jobs.by_key);
}

START_TEST(the_parts_go_in_the_opposite_order)
{
    struct domain *d = domain_new(&jobs, 1);

    ck_assert_ptr_nonnull(d);
    ck_assert(!list_empty(&jobs.domains));
    domain_free(d);
    ck_assert_str_eq(calls, "abcCBA");
    ck_assert(list_empty(&jobs.domains));
}
END_TEST

START_TEST(where_a_part_cannot_be_made_nothing_is_left)
{
    fails = -ENOMEM;
    ck_assert_ptr_null(domain_new(&jobs, 1));
    ck_assert_str_eq(calls, "abcBA");
    ck_assert(list_empty(&jobs.domains));
    ck_assert_ptr_null(domain_get(&jobs, 1));
    ck_assert_ptr_null(domain_find(&jobs, 1, NULL));
}
END_TEST

START_TEST(a_user_has_one_domain_and_one_more_for_each_plugin_that_is_apart)
{
    struct domain *d = domain_get(&jobs, 1), *apart = domain_for(&jobs, 1, "apart");

    ck_assert_ptr_nonnull(d);
    ck_assert_ptr_eq(domain_get(&jobs, 1), d);
    ck_assert_ptr_eq(domain_for(&jobs, 1, "other"), d);
    ck_assert_ptr_ne(apart, d);
    ck_assert_ptr_eq(domain_for(&jobs, 1, "apart"), apart);
    ck_assert_ptr_eq(domain_find(&jobs, 1, "apart"), apart);
    ck_assert_ptr_ne(domain_get(&jobs, 2), d);
    ck_assert_ptr_null(domain_find(&jobs, 3, NULL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("domain");
    TCase *t = tcase_create("domain");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, the_parts_go_in_the_opposite_order);
    tcase_add_test(t, where_a_part_cannot_be_made_nothing_is_left);
    tcase_add_test(t, a_user_has_one_domain_and_one_more_for_each_plugin_that_is_apart);
    suite_add_tcase(s, t);
    return run_suite(s);
}
