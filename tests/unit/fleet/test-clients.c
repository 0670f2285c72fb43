/* SPDX-License-Identifier: Apache-2.0
 *
 * test-clients.c: clients for users, of a wsd that is not there. tests/fleet/users.sh has one that is. */
#include "fleet/clients.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/suite.h"

static struct event_base *base;
static struct clients *clients;
static unsigned n_told;

static void told(struct client_use *u, int error, const char *words)
{
    ck_assert_int_eq(error, -EAGAIN);
    ck_assert_str_ne(words, "");
    client_leave(u);
    n_told++;
}

static void setup(void)
{
    n_told = 0;
    base = event_base_new();
    ck_assert_int_eq(clients_new(&clients, base, "/no/such/socket"), 0);
}

static void teardown(void)
{
    clients_free(clients);
    event_base_free(base);
}

static void take(struct client_use *u, unsigned n, int wanted)
{
    char user[16];

    *u = (struct client_use){.told = told};
    snprintf(user, sizeof(user), "u%u", n);
    ck_assert_int_eq(clients_take(clients, u, user), wanted);
}

START_TEST(each_user_has_one)
{
    struct client_use uses[3];

    for (unsigned i = 0; i < 3; i++)
        take(&uses[i], i / 2, -EINPROGRESS);
    ck_assert_uint_eq(clients_count(clients), 2);
    ck_assert_ptr_eq(client_handle(&uses[0]), client_handle(&uses[1]));
    ck_assert_ptr_ne(client_handle(&uses[0]), client_handle(&uses[2]));
    for (unsigned i = 0; i < 3; i++) {
        client_leave(&uses[i]);
        client_leave(&uses[i]);
    }
}
END_TEST

START_TEST(those_that_wait_are_told_that_there_is_none)
{
    struct client_use uses[3];

    for (unsigned i = 0; i < 3; i++)
        take(&uses[i], 1, -EINPROGRESS);
    client_leave(&uses[1]); /* and is not told */
    while (n_told < 2)
        event_base_loop(base, EVLOOP_ONCE);
    ck_assert_ptr_null(uses[0].client);
    ck_assert_ptr_null(uses[2].client);
    ck_assert_uint_eq(clients_count(clients), 1);
}
END_TEST

START_TEST(they_are_limited_at_and_above)
{
    struct client_use uses[CLIENTS_MAX], more;

    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        take(&uses[i], i, -EINPROGRESS);
    take(&more, CLIENTS_MAX, -EBUSY);
    ck_assert_ptr_null(more.client);
    client_leave(&uses[3]);
    take(&more, CLIENTS_MAX, -EINPROGRESS); /* in its place */
    ck_assert_uint_eq(clients_count(clients), CLIENTS_MAX);
    take(&uses[3], 3, -EBUSY);
    client_leave(&more);
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (i != 3)
            client_leave(&uses[i]);
}
END_TEST

START_TEST(one_that_is_idle_goes_at_the_time_and_not_before)
{
    struct client_use used, idle;
    uint64_t before = clock_monotonic_usec();

    take(&used, 1, -EINPROGRESS);
    take(&idle, 2, -EINPROGRESS);
    client_leave(&idle);
    clients_tick(clients, before + CLIENTS_IDLE_USEC - 1);
    ck_assert_uint_eq(clients_count(clients), 2);
    clients_tick(clients, clock_monotonic_usec() + CLIENTS_IDLE_USEC);
    ck_assert_uint_eq(clients_count(clients), 1);
    client_leave(&used);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet clients");
    TCase *c = tcase_create("clients");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, each_user_has_one);
    tcase_add_test(c, those_that_wait_are_told_that_there_is_none);
    tcase_add_test(c, they_are_limited_at_and_above);
    tcase_add_test(c, one_that_is_idle_goes_at_the_time_and_not_before);
    suite_add_tcase(s, c);
    return run_suite(s);
}
