/* SPDX-License-Identifier: Apache-2.0
 *
 * test-parcel.c: what the jobs of a parcel have in common on the node that holds them: their ends, its acknowledgement, and
 * what happens when it comes again. */
#include "fleet/parcel.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define RECEIPT "$JS.ACK.WSD_JOBS.norm-parcels_f.1.7.7.0.0"
#define HURRY   20000u
#define ITEMS   (PARCEL_JOBS + 1)

static struct parcels *parcels;
static struct parcel_item items[ITEMS];
static uint32_t n_over, n_begun, n_ended, n_back;
static uint32_t order[ITEMS]; /* places in which items began */

static void begin(struct parcel_item *item, void *context)
{
    order[n_begun++] = item->place;
}

static void on_ended(struct parcel_item *item, void *context)
{
    n_ended++;
    parcel_leave(item, false);
}

static void back(struct parcel_item *item, void *context)
{
    n_back++;
    parcel_leave(item, true);
}

static void over(void *context)
{
    n_over++;
}

static uint32_t together(const char *function, void *context)
{
    ck_assert_str_eq(function, "f");
    return 42;
}

static void setup(void)
{
    post_open();
    const struct parcels_options options = {.bus = (struct bus *)&parcels, /* never looked into */
                                            .tag = "tag",
                                            .begin = begin,
                                            .ended = on_ended,
                                            .back = back,
                                            .over = over,
                                            .together = together};
    ck_assert_int_eq(parcels_new(&parcels, &options), 0);
}

static void teardown(void)
{
    parcels_free(parcels);
    post_clear();
}

/* A parcel with n jobs that has come so often. */
static struct parcel *come(uint32_t n, uint64_t delivered)
{
    struct parcel *p = parcel_new(parcels, "id", RECEIPT, delivered);

    ck_assert_ptr_nonnull(p);
    for (uint32_t i = 0; i < n; i++)
        ck_assert(parcel_add(p, &items[i], "home", "f"));
    return p;
}

/* False: its end is to be stored under its own id. */
static bool end(uint32_t i, size_t size)
{
    static const char output[LETTER_MAX];
    bool taken = parcel_end(&items[i], &(struct msg_run_end){.status = i % 64}, output, size);

    if (taken)
        parcel_leave(&items[i], false);
    return taken;
}

static uint32_t count_ends(const struct post *p)
{
    struct span rest = {p->data, p->size};
    struct codec *codec;
    char why[160];
    uint32_t n = 0;

    ck_assert_int_eq(codec_new(&codec), 0);
    for (; rest.size; n++) {
        struct letter_end one = {0};

        ck_assert_int_eq(parcel_get_end(codec, &rest, &one, why), 0);
        ck_assert_uint_eq(one.end.status, (one.end.run - 1) % 64);
        buffer_deinit(&one.output);
    }
    codec_free(codec);
    return n;
}

START_TEST(ends_are_stored_together_and_then_it_is_acknowledged)
{
    parcel_filled(come(3, 1), 0);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(n_posts, 0);
        ck_assert(end(i, 10));
    }
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].subject, "wsd.res.home.id");
    ck_assert_str_eq(posts[0].id, "end-id-tag");
    ck_assert_str_eq(posts[0].header, "42");
    ck_assert_uint_eq(count_ends(&posts[0]), 3);
    ck_assert(parcels_are_here(parcels));
    post_answer(&posts[0], POST_STORED);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[1].subject, RECEIPT);
    ck_assert_str_eq(posts[1].text, "+ACK");
    ck_assert_uint_eq(n_over, 1);
    ck_assert(!parcels_are_here(parcels));
}
END_TEST

START_TEST(it_is_not_acknowledged_before_its_ends_are_stored)
{
    parcel_filled(come(1, 1), 0);
    ck_assert(end(0, 1));
    post_answer(&posts[0], _i ? POST_FULL : NULL);
    parcels_tick(parcels, now_usec, false);
    now_usec += 500000;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[1].id, posts[0].id);
    post_answer(&posts[1], POST_STORED);
    ck_assert_str_eq(posts[2].text, "+ACK");
}
END_TEST

START_TEST(a_short_job_waits_for_no_long_one)
{
    parcel_filled(come(2, 1), 0);
    ck_assert(end(0, 1));
    now_usec += HURRY - 1;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 0);
    now_usec++;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_uint_eq(count_ends(&posts[0]), 1);
    ck_assert(!end(1, 1)); /* it is stored as that of a letter */
    post_answer(&posts[0], POST_STORED);
    ck_assert_uint_eq(n_posts, 1);
    parcel_leave(&items[1], false);
    ck_assert_str_eq(posts[1].text, "+ACK");
}
END_TEST

START_TEST(nothing_is_stored_where_nothing_has_ended)
{
    parcel_filled(come(2, 1), 0);
    now_usec += HURRY;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 0);
    parcels_tick(parcels, now_usec, true);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].text, "+WPI");
    ck_assert(end(0, 1));
    ck_assert(end(1, 1));
    ck_assert_uint_eq(count_ends(&posts[1]), 2);
}
END_TEST

START_TEST(as_many_jobs_as_may_be)
{
    struct parcel *p = come(PARCEL_JOBS, 1);

    ck_assert_uint_eq(parcel_size(p), PARCEL_JOBS);
    ck_assert(!parcel_add(p, &items[PARCEL_JOBS], "home", "f"));
    parcel_filled(p, 0);
    for (uint32_t i = 0; i < PARCEL_JOBS; i++)
        ck_assert(end(i, 0));
    ck_assert_uint_eq(count_ends(&posts[0]), PARCEL_JOBS);
}
END_TEST

START_TEST(an_end_that_does_not_fit_goes_alone)
{
    parcel_filled(come(3, 1), 0);
    ck_assert(end(0, LETTER_MAX - 5000));
    ck_assert(!end(1, 8000));
    ck_assert(end(2, 100));
    parcel_leave(&items[1], false);
    ck_assert_uint_le(posts[0].size, LETTER_MAX);
    ck_assert_uint_eq(count_ends(&posts[0]), 2);
}
END_TEST

START_TEST(one_whose_later_try_is_to_find_its_end_is_stored_alone)
{
    parcel_filled(come(2, 1), 0);
    items[0].alone = true;
    ck_assert(!end(0, 1));
    ck_assert(end(1, 1));
}
END_TEST

static const struct {
    int error;
    bool given_back;
    const char *words;
} answers[] = {
    {0, false, "+ACK"},
    {0, true, "-NAK {\"delay\":500000000}"},
    {-EBADMSG, false, "+TERM"},
    {-ENOMEM, false, "-NAK {\"delay\":500000000}"},
};

START_TEST(the_server_hears_what_becomes_of_it)
{
    parcel_filled(come(2, 1), answers[_i].error);
    parcel_leave(&items[0], false);
    ck_assert_uint_eq(n_posts, 0);
    parcel_leave(&items[1], answers[_i].given_back);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].text, answers[_i].words);
}
END_TEST

START_TEST(what_has_no_job_is_over_at_once)
{
    parcel_filled(come(0, _i ? 2 : 1), -EBADMSG);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].text, "+TERM");
    ck_assert(!parcels_are_here(parcels));
}
END_TEST

/* "Nats-Msg-Id: id\r\n" */
#define SAME "{\"message\":{\"seq\":7,\"hdrs\":\"TmF0cy1Nc2ctSWQ6IGlkDQoN\"}}"
#define NONE "{\"error\":{\"code\":404,\"err_code\":10037}}"

START_TEST(by_another_connection_its_number_may_be_another_ones)
{
    static const struct {
        const char *answer;
        bool acknowledged;
    } cases[] = {{SAME, true}, {NONE, false}, {"{\"message\":{\"seq\":7}}", false}};

    parcel_filled(come(1, 1), 0);
    connection++;
    parcel_leave(&items[0], false);
    ck_assert_uint_eq(n_posts, 1);
    ck_assert_str_eq(posts[0].subject, "$JS.API.STREAM.MSG.GET.WSD_JOBS");
    ck_assert_str_eq(posts[0].text, "{\"seq\":7}");
    post_answer(&posts[0], NULL);
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 1);
    now_usec += 500000;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 2);
    post_answer(&posts[1], cases[_i].answer);
    ck_assert_uint_eq(n_posts, cases[_i].acknowledged ? 3 : 2);
    ck_assert(!parcels_are_here(parcels));
    ck_assert_uint_eq(n_over, 1);
}
END_TEST

START_TEST(a_receipt_of_this_connection_is_right)
{
    parcel_filled(come(1, 1), 0);
    connection++;
    ck_assert(parcels_have(parcels, "id", RECEIPT));
    parcel_leave(&items[0], false);
    ck_assert_str_eq(posts[0].text, "+ACK");
}
END_TEST

START_TEST(the_newest_receipt_counts)
{
    parcel_filled(come(1, 1), 0);
    ck_assert(!parcels_have(parcels, "other", RECEIPT));
    ck_assert(parcels_have(parcels, "id", "$JS.ACK.again"));
    parcel_leave(&items[0], false);
    ck_assert_str_eq(posts[0].subject, "$JS.ACK.again");
}
END_TEST

/* The stored ends of these places. */
static void found(const uint32_t *places, uint32_t n)
{
    struct buffer b = {0};

    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(parcel_put_end(&b, &(struct msg_run_end){.run = places[i] + 1}, NULL, 0), 0);
    ck_assert_str_eq(posts[0].subject, "wsd.res.home.id");
    ck_assert_str_eq(posts[0].id, "last");
    post_answer_data(&posts[0], n ? (const void *)buffer_data(&b) : "noise", n ? buffer_size(&b) : 5, NULL);
    buffer_deinit(&b);
}

START_TEST(of_one_that_comes_again_only_those_run_that_have_no_end)
{
    static const uint32_t places[] = {1, 3, 77};

    parcel_filled(come(5, PARCEL_TIMES_MAX), 0);
    ck_assert_uint_eq(n_begun, 0);
    found(places, 3);
    ck_assert_uint_eq(n_ended, 2);
    ck_assert_uint_eq(n_begun, 3);
    ck_assert_uint_eq(order[0] + order[1] + order[2], 0 + 2 + 4);
    ck_assert(!end(0, 1)); /* under its own id */
}
END_TEST

START_TEST(where_no_server_looks_it_looks_again)
{
    parcel_filled(come(3, 2), 0);
    post_answer_unknown(&posts[0], _i);
    now_usec += 500000 - 1;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 1);
    now_usec++;
    parcels_tick(parcels, now_usec, false);
    ck_assert_uint_eq(n_posts, 2);
    ck_assert_str_eq(posts[1].subject, "wsd.res.home.id");
    ck_assert_uint_eq(n_back + n_begun, 0);
    post_answer_status(&posts[1], "404");
    ck_assert_uint_eq(n_begun, 3);
}
END_TEST

START_TEST(a_node_that_leaves_gives_back_what_it_cannot_look_for)
{
    parcel_filled(come(3, 2), 0);
    parcels_leave(parcels);
    post_answer_unknown(&posts[0], _i);
    ck_assert_uint_eq(n_back, 3);
    ck_assert_uint_eq(n_begun, 0);
    ck_assert_str_eq(posts[1].text, "-NAK {\"delay\":500000000}");
}
END_TEST

START_TEST(when_it_came_more_often_they_run_one_by_one)
{
    parcel_filled(come(4, PARCEL_TIMES_MAX + 1), 0);
    found(NULL, 0);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(n_begun, i + 1);
        ck_assert_uint_eq(order[i], i);
        ck_assert(items[i].wary);
        parcel_leave(&items[i], false);
    }
    ck_assert_uint_eq(n_begun, 4);
    ck_assert_uint_eq(n_over, 1);
}
END_TEST

START_TEST(what_had_begun_runs_last_the_more_often_the_later)
{
    static const uint32_t times[] = {3, 1, 0, 2, 1};
    static const uint32_t wanted[] = {0, 1, 2, 3, 4, 1, 4, 3, 0}; /* all once, but for those that are put off */

    parcel_filled(come(5, PARCEL_TIMES_MAX + 1), 0);
    found(NULL, 0);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(order[n_begun - 1], i);
        if (times[i])
            parcel_suspect(&items[i], times[i]);
        else
            parcel_leave(&items[i], false);
    }
    for (uint32_t i = 5; i < ARRAY_SIZE(wanted); i++) {
        ck_assert_uint_eq(n_begun, i + 1);
        parcel_leave(&items[order[i]], false);
    }
    for (uint32_t i = 0; i < ARRAY_SIZE(wanted); i++)
        ck_assert_uint_eq(order[i], wanted[i]);
    ck_assert_uint_eq(n_over, 1);
}
END_TEST

START_TEST(what_is_in_no_parcel_is_fine)
{
    struct parcel_item none = {0};

    ck_assert(!parcel_end(&none, &(struct msg_run_end){0}, NULL, 0));
    parcel_leave(&none, true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet parcel");
    TCase *c = tcase_create("parcel");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, ends_are_stored_together_and_then_it_is_acknowledged);
    tcase_add_loop_test(c, it_is_not_acknowledged_before_its_ends_are_stored, 0, 2);
    tcase_add_test(c, a_short_job_waits_for_no_long_one);
    tcase_add_test(c, nothing_is_stored_where_nothing_has_ended);
    tcase_add_test(c, as_many_jobs_as_may_be);
    tcase_add_test(c, an_end_that_does_not_fit_goes_alone);
    tcase_add_test(c, one_whose_later_try_is_to_find_its_end_is_stored_alone);
    tcase_add_loop_test(c, the_server_hears_what_becomes_of_it, 0, ARRAY_SIZE(answers));
    tcase_add_loop_test(c, what_has_no_job_is_over_at_once, 0, 2);
    tcase_add_loop_test(c, by_another_connection_its_number_may_be_another_ones, 0, 3);
    tcase_add_test(c, a_receipt_of_this_connection_is_right);
    tcase_add_test(c, the_newest_receipt_counts);
    tcase_add_test(c, of_one_that_comes_again_only_those_run_that_have_no_end);
    tcase_add_loop_test(c, where_no_server_looks_it_looks_again, 0, ARRAY_SIZE(post_unknown));
    tcase_add_loop_test(c, a_node_that_leaves_gives_back_what_it_cannot_look_for, 0, ARRAY_SIZE(post_unknown));
    tcase_add_test(c, when_it_came_more_often_they_run_one_by_one);
    tcase_add_test(c, what_had_begun_runs_last_the_more_often_the_later);
    tcase_add_test(c, what_is_in_no_parcel_is_fine);
    suite_add_tcase(s, c);
    return run_suite(s);
}
