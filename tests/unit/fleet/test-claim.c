/* SPDX-License-Identifier: Apache-2.0
 *
 * test-claim.c: a key is of one job, whatever answers are lost or late. */
#include "fleet/claim.h"

#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define OUTDATED "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 9\"},\"seq\":0}"
#define AGAIN    500000u

static struct claim claim;
static uint32_t n_told;

static void told(struct claim *c)
{
    n_told++;
}

static void setup(void)
{
    post_open();
    claim_begin(&claim, (struct bus *)&n_told, "user", "key", "here", "mine", told); /* the bus is never looked into */
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].header, "behind 0");
    ck_assert_str_eq(posts[0].text, "here mine");
}

static void teardown(void)
{
    claim_forget(&claim);
    post_clear();
}

/* Nothing is asked before its pause is over, then one thing. */
static void wait_a_pause(void)
{
    uint32_t before = n_posts;

    claim_tick(&claim, now_usec + AGAIN - 1);
    ck_assert_uint_eq(n_posts, before);
    now_usec += AGAIN;
    claim_tick(&claim, now_usec);
    ck_assert_uint_eq(n_posts, before + 1);
    ck_assert_uint_eq(n_told, 0);
}

START_TEST(what_the_server_stores_is_its_own)
{
    post_answer(&posts[0], POST_STORED);
    ck_assert_uint_eq(n_told, 1);
    ck_assert(claim.is_own);
}
END_TEST

START_TEST(an_answer_that_was_lost_is_found)
{
    post_answer(&posts[0], NULL);
    wait_a_pause();
    post_answer(&posts[1], OUTDATED);
    post_answer_found(&posts[2], "here mine", "9");
    ck_assert_uint_eq(n_told, 1);
    ck_assert(claim.is_own);
}
END_TEST

START_TEST(that_of_another_one_stays)
{
    post_answer(&posts[0], OUTDATED);
    post_answer_found(&posts[1], "far other", "9");
    ck_assert_uint_eq(n_told, 1);
    ck_assert(!claim.is_own);
    ck_assert_str_eq(claim.node, "far");
    ck_assert_str_eq(claim.id, "other");
}
END_TEST

START_TEST(one_that_is_released_is_taken_behind_it)
{
    post_answer(&posts[0], OUTDATED);
    post_answer_found(&posts[1], "-", "9");
    ck_assert_str_eq(posts[2].header, "behind 9");
}
END_TEST

START_TEST(one_that_is_gone_is_taken)
{
    post_answer(&posts[0], OUTDATED);
    post_answer_status(&posts[1], "404");
    ck_assert_uint_eq(n_posts, 3);
    ck_assert_str_eq(posts[2].header, "behind 0");
}
END_TEST

START_TEST(where_no_server_looks_it_waits)
{
    post_answer(&posts[0], OUTDATED);
    post_answer_unknown(&posts[1], _i);
    ck_assert_uint_eq(n_posts, 2);
    wait_a_pause();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet claim");
    TCase *c = tcase_create("claim");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, what_the_server_stores_is_its_own);
    tcase_add_test(c, an_answer_that_was_lost_is_found);
    tcase_add_test(c, that_of_another_one_stays);
    tcase_add_test(c, one_that_is_released_is_taken_behind_it);
    tcase_add_test(c, one_that_is_gone_is_taken);
    tcase_add_loop_test(c, where_no_server_looks_it_waits, 0, ARRAY_SIZE(post_unknown));
    suite_add_tcase(s, c);
    return run_suite(s);
}
