/* SPDX-License-Identifier: Apache-2.0
 *
 * test-room.c: bytes on their way, below, at and above their limit. */
#include "fleet/room.h"

#include "tests/unit/suite.h"

static struct room room;
static struct room_share shares[4];

static void setup(void)
{
    room = (struct room){0};
    for (unsigned i = 0; i < 4; i++)
        shares[i] = (struct room_share){0};
}

static const struct {
    uint64_t first, second;
    bool fits;
} sizes[] = {
    {1, ROOM_MAX - 2, true}, {1, ROOM_MAX - 1, true}, {1, ROOM_MAX, false},
    {ROOM_MAX, 1, false},    {ROOM_MAX - 1, 1, true}, {ROOM_MAX / 2, ROOM_MAX / 2 + 1, false},
};

START_TEST(no_more_than_there_is_room_for)
{
    ck_assert(room_take(&room, &shares[0], sizes[_i].first));
    ck_assert_int_eq(room_take(&room, &shares[1], sizes[_i].second), sizes[_i].fits);
    ck_assert_uint_eq(room.used, sizes[_i].first + (sizes[_i].fits ? sizes[_i].second : 0));
    room_leave(&room, &shares[0]);
    ck_assert(room_take(&room, &shares[1], sizes[_i].second));
    ck_assert_uint_eq(room.used, sizes[_i].second);
    room_leave(&room, &shares[1]);
    ck_assert_uint_eq(room.used, 0);
}
END_TEST

START_TEST(a_share_is_taken_once)
{
    ck_assert(room_take(&room, &shares[0], 10));
    ck_assert(room_take(&room, &shares[0], 10));
    ck_assert_uint_eq(room.used, 10);
    room_leave(&room, &shares[0]);
    room_leave(&room, &shares[0]);
    ck_assert_uint_eq(room.used, 0);
}
END_TEST

START_TEST(what_is_small_does_not_overtake_what_waits)
{
    ck_assert(room_take(&room, &shares[0], ROOM_MAX - 10));
    ck_assert(!room_take(&room, &shares[1], 11));
    ck_assert(!room_take(&room, &shares[2], 1));
    ck_assert(!room_take(&room, &shares[1], 11));
    room_leave(&room, &shares[0]);
    ck_assert(!room_take(&room, &shares[3], 1));
    ck_assert(room_take(&room, &shares[1], 11));
    ck_assert(room_take(&room, &shares[2], 1));
    ck_assert(room_take(&room, &shares[3], 1));
    ck_assert_uint_eq(room.used, 13);
}
END_TEST

START_TEST(what_waits_no_more_holds_up_nothing)
{
    ck_assert(room_take(&room, &shares[0], ROOM_MAX));
    ck_assert(!room_take(&room, &shares[1], 1));
    room_leave(&room, &shares[1]);
    room_leave(&room, &shares[0]);
    ck_assert(room_take(&room, &shares[2], 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet room");
    TCase *c = tcase_create("room");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_loop_test(c, no_more_than_there_is_room_for, 0, sizeof(sizes) / sizeof(*sizes));
    tcase_add_test(c, a_share_is_taken_once);
    tcase_add_test(c, what_is_small_does_not_overtake_what_waits);
    tcase_add_test(c, what_waits_no_more_holds_up_nothing);
    suite_add_tcase(s, c);
    return run_suite(s);
}
