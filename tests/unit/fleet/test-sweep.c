/* SPDX-License-Identifier: Apache-2.0
 *
 * test-sweep.c: only a number that the server has no message for is acknowledged. */
#include "fleet/sweep.h"

#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define GET     "$JS.API.STREAM.MSG.GET.WSD_JOBS"
#define NONE    "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}"
#define UNABLE  "{\"error\":{\"code\":503,\"err_code\":10008,\"description\":\"temporarily unavailable\"}}"
#define MESSAGE "{\"message\":{\"seq\":4}}"

static struct sweep sweep;
static const struct sweep_look held = {.floor = 3, .delivered = 5, .held = 2, .redelivered = 1};

/* Nothing has moved since the look before: number 4 is asked for. */
static void setup(void)
{
    post_open();
    sweep = (struct sweep){.bus = (struct bus *)&sweep, .consumer = "norm_f"}; /* the bus is never looked into */
    sweep_look(&sweep, &held);
    ck_assert_uint_eq(n_posts, 0);
    sweep_look(&sweep, &held);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].subject, GET);
    ck_assert_str_eq(posts[0].text, "{\"seq\":4}");
}

static void teardown(void)
{
    sweep_reset(&sweep);
    post_clear();
}

START_TEST(a_number_that_is_gone_is_acknowledged)
{
    post_answer(&posts[0], NONE);
    ck_assert_uint_eq(n_posts, 3);
    ck_assert_str_eq(posts[1].subject, "$JS.ACK.WSD_JOBS.norm_f.1.4.1.0.0");
    ck_assert_str_eq(posts[1].text, "+ACK");
    ck_assert_str_eq(posts[2].text, "{\"seq\":5}");
    post_answer(&posts[2], NONE);
    ck_assert_uint_eq(n_posts, 4); /* the last one that was handed out */
}
END_TEST

START_TEST(a_job_that_is_there_stays)
{
    post_answer(&posts[0], MESSAGE);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[1].text, "{\"seq\":5}");
}
END_TEST

START_TEST(what_a_server_cannot_tell_is_asked_for_at_the_next_look)
{
    static const char *const answers[] = {NULL, UNABLE};

    post_answer(&posts[0], answers[_i]);
    ck_assert_uint_eq(n_posts, 1);
    sweep_look(&sweep, &held);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[1].text, "{\"seq\":4}");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet sweep");
    TCase *c = tcase_create("sweep");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_number_that_is_gone_is_acknowledged);
    tcase_add_test(c, a_job_that_is_there_stays);
    tcase_add_loop_test(c, what_a_server_cannot_tell_is_asked_for_at_the_next_look, 0, 2);
    suite_add_tcase(s, c);
    return run_suite(s);
}
