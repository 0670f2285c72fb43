/* SPDX-License-Identifier: Apache-2.0
 *
 * test-trust.c: which other users could put a file in the place of a path. */
#include "base/trust.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHER 65534u

static char top[64];

static void set_up(void)
{
    snprintf(top, sizeof(top), "/tmp/test-trust.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(chdir(top), 0);
    mkdir("a", 0755);
    mkdir("a/b", 0755);
    close(open("a/b/file", O_CREAT | O_WRONLY, 0644));
}

static void tear_down(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", top);
    ck_assert_int_eq(system(command), 0);
}

static void leads(const char *path, const char *to)
{
    char where[PATH_MAX];
    struct stat st, wanted;
    int fd = trust_open(path, where);

    ck_assert_msg(fd >= 0, "%s: %d, %s", path, fd, where);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(stat(to, &wanted), 0);
    ck_assert(st.st_ino == wanted.st_ino && st.st_dev == wanted.st_dev);
    close(fd);
}

static void fails(const char *path, int error, const char *in)
{
    char where[PATH_MAX], wanted[PATH_MAX] = "";

    ck_assert_int_eq(trust_open(path, where), -error);
    if (in)
        snprintf(wanted, sizeof(wanted), "%s/%s", top, in);
    ck_assert_str_eq(where, wanted);
}

START_TEST(what_is_all_ours_is_found)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/a/b/file", top);
    leads(path, "a/b/file");
    leads("a//./b/../b/file", "a/b/file");
    leads("/", "/");
    ck_assert_int_eq(symlink("../a", "a/up"), 0);
    ck_assert_int_eq(symlink(path, "a/far"), 0);
    leads("a/up/up/b", "a/b");
    leads("a/up/far", "a/b/file");
    fails("a/none", ENOENT, NULL);
    fails("a/b/file/x", ENOTDIR, NULL);
    ck_assert_int_eq(symlink("round", "round"), 0);
    fails("round", ELOOP, NULL);
}
END_TEST

START_TEST(a_directory_that_others_write_is_told)
{
    chmod("a", 0777);
    fails("a/b/file", EPERM, "a");
    fails("a/none", EPERM, "a");
    chmod("a", 0775);
    fails("a/b/file", EPERM, "a");
    chmod("a", 0755);
    chmod("a/b", 0757);
    leads("a/b", "a/b"); /* what it is itself, is the caller's to judge */
    fails("a/b/file", EPERM, "a/b");
}
END_TEST

START_TEST(so_is_one_that_a_link_leads_through)
{
    mkdir("c", 0755);
    ck_assert_int_eq(symlink("../a/b", "c/link"), 0);
    leads("c/link/file", "a/b/file");
    chmod("a", 0777);
    fails("c/link/file", EPERM, "a");
}
END_TEST

START_TEST(in_a_sticky_directory_only_what_is_ours_stays)
{
    chmod("a", 01777);
    leads("a/b/file", "a/b/file");
    ck_assert_int_eq(symlink("b", "a/link"), 0);
    leads("a/link/file", "a/b/file");
    fails("a/none", ENOENT, NULL);
    if (geteuid() != 0)
        return; /* only root can give files away */
    ck_assert_int_eq(lchown("a/link", OTHER, OTHER), 0);
    fails("a/link/file", EPERM, "a");
    ck_assert_int_eq(chown("a/b", OTHER, OTHER), 0);
    fails("a/b", EPERM, "a");
}
END_TEST

START_TEST(anothers_directory_is_not_ours)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chown("a", OTHER, OTHER), 0);
    fails("a/b/file", EPERM, "a");
    chmod("a", 01755);
    fails("a/b/file", EPERM, "a");
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused)
{
    char path[PATH_MAX + 1];

    memset(path, '/', PATH_MAX);
    path[PATH_MAX] = 0;
    fails(path, ENAMETOOLONG, NULL);
    path[PATH_MAX - 2] = 0; /* one for the slash before it, one for the NUL */
    leads(path, "/");
    path[PATH_MAX - 2] = '/';
    path[PATH_MAX - 1] = 0;
    fails(path, ENAMETOOLONG, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base trust");
    TCase *c = tcase_create("all");

    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, what_is_all_ours_is_found);
    tcase_add_test(c, a_directory_that_others_write_is_told);
    tcase_add_test(c, so_is_one_that_a_link_leads_through);
    tcase_add_test(c, in_a_sticky_directory_only_what_is_ours_stays);
    tcase_add_test(c, anothers_directory_is_not_ours);
    tcase_add_test(c, a_path_that_is_too_long_is_refused);
    suite_add_tcase(s, c);
    return run_suite(s);
}
