/* SPDX-License-Identifier: Apache-2.0
 *
 * test-queue.c: the order in which jobs are handed over: priority, users in turn, first in, first out. */
#include <check.h>
#include <stdlib.h>

#include "jobs/job.h"
#include "jobs/queue.h"

#define USERS 3u
#define EACH  4u

static struct jobs jobs;
static struct fair_queue *q;
static struct user users[USERS];
static struct job all[USERS * EACH];

static void set_up(void)
{
    jobs = (struct jobs){0};
    q = calloc(1, sizeof(*q));
    ck_assert_ptr_nonnull(q);
    fair_queue_init(q, &jobs.flows, &jobs.counters.n_queued);
    for (uint32_t u = 0; u < USERS; u++)
        users[u] = (struct user){.uid = u + 1};
    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i] = (struct job){.user = &users[i / EACH]};
        list_init(&all[i].link);
    }
}

static void tear_down(void)
{
    ck_assert_uint_eq(q->n, 0);
    ck_assert_uint_eq(jobs.counters.n_queued, 0);
    ck_assert_uint_eq(jobs.flows.n, 0); /* nothing stays of who has nothing there */
    ck_assert_ptr_null(queue_first(q));
    hash_deinit(&jobs.flows);
    free(q);
}

static struct job *next(void)
{
    struct job *job = queue_first(q);

    ck_assert_ptr_nonnull(job);
    queue_turn(q, job);
    queue_take(q, job);
    return job;
}

START_TEST(users_take_turns)
{
    for (uint32_t i = 0; i < USERS * EACH; i++) /* one user after the other */
        queue_put(q, &all[i], false);
    for (uint32_t i = 0; i < USERS * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % USERS * EACH + i / USERS]);
}
END_TEST

START_TEST(who_has_few_waits_for_one_of_each)
{
    for (uint32_t i = 0; i < EACH; i++)
        queue_put(q, &all[i], false);
    ck_assert_ptr_eq(next(), &all[0]);
    queue_put(q, &all[EACH], false);
    ck_assert_ptr_eq(next(), &all[1]);
    ck_assert_ptr_eq(next(), &all[EACH]);
    ck_assert_ptr_eq(next(), &all[2]);
    queue_put(q, &all[EACH + 1], false); /* again, with a new turn */
    ck_assert_ptr_eq(next(), &all[3]);
    ck_assert_ptr_eq(next(), &all[EACH + 1]);
}
END_TEST

START_TEST(a_priority_goes_before_every_turn)
{
    static const int8_t priorities[] = {-100, 0, 1, 100};

    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i].priority = priorities[i % EACH];
        queue_put(q, &all[i], false);
    }
    for (uint32_t i = 0; i < USERS * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % USERS * EACH + EACH - 1 - i / USERS]);
}
END_TEST

START_TEST(what_comes_back_is_the_first_of_its_lane_again)
{
    for (uint32_t i = 0; i < 2 * EACH; i++)
        queue_put(q, &all[i], false);
    struct job *a = next(), *b = next();
    queue_put(q, b, true); /* from the last handed to the first */
    queue_put(q, a, true);
    for (uint32_t i = 0; i < 2 * EACH; i++)
        ck_assert_ptr_eq(next(), &all[i % 2 * EACH + i / 2]);
}
END_TEST

START_TEST(one_is_taken_from_anywhere)
{
    for (uint32_t i = 0; i < USERS * EACH; i++)
        queue_put(q, &all[i], false);
    for (uint32_t i = 0; i < USERS * EACH; i += 2)
        queue_take(q, &all[i]);
    for (uint32_t u = 0; u < USERS; u++)
        ck_assert_ptr_eq(next(), &all[u * EACH + 1]);
    for (uint32_t u = USERS; u-- > 0;)
        queue_take(q, &all[u * EACH + 3]);
}
END_TEST

/* One turn in AGEING_TURNS, the lower priorities one after the other, and only for who has waited. */
START_TEST(who_has_waited_gets_some_turns)
{
    uint32_t n_of[3] = {0}, before = 100;

    for (uint32_t i = 0; i < USERS * EACH; i++) {
        all[i].user = &users[0];
        all[i].priority = (int8_t)(i % 3 == 0 ? 100 : i % 3 == 1 ? 0 : -100);
        all[i].accepted_usec = i % 3 == 2 ? 101 : 100; /* the lowest have come later */
        queue_put(q, &all[i], false);
    }
    for (uint32_t turn = 1; turn <= 6 * AGEING_TURNS; turn++) {
        struct job *aged = queue_aged(q, before), *job = aged ? aged : queue_first(q);

        ck_assert_ptr_eq(aged ? aged : job, job);
        ck_assert(!aged || turn % AGEING_TURNS == 0);
        queue_turn(q, job);
        queue_take(q, job);
        n_of[job->priority == 100 ? 0 : job->priority == 0 ? 1 : 2]++;
        if (turn == AGEING_TURNS * 2)
            ck_assert(n_of[1] == 2 && n_of[2] == 0);
        if (turn == AGEING_TURNS * 3)
            before = 101;
        queue_put(q, job, false); /* another one like it */
    }
    ck_assert_uint_eq(n_of[0], 6 * (AGEING_TURNS - 1));
    ck_assert_uint_eq(n_of[1] + n_of[2], 6); /* 0 alone, then in turn with -100 */
    ck_assert_uint_ge(n_of[2], 1);
    ck_assert_uint_ge(n_of[1], 4);
    while (q->n)
        next();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue");
    TCase *t = tcase_create("queue");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, users_take_turns);
    tcase_add_test(t, who_has_few_waits_for_one_of_each);
    tcase_add_test(t, a_priority_goes_before_every_turn);
    tcase_add_test(t, what_comes_back_is_the_first_of_its_lane_again);
    tcase_add_test(t, one_is_taken_from_anywhere);
    tcase_add_test(t, who_has_waited_gets_some_turns);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
