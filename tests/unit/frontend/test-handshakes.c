/* SPDX-License-Identifier: Apache-2.0
 *
 * test-handshakes.c: which handshake goes where there are as many as there may be. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "frontend/handshakes.h"
#include "tests/unit/suite.h"

#define LIMIT 64u

static struct handshakes all;
static struct handshake one[LIMIT + 1];

static uint64_t origin_of(const char *address)
{
    struct sockaddr_storage a = {.ss_family = AF_INET};

    if (inet_pton(AF_INET, address, &((struct sockaddr_in *)&a)->sin_addr) == 1)
        return handshake_origin(&a);
    a.ss_family = AF_INET6;
    ck_assert_int_eq(inet_pton(AF_INET6, address, &((struct sockaddr_in6 *)&a)->sin6_addr), 1);
    return handshake_origin(&a);
}

static void begin(unsigned from, unsigned to, uint64_t origin)
{
    for (unsigned i = from; i < to; i++)
        ck_assert_int_eq(handshake_begin(&all, &one[i], NULL, origin), 0);
}

static void setup(void)
{
    handshakes_init(&all);
}

static void teardown(void)
{
    for (unsigned i = 0; i < ARRAY_SIZE(one); i++)
        handshake_end(&all, &one[i]);
    ck_assert_uint_eq(all.n + all.n_heard, 0);
    ck_assert(list_empty(&all.all));
    ck_assert_uint_eq(all.origins.n, 0);
    handshakes_deinit(&all);
}

START_TEST(one_origin_takes_the_place_of_its_own)
{
    begin(0, LIMIT, 1);
    ck_assert_ptr_eq(handshakes_give_way(&all, 1), &one[0]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 2), &one[0]);
    handshake_end(&all, &one[0]);
    begin(LIMIT, LIMIT + 1, 2);
    ck_assert_uint_eq(all.n, LIMIT);
    ck_assert_ptr_eq(handshakes_give_way(&all, 2), &one[1]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 3), &one[1]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 1), &one[1]);
}
END_TEST

START_TEST(many_origins_take_the_place_of_the_oldest)
{
    for (unsigned i = 0; i < LIMIT; i++)
        begin(i, i + 1, i);
    ck_assert_ptr_eq(handshakes_give_way(&all, LIMIT), &one[0]);
    handshake_heard(&all, &one[0]);
    ck_assert_ptr_eq(handshakes_give_way(&all, LIMIT), &one[1]);
}
END_TEST

/* That of an origin is four of 64. */
START_TEST(few_of_one_origin_replace_none_of_their_own)
{
    for (unsigned i = 0; i < LIMIT - 3; i++)
        begin(i, i + 1, i);
    begin(LIMIT - 3, LIMIT, LIMIT);
    ck_assert_ptr_eq(handshakes_give_way(&all, 7), &one[0]);     /* has one */
    ck_assert_ptr_eq(handshakes_give_way(&all, LIMIT), &one[0]); /* has three */
    handshake_end(&all, &one[0]);
    begin(0, 1, LIMIT);
    ck_assert_ptr_eq(handshakes_give_way(&all, 7), &one[1]);
    ck_assert_ptr_eq(handshakes_give_way(&all, LIMIT), &one[LIMIT - 3]); /* would have five */
    handshake_end(&all, &one[1]);
    begin(1, 2, LIMIT);
    ck_assert_ptr_eq(handshakes_give_way(&all, 7), &one[LIMIT - 3]); /* as long as it has five */
}
END_TEST

START_TEST(where_there_are_few_the_share_is_one)
{
    begin(0, 1, 1);
    begin(1, 2, 2);
    begin(2, 3, 3);
    ck_assert_ptr_eq(handshakes_give_way(&all, 4), &one[0]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 2), &one[1]);
}
END_TEST

START_TEST(silent_ones_go_first_unless_the_others_are_more)
{
    begin(0, LIMIT, 1);
    for (unsigned i = 0; i < LIMIT / 2; i++) {
        handshake_heard(&all, &one[i]);
        handshake_heard(&all, &one[i]);
    }
    ck_assert_ptr_eq(handshakes_give_way(&all, 1), &one[LIMIT / 2]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 2), &one[LIMIT / 2]);
    handshake_heard(&all, &one[LIMIT / 2]);
    ck_assert_ptr_eq(handshakes_give_way(&all, 1), &one[0]);
    handshake_end(&all, &one[0]);
    begin(LIMIT, LIMIT + 1, 1);
    ck_assert_ptr_eq(handshakes_give_way(&all, 1), &one[LIMIT / 2 + 1]);
}
END_TEST

START_TEST(none_gives_way_where_there_is_none)
{
    ck_assert_ptr_null(handshakes_give_way(&all, 1));
}
END_TEST

START_TEST(one_that_is_over_is_counted_no_more)
{
    begin(0, 3, 1);
    begin(3, 5, 2);
    handshake_end(&all, &one[0]);
    handshake_end(&all, &one[0]);
    handshake_end(&all, &one[1]);
    ck_assert_uint_eq(all.n, 3);
    ck_assert_ptr_eq(handshakes_give_way(&all, 3), &one[3]);
}
END_TEST

START_TEST(addresses_of_one_machine_are_one_origin)
{
    ck_assert_uint_eq(origin_of("127.0.0.1"), origin_of("127.255.3.4"));
    ck_assert_uint_ne(origin_of("127.0.0.1"), origin_of("128.0.0.1"));
    ck_assert_uint_ne(origin_of("10.0.0.1"), origin_of("10.0.0.2"));
    ck_assert_uint_eq(origin_of("2001:db8:1:2::1"), origin_of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    ck_assert_uint_ne(origin_of("2001:db8:1:2::1"), origin_of("2001:db8:1:3::1"));
    ck_assert_uint_ne(origin_of("::1"), origin_of("127.0.0.1"));
    ck_assert_uint_ne(origin_of("2001:db8::"), origin_of("32.1.13.184"));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("handshakes");
    Suite *s = suite_create("frontend");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_origin_takes_the_place_of_its_own);
    tcase_add_test(tc, many_origins_take_the_place_of_the_oldest);
    tcase_add_test(tc, few_of_one_origin_replace_none_of_their_own);
    tcase_add_test(tc, where_there_are_few_the_share_is_one);
    tcase_add_test(tc, silent_ones_go_first_unless_the_others_are_more);
    tcase_add_test(tc, none_gives_way_where_there_is_none);
    tcase_add_test(tc, one_that_is_over_is_counted_no_more);
    tcase_add_test(tc, addresses_of_one_machine_are_one_origin);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
