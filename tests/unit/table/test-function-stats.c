/* SPDX-License-Identifier: Apache-2.0
 *
 * test-function-stats.c: counts by function and user: what is counted where, and which row makes room. */
#include "table/function-stats.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "table/job.h"
#include "tests/unit/suite.h"

static struct jobs jobs;
static struct domain domain = {.jobs = &jobs};
static struct user users[8];
static struct plugin_function functions[2] = {{.name = (char[]){"f"}}, {.name = (char[]){"g"}}};
static struct plugin plugin = {.domain = &domain, .request = (char[]){"p"}, .functions = functions, .n_functions = 2};

static void setup(void)
{
    for (uint32_t i = 0; i < 8; i++)
        users[i].uid = 1000 + i;
}

static void teardown(void)
{
    function_stats_deinit(&jobs);
}

static struct function_stats *numbered(struct user *user, uint32_t i)
{
    char name[32];

    snprintf(name, sizeof(name), "f%u", i);
    return function_stats_get(&jobs, user, "p", name);
}

static void count(struct user *user, uint32_t i)
{
    numbered(user, i)->ended[FUNCTION_SUCCEEDED]++;
}

/* What the function remembers of user 0. */
static const struct function_stats *of(uint32_t function)
{
    return functions[function].near[users[0].uid % FUNCTION_STATS_NEAR].stats;
}

/* All that was counted, the others too; *ret_n: rows but the others. */
static uint64_t sum(uint32_t *ret_n)
{
    uint64_t n = 0;
    uint32_t cursor = 0;
    const struct function_stats *s;

    *ret_n = 0;
    while ((s = function_stats_next(&jobs, &cursor))) {
        *ret_n += s->uid != FUNCTION_STATS_OTHERS;
        for (uint32_t i = 0; i < FUNCTION_OUTCOMES; i++)
            n += s->ended[i];
    }
    return n;
}

START_TEST(users_and_functions_are_apart)
{
    struct function_stats *a = function_stats_of(&users[0], &plugin, &functions[0]);

    ck_assert_ptr_eq(function_stats_of(&users[0], &plugin, &functions[0]), a);
    struct function_stats *b = function_stats_of(&users[1], &plugin, &functions[0]);
    struct function_stats *c = function_stats_of(&users[0], &plugin, &functions[1]);
    ck_assert(a != b && a != c && b != c);
    ck_assert_ptr_eq(function_stats_of(&users[0], &plugin, &functions[0]), a);
    static struct user alike = {.uid = 1000 + FUNCTION_STATS_NEAR}; /* remembered in the same place */
    ck_assert_ptr_ne(function_stats_of(&alike, &plugin, &functions[0]), a);
    ck_assert_ptr_eq(function_stats_of(&users[0], &plugin, &functions[0]), a);
    ck_assert_ptr_eq(function_stats_get(&jobs, &users[0], "p", "f"), a);
    ck_assert_ptr_ne(function_stats_get(&jobs, &users[0], "pf", ""), a);
    ck_assert_str_eq(a->plugin, "p");
    ck_assert_str_eq(a->function, "f");
    ck_assert_uint_eq(a->uid, 1000);
}
END_TEST

START_TEST(ends_and_refusals_are_counted)
{
    uint32_t n;

    function_stats_count(&users[0], &plugin, &functions[0], FUNCTION_REFUSED, 3);
    function_stats_count(&users[0], &plugin, &functions[0], FUNCTION_INTERRUPTED, 2);
    ck_assert_uint_eq(of(0)->ended[FUNCTION_REFUSED], 3);
    ck_assert_uint_eq(of(0)->ended[FUNCTION_INTERRUPTED], 2);
    ck_assert_uint_eq(sum(&n), 5);
    ck_assert_uint_eq(n, 1);
}
END_TEST

static struct job *job_of(enum job_state state)
{
    static struct job job;

    job = (struct job){.domain = &domain, .plugin = &plugin, .user = &users[0], .state = state & 15u};
    job_set_function(&job, &functions[1]);
    return &job;
}

START_TEST(jobs_that_have_run_are_measured)
{
    const struct job_info info = {.queued_usec = 11, .run_usec = 22, .cpu_usec = 33};
    const struct front_completion c = {.output_size = 44};

    for (int state = JOB_SUCCEEDED; state <= JOB_INTERRUPTED; state++) {
        function_stats_job(job_of((enum job_state)state), &info, &c);
        ck_assert_uint_eq(of(1)->ended[state - JOB_SUCCEEDED], 1);
    }
    function_stats_job(job_of(JOB_CANCELLED), &info, NULL); /* it has not run */
    const struct function_stats *s = of(1);
    ck_assert_uint_eq(s->ended[FUNCTION_CANCELLED], 2);
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++) {
        ck_assert_uint_eq(histogram_at(&s->of[i], histogram_bucket(11 * (i + 1))), 6);
        ck_assert_uint_eq(s->of[i].sum, 66 * (i + 1));
    }
}
END_TEST

START_TEST(a_job_without_its_function_is_not_counted)
{
    struct job *job = job_of(JOB_CANCELLED);
    uint32_t n;

    job->function = JOB_NO_FUNCTION;
    function_stats_job(job, &(struct job_info){.run_usec = 0}, NULL);
    ck_assert_uint_eq(sum(&n), 0);
    ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(a_bundle_counts_each_of_its_jobs)
{
    const struct array_end ends[] = {{.queued_usec = 1, .run_usec = 2, .cpu_usec = 3, .size = 4},
                                     {.queued_usec = 5, .run_usec = 6, .cpu_usec = 7, .size = 8}};

    function_stats_bundle(job_of(JOB_SUCCEEDED), 2, ends);
    const struct function_stats *s = of(1);
    ck_assert_uint_eq(s->ended[FUNCTION_SUCCEEDED], 2);
    ck_assert_uint_eq(s->of[FUNCTION_QUEUE].sum, 6);
    ck_assert_uint_eq(histogram_at(&s->of[FUNCTION_OUTPUT], 4), 1);
    ck_assert_uint_eq(histogram_at(&s->of[FUNCTION_OUTPUT], 8), 1);
}
END_TEST

/* Below, at and above the limit of one user: its own oldest makes room, and no other user's. */
START_TEST(a_user_has_so_many_functions)
{
    uint32_t n;

    count(&users[1], 0);
    for (uint32_t i = 0; i < FUNCTION_STATS_PER_USER; i++)
        count(&users[0], i);
    ck_assert_uint_eq(sum(&n), FUNCTION_STATS_PER_USER + 1);
    ck_assert_uint_eq(n, FUNCTION_STATS_PER_USER + 1);
    ck_assert_uint_eq(users[0].n_functions, FUNCTION_STATS_PER_USER);
    count(&users[0], 0); /* number 1 is the oldest now */
    count(&users[0], FUNCTION_STATS_PER_USER);
    ck_assert_uint_eq(sum(&n), FUNCTION_STATS_PER_USER + 3);
    ck_assert_uint_eq(n, FUNCTION_STATS_PER_USER + 1);
    ck_assert_uint_eq(users[0].n_functions, FUNCTION_STATS_PER_USER);
    ck_assert_uint_eq(numbered(&users[0], 0)->ended[FUNCTION_SUCCEEDED], 2);
    ck_assert_uint_eq(numbered(&users[1], 0)->ended[FUNCTION_SUCCEEDED], 1);
    ck_assert_uint_eq(jobs.functions.others.ended[FUNCTION_SUCCEEDED], 1);
    ck_assert_uint_eq(numbered(&users[0], 1)->ended[FUNCTION_SUCCEEDED], 0); /* begins anew */
}
END_TEST

/* The same of all users: the oldest of all makes room. */
START_TEST(there_are_so_many_functions)
{
    const uint32_t each = FUNCTION_STATS_MAX / 8;
    uint32_t n;

    ck_assert_uint_lt(each, FUNCTION_STATS_PER_USER);
    for (uint32_t i = 0; i < FUNCTION_STATS_MAX; i++) {
        ck_assert_uint_eq(sum(&n), i);
        ck_assert_uint_eq(n, i);
        count(&users[i / each], i);
    }
    histogram_add(&numbered(&users[0], 0)->of[FUNCTION_RUN], 5);
    count(&users[0], 0);                  /* user 0's second one is the oldest */
    count(&users[7], FUNCTION_STATS_MAX); /* and makes room */
    ck_assert_uint_eq(sum(&n), FUNCTION_STATS_MAX + 2);
    ck_assert_uint_eq(n, FUNCTION_STATS_MAX);
    ck_assert_uint_eq(users[0].n_functions, each - 1);
    ck_assert_uint_eq(users[7].n_functions, each + 1);
    for (uint32_t i = 0; i < FUNCTION_STATS_MAX; i++) /* until number 0 is the oldest, and goes */
        count(&users[1], FUNCTION_STATS_MAX + 1 + i);
    ck_assert_uint_eq(sum(&n), 2 * FUNCTION_STATS_MAX + 2);
    ck_assert_uint_eq(n, FUNCTION_STATS_MAX);
    ck_assert_uint_eq(users[1].n_functions, FUNCTION_STATS_PER_USER);
}
END_TEST

START_TEST(what_a_function_remembers_is_not_another_ones)
{
    struct function_stats *own = function_stats_of(&users[0], &plugin, &functions[0]);

    for (uint32_t i = 0; i < FUNCTION_STATS_PER_USER; i++)
        count(&users[0], i);
    ck_assert_str_ne(own->function, "f"); /* its row serves another one */
    ck_assert_ptr_ne(function_stats_of(&users[0], &plugin, &functions[0]), own);
    ck_assert_str_eq(of(0)->function, "f");
}
END_TEST

START_TEST(what_made_room_is_with_the_others)
{
    struct function_stats *s = numbered(&users[0], 0);

    for (uint32_t i = 0; i < FUNCTION_OUTCOMES; i++)
        s->ended[i] = i + 1;
    s->direct = 100;
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++)
        histogram_add(&s->of[i], 1000 + i);
    for (uint32_t i = 0; i < FUNCTION_STATS_PER_USER; i++)
        (void)numbered(&users[0], i + 1);
    s = &jobs.functions.others;
    for (uint32_t i = 0; i < FUNCTION_OUTCOMES; i++)
        ck_assert_uint_eq(s->ended[i], i + 1);
    ck_assert_uint_eq(s->direct, 100);
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++) {
        ck_assert_uint_eq(s->of[i].max, 1000 + i);
        ck_assert_uint_eq(histogram_at(&s->of[i], histogram_bucket(1000 + i)), 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("function-stats");
    TCase *cases = tcase_create("all");

    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, users_and_functions_are_apart);
    tcase_add_test(cases, ends_and_refusals_are_counted);
    tcase_add_test(cases, jobs_that_have_run_are_measured);
    tcase_add_test(cases, a_job_without_its_function_is_not_counted);
    tcase_add_test(cases, a_bundle_counts_each_of_its_jobs);
    tcase_add_test(cases, a_user_has_so_many_functions);
    tcase_add_test(cases, there_are_so_many_functions);
    tcase_add_test(cases, what_a_function_remembers_is_not_another_ones);
    tcase_add_test(cases, what_made_room_is_with_the_others);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
