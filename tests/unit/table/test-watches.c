/* SPDX-License-Identifier: Apache-2.0
 *
 * test-watches.c: jobs and batches that many follow: what one turn of the loop does for them, counted, and that each
 * has all of the output, once, before the end. */
#include <check.h>
#include <event2/event.h>
#include <string.h>

#include "base/cleanup.h"
#include "table/admission.h"
#include "table/batch.h"
#include "table/batches.h"
#include "table/hooks.h"
#include "table/ids.h"
#include "table/job.h"
#include "table/output.h"
#include "table/policy.h"
#include "table/queue.h"
#include "table/state.h"
#include "table/watches.h"
#include "tests/unit/suite.h"

#define MANY   3000u
#define A_TURN 1024u /* OFFERS_A_TURN */

struct reader {
    struct watch watch; /* first */
    char had[64];
    size_t n;
    bool stands; /* takes nothing */
    bool ended;
};

static struct jobs jobs;
static struct domain domain;
static struct user *user;
static struct plugin_function function = {.name = (char[]){"f"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function, .n_functions = 1};
static struct job *job;
static struct reader readers[MANY];
static uint32_t n_offers, n_done;

static void accepted(struct watch *w, const uint8_t id[16])
{
}

static void done(struct watch *w, const struct job_info *info)
{
    ((struct reader *)w)->ended = true;
    n_done++;
}

static size_t output(struct watch *w, const void *data, size_t size)
{
    struct reader *r = (struct reader *)w;

    n_offers++;
    ck_assert(!r->ended);
    if (r->stands)
        return 0;
    if (r->n + size <= sizeof(r->had))
        memcpy(r->had + r->n, data, size);
    r->n += size;
    return size;
}

static bool takes_rest(struct watch *w, size_t size)
{
    return false;
}

static const struct watch_ops ops = {.accepted = accepted, .done = done, .output = output, .takes_rest = takes_rest};

static void on_queued(struct job *j)
{
}

static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
}

static const struct domain_hooks to_domains = {.queued = on_queued};

static void set_up(void)
{
    jobs = (struct jobs){.domain_hooks = &to_domains,
                         .options = {.base = event_base_new(), .limits = JOBS_LIMITS_DEFAULT}};
    list_init(&jobs.domains);
    list_init(&jobs.gates.of_users);
    list_init(&jobs.run_slots.waiting);
    list_init(&jobs.ends_due);
    list_init(&jobs.offers_due);
    list_init(&jobs.progress.all);
    list_init(&jobs.batches.due);
    list_init(&jobs.batches.kept);
    list_init(&jobs.batches.progress);
    list_init(&jobs.batches.progress_due);
    jobs.progress.timer = evtimer_new(jobs.options.base, on_timer, NULL);
    domain = (struct domain){.jobs = &jobs};
    list_init(&domain.handed);
    fair_queue_init(&domain.queue, &jobs.flows, &jobs.counters.n_queued);
    user = user_get(&jobs, 7);
    ck_assert_ptr_nonnull(user);
    user->n_jobs = 1;
    jobs.counters.n_open = 1;
    plugin.domain = &domain;
    plugin.n_jobs = 1;
    memset(readers, 0, sizeof(readers));
    for (uint32_t i = 0; i < MANY; i++)
        readers[i].watch.ops = &ops;
    n_offers = n_done = 0;
    job = NULL;
}

static void tear_down(void)
{
    ck_assert_uint_eq(jobs.by_id.n, 0);
    hash_deinit(&jobs.by_id);
    hash_deinit(&jobs.flows);
    hash_remove(&jobs.users, &user->by_uid);
    free(user);
    hash_deinit(&jobs.users);
    for (size_t i = 0; i < JOBS_SLABS; i++)
        slab_trim(&jobs.slabs[i]);
    event_free(jobs.progress.timer);
    event_base_free(jobs.options.base);
}

/* A job that runs. */
static void run(struct reader *owner)
{
    static uint8_t number;

    job = job_alloc(&jobs, 0, 0, false);
    ck_assert_ptr_nonnull(job);
    job->domain = &domain;
    job->user = user;
    job->plugin = &plugin;
    job_set_function(job, &function);
    memset(job->id, ++number, sizeof(job->id));
    ck_assert_int_eq(job_name(&jobs, job), 0);
    owner->watch.owner = true;
    job_add_watch(job, &owner->watch);
    job_accept(job);
    queue_take(&domain.queue, job);
    job_move(job, JOB_RUNNING);
}

/* The same, with an owner and n - 1 others that follow it. */
static void run_with(uint32_t n)
{
    run(&readers[0]);
    for (uint32_t i = 1; i < n; i++)
        job_add_watch(job, &readers[i].watch);
}

static void write_output(const char *text)
{
    output_add(job, text, strlen(text));
    output_pump(job);
}

/* Turns of the loop until there is nothing left to do: how many. */
static uint32_t turns(void)
{
    uint32_t n = 0;

    while (!list_empty(&jobs.offers_due) || !list_empty(&jobs.ends_due)) {
        n_offers = n_done = 0;
        output_turn(&jobs);
        ck_assert_uint_le(n_offers, A_TURN);
        ends_turn(&jobs);
        ck_assert_uint_le(n_done, ENDS_A_TURN);
        ck_assert_uint_le(n_offers, A_TURN + ENDS_A_TURN);
        ck_assert_uint_lt(++n, 100);
    }
    return n;
}

static void end(void)
{
    struct front_completion well = {.kind = COMPLETION_DONE, .worker = RING_NONE, .status = "", .error = ""};

    n_done = 0;
    job_finish(job, JOB_SUCCEEDED, 0, NULL, &well);
    ck_assert_uint_le(n_done, ENDS_A_TURN);
}

static void all_had(uint32_t n, const char *text)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(readers[i].n, strlen(text));
        ck_assert_mem_eq(readers[i].had, text, strlen(text));
    }
}

static void all_ended(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ck_assert(readers[i].ended);
}

START_TEST(the_owner_is_the_first_watch)
{
    run_with(3);
    ck_assert_ptr_eq(job_owner(job), &readers[0].watch);
    readers[3].watch.owner = true; /* one more that has submitted it: of the wsd before */
    job_add_watch(job, &readers[3].watch);
    ck_assert(!readers[3].watch.owner);
    ck_assert_ptr_eq(job_owner(job), &readers[0].watch);
    job_remove_watch(&readers[0].watch);
    ck_assert_ptr_null(job_owner(job));
    end();
    ck_assert_uint_eq(n_done, 3);
}
END_TEST

START_TEST(one_watch_has_output_at_once_and_many_have_it_in_turns)
{
    run_with(1);
    write_output("abc");
    all_had(1, "abc");
    for (uint32_t i = 1; i < MANY; i++)
        job_add_watch(job, &readers[i].watch);
    for (uint32_t i = 1; i < MANY; i++)
        readers[i].watch.offset = 3; /* see job_follow() */
    n_offers = 0;
    write_output("defg");
    ck_assert_uint_eq(n_offers, 0);
    ck_assert_uint_eq(turns(), MANY / A_TURN + 1);
    for (uint32_t i = 1; i < MANY; i++)
        ck_assert_mem_eq(readers[i].had, "defg", 4);
    ck_assert_mem_eq(readers[0].had, "abcdefg", 7);
    ck_assert_uint_eq(buffer_size(&job->more->output), 0); /* all have had it */
    end();
    turns();
    all_ended(MANY);
}
END_TEST

START_TEST(output_that_comes_in_the_middle_of_a_round_is_for_all)
{
    run_with(MANY);
    write_output("abc");
    output_turn(&jobs);
    write_output("def");
    output_turn(&jobs);
    write_output("ghi");
    turns();
    all_had(MANY, "abcdefghi");
    ck_assert_uint_eq(buffer_size(&job->more->output), 0);
    ck_assert(list_empty(&jobs.offers_due));
    end();
    turns();
    all_ended(MANY);
}
END_TEST

START_TEST(a_reader_that_stands_still_keeps_what_it_lacks)
{
    run_with(MANY);
    readers[2000].stands = true;
    write_output("abc");
    turns();
    ck_assert_uint_eq(buffer_size(&job->more->output), 3);
    end();
    turns();
    ck_assert(!readers[2000].ended);
    readers[2000].stands = false;
    output_give(job, &readers[2000].watch);
    job_settle_one(job, &readers[2000].watch);
    all_had(MANY, "abc");
    all_ended(MANY);
}
END_TEST

START_TEST(a_watch_goes_in_the_middle_of_a_round)
{
    run_with(MANY);
    write_output("abc");
    output_turn(&jobs);
    ck_assert_ptr_nonnull(job->more->unoffered);
    for (int i = 0; i < 10; i++) { /* those that have the next turns */
        struct reader *r = (struct reader *)job->more->unoffered;

        job_remove_watch(&r->watch);
        ck_assert_uint_eq(r->n, 0);
        job_add_watch(job, &r->watch); /* it comes back, behind the owner */
        r->watch.offset = job_received(job);
        strcpy(r->had, "abc");
        r->n = 3;
    }
    write_output("def");
    turns();
    all_had(MANY, "abcdef");
    end();
    turns();
    all_ended(MANY);
}
END_TEST

START_TEST(the_last_watch_is_left_in_the_middle_of_a_round)
{
    run_with(MANY);
    readers[0].stands = true;
    write_output("abc");
    output_turn(&jobs);
    struct watch *next = job->more->unoffered; /* its round has seen the owner, which stands still */
    ck_assert_ptr_nonnull(next);
    for (uint32_t i = 0; i < MANY; i++)
        if (&readers[i].watch != next)
            job_remove_watch(&readers[i].watch);
    output_pump(job); /* as jobs_unwatch() does */
    ck_assert_uint_eq(next->offset, 3);
    ck_assert_uint_eq(buffer_size(&job->more->output), 0); /* else the job would wait for ever */
    ck_assert(list_empty(&jobs.offers_due));
    end();
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(the_end_comes_after_the_output_in_the_middle_of_a_round)
{
    run_with(MANY);
    write_output("abc");
    output_turn(&jobs);
    output_add(job, "def", 3);
    end();
    ck_assert_uint_ge(turns(), MANY / ENDS_A_TURN);
    all_had(MANY, "abcdef");
    all_ended(MANY);
}
END_TEST

START_TEST(a_job_that_runs_again_begins_a_new_round)
{
    run_with(MANY);
    readers[0].stands = true;
    write_output("abcabcabc");
    output_turn(&jobs);
    for (uint32_t i = 0; i < MANY; i++)
        readers[i].n = 0;
    output_discard(job);
    write_output("de");
    turns();
    ck_assert_uint_eq(buffer_size(&job->more->output), 2); /* the owner lacks it */
    readers[0].stands = false;
    output_give(job, &readers[0].watch);
    output_pump(job);
    turns();
    all_had(MANY, "de");
    end();
    turns();
    all_ended(MANY);
}
END_TEST

START_TEST(large_output_takes_more_turns)
{
    static char large[400000];

    run_with(300);
    output_add(job, large, sizeof(large));
    output_pump(job);
    n_offers = 0;
    output_turn(&jobs);
    ck_assert_uint_le(n_offers, A_TURN * 4096 / sizeof(large) + 1);
    turns();
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_uint_eq(readers[i].n, sizeof(large));
    end();
    turns();
    all_ended(300);
}
END_TEST

START_TEST(results_that_are_read_do_not_keep_others_from_giving_way)
{
    enum { N = 300, READ = 200 };

    for (uint32_t i = 0; i < N; i++) {
        user->n_jobs = plugin.n_jobs = 1;
        jobs.counters.n_open = 1;
        readers[i].stands = i < READ;
        run(&readers[i]);
        job->flags |= JOB_DETACHED;
        write_output("abc");
        end();
        turns();
        ck_assert_int_eq(readers[i].ended, i >= READ);
    }
    ck_assert_uint_eq(user->n_kept, N);
    ck_assert(!user_evict(user)); /* the oldest 128 are being read */
    ck_assert_uint_eq(user->n_kept, N);
    for (uint32_t i = READ; i < N; i++)
        ck_assert(user_evict(user));
    ck_assert_uint_eq(user->n_kept, READ);
    ck_assert(!user_evict(user) && !user_evict(user));
    for (uint32_t i = 0; i < READ; i++) {
        struct job *read = readers[i].watch.job;

        job_remove_watch(&readers[i].watch);
        job_free(read);
    }
    ck_assert_uint_eq(user->n_kept, 0);
}
END_TEST

START_TEST(output_is_lost_without_memory_to_say_why)
{
    run_with(1);
    job->flags |= JOB_TRUNCATED;
    ck_assert_str_eq(output_lost(job), "wsd had no memory to keep the output");
    ck_assert_ptr_nonnull(job_more(job)); /* for the grace time */
    ck_assert_str_eq(output_lost(job), "wsd had no memory to keep the output");
    end();
}
END_TEST

/* --- batches ------------------------------------------------------------------------------------------------------ */

static uint32_t n_told, n_ended;

static void tell(struct batch_watch *w, const struct batch_info *info)
{
    n_told++;
    n_ended += info->ended;
    ck_assert(!info->cancelled);
}

static struct batch_watch followers[MANY], owner;

/* A new batch with an owner, followed by all of them, which want to see its progress. */
static struct batch_info follow_batch(void)
{
    struct batch_info info;

    memset(followers, 0, sizeof(followers));
    owner = (struct batch_watch){.tell = tell};
    ck_assert_int_eq(jobs_batch_open(&jobs, 7, false, false, false, &owner), 0);
    jobs_batch_look(&owner, &info);
    for (uint32_t i = 0; i < MANY; i++) {
        followers[i].tell = tell;
        ck_assert_int_eq(jobs_batch_watch(&jobs, info.id, 7, true, &followers[i]), 0);
    }
    return info;
}

START_TEST(the_end_of_a_batch_is_told_in_turns)
{
    struct batch_info info = follow_batch();
    uint32_t all = 0;

    jobs_batch_close(&owner);
    for (uint32_t i = 0; !list_empty(&jobs.batches.due); i++) {
        n_told = n_ended = 0;
        batches_turn(&jobs);
        ck_assert_uint_le(n_told, 128);
        all += n_ended;
        if (i == 1) { /* some go, and ask, meanwhile */
            jobs_batch_unwatch(&followers[MANY - 1]);
            jobs_batch_unwatch(&followers[MANY - 2]);
            ck_assert_int_eq(jobs_batch_info(&jobs, info.id, 7, &info), 0);
            ck_assert(info.ended);
        }
    }
    ck_assert_uint_eq(all, MANY - 1); /* with the owner */
    ck_assert_uint_eq(user->n_batches, 0);
    hash_deinit(&jobs.batches.by_id);
}
END_TEST

START_TEST(the_progress_of_a_batch_is_told_in_turns)
{
    uint32_t left, all = 0;

    (void)follow_batch();
    for (uint32_t i = 0; i < MANY; i++)
        followers[i].told = UINT64_MAX; /* something has changed since */
    list_move_all(&jobs.batches.progress_due, &jobs.batches.progress);
    for (int i = 0; !list_empty(&jobs.batches.progress_due); i++) {
        n_told = 0;
        left = 100;
        batches_progress(&jobs, &left);
        ck_assert_uint_le(n_told, 100);
        all += n_told;
        ck_assert_int_le(i, MANY / 100);
    }
    ck_assert_uint_eq(all, MANY);
    batches_free(&jobs);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("watches");
    TCase *output_case = tcase_create("output"), *batches = tcase_create("batches");

    tcase_add_checked_fixture(output_case, set_up, tear_down);
    tcase_add_test(output_case, the_owner_is_the_first_watch);
    tcase_add_test(output_case, one_watch_has_output_at_once_and_many_have_it_in_turns);
    tcase_add_test(output_case, output_that_comes_in_the_middle_of_a_round_is_for_all);
    tcase_add_test(output_case, a_reader_that_stands_still_keeps_what_it_lacks);
    tcase_add_test(output_case, a_watch_goes_in_the_middle_of_a_round);
    tcase_add_test(output_case, the_last_watch_is_left_in_the_middle_of_a_round);
    tcase_add_test(output_case, the_end_comes_after_the_output_in_the_middle_of_a_round);
    tcase_add_test(output_case, a_job_that_runs_again_begins_a_new_round);
    tcase_add_test(output_case, large_output_takes_more_turns);
    tcase_add_test(output_case, results_that_are_read_do_not_keep_others_from_giving_way);
    tcase_add_test(output_case, output_is_lost_without_memory_to_say_why);
    tcase_add_checked_fixture(batches, set_up, tear_down);
    tcase_add_test(batches, the_end_of_a_batch_is_told_in_turns);
    tcase_add_test(batches, the_progress_of_a_batch_is_told_in_turns);
    suite_add_tcase(s, output_case);
    suite_add_tcase(s, batches);
    return run_suite(s);
}
