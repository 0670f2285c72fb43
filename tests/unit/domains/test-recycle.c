/* SPDX-License-Identifier: Apache-2.0
 *
 * test-recycle.c: when an executor is ended to make room, and when not: jobs may wait that were not handed over yet. */
#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "domains/domain-parts.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "domains/plugin-query.h"
#include "domains/plugins.h"
#include "domains/recycle.h"
#include "far-end/far-end.h"
#include "supervisor/executor.h"
#include "table/ids.h"
#include "table/queue.h"
#include "table/state.h"
#include "tests/unit/suite.h"

static const struct jobs_domain all_users = {.workers = 1};
static struct executors executors;
static struct jobs jobs;
static struct domain *d;
static struct executor executor;
static struct user user = {.uid = 1};
static struct job *job;
static uint32_t n_answers;

static void set_up(void)
{
    executors = (struct executors){.parts = domain_parts};
    jobs = (struct jobs){.executors = &executors,
                         .options = {.base = event_base_new(), .domains = &all_users, .n_domains = 1}};
    list_init(&jobs.domains);
    list_init(&jobs.settle_due);
    list_init(&jobs.run_slots.waiting);
    d = domain_new(&jobs, 1);
    ck_assert_ptr_nonnull(d);
    executor = (struct executor){.control_fd = -1, .ready = true};
    ck_assert_int_eq(far_end_new(&executor.control, NULL, 0, -1, NULL, NULL), 0);
    list_init(&executor.outbox);
    d->priv->executor = &executor;
    d->front = &executor.front;
    job = job_alloc(&jobs, 0, 0, false);
    ck_assert_ptr_nonnull(job);
    job->user = &user;
    job->domain = d;
    job->state = JOB_QUEUED;
    n_answers = 0;
}

static void tear_down(void)
{
    job_discard(job);
    executor.control = far_end_close(executor.control, true);
    d->priv->executor = NULL;
    domain_free(d);
    ck_assert(list_empty(&jobs.domains));
    hash_deinit(&jobs.by_key);
    hash_deinit(&jobs.flows);
    event_base_free(jobs.options.base);
}

static void on_answer(struct plugin_query *q, const struct plugin_info *info, int error)
{
    n_answers++;
}

/* The domain's executor is spoilt, and the next one dies before it is ready. */
static void drop_standby(void)
{
    struct domain *standby = domain_new(&jobs, 1);

    ck_assert_ptr_nonnull(standby);
    d->priv->recycling.spoilt = true;
    d->priv->recycling.standby = standby;
    standby->priv->recycling.standby_of = d;
    ck_assert(recycle_gone(standby));
}

/* The same; a plugin has waited for the next one. */
static void no_other_comes(void)
{
    struct plugin *p = plugin_make(d, "p");
    struct plugin_query query = {.answer = on_answer};

    ck_assert_ptr_nonnull(p);
    list_push_back(&p->queries, &query.link);
    d->priv->recycling.starved = true;
    drop_standby();
    plugins_turn(&jobs);
    ck_assert_uint_eq(n_answers, 1);
}

START_TEST(a_spoilt_executor_without_work_ends_where_no_other_comes)
{
    no_other_comes();
    ck_assert(d->priv->finishing);
}
END_TEST

START_TEST(one_with_jobs_that_nothing_hands_over_now_ends_too)
{
    queue_put(&d->queue, job, false);
    drop_standby();
    ck_assert(d->priv->finishing);
    queue_take(&d->queue, job);
}
END_TEST

START_TEST(a_spoilt_executor_gets_the_jobs_that_wait_for_it)
{
    queue_put(&d->queue, job, false);
    no_other_comes();
    ck_assert(d->priv->unpumped);
    ck_assert(!d->priv->finishing);
    queue_take(&d->queue, job);
}
END_TEST

static void on_first(struct plugin_query *q, const struct plugin_info *info, int error)
{
    n_answers |= 1u << 31;
}

/* Its load has ended, and n questions have not been answered. */
static struct plugin *settling(const char *request, struct plugin_query queries[], uint32_t n,
                               void (*answer)(struct plugin_query *q, const struct plugin_info *info, int error))
{
    struct plugin *p = plugin_make(d, request);

    ck_assert_ptr_nonnull(p);
    for (uint32_t i = 0; i < n; i++) {
        queries[i].answer = answer;
        list_push_back(&p->queries, &queries[i].link);
    }
    plugin_failed(p, ENOENT, "none");
    return p;
}

START_TEST(what_waits_for_one_load_does_not_hold_up_what_waits_for_another)
{
    static struct plugin_query many[5000], one;

    settling("many", many, ARRAY_SIZE(many), on_answer);
    settling("one", &one, 1, on_first);
    plugins_turn(&jobs);
    ck_assert_uint_ne(n_answers & 1u << 31, 0);
    ck_assert_uint_lt(n_answers & ~(1u << 31), 1000);
    while (!list_empty(&jobs.settle_due))
        plugins_turn(&jobs);
    ck_assert_uint_eq(n_answers & ~(1u << 31), ARRAY_SIZE(many));
}
END_TEST

/* The next executor has not loaded it. What still waits does so for another load; that one's end is told once more. */
START_TEST(a_plugin_that_goes_while_its_load_is_told_is_loaded_again)
{
    static struct plugin_query many[1000];
    struct plugin *p = settling("p", many, ARRAY_SIZE(many), on_answer);

    p->state = PLUGIN_READY;
    plugins_turn(&jobs);
    plugin_unloaded(p);
    ck_assert(p->state == PLUGIN_UNKNOWN && list_empty(&jobs.settle_due));
    ck_assert(n_answers > 0 && n_answers < ARRAY_SIZE(many));
    p->stale = true; /* its file has changed, too */
    ck_assert(plugin_wanted(p));
    plugin_failed(p, ENOENT, "none");
    while (!list_empty(&jobs.settle_due))
        plugins_turn(&jobs);
    ck_assert_uint_eq(n_answers, ARRAY_SIZE(many));
}
END_TEST

/* So many jobs are queued, of a function that the plugin no longer has. */
static void queue_jobs(uint32_t n)
{
    struct plugin *p = plugin_make(d, "p");

    ck_assert_ptr_nonnull(p);
    p->functions = calloc(1, sizeof(*p->functions));
    *p->functions = (struct plugin_function){.name = strdup("f"), .index = RING_NONE};
    p->n_functions = 1;
    p->state = PLUGIN_READY;
    for (uint32_t i = 0; i < n; i++) {
        struct job *one = job_alloc(&jobs, 0, 0, false);
        uint64_t number = i + 1;

        ck_assert_ptr_nonnull(one);
        memcpy(one->id + 8, &number, sizeof(number));
        ck_assert_int_eq(job_name(&jobs, one), 0);
        one->user = &user;
        one->domain = d;
        one->plugin = p;
        p->n_jobs++;
        user.n_jobs++;
        jobs.counters.n_open++;
        job_set_function(one, p->functions);
        job_move(one, JOB_QUEUED);
        queue_put(&d->queue, one, false);
    }
}

START_TEST(jobs_that_nothing_can_run_end_in_turns)
{
    queue_jobs(300);
    domain_pump(d);
    ck_assert_uint_eq(d->queue.n, 300 - 128);
    ck_assert(d->priv->unpumped);
    d->priv->given_up = job_words("there is no executor");
    d->priv->n_given_up = 150; /* the others came later */
    domain_pump(d);
    ck_assert_uint_eq(d->queue.n, 300 - 2 * 128);
    ck_assert(d->priv->given_up && d->priv->unpumped);
    domain_pump(d);
    ck_assert_uint_eq(d->queue.n, 300 - 128 - 150);
    ck_assert_ptr_null(d->priv->given_up);
    domain_pump(d);
    ck_assert(d->queue.n == 0 && !d->priv->unpumped);
    ck_assert(user.n_jobs == 0 && jobs.counters.n_open == 0);
    hash_deinit(&jobs.by_id);
}
END_TEST

/* An older file's entry that the executor has, where there is no number for another one. */
static void want_one_plugin_too_many(void)
{
    struct plugin *p = NULL;

    for (uint32_t i = 0; i < JOBS_PLUGINS; i++) {
        p = plugin_make(d, "p");
        ck_assert_ptr_nonnull(p);
        p->state = PLUGIN_READY;
        p->n_jobs = 1;
    }
    p->n_jobs = 0;
    p->stale = true;
    d->priv->recycling.standby = d; /* no entry is forgotten meanwhile */
    ck_assert_ptr_null(plugin_make(d, "q"));
    d->priv->recycling.standby = NULL;
}

START_TEST(an_idle_executor_with_entries_of_older_files_ends)
{
    want_one_plugin_too_many();
    ck_assert(d->priv->finishing);
}
END_TEST

START_TEST(one_with_entries_of_older_files_gets_the_jobs_that_wait_for_it)
{
    queue_put(&d->queue, job, false);
    d->priv->unpumped = true;
    want_one_plugin_too_many();
    ck_assert(!d->priv->finishing);
    queue_take(&d->queue, job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("recycle");
    TCase *t = tcase_create("recycle");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_spoilt_executor_without_work_ends_where_no_other_comes);
    tcase_add_test(t, one_with_jobs_that_nothing_hands_over_now_ends_too);
    tcase_add_test(t, a_spoilt_executor_gets_the_jobs_that_wait_for_it);
    tcase_add_test(t, what_waits_for_one_load_does_not_hold_up_what_waits_for_another);
    tcase_add_test(t, a_plugin_that_goes_while_its_load_is_told_is_loaded_again);
    tcase_add_test(t, jobs_that_nothing_can_run_end_in_turns);
    tcase_add_test(t, an_idle_executor_with_entries_of_older_files_ends);
    tcase_add_test(t, one_with_entries_of_older_files_gets_the_jobs_that_wait_for_it);
    suite_add_tcase(s, t);
    return run_suite(s);
}
