/* SPDX-License-Identifier: Apache-2.0
 *
 * test-packet.c: what wsd-spawn lets pass, and what it refuses. */
#include "spawner/packet.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 1000u
#define USER  1001u

static struct spawn_request request;

static void setup(void)
{
    request = (struct spawn_request){.kind = SPAWN_START,
                                     .serial = 1,
                                     .workers = 2,
                                     .uid = USER,
                                     .gid = USER,
                                     .n_groups = 2,
                                     .groups = {USER, 2000}};
}

static int checked(uint32_t n_fds)
{
    return spawn_check(&request, sizeof(request), n_fds, FIRST);
}

START_TEST(what_is_right_passes)
{
    ck_assert_int_eq(checked(SPAWN_FDS), 0);
    request.memory = UINT64_MAX;
    request.workers = SPAWN_WORKERS_MAX;
    ck_assert_int_eq(checked(SPAWN_FDS), 0);
    request.flags = SPAWN_CGROUP;
    ck_assert_int_eq(checked(SPAWN_FDS + 1), 0);
    request = (struct spawn_request){.kind = SPAWN_KILL, .serial = UINT64_MAX};
    ck_assert_int_eq(checked(0), 0);
    request = (struct spawn_request){.kind = SPAWN_PING, .serial = UINT64_MAX};
    ck_assert_int_eq(checked(0), 0);
}
END_TEST

START_TEST(users_are_at_or_above_the_bound)
{
    static const uint32_t refused[] = {0, 1, 42, FIRST - 1, UINT32_MAX};

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        setup();
        request.uid = refused[i];
        ck_assert_int_eq(checked(SPAWN_FDS), EPERM);
        setup();
        request.gid = refused[i];
        ck_assert_int_eq(checked(SPAWN_FDS), EPERM);
        setup();
        request.groups[1] = refused[i];
        ck_assert_int_eq(checked(SPAWN_FDS), EPERM);
    }
    setup();
    request.uid = request.gid = request.groups[0] = FIRST;
    ck_assert_int_eq(checked(SPAWN_FDS), 0);
}
END_TEST

START_TEST(root_is_refused_whatever_the_bound)
{
    request.uid = 0;
    ck_assert_int_eq(spawn_check(&request, sizeof(request), SPAWN_FDS, 0), EPERM);
    setup();
    request.gid = 0;
    ck_assert_int_eq(spawn_check(&request, sizeof(request), SPAWN_FDS, 0), EPERM);
    setup();
    request.groups[1] = 0;
    ck_assert_int_eq(spawn_check(&request, sizeof(request), SPAWN_FDS, 0), EPERM);
}
END_TEST

START_TEST(a_user_without_a_group_gets_nogroup)
{
    request.gid = SPAWN_NO_GROUP;
    request.n_groups = 0;
    memset(request.groups, 0, sizeof(request.groups));
    ck_assert_int_eq(spawn_check(&request, sizeof(request), SPAWN_FDS, 100000), EPERM); /* the user */
    request.uid = 100000;
    ck_assert_int_eq(spawn_check(&request, sizeof(request), SPAWN_FDS, 100000), 0);
}
END_TEST

START_TEST(groups_are_counted)
{
    for (uint32_t i = 0; i < SPAWN_GROUPS_MAX; i++)
        request.groups[i] = FIRST + i;
    request.n_groups = SPAWN_GROUPS_MAX;
    ck_assert_int_eq(checked(SPAWN_FDS), 0);
    request.n_groups--; /* one that is not said */
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
    request.n_groups = SPAWN_GROUPS_MAX + 1;
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
    request.n_groups = UINT32_MAX;
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
}
END_TEST

START_TEST(numbers_have_their_bounds)
{
    request.workers = 0;
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
    request.workers = SPAWN_WORKERS_MAX + 1;
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
    setup();
    request.flags = SPAWN_CGROUP << 1;
    ck_assert_int_eq(checked(SPAWN_FDS), EINVAL);
    request.flags |= SPAWN_CGROUP;
    ck_assert_int_eq(checked(SPAWN_FDS + 1), EINVAL);
}
END_TEST

START_TEST(descriptors_are_counted)
{
    for (uint32_t n = 0; n < SPAWN_FDS_MAX + 2; n++)
        ck_assert_int_eq(checked(n), n == SPAWN_FDS ? 0 : EINVAL);
    request.flags = SPAWN_CGROUP;
    for (uint32_t n = 0; n < SPAWN_FDS_MAX + 2; n++)
        ck_assert_int_eq(checked(n), n == SPAWN_FDS + 1 ? 0 : EINVAL);
}
END_TEST

START_TEST(what_says_nothing_is_not_answered)
{
    request.serial = 0;
    ck_assert_int_eq(checked(SPAWN_FDS), EBADMSG);
    setup();
    for (uint32_t kind = 0; kind < 256; kind++) {
        request.kind = kind;
        ck_assert(checked(SPAWN_FDS) == EBADMSG || kind == SPAWN_START);
    }
    setup();
    for (size_t size = 0; size < sizeof(request) + 8; size++)
        ck_assert_int_eq(spawn_check(&request, size, SPAWN_FDS, FIRST), size == sizeof(request) ? 0 : EBADMSG);
}
END_TEST

START_TEST(a_kill_says_only_the_serial)
{
    request.kind = SPAWN_KILL;
    ck_assert_int_eq(checked(0), EBADMSG);
    request = (struct spawn_request){.kind = SPAWN_KILL, .serial = 1};
    ck_assert_int_eq(checked(0), 0);
    ck_assert_int_eq(checked(1), EBADMSG);
    request.groups[SPAWN_GROUPS_MAX - 1] = 1;
    ck_assert_int_eq(checked(0), EBADMSG);
    request.groups[SPAWN_GROUPS_MAX - 1] = 0;
    request.serial = 0;
    ck_assert_int_eq(checked(0), EBADMSG);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("packet");
    Suite *s = suite_create("spawner");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, what_is_right_passes);
    tcase_add_test(tc, users_are_at_or_above_the_bound);
    tcase_add_test(tc, root_is_refused_whatever_the_bound);
    tcase_add_test(tc, a_user_without_a_group_gets_nogroup);
    tcase_add_test(tc, groups_are_counted);
    tcase_add_test(tc, numbers_have_their_bounds);
    tcase_add_test(tc, descriptors_are_counted);
    tcase_add_test(tc, what_says_nothing_is_not_answered);
    tcase_add_test(tc, a_kill_says_only_the_serial);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
