/* SPDX-License-Identifier: Apache-2.0
 *
 * test-parts.c: how a large input or output is divided: at, below and above the limits, no byte is in two parts or in
 * none. One that no server can look for is asked for until one can; one that is not there, some times. */
#include "fleet/parts.h"

#include <errno.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "tests/unit/fleet/post.h"

#define PAUSE 500000u

static const struct {
    uint64_t size;
    uint32_t count;
    size_t last;
} divided[] = {
    {1, 1, 1},
    {PARTS_SIZE - 1, 1, PARTS_SIZE - 1},
    {PARTS_SIZE, 1, PARTS_SIZE},
    {PARTS_SIZE + 1, 2, 1},
    {2ull * PARTS_SIZE, 2, PARTS_SIZE},
    {2ull * PARTS_SIZE + 1, 3, 1},
    {LETTER_OUTPUT_MAX, 66, LETTER_OUTPUT_MAX - 65ull * PARTS_SIZE},
    {LETTER_INPUT_MAX, 1041, LETTER_INPUT_MAX - 1040ull * PARTS_SIZE},
};

START_TEST(each_byte_is_in_one_part)
{
    uint64_t sum = 0;
    uint32_t count = parts_count(divided[_i].size);

    ck_assert_uint_eq(count, divided[_i].count);
    for (uint32_t n = 0; n < count; n++) {
        size_t size = parts_size(divided[_i].size, n);

        ck_assert_uint_eq(size, n + 1 < count ? PARTS_SIZE : divided[_i].last);
        sum += size;
    }
    ck_assert_uint_eq(sum, divided[_i].size);
}
END_TEST

START_TEST(nothing_has_no_parts)
{
    ck_assert_uint_eq(parts_count(0), 0);
}
END_TEST

START_TEST(what_is_no_transfer_can_be_ended_and_ticked)
{
    struct parts p = {0};

    parts_tick(&p, UINT64_MAX);
    parts_forget(&p);
    parts_tick(&p, UINT64_MAX);
    parts_forget(&p);
    ck_assert_ptr_null(p.digest);
}
END_TEST

static int ended; /* 1: it has not */
static struct buffer came;

static void done(struct parts *p, int error)
{
    ended = error;
}

/* A transfer of one part, which is asked for. */
static void begin_fetch(struct parts *p)
{
    const struct parts_name name = {.bus = (struct bus *)&came, .id = "job", .attempt = 1, .way = "in"};

    post_open();
    ended = 1;
    ck_assert_int_eq(parts_fetch(p, &name, &(struct letter_seal){.size = 3}, &came, done), 0);
    ck_assert_uint_eq(n_posts, 1);
}

static void ask_again(struct parts *p)
{
    uint32_t before = n_posts;

    now_usec += PAUSE - 1;
    parts_tick(p, now_usec);
    ck_assert_uint_eq(n_posts, before);
    now_usec++;
    parts_tick(p, now_usec);
    ck_assert_uint_eq(n_posts, before + 1);
}

START_TEST(a_part_that_no_server_looks_for_is_asked_for_again)
{
    struct parts p = {0};

    begin_fetch(&p);
    for (uint32_t i = 0; i < 5 * PARTS_TRIES; i++) {
        post_answer_unknown(&posts[i], _i);
        ck_assert_int_eq(ended, 1);
        ask_again(&p);
    }
    post_answer(&posts[n_posts - 1], "abc");
    ck_assert_int_eq(ended, -EBADMSG); /* the digest of the seal is none */
    buffer_deinit(&came);
    post_clear();
}
END_TEST

START_TEST(one_that_is_not_there_is_asked_for_some_times)
{
    struct parts p = {0};

    begin_fetch(&p);
    for (uint32_t i = 0; i < PARTS_TRIES - 1; i++) {
        post_answer_status(&posts[n_posts - 1], "404");
        ck_assert_int_eq(ended, 1);
        ask_again(&p);
        post_answer_unknown(&posts[n_posts - 1], 1); /* does not count */
        ask_again(&p);
    }
    post_answer_status(&posts[n_posts - 1], "404");
    ck_assert_int_eq(ended, -ENOENT);
    ck_assert_str_eq(p.why, "part 1 of 1 is not there");
    post_clear();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet parts");
    TCase *c = tcase_create("parts");

    tcase_add_loop_test(c, each_byte_is_in_one_part, 0, ARRAY_SIZE(divided));
    tcase_add_test(c, nothing_has_no_parts);
    tcase_add_test(c, what_is_no_transfer_can_be_ended_and_ticked);
    tcase_add_loop_test(c, a_part_that_no_server_looks_for_is_asked_for_again, 0, ARRAY_SIZE(post_unknown));
    tcase_add_test(c, one_that_is_not_there_is_asked_for_some_times);
    suite_add_tcase(s, c);
    return run_suite(s);
}
