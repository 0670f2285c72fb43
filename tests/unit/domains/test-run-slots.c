/* SPDX-License-Identifier: Apache-2.0
 *
 * test-run-slots.c: the limit on running jobs of all domains, which domain is next, and what does not hold a run slot.
 * */
#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/run-slots.h"
#include "table/gate.h"
#include "table/job.h"
#include "table/queue.h"
#include "table/state.h"
#include "tests/unit/suite.h"

#define JOBS    64u
#define DOMAINS 4u

static struct jobs jobs;
static struct domain *domains[DOMAINS];
static struct user users[DOMAINS];
static struct plugin_function function = {.name = (char[]){"f"}};
static struct plugin plugin = {.request = (char[]){"a"}, .functions = &function};
static struct job all[JOBS];
static uint32_t n_jobs, random_state = 1;

static uint32_t dice(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void set_up(void)
{
    jobs = (struct jobs){.options.workers = JOBS, .options.limits = JOBS_LIMITS_DEFAULT};
    list_init(&jobs.domains);
    list_init(&jobs.run_slots.waiting);
    list_init(&jobs.gates.of_users);
    for (uint32_t i = 0; i < DOMAINS; i++) {
        struct domain *d = domains[i] = calloc(1, sizeof(*d));

        ck_assert_ptr_nonnull(d);
        d->priv = calloc(1, sizeof(*d->priv));
        ck_assert_ptr_nonnull(d->priv);
        d->jobs = &jobs;
        list_init(&d->handed);
        list_init(&d->run_slot.waiting);
        list_init(&d->link);
        fair_queue_init(&d->queue, &jobs.flows, &jobs.counters.n_queued);
        users[i] = (struct user){.uid = i + 1};
        list_init(&users[i].kept);
    }
    n_jobs = 0;
}

static void tear_down(void)
{
    for (uint32_t i = 0; i < DOMAINS; i++) {
        free(domains[i]->priv);
        free(domains[i]);
    }
    hash_deinit(&jobs.flows);
    hash_deinit(&jobs.gates.by_name);
}

static struct job *queued(struct domain *d, struct user *user, int priority)
{
    struct job *job = &all[n_jobs++];

    *job = (struct job){.user = user, .plugin = &plugin, .domain = d, .priority = (int8_t)priority};
    list_init(&job->link);
    job_move(job, JOB_QUEUED);
    queue_put(&d->queue, job, false);
    return job;
}

/* As domain_pump() does. */
static struct job *pump_one(struct domain *d)
{
    struct job *job = queue_first(&d->queue);

    if (!job || !run_slots_let(d))
        return NULL;
    queue_turn(&d->queue, job);
    job_unqueue(job);
    job_move(job, JOB_RUNNING);
    run_slots_taken(d, job->user);
    list_push_back(&d->handed, &job->link);
    d->n_handed++;
    return job;
}

static void pump(struct domain *d)
{
    while (pump_one(d))
        ;
}

/* Gives one turn of run slots. Returns the domain that had it, or NULL. */
static struct domain *turn(uint64_t before_usec)
{
    struct domain *d =
        jobs.run_slots.n_running < jobs.options.limits.running ? run_slots_next(&jobs, before_usec) : NULL;

    if (d) {
        d->run_slot.has_turn = true;
        pump(d);
        d->run_slot.has_turn = false;
    }
    return d;
}

static void end(struct job *job)
{
    list_remove(&job->link);
    job->domain->n_handed--;
    job_move(job, JOB_SUCCEEDED);
}

static struct job *running_of(const struct domain *d)
{
    return container_of(d->handed.next, struct job, link);
}

START_TEST(as_many_as_the_limit_and_the_next_when_one_ends)
{
    jobs.options.limits.running = 3;
    for (uint32_t i = 0; i < 5; i++)
        queued(domains[i % 2], &users[i % 2], 0);
    pump(domains[0]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 3);
    ck_assert(!jobs.run_slots.due);
    pump(domains[1]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 3);
    ck_assert_uint_eq(jobs.counters.n_queued, 2);
    ck_assert(!list_empty(&domains[1]->run_slot.waiting));
    end(&all[0]);
    ck_assert(jobs.run_slots.due);
    ck_assert_ptr_eq(turn(0), domains[1]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 3);
    jobs.options.limits.running = 0; /* no limit: the domain waits for nothing */
    pump(domains[1]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 4);
}
END_TEST

START_TEST(no_domain_goes_past_those_that_wait)
{
    jobs.options.limits.running = 1;
    struct job *first = queued(domains[0], &users[0], 0);
    queued(domains[0], &users[0], 0);
    queued(domains[1], &users[1], 0);
    pump(domains[0]);
    pump(domains[1]);
    end(first);
    pump(domains[0]); /* the domain of the completion */
    ck_assert_uint_eq(jobs.run_slots.n_running, 0);
    queued(domains[2], &users[2], 0); /* a new domain must wait, too */
    pump(domains[2]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 0);
    ck_assert_ptr_eq(turn(0), domains[1]);
    end(running_of(domains[1]));
    ck_assert_ptr_eq(turn(0), domains[2]);
    end(running_of(domains[2]));
    ck_assert_ptr_eq(turn(0), domains[0]);
}
END_TEST

/* A user with three domains, another with one, all with a backlog. */
START_TEST(users_take_turns_and_the_domains_of_each)
{
    uint32_t n[DOMAINS] = {0};

    jobs.options.limits.running = 2;
    for (uint32_t i = 0; i < JOBS; i++)
        queued(domains[i % DOMAINS], &users[i % DOMAINS == 3], 0);
    for (uint32_t i = 0; i < DOMAINS; i++)
        pump(domains[i]);
    for (uint32_t i = 0; i < 26; i++) {
        for (uint32_t k = 0; k < DOMAINS; k++)
            if (!list_empty(&domains[k]->handed)) {
                end(running_of(domains[k]));
                break;
            }
        struct domain *d = turn(0);
        for (uint32_t k = 0; k < DOMAINS; k++)
            n[k] += d == domains[k];
        ck_assert_uint_eq(jobs.run_slots.n_running, 2);
    }
    ck_assert_uint_ge(n[3], 12);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_uint_ge(n[k], 4);
}
END_TEST

START_TEST(a_higher_priority_first_and_one_that_has_waited_in_between)
{
    uint32_t low = 0;

    jobs.options.limits.running = 1;
    for (uint32_t i = 0; i < JOBS; i++)
        queued(domains[i % 2], &users[i % 2], i % 2 ? 5 : -5)->accepted_usec = 1000;
    pump(domains[0]);
    pump(domains[1]);
    end(running_of(domains[0]));
    for (uint32_t i = 0; i < AGEING_TURNS; i++) { /* not old enough */
        ck_assert_ptr_eq(turn(999), domains[1]);
        end(running_of(domains[1]));
    }
    for (uint32_t i = 0; i < AGEING_TURNS; i++) {
        struct domain *d = turn(1000);

        low += d == domains[0];
        end(running_of(d));
    }
    ck_assert_uint_eq(low, 1);
}
END_TEST

/* A domain that had its turn and could do nothing with it (no executor yet, paused meanwhile, the disk) leaves the
 * run slot to others. */
START_TEST(a_domain_that_cannot_go_on_holds_no_place)
{
    jobs.options.limits.running = 1;
    struct job *first = queued(domains[0], &users[0], 0);
    struct job *cancelled = queued(domains[1], &users[1], 0);
    queued(domains[2], &users[2], 0);
    for (uint32_t i = 0; i < 3; i++)
        pump(domains[i]);
    end(first);
    job_unqueue(cancelled);
    job_move(cancelled, JOB_CANCELLED);
    ck_assert_ptr_eq(turn(0), domains[2]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 1);
    end(running_of(domains[2]));
    queued(domains[3], &users[3], 0);
    queued(domains[2], &users[2], 0);
    jobs.options.limits.running = 2;
    first = queued(domains[0], &users[0], 0);
    pump(domains[0]);
    jobs.options.limits.running = 1;
    pump(domains[3]);
    pump(domains[2]);
    end(first);
    ck_assert_ptr_eq(run_slots_next(&jobs, 0), domains[3]); /* and it is not pumped: it cannot */
    ck_assert_ptr_eq(turn(0), domains[2]);
    ck_assert_uint_eq(jobs.run_slots.n_running, 1);
}
END_TEST

START_TEST(the_limit_holds_in_any_order_of_events)
{
    random_state = (uint32_t)_i + 1;
    for (uint32_t i = 0; i < JOBS; i++)
        queued(domains[dice(DOMAINS)], &users[dice(DOMAINS)], (int)dice(3));
    for (uint32_t step = 0; step < 2000; step++) {
        struct job *job = &all[dice(JOBS)];
        uint64_t before = jobs.run_slots.n_running, n = 0;

        switch (dice(7)) {
        case 0:
            jobs.options.limits.running = dice(5);
            break;
        case 1:
            if (job->state == JOB_QUEUED) {
                job_unqueue(job);
                job_move(job, JOB_CANCELLED);
            }
            break;
        case 2:
            if (job->state == JOB_RUNNING) { /* taken back */
                list_remove(&job->link);
                job->domain->n_handed--;
                job_move(job, JOB_QUEUED);
                queue_put(&job->domain->queue, job, true);
            }
            break;
        case 3:
            if (job->state == JOB_RUNNING)
                end(job);
            break;
        case 4:
            if (job_final(job)) {
                job->state = JOB_NEW;
                job_move(job, JOB_QUEUED);
                queue_put(&job->domain->queue, job, false);
            }
            break;
        case 5:
            (void)turn(dice(2) ? UINT64_MAX : 0);
            break;
        default:
            pump(domains[dice(DOMAINS)]);
        }
        for (uint32_t i = 0; i < JOBS; i++)
            n += all[i].state == JOB_RUNNING;
        ck_assert_uint_eq(n, jobs.run_slots.n_running);
        ck_assert(n <= before || !jobs.options.limits.running || n <= jobs.options.limits.running);
    }
    jobs.options.limits.running = 1; /* one after the other, all of them, by nothing but turns */
    for (uint32_t i = 0; i < DOMAINS; i++)
        pump(domains[i]);
    for (uint32_t i = 0; i < 2 * JOBS; i++) {
        for (uint32_t k = 0; k < JOBS; k++)
            if (all[k].state == JOB_RUNNING)
                end(&all[k]);
        (void)turn(0);
    }
    ck_assert_uint_eq(jobs.counters.n_queued, 0);
    ck_assert_uint_eq(jobs.run_slots.n_running, 0);
}
END_TEST

int main(void)
{
    log_set_level(3); /* no notices */
    Suite *s = suite_create("run-slots");
    TCase *t = tcase_create("run-slots");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, as_many_as_the_limit_and_the_next_when_one_ends);
    tcase_add_test(t, no_domain_goes_past_those_that_wait);
    tcase_add_test(t, users_take_turns_and_the_domains_of_each);
    tcase_add_test(t, a_higher_priority_first_and_one_that_has_waited_in_between);
    tcase_add_test(t, a_domain_that_cannot_go_on_holds_no_place);
    tcase_add_loop_test(t, the_limit_holds_in_any_order_of_events, 0, 50);
    suite_add_tcase(s, t);
    return run_suite(s);
}
