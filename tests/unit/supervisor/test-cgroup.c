/* SPDX-License-Identifier: Apache-2.0
 *
 * test-cgroup.c: what the kernel says when no more cgroups may be made, and what is told of it. */
#include "supervisor/cgroup.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "supervisor/child.h"

static int error, taken; /* how many names there are already */

/* Instead of libc's: a cgroup that is full is not to be had everywhere. */
int mkdirat(int fd, const char *path, mode_t mode)
{
    errno = taken-- > 0 ? EEXIST : error;
    return -1;
}

static int made(int wanted)
{
    const struct cgroup_limits limits = {0};
    struct cgroups *g = cgroups_taken(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct cgroup *c;

    ck_assert_ptr_nonnull(g);
    error = wanted;
    int r = cgroup_new(g, 1, &limits, &c);
    cgroups_unref(g);
    return r;
}

START_TEST(a_limit_on_cgroups_does_not_pass_by_itself)
{
    ck_assert_int_eq(made(EAGAIN), -ENOSPC);
    ck_assert_ptr_nonnull(strstr(child_lacks(-ENOSPC), "cgroup.max.descendants"));
}
END_TEST

START_TEST(other_errors_are_passed_on)
{
    ck_assert_int_eq(made(EACCES), -EACCES);
    ck_assert_int_eq(made(ENOMEM), -ENOMEM);
    ck_assert_str_eq(child_lacks(-EACCES), "");
}
END_TEST

START_TEST(a_name_that_is_taken_is_passed_over)
{
    taken = 2;
    ck_assert_int_eq(made(ENOMEM), -ENOMEM);
    ck_assert_int_eq(taken, -1);
    ck_assert_int_eq(made(EEXIST), -EEXIST);
}
END_TEST

START_TEST(a_limit_that_cannot_be_read_is_not_denied)
{
    struct rlimit before;
    char text[512];

    ck_assert_ptr_null(strstr(cgroup_tasks_words(text, sizeof(text)), "cannot be read"));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    cgroup_tasks_words(text, sizeof(text));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_ptr_nonnull(strstr(text, ", or TasksMax= is reached (it cannot be read: Too many open files)"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup");
    TCase *tcase = tcase_create("cgroup");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_limit_on_cgroups_does_not_pass_by_itself);
    tcase_add_test(tcase, other_errors_are_passed_on);
    tcase_add_test(tcase, a_name_that_is_taken_is_passed_over);
    tcase_add_test(tcase, a_limit_that_cannot_be_read_is_not_denied);
    return run_suite(suite);
}
