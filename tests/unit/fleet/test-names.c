/* SPDX-License-Identifier: Apache-2.0
 *
 * test-names.c: names of users, from a user database that answers when it is told to. */
#include "fleet/names.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "tests/unit/suite.h"

#define FAILING 5u /* of which the user database cannot say anything */
#define NOBODY  6u /* which is not in it */

static struct event_base *base;
static struct names *names;
static int answers[2];      /* a byte in this pipe is an answer of the user database */
static atomic_uint n_asked; /* [atomic: relaxed, it only counts] */
static unsigned n_came;

/* In place of the user database. */
int account_by_uid(uint32_t uid, struct account *ret)
{
    char c;

    atomic_fetch_add_explicit(&n_asked, 1, memory_order_relaxed);
    while (read(answers[0], &c, 1) < 0 && errno == EINTR)
        ;
    if (uid == FAILING || uid == NOBODY)
        return uid == FAILING ? -EIO : -ENOENT;
    snprintf(ret->name, sizeof(ret->name), "u%u", uid);
    return 0;
}

static void came(void *context)
{
    ck_assert_ptr_eq(context, &names);
    n_came++;
}

static void answer(size_t n)
{
    for (; n; n--)
        ck_assert_int_eq(write(answers[1], "", 1), 1);
}

static void setup(void)
{
    n_came = 0;
    atomic_store(&n_asked, 0);
    ck_assert_int_eq(pipe(answers), 0);
    base = event_base_new();
    ck_assert_int_eq(names_new(&names, base, came, &names), 0);
}

static void teardown(void)
{
    names_free(names);
    event_base_free(base);
}

static void wait_came(unsigned n)
{
    while (n_came < n)
        event_base_loop(base, EVLOOP_ONCE);
}

static void is_called(uint32_t uid, const char *wanted)
{
    const char *name = NULL;

    ck_assert_int_eq(names_of(names, uid, &name), 0);
    ck_assert_str_eq(name, wanted);
}

static void is_unknown(uint32_t uid)
{
    const char *name;

    ck_assert_int_eq(names_of(names, uid, &name), -EAGAIN);
}

START_TEST(a_name_comes_later_and_is_remembered)
{
    is_unknown(1000);
    is_unknown(1000); /* which does not ask again */
    answer(1);
    wait_came(1);
    is_called(1000, "u1000");
    is_called(1000, "u1000");
    ck_assert_uint_eq(atomic_load(&n_asked), 1);
}
END_TEST

START_TEST(some_have_no_name)
{
    is_unknown(FAILING);
    is_unknown(NOBODY);
    answer(2);
    wait_came(2);
    is_called(FAILING, "");
    is_called(NOBODY, "");
}
END_TEST

START_TEST(look_ups_are_limited_at_and_above)
{
    for (uint32_t uid = 100; uid <= 100 + NAMES_LOOKUPS; uid++)
        is_unknown(uid);
    answer(NAMES_LOOKUPS);
    wait_came(NAMES_LOOKUPS);
    ck_assert_uint_eq(atomic_load(&n_asked), NAMES_LOOKUPS);
    for (uint32_t uid = 100; uid < 100 + NAMES_LOOKUPS; uid++) {
        char text[16];

        snprintf(text, sizeof(text), "u%u", uid);
        is_called(uid, text);
    }
    is_unknown(100 + NAMES_LOOKUPS); /* its turn has come */
    answer(1);
    wait_came(NAMES_LOOKUPS + 1);
    is_called(100 + NAMES_LOOKUPS, "u108");
}
END_TEST

START_TEST(what_was_asked_for_longest_ago_is_forgotten_above_the_limit)
{
    answer(NAMES_MAX + 2);
    for (uint32_t i = 0; i < NAMES_MAX; i++) {
        is_unknown(100 + i);
        wait_came(i + 1);
    }
    is_called(100, "u100"); /* since then 101 is the one */
    is_unknown(100 + NAMES_MAX);
    wait_came(NAMES_MAX + 1);
    is_called(100, "u100");
    ck_assert_uint_eq(atomic_load(&n_asked), NAMES_MAX + 1);
    is_unknown(101);
    wait_came(NAMES_MAX + 2);
    is_called(101, "u101");
}
END_TEST

START_TEST(one_that_is_looked_up_still_may_be_given_up)
{
    is_unknown(1000);
    names = names_free(names);
    answer(1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet names");
    TCase *c = tcase_create("names");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_name_comes_later_and_is_remembered);
    tcase_add_test(c, some_have_no_name);
    tcase_add_test(c, look_ups_are_limited_at_and_above);
    tcase_add_test(c, what_was_asked_for_longest_ago_is_forgotten_above_the_limit);
    tcase_add_test(c, one_that_is_looked_up_still_may_be_given_up);
    suite_add_tcase(s, c);
    return run_suite(s);
}
