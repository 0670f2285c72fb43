/* SPDX-License-Identifier: Apache-2.0
 *
 * test-profile.c: samples of threads that stand for workers, and where one of them stands. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ticks.h"
#include "executor/profile.h"
#include "host/backtrace.h"
#include "pool/trace.h"
#include "tests/unit/counts.h"
#include "tests/unit/suite.h"

#define MANY 512u /* threads that share the memory for samples */

struct worker {
    pthread_t thread;
    uint32_t number;
    bool burns, blocks;
    _Atomic bool begun, stops; /* [atomic: release by the worker, acquire by the test; relaxed] */
    sem_t ends;
};

static struct worker workers[MANY];

static void is_there(struct worker *w)
{
    atomic_store_explicit(&w->begun, true, memory_order_release);
}

/* Deep, so that a sample is large. */
static __attribute__((noinline)) unsigned burn(struct worker *w, unsigned depth)
{
    volatile unsigned n = 0;

    if (depth > 0) {
        n = burn(w, depth - 1);
    } else {
        is_there(w);
        while (!atomic_load_explicit(&w->stops, memory_order_relaxed))
            n++;
    }
    return n + 1;
}

static void *work(void *userdata)
{
    struct worker *w = userdata;
    sigset_t set;

    profile_thread_begin(w->number);
    if (w->blocks) {
        sigemptyset(&set);
        sigaddset(&set, SIGPROF);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    if (!w->burns)
        is_there(w);
    else
        (void)burn(w, PROFILE_FRAMES + 10);
    while (sem_wait(&w->ends) < 0)
        ; /* a signal came */
    profile_thread_end();
    return NULL;
}

static void begin(struct worker *w, uint32_t number)
{
    w->number = number;
    sem_init(&w->ends, 0, 0);
    ck_assert_int_eq(pthread_create(&w->thread, NULL, work, w), 0);
    while (!atomic_load_explicit(&w->begun, memory_order_acquire))
        usleep(100);
}

static void end(struct worker *w)
{
    atomic_store_explicit(&w->stops, true, memory_order_relaxed);
    sem_post(&w->ends);
    pthread_join(w->thread, NULL);
}

static void setup(void)
{
    backtrace_init();
    ck_assert_int_eq(profile_init(), 0);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static struct {
    uint32_t n, of[MANY];
    uint64_t weight, lost;
    size_t deepest;
    uintptr_t last[MANY]; /* when the last one was taken */
} found;

static int count(const uintptr_t *sample, uint32_t worker, void *userdata)
{
    size_t n = sample_frames(sample);

    ck_assert_uint_lt(worker, MANY);
    ck_assert(n >= 1 && n <= PROFILE_FRAMES && sample_weight(sample) >= 1);
    ck_assert_uint_eq(sample[SAMPLE_SUBJECT], 0);
    ck_assert_uint_eq(sample[SAMPLE_VICTIM], TRACE_NOBODY);
    ck_assert(sample[SAMPLE_TICKS] >= found.last[worker] && sample[SAMPLE_TICKS] <= ticks_now());
    found.last[worker] = sample[SAMPLE_TICKS];
    found.n++;
    found.of[worker]++;
    found.weight += sample_weight(sample);
    found.deepest = MAX(found.deepest, n);
    return userdata ? *(int *)userdata : 0;
}

static void read_samples(void)
{
    memset(&found, 0, sizeof(found));
    ck_assert_int_eq(profile_read(count, NULL, &found.lost), 0);
}

/* Samples at the highest rate, until there are some of each that burns; check ends what takes for ever. */
static void sample_until(uint32_t n)
{
    do {
        profile_stop();
        ck_assert_int_eq(profile_start(PROFILE_RATE_MAX), 0);
        usleep(100000);
        profile_stop();
        read_samples();
    } while (found.n < n);
}

START_TEST(a_rate_has_bounds)
{
    ck_assert_int_eq(profile_start(0), -EINVAL);
    ck_assert_int_eq(profile_start(PROFILE_RATE_MAX + 1), -EINVAL);
    ck_assert(!profile_is_there());
    ck_assert_int_eq(profile_start(1), 0);
    ck_assert(profile_is_there());
    ck_assert_int_eq(profile_start(PROFILE_RATE_MAX), 0); /* in its place */
    profile_stop();
    ck_assert(profile_is_there());
    profile_forget();
    ck_assert(!profile_is_there());
}
END_TEST

START_TEST(who_burns_is_sampled_and_who_sleeps_is_not)
{
    workers[0].burns = true;
    begin(&workers[0], 0);
    begin(&workers[1], 1);
    sample_until(5);
    ck_assert_uint_eq(found.of[0], found.n);
    ck_assert_uint_eq(found.deepest, PROFILE_FRAMES);
    ck_assert_uint_eq(found.lost, 0);
    profile_forget();
    read_samples();
    ck_assert_uint_eq(found.n, 0);
    end(&workers[0]);
    end(&workers[1]);
}
END_TEST

START_TEST(one_that_begins_meanwhile_is_sampled_and_one_that_ended_stays)
{
    ck_assert_int_eq(profile_start(PROFILE_RATE_MAX), 0);
    workers[0].burns = true;
    begin(&workers[0], 3);
    do {
        usleep(1000);
        read_samples(); /* while it is under way: what is there already */
    } while (found.n < 5);
    end(&workers[0]);
    read_samples();
    ck_assert_uint_ge(found.of[3], 5);
    profile_stop();
    read_samples();
    ck_assert_uint_ge(found.of[3], 5);
    profile_forget();
    read_samples();
    ck_assert_uint_eq(found.n, 0);
}
END_TEST

/* As long as many samples would take. */
static void burns_on(const struct worker *w)
{
    struct timespec now;
    clockid_t clock;

    ck_assert_int_eq(pthread_getcpuclockid(w->thread, &clock), 0);
    clock_gettime(clock, &now);
    for (int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + 50;
         now.tv_sec * 1000 + now.tv_nsec / 1000000 < end;) {
        usleep(1000);
        clock_gettime(clock, &now);
    }
}

START_TEST(none_is_taken_after_the_stop)
{
    workers[0].burns = true;
    begin(&workers[0], 0);
    sample_until(1);
    uint32_t n = found.n;
    burns_on(&workers[0]);
    read_samples();
    ck_assert_uint_le(found.n, n + 1); /* a handler may have begun before */
    end(&workers[0]);
}
END_TEST

START_TEST(what_each_returns_ends_the_reading)
{
    int answer = -ENOSPC;

    workers[0].burns = true;
    begin(&workers[0], 0);
    sample_until(2);
    memset(&found, 0, sizeof(found));
    ck_assert_int_eq(profile_read(count, &answer, &found.lost), -ENOSPC);
    ck_assert_uint_eq(found.n, 1);
    end(&workers[0]);
}
END_TEST

/* Its part of the memory is that of one in many. */
START_TEST(what_finds_no_room_is_counted)
{
    size_t bytes = MAX(PROFILE_BYTES_ALL / MANY, PROFILE_BYTES_MIN);
    size_t one = (SAMPLE_FRAMES + PROFILE_FRAMES) * sizeof(uintptr_t);

    workers[0].burns = true;
    for (uint32_t i = 0; i < MANY; i++)
        begin(&workers[i], i);
    ck_assert_int_eq(profile_start(PROFILE_RATE_MAX), 0);
    do {
        usleep(10000);
        read_samples();
    } while (found.lost == 0);
    profile_stop();
    ck_assert_uint_le(found.of[0], bytes / one);
    ck_assert_uint_ge(found.of[0], bytes / one - 1);
    for (uint32_t i = 0; i < MANY; i++)
        end(&workers[i]);
}
END_TEST

/* --- where one stands --------------------------------------------------------------------------------------------- */

static char text[8192];

START_TEST(where_one_stands_is_told)
{
    workers[0].burns = true;
    begin(&workers[0], 5);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(profile_stack(5, text, sizeof(text)), 0);
        ck_assert_int_eq(strncmp(text, "worker 5", 8), 0);
        ck_assert_ptr_nonnull(strstr(text, ":\n#0 "));
        ck_assert_ptr_nonnull(strstr(text, "\n#9 "));
    }
    end(&workers[0]);
}
END_TEST

START_TEST(also_of_one_that_sleeps)
{
    begin(&workers[0], 5);
    do
        ck_assert_int_eq(profile_stack(5, text, sizeof(text)), 0);
    while (strncmp(text, "worker 5, it sleeps:\n#0 ", 24) != 0);
    end(&workers[0]);
}
END_TEST

START_TEST(a_text_is_cut_to_its_room)
{
    begin(&workers[0], 5);
    memset(text, 'x', sizeof(text));
    ck_assert_int_eq(profile_stack(5, text, 12), 0);
    ck_assert_uint_eq(strlen(text), 11);
    ck_assert_int_eq(text[12], 'x');
    end(&workers[0]);
}
END_TEST

START_TEST(one_that_is_not_there_is_not_asked)
{
    ck_assert_int_eq(profile_stack(5, text, sizeof(text)), -ESRCH);
    begin(&workers[0], 5);
    ck_assert_int_eq(profile_stack(4, text, sizeof(text)), -ESRCH);
    end(&workers[0]);
    ck_assert_int_eq(profile_stack(5, text, sizeof(text)), -ESRCH);
}
END_TEST

START_TEST(one_that_blocks_the_signal_does_not_hang_the_asker)
{
    workers[0].blocks = true;
    begin(&workers[0], 5);
    ck_assert_int_eq(profile_stack(5, text, sizeof(text)), -ETIMEDOUT);
    begin(&workers[1], 6);
    ck_assert_int_eq(profile_stack(6, text, sizeof(text)), 0); /* the next one is */
    ck_assert_int_eq(strncmp(text, "worker 6", 8), 0);
    end(&workers[0]);
    end(&workers[1]);
}
END_TEST

START_TEST(a_signal_of_a_stranger_takes_no_sample)
{
    workers[0].burns = true;
    begin(&workers[0], 0);
    for (int i = 0; i < 100; i++) {
        pthread_kill(workers[0].thread, SIGPROF);
        kill(getpid(), SIGPROF);
    }
    /* it has come to the handler, and back; the kernel drops a signal where the same one is pending */
    while (profile_stack(0, text, sizeof(text)) == -ETIMEDOUT)
        ;
    read_samples();
    ck_assert_uint_eq(found.n, 0);
    ck_assert_uint_eq(found.lost, 0);
    end(&workers[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_rate_has_bounds);
    tcase_add_test(tcase, who_burns_is_sampled_and_who_sleeps_is_not);
    tcase_add_test(tcase, one_that_begins_meanwhile_is_sampled_and_one_that_ended_stays);
    tcase_add_test(tcase, none_is_taken_after_the_stop);
    tcase_add_test(tcase, what_each_returns_ends_the_reading);
    tcase_add_test(tcase, what_finds_no_room_is_counted);
    tcase_add_test(tcase, where_one_stands_is_told);
    tcase_add_test(tcase, also_of_one_that_sleeps);
    tcase_add_test(tcase, a_text_is_cut_to_its_room);
    tcase_add_test(tcase, one_that_is_not_there_is_not_asked);
    tcase_add_test(tcase, one_that_blocks_the_signal_does_not_hang_the_asker);
    tcase_add_test(tcase, a_signal_of_a_stranger_takes_no_sample);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
