/* SPDX-License-Identifier: Apache-2.0
 *
 * test-room.c: when those who were refused are told to come again. */
#include <check.h>
#include <stdlib.h>

#include "jobs/room.h"

#define NOW 1000000000u

START_TEST(each_is_told_a_time_of_its_own)
{
    struct room room = {0};

    for (uint64_t i = 1; i <= 49; i++)
        ck_assert_uint_eq(room_refuse(&room, NOW), i * ROOM_FIRST_USEC);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(room_refuse(&room, NOW), ROOM_MOST_USEC); /* below, at and above */
}
END_TEST

START_TEST(the_times_follow_the_places)
{
    struct room room = {0};
    uint64_t now = NOW;

    room_refuse(&room, now);
    for (int i = 0; i < 40; i++)
        room_freed(&room, now += 20000);
    uint64_t first = room_refuse(&room, now);
    ck_assert_uint_ge(first, 20000);
    ck_assert_uint_le(first, 20500);
    ck_assert_uint_le(room_refuse(&room, now), 41000);
    for (int i = 0; i < 40; i++)
        room_freed(&room, now += 10);
    now += 100000; /* whoever was told to come before has come */
    room_freed(&room, now);
    ck_assert_uint_le(room_refuse(&room, now), 30000);
}
END_TEST

START_TEST(where_no_place_becomes_free_the_pauses_grow)
{
    struct room room = {0};
    uint64_t now = NOW, last = 0, n = 0;

    for (; last < ROOM_MOST_USEC; n++) {
        uint64_t wait = room_refuse(&room, now);

        ck_assert_uint_ge(wait, last);
        ck_assert_uint_le(wait, ROOM_MOST_USEC);
        now += last = wait;
        ck_assert_uint_lt(n, 10);
    }
    ck_assert_uint_ge(n, 5);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(room_refuse(&room, now += ROOM_MOST_USEC), ROOM_MOST_USEC);
}
END_TEST

START_TEST(never_more_often_than_a_thousand_times_a_second)
{
    struct room room = {0};
    uint64_t now = NOW;

    room_refuse(&room, now);
    for (int i = 0; i < 100; i++)
        room_freed(&room, now);
    now += 2 * ROOM_FIRST_USEC;
    room_freed(&room, now);
    for (int i = 0; i < 100; i++)
        room_freed(&room, now);
    ck_assert_uint_eq(room_refuse(&room, now), ROOM_LEAST_USEC);
}
END_TEST

START_TEST(when_nobody_waits_no_more_it_is_as_new)
{
    struct room room = {0};

    ck_assert(!room_is_wanted(&room));
    uint64_t due = NOW + room_refuse(&room, NOW);
    ck_assert(room_is_wanted(&room));
    room_freed(&room, due + ROOM_MOST_USEC);
    ck_assert(room_is_wanted(&room));
    room_freed(&room, due + ROOM_MOST_USEC + 1);
    ck_assert(!room_is_wanted(&room));
    ck_assert_uint_lt(room_refuse(&room, due + 100 * ROOM_MOST_USEC), ROOM_MOST_USEC); /* the time in which nobody waited says nothing */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("room");
    Suite *s = suite_create("room");
    SRunner *r = srunner_create(s);

    tcase_add_test(tc, each_is_told_a_time_of_its_own);
    tcase_add_test(tc, the_times_follow_the_places);
    tcase_add_test(tc, where_no_place_becomes_free_the_pauses_grow);
    tcase_add_test(tc, never_more_often_than_a_thousand_times_a_second);
    tcase_add_test(tc, when_nobody_waits_no_more_it_is_as_new);
    suite_add_tcase(s, tc);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
