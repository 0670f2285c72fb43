/* SPDX-License-Identifier: Apache-2.0
 *
 * test-job.c: a job's way, and what it calls in the layers above the table. */
#include <check.h>
#include <event2/event.h>
#include <string.h>

#include "base/cleanup.h"
#include "table/find.h"
#include "table/hooks.h"
#include "table/ids.h"
#include "table/job.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/watches.h"
#include "tests/unit/suite.h"

static char calls[256]; /* the hooks that were called, each with a blank */
static bool answer;     /* of each hook that has one */
static struct jobs jobs;
static struct domain domain;
static struct user user;
static struct plugin_function function = {.name = (char[]){"f"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function, .n_functions = 1};
static uint32_t n_accepted, n_done;
static enum job_state told;

static bool said(const char *hook)
{
    strcat(calls, hook);
    strcat(calls, " ");
    return answer;
}

static void on_queued(struct job *job)
{
    (void)said("queued");
}

static void on_stop(struct job *job, enum job_stop why)
{
    (void)said("stop");
}

static void on_job(struct job *job)
{
    (void)said("job");
}

static void on_ended(struct job *job, bool went_well)
{
    (void)said("ended");
}

static bool on_ready(const struct domain *d)
{
    return said("ready");
}

static void on_distrust(struct domain *d, const char *what)
{
    (void)said("distrust");
}

static bool on_find(struct jobs *j, const uint8_t id[16])
{
    return said("find");
}

static const struct domain_hooks to_domains = {.queued = on_queued,
                                               .stop = on_stop,
                                               .timer = on_job,
                                               .ended = on_ended,
                                               .ready = on_ready,
                                               .distrust = on_distrust,
                                               .arena_free = on_job,
                                               .split = on_job,
                                               .find = on_find};

static bool on_add(struct job *job)
{
    return said("add");
}

static enum disk_step on_before(struct domain *d, struct job *job)
{
    (void)said("before");
    return STEP_ON;
}

static bool on_policy_stop(struct job *job, enum job_stop why)
{
    return said("policy-stop");
}

static bool on_retry(struct job *job, enum job_state state, int exit, const char *error,
                     const struct front_completion *c)
{
    return said("retry");
}

static void on_closing(struct job *job)
{
    (void)said("closing");
}

static bool on_end(struct job *job, const struct job_info *info)
{
    return said("end");
}

static bool on_keep(struct job *job)
{
    return said("keep");
}

static void on_rest(struct job *job)
{
    (void)said("rest");
}

static bool on_fetch(struct job *job)
{
    return said("fetch");
}

static void on_free(struct job *job)
{
    (void)said("free");
    free(job->more->policy);
    job->more->policy = NULL;
}

static const struct policy_hooks to_durable = {.add = on_add,
                                               .before = on_before,
                                               .stop = on_policy_stop,
                                               .retry = on_retry,
                                               .closing = on_closing,
                                               .end = on_end,
                                               .keep = on_keep,
                                               .rest = on_rest,
                                               .fetch = on_fetch,
                                               .free = on_free};

static void accepted(struct watch *w, const uint8_t id[16])
{
    n_accepted++;
}

static void done(struct watch *w, const struct job_info *info)
{
    n_done++;
    told = info->state;
}

static const struct watch_ops ops = {.accepted = accepted, .done = done};
static struct watch watch;

static void set_up(void)
{
    jobs = (struct jobs){.domain_hooks = &to_domains,
                         .policy_hooks = &to_durable,
                         .options = {.base = event_base_new(), .limits = JOBS_LIMITS_DEFAULT}};
    list_init(&jobs.gates.of_users);
    list_init(&jobs.run_slots.waiting);
    list_init(&jobs.ends_due);
    domain = (struct domain){.jobs = &jobs};
    list_init(&domain.handed);
    fair_queue_init(&domain.queue, &jobs.flows, &jobs.counters.n_queued);
    user = (struct user){.uid = 7, .n_jobs = 1};
    list_init(&user.kept);
    watch = (struct watch){.ops = &ops, .owner = true};
    jobs.counters.n_open = 1;
    plugin.domain = &domain;
    plugin.n_jobs = 1;
    *calls = 0;
    answer = false;
    n_accepted = n_done = 0;
}

static void tear_down(void)
{
    ck_assert_uint_eq(jobs.by_id.n, 0);
    ck_assert_uint_eq(plugin.n_jobs, 0);
    ck_assert_uint_eq(user.n_jobs, 0);
    hash_deinit(&jobs.by_id);
    hash_deinit(&jobs.flows);
    for (size_t i = 0; i < JOBS_SLABS; i++)
        slab_trim(&jobs.slabs[i]);
    event_base_free(jobs.options.base);
}

static struct job *new_job(void)
{
    struct job *job = job_alloc(&jobs, 0, 0, false);

    ck_assert_ptr_nonnull(job);
    job->domain = &domain;
    job->user = &user;
    job->plugin = &plugin;
    job_set_function(job, &function);
    memset(job->id, 3, sizeof(job->id));
    ck_assert_int_eq(job_name(&jobs, job), 0);
    job_add_watch(job, &watch);
    return job;
}

/* Gives it a policy: durable and on disk, or with retries only. */
static void promise(struct job *job, bool durable)
{
    ck_assert_ptr_nonnull(job_more(job));
    job->more->policy = calloc(1, sizeof(*job->more->policy));
    ck_assert_ptr_nonnull(job->more->policy);
    job->more->policy->durable = job->more->policy->acknowledged = durable;
}

static void run(struct job *job)
{
    queue_take(&domain.queue, job);
    job_move(job, JOB_RUNNING);
}

static const struct front_completion well = {.kind = COMPLETION_DONE, .worker = RING_NONE, .status = "", .error = ""};

START_TEST(a_plain_job_calls_upward_once)
{
    struct job *job = new_job();

    job_accept(job);
    ck_assert_uint_eq(n_accepted, 1);
    run(job);
    job_finish(job, JOB_SUCCEEDED, 0, NULL, &well);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq((int)told, JOB_SUCCEEDED);
    ck_assert_str_eq(calls, "queued ");
    ck_assert_uint_eq(jobs.counters.succeeded, 1);
    ck_assert_uint_eq(jobs.counters.n_open, 0);
}
END_TEST

START_TEST(a_job_with_a_policy_asks_at_each_step)
{
    struct job *job = new_job();

    promise(job, true);
    job_accept(job);
    run(job);
    job_finish(job, JOB_FAILED, 1, "no", &well);
    ck_assert_str_eq(calls, "add queued retry closing end free ");
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(a_job_that_is_tried_again_has_no_end)
{
    struct job *job = new_job();

    promise(job, false);
    job_accept(job);
    run(job);
    answer = true;
    job_finish(job, JOB_FAILED, 1, "no", &well);
    ck_assert_str_eq(calls, "add queued retry ");
    ck_assert_uint_eq(n_done, 0);
    answer = false;
    job_finish(job, JOB_FAILED, 1, "no", &well);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(the_end_of_a_detached_job_is_kept_where_the_disk_says_so)
{
    struct job *job = new_job();

    promise(job, true);
    job->flags |= JOB_DETACHED;
    job_accept(job);
    run(job);
    *calls = 0;
    job_finish(job, JOB_SUCCEEDED, 0, NULL, &well);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_str_eq(calls, "retry closing end keep ");
    ck_assert_uint_eq(jobs.counters.n_kept, 1); /* the disk has said no */
    job_free(job);
}
END_TEST

START_TEST(a_running_job_is_stopped_above_the_table_and_any_other_here)
{
    struct job *job = new_job();

    job_accept(job);
    run(job);
    *calls = 0;
    job_stop(job, STOP_CANCEL);
    ck_assert_str_eq(calls, "stop ");
    ck_assert_uint_eq(n_done, 0);
    job_move(job, JOB_QUEUED);
    queue_put(&domain.queue, job, true);
    job_stop(job, STOP_CANCEL);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq((int)told, JOB_CANCELLED);
    ck_assert_str_eq(calls, "stop ");
}
END_TEST

START_TEST(a_job_is_found_by_its_user_and_by_root)
{
    struct job *job = new_job();
    uint8_t id[16];

    memcpy(id, job->id, sizeof(id));
    ck_assert_ptr_null(job_find_shown(&jobs, id, 7)); /* NEW, and about to be accepted or refused */
    job->function = JOB_NO_FUNCTION;
    ck_assert_ptr_eq(job_find_shown(&jobs, id, 7), job); /* it waits for its plugin */
    ck_assert_ptr_null(job_find(&jobs, id, 7));
    job_set_function(job, &function);
    job_accept(job);
    ck_assert_ptr_eq(job_find(&jobs, id, 7), job);
    ck_assert_ptr_eq(job_find(&jobs, id, 0), job);
    ck_assert_ptr_null(job_find(&jobs, id, 8));
    id[0]++;
    ck_assert_ptr_null(job_find(&jobs, id, 7));
    promise(job, true);
    job->more->policy->acknowledged = false; /* it may still be refused */
    ck_assert_ptr_null(job_find(&jobs, job->id, 7));
    job->more->policy->acknowledged = true;
    queue_take(&domain.queue, job);
    job_finish(job, JOB_CANCELLED, 0, NULL, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job");
    TCase *t = tcase_create("job");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_plain_job_calls_upward_once);
    tcase_add_test(t, a_job_with_a_policy_asks_at_each_step);
    tcase_add_test(t, a_job_that_is_tried_again_has_no_end);
    tcase_add_test(t, the_end_of_a_detached_job_is_kept_where_the_disk_says_so);
    tcase_add_test(t, a_running_job_is_stopped_above_the_table_and_any_other_here);
    tcase_add_test(t, a_job_is_found_by_its_user_and_by_root);
    suite_add_tcase(s, t);
    return run_suite(s);
}
