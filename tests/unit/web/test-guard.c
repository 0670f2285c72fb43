/* SPDX-License-Identifier: Apache-2.0
 *
 * test-guard.c: what is let in: names of the host, the token, and pages of other sites. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"
#include "web/guard.h"

static struct guard g;
static struct guard_request r;
static char bearer[128];
static const char *why;

static void setup(void)
{
    g = (struct guard){.acts = true};
    ck_assert_int_eq(guard_draw(&g), 0);
    snprintf(bearer, sizeof(bearer), "Bearer %s", g.token);
    r = (struct guard_request){.host = "127.0.0.1:9473", .authorization = bearer};
}

START_TEST(a_token_is_drawn_anew_each_time)
{
    struct guard other = {.acts = true};

    ck_assert_int_eq(guard_draw(&other), 0);
    ck_assert_uint_eq(strlen(g.token), GUARD_TOKEN - 1);
    ck_assert_uint_eq(strspn(g.token, "0123456789abcdef"), GUARD_TOKEN - 1);
    ck_assert_str_ne(g.token, other.token);
}
END_TEST

START_TEST(who_knows_the_token_is_let_in)
{
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    bearer[0] = 'b'; /* schemes have no case */
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
}
END_TEST

START_TEST(others_are_not)
{
    static const char *const wrong[] = {NULL, "", "Bearer", "Bearer ", "Basic 1234", "Bearer 0123456789abcdef"};

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        r.authorization = wrong[i];
        ck_assert_int_eq(guard_check(&g, &r, &why), 401);
    }
    r.authorization = bearer;
    bearer[strlen(bearer) - 1] ^= 1;
    ck_assert_int_eq(guard_check(&g, &r, &why), 401);
    bearer[strlen(bearer) - 1] ^= 1;
    strcat(bearer, "0");
    ck_assert_int_eq(guard_check(&g, &r, &why), 401);
}
END_TEST

START_TEST(the_page_is_public_and_without_a_token_all_is)
{
    r.authorization = NULL;
    r.is_public = true;
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    r.is_public = false;
    *g.token = 0;
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
}
END_TEST

static const struct {
    const char *host;
    int code;
} hosts[] = {
    {"localhost", 0},
    {"LocalHost:80", 0},
    {"127.0.0.1:1", 0},
    {"[::1]", 0},
    {"[::1]:9473", 0},
    {"wsd.lab:9473", 0},
    {"WSD.lab", 0},
    {NULL, 421},
    {"", 421},
    {"evil.example", 421},
    {"localhost.evil.example", 421},
    {"localhost:evil", 421},
    {"127.0.0.1.evil.example:9473", 421},
    {"127.0.0.2", 421},
    {"[::1", 421},
    {"[::1]x", 421},
    {"wsd.lab.example", 421},
    {"wsd", 421},
};

START_TEST(only_names_of_this_host_lead_here)
{
    g.names[0] = "wsd.lab";
    r.host = hosts[_i].host;
    ck_assert_msg(guard_check(&g, &r, &why) == hosts[_i].code, "%s", hosts[_i].host ? hosts[_i].host : "none");
}
END_TEST

START_TEST(a_page_of_another_site_changes_nothing)
{
    r.changes = true;
    ck_assert_int_eq(guard_check(&g, &r, &why), 403); /* without the header */
    r.marker = "1";
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    r.origin = "http://127.0.0.1:9473";
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    for (const char *const *other = (const char *const[]){"null", "http://evil.example", "http://127.0.0.1:80",
                                                          "http://127.0.0.1:9473.evil.example", NULL};
         *other; other++) {
        r.origin = *other;
        ck_assert_msg(guard_check(&g, &r, &why) == 403, "%s", *other);
    }
}
END_TEST

START_TEST(one_that_only_shows_changes_nothing)
{
    g.acts = false;
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    r.changes = true;
    r.marker = "1";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
    ck_assert_ptr_nonnull(strstr(why, "wsctl web"));
}
END_TEST

START_TEST(behind_a_proxy_only_persons_change_something)
{
    g.person_header = "X-Remote-User";
    r.changes = true;
    r.marker = "1";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
    r.person = "";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
    r.person = "anna";
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    g.persons[0] = "otto";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
    ck_assert_ptr_nonnull(strstr(why, "--person"));
    g.persons[1] = "anna";
    ck_assert_int_eq(guard_check(&g, &r, &why), 0);
    r.person = "ann";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
    g.acts = false;
    r.person = "anna";
    ck_assert_int_eq(guard_check(&g, &r, &why), 403);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("web guard");
    TCase *c = tcase_create("guard");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, a_token_is_drawn_anew_each_time);
    tcase_add_test(c, who_knows_the_token_is_let_in);
    tcase_add_test(c, others_are_not);
    tcase_add_test(c, the_page_is_public_and_without_a_token_all_is);
    tcase_add_loop_test(c, only_names_of_this_host_lead_here, 0, ARRAY_SIZE(hosts));
    tcase_add_test(c, a_page_of_another_site_changes_nothing);
    tcase_add_test(c, one_that_only_shows_changes_nothing);
    tcase_add_test(c, behind_a_proxy_only_persons_change_something);
    suite_add_tcase(s, c);
    return run_suite(s);
}
