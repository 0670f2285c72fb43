/* SPDX-License-Identifier: Apache-2.0
 *
 * test-cpus.c: the CPU quota is found in either version of cgroups, and nonsense limits nothing. */
#include "base/cpus.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define LONG_LINE (1u << 20)

static char top[] = "/tmp/wsd-test-cpus-XXXXXX";
static char cgroup[64];

static void shell(const char *format, const char *a, const char *b)
{
    char command[1024];

    snprintf(command, sizeof(command), format, a, b);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", top, path);
    shell("mkdir -p \"$(dirname '%s')\"%s", full, "");
    FILE *f = fopen(full, "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(cgroup, sizeof(cgroup), "%s/cgroup", top);
}

static void teardown(void)
{
    shell("rm -rf '%s'%s", top, "");
}

static unsigned quota(void)
{
    int error = 1;
    unsigned n = cpus_quota(cgroup, top, &error);

    ck_assert_int_eq(error, 0);
    return n;
}

START_TEST(no_files_no_quota)
{
    ck_assert_uint_eq(quota(), 0);
    put("cgroup", "0::/");
    ck_assert_uint_eq(quota(), 0);
}
END_TEST

START_TEST(quota_of_version_2_is_rounded_up)
{
    put("cgroup", "0::/a/b");
    put("a/b/cpu.max", "max 100000");
    ck_assert_uint_eq(quota(), 0);
    put("a/b/cpu.max", "150000 100000");
    ck_assert_uint_eq(quota(), 2);
    put("a/b/cpu.max", "200000 100000");
    ck_assert_uint_eq(quota(), 2);
    put("a/b/cpu.max", "1000 100000");
    ck_assert_uint_eq(quota(), 1);
}
END_TEST

START_TEST(tightest_quota_on_the_way_up_counts)
{
    put("cgroup", "0::/a/b/c");
    put("a/b/c/cpu.max", "800000 100000");
    put("a/cpu.max", "300000 100000");
    put("cpu.max", "900000 100000");
    ck_assert_uint_eq(quota(), 3);
}
END_TEST

START_TEST(container_that_does_not_see_its_path_looks_at_the_root)
{
    put("cgroup", "0::/system.slice/docker-123.scope");
    put("cpu.max", "400000 100000");
    ck_assert_uint_eq(quota(), 4);
    put("cgroup", "0::/../../x");
    ck_assert_uint_eq(quota(), 4);
}
END_TEST

START_TEST(quota_of_version_1_is_found)
{
    put("cgroup", "3:cpuset:/\n2:cpu,cpuacct:/a\n1:memory:/m\n0::/");
    put("cpu/a/cpu.cfs_quota_us", "-1");
    put("cpu/a/cpu.cfs_period_us", "100000");
    ck_assert_uint_eq(quota(), 0);
    put("cpu/a/cpu.cfs_quota_us", "250000");
    ck_assert_uint_eq(quota(), 3);
    put("cpu/cpu.cfs_quota_us", "100000");
    put("cpu/cpu.cfs_period_us", "100000");
    ck_assert_uint_eq(quota(), 1);
}
END_TEST

START_TEST(nonsense_limits_nothing)
{
    static const char *const nonsense[] = {"", "x y", "0 0", "5 0", "-5 100000", "100000 -1", "9223372036854775807 1",
                                           "7"};

    put("cgroup", "0::/a");
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
        put("a/cpu.max", nonsense[i]);
        ck_assert_uint_eq(quota(), 0);
    }
    put("cgroup", "garbage\n:\n::\n\n1:cpu\n");
    ck_assert_uint_eq(quota(), 0);
}
END_TEST

/* A directory can be opened and not be read. */
START_TEST(what_cannot_be_read_is_told)
{
    int error = 0;

    ck_assert_uint_eq(cpus_quota(top, top, &error), 0);
    ck_assert_int_eq(error, -EISDIR);
    put("cgroup", "2:cpu:/a\n0::/a/b");
    put("a/cpu.max", "300000 100000");
    put("a/b/cpu.max/x", "");
    ck_assert_uint_eq(cpus_quota(cgroup, top, &error), 3);
    ck_assert_int_eq(error, -EISDIR);
    shell("rm -r '%s/a/b/%s'", top, "cpu.max");
    ck_assert_uint_eq(quota(), 3);
    put("cpu/a/cpu.cfs_quota_us", "100000");
    put("cpu/a/cpu.cfs_period_us/x", "");
    ck_assert_uint_eq(cpus_quota(cgroup, top, &error), 3);
    ck_assert_int_eq(error, -EISDIR);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                                                 \
    !defined(__clang__) /* sanitizers have memory of their own, or end */
START_TEST(a_line_for_which_there_is_no_memory_is_told)
{
    static char line[LONG_LINE];
    struct rlimit room;
    int error = 0;

    memset(line, 'x', sizeof(line) - 1);
    memcpy(line + sizeof(line) - sizeof("\n0::/"), "\n0::/", sizeof("\n0::/"));
    put("cgroup", line);
    put("cpu.max", "100000 100000");
    ck_assert_uint_eq(quota(), 1);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &room), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){1, room.rlim_max}), 0);
    unsigned n = cpus_quota(cgroup, top, &error);
    void *more = mmap(NULL, LONG_LINE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &room), 0);
    if (more != MAP_FAILED)
        return; /* qemu-user sets no such limit */
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(error, -ENOMEM);
}
END_TEST
#endif

START_TEST(affinity_counts)
{
    cpu_set_t set;
    int error = 1;

    ck_assert_uint_ge(cpus_usable(&error), 1);
    ck_assert_int_eq(error, 0);
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    ck_assert_uint_eq(cpus_affinity(), 1);
    ck_assert_uint_eq(cpus_usable(&error), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base/cpus");
    TCase *t = tcase_create("cpus");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, no_files_no_quota);
    tcase_add_test(t, quota_of_version_2_is_rounded_up);
    tcase_add_test(t, tightest_quota_on_the_way_up_counts);
    tcase_add_test(t, container_that_does_not_see_its_path_looks_at_the_root);
    tcase_add_test(t, quota_of_version_1_is_found);
    tcase_add_test(t, nonsense_limits_nothing);
    tcase_add_test(t, what_cannot_be_read_is_told);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    tcase_add_test(t, a_line_for_which_there_is_no_memory_is_told);
#endif
    tcase_add_test(t, affinity_counts);
    suite_add_tcase(s, t);
    return run_suite(s);
}
