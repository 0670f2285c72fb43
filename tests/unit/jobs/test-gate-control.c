/* SPDX-License-Identifier: Apache-2.0
 *
 * test-gate-control.c: functions that are paused or limited: which jobs wait, which go on, in what order. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "jobs/jobs.h"
#include "table/gate.h"
#include "table/job.h"
#include "table/queue.h"
#include "table/state.h"
#include "tests/unit/suite.h"

#define JOBS 64u

static struct jobs jobs;
static struct domain *d;
static struct user users[2] = {{.uid = 1}, {.uid = 2}};
static struct plugin_function functions[2] = {{.name = (char[]){"f"}}, {.name = (char[]){"g"}}};
static struct plugin plugins[2] = {{.request = (char[]){"/dir/a.so"}, .functions = functions},
                                   {.request = (char[]){"b"}, .functions = functions}};
static struct job all[JOBS];
static uint32_t random_state = 1;

static uint32_t dice(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void set_up(void)
{
    jobs = (struct jobs){.options.own_uid = 7};
    list_init(&jobs.domains);
    list_init(&jobs.gates.of_users);
    list_init(&jobs.run_slots.waiting);
    d = calloc(1, sizeof(*d));
    ck_assert_ptr_nonnull(d);
    d->jobs = &jobs;
    list_init(&d->handed);
    list_init(&d->run_slot.waiting);
    list_push_back(&jobs.domains, &d->link); /* a new gate counts what is handed over */
    fair_queue_init(&d->queue, &jobs.flows, &jobs.counters.n_queued);
    for (uint32_t i = 0; i < JOBS; i++) {
        all[i] = (struct job){.user = &users[0], .plugin = &plugins[0], .function = 0, .domain = d};
        list_init(&all[i].link);
    }
}

static void tear_down(void)
{
    ck_assert_uint_eq(jobs.counters.n_queued, 0);
    gates_free(&jobs);
    hash_deinit(&jobs.flows);
    free(d);
}

static int act(enum jobs_gate_action action, const char *plugin, const char *function, uint32_t limit)
{
    const struct jobs_gate_request r = {
        .action = action, .uid = 7, .plugin = plugin, .function = function, .tag = "", .limit = limit};

    return jobs_gate(&jobs, &r);
}

static void enqueue(struct job *job)
{
    job->state = JOB_NEW;
    job_move(job, JOB_QUEUED);
    queue_put(&d->queue, job, false);
}

/* The next that is handed over, or NULL. */
static struct job *hand(void)
{
    for (struct job *job; (job = queue_first(&d->queue));) {
        if (!gate_lets(job))
            continue;
        job_unqueue(job);
        job_move(job, JOB_RUNNING);
        list_push_back(&d->handed, &job->link);
        return job;
    }
    return NULL;
}

static void end(struct job *job)
{
    list_remove(&job->link);
    job_move(job, JOB_SUCCEEDED);
}

static void turn(void)
{
    while (jobs.gates.due)
        gates_turn(&jobs);
}

START_TEST(what_is_paused_waits_and_others_pass)
{
    for (uint32_t i = 0; i < 4; i++) {
        all[i].function = i % 2 & 127u;
        enqueue(&all[i]);
    }
    ck_assert_int_eq(act(JOBS_GATE_PAUSE, "a", "f", 0), 0);
    ck_assert_ptr_eq(hand(), &all[1]);
    ck_assert_ptr_eq(hand(), &all[3]);
    ck_assert_ptr_null(hand());
    ck_assert_uint_eq(jobs.counters.n_queued, 2);
    turn();
    ck_assert_ptr_null(hand());
    ck_assert_int_eq(act(JOBS_GATE_RESUME, "a.so", "f", 0), 0); /* named as it was submitted */
    turn();
    ck_assert_ptr_eq(hand(), &all[0]);
    ck_assert_ptr_eq(hand(), &all[2]);
    ck_assert_ptr_null(hand());
    for (uint32_t i = 0; i < 4; i++)
        end(&all[i]);
    turn();
    ck_assert_uint_eq(jobs.gates.by_name.n, 0); /* nothing stays */
}
END_TEST

START_TEST(as_many_as_the_limit_and_the_next_when_one_ends)
{
    for (uint32_t i = 0; i < 6; i++)
        enqueue(&all[i]);
    ck_assert_ptr_eq(hand(), &all[0]); /* before there is a limit: it counts all the same */
    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "a", "", 2), 0);
    ck_assert_ptr_eq(hand(), &all[1]);
    ck_assert_ptr_null(hand());
    turn();
    ck_assert_ptr_null(hand());
    end(&all[0]);
    ck_assert_ptr_null(hand()); /* not before the turn */
    turn();
    ck_assert_ptr_eq(hand(), &all[2]);
    ck_assert_ptr_null(hand());
    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "a", "", 3), 0);
    turn();
    ck_assert_ptr_eq(hand(), &all[3]);
    ck_assert_ptr_null(hand());
    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "a", "", 0), 0);
    turn();
    ck_assert_ptr_eq(hand(), &all[4]);
    ck_assert_ptr_eq(hand(), &all[5]);
    for (uint32_t i = 1; i < 6; i++)
        end(&all[i]);
}
END_TEST

START_TEST(a_job_cancelled_on_the_way_makes_room)
{
    for (uint32_t i = 0; i < 3; i++)
        enqueue(&all[i]);
    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "a", "f", 1), 0);
    ck_assert_ptr_eq(hand(), &all[0]);
    ck_assert_ptr_null(hand());
    end(&all[0]);
    turn(); /* the second may go on, and is cancelled before it does */
    job_unqueue(&all[1]);
    job_move(&all[1], JOB_CANCELLED);
    turn();
    ck_assert_ptr_eq(hand(), &all[2]);
    end(&all[2]);
}
END_TEST

static int act_tag(enum jobs_gate_action action, const char *tag, uint32_t limit)
{
    const struct jobs_gate_request r = {
        .action = action, .uid = 7, .plugin = "", .function = "", .tag = tag, .limit = limit};

    return jobs_gate(&jobs, &r);
}

START_TEST(a_tag_is_a_gate_like_the_others)
{
    struct job_more more = {.tags = (char[]){"x,y,x"}}, other = {.tags = (char[]){"xy"}};

    for (uint32_t i = 0; i < 4; i++) {
        all[i].more = i < 3 ? &more : &other;
        enqueue(&all[i]);
    }
    ck_assert_ptr_eq(hand(), &all[0]);
    ck_assert_int_eq(act_tag(JOBS_GATE_LIMIT, "x", 2), 0);
    ck_assert_int_eq(act_tag(JOBS_GATE_DRAIN, "x", 0), -EINVAL);
    ck_assert_ptr_eq(hand(), &all[1]);
    ck_assert_ptr_eq(hand(), &all[3]); /* the third waits; this is another tag */
    ck_assert_ptr_null(hand());
    ck_assert_int_eq(act_tag(JOBS_GATE_PAUSE, "y", 0), 0);
    end(&all[0]);
    turn();
    ck_assert_ptr_null(hand()); /* from the one to the other */
    ck_assert_int_eq(act_tag(JOBS_GATE_RESUME, "y", 0), 0);
    turn();
    ck_assert_ptr_eq(hand(), &all[2]);
    end(&all[1]);
    end(&all[2]);
    end(&all[3]);
    ck_assert_int_eq(act_tag(JOBS_GATE_LIMIT, "x", 0), 0);
    turn();
    ck_assert_uint_eq(jobs.gates.by_name.n, 0);
}
END_TEST

START_TEST(only_what_makes_sense)
{
    struct jobs_gate_request r = {.action = JOBS_GATE_PAUSE, .uid = 8, .plugin = "", .function = "", .tag = ""};

    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "", "", 1), -EINVAL);
    ck_assert_int_eq(act(JOBS_GATE_DRAIN, "a", "", 0), -EINVAL);
    ck_assert_int_eq(act(JOBS_GATE_RESUME, "a", "", 0), -ENOENT);
    ck_assert_int_eq(jobs_gate(&jobs, &r), 0);
    ck_assert(jobs.gates.paused);
    ck_assert_int_eq(act(JOBS_GATE_DRAIN, "", "", 0), 0);
    ck_assert(jobs.gates.paused && jobs.gates.drained);
    ck_assert_int_eq(act(JOBS_GATE_RESUME, "", "", 0), 0);
    ck_assert(!jobs.gates.paused && !jobs.gates.drained);
}
END_TEST

START_TEST(there_are_so_many_gates_and_no_more)
{
    char name[16];

    for (uint32_t i = 0; i < JOBS_GATES; i++) {
        snprintf(name, sizeof(name), "p%u", i);
        ck_assert_int_eq(act(JOBS_GATE_PAUSE, name, "", 0), 0);
    }
    ck_assert_int_eq(act(JOBS_GATE_PAUSE, "one more", "", 0), -ENOSPC);
    ck_assert_int_eq(act(JOBS_GATE_LIMIT, "p0", "", 5), 0); /* it is there */
    ck_assert_int_eq(act(JOBS_GATE_RESUME, "p1", "", 0), 0);
    turn();
    ck_assert_int_eq(act(JOBS_GATE_PAUSE, "one more", "", 0), 0);
}
END_TEST

static uint32_t n_running(const struct plugin *plugin, const struct plugin_function *function)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < JOBS; i++)
        n += all[i].state == JOB_RUNNING && all[i].plugin == plugin && (!function || job_function(&all[i]) == function);
    return n;
}

static uint32_t n_running_of(const struct user *user)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < JOBS; i++)
        n += all[i].state == JOB_RUNNING && all[i].user == user;
    return n;
}

/* Whatever happens, in whatever order: no limit is passed, and in the end all run. */
START_TEST(limits_hold_in_any_order_of_events)
{
    uint32_t limits[3] = {0}; /* plugin a, its f, b's g */
    bool paused[3] = {0};
    static const char *const of[3][2] = {{"a", ""}, {"a", "f"}, {"b", "g"}};

    random_state = (uint32_t)_i + 1;
    for (uint32_t i = 0; i < JOBS; i++) {
        all[i].plugin = &plugins[dice(2)];
        all[i].function = dice(2) & 127u;
        all[i].user = &users[dice(2)];
        all[i].priority = (int8_t)dice(2);
        all[i].state = JOB_SUCCEEDED;
    }
    for (uint32_t step = 0; step < 3000; step++) {
        struct job *job = &all[dice(JOBS)];
        uint32_t k = dice(3), before[3], before_of[2] = {n_running_of(&users[0]), n_running_of(&users[1])};

        for (uint32_t i = 0; i < 3; i++)
            before[i] = n_running(&plugins[i == 2], i ? &functions[i == 2] : NULL);
        switch (dice(13)) {
        case 0:
            limits[k] = dice(4);
            (void)act(JOBS_GATE_LIMIT, of[k][0], of[k][1], limits[k]);
            break;
        case 1:
            paused[k] = dice(2);
            (void)act(paused[k] ? JOBS_GATE_PAUSE : JOBS_GATE_RESUME, of[k][0], of[k][1], 0);
            break;
        case 12:
            jobs.options.limits.running_per_user = dice(4);
            jobs.gates.due = true;
            break;
        case 2:
            if (job->state == JOB_QUEUED) {
                job_unqueue(job);
                job_move(job, JOB_CANCELLED);
            }
            break;
        case 3:
            if (job->state == JOB_RUNNING) { /* taken back */
                list_remove(&job->link);
                job_move(job, JOB_QUEUED);
                queue_put(&d->queue, job, true);
            }
            break;
        case 4:
        case 5:
            if (job->state == JOB_RUNNING)
                end(job);
            break;
        case 6:
            if (jobs.gates.due)
                gates_turn(&jobs);
            break;
        case 7:
        case 8:
            if (job_final(job))
                enqueue(job);
            break;
        default:
            (void)hand();
        }
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t now = n_running(&plugins[i == 2], i ? &functions[i == 2] : NULL);
            ck_assert(now <= before[i] || (!paused[i] && (!limits[i] || now <= limits[i])));
        }
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t now = n_running_of(&users[i]);
            ck_assert_uint_eq(now, users[i].n_running);
            ck_assert(now <= before_of[i] || !jobs.options.limits.running_per_user ||
                      now <= jobs.options.limits.running_per_user);
        }
    }
    jobs.options.limits.running_per_user = 0;
    jobs.gates.due = true;
    for (uint32_t i = 0; i < 3; i++)
        if (paused[i])
            ck_assert_int_eq(act(JOBS_GATE_RESUME, of[i][0], of[i][1], 0), 0);
    for (uint32_t i = 0; i < JOBS; i++) {
        for (uint32_t k = 0; k < JOBS; k++)
            if (all[k].state == JOB_RUNNING)
                end(&all[k]);
        turn();
        while (hand())
            ;
        turn();
    }
    for (uint32_t i = 0; i < JOBS; i++)
        ck_assert(job_final(&all[i]));
}
END_TEST

int main(void)
{
    log_set_level(3); /* no notices */
    Suite *s = suite_create("gate");
    TCase *t = tcase_create("gate");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, what_is_paused_waits_and_others_pass);
    tcase_add_test(t, as_many_as_the_limit_and_the_next_when_one_ends);
    tcase_add_test(t, a_job_cancelled_on_the_way_makes_room);
    tcase_add_test(t, a_tag_is_a_gate_like_the_others);
    tcase_add_test(t, only_what_makes_sense);
    tcase_add_test(t, there_are_so_many_gates_and_no_more);
    tcase_add_loop_test(t, limits_hold_in_any_order_of_events, 0, 50);
    suite_add_tcase(s, t);
    return run_suite(s);
}
