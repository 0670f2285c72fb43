/* SPDX-License-Identifier: Apache-2.0
 *
 * test-breaker.c: when a function is refused, for how long, and what lets it out. Time is a number here. */
#include <check.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "sched/breaker.h"
#include "tests/unit/suite.h"

#define SEC 1000000u

static const struct breaker_rules rules = {.after = 3, .max_usec = 8 * SEC};
static struct breakers q;
static const int jobs[8];

static bool crash(const char *function, const void *job, uint64_t now)
{
    return breaker_crashed(&q, &rules, 7, "p", function, job, "Segmentation fault", now);
}

static struct breaker *breaker(void)
{
    return breaker_find(&q, 7, "p", "f");
}

/* In quarantine from `now` on. */
static void crash_thrice(uint64_t now)
{
    ck_assert(!crash("f", &jobs[0], now));
    ck_assert(!crash("f", &jobs[1], now));
    ck_assert(crash("f", &jobs[2], now));
}

static void teardown(void)
{
    breaker_deinit(&q);
}

START_TEST(nothing_is_known_against_what_has_not_crashed)
{
    ck_assert_ptr_null(breaker());
    ck_assert_int_eq(breaker_ask(NULL, &jobs[0], 1), BREAKER_CLOSED);
    ck_assert(!breaker_apart(&q, 7, "p"));
    ck_assert(!breaker_ended(&q, 7, "p", "f", &jobs[0], true));
}
END_TEST

START_TEST(refused_from_the_configured_crash_on)
{
    ck_assert(!crash("f", &jobs[0], SEC));
    ck_assert(!crash("f", &jobs[1], SEC));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], SEC), BREAKER_CLOSED);
    ck_assert(crash("f", &jobs[2], SEC));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], SEC), BREAKER_OPEN);
    ck_assert_uint_eq(breaker()->n_all, 3);
    ck_assert_str_eq(breaker()->why, "Segmentation fault");
    ck_assert(breaker_apart(&q, 7, "p"));
}
END_TEST

START_TEST(others_are_not_refused)
{
    crash_thrice(SEC);
    ck_assert_ptr_null(breaker_find(&q, 7, "p", "g"));
    ck_assert_ptr_null(breaker_find(&q, 7, "other", "f"));
    ck_assert_ptr_null(breaker_find(&q, 8, "p", "f"));
    ck_assert(!breaker_apart(&q, 8, "p"));
}
END_TEST

START_TEST(crashes_far_apart_are_not_counted_together)
{
    uint64_t now = SEC;

    for (int i = 0; i < 10; i++) {
        ck_assert(!crash("f", &jobs[0], now));
        now += BREAKER_WINDOW_USEC + 1;
    }
    crash("f", &jobs[0], now);
    crash("f", &jobs[0], now + BREAKER_WINDOW_USEC); /* at the limit: together */
    ck_assert(crash("f", &jobs[0], now + 2 * (uint64_t)BREAKER_WINDOW_USEC));
}
END_TEST

START_TEST(one_is_let_through_when_the_pause_is_over)
{
    crash_thrice(SEC);
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], 2 * SEC - 1), BREAKER_OPEN);
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], 2 * SEC), BREAKER_PROBE);
    breaker_try(breaker(), &jobs[3]);
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], 2 * SEC), BREAKER_CLOSED);
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[4], 9 * SEC), BREAKER_OPEN);
}
END_TEST

START_TEST(probe_that_goes_well_lets_it_out)
{
    crash_thrice(SEC);
    breaker_try(breaker(), &jobs[3]);
    ck_assert(!breaker_ended(&q, 7, "p", "f", &jobs[4], true)); /* another one says nothing */
    ck_assert(breaker_ended(&q, 7, "p", "f", &jobs[3], true));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[4], 2 * SEC), BREAKER_CLOSED);
}
END_TEST

START_TEST(probe_without_a_verdict_lets_the_next_one_try)
{
    crash_thrice(SEC);
    breaker_try(breaker(), &jobs[3]);
    ck_assert(!breaker_ended(&q, 7, "p", "f", &jobs[3], false));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[4], 2 * SEC), BREAKER_PROBE);
}
END_TEST

static bool die(const void *job, uint64_t now)
{
    return breaker_silent(&q, &rules, 7, "p", "f", job, true, "Killed", now);
}

static bool die_beside(const void *job, uint64_t now)
{
    return breaker_silent(&q, &rules, 7, "p", "f", job, false, "Killed", now);
}

START_TEST(deaths_without_a_word_count_where_nothing_went_well_between)
{
    ck_assert(!die(&jobs[0], SEC));
    ck_assert(!breaker_apart(&q, 7, "p"));
    ck_assert(!die(&jobs[1], SEC));
    ck_assert(breaker_apart(&q, 7, "p"));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], SEC), BREAKER_CLOSED);
    ck_assert(die(&jobs[2], SEC));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], SEC), BREAKER_OPEN);
    ck_assert_uint_eq(breaker()->n_all, 3);
    ck_assert_str_eq(breaker()->why, "Killed");
}
END_TEST

START_TEST(where_others_had_run_before_they_only_set_it_apart)
{
    for (uint64_t i = 0; i < 10; i++)
        ck_assert(!die_beside(&jobs[0], SEC + i));
    ck_assert(breaker_apart(&q, 7, "p"));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[3], SEC), BREAKER_CLOSED);
    ck_assert(die(&jobs[0], 2 * SEC));
}
END_TEST

START_TEST(a_function_that_goes_well_between_kills_is_not_to_blame)
{
    for (uint64_t i = 0; i < 50; i++) {
        ck_assert(!die(&jobs[0], SEC + i));
        breaker_ended(&q, 7, "p", "f", &jobs[2], true);
        ck_assert_uint_eq(breaker()->n_all, 0);
    }
    ck_assert(!breaker_apart(&q, 7, "p"));
    breaker_ended(&q, 7, "p", "f", &jobs[2], false);
    ck_assert(!die(&jobs[0], 2 * SEC));
    breaker_ended(&q, 7, "p", "f", &jobs[2], false); /* that says nothing */
    ck_assert(!die(&jobs[0], 2 * SEC));
    ck_assert(die(&jobs[0], 2 * SEC));
}
END_TEST

START_TEST(deaths_without_a_word_that_are_far_apart_do_not_count)
{
    for (uint64_t i = 0; i < 10; i++)
        ck_assert(!die(&jobs[0], SEC + i * (BREAKER_WINDOW_USEC + 1)));
}
END_TEST

START_TEST(one_death_without_a_word_is_never_enough)
{
    static const struct breaker_rules strict = {.after = 1, .max_usec = 8 * SEC};

    ck_assert(!breaker_silent(&q, &strict, 7, "p", "f", &jobs[0], true, "Killed", SEC));
    ck_assert(breaker_silent(&q, &strict, 7, "p", "f", &jobs[1], true, "Killed", SEC));
}
END_TEST

START_TEST(probe_that_dies_without_a_word_is_refused_for_longer)
{
    crash_thrice(SEC);
    breaker_try(breaker(), &jobs[3]);
    ck_assert(die(&jobs[3], 3 * SEC));
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[4], 5 * SEC - 1), BREAKER_OPEN);
    ck_assert_int_eq(breaker_ask(breaker(), &jobs[4], 5 * SEC), BREAKER_PROBE);
}
END_TEST

START_TEST(pauses_double_up_to_the_limit)
{
    static const uint64_t pauses[] = {2, 4, 8, 8, 8};
    uint64_t now = SEC;

    crash_thrice(now);
    ck_assert_uint_eq(breaker()->until_usec, 2 * SEC);
    for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
        now = breaker()->until_usec;
        breaker_try(breaker(), &jobs[3]);
        ck_assert(crash("f", &jobs[3], now));
        ck_assert_uint_eq(breaker()->until_usec, now + pauses[i] * SEC);
    }
}
END_TEST

START_TEST(pause_after_a_good_probe_begins_where_the_last_one_ended)
{
    crash_thrice(SEC);
    breaker_try(breaker(), &jobs[3]);
    breaker_ended(&q, 7, "p", "f", &jobs[3], true);
    crash_thrice(3 * SEC);
    ck_assert_uint_eq(breaker()->until_usec, 5 * SEC);
}
END_TEST

START_TEST(after_a_quiet_while_pauses_begin_anew)
{
    uint64_t now = 2 * SEC + BREAKER_WINDOW_USEC + 1;

    crash_thrice(SEC);
    breaker_try(breaker(), &jobs[3]);
    breaker_ended(&q, 7, "p", "f", &jobs[3], true);
    crash_thrice(now);
    ck_assert_uint_eq(breaker()->until_usec, now + SEC);
    ck_assert_uint_eq(breaker()->n_all, 3);
}
END_TEST

/* Those that were under way when it began. */
START_TEST(late_crashes_make_a_pause_no_longer)
{
    crash_thrice(SEC);
    ck_assert(!crash("f", &jobs[4], SEC));
    ck_assert(!crash("f", &jobs[5], SEC));
    ck_assert(!crash("f", &jobs[6], SEC));
    ck_assert_uint_eq(breaker()->until_usec, 2 * SEC);
    ck_assert_uint_eq(breaker()->n_all, 6);
}
END_TEST

START_TEST(apart_until_so_many_jobs_went_well_in_a_row)
{
    crash("f", &jobs[0], SEC);
    for (uint32_t i = 1; i < BREAKER_PROOF; i++)
        breaker_ended(&q, 7, "p", "g", &jobs[1], true);
    crash("g", &jobs[0], SEC); /* begins anew */
    for (uint32_t i = 1; i < BREAKER_PROOF; i++)
        breaker_ended(&q, 7, "p", "g", &jobs[1], true);
    breaker_ended(&q, 7, "p", "g", &jobs[1], false);
    ck_assert(breaker_apart(&q, 7, "p"));
    breaker_ended(&q, 7, "p", "g", &jobs[1], true);
    ck_assert(!breaker_apart(&q, 7, "p"));
}
END_TEST

START_TEST(release_forgets_what_it_names)
{
    crash_thrice(SEC);
    crash("g", &jobs[0], SEC);
    ck_assert_uint_eq(breaker_release(&q, false, 8, "p", "f"), 0);
    ck_assert_uint_eq(breaker_release(&q, false, 7, "p", "f"), 1);
    ck_assert_ptr_null(breaker());
    ck_assert(breaker_apart(&q, 7, "p"));
    ck_assert_uint_eq(breaker_release(&q, true, 8, "p", ""), 1);
    ck_assert(!breaker_apart(&q, 7, "p"));
    ck_assert_uint_eq(q.all.n, 0);
}
END_TEST

START_TEST(table_is_limited_and_forgets_the_oldest_of_the_same_owner)
{
    char name[16];

    ck_assert(!breaker_crashed(&q, &rules, 8, "other", "f", NULL, "x", SEC - 1)); /* and the plugin itself */
    for (uint32_t i = 0; i < BREAKER_OWN + 2; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        crash(name, NULL, SEC + i);
        ck_assert_uint_le(q.all.n, BREAKER_OWN + 2);
    }
    ck_assert_uint_eq(q.all.n, BREAKER_OWN + 2);
    ck_assert_ptr_null(breaker_find(&q, 7, "p", "f0"));
    ck_assert_ptr_nonnull(breaker_find(&q, 7, "p", name));
    ck_assert_ptr_nonnull(breaker_find(&q, 8, "other", "f"));

    for (uint64_t owner = 100; q.all.n < BREAKER_ENTRIES; owner++)
        for (uint32_t i = 0; i < BREAKER_OWN && q.all.n < BREAKER_ENTRIES; i++) {
            snprintf(name, sizeof(name), "f%u", i);
            breaker_crashed(&q, &rules, owner, "p", name, NULL, "x", SEC + i);
        }
    breaker_crashed(&q, &rules, 9, "late", "f", NULL, "x", SEC); /* no entry gives way for it */
    ck_assert_ptr_null(breaker_find(&q, 9, "late", "f"));
    ck_assert_uint_eq(q.all.n, BREAKER_ENTRIES);
    crash("new", NULL, 10 * SEC);
    ck_assert_ptr_nonnull(breaker_find(&q, 7, "p", "new"));
    ck_assert_ptr_nonnull(breaker_find(&q, 8, "other", "f"));
    ck_assert_uint_eq(q.all.n, BREAKER_ENTRIES);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("breaker");
    Suite *s = suite_create("breaker");

    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, nothing_is_known_against_what_has_not_crashed);
    tcase_add_test(tc, refused_from_the_configured_crash_on);
    tcase_add_test(tc, others_are_not_refused);
    tcase_add_test(tc, crashes_far_apart_are_not_counted_together);
    tcase_add_test(tc, one_is_let_through_when_the_pause_is_over);
    tcase_add_test(tc, probe_that_goes_well_lets_it_out);
    tcase_add_test(tc, probe_without_a_verdict_lets_the_next_one_try);
    tcase_add_test(tc, deaths_without_a_word_count_where_nothing_went_well_between);
    tcase_add_test(tc, where_others_had_run_before_they_only_set_it_apart);
    tcase_add_test(tc, a_function_that_goes_well_between_kills_is_not_to_blame);
    tcase_add_test(tc, deaths_without_a_word_that_are_far_apart_do_not_count);
    tcase_add_test(tc, one_death_without_a_word_is_never_enough);
    tcase_add_test(tc, probe_that_dies_without_a_word_is_refused_for_longer);
    tcase_add_test(tc, pauses_double_up_to_the_limit);
    tcase_add_test(tc, pause_after_a_good_probe_begins_where_the_last_one_ended);
    tcase_add_test(tc, after_a_quiet_while_pauses_begin_anew);
    tcase_add_test(tc, late_crashes_make_a_pause_no_longer);
    tcase_add_test(tc, apart_until_so_many_jobs_went_well_in_a_row);
    tcase_add_test(tc, release_forgets_what_it_names);
    tcase_add_test(tc, table_is_limited_and_forgets_the_oldest_of_the_same_owner);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
