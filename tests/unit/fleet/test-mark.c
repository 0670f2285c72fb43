/* SPDX-License-Identifier: Apache-2.0
 *
 * test-mark.c: a mark is renewed while its job is here, well before the servers forget it, and never over another
 * node's. */
#include "fleet/mark.h"

#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define SUBJECT  "wsd.res.begun.job"
#define OWN      "2 mine 1"
#define OUTDATED "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 9\"},\"seq\":0}"

static struct mark mark;
static struct bus_question question; /* of the one that marks */
static char *const a_bus = (char *)&mark;

static void on_answer(struct bus_question *q, natsMsg *msg)
{
}

static void setup(void)
{
    post_open();
    question.answered = on_answer;
    mark_init(&mark, (struct bus *)a_bus, "job", "mine", 2);
}

static void teardown(void)
{
    mark_forget(&mark);
    bus_forget(&question);
    post_clear();
}

static void tick_after(uint64_t usec)
{
    now_usec += usec;
    mark_tick(&mark, now_usec);
}

/* The post of this place, and the last one, publishes the mark behind that. */
static void is_put(uint32_t place, const char *behind)
{
    ck_assert_uint_eq(n_posts, place + 1);
    ck_assert_str_eq(posts[place].subject, SUBJECT);
    ck_assert_str_eq(posts[place].header, behind);
    ck_assert_str_eq(posts[place].text, OWN);
}

static void is_look(uint32_t place)
{
    ck_assert_uint_eq(n_posts, place + 1);
    ck_assert_str_eq(posts[place].subject, SUBJECT);
    ck_assert_str_eq(posts[place].id, "last");
}

/* It stands as number 5, and is due. */
static void stand_and_be_due(void)
{
    mark_stands(&mark, 5);
    tick_after(MARK_RENEW_USEC);
    is_put(0, "behind 5");
}

START_TEST(it_is_renewed_well_before_it_is_forgotten)
{
    ck_assert_uint_le(2 * MARK_RENEW_USEC + MARK_AGAIN_USEC, LETTER_KEPT_USEC);
    mark_stands(&mark, 5);
    tick_after(MARK_RENEW_USEC - 1);
    ck_assert_uint_eq(n_posts, 0);
    tick_after(1);
    is_put(0, "behind 5");
    tick_after(MARK_RENEW_USEC); /* one at a time */
    ck_assert_uint_eq(n_posts, 1);
    post_answer(&posts[0], POST_STORED); /* as number 7 */
    tick_after(MARK_RENEW_USEC - 1);
    ck_assert_uint_eq(n_posts, 1);
    tick_after(1);
    is_put(1, "behind 7");
}
END_TEST

START_TEST(one_that_does_not_stand_is_not_renewed)
{
    mark_put(&mark, &question, 3);
    is_put(0, "behind 3");
    tick_after(MARK_RENEW_USEC);
    ck_assert_uint_eq(n_posts, 1);
    mark_stands(&mark, 5);
    mark_forget(&mark);
    tick_after(MARK_RENEW_USEC);
    ck_assert_uint_eq(n_posts, 1);
}
END_TEST

START_TEST(without_an_answer_it_is_sent_again_and_soon)
{
    stand_and_be_due();
    post_answer_unknown(&posts[0], _i);
    tick_after(MARK_AGAIN_USEC - 1);
    ck_assert_uint_eq(n_posts, 1);
    tick_after(1);
    is_put(1, "behind 5");
}
END_TEST

START_TEST(an_answer_that_was_lost_is_found)
{
    stand_and_be_due();
    post_answer(&posts[0], OUTDATED);
    is_look(1);
    post_answer_found(&posts[1], OWN, "8");
    tick_after(MARK_RENEW_USEC - 1);
    ck_assert_uint_eq(n_posts, 2);
    tick_after(1);
    is_put(2, "behind 8");
}
END_TEST

START_TEST(where_no_server_looks_it_looks_again)
{
    stand_and_be_due();
    post_answer(&posts[0], OUTDATED);
    is_look(1);
    post_answer_unknown(&posts[1], _i);
    tick_after(MARK_AGAIN_USEC);
    is_look(2);
}
END_TEST

START_TEST(one_that_is_gone_is_made_again)
{
    stand_and_be_due();
    post_answer(&posts[0], OUTDATED);
    is_look(1);
    post_answer_status(&posts[1], "404");
    is_put(2, "behind 0");
}
END_TEST

START_TEST(that_of_another_node_stays)
{
    static const char *const others[] = {"2 other 1", "3 mine 1", "0", ""};

    stand_and_be_due();
    post_answer(&posts[0], OUTDATED);
    post_answer_found(&posts[1], others[_i], "9");
    tick_after(MARK_RENEW_USEC);
    ck_assert_uint_eq(n_posts, 2);
    mark_release(&mark); /* it is not its to release */
    ck_assert_uint_eq(n_posts, 2);
}
END_TEST

START_TEST(one_that_is_released_is_renewed_no_more)
{
    mark_stands(&mark, 5);
    mark_release(&mark);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].subject, SUBJECT);
    ck_assert_str_eq(posts[0].text, "0");
    tick_after(MARK_RENEW_USEC);
    ck_assert_uint_eq(n_posts, 1);
}
END_TEST

static const struct {
    const char *text;
    struct mark_record is;
} records[] = {
    {"2 mine 3", {2, 3, "mine"}},
    {"2 mine", {2, 1, "mine"}},
    {"2 mine 0", {2, 1, "mine"}},
    {"0", {0, 1, ""}},
    {"", {0, 1, ""}},
    {"noise", {0, 1, ""}},
};

START_TEST(what_a_record_says)
{
    struct mark_record r;
    natsMsg *msg = NULL;

    ck_assert_int_eq(natsMsg_Create(&msg, SUBJECT, NULL, records[_i].text, (int)strlen(records[_i].text)), NATS_OK);
    mark_read(msg, &r);
    natsMsg_Destroy(msg);
    ck_assert_uint_eq(r.attempt, records[_i].is.attempt);
    ck_assert_uint_eq(r.times, records[_i].is.times);
    ck_assert_str_eq(r.tag, records[_i].is.tag);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet mark");
    TCase *c = tcase_create("mark");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, it_is_renewed_well_before_it_is_forgotten);
    tcase_add_test(c, one_that_does_not_stand_is_not_renewed);
    tcase_add_loop_test(c, without_an_answer_it_is_sent_again_and_soon, 0, ARRAY_SIZE(post_unknown));
    tcase_add_test(c, an_answer_that_was_lost_is_found);
    tcase_add_loop_test(c, where_no_server_looks_it_looks_again, 0, ARRAY_SIZE(post_unknown));
    tcase_add_test(c, one_that_is_gone_is_made_again);
    tcase_add_loop_test(c, that_of_another_node_stays, 0, 4);
    tcase_add_test(c, one_that_is_released_is_renewed_no_more);
    tcase_add_loop_test(c, what_a_record_says, 0, ARRAY_SIZE(records));
    suite_add_tcase(s, c);
    return run_suite(s);
}
