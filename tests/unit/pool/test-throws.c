/* SPDX-License-Identifier: Apache-2.0
 *
 * test-throws.c: an exception that leaves a task ends the process, whether it was stolen or not. */
#include "support.h"

enum { WAYS = 5, STOLEN = 3 };

/* test-throws-cxx.cpp */
void cxx_throw(struct wsd_worker *self, int how, bool stolen);

static void do_here(struct wsd_worker *self, void *arg)
{
    cxx_throw(self, *(int *)arg, false);
}

static void do_stolen(struct wsd_worker *self, void *arg)
{
    cxx_throw(self, *(int *)arg, true);
}

START_TEST(where_it_was_spawned)
{
    run_on(new_pool(1), do_here, &_i);
}
END_TEST

START_TEST(where_it_was_stolen)
{
    run_on(new_pool(2), do_stolen, &_i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("throws");
    TCase *t = tcase_create("throws");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test_raise_signal(t, where_it_was_spawned, SIGABRT, 0, WAYS);
    tcase_add_loop_test_raise_signal(t, where_it_was_stolen, SIGABRT, 0, STOLEN);
    suite_add_tcase(s, t);
    return run_suite(s);
}
