/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lanes.c: which jobs go together, and when: below, at and above each limit. */
#include "fleet/lanes.h"

#include <errno.h>
#include <stdlib.h>

#include "fleet/withdraw.h"
#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define ITEMS      600u
#define TRUST_USEC 10000000u

static struct lanes *lanes;
static struct codec *codec;
static struct withdrawals *withdrawals;
static struct lane_item items[ITEMS];
static uint32_t n_alone, n_stored, n_ended;
static uint32_t ended[ITEMS];              /* statuses + 1 */
static char *const a_bus = (char *)&lanes; /* never looked into */

static void alone(struct lane_item *item, struct buffer *letter)
{
    ck_assert_uint_gt(buffer_size(letter), 0);
    n_alone++;
}

static void stored(struct lane_item *item)
{
    n_stored++;
}

static void on_ended(struct lane_item *item, struct letter_end *end)
{
    ended[item - items] = end->end.status + 1;
    n_ended++;
    lanes_leave(item, false);
}

static void setup(void)
{
    post_open();
    ck_assert_int_eq(codec_new(&codec), 0);
    ck_assert_int_eq(withdrawals_new(&withdrawals, (struct bus *)a_bus), 0);
    const struct lanes_options options = {.bus = (struct bus *)a_bus,
                                          .node = "here",
                                          .codec = codec,
                                          .withdrawals = withdrawals,
                                          .alone = alone,
                                          .stored = stored,
                                          .ended = on_ended};
    ck_assert_int_eq(lanes_new(&lanes, &options), 0);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        lanes_leave(&items[i], false);
    lanes_free(lanes);
    withdrawals_free(withdrawals);
    codec_free(codec);
    post_clear();
}

static void hear(struct lane_item *item, const char *together)
{
    natsMsg *msg = NULL;

    ck_assert_int_eq(natsMsg_Create(&msg, "end", NULL, "x", 1), NATS_OK);
    if (together)
        ck_assert_int_eq(natsMsgHeader_Set(msg, PARCEL_HEADER, together), NATS_OK);
    lanes_hear(item, msg);
    natsMsg_Destroy(msg);
}

/* The first item of a lane with a node that takes so many; it stays on its way, so that others are gathered. */
static void open_lane(uint32_t i, const char *function, uint32_t uid, int priority, const char *together)
{
    lanes_enter(lanes, &items[i], function, uid, priority);
    hear(&items[i], together);
    lanes_sends(&items[i], true);
}

static int put(uint32_t i, const char *function, uint32_t uid, int priority, size_t size)
{
    static const char input[LETTER_MAX];
    struct msg_run run = {
        .uid = uid, .attempt = 1, .job = {.function = {function, strlen(function)}, .priority = priority}};

    if (!items[i].lane)
        lanes_enter(lanes, &items[i], function, uid, priority);
    memcpy(run.id, &i, sizeof(i));
    return lanes_put(&items[i], &run, input, size);
}

/* The server has the first item's letter. */
static void go_on(uint32_t i)
{
    lanes_sends(&items[i], false);
}

START_TEST(what_is_in_no_lane_goes_alone) /* with a key, or tried again: out.c enters none */
{
    ck_assert(!lanes_take(&items[0], 1));
    lanes_sends(&items[0], true);
    lanes_leave(&items[0], true);
    ck_assert_uint_eq(n_posts, 0);
}
END_TEST

static const struct {
    const char *says; /* NULL: nothing, as of a function that may not run twice, or an older node */
    bool takes;
} words[] = {{NULL, false}, {"0", false}, {"1", false}, {"2", true}, {"256", true}, {"100000", true}, {"x", false}};

START_TEST(only_where_a_node_has_said_so)
{
    lanes_enter(lanes, &items[0], "f", 1, 0);
    ck_assert(!lanes_take(&items[0], 1));
    hear(&items[0], words[_i].says);
    ck_assert_int_eq(lanes_take(&items[0], 1), words[_i].takes);
}
END_TEST

START_TEST(only_small_ones)
{
    open_lane(0, "f", 1, 0, "8");
    ck_assert(lanes_take(&items[0], 0));
    ck_assert(lanes_take(&items[0], PARCEL_SIZE - 1));
    ck_assert(lanes_take(&items[0], PARCEL_SIZE));
    ck_assert(!lanes_take(&items[0], PARCEL_SIZE + 1));
}
END_TEST

START_TEST(a_word_holds_for_a_while)
{
    open_lane(0, "f", 1, 0, "8");
    now_usec += TRUST_USEC - 1;
    ck_assert(lanes_take(&items[0], 1));
    now_usec++;
    ck_assert(!lanes_take(&items[0], 1));
    hear(&items[0], NULL); /* an older one says nothing of others */
    ck_assert(!lanes_take(&items[0], 1));
    hear(&items[0], "8");
    ck_assert(lanes_take(&items[0], 1));
}
END_TEST

static const struct {
    const char *function;
    uint32_t uid;
    int priority;
    bool same;
} others[] = {
    {"f", 1, 0, true},   {"f:g", 1, 0, false}, {"f", 2, 0, false},  {"f", 1, 1, false},
    {"f", 1, -1, false}, {"f ", 1, 0, false},  {"ff", 1, 0, false}, {"f", 11, 0, false},
};

START_TEST(users_classes_and_functions_do_not_mix)
{
    open_lane(0, "f", 1, 0, "8");
    lanes_enter(lanes, &items[1], others[_i].function, others[_i].uid, others[_i].priority);
    ck_assert_int_eq(items[0].lane == items[1].lane, others[_i].same);
    ck_assert_int_eq(lanes_take(&items[1], 1), others[_i].same);
}
END_TEST

START_TEST(priorities_of_one_class_do)
{
    open_lane(0, "f", 1, 1, "8");
    lanes_enter(lanes, &items[1], "f", 1, 100);
    ck_assert_ptr_eq(items[0].lane, items[1].lane);
}
END_TEST

START_TEST(two_users_at_once_have_two_parcels)
{
    open_lane(0, "f", 1, 0, "8");
    open_lane(1, "f", 2, 0, "8");
    for (uint32_t i = 2; i < 8; i++)
        ck_assert_int_eq(put(i, "f", 1 + i % 2, 0, 1), 0);
    go_on(0);
    ck_assert_uint_eq(n_posts, 1);
    go_on(1);
    ck_assert_uint_eq(n_posts, 2);
    for (uint32_t i = 2; i < 8; i++)
        ck_assert_ptr_eq(items[i].parcel, items[2 + i % 2].parcel);
    ck_assert_ptr_ne(items[2].parcel, items[3].parcel);
    ck_assert_str_ne(posts[0].id, posts[1].id);
}
END_TEST

START_TEST(one_that_is_alone_is_a_letter)
{
    open_lane(0, "f", 1, 0, "8");
    ck_assert_int_eq(put(1, "f", 1, 0, 1), 0);
    ck_assert_uint_eq(n_alone, 0);
    go_on(0);
    ck_assert_uint_eq(n_alone, 1);
    ck_assert_uint_eq(n_posts, 0);
    ck_assert_ptr_null(items[1].parcel);
}
END_TEST

START_TEST(nothing_waits_where_nothing_is_under_way)
{
    lanes_enter(lanes, &items[0], "f", 1, 0);
    hear(&items[0], "8");
    ck_assert_int_eq(put(1, "f", 1, 0, 1), 0);
    ck_assert_int_eq(put(2, "f", 1, 0, 1), 0);
    lanes_flush(lanes);
    ck_assert_uint_eq(n_posts, 1);
}
END_TEST

static const struct {
    const char *says;
    uint32_t most;
} sizes[] = {{"2", 2}, {"3", 3}, {"255", 255}, {"256", 256}, {"257", 256}, {"4000000000", 256}};

START_TEST(no_more_than_a_node_takes_go_together)
{
    uint32_t most = sizes[_i].most;

    open_lane(0, "f", 1, 0, sizes[_i].says);
    for (uint32_t i = 1; i < most; i++)
        ck_assert_int_eq(put(i, "f", 1, 0, 1), 0);
    ck_assert_uint_eq(n_posts, 0);
    ck_assert_int_eq(put(most, "f", 1, 0, 1), 0); /* it is full */
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_int_eq(put(most + 1, "f", 1, 0, 1), 0);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_ptr_ne(items[most].parcel, items[most + 1].parcel);
    ck_assert_uint_eq(lanes_count(lanes).parcels, 1);
    ck_assert_uint_eq(lanes_count(lanes).jobs, most);
}
END_TEST

START_TEST(no_more_than_a_message_has)
{
    const size_t half = LETTER_MAX / 2 - 1000;

    open_lane(0, "f", 1, 0, "8");
    ck_assert_int_eq(put(1, "f", 1, 0, half), 0);
    ck_assert_int_eq(put(2, "f", 1, 0, half), 0);
    ck_assert_uint_eq(n_posts, 0);
    ck_assert_int_eq(put(3, "f", 1, 0, half), 0); /* begins another one */
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_uint_le(posts[0].size, LETTER_MAX);
    ck_assert_ptr_eq(items[1].parcel, items[2].parcel);
    ck_assert_ptr_ne(items[1].parcel, items[3].parcel);
    ck_assert_int_eq(put(4, "f", 1, 0, LETTER_MAX), -E2BIG);
    ck_assert_ptr_null(items[4].parcel);
}
END_TEST

/* Items 1 to n are in a parcel that the server has. */
static void away(uint32_t n)
{
    open_lane(0, "f", 1, 0, "8");
    for (uint32_t i = 1; i <= n; i++)
        ck_assert_int_eq(put(i, "f", 1, 0, 1), 0);
    go_on(0);
    ck_assert_uint_eq(n_posts, 1);
    post_answer(&posts[0], POST_STORED);
    ck_assert_uint_eq(n_stored, n);
}

START_TEST(a_full_server_is_asked_again)
{
    open_lane(0, "f", 1, 0, "8");
    ck_assert_int_eq(put(1, "f", 1, 0, 1), 0);
    ck_assert_int_eq(put(2, "f", 1, 0, 1), 0);
    go_on(0);
    post_answer(&posts[0], _i == 0 ? POST_FULL : _i == 1 ? "noise" : NULL);
    lanes_tick(lanes, now_usec);
    ck_assert_uint_eq(n_posts, 1);
    now_usec += 500000;
    lanes_tick(lanes, now_usec);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[0].id, posts[1].id);
    ck_assert_mem_eq(posts[0].data, posts[1].data, posts[1].size);
    ck_assert_uint_eq(lanes_count(lanes).again, 1);
    post_answer(&posts[1], POST_STORED);
    ck_assert_uint_eq(n_stored, 2);
}
END_TEST

/* Ends of the parcel that was sent first: `place` and status. */
static bool come(const uint32_t (*ends)[2], uint32_t n, size_t cut)
{
    struct buffer b = {0};
    natsMsg *msg = NULL;

    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(parcel_put_end(&b, &(struct msg_run_end){.run = ends[i][0], .status = ends[i][1]}, "out", 3),
                         0);
    ck_assert_int_eq(natsMsg_Create(&msg, "end", NULL, (const char *)buffer_data(&b), (int)(buffer_size(&b) - cut)),
                     NATS_OK);
    bool came = lanes_came(lanes, posts[0].id, msg);
    natsMsg_Destroy(msg);
    buffer_deinit(&b);
    return came;
}

START_TEST(each_end_goes_to_its_job_once)
{
    static const uint32_t some[][2] = {{3, 30}, {1, 10}, {3, 31}, {0, 40}, {5, 41}, {63, 42}};
    static const uint32_t rest[][2] = {{1, 11}, {2, 20}, {4, 40}};

    away(4);
    ck_assert(come(some, ARRAY_SIZE(some), 0));
    ck_assert_uint_eq(n_ended, 2);
    ck_assert(come(rest, ARRAY_SIZE(rest), 0));
    ck_assert_uint_eq(n_ended, 4);
    for (uint32_t i = 1; i <= 4; i++)
        ck_assert_uint_eq(ended[i], 10 * i + 1);
    ck_assert(!come(rest, ARRAY_SIZE(rest), 0)); /* it is over */
}
END_TEST

START_TEST(of_ends_that_are_cut_those_before_count)
{
    static const uint32_t all[][2] = {{1, 1}, {2, 2}};

    away(2);
    ck_assert(come(all, 2, 1));
    ck_assert_uint_eq(n_ended, 1);
    ck_assert(come(all, 2, 0));
    ck_assert_uint_eq(n_ended, 2);
}
END_TEST

START_TEST(stored_ends_are_looked_for_ever_more_rarely)
{
    away(2);
    now_usec += 2000000 - 1;
    lanes_tick(lanes, now_usec);
    ck_assert_uint_eq(n_posts, 1);
    for (uint32_t i = 1; i < 8; i++) {
        now_usec += i == 1 ? 1 : MIN(2000000ull << (i - 1), 30000000ull);
        lanes_tick(lanes, now_usec);
        ck_assert_uint_eq(n_posts, 1 + i);
        ck_assert_str_eq(posts[i].id, "last");
        post_answer(&posts[i], NULL);
    }
}
END_TEST

/* Bits: which of three are stopped. */
START_TEST(only_a_parcel_of_stopped_jobs_is_taken_away)
{
    away(3);
    for (uint32_t i = 0; i < 3; i++)
        lanes_leave(&items[1 + i], _i >> i & 1);
    ck_assert_uint_eq(n_posts, _i == 7 ? 2 : 1);
    if (_i == 7)
        ck_assert_str_eq(posts[1].text, "{\"seq\":7,\"no_erase\":true}");
}
END_TEST

START_TEST(lanes_without_jobs_are_forgotten) /* 256 are kept */
{
    char function[16];

    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(function, sizeof(function), "f%u", i);
        lanes_enter(lanes, &items[1], function, 1, 0);
        hear(&items[1], "8");
        lanes_leave(&items[1], false);
    }
    lanes_enter(lanes, &items[1], "f999", 1, 0);
    ck_assert(lanes_take(&items[1], 1));
    lanes_leave(&items[1], false);
    lanes_enter(lanes, &items[1], "f0", 1, 0);
    ck_assert(!lanes_take(&items[1], 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet lanes");
    TCase *c = tcase_create("lanes");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, what_is_in_no_lane_goes_alone);
    tcase_add_loop_test(c, only_where_a_node_has_said_so, 0, ARRAY_SIZE(words));
    tcase_add_test(c, only_small_ones);
    tcase_add_test(c, a_word_holds_for_a_while);
    tcase_add_loop_test(c, users_classes_and_functions_do_not_mix, 0, ARRAY_SIZE(others));
    tcase_add_test(c, priorities_of_one_class_do);
    tcase_add_test(c, two_users_at_once_have_two_parcels);
    tcase_add_test(c, one_that_is_alone_is_a_letter);
    tcase_add_test(c, nothing_waits_where_nothing_is_under_way);
    tcase_add_loop_test(c, no_more_than_a_node_takes_go_together, 0, ARRAY_SIZE(sizes));
    tcase_add_test(c, no_more_than_a_message_has);
    tcase_add_loop_test(c, a_full_server_is_asked_again, 0, 3);
    tcase_add_test(c, each_end_goes_to_its_job_once);
    tcase_add_test(c, of_ends_that_are_cut_those_before_count);
    tcase_add_test(c, stored_ends_are_looked_for_ever_more_rarely);
    tcase_add_loop_test(c, only_a_parcel_of_stopped_jobs_is_taken_away, 0, 8);
    tcase_add_test(c, lanes_without_jobs_are_forgotten);
    suite_add_tcase(s, c);
    return run_suite(s);
}
